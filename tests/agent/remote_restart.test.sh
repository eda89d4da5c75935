#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The server of agents that record is killed and started anew: it gets what was recorded, and why a recording failed that it has forgotten.
. tests/network.inc
. tests/lib.inc
. tests/agent/remote.inc
serve 0
agent_command
agent alpha $ours
alpha=$!
agent beta $ours
beta=$!
agent gamma $ours # an agent reports again what became of its last recording
check "agents ask the server" asking 3

# A failure that the server will have forgotten, of a recording that would go on for long after that.
remote --host gamma --unit "$missing_unit" -d 300 -o "$work/none.firefox.json" >"$work/failed.log" 2>&1
reason=$(missing_unit_reason)
check "a unit that is not there is reported" grep -q "host gamma: failed: .*$reason" "$work/failed.log"

# The server goes away while hosts record, and comes back. They record for as long as a busy machine may take to look at them.
launch "$WICK" record --remote "$url" --token-file "$work/token" --no-markers --host alpha --host beta -d 20 -o "$work/after.firefox.json" 2>"$work/after.log"
recorder=$!
check "two hosts record" verify state "$url" "$work/token" alpha beta recording
kill -9 $server_pid
wait $server_pid 2>/dev/null
# It asks a server that is away for a minute. What the recorders of a busy machine take after the time that they record is not held against it.
over=$(($(date +%s) + 20))
time_is_over() { [ "$(date +%s)" -ge "$over" ]; }
wait_for time_is_over
kill -STOP $recorder
recorded() { ! pgrep -P "$alpha,$beta" -f -- ' --at ' >/dev/null; }
check "they have recorded before it comes back" wait_for recorded
# What it does not know any more, as after a crash, is why a recording failed; its agent says it again.
index=$(grep -l "$missing_unit" "$work"/data/recordings/*/recording.json)
sed -i 's/"state":"failed","why":"[^"]*"/"state":"waiting","why":""/' "$index"
serve "${url##*:}"
kill -CONT $recorder
wait $recorder && pass "a server that was killed and started anew gets what was recorded" ||
	fail "a server that was killed and started anew gets what was recorded" "$(cat "$work/after.log" "$work/alpha.log" "$work/server.log")"
check "from all" grep -q 'of 2 of 2 hosts' "$work/after.log"
check "an agent reports the reason of a failure again after a crash" verify reason "$url" "$work/token" gamma "$reason"
nothing_left() { ! ls -d "$TMPDIR"/wick-order-* 2>/dev/null; }
check "nothing is left behind" wait_for nothing_left
finish
