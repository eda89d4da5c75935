#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What complete stacks cost: the same load under no profiler, wick agent, perf record with frame pointers and with copied stacks, and bpftrace, all at 99 Hz, WICK_BENCH_SECONDS (60) each.
# The load: deep native code without frame pointers (tests/programs/deep.c) on each CPU, a python3 and a node script.
#   samples    of the load's processes that have user frames
#   complete   share of those whose outermost frame is a root, by the same rule for all: tests/complete.mjs
#   user CPU   user and system seconds of the profiler from start to end, perf without the report
#   BPF CPU    seconds that the kernel spent in the profiler's programs (kernel.bpf_stats_enabled); perf's own part in the interrupt is in nobody's account, and shows only in the slowdown
#   slowdown   of the load in WICK_BENCH_PAIRS (7) pairs of runs, without and with the profiler in turn, WICK_BENCH_PAIR_SECONDS (8) each: median, and the range of the middle half
. bench/lib.inc
seconds=${WICK_BENCH_SECONDS:-60} pairs=${WICK_BENCH_PAIRS:-7} pair_seconds=${WICK_BENCH_PAIR_SECONDS:-8}
cpus=$(nproc)
PATH=$PATH:/usr/sbin
export WICK_CACHE="$work/cache-of-bench"
stats=/proc/sys/kernel/bpf_stats_enabled
stats_before=$(cat "$stats" 2>/dev/null || echo 0)
unwind_cleanup() {
	echo "$stats_before" >"$stats" 2>/dev/null
	cleanup
}
trap unwind_cleanup EXIT

cat >"$work/load.py" <<'PY'
import json, sys, time
def nest(depth, data):
    return len(json.dumps(sorted(data, key=lambda x: x["b"]))) if depth == 0 else nest(depth - 1, data) + 1
data = [{"a": i, "b": str(i * 7919 % 500)} for i in range(500)]
end, units = time.time() + float(sys.argv[1]), 0
while time.time() < end:
    nest(20, data)
    units += 1
