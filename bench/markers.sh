#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What markers cost the program that makes them, off and on, beside a bare loop, two clock_gettime() and a write() a marker; then many
# threads at a steady rate: how many markers came and how many were lost, and what the recorder used.
#   [--threads N] [--rate N] [--seconds N]     200, 1000000 a second in total, 60
set -eu
. bench/lib.inc
threads=200 rate=1000000 seconds=60
while [ $# -gt 1 ]; do
	case $1 in
	--threads) threads=$2 ;;
	--rate) rate=$2 ;;
	--seconds) seconds=$2 ;;
	*)
		echo "markers: unknown option $1" >&2
		exit 2
		;;
	esac
	shift 2
done
make -s O="$O" "$O/bench/markers"
case $O in /*) bin=$O ;; *) bin=$PWD/$O ;; esac
"$bin/bench/markers" off "$work/lines"
"$WICK" record -F 1 -o "$work/on.firefox.json" -- "$bin/bench/markers" on 2>"$work/log" || {
	cat "$work/log"
	exit 1
}
grep -E 'lost' "$work/log" || true
echo "bytes a marker: 32; of a value beyond the first, a flow or a name of its own: 32 for each four more"
printf '\n%s threads, %s markers a second, %s s\n' "$threads" "$rate" "$seconds"
/usr/bin/time -f 'recorder and program: %U s user, %S s system, %M kB' \
	"$WICK" record -F 1 -o "$work/load.firefox.json" -- "$bin/bench/markers" load "$threads" "$rate" "$seconds" >"$work/made" 2>"$work/log" || {
	cat "$work/log"
	exit 1
}
cat "$work/made"
grep -E 'markers|recorder' "$work/log"
ls -l "$work/load.firefox.json" | awk '{ printf "file: %.0f MB\n", $5 / 1e6 }'
# The program's own count against what the recorder says.
awk 'FNR == NR { made = $2; next } { gsub(",", "") }
	/ markers: / { kept = $2 } / markers lost/ { lost = $1 } / markers dropped/ { left = $1 }
	END {
		printf "kept %d + lost %d + left out %d - made %d = %d\n", kept, lost, left, made, kept + lost + left - made
		exit kept + lost + left != made
	}' "$work/made" "$work/log"

make -s O="$O" programs
cc -shared -fPIC -O2 -D_GNU_SOURCE -fno-builtin -o "$work/count_calls.so" tests/agent/count_calls.c -ldl
for n in 100 10000; do
	"$WICK" record -o "$work/s.firefox.json" --env LD_PRELOAD="$work/count_calls.so" --env WICK_COUNT_TO="$work/allocations.$n" -- "$bin/programs/markers" each "$n" 2>/dev/null
	"$WICK" record -o "$work/s.firefox.json" -- strace -f -o "$work/strace" "$bin/programs/markers" each "$n" 2>/dev/null
	sed -n '/thread-self/,$p' "$work/strace" | wc -l >"$work/calls.$n"
done
printf '\n49,500 markers more (spans, instants, counters, asynchronous spans): %s allocations and %s system calls more\n' \
	$(($(cat "$work/allocations.10000") - $(cat "$work/allocations.100"))) $(($(cat "$work/calls.10000") - $(cat "$work/calls.100")))

echo
echo "markers put into the profile of another profiler"
sh bench/annotate.sh
