#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The OCI image under containerd: the server as a user without privileges with a read-only root, the agent with its six capabilities and the host's processes;
# options by environment.
. tests/lib.inc
. tests/install/install.inc
image=$(ls "$dist"/wick-*-oci.tar 2>/dev/null | head -n 1)
[ -n "$image" ] || {
	fail "there is an image in $dist" "make it with: ./dev dist image"
	finish
}
check "it has at most 40 MB" test "$(wc -c <"$image")" -le 40000000
uses containerd ctr runc || {
	skip "the image under containerd" "$missing"
	finish
}
# One of this test's own, with its state in its folder.
printf 'version = 2\nroot = "%s/root"\nstate = "%s/state"\n[grpc]\naddress = "%s/sock"\n[plugins."io.containerd.grpc.v1.cri"]\n' "$work" "$work" "$work" >"$work/config.toml"
printf 'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n' | cat - "$work/config.toml" | grep -v plugins.\" >"$work/containerd.toml"
launch containerd --config "$work/containerd.toml" >"$work/containerd.log" 2>&1
ctr() { command ctr --address "$work/sock" "$@"; }
check "containerd runs" wait_for ctr version
check "it takes the image" ctr image import --snapshotter native "$image"
name=$(ctr image ls -q | head -n 1)
run() { ctr run --snapshotter native --rm --net-host "$@"; }
expect "the program is its entry point" 0 '^wick [0-9.]+$' ctr run --snapshotter native --rm "$name" wick-test-version /usr/bin/wick --version
mkdir -p "$work/volume" && chown 65532:65532 "$work/volume"
launch run --read-only --mount "type=bind,src=$work/volume,dst=/var/lib/wick,options=rbind:rw" --env WICK_LISTEN=127.0.0.1:0 "$name" wick-test-server \
	/usr/bin/wick server 2>"$work/server.log" >"$work/server.out"
server=$!
if wait_url "$work/server.log" "$server"; then
	check "the server runs as a user of its own" test "$(ps -o uid= -p "$(pgrep -f '^/usr/bin/wick server$' | tail -n 1)" | tr -d ' ')" = 65532
	check "its health can be asked" ctr task exec --exec-id health wick-test-server /usr/bin/wick doctor --url "$url"
	launch run --read-only --env "WICK_SERVER=$url" --env WICK_SPOOL=off --env WICK_LABEL=env=test --mount type=bind,src=/sys,dst=/sys,options=rbind:ro --with-ns pid:/proc/1/ns/pid --user 65532:65532 \
		--cap-add CAP_BPF --cap-add CAP_PERFMON --cap-add CAP_SYS_PTRACE --cap-add CAP_DAC_READ_SEARCH --cap-add CAP_SYSLOG --cap-add CAP_CHECKPOINT_RESTORE \
		"$name" wick-test-agent /usr/bin/wick agent >"$work/agent.out" 2>"$work/agent.log"
	"$O/programs/deep" 3600 >/dev/null &
	pids="$pids $!"
	check "the agent sends what this machine does" wait_for sh -c '"$0" query --url "$1" "process_cpu{env=\"test\"}" >"$2" 2>&1 && grep -q . "$2"' "$WICK" "$url" "$work/answer" || cat "$work/agent.log"
	ctr task kill --signal SIGTERM wick-test-agent >/dev/null 2>&1
	ctr task kill --signal SIGTERM wick-test-server >/dev/null 2>&1
	wait "$server"
	check "what was stored is in the volume" sh -c 'ls "$0"/* >/dev/null' "$work/volume"
else fail "the server starts" "$(cat "$work/server.log" "$work/server.out" "$work/containerd.log" | tail -n 30)"; fi
finish
