#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The sampling rate of `wick up` on a busy machine: it is lowered while sampling is dear, to the lowest rate at most, whatever else the agent has to do, and
# is back soon after the load has gone. The budget is so small here that any machine exceeds it; beside a load and a storm of processes in the full run.
. tests/lib.inc
need_sampling "rate"
budget=$(if_full 0.001 0.0001)
launch "$WICK" up --data "$work/up" --listen 127.0.0.1:0 -F 40 --budget "$budget" 2>"$work/up.log"
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
if [ -n "${WICK_TEST_FULL:-}" ]; then
	# 50 processes a second, each of which execs; two threads with a quarter of a CPU each.
	launch "$O/programs/load" 3600 2 25 >/dev/null 2>&1
	launch sh -c 'while :; do /bin/true; sleep 0.02; done'
	check "a rate of 40 Hz falls to a quarter, and no further" wait_for rate_is 10
	lowest=10
	for _ in $(seq 120); do
		now=$(metric wick_agent_frequency_hz)
		[ -n "$now" ] && [ "$now" -lt "$lowest" ] && lowest=$now
		sleep 0.5
	done
	if [ "$lowest" -eq 10 ]; then pass "it stays there beside a load and 50 processes a second"; else fail "it stays there beside a load and 50 processes a second" "the lowest was $lowest Hz"; fi
	check "the server knows of the lowered rate" wait_for agent_says 10 40
	check "the log says why" wait_for grep -q 'sampling at 10 Hz instead of .* (40 Hz configured): sampling may use 0.001% of a CPU' "$work/up.log"
else
	check "the server knows of a lowered rate" wait_for agent_says '[12][0-9]' 40
	check "the log says why" wait_for grep -q 'sampling at [12]. Hz instead of .* (40 Hz configured): sampling may use 0.0001% of a CPU' "$work/up.log"
fi
cost=$(metric wick_agent_sampling_cost_ratio) all=$(metric wick_agent_cost_ratio)
if awk -v cost="$cost" -v all="$all" -v budget="$budget" 'BEGIN { exit !(cost > budget / 100 && cost <= all) }'; then pass "sampling costs more than the budget, and less than the agent as a whole"; else fail "sampling costs more than the budget, and less than the agent as a whole" "$cost of $all, the budget is $budget% of a CPU"; fi
finish
