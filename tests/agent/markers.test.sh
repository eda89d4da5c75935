#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Markers of real programs, through wick record, as Firefox Profiler sees them.
. tests/lib.inc
need_sampling "markers"
case $O in /*) bin=$O ;; *) bin=$PWD/$O ;; esac
marks=$bin/programs/markers
[ -x "$marks" ] || make -s programs client
seen() { node tests/agent/markers.mjs "$@"; }
# NAME PATTERN WICK-OPTION... -- COMMAND...: records into $work/m.firefox.json
record() {
	record_name=$1 record_pattern=$2
	shift 2
	expect "$record_name" "${record_status:-0}" "$record_pattern" "$WICK" record -F 199 -o "$work/m.firefox.json" "$@"
}

record "a command's markers are recorded" 'markers: 16 of 1 processes' -- "$marks" all
check "spans, instants, fields, names and counters are there" seen "$work/m.firefox.json" all
for version in 62 70 75; do
	"$WICK" convert -q "$work/m.firefox.json" -o "$work/again.firefox.json" --format-version "$version" 2>"$work/err" || fail "convert" "$(cat "$work/err")"
	check "read and written again as version $version they are the same" seen "$work/again.firefox.json" all
done
expect "other formats say that they have no place for them" 0 '6 markers; [1-9][0-9]* counters' "$WICK" convert "$work/m.firefox.json" -o "$work/m.pb.gz"

expect "so does a recording" 0 'markers: 16 of 1 processes, which this format cannot store' "$WICK" record -o "$work/m.pb.gz" -- "$marks" all

record "without markers there are none" 'written to' --no-markers -- "$marks" spin 2000 # 0.2 s of CPU, so that some sample finds it
check "and none are in the file" seen "$work/m.firefox.json" count inner=0

record_status=137
record "one that is killed" 'markers: 100 of 1' -- "$marks" kill
record_status=
check "has all that it made" seen "$work/m.firefox.json" count inner=100
record "one that forks 200 children" 'markers: 200 of 201' -- "$marks" fork 200
check "has the spans of each" seen "$work/m.firefox.json" count inner=200
# Many children that are killed at once after their markers, while others want the CPUs.
"$O/programs/load" 3600 4 "$(if_full 50 25)" >/dev/null &
busy=$!
pids="$pids $busy"
record "one that has 500 children killed" 'markers: 5.?000 of 501' -- "$marks" killed 500
check "has the spans of each" seen "$work/m.firefox.json" count inner=5000
expect_nothing_lost() { ! printf '%s\n' "$expect_output" | grep -E 'lost|could not|another recorder'; }
check "and nothing is called lost" expect_nothing_lost
if [ -n "${WICK_TEST_FULL:-}" ]; then
	record "one that has 500 programs killed" 'markers: 5.?000 of 1.?001' -- "$marks" killed-programs 500
	check "has the spans of each" seen "$work/m.firefox.json" count inner=5000
	check "and nothing is called lost" expect_nothing_lost
	MARKS_WAIT_MS=120000 "$marks" killed 500 &
	record "one that runs already has 500 children killed" 'markers: 5.?000 of 501' -p $!
	check "and nothing is called lost" expect_nothing_lost
fi
kill "$busy"
wait "$busy" 2>/dev/null
record "one that execs itself 100 times" 'markers: 100 of 100' -- "$marks" exec 100
check "has the spans of each program" seen "$work/m.firefox.json" count inner=100
record "one with 2,000 threads" 'markers: 2.?000 of 1' -- "$marks" threads 2000
record "one that is faster than the recorder" 'markers lost: ring buffers were full' -- "$marks" flood 3000000

record "one of more markers than are kept" 'markers dropped across the recording: too many' --max-markers 5000 -- "$marks" flood 100000
sum=$(printf '%s\n' "$expect_output" | awk '{ gsub(",", "") } / markers: / { n += $2 } / markers (lost|dropped)/ { n += $1 } END { print n }')
check "has each of them kept or counted" test "$sum" -eq 100000
check "says so in the file" grep -q 'wick record: markers dropped across the recording: too many' "$work/m.firefox.json"

# Found by itself, and with a span under way.
# PID COMMAND...: records that process until the command succeeds.
record_until() {
	record_until_pid=$1
	shift
	launch "$WICK" record -F 199 -o "$work/m.firefox.json" -p "$record_until_pid" 2>"$work/until.err"
	recorder=$!
	wait_recording $recorder && wait_for "$@"
	kill -INT $recorder
	wait $recorder
	record_until_status=$?
	cat "$work/until.err"
	return $record_until_status
}
launch "$marks" spin 3600000
spin=$!
expect "a process that runs already" 0 'markers: [0-9,.k]+ of 1 processes' record_until "$spin" wait_cpu 100 "$spin"
check "is found by itself" seen "$work/m.firefox.json" some inner
mkfifo "$work/hold"
launch sh -c 'exec "$0" long <"$1"' "$marks" "$work/hold" >"$work/begun"
long=$!
exec 9>"$work/hold"
expect "a span that is under way at the end" 0 'markers: 1 of 1' record_until "$long" grep -qx begun "$work/begun"
check "reaches to the end" seen "$work/m.firefox.json" count job=1
exec 9>&-
kill "$spin"

# At a given time: a span, samples and counters of the time before are not in it, nor in what is said.
"$marks" workers 2 &
workers=$!
pids="$pids $workers"
at=$(($(date +%s) + 4))
record "a recording that begins later" 'markers: [0-9,.k]+ of 1 processes' --at "$at" -d 3 -p "$workers"
samples=$(printf '%s\n' "$expect_output" | sed -nE 's/.*wick record: ([0-9]+) samples.*/\1/p')
check "has nothing of the time before" node tests/agent/markers.mjs "$work/m.firefox.json" since "$at=$samples"
kill "$workers"