print(units)
PY
cat >"$work/load.js" <<'JS'
const nest = (depth, data) => (depth === 0 ? JSON.stringify(data.slice().sort((a, b) => (a.b < b.b ? -1 : 1))).length : nest(depth - 1, data) + 1);
const data = Array.from({ length: 500 }, (_, i) => ({ a: i, b: String((i * 7919) % 500) }));
const end = Date.now() + Number(process.argv[2]) * 1000;
let units = 0;
for (; Date.now() < end; units++) nest(20, data);
console.log(units);
JS
# SECONDS: runs the load; prints what deep, python3 and node got done.
run_load() {
	launch python3 "$work/load.py" "$1" >"$work/units.py"
	python_pid=$!
	launch node "$work/load.js" "$1" >"$work/units.js"
	node_pid=$!
	"$O/programs/deep" "$1" "$cpus" >"$work/units.deep"
	wait "$python_pid" "$node_pid"
	echo "$(cat "$work/units.deep") $(cat "$work/units.py") $(cat "$work/units.js")"
}
# PROFILER: starts it and sets profiler (its pid); its times go to $work/time at its end.
start_profiler() {
	case $1 in
	wick) set -- "$WICK" agent --server "$url" -F 99 --budget 0 ;;
	perf-fp) set -- perf record -q -B -N -F 99 -a --call-graph fp -o "$work/perf.data" ;;
	perf-dwarf) set -- perf record -q -B -N -F 99 -a --call-graph dwarf -o "$work/perf.data" ;;
	bpftrace) set -- bpftrace -o "$work/bpftrace.out" -e 'profile:hz:99 /pid/ { @[comm, pid, ustack(127), kstack] = count(); }' ;;
	esac
	launch /usr/bin/time -o "$work/time" -f '%U %S %M' "$@" >/dev/null 2>"$work/profiler.log"
	timer=$!
	sleep 4
	profiler=$(pgrep -P "$timer")
	[ -n "$profiler" ] || {
		echo "bench: $1 does not start: $(tail -n 1 "$work/profiler.log")" >&2
		return 1
	}
	pids="$pids $profiler"
}
stop_profiler() {
	kill -INT "$profiler"
	wait "$timer"
}
# "RUNS NS" of the programs of perf events that are loaded now.
bpf_time() { bpftool -j prog show 2>/dev/null | node -e 'let n = 0, ns = 0; for (const p of JSON.parse(require("fs").readFileSync(0, "utf8") || "[]")) if (p.type === "perf_event") { n += p.run_cnt || 0; ns += p.run_time_ns || 0; } console.log(n, ns)'; }
metric() { curl -s "$url/metrics" | awk -v name="$1" '$1 == name { printf "%d", $2 }'; }
# PROFILER: prints "SAMPLES COMPLETE PERCENT BYTES" from its own output.
count_samples() {
	case $1 in
	wick)
		"$WICK" query 'process_cpu{process_executable_name=~"deep|python.*|node.*"}' --url "$url" --from now-1h --format folded -n 0 >"$work/out"
		node tests/complete.mjs folded "$work/out" | awk '{ printf "%.0f %.0f %s ", $1 / 10101010, $2 / 10101010, $3 }'
		echo $(($(metric wick_ingest_bytes_total) - sent_before))
		;;
	perf-*)
		perf script -i "$work/perf.data" -F comm,pid,ip,sym,dso --no-inline --max-stack 1024 >"$work/out" 2>/dev/null
		echo "$(node tests/complete.mjs perf "$work/out" --comm '^(deep|python3|node)') $(stat -c %s "$work/perf.data")"
		;;
	bpftrace) echo "$(node tests/complete.mjs bpftrace "$work/bpftrace.out" --comm '^(deep|python3|node)') $(stat -c %s "$work/bpftrace.out")" ;;
	esac
}
# PROFILER: the load under it once, for long: its own figures.
long_run() {
	rm -f "$work/perf.data" "$work/bpftrace.out"
	echo 1 2>/dev/null >"$stats"
	start_profiler "$1" || return 1
	sent_before=$(metric wick_ingest_bytes_total)
	before=$(bpf_time)
	run_load "$seconds" >/dev/null
	bpf=$(echo "$before $(bpf_time)" | awk '{ if ($3 > $1) printf "%.2f %.1f", ($4 - $2) / 1e9, ($4 - $2) / ($3 - $1) / 1000; else printf "- -" }')
	[ "$1" = wick ] && sleep 12
	stop_profiler
	# perf 6.1 aborts now and then, by its own assertion or on a smashed stack.
	! grep -qE 'assertion failed|stack smashing' "$work/profiler.log" || echo "bench: $1: $(tail -n 1 "$work/profiler.log")" >&2
	echo "$stats_before" 2>/dev/null >"$stats"
	set -- "$1" $(count_samples "$1") $bpf $(tail -n 1 "$work/time")
	# NAME SAMPLES COMPLETE PERCENT BYTES BPF_S BPF_US USER SYSTEM PEAK_KB
	row=$(awk -v n="$1" -v s="$2" -v p="$4" -v b="$5" -v bpf="$6" -v us="$7" -v cpu="$8 $9" -v peak="${10}" 'BEGIN { split(cpu, c, " "); printf "%-11s %8d %9.2f%% %9.2f %8s %11s %8.1f %10d", n, s, p, c[1] + c[2], bpf, us, peak / 1024, b / 1000 }')
}
# PROFILER: pairs of runs in turn; sets slowdown.
paired_runs() {
	: >"$work/pairs"
	for pair in $(seq "$pairs"); do
		# Which comes first changes, so that a drift of the machine does not count for either.
		if [ $((pair % 2)) -eq 1 ]; then off=$(run_load "$pair_seconds"); fi
		start_profiler "$1" || return 1
		on=$(run_load "$pair_seconds")
		stop_profiler
		if [ $((pair % 2)) -eq 0 ]; then off=$(run_load "$pair_seconds"); fi
		# The geometric mean of the three, each of which counts units of its own.
		echo "$off $on" | awk '{ printf "%.3f\n", 100 * (1 - exp((log($4 / $1) + log($5 / $2) + log($6 / $3)) / 3)) }' >>"$work/pairs"
	done
	slowdown=$(sort -n "$work/pairs" | awk '{ v[NR] = $1 } END { m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2; printf "%.2f%% (%.2f to %.2f)", m, v[int((NR + 3) / 4)], v[int((3 * NR + 1) / 4)] }')
}

start_server
echo "load: deep x $cpus, python3, node; ${seconds} s each; load average before: $(cut -d ' ' -f 1 /proc/loadavg)"
printf '%-11s %8s %10s %9s %8s %11s %8s %10s  %s\n' "profiler" samples complete "user CPU" "BPF CPU" "BPF us/run" "peak MB" "written kB" "slowdown: median (middle half) of $pairs pairs"
# The noise of the method: pairs of runs without any profiler.
: >"$work/pairs"
for pair in $(seq "$pairs"); do
	echo "$(run_load "$pair_seconds") $(run_load "$pair_seconds")" | awk '{ printf "%.3f\n", 100 * (1 - exp((log($4 / $1) + log($5 / $2) + log($6 / $3)) / 3)) }' >>"$work/pairs"
done
printf '%-11s %8s %10s %9s %8s %11s %8s %10s  %s\n' none - - - - - - - "$(sort -n "$work/pairs" | awk '{ v[NR] = $1 } END { printf "%.2f%% (%.2f to %.2f)", v[int((NR + 1) / 2)], v[int((NR + 3) / 4)], v[int((3 * NR + 1) / 4)] }')"
for profiler_name in wick perf-fp perf-dwarf bpftrace; do
	command -v "$(echo "$profiler_name" | sed 's/-.*//; s/^wick$/node/')" >/dev/null 2>&1 || {
		printf '%-11s not installed\n' "$profiler_name"
		continue
	}
	long_run "$profiler_name" && paired_runs "$profiler_name" && printf '%s  %s\n' "$row" "$slowdown"
