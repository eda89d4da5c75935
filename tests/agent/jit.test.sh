#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Code made at run time: names and shares of node's and Java's functions against what the programs measured themselves and what perf says of the
# same jitdump; files in other namespaces; files that somebody put there to fool the agent. Recorded without the functions that are known without such files.
. tests/lib.inc
need_sampling "jit"
# From its first moment on, a program is recorded for so long, of which node takes some seconds until it has compiled what it runs. One that runs
# already needs fewer.
warming=${WICK_TEST_SECONDS:-8} seconds=${WICK_TEST_SECONDS:-$(if_full 8 3)}
programs=$PWD/tests/programs
maps=
remove_maps() { for pid in $maps; do rm -rf "/tmp/perf-$pid.map"; done; }
# NAME COMMAND...: a part, with files of its own.
part() {
	export WICK_TEST_OWNER="$work/$1"
	work=$work/$1
	mkdir "$work"
	trap 'remove_maps; end_started' EXIT
	shift
	"$@"
}
top() { "$WICK" convert "$1" -o - --to top | sed -n 's/^ *[^ ]* *\([0-9.]*\)% *[^ ]* *[^ ]* *[^ ]* *\(.*\)/\1 \2/p'; } # FILE: "SHARE NAME" lines, by self
# Functions are JS:*NAME in node 20, LazyCompile:*NAME in node 18.
# NAME TOP HOT COLD SHARE [ERRORS]: the share of HOT in HOT and COLD is the one given, within 1 and ERRORS (4) standard errors of the number of
# samples that $work/err tells; together they are 85 % of what is not native code or the kernel, which take what a busy machine and starting need.
shares() {
	got=$(awk -v h="$3" -v c="$4" 'index($0, h) { hot += $1 } index($0, c) { cold += $1 } /^[0-9.]+ (\[anon|\[unknown|0x)/ { nameless += $1 }
		END { both = hot + cold; printf "%.2f %.2f %.2f", both ? 100 * hot / both : 0, both, nameless }' "$2")
	samples=$(sed -n 's/^wick record: \([0-9,]*\) samples.*/\1/p' "$work/err" | tr -d ,)
	nameless=${got##* } got=${got% *}
	line="$1: ${got% *} % in $3, ${got#* } % in both, $nameless % without a name, of ${samples:-0} samples (it should be ${5:-unknown} %)"
	if awk -v want="$5" -v got="${got% *}" -v sum="${got#* }" -v nameless="$nameless" -v n="${samples:-0}" -v errors="${6:-4}" 'BEGIN {
			by = n ? 1 + errors * sqrt(want * (100 - want) / n) : 0
			exit !(want != "" && n >= 200 && got > want - by && got < want + by && sum > 60 && sum > 85 / 15 * nameless) }'; then
		pass "$line"
	else
		fail "$line" "$(
			head -n 12 "$2"
			cat "$work/err"
		)"
	fi
}
# PID FILE STOP: records the process for $seconds of its CPU time, however long those take, and then makes the file that ends it.
record_running() {
	launch "$WICK" record -F 499 --runtimes none -p "$1" -o "$2" 2>"$work/err"
	recorder=$!
	wait_recording "$recorder" && wait_cpu $((seconds * 1000)) "$1"
	kill -INT "$recorder"
	wait "$recorder"
	recorder_status=$?
	touch "$3"
	return $recorder_status
}
start() { # COMMAND...: runs it in the background; its output is in $work/said
	(cd "$work" && exec "$@") >"$work/said" 2>"$work/said.err" &
	started=$!
	pids="$pids $started"
	maps="$maps $started"
}

