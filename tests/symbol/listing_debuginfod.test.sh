#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Source and code from a debuginfod server, on a server that opens no files of its host.
name="source and code from debuginfod"
. tests/network.inc
. tests/lib.inc
if ! command -v debuginfod >/dev/null; then
	skip "$name" "debuginfod is not installed"
	finish
fi

mkdir -m 755 "$work/src" "$work/bin"
cp tests/symbol/hot.c "$work/src/hot.c"
program=$work/bin/hot
gcc -g -O2 -fno-tree-vectorize -fcf-protection=none -Wl,--build-id=sha1 -o "$program" "$work/src/hot.c" || exit 1
id=$(readelf -n "$program" | sed -n 's/.*Build ID: //p')
launch debuginfod -F "$work/bin" -d :memory: -p 8002 -t 1 >"$work/debuginfod.log" 2>&1
wait_for curl -sf -o "$work/probe" "http://127.0.0.1:8002/buildid/$id/source$work/src/hot.c"
check "debuginfod serves the source" cmp "$work/probe" "$work/src/hot.c"

printf 'host_files: false\n' >"$work/config.yaml"
start_server --config "$work/config.yaml" --debuginfod http://127.0.0.1:8002 || exit 1
node tests/symbol/listing.mjs make "$program" "$id" "$work/cpu.pb"
curl -sf --data-binary "@$work/cpu.pb" "$url/api/v1/ingest?name=process_cpu" >/dev/null || fail "ingest"
# Whether what was sent has names, or is known to have none.
is_settled() { curl -sG "$url/api/v1/query" -d query=process_cpu -d from=now-10m -d symbols_wait=20s | grep -q '"pending":0'; }
wait_for is_settled
ask() { curl -sG -o "$2" "$url/api/v1/$1" -d query=process_cpu -d from=now-10m -d symbols_wait=20s -d function=hot; }
ask source "$work/source.json"
expect "the text is debuginfod's" 0 '"from":"debuginfod".*sum \+= mix' cat "$work/source.json"
ask asm "$work/asm.json"
expect "the code is debuginfod's" 0 '"from":"debuginfod".*imul' cat "$work/asm.json"
finish
