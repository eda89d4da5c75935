#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Names of functions, labels, files and errors of servers that drive terminals: none gets there, from any command, nor into a log. On a terminal, which
# script(1) makes, and for messages also elsewhere; what a pipe gets of data is what the data is.
. tests/lib.inc
escape=$(printf '\033') bell=$(printf '\007')
evil="${escape}]0;owned${bell}${escape}[31m$(printf '\342\200\256')evil$(printf '\302\233\177')"
# FILE: has no control characters but line ends and tabs (and the carriage return that a terminal adds), and none that turn text around.
is_clean() { ! LC_ALL=C grep -aqP '[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xa9]' "$1"; }
# NAME STATUS COMMAND...: on a terminal; prints something, all of it clean.
clean() {
	clean_name=$1 clean_status=$2
	shift 2
	: >"$work/run.sh"
	for clean_word in "$@"; do printf "'%s' " "$(printf %s "$clean_word" | sed "s/'/'\\\\''/g")" >>"$work/run.sh"; done
	TERM=dumb NO_COLOR=1 script -qec "sh $work/run.sh" "$work/typescript" >/dev/null 2>&1 </dev/null
	clean_got=$?
	sed '1d;$d' "$work/typescript" >"$work/shown" # script's own lines
	if [ "$clean_got" -eq "$clean_status" ] && grep -q . "$work/shown" && is_clean "$work/shown"; then
		pass "$clean_name"
	else
		fail "$clean_name" "status $clean_got: $(cat -v "$work/shown")"
	fi
}
command -v script >/dev/null || {
	skip "terminals" "script is not installed"
	finish
}
need_server
printf 'main%s;leaf%s\377 50\nother;b 3\n' "$evil" "$evil" >"$work/in.folded"
label=$(printf %s "app=x$evil" | od -An -tx1 | tr -d ' \n' | sed 's/../%&/g')
check "it is stored" curl -sf -o "$work/out" --data-binary "@$work/in.folded" "$url/api/v1/ingest?name=p&label=$label"
if is_clean "$work/in.folded"; then fail "there is something to clean"; else pass "there is something to clean"; fi
for format in top folded json svg; do clean "wick query --format $format" 0 "$WICK" query p --url "$url" --format $format; done
clean "wick query, by a label" 0 "$WICK" query 'p | group by app' --url "$url"
"$WICK" query p --url "$url" --format folded >"$work/piped"
check "a pipe gets the names as they are" grep -q "$escape" "$work/piped"
for verb in top tree peek text traces dot raw; do
	case $verb in peek) operand=leaf ;; *) operand= ;; esac
	# shellcheck disable=SC2086
	clean "wick report $verb" 0 "$WICK" report $verb $operand "$work/in.folded"
done
clean "wick diff" 0 "$WICK" diff "$work/in.folded" "$work/in.folded"
clean "wick query of nothing" 1 "$WICK" query "nothing$evil" --url "$url"
clean "a file that there is not" 1 "$WICK" report top "$work/none$evil"
cp "$work/in.folded" "$work/name$evil.folded"
clean "a file with such a name" 0 "$WICK" report top "$work/name$evil.folded"
clean "an option that there is not" 2 "$WICK" query "--$evil"
clean "a command that there is not" 2 "$WICK" "$evil"
clean "a format that there is not" 2 "$WICK" convert "$work/in.folded" -o "$work/x$evil"
clean "binaries" 0 "$WICK" debuginfo list --url "$url"
clean "binaries, as JSON" 0 "$WICK" debuginfo list --url "$url" --format json
stop_server
check "the log is clean" is_clean "$work/server.log"

# A server that answers with the same.
cat >"$work/evil.mjs" <<'END'
import http from 'node:http';
const evil = process.argv[2];
http.createServer((request, response) => {
	request.resume();
	const status = request.url.includes('fail') ? 500 : 200;
	response.writeHead(status, { 'content-type': 'application/json', 'x-wick-partial': 'yes' });
	response.end(status === 500 ? JSON.stringify({ error: `no ${evil}` }) : `${evil}\n`);
}).listen(0, '127.0.0.1', function () { console.log(`http://127.0.0.1:${this.address().port}`); });
END
launch node "$work/evil.mjs" "$evil" >"$work/evil.url"
wait_for test -s "$work/evil.url"
evil_url=$(cat "$work/evil.url")
clean "what a hostile server responds with" 0 "$WICK" query p --url "$evil_url" --format folded
clean "what it fails with" 1 "$WICK" query fail --url "$evil_url"
clean "lists of it" 1 "$WICK" debuginfo list --url "$evil_url"
clean "its saved queries" 1 "$WICK" saved list --url "$evil_url"
"$WICK" query fail --url "$evil_url" 2>"$work/err"
check "its errors are clean elsewhere, too" is_clean "$work/err"
finish
