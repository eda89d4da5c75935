#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The sampling rate of `wick up` on a busy machine: it is lowered while sampling is dear, to the lowest rate at most, whatever else the agent has to do, and
# is back soon after the load has gone. The budget is so small here that two threads exceed it which rest most of the time.
. tests/lib.inc
need_sampling "rate"
launch "$WICK" up --data "$work/up" --listen 127.0.0.1:0 -F 40 --budget 0.001 2>"$work/up.log"
up_pid=$!
wait_url "$work/up.log" "$up_pid" || {
	fail "wick up starts" "$(cat "$work/up.log")"
	finish
}
metric() { curl -sf "$url/metrics" | sed -n "s/^$1 //p"; }
rate_is() { [ "$(metric wick_agent_frequency_hz)" = "$1" ]; }
agent_says() { curl -sf "$url/api/v1/agents" | grep -q "\"frequency_hz\":$1,\"frequency_asked_hz\":$2"; }
# That the machine is busy is no reason to read the rings late: the thread that reads them goes first, and no other one.
niceness() { for task in "/proc/$up_pid/task"/*; do printf '%s ' "$(sed 's/^.*) //' "$task/stat" | cut -d' ' -f17)"; done; }
leads() { case "$(niceness)" in '-10 '*-*) return 1 ;; '-10 '*) return 0 ;; *) return 1 ;; esac }
if wait_for leads; then pass "the thread that reads samples runs at nice -10, the others do not"; else fail "the thread that reads samples runs at nice -10, the others do not" "$(niceness)"; fi
# 50 processes a second, each of which execs; two threads with a quarter of a CPU each.
"$O/programs/load" 3600 2 25 >/dev/null 2>&1 &
load_pid=$!
pids="$pids $load_pid"
sh -c 'while :; do /bin/true; sleep 0.02; done' &
forks_pid=$!
pids="$pids $forks_pid"
check "a rate of 40 Hz falls to a quarter, and no further" wait_for rate_is 10
lowest=10
for _ in $(seq "$(if_full 120 20)"); do
	now=$(metric wick_agent_frequency_hz)
	[ -n "$now" ] && [ "$now" -lt "$lowest" ] && lowest=$now
	sleep 0.5
done
if [ "$lowest" -eq 10 ]; then pass "it stays there beside a load and 50 processes a second"; else fail "it stays there beside a load and 50 processes a second" "the lowest was $lowest Hz"; fi
check "the server knows of the lowered rate" wait_for agent_says 10 40
check "the log says why" wait_for grep -q 'sampling at 10 Hz instead of .* (40 Hz configured): sampling may use 0.001% of a CPU' "$work/up.log"
cost=$(metric wick_agent_sampling_cost_ratio) all=$(metric wick_agent_cost_ratio)
if awk -v cost="$cost" -v all="$all" 'BEGIN { exit !(cost > 0.00001 && cost <= all) }'; then pass "sampling costs more than the budget, and less than the agent as a whole"; else fail "sampling costs more than the budget, and less than the agent as a whole" "$cost of $all"; fi
finish
