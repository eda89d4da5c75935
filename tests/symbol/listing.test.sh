#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One function by line and by instruction, from the command line and over HTTP: beside objdump and addr2line, on a profile whose
# addresses are known; then what must not be shown; then on a program that really runs.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib.inc

mkdir -m 755 "$work/src" "$work/bin"
cp tests/symbol/hot.c "$work/src/hot.c"
chmod 644 "$work/src/hot.c"
program=$work/bin/hot
gcc -g -O2 -fno-tree-vectorize -fcf-protection=none -Wl,--build-id=sha1 -o "$program" "$work/src/hot.c" || exit 1
id=$(readelf -n "$program" | sed -n 's/.*Build ID: //p')
verify() {
	verb=$1
	shift
	node tests/symbol/listing.mjs "$verb" "$program" "$id" "$@"
}
ask() { # PATH OUT [CURL-OPTION...]
	ask_path=$1 ask_out=$2
	shift 2
	curl -sG -o "$ask_out" -w '%{http_code}' "$url/api/v1/$ask_path" --data-urlencode 'query=process_cpu' -d from=now-10m -d symbols_wait=20s "$@"
}

# TYPE: whether what was sent has names, or is known to have none.
is_settled() { curl -sG "$url/api/v1/query" --data-urlencode "query=$1" -d from=now-10m -d symbols_wait=20s | grep -q '"pending":0'; }

start_server || exit 1
verify make "$work/cpu.pb"
curl -sf --data-binary "@$work/cpu.pb" "$url/api/v1/ingest?name=process_cpu" >/dev/null || fail "ingest"
wait_for is_settled process_cpu

"$WICK" query process_cpu --url "$url" --from now-10m --format json -n 0 -o "$work/top.json"
for function in hot mix caller; do
	ask source "$work/source.json" -d function=$function >/dev/null
	check "lines of $function are those of addr2line, their sum is the table's" verify source $function "$work/source.json" "$work/top.json"
done
ask asm "$work/asm.json" -d function=hot >/dev/null
check "instructions of hot are those of objdump, each with its samples" verify asm "$work/asm.json"

# A function that is only inlined: the code that it is in.
ask asm "$work/asm.json" -d function=mix >/dev/null
expect "an inlined function is shown where it is" 0 '"symbol":"hot"' cat "$work/asm.json"

expect "source in a terminal's form" 0 '^> +[0-9.]+us +[0-9.]+us +[0-9]+ +sum \+= mix\(i\);$' \
	"$WICK" query process_cpu --url "$url" --from now-10m --format source --function hot
expect "asm in a terminal's form" 0 'imul +e..,' "$WICK" query process_cpu --url "$url" --from now-10m --format asm --function hot
expect "AT&T syntax" 0 'imull? +\$0x5bd1e995' "$WICK" query process_cpu --url "$url" --from now-10m --format asm --syntax att --function hot
expect "which function is a question of usage" 2 'no function given' "$WICK" query process_cpu --url "$url" --format asm
expect "a function that is not there" 1 "no function 'nothing'" "$WICK" query process_cpu --url "$url" --format source --function nothing

# ---- what must not be shown ----

status=$(ask source "$work/out" -d function=hot --data-urlencode file=/etc/shadow)
check "a file that the function is not in is not found" [ "$status" = 404 ]
expect "nothing of it is in the answer" 1 '^0$' grep -c root: "$work/out"
mv "$work/src/hot.c" "$work/src/real"
ln -s real "$work/src/hot.c"
ask source "$work/out" -d function=hot >/dev/null
expect "a link in the file's place is not followed" 0 '"why":"[^"]*not a regular file' cat "$work/out"
expect "lines with samples are there without text" 0 '"text":null,"self":' cat "$work/out"
rm "$work/src/hot.c"
mkfifo "$work/src/hot.c"
expect "a fifo in its place holds nobody up" 0 '"why":"[^"]*not a regular file' timeout 120 curl -s \
	"$url/api/v1/source?query=process_cpu&from=now-10m&function=hot"
