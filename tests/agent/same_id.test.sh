#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files of one build-id that are not the same: each is unwound by what is in it, and named by it. (same_id_hosts: on two machines.) The programs have the same functions at the same addresses, in frames
# of different sizes, so that the one's table leads astray in the other; and what their stack is, is known.
. tests/lib.inc
need_sampling "same_id"
[ "$(uname -m)" = x86_64 ] || {
	skip "same_id" "only x86-64 so far"
	finish
}
uses gcc readelf node || {
	skip "same_id" "$missing"
	finish
}
cat >"$work/chain.c" <<'END'
#include <stdlib.h>
#include <time.h>
#define PLACE __attribute__((noinline, noclone, aligned(512)))
static volatile long sink;
PLACE long spin_here(long x)
{
	volatile char pad[PAD];
	pad[x & 7] = 1;
	for (long i = 0; i < 2000000; i++)
		sink += i ^ x;
	return sink + pad[x & 7];
}
#define LINK(name, callee) \
	PLACE long name(long x) \
	{ \
		volatile char pad[PAD]; \
		pad[x & 7] = 2; \
		return callee(x + 1) + pad[x & 7]; \
	}
LINK(four, spin_here)
LINK(three, four)
LINK(two, three)
LINK(one, two)
PLACE int main(int argc, char **argv)
{
	double cpu_s = atof(argv[1]);
	while ((double)clock() / CLOCKS_PER_SEC < cpu_s)
		one(argc);
	return 0;
}
END
# Build-ids that no test had before: tables stay on disk.
random_id() { od -An -tx1 -N20 /dev/urandom | tr -d ' \n'; }
one=$(random_id) two=$(random_id)
build() { # NAME PAD BUILD-ID
	gcc -O2 -fomit-frame-pointer "-DPAD=$2" "-Wl,--build-id=0x$3" -o "$work/$1" "$work/chain.c"
}
check "a program is built" build small 16 "$one"
check "another one with its build-id and addresses is built" build large 4000 "$one"
check "one that is to be damaged is built" build good 16 "$two"
# The rules of all functions say that their frames are larger than they are: DW_CFA_def_cfa_offset is 0x0e, and the offset.
damage() {
	offset=$(readelf -SW "$work/good" | sed -n 's/.* \.eh_frame  *[A-Z]*  *[0-9a-f]*  *\([0-9a-f]*\) \([0-9a-f]*\).*/0x\1 0x\2/p')
	node -e '
const fs = require("fs"), [from, to, offset, size] = process.argv.slice(1), data = fs.readFileSync(from), frames = data.subarray(+offset, +offset + +size);
let changed = 0;
for (let i = 0; i + 1 < frames.length; i++)
	if (frames[i] === 0x0e && frames[i + 1] >= 16 && frames[i + 1] < 64) { frames[i + 1] += 8; changed++; }
if (changed < 5) throw new Error(`${changed} rules`);
fs.writeFileSync(to, data, { mode: 0o755 });' "$work/good" "$work/damaged" ${offset% *} ${offset#* }
}
check "one with damaged call frame information is made" damage
one_id() { [ "$(for program; do readelf -n "$work/$program" | grep 'Build ID:'; done | sort -u | wc -l)" = 1 ]; }
check "two have one build-id" one_id small large
check "the other two have one build-id" one_id good damaged

