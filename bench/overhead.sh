#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What profiling costs: the same load under no profiler, the agent at 19 and 99 Hz, and perf record at 99 Hz with frame pointers, WICK_BENCH_SECONDS (60) each.
# "cpu" is the profiler's own user and system time; what sampling costs inside the kernel's timer interrupt shows in "work", the units that the load got done.
. bench/lib.inc
seconds=${WICK_BENCH_SECONDS:-60}
load="$O/programs/load"
printf '%-24s %10s %12s %14s %10s\n' "profiler, ${seconds} s" "cpu s" "peak MB" "load units" "slowdown"
base=
row() { # NAME CPU PEAK UNITS
	[ -n "$base" ] || base=$4
	printf '%-24s %10s %12s %14s %9s%%\n' "$1" "$2" "$3" "$4" "$(awk -v b="$base" -v n="$4" 'BEGIN { printf "%.2f", (b - n) * 100 / b }')"
}
row none 0 0 "$("$load" "$seconds")"
start_server
for hz in 19 99; do
	"$WICK" agent --server "$url" -F "$hz" 2>"$work/agent.log" &
	agent=$!
	pids="$pids $agent"
	sleep 2
	before=$(cpu_of "$agent")
	units=$("$load" "$seconds")
	cpu=$(awk -v a="$(cpu_of "$agent")" -v b="$before" 'BEGIN { printf "%.2f", a - b }')
	row "wick agent, $hz Hz" "$cpu" "$(peak_of "$agent")" "$units"
	eval "agent_cpu_$hz=$cpu"
	kill "$agent"
	wait "$agent" 2>/dev/null
done
perf record -q -F 99 -a -g -o "$work/perf.data" >/dev/null 2>&1 &
perf=$!
pids="$pids $perf"
sleep 2
before=$(cpu_of "$perf")
units=$("$load" "$seconds")
cpu=$(awk -v a="$(cpu_of "$perf")" -v b="$before" 'BEGIN { printf "%.2f", a - b }')
row "perf record, 99 Hz" "$cpu" "$(peak_of "$perf")" "$units"
kill -INT "$perf"
wait "$perf" 2>/dev/null
awk -v w="$agent_cpu_99" -v p="$cpu" 'BEGIN { printf "wick agent / perf record, cpu at 99 Hz: %.2f (aim: at most 0.25)\n", p ? w / p : 0 }'
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