# In a pid namespace, where numbers are others.
if unshare -pf --mount-proc true 2>/dev/null; then
	record "a process in a pid namespace" 'markers: 16 of 1' -- unshare -pf --mount-proc "$marks" all
	has_our_numbers() {
		node -e '
			const p = JSON.parse(require("fs").readFileSync(process.argv[1]));
			const [main] = p.threads.filter((t) => t.markers.length > 3);
			if (Number(main.pid) < 10 || Number(main.tid) !== Number(main.pid)) throw new Error(main.pid + " " + main.tid);' "$work/m.firefox.json"
	}
	check "has the numbers that we know it by" has_our_numbers
	# Nobody can be asked any more: the recorder has no CPU until the process has ended.
	mkfifo "$work/begin"
	# shellcheck disable=SC2016 # for the inner shell
	launch "$WICK" record -F 99 -o "$work/m.firefox.json" -- unshare -pf --mount-proc sh -c 'read -r _ <"$1" && exec "$0" all' "$marks" "$work/begin" 2>"$work/ended.err"
	recorder=$!
	wait_recording $recorder
	runs_shell() { pgrep -f "^sh -c read .*$work/begin"; }
	check "one begins" wait_for runs_shell
	inner=$(runs_shell)
	kill -STOP $recorder
	echo go >"$work/begin"
	wait_for sh -c '! [ -e "/proc/$1" ]' sh "$inner" >/dev/null
	kill -CONT $recorder
	wait $recorder
	expect "a process that has ended before it is seen" 0 'markers: 16 of 1' cat "$work/ended.err"
	check "has the numbers that we know it by, too" has_our_numbers
else
	skip "a pid namespace" "unshare is not allowed"
fi

# However it is linked, and from other languages.
if cc -static -O1 -Iclient -o "$work/static" tests/programs/markers.c "$bin/client/libwickmark.a" -lpthread 2>"$work/err"; then
	record "a program that is linked statically" 'markers: 16 of 1' -- "$work/static" all
