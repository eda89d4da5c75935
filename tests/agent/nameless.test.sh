#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs without a GNU build-id (-Wl,--build-id=none, musl, Go with -B none as before 1.24): identified by a hash of the file from the agent
# to a server that may not open files, and named there (within some ten seconds on a calm machine).
. tests/lib.inc
need_sampling "nameless"
uses gcc go readelf curl node || {
	skip "nameless" "$missing"
	finish
}
unset DEBUGINFOD_URLS
cat >"$work/spin.c" <<'END'
#include <stdlib.h>
#include <time.h>
__attribute__((noinline)) long SPIN(long x)
{
	for (long i = 0; i < 10000000; i++)
		x = x * 31 + i;
	return x;
}
int main(int argc, char **argv)
{
	time_t until = time(NULL) + atoi(argv[1]);
	long x = argc;
	while (time(NULL) < until) {
		x = SPIN(x);
		nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL); /* three of them would take all CPU time from other tests */
	}
	return (int)(x & 1);
}
END
cat >"$work/spin.go" <<'END'
package main

import "time"

//go:noinline
func spinInGo(x int) int {
	for i := 0; i < 10000000; i++ {
		x = x*31 + i
	}
	return x
}

func main() {
	x := 1
	for {
		x = spinInGo(x)
		time.Sleep(150 * time.Millisecond)
	}
}
END
programs="c_spin go_spin"
check "a C program is built" gcc -g -O1 -fno-omit-frame-pointer -DSPIN=spin_in_c -Wl,--build-id=none -o "$work/c_spin" "$work/spin.c"
# Before Go 1.24 the linker makes none, and cannot be told so.
build_go() {
	GOCACHE="${GOCACHE:-$work/cache}" GOFLAGS='' go build -ldflags '-B none' -o "$work/go_spin" "$work/spin.go" 2>/dev/null ||
		GOCACHE="${GOCACHE:-$work/cache}" GOFLAGS='' go build -o "$work/go_spin" "$work/spin.go"
}
check "a Go program is built" build_go
if command -v musl-gcc >/dev/null; then
	check "a static musl program is built" musl-gcc -static -O1 -fno-omit-frame-pointer -DSPIN=spin_in_musl -Wl,--build-id=none -o "$work/musl_spin" "$work/spin.c"
	programs="$programs musl_spin"
fi
has_none() { ! readelf -n "$1" | grep -q 'Build ID: [0-9a-f]*$'; }
for program in $programs; do check "$program has no build-id" has_none "$work/$program"; done
echo "host_files: false" >"$work/server.yaml"
need_server --config "$work/server.yaml"
launch "$WICK" agent --server "$url" -F 97 2>"$work/agent.log"
agent_pid=$! c_spins=
for program in $programs; do
	"$work/$program" 3600 &
	pids="$pids $!"
	[ "$program" = go_spin ] || c_spins="$c_spins $!"
done
query() { # PROGRAM OPTION...
	query_program=$1
	shift
	"$WICK" query "process_cpu{process_executable_name=\"$query_program\"}" --url "$url" --from now-30m "$@"
}
is_named() { # PROGRAM FUNCTION
	query "$1" --format folded -n 0 >"$work/$1.folded" 2>"$work/err" && grep -q "$2" "$work/$1.folded"
}
for pair in c_spin:spin_in_c go_spin:main.spinInGo musl_spin:spin_in_musl; do
	case " $programs " in *" ${pair%%:*} "*) ;; *) continue ;; esac
	check "${pair%%:*} is named" wait_for is_named "${pair%%:*}" "${pair#*:}"
done
hash_of() { node -e '
const fs = require("fs"), crypto = require("crypto"), data = fs.readFileSync(process.argv[1]), size = Buffer.alloc(8);
size.writeBigUInt64BE(BigInt(data.length));
console.log(crypto.createHash("sha256").update(data.subarray(0, 4096)).update(data.subarray(-4096)).update(size).digest("hex").slice(0, 32));' "$1"; }
curl -sf "$url/api/v1/binaries" >"$work/binaries.json"
for program in $programs; do
	check "$program is listed by its hash" grep -q "$(hash_of "$work/$program")" "$work/binaries.json"
done
query c_spin --format pprof -o "$work/c.pb.gz" 2>/dev/null
check "samples have the hash as a label" sh -c '"$1" convert -q "$2" --to firefox -o - | grep -q "$3"' - "$WICK" "$work/c.pb.gz" "$(hash_of "$work/c_spin")"
# The agent says the Go build-id beside the hash: an upload that is known by it alone is used.
kill "$agent_pid" $c_spins
wait "$agent_pid" 2>/dev/null
start_server --data "$work/other" --config "$work/server.yaml" || {
	fail "the second server starts"
	finish
}
launch "$WICK" agent --server "$url" -F 97 --no-debuginfo-upload 2>"$work/agent.log"
go_id=$(go tool buildid "$work/go_spin" | tr -d '\n' | head -c 64 | od -An -tx1 | tr -d ' \n')
check "the Go program is uploaded by its Go build-id" "$WICK" debuginfo upload "$work/go_spin" --build-id "$go_id" --url "$url"
check "it is named by that" wait_for is_named go_spin main.spinInGo
finish
