#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `wick up` with its defaults on a machine that has no time for it: a build of this tree by `make -j4`, again and again, and 50 short processes a second, for WICK_BENCH_SECONDS (600); then calm, until the rate is
# what was configured. Prints the rate's mean and its lowest, what share of the stacks is complete, and what the agent took, by what it did.
. bench/lib.inc
make_pid=
trap '[ -z "$make_pid" ] || kill -- "-$make_pid"; cleanup' EXIT
seconds=${WICK_BENCH_SECONDS:-600}
launch "$WICK" up --data "$work/up" --listen 127.0.0.1:0 2>"$work/up.log"
up_pid=$!
wait_url "$work/up.log" "$up_pid"
sleep 15 # what the start takes is not what is measured
metrics() { curl -sf "$url/metrics"; }
value() { sed -n "s/^$1 //p" "$2"; } # METRIC FILE
mkdir "$work/tree"
tar -cf - Makefile bpf client fuzz src third_party tools web 2>/dev/null | tar -xf - -C "$work/tree" --exclude=node_modules
metrics >"$work/before"
export CCACHE_DISABLE=1
launch setsid sh -c 'cd "$1" && while :; do rm -rf build; make -j4 O=build all; done' sh "$work/tree" >"$work/make.log" 2>&1
make_pid=$!
sh -c 'while :; do /bin/true; sleep 0.02; done' &
forks_pid=$!
pids="$pids $forks_pid"
peak=0
: >"$work/rates"
begun=$(date +%s)
while [ $(($(date +%s) - begun)) -lt "$seconds" ]; do
	sleep 5
	metrics >"$work/now" || continue
	value wick_agent_frequency_hz "$work/now" >>"$work/rates"
	rss=$(value wick_agent_resident_bytes "$work/now")
	[ "${rss:-0}" -gt "$peak" ] && peak=$rss
done
metrics >"$work/after"
kill -- "-$make_pid"
make_pid=
kill "$forks_pid"
calm=$(date +%s)
while [ $(($(date +%s) - calm)) -lt 300 ] && [ "$(metrics | sed -n 's/^wick_agent_frequency_hz //p')" != 19 ]; do sleep 1; done
recovered=$(($(date +%s) - calm))
awk -v seconds="$seconds" '{ sum += $1; n++; if (!lowest || $1 < lowest) lowest = $1 } END { printf "rate: mean %.1f Hz (aim: at least 15), lowest %d Hz (the limit is 5), of 19 Hz\n", sum / n, lowest }' "$work/rates"
echo "back at 19 Hz after $recovered s of calm (aim: at most 60)"
diff_of() { awk -v name="$1" 'index($0, name) == 1 { v[FILENAME] += $NF } END { printf "%.6f", v[ARGV[2]] - v[ARGV[1]] }' "$work/before" "$work/after"; }
awk -v complete="$(diff_of 'wick_agent_walks_total{result="complete"}')" -v analysed="$(diff_of 'wick_agent_walks_total{result="analysed"}')" -v all="$(diff_of 'wick_agent_walks_total{')" -v none="$(diff_of 'wick_agent_walks_total{result="no_user')" \
	'BEGIN { printf "stacks: %.2f %% of %d are complete (aim: at least 99)\n", 100 * (complete + analysed) / (all - none), all - none }'
awk -v cpu="$(diff_of wick_agent_cpu_seconds_total)" -v bpf="$(diff_of wick_agent_program_seconds_total)" -v s="$seconds" -v rss="$peak" \
	'BEGIN { printf "agent: %.3f %% of a CPU in the process, %.3f %% in its programs; at most %.1f MB resident (aim: 24)\n", 100 * cpu / s, 100 * bpf / s, rss / 1e6 }'
for work_name in samples processes tables symbols profiles process_stats other; do
	awk -v name="$work_name" -v cpu="$(diff_of "wick_agent_thread_cpu_seconds_total{work=\"$work_name\"}")" -v s="$seconds" 'BEGIN { printf "    %-14s %.4f %% of a CPU\n", name, 100 * cpu / s }'
done
grep "^wick_agent_walks_total" "$work/after" | sed 's/^/    /'