else
	skip "a static program" "$(head -n 1 "$work/err")"
fi
make -s "$bin/client/libwickmark.so.1" O="$O"
check "a C program with the shared library compiles" cc -std=c11 -O1 -Iclient -o "$work/tiny" client/examples/tiny.c -L"$bin/client" -lwickmark
LD_LIBRARY_PATH=$bin/client record "a C program with the shared library" 'markers: 10 of 1' -- "$work/tiny"
check "the library installs" make -s install-client O="$O" PREFIX="$work/installed"
check "and says where it is" grep -qx "prefix=$work/installed" "$work/installed/lib/pkgconfig/wickmark.pc"
check "a C program with what is installed compiles" cc -std=c11 -O1 -I"$work/installed/include" -o "$work/tiny" client/examples/tiny.c -L"$work/installed/lib" -lwickmark
if uses python3; then
	WICKMARK_LIBRARY=$bin/client/libwickmark.so.1 record "Python" 'markers: 11 of 1' -- python3 client/examples/wickmark.py
	check "has its steps" seen "$work/m.firefox.json" count step=11
else
	skip "Python" "it is not here"
fi
if uses rustc; then
	check "the Rust example compiles" rustc -O -o "$work/rust" client/examples/wickmark.rs -L "$bin/client" -l static=wickmark
	record "Rust" 'markers: 11 of 1' -- "$work/rust"
	check "has its steps" seen "$work/m.firefox.json" count step=11
else
	skip "Rust" "it is not here"
fi
if command -v g++ >/dev/null 2>&1; then
	printf '#include <wickmark.h>\nstatic wickmark_site s = WICKMARK_SITE("A", "b", {"k", nullptr, WICKMARK_INTEGER});\nint main() { wickmark_scope span(&s); }\n' >"$work/cc.cc"
	check "C++ takes the header" g++ -std=c++17 -Wall -Wextra -Werror -Iclient -o "$work/cc" "$work/cc.cc" "$bin/client/libwickmark.a" -lpthread
fi

# No system call and no allocation a marker: as many of them with 100 times the markers, of every kind.
record "10,000 of each kind" 'markers: 40,000 of 1 processes' -- "$marks" each 10000 # the two ends of an asynchronous span are one
check "what counts allocations compiles" cc -shared -fPIC -O2 -D_GNU_SOURCE -fno-builtin -o "$work/count_calls.so" tests/agent/count_calls.c -ldl
# WHAT N FILE
count_allocations() { "$WICK" record -o "$3.firefox.json" --env LD_PRELOAD="$work/count_calls.so" --env WICK_COUNT_TO="$3" -- "$marks" "$1" "$2" 2>"$3.err"; }
count_calls() { "$WICK" record -o "$work/calls.$1.firefox.json" -- strace -f -o "$work/calls.$1" "$marks" each "$1" 2>"$work/calls.$1.err"; } # N
# They mostly wait: all at a time. A recording that fails leaves no count.
counters=
for n in 100 10000; do
	count_allocations each "$n" "$work/allocations.$n" &
	counters="$counters $!"
	if command -v strace >/dev/null 2>&1; then
		count_calls "$n" &
		counters="$counters $!"
	fi
done
for pid in $counters; do wait "$pid"; done
if command -v strace >/dev/null 2>&1; then
	for n in 100 10000; do sed -n '/thread-self/,$p' "$work/calls.$n" | wc -l >"$work/count.$n"; done
	check "strace saw some" test "$(cat "$work/count.100")" -gt 100
	check "markers make no system calls" cmp "$work/count.100" "$work/count.10000"
else
	skip "system calls" "no strace"
fi
check "markers allocate nothing" cmp "$work/allocations.100" "$work/allocations.10000"
count_allocations threads 1 "$work/allocations.thread"
check "a thread does, and that is counted" test "$(cat "$work/allocations.100")" -lt "$(cat "$work/allocations.thread")"
finish
