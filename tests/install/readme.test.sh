#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every line of the README's shell blocks, taken from there and run as it stands, in its order: in a fresh Debian with the packages of ./dev dist, whose
# network is a loopback of its own, so that port 7070 is free. Files that a line reads are made before; what a line says that it writes must be there then.
# A line that is of a kind that this test does not know fails.
. tests/lib.inc
. tests/install/install.inc
uses debootstrap curl go perf ctr containerd runc || {
	skip "the README's lines" "$missing"
	finish
}
need_sampling "the README's lines"
ls "$dist"/wick_*.deb "$dist"/wick-*-linux-x86_64 "$dist"/wick-*-oci.tar >/dev/null 2>&1 || {
	fail "there are packages, a program and an image in $dist" "make them with: ./dev dist"
	finish
}
fresh_system bookworm >"$work/fresh" || {
	skip "the README's lines" "$(cat "$work/fresh")"
	finish
}
in_system apt-get update -qq >/dev/null 2>&1

# ---- what the lines need --------------------------------------------------------------------------------------------------------------------
project=/root/project
folder=$system$project
mkdir -p "$folder/build"
cp "$dist"/*.deb "$dist"/*.tar "$dist"/*-linux-x86_64 "$folder/"
echo '127.0.0.1 localhost profiles' >>"$system/etc/hosts"
# Without arguments it ends by itself; its functions are those that the lines name.
printf '%s\n' 'static volatile unsigned long sink;' '__attribute__((noinline)) void malloc_all(void) { for (unsigned i = 0; i < 100000000; i++) sink += i; }' \
	'__attribute__((noinline)) void parse(void) { malloc_all(); sink++; }' 'int main(int argc, char **argv) { for (int i = 0; argc > 1 || i < 5; i++) parse(); return 0; }' >"$work/app.c"
check "a program is built" gcc -static -g -O1 -fno-optimize-sibling-calls -Wl,--build-id -o "$folder/app" "$work/app.c"
cp "$folder/app" "$folder/build/app"
for name in postgres nginx; do cp "$folder/app" "$folder/$name"; done
made=
[ -d /var/lib/wick ] || made=/var/lib/wick
mkdir -p /var/lib/wick
launch unshare -n -m sh -c 'ip link set lo up && mount -t tmpfs wick /var/lib/wick && : >"$0" && exec sleep 100000' "$work/apart"
apart=$!
check "a network of its own" wait_for test -e "$work/apart"
apart() { nsenter -t $apart -n -m "$@"; }
in_project() { apart chroot "$system" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 WICK_TEST_OWNER="$WICK_TEST_OWNER" sh -c "cd $project && exec $1"; }
launch in_project './postgres forever'
launch in_project './nginx forever'
nginx=$!
# The hierarchy that the agent looks at, as src/agent/process/cgroups.c chooses it.
groups=/sys/fs/cgroup
[ "$(stat -fc %T $groups)" = cgroup2fs ] || { [ "$(stat -fc %T $groups/memory 2>/dev/null)" = cgroupfs ] && groups=$groups/memory; } || groups=$groups/unified
unit=$groups/system.slice/nginx.service
mkdir -p "$unit" 2>/dev/null && wait_for sh -c 'pgrep -x nginx -P "$0" >/dev/null || grep -q nginx "/proc/$0/comm"' $nginx && echo "$(pgrep -x nginx | head -n 1)" >"$unit/cgroup.procs" 2>/dev/null
# What runs in the root and the network is below shells that ended; all of it has this test's mark.
end_inside() {
	for inside in $(grep -lsa "WICK_TEST_OWNER=$WICK_TEST_OWNER" /proc/[0-9]*/environ); do
		inside=${inside#/proc/}
		[ "${inside%/environ}" -eq $$ ] || command kill "${inside%/environ}" 2>/dev/null
	done
}
trap 'end_inside; end_started; [ -z "$made" ] || rmdir "$made" 2>/dev/null; rmdir "$unit" "$groups/system.slice" 2>/dev/null; unmount_all; rm -rf "$work"' EXIT
printf 'version = 2\nroot = "%s/root"\nstate = "%s/state"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "%s/sock"\n' "$work" "$work" "$work" >"$work/containerd.toml"
launch apart containerd --config "$work/containerd.toml" >"$work/containerd.log" 2>&1
export CONTAINERD_ADDRESS="$work/sock" CONTAINERD_SNAPSHOTTER=native
prepare() { # LINE: files that it reads and that no line before wrote
	case $1 in
	*perf.data*) perf record -q -F 99 -g -o "$folder/perf.data" "$folder/app" >/dev/null 2>&1 ;;
	'wick merge'*) for name in a b; do in_project "wick record -o $name.firefox.json -- ./app" >/dev/null 2>&1; done ;;
	'wick annotate'*)
		in_project "wick record -o app.firefox.json.gz -- ./app" >/dev/null 2>&1
		cp "$folder/app.firefox.json.gz" "$folder/samply.json.gz" && gunzip -f "$folder/app.firefox.json.gz"
		;;
	'wick diff'*)
		for number in 1 2; do apart curl -fsS --data-binary "@$folder/cpu.pb.gz" "http://127.0.0.1:7070/api/v1/ingest?label=version%3D$number" >/dev/null; done
		;;
	*heap.pb.gz*) cp "$folder/cpu.pb.gz" "$folder/heap.pb.gz" ;;
	esac
}

