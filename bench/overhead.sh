#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What profiling costs: the same load under no profiler, the agent at 19 and 99 Hz, and perf record at 99 Hz with frame pointers, WICK_BENCH_SECONDS (60) each.
# "load" is the profiler's own user and system time while the load ran, "life" that from its start to its end: the agent loads its program and the kernel's symbols at the start, perf looks through what it
# wrote at the end. What sampling costs inside the timer interrupt shows in the units that the load got done.
. bench/lib.inc
seconds=${WICK_BENCH_SECONDS:-60}
load="$O/programs/load"
printf '%-22s %9s %9s %9s %13s %9s\n' "profiler, ${seconds} s" "load s" "life s" "peak MB" "load units" "slowdown"
base=
row() { # NAME LOAD LIFE PEAK UNITS
	[ -n "$base" ] || base=$5
	printf '%-22s %9s %9s %9s %13s %8s%%\n' "$1" "$2" "$3" "$4" "$5" "$(awk -v b="$base" -v n="$5" 'BEGIN { printf "%.2f", (b - n) * 100 / b }')"
}
# NAME COMMAND...: runs the profiler beside the load, stops it, prints its row; sets load_cpu and life_cpu.
profile() {
	name=$1
	shift
	launch /usr/bin/time -o "$work/time" -f '%U %S' "$@" >/dev/null 2>"$work/profiler.log"
	timer=$!
	sleep 2
	profiler=$(pgrep -P "$timer")
	pids="$pids $profiler"
	before=$(cpu_of "$profiler")
	units=$("$load" "$seconds")
	load_cpu=$(awk -v a="$(cpu_of "$profiler")" -v b="$before" 'BEGIN { printf "%.2f", a - b }')
	peak=$(peak_of "$profiler")
	kill -INT "$profiler"
	wait "$timer"
	life_cpu=$(tail -n 1 "$work/time" | awk '{ printf "%.2f", $1 + $2 }')
	row "$name" "$load_cpu" "$life_cpu" "$peak" "$units"
}
row none 0 0 0 "$("$load" "$seconds")"
start_server
profile "wick agent, 19 Hz" "$WICK" agent --server "$url" -F 19
profile "wick agent, 99 Hz" "$WICK" agent --server "$url" -F 99
agent_load=$load_cpu agent_life=$life_cpu
profile "perf record, 99 Hz" perf record -q -F 99 -a -g -o "$work/perf.data"
awk -v al="$agent_load" -v a="$agent_life" -v p="$life_cpu" 'BEGIN { if (p) printf "at 99 Hz, wick agent / perf record: %.2f of its time under load, %.2f from start to end (aim: at most 0.25 of perf)\n", al / p, a / p }'
printf 'written: perf.data %s kB; wick sent %s kB of profiles before compression\n' "$(($(stat -c %s "$work/perf.data") / 1000))" \
	"$(curl -s "$url/metrics" | awk '/^wick_ingest_bytes_total/ { printf "%d", $2 / 1000 }')"

# BPF time per sample, in a run of its own, because counting it costs time too.
stats=$(cat /proc/sys/kernel/bpf_stats_enabled 2>/dev/null)
if echo 1 2>/dev/null >/proc/sys/kernel/bpf_stats_enabled; then
	for hz in 19 99; do
		"$WICK" agent --server "$url" -F "$hz" 2>/dev/null &
		agent=$!
		pids="$pids $agent"
		sleep 1
		"$load" 15 >/dev/null
		PATH=$PATH:/usr/sbin bpftool prog show 2>/dev/null | awk -v hz="$hz" '/perf_event/ { on = /name (wick|sample|on_|do_|take)/ || 1 }
			on { for (i = 1; i < NF; i++) { if ($i == "run_time_ns") ns = $(i + 1); if ($i == "run_cnt") n = $(i + 1) }; on = 0 }
			END { if (n) printf "BPF per sample at %d Hz: %.0f ns (mean of %d)\n", hz, ns / n, n }'
		kill "$agent"
		wait "$agent" 2>/dev/null
	done
	echo "$stats" >/proc/sys/kernel/bpf_stats_enabled
fi
