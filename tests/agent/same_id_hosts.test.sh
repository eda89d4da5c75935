#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Different programs of one build-id on two hosts (each agent in a UTS namespace of its own, one after the other) and one server: no stack of one has names of the
# other. What both call so has a name, and what they call differently has none and is counted, with uploads; without them, nothing is named by a file that is but one of theirs.
. tests/lib.inc
need_sampling "same_id_hosts"
uses gcc curl node || {
	skip "same_id_hosts" "$missing"
	finish
}
unshare --uts true 2>"$work/err" || {
	skip "same_id_hosts" "$(head -n 1 "$work/err")"
	finish
}
unset DEBUGINFOD_URLS
cat >"$work/build.c" <<'END'
#include <stdlib.h>
#include <time.h>
#define PLACE __attribute__((noinline, noclone, aligned(512)))
static volatile long sink;
PLACE long SPIN(long x)
{
	for (long i = 0; i < 2000000; i++)
		sink += i ^ x;
	return sink;
}
PLACE long CALL(long x) { return SPIN(x + OF) + 1; }
PLACE long in_both(long x) { return CALL(x + 1) + 1; }
PLACE int main(int argc, char **argv)
{
	double cpu_s = atof(argv[1]);
	while ((double)clock() / CLOCKS_PER_SEC < cpu_s)
		in_both(argc);
	return 0;
}
END
id=$(od -An -tx1 -N20 /dev/urandom | tr -d ' \n')
# build NAME OTHER-CODE: what differs in it is one instruction.
build() { gcc -O2 -g "-DSPIN=spin_in_$1" "-DCALL=call_in_$1" "-DOF=$2" "-Wl,--build-id=0x$id" -o "$work/build_$1" "$work/build.c"; }
check "a program is built" build a 1
check "another build has its build-id" build b 2

# HOST PROGRAM OPTION...: an agent on that host, while the program runs there.
host_runs() {
	host=$1 program=$2
	shift 2
	# shellcheck disable=SC2016 # of the inner shell
	launch unshare --uts sh -c 'hostname "$1" && shift && exec "$@"' - "$host" "$WICK" agent --server "$url" -F 99 --budget 0 "$@" 2>"$work/$host.log"
	agent=$!
	wait_sampling "$work/$host.log" "$agent" || fail "the agent of $host samples" "$(cat "$work/$host.log")"
	"$work/$program" "$(if_full 3 2)"
	# Until all it has to say is said.
	check "$host: its stacks arrive" wait_for "${until:-has_stacks}" "$host"
	kill "$agent"
	wait "$agent"
}
# HOST: what its program did: "ambiguous N pending N", and a line for each name.
frames_of() {
	curl -s "$url/api/v1/query?query=process_cpu%7Bhost_name%3D%22$1%22%2Cprocess_executable_name%3D~%22build_.%2A%22%7D&from=now-10m&symbols_wait=10s" >"$work/$1.json"
	node -e 'const { symbols, flame } = JSON.parse(require("fs").readFileSync(process.argv[1]));
console.log("ambiguous", symbols.ambiguous, "pending", symbols.pending);
for (const name of flame.strings) console.log(name);' "$work/$1.json" 2>&1
}
has_stacks() { frames_of "$1" >"$work/frames" && grep -q 'build_\|in_both' "$work/frames"; }
uploads() { find "$data_dir/debuginfo/files" -path "*${id#??}*" -name '*.debuginfo' 2>/dev/null | wc -l; }
has_sent_one() { has_stacks "$1" && [ "$(uploads)" = 1 ]; }
has_sent_two() { has_stacks "$1" && [ "$(uploads)" = 2 ]; }
named() { # HOST OWN OTHER
	frames_of "$1" >"$work/frames"
	grep -q "^call_in_$2\$" "$work/frames" && ! grep -q "_in_$3" "$work/frames" && return
	cat "$work/frames" "$work/server.log"
	return 1
}
# HOST [COMMON]: no name of either; what both call so has its name.
flagged() {
	frames_of "$1" >"$work/frames"
	grep -q '^ambiguous [1-9].* pending 0$' "$work/frames" && ! grep -q '_in_[ab]' "$work/frames" && { [ -z "${2:-}" ] || grep -q "^$2\$" "$work/frames"; } && return
	cat "$work/frames" "$work/server.log"
	curl -s "$url/api/v1/binaries?text=$id"
	return 1
}

printf 'symbols: {host_files: false, debuginfod: {urls: ""}}\n' >"$work/wick.yaml"
need_server --config "$work/wick.yaml"
data_dir=$work/data
until=has_sent_one host_runs alpha build_a
check "as long as there is one, it is named" wait_for named alpha a b
until=has_sent_two host_runs beta build_b
check "what they call differently has no name: alpha" wait_for flagged alpha in_both
check "and beta" wait_for flagged beta in_both
listed() {
	curl -s "$url/api/v1/binaries?text=$id" >"$work/listed"
	grep -q '"ambiguous":true' "$work/listed" && grep -q 'ambiguous: 2 different files' "$work/listed" || {
		cat "$work/listed"
		return 1
	}
}
check "the list of binaries says why" listed
check "it is counted" sh -c "curl -s '$url/metrics' | grep -q '^wick_symbol_ambiguous_total [1-9]'"
kill "$server_pid"
wait "$server_pid"

# Agents that send nothing, and a file of the id that somebody has uploaded by hand.
data_dir=$work/other
start_server --data "$data_dir" --config "$work/wick.yaml" || {
	fail "the second server starts" "$(cat "$work/server.log")"
	finish
}
check "one is stripped" strip -o "$work/build_bare" "$work/build_a"
check "debug information is uploaded by hand" "$WICK" debuginfo upload "$work/build_a" --url "$url"
# An older agent told of another file, and not what its code is. From the second on, a server keeps what it is told.
check "an older agent told of a file" curl -sf -X POST -H 'Content-Type: application/json' \
	-d "{\"binaries\":[{\"build_id\":\"$id\",\"content\":\"0123456789abcdef0123456789abcdef\",\"kinds\":[]}]}" "$url/api/v1/debuginfo/wanted"
contents() { grep "^$id [0-9a-f]*=" "$data_dir/symbols/contents" 2>/dev/null | sort -u | wc -l; }
has_told() { has_stacks "$1" && [ "$(contents)" = "$told" ]; }
until=has_told
told=1 host_runs gamma build_a --no-debuginfo-upload
check "without uploads from agents: it is named" wait_for named gamma a b
told=2 host_runs delta build_bare --no-debuginfo-upload
check "so is a stripped copy" wait_for named delta a b
check "and the first still is" wait_for named gamma a b
told=3 host_runs epsilon build_b --no-debuginfo-upload
check "another build has no names of a file that it may not be" wait_for flagged epsilon
check "nor has the first any more" wait_for flagged gamma
check "nothing was sent by agents" [ "$(uploads)" = 1 ]
finish
