#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Labels of hosts: of a thousand that are made up, against sums of what was sent; and of this machine, from a real agent.
. tests/lib.inc
node tests/api/host_labels.mjs >"$work/node" 2>&1
status=$?
grep -v ' passed, ' "$work/node"
passed=$(grep -c '^ok ' "$work/node") failed=$(grep -c '^FAILED ' "$work/node")
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || fail "the made-up hosts come to their end" "$(cat "$work/node")"

can_sample >"$work/reason" || {
	skip "labels of this machine" "$(cat "$work/reason")"
	finish
}
start_server
# ZONE: an agent for a few flushes.
run_agent() {
	launch "$WICK" agent --server "$url" --listen 127.0.0.1:0 --config "$work/agent.yaml" --host-label "zone=$1" 2>"$work/agent.$1.log"
	agent=$!
	pids="$pids $agent"
	has_zone() { "$WICK" query "process_cpu{zone=\"$1\"} | sum" --url "$url" | grep -q '100.00%'; }
	wait_for has_zone "$1" || fail "samples of zone $1 come" "$(cat "$work/agent.$1.log")"
	kill "$agent"
	wait "$agent"
}
printf 'host_labels: {rack: r7, zone: never}\n' >"$work/agent.yaml"
run_agent one
run_agent two
ask() { "$WICK" query "$1" --url "$url" --from now-1h --format csv; }
value() { ask "process_cpu | values of $1" | awk -F , 'NR == 2 { print $1 ":" $6 }'; }
model=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
[ -z "$model" ] || check "the CPU is that of /proc/cpuinfo" test "$(value host_cpu_model_name)" = "$model:1"
check "the kernel is that of uname" test "$(value os_version)" = "$(uname -r):1"
check "the distribution is that of os-release" test "$(value os_description)" = "$(. /etc/os-release && echo "$PRETTY_NAME"):1"
check "the agent has its version" test "$(value agent_version)" = "$("$WICK" --version | sed 's/^wick //'):1"
check "labels of the file are there" test "$(value rack)" = r7:1
sum() { ask "$1 | sum" | awk -F , 'NR == 2 { print $1 }'; }
one=$(sum 'process_cpu{zone="one"}') two=$(sum 'process_cpu{zone="two"}') all=$(sum process_cpu)
check "what came of both zones is all there is: $one + $two = $all" test $((one + two)) -eq "$all"
check "the option wins over the file" test "$(sum 'process_cpu{zone="never"}')" = ""
check "groups are those of the time" sh -c "[ \"\$(printf '%s\n' '$(ask 'process_cpu | group by zone, rack | sum' | awk -F , 'NR > 1 { print $1 $2 }' | sort | tr '\n' ' ')')\" = 'oner7 twor7 ' ]"
joined() { ask 'process_cpu | join process_stats on zone' | awk -F , 'NR > 1 && $2 > 0 && $3 > 0 { print $1 }' | sort | tr '\n' ' '; }
check "resource usage is joined by the host's labels" test "$(joined)" = "one two "
check "what the host is makes no series" sh -c "curl -s '$url/api/v1/cardinality' | grep -vq os_version"
finish