done

# The walk by tables beside the kernel's walk by frame pointers, on one program built both ways, with stacks equally deep and none of libc's frames in between.
printf '\none program, one thread, 40 calls deep: BPF time of a sample\n'
walk_time() { # NAME PROGRAM COMMAND...
	walk_name=$1 walk_program=$2
	shift 2
	launch "$@" >"$work/walk.out" 2>&1
	walker=$!
	sleep 4
	before=$(bpf_time)
	"$O/programs/$walk_program" 15 "$cpus" 40 0 >/dev/null
	echo "$before $(bpf_time)" | awk -v name="$walk_name" '{ n = $3 - $1; if (n > 0) printf "  %-58s %6.0f ns (mean of %d)\n", name, ($4 - $2) / n, n }'
	[ "${walk_url:-}" ] && curl -s "$walk_url/metrics" >"$work/walk.metrics"
	kill -INT "$walker"
	wait "$walker"
}
if echo 1 2>/dev/null >"$stats"; then
	walk_time "kernel, frame pointers, bpftrace { @[ustack] = count() }" deep_fp bpftrace -e 'profile:hz:99 /pid/ { @[ustack(127)] = count(); }'
	walk_time "the same without a stack: the cost of the rest" deep_fp bpftrace -e 'profile:hz:99 /pid/ { @[pid] = count(); }'
	walk_url=http://127.0.0.1:7969
	for program in deep deep_fp; do
		walk_time "wick, tables, $program; all that a sample takes" "$program" "$WICK" up --data "$work/walk-$program" --listen 127.0.0.1:7969 -F 99 --budget 0
		awk '$1 ~ /^wick_agent_program_seconds[{]/ { gsub(/.*quantile="|"[}]/, "", $1); q[$1] = $2 * 1e9 } $1 == "wick_agent_program_seconds_total" { s = $2 } $1 == "wick_agent_frames_total" { f = $2 } $1 == "wick_agent_samples_total" { n = $2 } $1 ~ /^wick_agent_walks_total[{]/ { w += $2 } $1 == "wick_agent_walks_total{result=\"complete\"}" { c = $2 }
			END { if (n && f) printf "    by its own clock: p50 %.0f ns, p99 %.0f ns (steps of 128), mean %.0f ns; %.1f user frames a sample, %.0f ns a frame, all included; %.2f %% complete\n", q["0.5"], q["0.99"], s * 1e9 / n, f / n, s * 1e9 / f, w ? 100 * c / w : 0 }' "$work/walk.metrics"
	done
	walk_url=
	echo "$stats_before" >"$stats"
fi

# From the start of the agent to the first complete sample: record starts its command when it samples, so the command's own start is the end of that time, if all samples of it are complete, as the last columns show;
# at 997 Hz the first one is a millisecond later. Cold: without the tables that are kept on disk.
printf '\nfrom the start of wick record to that of its command, ms: median (range) of 5; samples of the command complete\n'
cat >"$work/stamp.sh" <<STAMP
date +%s%N >"$work/stamp"
exec "$PWD/$O/programs/deep" 0.5
STAMP
first_sample() { # cold|warm
	: >"$work/first"
	for _ in 1 2 3 4 5; do
		[ "$1" = cold ] && rm -rf "$work/cache"
		begun=$(date +%s%N)
		WICK_CACHE="$work/cache" "$WICK" record -F 997 -o "$work/first.pb" -- sh "$work/stamp.sh" >/dev/null 2>"$work/first.log"
		echo "$begun $(cat "$work/stamp") $(sed -n 's/.*user stacks complete: \([0-9.]*\) % of \([0-9]*\).*/\1 \2/p' "$work/first.log")" >>"$work/first"
	done
	awk '{ printf "%.1f %s %s\n", ($2 - $1) / 1e6, $3, $4 }' "$work/first" | sort -n | awk -v name="$1" '{ v[NR] = $1; c += $2 * $3; n += $3 } END { printf "  %-4s %.0f (%.0f to %.0f); %.2f %% of %d\n", name, v[3], v[1], v[NR], n ? c / n : 0, n }'
}
first_sample cold
first_sample warm

if [ -x "$O/bench/unwind_table" ]; then
	printf '\ntables: rows, bytes and time\n'
	"$O/bench/unwind_table" -n 3 /lib/x86_64-linux-gnu/libc.so.6 /lib/x86_64-linux-gnu/libstdc++.so.6 /lib/x86_64-linux-gnu/libLLVM-14.so.1 "$(command -v node)" "$(readlink -f "$(command -v python3)")" 2>&1 | cut -c 1-150
fi
