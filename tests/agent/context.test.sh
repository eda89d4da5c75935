#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A busy process in a cgroup named as a container's is labelled so, through agent, server and store; and rules of relabel_configs keep, drop and change what is sent.
. tests/lib.inc
need_sampling "context"
# Of this run: cgroups are the machine's.
id=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')
uid=$(cat /proc/sys/kernel/random/uuid)
load="$O/programs/load"
# The hierarchy that the agent looks at, as src/agent/process/cgroups.c chooses it.
if [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; then
	root=/sys/fs/cgroup
elif [ "$(stat -fc %T /sys/fs/cgroup/memory 2>/dev/null)" = cgroupfs ]; then
	root=/sys/fs/cgroup/memory
else root=/sys/fs/cgroup/unified; fi
made=
remove_cgroups() {
	for dir in $made; do
		# Who was in it has ended, but may not yet be gone from it.
		for _ in $(seq 50); do
			case $(rmdir "$dir" 2>&1) in *busy*) sleep 0.1 ;; *) break ;; esac
		done
	done
	rmdir "$root/docker" "$root/kubepods/burstable" "$root/kubepods" 2>/dev/null
}
# STOP or CONT: the three programs work only while somebody samples them. One that is stopped does not end.
docker_pid='' pod_pid='' plain_pid=''
all_three() { for pid in $docker_pid $pod_pid $plain_pid; do kill "-$1" "$pid"; done; }
trap 'all_three CONT 2>/dev/null; cleanup; remove_cgroups' EXIT
# DIR SECONDS: a busy process in a new cgroup; sets $busy.
run_in() {
	mkdir -p "$1" 2>"$work/err" || return 1
	made="$1 $(dirname "$1") $made"
	launch sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$1" "$load" "$2" 1 50 >/dev/null 2>"$work/err"
	busy=$!
	wait_for grep -q "^$busy\$" "$1/cgroup.procs"
}
# SELECTOR: how many nanoseconds the server has of it; -1 if the query fails.
total() {
	"$WICK" query "process_cpu{$1}" --url "$url" --from now-30m --format json -n 0 -o "$work/q.json" 2>"$work/err" || {
		echo -1
		return
	}
	node -e 'console.log(JSON.parse(require("fs").readFileSync(process.argv[1])).total)' "$work/q.json"
}
# NAME: the agent that was just started samples all three programs, sends that and ends; sets agent_pid.
sample_all() {
	agent_pid=$!
	pids="$pids $agent_pid"
	wait_sampling "$work/agent.log" "$agent_pid" && all_three CONT && wait_cpu 500 "$docker_pid" "$pod_pid" "$plain_pid" || fail "$1 samples" "$(cat "$work/agent.log")"
	all_three STOP
	kill -INT "$agent_pid"
}
has() { # NAME SELECTOR
	n=$(total "$2")
	if [ "${n:--1}" -gt 0 ]; then pass "$1"; else fail "$1" "$(
		cat "$work/err"
		curl -s "$url/api/v1/labels"
	)"; fi
}
has_not() {
	n=$(total "$2")
	if [ "${n:--1}" -eq 0 ]; then pass "$1"; else fail "$1" "$n ns of {$2} $(cat "$work/err")"; fi
}

if ! run_in "$root/docker/$id" 3600; then
	skip "containers" "cannot make a cgroup below $root: $(cat "$work/err")"
	finish
fi
docker_pid=$busy

# One flush of a recording, read by another's tool where there is one.
record_cpu 500 "$docker_pid" -F 99 -o "$work/rec.pb.gz" -p "$docker_pid" || fail "record works" "$(cat "$work/record.err")"
kill -STOP "$docker_pid"
if uses go; then
	HOME=$work go tool pprof -tags "$work/rec.pb.gz" >"$work/tags" 2>/dev/null
	check "go tool pprof shows container.id" grep -q "$id" "$work/tags"
	check "go tool pprof shows the compiler" grep -qE 'process.executable.compiler' "$work/tags"
else
	skip "go tool pprof -tags" "no go"
fi

# The same of a version 2 hierarchy, where both are mounted: without the other in sight the agent takes it.
unified=/sys/fs/cgroup/unified
if [ "$root" = "$unified" ] || [ "$root" = /sys/fs/cgroup ]; then
	skip "version 2 beside version 1" "$root is all there is, and was tested above"
elif ! unshare -m true 2>/dev/null || ! run_in "$unified/machine.slice/libpod-$id.scope" 3600; then
	skip "version 2 beside version 1" "no mount namespace, or no cgroup below $unified"
