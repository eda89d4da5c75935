#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the agent says that processes used is what they say themselves, by getrusage() and /proc: through agent, server and store, read from the blocks by DuckDB. One process stays, one ends before anybody looked.
. tests/lib.inc
need_sampling "process_stats"
[ -d tests/node_modules/@duckdb ] || {
	skip "process_stats" "no DuckDB: run npm ci in tests"
	finish
}
usage="$O/programs/usage"
# NAME STAYS ARGUMENT...: runs one, its account in NAME.json.
run() {
	run_name=$1 run_stays=$2
	shift 2
	launch "$usage" "$@" >"$work/$run_name.out"
	wait_for test -s "$work/$run_name.out"
	sed "s/}/, \"stays\": $run_stays}/" "$work/$run_name.out" >"$work/$run_name.json"
}
start_agent() { # [CONFIG]
	launch "$WICK" agent --server "$url" ${1:+--config "$1"} 2>"$work/agent.log"
	agent=$!
	sends() { curl -s "$url/api/v1/labels" | grep -q process_pid; }
	wait_for sends && return
	fail "the agent sends" "$(cat "$work/agent.log")"
}
stop_agent() {
	kill "$agent"
	wait "$agent"
}

need_server
start_agent
run stays true 0.4 24 3 "$work/file1" stay
run ends false 0.2 8 2 "$work/file2"
wait "${pids##* }" # what it used is known when it has ended, and the kernel has freed it, which may be later: the flush that is under way, and a whole
# one more
{ wait_flush && wait_flush; } || fail "a flush is sent"
stop_agent
# One that stays may be stopped and continued by somebody, which is a switch, after it has given its account.
stays=$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$work/stays.json")
for switches in voluntary nonvoluntary; do
	most=$(cat "/proc/$stays/task"/*/status | awk -v name="${switches}_ctxt_switches:" '$1 == name { n += $2 } END { print n }')
	sed -i "s/}/, \"most_$switches\": $most}/" "$work/stays.json"
done
stop_server # writes the block
node tests/agent/process_stats.mjs "$work/data" "$work/stays.json" "$work/ends.json" >"$work/verdict" 2>&1 || echo "FAILED $(cat "$work/verdict")" >>"$work/verdict"
while read -r verdict text; do
	if [ "$verdict" = ok ]; then pass "$text"; else fail "$text"; fi
done <"$work/verdict"

# Turned off.
rm -rf "$work/data"
echo "process_stats: false" >"$work/agent.yaml"
start_server || {
	fail "the server starts again"
	finish
}
start_agent "$work/agent.yaml"
# A flush of samples of a process that also has used something, as above.
launch "$O/programs/load" 3600 1 50 >/dev/null
load=$!
wait_for grep -qx load "/proc/$load/comm" # no longer the shell that becomes it
wait_cpu 500 "$load" && wait_flush || fail "a flush is sent"
stop_agent
stop_server
check "process_stats: false sends none, of processes whose samples it sends" node tests/agent/process_stats.mjs "$work/data" without "$load"
finish
