#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A standalone agent's own CPU and heap profiles, by go tool pprof.
. tests/network.inc
. tests/lib.inc
need_sampling "/debug/pprof of an agent"
uses go || {
	skip "/debug/pprof of an agent" "there is no go tool pprof"
	finish
}
HOME=$work
export HOME
start_server
# Port 0 is none to an agent, so that another one has to be found that is free; where this test has no network of its own, somebody may take it first.
start_agent() {
	for _ in $(seq 20); do
		port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
		launch "$WICK" agent --server "$url" --listen "127.0.0.1:$port" -F 999 >"$work/log" 2>&1
		agent=$!
		wait_sampling "$work/log" $agent && curl -sf -o "$work/healthz" "http://127.0.0.1:$port/healthz" && return
		kill "$agent"
		wait "$agent"
	done
	return 1
}
start_agent >"$work/started"
check "an agent samples" test $? -eq 0
own=http://127.0.0.1:$port
"$O/programs/deep" 3600 >/dev/null &
pids="$pids $!"
has_names() {
	for _ in $(seq 30); do
		go tool pprof -timeout 600 -top -cum -nodecount=500 "$own/debug/pprof/profile?seconds=3" >"$work/top" 2>"$work/err"
		grep -qx 'File: wick' "$work/top" && grep -q ' agent_run' "$work/top" && grep -q ' agent_drain' "$work/top" && return
	done
	cat "$work/top" "$work/err"
	return 1
}
check "it has functions by their names, from the program's beginning on" has_names
has_heap() {
	for _ in $(seq 60); do
		go tool pprof -timeout 600 -top -cum -nodecount=500 -sample_index=alloc_space "$own/debug/pprof/heap" >"$work/top" 2>"$work/err"
		grep -qx 'File: wick' "$work/top" && grep -q ' agent_run' "$work/top" && grep -q ' agent_new' "$work/top" && grep -q ' cmd_agent' "$work/top" && return
		sleep 0.5
	done
	cat "$work/top" "$work/err"
	return 1
}
check "its heap has functions by their names" has_heap
check "as what it allocated" sh -c 'go tool pprof -timeout 600 -top "$0/debug/pprof/allocs" 2>"$1" | grep -qx "Type: alloc_space"' "$own" "$work/err"
check "and goes on" sh -c 'curl -sf "$0/healthz" | grep -qx ok' "$own"
finish