else
	launch unshare -m sh -c 'umount /sys/fs/cgroup/memory && exec "$@"' sh "$WICK" record -F 99 -o "$work/v2.pb.gz" -p "$busy" 2>"$work/err"
	recorder=$!
	wait_recording $recorder && wait_cpu 500 "$busy"
	kill -INT $recorder
	wait $recorder || fail "record works without the memory hierarchy" "$(cat "$work/err")"
	gzip -dc "$work/v2.pb.gz" >"$work/v2.pb"
	check "version 2: a cgroup's container" grep -aq "/machine.slice/libpod-$id.scope" "$work/v2.pb"
	check "version 2: its runtime" grep -aq 'podman' "$work/v2.pb"
	check "version 2: its slice" grep -aq 'systemd.slice' "$work/v2.pb"
	kill "$busy"
fi

run_in "$root/kubepods/burstable/pod$uid/$id" 3600 && pod_pid=$busy
[ -n "$pod_pid" ] || fail "a second cgroup can be made" "$(cat "$work/err")"
"$load" 3600 1 50 >/dev/null &
plain_pid=$!
pids="$pids $plain_pid"
all_three STOP
need_server
cat >"$work/agent.yaml" <<YAML
server: $url
frequency: 99
labels: {env: prod}
YAML
launch "$WICK" agent --config "$work/agent.yaml" --label team=a 2>"$work/agent.log"
sample_all "the agent"
wait "$agent_pid" || fail "the agent ends with status 0" "$(cat "$work/agent.log")"
check "the file's frequency counts" grep -q 'at 99 Hz' "$work/agent.log"
has "a container's id is a label" "process_pid=\"$docker_pid\",container_id=\"$id\",container_runtime_name=\"docker\""
has "a pod's uid is a label" "process_pid=\"$pod_pid\",container_id=\"$id\",k8s_pod_uid=\"$uid\""
has_not "a pod's runtime is not guessed" "process_pid=\"$pod_pid\",container_runtime_name=~\".+\""
has_not "a process outside is in no container" "process_pid=\"$plain_pid\",container_id=\"$id\""
has "labels of the file and of the command line" "process_pid=\"$plain_pid\",env=\"prod\",team=\"a\""
has "the parent is a label" "process_pid=\"$plain_pid\",process_parent_pid=\"$$\""
gnu=$(readelf -n "$load" 2>/dev/null | sed -n 's/.*Build ID: //p')
[ -z "$gnu" ] || has "the build-id is a label" "process_pid=\"$plain_pid\",process_executable_build_id_gnu=\"$gnu\""
by=$(readelf -p .comment "$load" 2>/dev/null | sed -n 's/.*GCC: (.*) \([0-9.]*\).*/\1/p' | head -n 1)
[ -z "$by" ] || has "the compiler is a label" "process_pid=\"$plain_pid\",process_executable_compiler=\"gcc $by\""
stop_server

# Rules: only containers; not the pod; another name; no pid.
rm -rf "$work/data"
start_server || {
	fail "the server starts again" "$(cat "$work/server.log")"
	finish
}
cat >"$work/agent.yaml" <<YAML
server: $url
frequency: 99
labels: {env: prod}
relabel_configs:
  - source_labels: [container_id]
    regex: .+
    action: keep
  - source_labels: [k8s.pod.uid]
    regex: $uid
    action: drop
  - source_labels: [process_executable_name, env]
    regex: (.+);(.+)
    target_label: service_name
    replacement: \$2/\$1
  - regex: process_pid|process_parent_pid|env
    action: labeldrop
YAML
launch "$WICK" agent --config "$work/agent.yaml" 2>"$work/agent.log"
sample_all "the agent with rules"
wait "$agent_pid" || fail "the agent with rules ends with status 0" "$(cat "$work/agent.log")"
has "keep keeps, replace sets" "container_id=\"$id\",service_name=\"prod/load\",container_runtime_name=\"docker\""
has_not "keep drops the rest" "container_id=\"\""
has_not "drop drops" "k8s_pod_uid=\"$uid\""
has_not "labeldrop removes labels of samples" "process_pid=~\".+\""
has_not "labeldrop removes labels of the resource" "env=\"prod\""
has "what no rule touches stays" "host_name=\"$(uname -n)\""
stop_server

# The same rules in wick up, whose /metrics count what they drop.
grep -v '^server:' "$work/agent.yaml" >"$work/up.yaml"
launch "$WICK" up --data "$work/up" --listen 127.0.0.1:0 --agent-config "$work/up.yaml" 2>"$work/up.log"
up_pid=$!
if wait_url "$work/up.log" "$up_pid"; then
	all_three CONT
	dropped() { curl -s "$url/metrics" | awk '/^wick_agent_relabel_dropped_total/ { n = $2 } END { exit !(n > 50) }'; }
	check "/metrics counts dropped samples" wait_for dropped
	all_three STOP
	stored() { [ "$(total "service_name=\"prod/load\"")" -gt 0 ]; }
	wait_for stored >/dev/null
	has "wick up takes the agent's file" "service_name=\"prod/load\""
	kill -INT "$up_pid"
	wait "$up_pid" || fail "wick up ends with status 0" "$(cat "$work/up.log")"
else
	fail "wick up starts" "$(cat "$work/up.log")"
fi
finish
