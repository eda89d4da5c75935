#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A program that spends its time 90:10 in two functions, beside another busy process: what agent, server and store say, and what record says.
# Shares may be off by five standard errors of as many samples: 3.4 % for 2 s of CPU time at 997 Hz, 1.9 % for 30 s at 199 Hz.
. tests/lib.inc
need_sampling "accuracy"
seconds=${WICK_TEST_SECONDS:-$(if_full 30 2)} rate=$(if_full 199 997)
allowed=$(awk -v n=$((seconds * rate)) 'BEGIN { printf "%.2f", 500 * sqrt(0.09 / n) }')
workload="$O/programs/workload"
within() { awk -v got="$1" -v want="$2" -v by="$3" 'BEGIN { exit !(got >= want - by && got <= want + by) }'; }
# NAME JSON: shares of longTask and shortTask in both. Not in main: while an agent starts on a busy machine, some stacks end below it.
shares() {
	long=$(total_of "$2" longTask) short=$(total_of "$2" shortTask) all=$((long + short))
	l=$(awk -v a="$long" -v b="$all" 'BEGIN { printf "%.2f", b ? 100 * a / b : 0 }')
	s=$(awk -v a="$short" -v b="$all" 'BEGIN { printf "%.2f", b ? 100 * a / b : 0 }')
	if within "$l" 90 "$allowed" && within "$s" 10 "$allowed"; then pass "$1: longTask $l %, shortTask $s % (90 and 10, within $allowed)"; else fail "$1: longTask $l %, shortTask $s % (90 and 10, within $allowed)" "$(head -c 1500 "$2")"; fi
}

launch "$WICK" up --data "$work/up" --listen 127.0.0.1:0 -F $rate --budget 0 2>"$work/up.log"
up_pid=$!
wait_url "$work/up.log" "$up_pid" || {
	fail "wick up starts" "$(cat "$work/up.log")"
	finish
}
pass "wick up starts and prints its address"
check "its agent samples" wait_sampling "$work/up.log" "$up_pid"
"$O/programs/load" 3600 1 30 >/dev/null &
busy=$!
pids="$pids $busy"
launch "$workload" "${seconds}cpu" >"$work/said"
target=$!
# There is something to see, by function name, of a program that still runs.
is_shown() { # PID FUNCTION
	"$WICK" query "process_cpu{process_pid=\"$1\"}" --url "$url" --from now-30m --format json -n 0 -o "$work/early.json" && [ "$(total_of "$work/early.json" "$2")" -gt 0 ]
}
check "functions are shown by name while the program runs" wait_for is_shown "$busy" work
wait "$target"
lost() { curl -s "$url/metrics" | awk '/^wick_agent_samples_incomplete_total.reason="counts_full"/ { lost = $2 } END { print lost + 0 }'; }
# Nearly all of it, or, where the host takes time from this machine that no clock shows, most of it: shares are what is asked for. What the
# agent says that it lost is no secret, and counts.
has_come() {
	"$WICK" query "process_cpu{process_pid=\"$target\"}" --url "$url" --from now-30m --format json -n 0 -o "$work/up.json" &&
		awk -v got="$(total_of "$work/up.json" main)" -v lost="$(lost)" -v part="$1" -v rate=$rate '{ exit !(got > 0 && got / 1e9 + lost / rate > part * $1) }' "$work/said"
}
wait_for has_come 0.9 >/dev/null
check "the samples come, or are counted as lost" has_come 0.6
shares "through agent, server and store" "$work/up.json"
kill "$busy"
wait "$busy" 2>/dev/null
check "kernel functions are named" sh -c "'$WICK' query process_cpu --url '$url' --from now-30m --format folded | grep -qE '[a-z_]+_\[k\]'"
curl -s "$url/metrics" >"$work/metrics"
check "/metrics counts samples" awk '/^wick_agent_samples_total/ { found = $2 > 1000 } END { exit !found }' "$work/metrics"
check "/metrics shows what became of perf maps and jitdumps" grep -q '^wick_agent_jit_problems_total{reason="owner"} ' "$work/metrics"
# Half a ring is 2.5 s of samples. An agent that is kept from the CPU for less loses none; else not more than came while it waited.
waited_ms=$(awk '{ printf "%d", $2 / 1e6 }' "/proc/$up_pid/schedstat" 2>/dev/null)
cpus=$(getconf _NPROCESSORS_ONLN)
most_lost=$((${waited_ms:-0} < 2500 ? 0 : ${waited_ms:-0} * rate * cpus / 1000))
check "of the samples $(lost) were lost, by an agent that waited ${waited_ms:-0} ms for the CPU: $most_lost at most" test "$(lost)" -le "$most_lost"
check "wick profiles itself" sh -c "'$WICK' query 'process_cpu{process_executable_name=\"wick\"}' --url '$url' --from now-30m | grep -qE '% of [0-9.]+m?s total'"
check "/healthz answers" curl -sf "$url/healthz"
kill -INT "$up_pid"
if wait "$up_pid"; then pass "Ctrl-C ends wick up with status 0"; else fail "Ctrl-C ends wick up with status 0" "$(cat "$work/up.log")"; fi
check "no process of it is left" sh -c "! pgrep -f '[w]ick up --data $work'"

"$O/programs/load" 3600 1 30 >/dev/null &
pids="$pids $!"
"$WICK" record -F $rate -o "$work/rec.pb.gz" -- "$workload" "${seconds}cpu" >/dev/null 2>"$work/err" || fail "record works" "$(cat "$work/err")"
"$WICK" convert "$work/rec.pb.gz" -o - --to top >"$work/rec.top"
l=$(awk '$NF == "longTask" { sub(/%/, "", $5); print $5 }' "$work/rec.top") s=$(awk '$NF == "shortTask" { sub(/%/, "", $5); print $5 }' "$work/rec.top")
if within "${l:-0}" 90 "$(awk -v a="$allowed" 'BEGIN { print a + 0.5 }')" && within "${s:-0}" 10 "$allowed"; then pass "through record: longTask $l %, shortTask $s %"; else fail "through record: longTask ${l:-none} %, shortTask ${s:-none} %" "$(head -n 20 "$work/rec.top")"; fi
if uses go; then
	HOME=$work go tool pprof -top -symbolize=none -nodefraction=0 -nodecount=100000 "$work/rec.pb.gz" 2>/dev/null | awk 'seen { print $1, $2, $4, $5, $6 } /flat%/ { seen = 1 }' | sort >"$work/want"
	awk 'seen { print $1, $2, $4, $5, $6 } /flat%/ { seen = 1 }' "$work/rec.top" | sort >"$work/got"
	if [ -s "$work/want" ] && cmp -s "$work/want" "$work/got"; then pass "go tool pprof -top prints our own top table"; else fail "go tool pprof -top prints our own top table" "$(diff "$work/want" "$work/got")"; fi
else
	skip "go tool pprof -top" "no go"
fi
finish
