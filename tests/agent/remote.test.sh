#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Recordings of several hosts: agents with host names of their own, one of which has no privileges but those of the systemd unit,
# make one profile; failures are named. remote_restart.test.sh kills their server.
. tests/network.inc
. tests/lib.inc
. tests/agent/remote.inc
mkdir -m 700 "$work/tmp/wick-order-killed" # as an agent leaves it that was killed
chown "$(id -u wick-agent 2>/dev/null || id -u nobody)" "$work/tmp/wick-order-killed"

# The server and an agent of one command, on a machine where nothing has ever waited to be sent.
all_in_one() {
	cp "$bin/programs/load" "$work/steady"
	"$work/steady" 3600 1 25 >/dev/null 2>&1 &
	pids="$pids $!"
	launch env WICK_SPOOL="$work/not/there/yet" "$WICK" up --data "$work/up" --listen 127.0.0.1:0 2>"$work/up.log"
	up_pid=$!
	wait_url "$work/up.log" "$up_pid"
	check "the agent of wick up polls" verify asking "$url" "$work/token" 1
	expect "... and records" 0 'of 1 of 1 hosts' "$WICK" record --remote "$url" --no-markers -d 2 -F 199 -o "$work/up.firefox.json"
	check "... with samples" grep -q '"processName":"steady' "$work/up.firefox.json"
	check "... and goes on" verify asking "$url" "$work/token" 1
	expect "the same host can be asked again, in any format" 0 'of 1 of 1 hosts' "$WICK" record --remote "$url" --no-markers -d 1 -o "$work/up.svg"
	check "and it is written" grep -q '<svg' "$work/up.svg"
	kill -INT "$up_pid"
	wait "$up_pid" && pass "... until Ctrl-C" || fail "... until Ctrl-C" "$(cat "$work/up.log")"
}
beside all_in_one

serve 0
agent_command
agent alpha $ours
agent beta $ours
agent delta $ours --no-remote-record
capabilities=+bpf,+perfmon,+sys_ptrace,+dac_read_search,+syslog,+checkpoint_restore
agent gamma $ours --tenant team
cp "$work/token" "$work/token.nobody"
chown 65534 "$work/token.nobody"
agent unit setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps "$capabilities" --ambient-caps "$capabilities" --no-new-privs \
	$ours --token-file "$work/token.nobody"
check "agents ask the server" asking 4
beside check "and say how they are" verify health "$url" "$work/token" alpha beta delta unit

# Gamma is a tenant's host, which is given nothing of the others', and they nothing of its.
of_a_tenant() {
	check "an agent of a tenant sends its profiles there" verify stored "$url" "$work/token" team gamma
	expect "it is recorded for that tenant" 0 'of 1 of 1 hosts' remote --tenant team -d 1 -o "$work/gamma.firefox.json"
}
beside of_a_tenant
expect "for no other one" 1 "no tenant 'others'.*only agents started with --tenant 'others'" remote --tenant others -d 1 -o "$work/none.firefox.json"
expect "nor for that without a name" 1 'host gamma: not responding: no agent' remote --host gamma -d 1 -o "$work/none.firefox.json"
expect "what nobody makes is not written" 1 'no host completed a recording' remote --host nobody -d 1 -o "$work/none.pb.gz"
expect "a wrong token is told" 1 'a token is required' "$WICK" record --remote "$url" -d 1 -o "$work/none.pb.gz"
expect "--remote and a command are for different things" 2 'wick record' remote -- true

# Within the time that is recorded: some CPU time, from when all of them record, of a program whose name no other test has.
worker=together_$$
cp "$bin/programs/workload" "$work/$worker"
work_within() { (verify begun "$url" "$work/token" "$1" alpha beta unit && exec "$work/$worker" "$2") >"$work/begun" 2>&1 & }
work_within 1500 1cpu
expect "three hosts of five are recorded, and the others named" 0 'of 3 of 5 hosts' \
	remote --host alpha --host beta --host unit --host delta --host nobody -d "$(if_full 12 7)" -F 199 -o "$work/all.firefox.json"
printf '%s\n' "$expect_output" >"$work/said"
check "an agent may refuse" grep -q 'host delta: failed: .*--no-remote-record' "$work/said"
check "a host that is not there is named" grep -q 'host nobody: not responding: no agent' "$work/said"
[ -s "$work/all.firefox.json" ] || {
	cat "$work"/*.log
	join_parts
	finish
}
beside check "Firefox Profiler sees the hosts, side by side" verify hosts "$work/all.firefox.json" alpha beta unit
# A busy machine may start one recorder many seconds late: a long recording leaves room for that.
run_together() {
	verify together "$work/all.firefox.json" "$worker" alpha beta unit && return
	work_within 20000 2cpu
	remote --host alpha --host beta --host unit -d 60 -F 199 -o "$work/long.firefox.json" && verify together "$work/long.firefox.json" "$worker" alpha beta unit
}
check "what ran on all of them ran at one time" run_together

# A unit that its host does not have
launch remote --host unit --unit "$missing_unit" -d 1 -o "$work/none.firefox.json" 2>"$work/failed.log"
failing=$!
# A signal while it waits, as Ctrl-C is one
launch "$WICK" record --remote "$url" --token-file "$work/token" --no-markers --host alpha -d 60 -o "$work/none.firefox.json" 2>"$work/cancel.log"
recorder=$!
check "a recording is made" verify state "$url" "$work/token" alpha recording
kill -TERM $recorder # what a shell starts in the background ignores SIGINT
wait $recorder
check "Ctrl-C cancels it" grep -q 'cancelled' "$work/cancel.log"
wait $failing
reason=$(missing_unit_reason)
check "a unit that is not there is told" grep -q "host unit: failed: .*$reason" "$work/failed.log"
check "on the host too" verify gone "$url" "$work/token" alpha
[ ! -e "$work/none.firefox.json" ] && pass "nothing is written then" || fail "nothing is written then"

join_parts
nothing_left() { ! ls -d "$TMPDIR"/wick-order-* 2>/dev/null; }
check "nothing is left behind" wait_for nothing_left
finish
