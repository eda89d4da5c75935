#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a recording costs before and after the program that it records: `wick record -- CMD`, WICK_BENCH_RUNS (20) times each, in turn, of a command of 20 ms
# of CPU time. Of this program and, if WICK_BENCH_OTHER names another one, of that beside it; each with what earlier runs have kept (WICK_CACHE) and
# without; and of a command that is an interpreter. Columns, medians: CPU time of wick and the command, seconds until the command begins, and until wick has
# written its file.
. bench/lib.inc
runs=${WICK_BENCH_RUNS:-20}
cat >"$work/spin.c" <<'END'
#include <time.h>
volatile unsigned long sum;
int main(void)
{
	while (clock() < CLOCKS_PER_SEC * 2 / 100)
		for (int i = 0; i < 10000; i++)
			sum += i;
}
END
cc -O1 -g -o "$work/spin" "$work/spin.c" || exit 1
printf '#!/bin/sh\ndate +%%s.%%N >"%s/began"\nexec "%s/spin"\n' "$work" "$work" >"$work/command"
printf '#!/bin/sh\ndate +%%s.%%N >"%s/began"\nexec python3 -c pass\n' "$work" >"$work/python3"
chmod 755 "$work/command" "$work/python3"
# NAME CACHE PROGRAM COMMAND: a line "CPU BEGIN END" in $work/NAME.
measure() {
	before=$(date +%s.%N)
	WICK_CACHE="$2" /usr/bin/time -o "$work/time" -f '%U %S' "$3" record -o "$work/out.pb.gz" -- "$work/$4" 2>"$work/err" || {
		cat "$work/err" >&2
		exit 1
	}
	after=$(date +%s.%N)
	awk -v a="$before" -v b="$(cat "$work/began")" -v c="$after" '{ printf "%.3f %.3f %.3f\n", $1 + $2, b - a, c - a }' "$work/time" >>"$work/$1"
}
median() { awk -v column="$2" '{ print $column }' "$work/$1" | sort -n | awk '{ v[NR] = $1 } END { printf "%.3f", v[int((NR + 1) / 2)] }'; }
show() { # NAME TEXT
	[ ! -e "$work/$1" ] || printf '%-46s %8s %8s %8s\n' "$2" "$(median "$1" 1)" "$(median "$1" 2)" "$(median "$1" 3)"
}
mkdir -m 700 "$work/cache"
sleep 2.5 # what has just been written is not kept
for kind in command python3; do
	[ "$kind" = command ] || [ -x /usr/bin/python3 ] || continue
	WICK_CACHE="$work/cache" "$WICK" record -o "$work/out.pb.gz" -- "$work/$kind" 2>/dev/null
	for _ in $(seq "$runs"); do
		measure "kept-$kind" "$work/cache" "$WICK" "$kind"
		measure "none-$kind" '' "$WICK" "$kind"
		[ -z "${WICK_BENCH_OTHER:-}" ] || measure "other-$kind" "$work/cache-other" "$WICK_BENCH_OTHER" "$kind"
	done
done
printf '%-46s %8s %8s %8s\n' "medians of $runs runs, seconds" CPU begins ends
show kept-command "a command of 20 ms"
show none-command "... nothing kept"
show other-command "... ${WICK_BENCH_OTHER:-}"
show kept-python3 "an interpreter that does nothing"
show none-python3 "... nothing kept"
show other-python3 "... ${WICK_BENCH_OTHER:-}"
