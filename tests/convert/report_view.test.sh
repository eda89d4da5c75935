#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wick report as pictures, in the browser and of URLs: what `go tool pprof` does with -svg, -png, -web, -weblist, -http, -seconds and -timeout.
. tests/lib.inc
. tests/launch.inc
goldens=$data/pprof/google-driver
[ -d "$goldens" ] || {
	skip "reports in a browser" "no test data"
	finish
}
profile=$goldens/sample.cpu trim=/usr/local/google/home/sanjay/go/src/github.com/google/pprof/internal/report/testdata
mkdir -p "$work/src/sample" "$work/bin" "$work/tmp"
cp "$goldens/sample.go" "$work/src/sample/"
# Says what it was given, and nothing else of a desktop.
printf '#!/bin/sh\nprintf "%%s\\n" "$1" >>"%s/opened"\n' "$work" >"$work/bin/xdg-open"
chmod +x "$work/bin/xdg-open"
export TMPDIR="$work/tmp"

# ---- lines and instructions ----
weblist() { "$WICK" report "$@" -source_path="$work/src" -trim_path=$trim "$goldens/sample.bin" "$profile"; }
check "weblist is written to a file" weblist weblist busyLoop -o "$work/list.html"
weblist list busyLoop 2>/dev/null | grep -E '^ +[^ ]+ +[^ ]+ +[0-9]+:' >"$work/want"
text() { sed -e 's/<\/summary>/\n/g' -e 's/<[^>]*>//g' "$work/list.html"; }
text | sed 's/&quot;/"/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' | grep -E '^ +[^ ]+ +[^ ]+ +[0-9]+:' >"$work/got"
[ "$(wc -l <"$work/want")" -gt 10 ] && check "its lines and values are those of list" cmp "$work/want" "$work/got"
weblist disasm busyLoop 2>/dev/null | awk '/ms / && $3 ~ /:$/ { print $1, $2, $3 }' | sort >"$work/want"
text | awk '/ms / && $3 ~ /^[0-9a-f]+:$/ && length($3) > 5 { print $1, $2, $3 }' | sort >"$work/code"
# Those of lines that list shows: inlined functions of other files have lines of their own.
[ -s "$work/code" ] && check "its instructions have the values of disasm" sh -c "comm -23 '$work/code' '$work/want' | (! grep .)"
check "no script is in it" sh -c "! grep -qi '<script' '$work/list.html'"
printf 'a<script>alert(1)</script>;b 5\n' >"$work/evil.folded"
"$WICK" convert -q "$work/evil.folded" -o "$work/evil.pb"
"$WICK" report weblist . "$work/evil.pb" -o "$work/evil.html" 2>/dev/null
check "names are escaped" sh -c "grep -q 'a&lt;script&gt;alert(1)&lt;/script&gt;' '$work/evil.html' && ! grep -q '<script' '$work/evil.html'"
(PATH=$work/bin:$PATH weblist -weblist=busyLoop) 2>"$work/err"
check "weblist opens the browser" wait_for sh -c "grep -q '^$work/tmp/wick-report-.*[.]html\$' '$work/opened'"
check "... with the file that it names" sh -c "cmp '$work/list.html' \"\$(sed -n 's/.*written to //p' '$work/err')\""

# ---- pictures ----
expect "without Graphviz it is named" 1 'dot is not installed.*apt install graphviz' env PATH=/nonexistent "$(realpath "$WICK")" report -svg "$profile"
if uses dot; then
	"$WICK" report dot "$profile" | dot -Tsvg >"$work/want"
	check "svg is what dot draws" sh -c "'$WICK' report -svg '$profile' | cmp - '$work/want'"
	check "png is one" sh -c "'$WICK' report -png '$profile' -o '$work/x.png' && head -c 8 '$work/x.png' | grep -q PNG"
	: >"$work/opened"
	(PATH=$work/bin:$PATH "$WICK" report -web "$profile") 2>"$work/err"
	check "web opens the browser" wait_for sh -c "grep -q '[.]svg\$' '$work/opened'"
	check "... with that picture" sh -c "cmp '$work/want' \"\$(sed -n 's/.*written to //p' '$work/err')\""
else
	skip "svg, png and web" "$missing"
fi

# ---- flags that are turned off ----
"$WICK" report -top -no_cum -cum "$profile" >"$work/want" 2>&1
"$WICK" report -top -cum "$profile" >"$work/got" 2>&1
check "-no_NAME is -NAME=false" cmp "$work/want" "$work/got"
expect "-no_browser is for -http" 2 '--no-browser requires --http' "$WICK" report -no_browser "$profile"
expect "-http is instead of a report" 2 'give no report with it' "$WICK" report -top -http=: "$profile"

# ---- the profile on a page ----
launch "$WICK" report -http=localhost: -no_browser -focus=busyLoop "$profile" 2>"$work/http.log"
server=$!
check "-http serves the profile" wait_for grep -q 'page: ' "$work/http.log"
link=$(sed -n 's/^ *page: *//p' "$work/http.log")
check "the page is there" sh -c "curl -sS --max-time 20 '$link' | grep -qi '<!doctype html>'"
kill -TERM $server 2>/dev/null
expect "other machines are not served" 1 '--http: cannot listen on .*127.0.0.1' "$WICK" report -http=0.0.0.0:0 -no_browser "$profile"

# ---- URLs ----
if uses node; then
	cat >"$work/serve.mjs" <<'END'
import { createServer } from 'node:http'; import { readFileSync, appendFileSync, writeFileSync } from 'node:fs';
const [profile, log, port] = process.argv.slice(2), body = readFileSync(profile);
const server = createServer((request, response) => {
	appendFileSync(log, request.url + '\n');
	if (request.url.startsWith('/slow')) return;
	response.statusCode = request.url.startsWith('/none') ? 404 : 200; response.end(response.statusCode === 200 ? body : 'no');
});
server.listen(0, '127.0.0.1', () => { writeFileSync(port + '.new', String(server.address().port)); writeFileSync(port, String(server.address().port)); });
END
	launch node "$work/serve.mjs" "$profile" "$work/asked" "$work/port" 2>"$work/serve.log"
	check "a server of profiles starts" wait_for test -s "$work/port"
	at=127.0.0.1:$(cat "$work/port")
	"$WICK" report -top "$profile" | sed 1d >"$work/want"
	check "a URL is fetched" sh -c "'$WICK' report -top 'http://$at/debug/pprof/heap?gc=1' | sed 1d | cmp - '$work/want'"
	check "... also without http://" sh -c "'$WICK' report -top -seconds=3 $at/x?seconds=9 | sed 1d | cmp - '$work/want'"
	check "... and without a path" sh -c "'$WICK' report -top $at | sed 1d | cmp - '$work/want'"
	printf '%s\n' '/debug/pprof/heap?gc=1' '/x?seconds=3' '/debug/pprof/profile?seconds=30' >"$work/want.asked"
	check "the requests have the path and the seconds of pprof" cmp "$work/want.asked" "$work/asked"
	expect "a status is an error" 1 'responded with status 404' "$WICK" report -top "http://$at/none"
	expect "-timeout ends waiting" 1 'no response within 1 s' timeout 60 "$WICK" report -top -timeout=1 "http://$at/slow"
	expect "the URL's seconds are checked" 1 'seconds: more than 86400 seconds' "$WICK" report -top "http://$at/x?seconds=9000000000000"
	expect "-seconds is checked" 1 '--seconds' "$WICK" report -top -seconds=many "http://$at/x"
else
	skip "URLs" "$missing"
fi
finish