rm "$work/src/hot.c"
cp "$work/src/real" "$work/src/hot.c"
chmod 600 "$work/src/hot.c"
ask source "$work/out" -d function=hot >/dev/null
expect "a file that not everybody may read is not shown" 0 '"why":"[^"]*(not world-readable|Permission denied)' cat "$work/out"
rm "$work/src/hot.c"

# ---- uploads: sources and the executable, elsewhere ----

mkdir -p "$work/pack/project/src"
cp "$work/src/real" "$work/pack/project/src/hot.c"
tar -C "$work/pack" -czf "$work/sources.tar.gz" project
expect "sources can be uploaded" 0 . "$WICK" debuginfo upload --url "$url" --kind sources --build-id "$id" "$work/sources.tar.gz"
ask source "$work/out" -d function=hot >/dev/null
expect "the archive's text is shown" 0 '"from":"uploaded archive".*sum \+= mix' cat "$work/out"
mv "$program" "$program.gone"
ask asm "$work/out" -d function=hot >/dev/null
expect "without code: addresses, their samples, and where was looked" 0 '"why":"[^"]*no executable was uploaded.*"text":"","self":1000' cat "$work/out"
expect "a file that is not there is named once" 1 "^wick debuginfo: $work/nope: cannot open it: No such file or directory$" "$WICK" debuginfo upload --url "$url" "$work/nope"
expect "the executable can be uploaded" 0 . "$WICK" debuginfo upload --url "$url" --kind executable "$program.gone"
ask asm "$work/out" -d function=hot >/dev/null
expect "its code is shown" 0 '"from":"uploaded executable".*imul' cat "$work/out"
mv "$program.gone" "$program"

# ---- a kernel: its addresses count from _stext, and not from where its file has them ----

user=$program user_id=$id
program=$work/bin/vmlinux
gcc -g -O2 -fno-tree-vectorize -fcf-protection=none -Wl,--build-id=sha1 -Wl,--defsym=_stext=main -o "$program" -x c "$work/src/real" || exit 1
id=$(readelf -n "$program" | sed -n 's/.*Build ID: //p')
verify kernel "$work/kernel.pb"
"$WICK" debuginfo upload --url "$url" --kind executable "$program" >/dev/null 2>&1 || fail "upload of a kernel"
curl -sf --data-binary "@$work/kernel.pb" "$url/api/v1/ingest?name=process_cpu" >/dev/null || fail "ingest of a kernel's profile"
wait_for is_settled process_cpu
ask asm "$work/asm.json" -d function=hot -d "build_id=$id" >/dev/null
check "instructions of a kernel's function are those that its name is of" verify asm "$work/asm.json" '[kernel.kallsyms]' 'uploaded executable'
program=$user id=$user_id
stop_server

# ---- a program that runs ----

if can_sample; then
	cp "$work/src/real" "$work/src/hot.c"
	chmod 644 "$work/src/hot.c"
	"$WICK" record -F 499 -o "$work/live.pb.gz" -- "$program" 100 >/dev/null 2>&1
	rm -rf "$work/data"
	start_server || exit 1
	curl -sf --data-binary "@$work/live.pb.gz" "$url/api/v1/ingest?name=process_cpu" >/dev/null || fail "ingest of what was recorded"
	wait_for is_settled process_cpu:cpu
	curl -sG -o "$work/live.json" "$url/api/v1/source" --data-urlencode 'query=process_cpu:cpu' -d from=now-10m -d symbols_wait=20s -d function=hot
	expect "the hottest lines are those of the loop" 0 '^(sum|for) (sum|for) 9[0-9]|^(sum|for) (sum|for) 100' node -e '
		const a = JSON.parse(require("fs").readFileSync(process.argv[1])), two = a.lines.sort((x, y) => y.total - x.total).slice(0, 2);
		const share = Math.floor(two.reduce((s, l) => s + l.total, 0) / a.function_total * 100);
		console.log(...two.map((l) => l.total === 0 ? "sum" : l.text.trim().slice(0, 3)), share);' "$work/live.json"
	stop_server
else
	skip "a program that runs" "$no_sampling"
fi
finish