# ---- how lines are run ----------------------------------------------------------------------------------------------------------------------
answers() { apart curl -fsS http://127.0.0.1:7070/readyz; }
silent() { ! apart curl -s http://127.0.0.1:7070/readyz; }
server=
stop_up() {
	[ -n "$server" ] || return 0
	for pid in $(apart pgrep -f 'wick (up|server|agent)' 2>/dev/null); do grep -qsa "WICK_TEST_OWNER=$WICK_TEST_OWNER" "/proc/$pid/environ" && command kill -INT "$pid" 2>/dev/null; done
	[ "$server" != ctr ] || apart ctr task kill --signal SIGTERM wick >/dev/null 2>&1
	wait_for silent
	server=
}
has_profile() { in_project 'wick query process_cpu --format folded' 2>/dev/null | grep -q '.;.* [0-9]'; }
has_agent() { apart curl -fsS http://127.0.0.1:7070/api/v1/agents | grep -q frequency_hz; }
# WHERE LINE: what goes on until it is stopped; it is up when the page answers. The server stays for the lines behind it.
serves() {
	stop_up
	serves_where=$1
	shift
	launch "$serves_where" "$1" >"$work/up.log" 2>&1
	server=$serves_where
	if wait_for answers >/dev/null; then pass "$1"; else fail "$1" "$(cat "$work/up.log" "$work/containerd.log")"; fi
}
host_project() { apart sh -c "cd '$folder' && exec $1"; }
ctr() { host_project "$1"; }
sources() { apart sh -c "cd '$PWD' && exec $1"; }
# LINE: shows an address until it is told to end.
shows() {
	launch in_project "$1" >"$work/shown" 2>&1
	shown=$!
	if wait_for grep -q 'http://127.0.0.1:' "$work/shown"; then pass "$1"; else fail "$1" "$(cat "$work/shown")"; fi
	for pid in $(pgrep -f 'wick (open|record --open)'); do grep -qsa "WICK_TEST_OWNER=$WICK_TEST_OWNER" "/proc/$pid/environ" && command kill -INT "$pid" 2>/dev/null; done
	wait $shown
}
# WHERE LINE: ends by itself; the file behind its -o is there then.
ends() {
	written=$(printf '%s\n' "$2" | sed -n 's/.* -o \([^ ]*\).*/\1/p')
	[ -z "$written" ] || rm -f "$folder/$written"
	check "$2" "$1" "$2"
	[ -z "$written" ] || check "... which writes $written" test -s "$folder/$written"
}
ui_or_end() { grep -q 'Serving web UI' "$work/pprof" || ! kill -0 $pprof 2>/dev/null; }
elsewhere() { echo "elsewhere: $1: $2"; }
run_line() {
	prepare "$1"
	case $1 in
	'apt install '*) check "$1" in_system sh -c "cd $project && apt-get update -qq && DEBIAN_FRONTEND=noninteractive $1 -y -qq </dev/null" ;;
	'./dev dist'*) elsewhere "$1" "all of this suite runs on what it made" ;;
	'wick top'*) elsewhere "$1" "agent/top, in a terminal" ;;
	'rpm -i '*) elsewhere "$1" "install/rpm, by rpm --root" ;;
	'install '*) ends in_project "$1" && rm -f "$system/usr/local/bin/wick" ;;
	'ctr image import '*) wait_for host_project 'ctr version' >/dev/null && ends host_project "$1" ;;
	'ctr run '*) serves ctr "$1" ;;
	'./dev up') if [ -x build/wick ]; then serves sources "$1"; else skip "$1" "build/wick is not there"; fi ;;
	'wick up'*)
		serves in_project "$1"
		check "... which profiles this machine" wait_for has_profile
		;;
	*' --unit nginx'*) if grep -qs . "$unit/cgroup.procs"; then ends in_project "$1"; else skip "$1" "no control group can be made"; fi ;;
	'wick open '* | 'wick record --open '*) shows "$1" ;;
	'wick record --remote'*)
		# A fleet: a server that other machines reach, and an agent.
		serves in_project 'wick server --listen 0.0.0.0:7070 --insecure --data /root/fleet'
		launch in_project 'wick agent --server http://profiles:7070' >"$work/agent.log" 2>&1
		check "... and an agent that asks it for requests" wait_for has_agent
		ends in_project "$1"
		;;
	'wick '*) ends in_project "$1" ;;
	'go tool pprof '*)
		launch host_project "env BROWSER=true HOME=$work $1" >"$work/pprof" 2>&1
		pprof=$!
		if wait_for ui_or_end >/dev/null && grep -q 'Serving web UI' "$work/pprof"; then pass "$1"; else fail "$1" "$(cat "$work/pprof")"; fi
		;;
	# With -f, so that an answer that is an error is one.
	'curl '*) check "$1" host_project "$(echo "$1" | sed 's/^curl/curl -fsS/')" ;;
	'make '* | './dev '* | 'SAN=1 ./dev '*) elsewhere "$1" "the tests themselves" ;;
	*) fail "the README's line is of a known kind: $1" ;;
	esac
}
awk '/^```/ { inside = $0 == "```sh"; next } inside' README.md | sed -E 's/[[:space:]]+#.*//; /^$/d' >"$work/lines"
check "the README has lines" test "$(wc -l <"$work/lines")" -ge 20
while IFS= read -r line <&3; do run_line "$line" 3<&-; done 3<"$work/lines"
stop_up
finish
