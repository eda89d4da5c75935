#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks of Java: what tests/programs/jvm/Truth.java says of its own stacks, against what is recorded: interpreted, compiled by each of the compilers,
# with classes that are unloaded, in threads, in a process that runs already, in short ones. With every JDK in WICK_JVMS, else Debian's 17.
. tests/lib.inc
. tests/agent/truth.inc
need_sampling "jvm"
[ "$(uname -m)" = x86_64 ] || {
	skip "jvm" "only x86-64 so far"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 20 4)}
programs=$PWD/tests/programs/jvm
debian=/usr/lib/jvm/java-17-openjdk-amd64
[ -x $debian/bin/javac ] || {
	skip "jvm" "no $debian/bin/javac"
	finish
}
check "compiled" $debian/bin/javac --release 8 -Xlint:-options -encoding UTF-8 -d "$work/classes" "$programs/Truth.java"

# NAME SECONDS JAVA-HOME OPTIONS VARIANT...: at least 99 of 100 samples in burn(), which the program spends its time in once it has started, have the
# stack that it wrote down, and none has another one without saying that callers are missing. What has no name is a twentieth, besides what is sampled
# while the recorder is stopped. $least is another share.
# With $freed, names are missing of classes that are unloaded before the recorder has the CPU to read them: of how many depends on the machine.
least=0.99 freed=
equal() {
	name=$1 for=$2 home=$3 options=$4
	shift 4
	# shellcheck disable=SC2086
	truth_record "$home/bin/java" $options -cp "$work/classes" Truth "$for" "$work/log" "$@" &&
		/usr/bin/python3 "$programs/check.py" "$work/out.speedscope.json" "$work/log" >"$work/said" 2>>"$work/err" || {
		fail "$name: recorded" "$(cat "$work/err")"
		return
	}
	if awk -v least=$least -v freed=$freed -v stopped="$stopped" '/^samples/ { burn = $5 + 0; equal = $7 + 0; flagged = $9 + 0; wrong = $11 + 0; lost = $13 + 0 }
		END { whole = freed ? burn - flagged : burn
			exit !(burn >= 30 && equal >= least * whole && !wrong && (freed || lost <= 0.05 * (burn + lost) + stopped)) }' "$work/said"; then
		pass "$name: $(head -n 1 "$work/said")"
	else
		fail "$name: stacks are those that the program says" "$(cat "$work/said" "$work/err")"
	fi
}

kept="plain deep mutual lambdas streams exceptions callbacks privileged handles dispatch initializes unicode threads"
for home in ${WICK_JVMS:-$debian}; do
	if ! version=$("$home/bin/java" -version 2>&1); then
		skip "$home" "$version"
		continue
	fi
	version=$(echo "$version" | sed -n '1s/.*"\(.*\)".*/\1/p')
	# shellcheck disable=SC2086
	{
		equal "$version" "$seconds" "$home" "" $kept
		equal "$version, interpreted" "$((seconds / 2))" "$home" -Xint $kept
		equal "$version, C1" "$((seconds / 2))" "$home" -XX:TieredStopAtLevel=1 $kept
	}
	freed=1
	equal "$version, classes unloaded" "$((seconds / 4))" "$home" "" unloads
	freed=
	[ "${version%%[!0-9]*}" -ge 21 ] || continue
	# Frames that are in the heap are read while the sample is taken, and missing in those whose innermost code was not known yet. Of the interpreter,
	# that is new with each bytecode.
	least=0.9
	equal "$version, virtual threads" "$((seconds * 2))" "$home" "" virtual
	equal "$version, virtual threads, C1" "$((seconds * 2))" "$home" -XX:TieredStopAtLevel=1 virtual
	least=0.5
	equal "$version, virtual threads, interpreted" "$((seconds * 2))" "$home" -Xint virtual
	least=0.99
done

java=$debian/bin/java
if [ -n "${WICK_TEST_FULL:-}" ]; then
	truth_hidden 'JavaCalls::call_helper\|JavaMain' Truth $java -cp "$work/classes" Truth 1 "$work/log" plain
	truth_short 0.9 '/;Truth[.]/ || /function of Java/' '/;Truth[.]main/ && !/function of Java/' \
		3 $java -cp "$work/classes" Truth 0.5 "$work/log" plain
fi
# Of the thread that runs it: compilers take their part of the time.
truth_warm=2000 truth_of='/;JavaMain;/'
truth_running '/;Truth.main;Truth.repeat;[^;]+;Truth.plain;/' 'jvm +HotSpot 17\.[^ ]+ in libjvm\.so' $java -cp "$work/classes" Truth 3600 "$work/log" plain
check "down to the innermost one" grep -qE ';Truth.plain;Truth.(hot|cold);Truth.burn ' "$work/running.folded"
check "methods that were inlined are shown" grep -q ';java[^;]*_\[i\]' "$work/marked.folded"
finish
