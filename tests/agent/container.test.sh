#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A program with libwickmark, linked statically, in a container that runc runs: recorded from outside it has the names, markers and
# samples, and the process and thread ids that the host knows it by.
. tests/lib.inc
need_sampling "containers"
command -v runc >/dev/null 2>&1 || {
	skip "containers" "no runc"
	finish
}
case $O in /*) bin=$O ;; *) bin=$PWD/$O ;; esac
workers=4 name=wick-test-$$
make -s "$O/client/libwickmark.a"

# ---- a container of one program ----
mkdir -p "$work/bundle/rootfs/bin" "$work/bundle/rootfs/proc"
if ! cc -static -O1 -Iclient -o "$work/bundle/rootfs/bin/marks" tests/programs/markers.c "$bin/client/libwickmark.a" -lpthread 2>"$work/err"; then
	skip "containers" "$(head -n 1 "$work/err")"
	finish
fi
(cd "$work/bundle" && runc spec) || exit 1
containers=
remove_containers() {
	for id in $containers; do runc --root "$work/runc" delete --force "$id" 2>/dev/null; done
	rmdir "/sys/fs/cgroup/$name-groups" "/sys/fs/cgroup/"*"/$name-groups" 2>/dev/null
	cleanup
}
trap remove_containers EXIT
threads_of() { find "/proc/$1/task" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l; }
# ID [CGROUP]: starts it and waits until it does what it shall; sets pid.
start_container() {
	node -e '
		const fs = require("fs"), [, path, group, ...args] = process.argv, spec = JSON.parse(fs.readFileSync(path));
		Object.assign(spec.process, { terminal: false, args });
		spec.linux.cgroupsPath = group || undefined;
		fs.writeFileSync(path, JSON.stringify(spec));' "$work/bundle/config.json" "${2:-}" /bin/marks workers "$workers"
	containers="$containers $1"
	launch runc --root "$work/runc" run --bundle "$work/bundle" "$1" </dev/null >"$work/log" 2>&1
	runc=$!
	for _ in $(seq 2400); do
		pid=$(runc --root "$work/runc" state "$1" 2>/dev/null | sed -n 's/^ *"pid": \([0-9]*\).*/\1/p')
		[ -n "$pid" ] && [ "$pid" -gt 0 ] && [ "$(cat "/proc/$pid/comm")" = marks ] && [ "$(threads_of "$pid")" -eq "$workers" ] && return
		kill -0 "$runc" 2>/dev/null || break
		sleep 0.05
	done
	return 1
}
# How the host and the container number each thread: "HOST INNER".
number_threads() { for task in "/proc/$pid/task"/*; do awk '/^NSpid:/ { print $2, $NF }' "$task/status"; done >"$work/threads"; }

# OPTION...: records until the process has used so much CPU time that there are hundreds of samples and markers.
record() { record_cpu 400 "$pid" -F 499 "$@" && cat "$work/record.err"; }

# ---- from outside ----
id=$(printf '%08x%056x' $$ 1)
if ! start_container "$name"; then
	skip "containers" "runc cannot run: $(tail -n 1 "$work/log")"
	finish
fi
number_threads
# shellcheck disable=SC2016 # of the inner shell
check "the container has numbers of its own" sh -c 'while read -r host inner; do [ "$host" != "$inner" ] || exit 1; done <"$1"' sh "$work/threads"
expect "a container is recorded by its name" 0 'markers: [0-9,.k]+ of 1 processes' record --container "$name" -o "$work/c.firefox.json"
check "with its names, markers, samples and the host's numbers" node tests/agent/container.mjs "$work/c.firefox.json" "$pid" "$work/threads"
expect "so is its process" 0 'markers: [0-9,.k]+ of 1 processes' record -p "$pid" -o "$work/p.firefox.json"
check "with the same" node tests/agent/container.mjs "$work/p.firefox.json" "$pid" "$work/threads"
# As Docker and containerd start theirs: the group has a parent, and its name is the id.
start_container "$id" "/$name-groups/$id" || fail "another container" "$(tail -n 1 "$work/log")"
number_threads
expect "another one is recorded by the beginning of its id" 0 'markers: [0-9,.k]+ of 1 processes' record --container "$(echo "$id" | cut -c 1-12)" -o "$work/d.firefox.json"
check "with the same as well" node tests/agent/container.mjs "$work/d.firefox.json" "$pid" "$work/threads"
expect "a container that is not there is refused" 1 "belongs to a container 'none$name'" "$WICK" record -d 1 --container "none$name" -o "$work/n.firefox.json"
finish