# ---- node ----
perf_map() {
	# It ends before the last samples are looked at.
	start "$WICK" record -F 499 --runtimes none -o "$work/basic.pb.gz" -- node --perf-basic-prof "$programs/jit.js" "$warming"
	wait_for pgrep -P "$started" -x node >/dev/null
	maps="$maps $(pgrep -P "$started" -x node)"
	wait "$started" || fail "record node --perf-basic-prof" "$(cat "$work/said.err")"
	cp "$work/said.err" "$work/err"
	top "$work/basic.pb.gz" >"$work/basic.top"
	shares "node's perf map" "$work/basic.top" ":*hotScript" ":*coldScript" "$(cat "$work/said")"
	# Callers too: code made at run time keeps its frame pointers.
	"$WICK" convert -q "$work/basic.pb.gz" -o - --to folded >"$work/basic.folded"
	check "node's callers are named" grep -qE 'timed [^;]*;(JS|LazyCompile):.hotScript ' "$work/basic.folded"
}
jitdump() {
	start "$WICK" record -F 499 --runtimes none -o "$work/prof.pb.gz" -- node --perf-prof --always-sparkplug "$programs/jit.js" "$warming"
	wait "$started" || fail "record node --perf-prof" "$(cat "$work/said.err")"
	cp "$work/said.err" "$work/err"
	top "$work/prof.pb.gz" >"$work/prof.top"
	shares "node's jitdump" "$work/prof.top" ":*hotScript" ":*coldScript" "$(cat "$work/said")"

	# Where the jitdump says lines, they are the function's own.
	if uses go; then
		first=$(grep -n 'function hotScript' "$programs/jit.js" | cut -d : -f 1)
		HOME=$work go tool pprof -symbolize=none -raw "$work/prof.pb.gz" 2>/dev/null | sed -nE 's/.*hotScript .*jit\.js:([0-9]+)(:[0-9]+)? s=.*/\1/p' >"$work/lines"
		if [ -s "$work/lines" ]; then
			check "lines of node's jitdump: $(sort -n "$work/lines" | uniq | tr '\n' ' ')" awk -v first="$first" '$1 < first || $1 > first + 4 { print "line " $1; bad = 1 } END { exit bad }' "$work/lines"
		else
			skip "lines of node's jitdump" "this node's line tables make no sense: $(grep 'debug_info' "$work/err")"
		fi
	else
		skip "lines of node's jitdump" "no go"
	fi
}
# perf beside us, on one run.
beside_perf() {
	uses perf || {
		skip "perf inject --jit" "no perf"
		return
	}
	start node --perf-prof --always-sparkplug "$programs/jit.js" 3600 "$work/stop"
	wait_cpu 500 "$started"
	perf record -q -k mono -e cpu-clock -F 499 -p "$started" -o "$work/perf.data" >/dev/null 2>&1 &
	perf_pid=$!
	pids="$pids $perf_pid"
	record_running "$started" "$work/beside.pb.gz" "$work/stop" || fail "record -p" "$(cat "$work/err")"
	kill -INT "$perf_pid" 2>/dev/null
	wait "$perf_pid"
	wait "$started"
	(cd "$work" && perf inject --jit -i perf.data -o perf.jit) >/dev/null 2>>"$work/err"
	perf report -i "$work/perf.jit" --stdio -F overhead,sym 2>/dev/null | awk '$1 ~ /%$/ { sub(/%/, "", $1); print }' >"$work/perf.top"
	want=$(awk '/:\*hotScript/ { hot += $1 } /:\*coldScript/ { cold += $1 } END { if (hot) printf "%.2f", 100 * hot / (hot + cold) }' "$work/perf.top")
	top "$work/beside.pb.gz" >"$work/beside.top"
	if [ -n "$want" ]; then shares "the same as perf inject --jit says" "$work/beside.top" ":*hotScript" ":*coldScript" "$want" 6; else skip "perf inject --jit" "it names no function of this node: $(head -n 1 "$work/err")"; fi
}
# A container: the file is /tmp/perf-1.map, or jit-1.dump, of another /tmp, and the process is 1.
contained() { # NAME OPTION...
	contained_name=$1
	shift
	start unshare --pid --mount --fork --kill-child sh -c "exec 3<'$programs/jit.js' && mount -t tmpfs none /tmp && cd /tmp && exec node $* - 3600 /tmp/stop <&3"
	wait_for pgrep -P "$started" -x node >/dev/null
	inner=$(pgrep -P "$started" -x node)
	# Not from its first moment: code has its name when node has written the next 4 KiB, and on a fast machine is replaced often at the start.
	wait_for grep -aqs ':\*coldScript' "/proc/$inner/root/tmp/perf-1.map" "/proc/$inner/root/tmp/jit-1.dump" >/dev/null
	record_running "$inner" "$work/inner.pb.gz" "/proc/$inner/root/tmp/stop" || fail "record a container" "$(cat "$work/err")"
	wait "$started"
	top "$work/inner.pb.gz" >"$work/inner.top"
	shares "$contained_name" "$work/inner.top" ":*hotScript" ":*coldScript" "$(cat "$work/said")"
}
# What is put in the file's place. The recording must end in time, say so, and believe none of it.
planted() {
	start node "$programs/jit.js" 3600
	planted="/tmp/perf-$started.map"
	wait_cpu 1500 "$started"
	# Every address that may hold code of its own making.
	while read -r range permissions _ _ _ path; do
		case $permissions in *x*) [ -n "$path" ] || printf '%s %x planted\n' "${range%-*}" $((0x${range#*-} - 0x${range%-*})) ;; esac
	done <"/proc/$started/maps" >"$work/planted"
	refused() { # NAME REASON
		if record_planted "$work/planted.pb.gz" && grep -q "jit $2: " "$work/err" && ! "$WICK" convert -q "$work/planted.pb.gz" -o - --to folded | grep -q planted; then
			pass "$1 is refused, and counted as $2"
		else
			fail "$1 is refused, and counted as $2" "$(cat "$work/err")"
		fi
		rm -rf "$planted"
	}
	rm -rf "$planted" # of a process that had the number before
	mkfifo "$planted"
	refused "a fifo" not_regular
	ln -s "$work/planted" "$planted"
	refused "a symbolic link" not_regular
	mkdir "$planted"
	refused "a directory" not_regular
	cp "$work/planted" "$planted" && chown 12345 "$planted"
	refused "another user's file" owner
	cp "$work/planted" "$planted"
	record_planted "$work/believed.pb.gz" || fail "record" "$(cat "$work/err")"
	"$WICK" convert -q "$work/believed.pb.gz" -o - --to folded >"$work/believed.folded"
	check "while the same file of the process's user is believed" grep -q planted "$work/believed.folded"
	kill "$started"
}
# FILE: for some CPU time of the program; fails if the recording does not end within two minutes after that.
record_planted() {
	launch "$WICK" record -F 499 --runtimes none -p "$started" -o "$1" 2>"$work/err"
	recorder=$!
	wait_recording "$recorder" && wait_cpu 500 "$started"
	kill -INT "$recorder" 2>/dev/null
	wait_for has_ended >/dev/null || kill -KILL "$recorder"
	wait "$recorder"
}
has_ended() { ! grep -qs '^State:.[RSDTt]' "/proc/$recorder/status"; }

# ---- Java ----
java_perfmap() {
	uses java javac jcmd || {
		skip "java" "no java, javac, jcmd (package openjdk-17-jdk-headless)"
		return
	}
	javac -d "$work" "$programs/JitLoad.java" || fail "javac"
	start java -XX:+PreserveFramePointer -cp "$work" JitLoad 3600 "$work/stop"
	wait_cpu 2500 "$started"
	rm -rf "/tmp/perf-$started.map" # of a process that had the number before
	jcmd "$started" Compiler.perfmap >"$work/jcmd" 2>&1
	if [ -s "/tmp/perf-$started.map" ]; then
		record_running "$started" "$work/java.pb.gz" "$work/stop" || fail "record java" "$(cat "$work/err")"
		wait "$started"
		top "$work/java.pb.gz" >"$work/java.top"
		shares "Java's perf map" "$work/java.top" "JitLoad.hotJava(int)" "JitLoad.coldJava(int)" "$(cat "$work/said")"
	else
		skip "java" "jcmd Compiler.perfmap wrote nothing (JDK 17 is the first that does): $(tail -n 1 "$work/jcmd")"
	fi
}

# As many at a time as two CPUs can bear.
if uses node; then
	beside part jitdump jitdump
	[ -z "${WICK_TEST_FULL:-}" ] || beside part perf_map perf_map # as in namespaces
	join_parts
	[ -z "${WICK_TEST_FULL:-}" ] || beside part perf beside_perf # the shares are known without it
	if unshare --pid --mount --fork true 2>/dev/null; then
		beside part inner_map contained "a perf map in namespaces of its own" --perf-basic-prof
		[ -z "${WICK_TEST_FULL:-}" ] || beside part inner_dump contained "a jitdump in namespaces of its own" --perf-prof --always-sparkplug
	else
		skip "in namespaces of its own" "unshare is not allowed"
	fi
	join_parts
	beside part planted planted
else
	skip "node" "no node"
fi
beside part java java_perfmap
join_parts
finish
