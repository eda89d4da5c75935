#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Markers of all programs, all the time: an agent collects them, the server answers; recorders go first; servers may be away.
. tests/network.inc
. tests/lib.inc
need_sampling "markers all the time"
unshare --uts true 2>/dev/null || {
	skip "markers all the time" "no namespaces of host names"
	finish
}
case $O in /*) bin=$O ;; *) bin=$PWD/$O ;; esac
marks=$bin/programs/markers
[ -x "$marks" ] || make -s programs client
verify() { node tests/agent/agent_markers.mjs "$@"; }

# Sets url; on the port that it had before, if there was one.
serve() { # PORT
	launch "$WICK" server --data "$work/data" --listen "127.0.0.1:$1" 2>"$work/server.log"
	server_pid=$!
	wait_url "$work/server.log" "$server_pid"
}
# LOG OPTION...: on a host called alpha; sets agent_pid.
agent() {
	agent_log=$1
	shift
	launch unshare --uts sh -c 'hostname alpha && exec "$@"' sh "$WICK" agent --server "$url" --no-debuginfo-upload --spool "$work/spool" "$@" 2>"$work/$agent_log"
	agent_pid=$!
}
stop_agent() {
	kill -TERM "$agent_pid"
	wait "$agent_pid"
}
# NAME HOST: a batch comes before its minute is over, while a program makes as many markers as it takes.
pour_until_early() {
	"$marks" pour 1000000000 &
	pouring=$!
	pids="$pids $pouring"
	check "$1" verify early "$url" "$2"
	kill "$pouring"
}
# LOG PATTERN TIMES: waits until the log has as many such lines, and then whether it has no more.
said() {
	for _ in $(seq 1200); do
		[ "$(grep -c -- "$2" "$work/$1")" -ge "$3" ] && break
		sleep 0.1
	done
	[ "$(grep -c -- "$2" "$work/$1")" -eq "$3" ]
}

serve 0
port=${url##*:}
# Without --markers they stay off.
agent plain.log
check "the agent asks" verify asking "$url"
expect "a program's markers stay off" 3 '' env MARKS_WAIT_MS=3000 "$marks" flood 1 # three looks of an agent that has them on
stop_agent

# A window is a minute long, or less when there are many markers.
agent many.log --markers
check "a program's markers are on" "$marks" flood 300000
pour_until_early "a full window does not wait for its minute" alpha
check "it has the program's markers" verify some "$url" alpha tick 1000
check "what a span says is there" "$marks" all
stop_agent
check "the end sends the last window" verify fields "$url" alpha
sum=$(sed -n 's/.*markers: \([0-9]*\) of [0-9]* processes collected, \([0-9]*\) lost in full ring buffers, \([0-9]*\) dropped as too many.*/\1 \2 \3/p' "$work/many.log" | awk '{ print $1 + $2 + $3 }')
check "each marker was collected or counted" test "$sum" -ge 300016
# "lost N" is a marker, too, but none of the program.
check "and each that was collected is on the server" awk '/ markers: / { gsub(",", ""); for (i = 1; i <= NF; i++) if ($i == "markers:") got = $(i + 1); if (match($0, /; [0-9]+ in [0-9]+ batches sent/)) { split(substr($0, RSTART + 2), f, " "); sent = f[1] } } END { exit !(got > 0 && sent >= got) }' "$work/many.log"

# Recorders go first.
"$marks" workers 4 &
workers=$!
pids="$pids $workers"
agent yields.log --markers
check "workers are found" verify on "$workers"
wait_cpu 200 "$workers"
check "the agent takes hundreds of markers" verify taken "$workers" 4 # which no recorder can get
# Until the agent, which looks each second, has seen it.
launch "$WICK" record --markers-only -p "$workers" -o "$work/r.firefox.json" 2>"$work/recorded"
recorder=$!
said yields.log 'a recorder collects the markers of' 1
wait_cpu 200 "$workers"
kill -INT "$recorder"
wait "$recorder"
expect "a recorder gets the markers of a process that the agent collects" 0 'markers: [0-9,.k]+ of 1 processes' cat "$work/recorded"
check "and is told of no other recorder" sh -c '! grep -q "another recorder" "$1"' sh "$work/recorded"
check "the agent says once that it yields" said yields.log 'a recorder collects the markers of' 1
check "and once that it has them again" said yields.log 'the agent collects markers again$' 1
# A busy machine may keep the agent from looking for as long as the first one takes.
for seconds in 8 60; do
	expect "so does an ordered recording" 0 'of 1 of 1 hosts' "$WICK" record --remote "$url" --host alpha -d $seconds -o "$work/remote.firefox.json"
	[ "$(grep -c 'a recorder collects the markers of' "$work/yields.log")" -lt 2 ] || break
done
check "which has the markers" verify file "$work/remote.firefox.json" inner
check "the agent yields again" said yields.log 'a recorder collects the markers of' 2
check "and has them again" said yields.log 'the agent collects markers again$' 2
wait_cpu 200 "$workers"
stop_agent
check "it has what was before and after, and nothing of between" verify around "$url" alpha "$workers" "$work/r.firefox.json"

# One profile, as Firefox Profiler sees it.
check "the profile of some time opens" verify profile "$url" "$workers" "$work/all.firefox.json"

# A server that is away.
agent away.log --markers
check "workers are found again" verify on "$workers"
wait_cpu 200 "$workers"
kill -9 "$server_pid"
wait "$server_pid" 2>/dev/null
stop_agent
check "what could not be sent waits on disk" sh -c 'ls "$1"/markers/spool/*.rec >/dev/null' sh "$work/spool"
kill "$workers"
serve "$port"
check "the server has what it had" verify around "$url" alpha "$workers" "$work/r.firefox.json"
agent back.log --markers
check "what waited is sent by the next agent" verify newer "$url" alpha "$workers" "$work/all.firefox.json"
stop_agent
check "nothing waits any more" sh -c '! ls "$1"/markers/spool/*.rec 2>/dev/null' sh "$work/spool"
stop_server

# All in one.
launch "$WICK" up --data "$work/up" --listen 127.0.0.1:0 --markers 2>"$work/up.log"
up=$!
wait_url "$work/up.log" "$up"
check "wick up --markers collects them" "$marks" flood 150000
pour_until_early "a full window of it does not wait, either" "$(hostname)"
check "the server has them" verify some "$url" "$(hostname)" tick 1000
check "/metrics counts them" verify metrics "$url"
kill "$up"
wait "$up" 2>/dev/null
finish
