#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks of Java: what tests/programs/jvm/Truth.java says of its own stacks, against what is recorded: interpreted, compiled by each of the compilers,
# with classes that are unloaded, in threads, in a process that runs already, in short ones. With every JDK in WICK_JVMS, else Debian's 17.
. tests/lib.inc
need_sampling "jvm"
[ "$(uname -m)" = x86_64 ] || {
	skip "jvm" "only x86-64 so far"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 20 5)}
programs=$PWD/tests/programs/jvm
debian=/usr/lib/jvm/java-17-openjdk-amd64
[ -x $debian/bin/javac ] || {
	skip "jvm" "no $debian/bin/javac"
	finish
}
check "compiled" $debian/bin/javac --release 8 -Xlint:-options -encoding UTF-8 -d "$work/classes" "$programs/Truth.java"

# NAME SECONDS JAVA-HOME OPTIONS VARIANT...: at least 99 of 100 samples in burn(), which the program spends its time in once it has started, have the
# stack that it wrote down, and none has another one without saying that callers are missing. What has no name is a twentieth.
equal() {
	name=$1 for=$2 home=$3 options=$4
	shift 4
	# shellcheck disable=SC2086
	"$WICK" record -F 199 -o "$work/out.speedscope.json" -- "$home/bin/java" $options -cp "$work/classes" Truth "$for" "$work/log" "$@" 2>"$work/err" &&
		/usr/bin/python3 "$programs/check.py" "$work/out.speedscope.json" "$work/log" >"$work/said" 2>>"$work/err" || {
		fail "$name: recorded" "$(cat "$work/err")"
		return
	}
	if awk '/^samples/ { burn = $5 + 0; equal = $7 + 0; wrong = $11 + 0; lost = $13 + 0 }
		END { exit !(burn >= 30 && equal >= 0.99 * burn && !wrong && lost <= 0.05 * (burn + lost)) }' "$work/said"; then
		pass "$name: $(head -n 1 "$work/said")"
	else
		fail "$name: stacks are those that the program says" "$(cat "$work/said" "$work/err")"
	fi
}

for home in ${WICK_JVMS:-$debian}; do
	if ! version=$("$home/bin/java" -version 2>&1); then
		skip "$home" "$version"
		continue
	fi
	version=$(echo "$version" | sed -n '1s/.*"\(.*\)".*/\1/p')
	equal "$version" "$seconds" "$home" "" plain deep mutual lambdas streams exceptions callbacks privileged handles dispatch initializes unloads unicode threads
	equal "$version, interpreted" "$((seconds * 3 / 5))" "$home" -Xint
	equal "$version, C1" "$((seconds * 3 / 5))" "$home" -XX:TieredStopAtLevel=1
done

java=$debian/bin/java
unmark() { sed -i 's/_\[j\]//g' "$1"; } # FILE: methods are marked as generated code
"$WICK" record -F 199 --runtimes none -o "$work/none.folded" -- $java -cp "$work/classes" Truth 1 "$work/log" plain 2>"$work/err"
if ! grep -q 'Truth' "$work/none.folded" && grep -q 'JavaCalls::call_helper\|JavaMain' "$work/none.folded"; then
	pass "--runtimes none shows native code only"
else
	fail "--runtimes none shows native code only" "$(head -n 5 "$work/none.folded")"
fi
# Short ones: half of their time is the start of the virtual machine, which has methods, too.
for _ in 1 2 3; do
	"$WICK" record -F 499 -o "$work/short.folded" -- $java -cp "$work/classes" Truth 0.3 "$work/log" plain 2>"$work/err"
	unmark "$work/short.folded"
	cat "$work/short.folded"
done >"$work/shorts.folded"
if awk '{ n = $NF; all += n; gsub(/_\[i\]/, "") } /;Truth.main;Truth.repeat;[^;]+;Truth.plain;Truth.(hot|cold);Truth.burn/ { good += n } /;\[function of Java\]/ { lost += n }
	END { exit !(good > 0.1 * all && lost <= 0.02 * all) }' "$work/shorts.folded"; then
	pass "functions of processes that live for a second"
else
	fail "functions of processes that live for a second" "$(cat "$work/err" && head -n 5 "$work/shorts.folded")"
fi
# A process that runs already, by its number, and what doctor says of it.
# It has begun when it says where it is: compilers use the CPU before.
rm "$work/log"
launch $java -cp "$work/classes" Truth 3600 "$work/log" plain
running=$!
wait_for grep -qs plain "$work/log" && wait_cpu 2000 $running
check "a process that runs is recorded" record_cpu 1500 $running -F 199 -p $running -o "$work/running.folded"
unmark "$work/running.folded"
# Of the thread that runs it: compilers take their part of the time.
if awk '{ n = $NF; gsub(/_\[i\]/, "") } /;JavaMain;/ { all += n } /;Truth.main;Truth.repeat;[^;]+;Truth.plain;/ { good += n } /;Truth.plain;Truth.(hot|cold);Truth.burn / { burn += n }
	END { exit !(all && good > 0.9 * all && burn) }' "$work/running.folded"; then
	pass "it shows its functions from the first moment"
else
	fail "it shows its functions from the first moment" "$(head -n 5 "$work/running.folded")"
fi
check "methods that were inlined are shown" grep -q ';java[^;]*_\[i\]' "$work/running.folded"
expect "doctor tells the version" 0 'jvm +HotSpot 17\.[^ ]+ in libjvm\.so' "$WICK" doctor --pid $running --duration 1
kill $running
finish