# NAME PERCENT COMMANDS [full]: runs them under the sampler. Of what spins in any of the programs, that much or more has its whole stack.
right() {
	[ $# -eq 3 ] || [ -n "${WICK_TEST_FULL:-}" ] || return
	(cd "$work" && "$WICK" record -F 499 -o right.folded -- sh -c "$3") >"$work/log" 2>&1 || {
		fail "$1: it is recorded" "$(cat "$work/log")"
		return
	}
	awk '/spin_here/ { all += $NF; if (/main;one;two;three;four;spin_here/) right += $NF } END { printf "%d %d %d\n", all / 2004008, right / 2004008, all ? 100 * right / all : 0 }' "$work/right.folded" >"$work/counts"
	read -r all count percent <"$work/counts"
	if [ "$percent" -ge "$2" ]; then pass "$1: $count of $all samples have the whole stack"; else
		fail "$1: $count of $all samples have the whole stack, less than $2 %" "$(cat "$work/log" "$work/right.folded" | cut -c 1-200)"
	fi
}
right "the one with small frames first" 95 "./small 0.5; ./large 0.5"
right "the one with large frames first" 95 "./large 0.5; ./small 0.5; ./large 0.2" full
right "both at once" 95 "./small 0.5 & ./large 0.5; wait"
right "the file is replaced while it runs" 95 'cp small here; ./here 1.5 & sleep 0.3; cp large new; mv new here; ./here 0.5; wait'
# The number of an inode that was removed is soon that of another.
right "the file is written anew, again and again" 95 'for i in 1 2 3; do for n in small large; do rm -f here; cp $n here; ./here 0.2; done; done' full
# A tenth is of the damaged one, whose stacks cannot be right.
right "the damaged one first" 80 "./damaged 0.1; ./good 0.9"
right "the damaged one last, and again" 80 "./good 0.5; ./damaged 0.1; ./good 0.4" full
if unshare -m true 2>/dev/null; then
	right "one path in two mount namespaces" 95 'cp small here; ./here 0.4; unshare -m sh -c "mount --bind large here && ./here 0.4"; ./here 0.2'
else skip "one path in two mount namespaces" "cannot make a mount namespace here"; fi
# Twins: other functions at the same addresses, and some that both have.
cat >"$work/twin.c" <<'END'
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
PLACE long CALL(long x) { return SPIN(x + 1) + 1; }
PLACE long in_both(long x) { return CALL(x + 1) + 1; }
PLACE int main(int argc, char **argv)
{
	double cpu_s = atof(argv[1]);
	while ((double)clock() / CLOCKS_PER_SEC < cpu_s)
		in_both(argc);
	return 0;
}
END
three=$(random_id)
twin() { gcc -O2 -g "-DSPIN=spin_in_$1" "-DCALL=call_in_$1" "-Wl,--build-id=0x$three" -o "$work/twin_$1" "$work/twin.c"; }
check "a program is built for names" twin a
check "and its twin" twin b
check "they have one build-id" one_id twin_a twin_b
places() { nm "$work/twin_$1" | sed -n "s/_in_$1$//p"; }
check "their functions lie at the same addresses" [ "$(places a)" = "$(places b)" ]
# NAME COMMANDS [full]: what twin_a does takes four times as much CPU time as what twin_b does; no stack is of both.
named() {
	[ $# -eq 2 ] || [ -n "${WICK_TEST_FULL:-}" ] || return
	(cd "$work" && "$WICK" record -F 499 -o twins.folded -- sh -c "$2") >"$work/log" 2>&1
	if awk '/_in_a.*_in_b|_in_b.*_in_a/ { mixed = 1 } /main;in_both;call_in_a;spin_in_a/ { a += $NF } /main;in_both;call_in_b;spin_in_b/ { b += $NF } END { exit !(!mixed && b > 0 && a > 2 * b) }' "$work/twins.folded"; then
		pass "$1: each is named by its own file"
	else
		fail "$1: each is named by its own file" "$(cat "$work/log" && cut -c 1-200 "$work/twins.folded")"
	fi
}
named "one after the other" "./twin_a 1.2; ./twin_b 0.3"
named "the other one first" "./twin_b 0.3; ./twin_a 1.2" full
named "at one path" "cp twin_b here; ./here 0.3; cp twin_a new; mv new here; ./here 1.2"

named "both at once" "./twin_a 1.2 & ./twin_b 0.3; wait" full
cat >"$work/many" <<'END'
for i in 1 2 3 4; do ./twin_a 0.2 & ./twin_b 0.05; done
wait
END
named "both at once, again and again" "sh ./many"
# Over the wire, to servers that have no files of this host.
printf 'symbols: {host_files: false, debuginfod: {urls: ""}}\n' >"$work/wick.yaml"
# NAME: samples of its process. Prints the names of its frames, and how many addresses are ambiguous.
frames_of() {
	curl -s "$url/api/v1/query?query=process_cpu%7Bprocess_executable_name%3D%22$1%22%7D&from=now-10m&symbols_wait=10s" >"$work/$1.json"
	node -e 'const { symbols, flame } = JSON.parse(require("fs").readFileSync(process.argv[1]));
console.log("ambiguous", symbols.ambiguous, "pending", symbols.pending);
for (const name of flame.strings) console.log(name);' "$work/$1.json" 2>&1
}
# NAME OWN OTHER: all of its own names, and none of the other's.
is_named() {
	frames_of "$1" >"$work/frames"
	grep -q "^call_in_$2\$" "$work/frames" && grep -q "^spin_in_$2\$" "$work/frames" && ! grep -q "_in_$3" "$work/frames" && return
	cat "$work/frames" "$work/agent.log" "$work/server.log"
	curl -s "$url/api/v1/binaries?text=twin"
	return 1
}
run_twins() {
	"$work/twin_a" "$(if_full 4 2)" &
	twins=$!
	"$work/twin_b" "$(if_full 4 2)"
	wait "$twins"
}
need_server --config "$work/wick.yaml"
launch "$WICK" agent --server "$url" -F 99 --budget 0 2>"$work/agent.log"
wait_sampling "$work/agent.log" "$!" || fail "the agent samples" "$(cat "$work/agent.log")"
run_twins
check "over the wire, each is named by its own file: twin_a" wait_for is_named twin_a a b
check "and twin_b" wait_for is_named twin_b b a
# Each of the other two has an id of its own, so that nothing is ambiguous. Of a process that ended before the agent had the CPU to look at its file nobody
# knows which it was: that has an id of its own as well, for a few samples at most.
listed() {
	curl -s "$url/api/v1/binaries?text=twin" >"$work/listed"
	node -e '
const { binaries } = JSON.parse(require("fs").readFileSync(process.argv[1])), three = process.argv[2];
const sum = (list) => list.reduce((all, { samples }) => all + samples, 0);
const known = binaries.filter(({ state }) => state !== "missing"), unknown = binaries.filter(({ state }) => state === "missing");
process.exit(known.length === 2 && known.some((b) => b.build_id === three) && new Set(binaries.map((b) => b.build_id)).size === binaries.length &&
	sum(unknown) <= 0.05 * sum(known) && !binaries.some((b) => b.ambiguous) ? 0 : 1);' "$work/listed" "$three" || {
		cat "$work/listed"
		return 1
	}
}
check "they are two binaries in the list" listed
check "nothing was ambiguous" sh -c "curl -s '$url/metrics' | grep -q '^wick_symbol_ambiguous_total 0'"
[ -n "${WICK_TEST_FULL:-}" ] || finish
# Without a server's store in between: the agent passes its files.
launch "$WICK" up --listen 127.0.0.1:0 --data "$work/up" -F 99 --budget 0 2>"$work/agent.log"
up=$!
wait_url "$work/agent.log" "$up" || fail "wick up starts" "$(cat "$work/agent.log")"
wait_sampling "$work/agent.log" "$up" || fail "its agent samples" "$(cat "$work/agent.log")"
run_twins
check "on one machine, each is named by its own file: twin_a" wait_for is_named twin_a a b
check "and twin_b" wait_for is_named twin_b b a
finish
