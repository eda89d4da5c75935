#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The agent at 99 Hz for WICK_BENCH_MINUTES (10) beside WICK_BENCH_RATE (500) processes that start and stop each second: its memory every 10 s and the slope after the first minute, open files, CPU, and what was
# lost, by reason.
. bench/lib.inc
minutes=${WICK_BENCH_MINUTES:-10}
rate=${WICK_BENCH_RATE:-500}
# Agent and server of wick up are two processes; the first is the agent. Its rate stays what it is, whatever it costs.
launch "$WICK" up --data "$work/data" --listen 127.0.0.1:0 -F 99 --budget 0 2>"$work/agent.log"
agent=$!
wait_url "$work/agent.log" "$agent"
sleep 3 # what the start takes is not what is measured
launch "$O/programs/churn" "$((minutes * 60))" "$rate" >"$work/churn"
churn=$!
begun=$(date +%s)
cpu_before=$(cpu_of "$agent")
printf '%7s %9s %9s %6s %8s\n' "s" "RSS kB" "Anon kB" "fds" "CPU s"
sample_agent() {
	at=$(($(date +%s) - begun))
	awk -v at="$at" -v fds="$(find "/proc/$agent/fd" -mindepth 1 2>/dev/null | wc -l)" -v cpu="$(cpu_of "$agent")" -v before="$cpu_before" '/^VmRSS/ { rss = $2 } /^RssAnon/ { anon = $2 }
		END { printf "%7d %9d %9d %6d %8.2f\n", at, rss, anon, fds, cpu - before }' "/proc/$agent/status" | tee -a "$work/table"
}
while kill -0 "$churn" 2>/dev/null; do
	sample_agent
	sleep 10
done
sample_agent
sleep 11
# Least squares over what came after the first minute, or after a third of a shorter run.
awk -v minutes="$minutes" 'BEGIN { from = minutes > 2 ? 60 : minutes * 20 } $1 >= from { n++; x += $1; y += $2; xx += $1 * $1; xy += $1 * $2; if (!min || $2 < min) min = $2; if ($2 > max) max = $2; if (n == 1) fds = $4; last = $4; cpu = $5; at = $1 }
	END { d = n * xx - x * x; if (d) printf "RSS from %d s on: %d to %d kB, slope %+.1f kB a minute; fds %d to %d; CPU %.2f %% of one\n", from, min, max, 60 * (n * xy - x * y) / d, fds, last, at ? 100 * cpu / at : 0 }' "$work/table"
printf 'churn: %s\n' "$(cat "$work/churn")"
curl -s "$url/metrics" >"$work/metrics"
echo "as the agent counts (wick_agent_*, those above 0):"
grep -E '^wick_agent_(samples|walks|unwind|processes|profiles|stacks|program|binaries|mappings)[a-z_]*(\{[^}]*\})? ' "$work/metrics" | awk '$NF > 0 { print "  " $0 }'
echo "what it complained about:"
grep -iE 'warn|error|cannot' "$work/agent.log" | head -n 10 | sed 's/^/  /'
kill -0 "$agent" 2>/dev/null || {
	echo "the agent died" >&2
	exit 1
}
