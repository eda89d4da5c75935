#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The cost of polling for recording requests (docs/remote.md) while there are none: the same load under an agent that polls and accepts, one that polls and rejects, and one that sends profiles but asks
# nothing, one after the other, twice, WICK_BENCH_SECONDS (60) each. The thread that asks is counted by itself, to the microsecond; of the whole agent, what it samples is nearly everything, and wanders.
. bench/lib.inc
seconds=${WICK_BENCH_SECONDS:-60}
start_server
# PID NAME: the CPU ms of its threads of that name so far; all if there is no name.
threads_ms() {
	for task in /proc/"$1"/task/*; do
		[ -n "${2:-}" ] && [ "$(cat "$task/comm")" != "$2" ] || cat "$task/schedstat"
	done | awk '{ ns += $1 } END { printf "%.2f\n", ns / 1e6 }'
}
kb_of() { awk -v name="^$2:" '$0 ~ name { print $2 }' "/proc/$1/status"; }
printf '%-26s %12s %14s %10s %10s %12s\n' "agent, ${seconds} s" "CPU ms" "asking, ms" "RSS MB" "peak MB" "load units"
row() { # NAME OPTION...
	name=$1
	shift
	launch "$WICK" agent --no-debuginfo-upload --spool off "$@" 2>"$work/agent.log"
	agent=$!
	sleep 12 # the first profile is sent, and all that is loaded at the start is there
	all=$(threads_ms "$agent") asking=$(threads_ms "$agent" wick-control)
	units=$(nice -n 19 "$O/programs/load" "$seconds")
	all=$(awk -v a="$(threads_ms "$agent")" -v b="$all" 'BEGIN { printf "%.1f", a - b }')
	asking=$(awk -v a="$(threads_ms "$agent" wick-control)" -v b="$asking" 'BEGIN { printf "%.2f", a - b }')
	printf '%-26s %12s %14s %10.1f %10.1f %12s\n' "$name" "$all" "$asking" "$(kb_of "$agent" VmRSS | awk '{ print $1 / 1024 }')" "$(kb_of "$agent" VmHWM | awk '{ print $1 / 1024 }')" "$units"
	kill "$agent"
	wait "$agent" 2>/dev/null
}
for _ in 1 2; do
	row "accepts requests" --server "$url"
	row "--no-remote-record" --server "$url" --no-remote-record
	row "asks nothing" --export "wick=$url"
done
