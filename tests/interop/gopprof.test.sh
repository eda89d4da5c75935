#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `go tool pprof` on the address of a server: profiles, comparisons, its own web page; names are inside, numbers are those that were sent.
. tests/network.inc
. tests/lib.inc
if ! uses go; then
	skip "go tool pprof over HTTP" "no go command"
	finish
fi
export PPROF_TMPDIR="$work/pprof" HOME="$work" PPROF_BINARY_PATH="$work"
need_server
# Two hours, two services: what is asked for is known to the last nanosecond.
cat >"$work/send.mjs" <<'SCRIPT'
const { request, pprofProfile } = await import(`${process.cwd()}/tests/harness.mjs`);
const [port, now] = process.argv.slice(2).map(Number);
const send = async (service, minutes, stacks) => {
	const timeNs = BigInt(now - minutes * 60) * 1000000000n;
	const answer = await request(port, "POST", `/api/v1/ingest?name=process_cpu&label=service_name%3D${service}`, { body: pprofProfile(stacks, { timeNs, durationNs: 10000000000n }) });
	if (answer.status !== 200) throw new Error(answer.body.toString());
};
await send("shop", 90, [[["hash", "work", "main"], 3000000000], [["idle", "main"], 1000000000]]);
await send("shop", 10, [[["hash", "work", "main"], 2000000000], [["parse", "work", "main"], 5000000000]]);
await send("mail", 10, [[["deliver", "main"], 7000000000]]);
SCRIPT
now=$(date +%s)
check "profiles are sent" node "$work/send.mjs" "${url##*:}" "$now"
at="$url/api/v1/pprof?query=process_cpu%7Bservice_name%3D%22shop%22%7D"
last="$at&from=now-1h"
before="$at&from=now-2h&to=now-1h"
# pprof MODE... URL: the body of the report: what comes after the head, blanks squeezed.
report() { go tool pprof -timeout 600 "$@" 2>"$work/err" | sed 's/  */ /g; s/^ //'; }

top=$(report -top -unit=s "$last")
expected="flat flat% sum% cum cum%
5s 71.43% 71.43% 5s 71.43% parse
2s 28.57% 100% 2s 28.57% hash
0 0% 100% 7s 100% main
0 0% 100% 7s 100% work"
check "-top URL: numbers and names" test "$(printf '%s\n' "$top" | sed -n '/^flat/,$p')" = "$expected"
check "it knows type and duration" sh -c 'printf "%s\n" "$1" | grep -qx "Type: cpu"' sh "$top"
check "it does not look for symbols" sh -c '! grep -i symbol "$1"' sh "$work/err"
check "-seconds is the last seconds" test "$(report -top -unit=s -seconds 3600 "$at" | tail -n 4)" = "$(printf '%s\n' "$top" | tail -n 4)"
check "from and to are heeded" test "$(report -top -unit=s "$before" | sed -n '/^3s/p')" = "3s 75.00% 75.00% 3s 75.00% hash"
check "-raw: comments say what was asked" sh -c 'go tool pprof -timeout 600 -comments "$1" 2>&1 | grep -q "process_cpu:cpu:nanoseconds"' sh "$last"
check "-tags: groups are labels" sh -c 'go tool pprof -timeout 600 -tags "$1" 2>/dev/null | grep -q "service_name"' sh "$url/api/v1/pprof?query=process_cpu&group_by=service_name&from=now-1h"

ours=$(report -top -unit=s "$last&base_from=now-2h&base_to=now-1h" | sed -n '/^flat/,$p')
theirs=$(report -top -unit=s -diff_base="$before" "$last" | sed -n '/^flat/,$p')
check "a comparison is what -diff_base makes of two profiles" test "$ours" = "$theirs"
expect "and not empty" 0 "^5s 125.00% .*parse" printf '%s\n' "$ours"
check "-diff_base of another selector" test "$(report -top -unit=s "$last&base=process_cpu%7Bservice_name%3D%22mail%22%7D" | sed -n '/^flat/,$p')" = \
	"$(report -top -unit=s -diff_base="$url/api/v1/pprof?query=process_cpu%7Bservice_name%3D%22mail%22%7D&from=now-1h" "$last" | sed -n '/^flat/,$p')"

refused() { ! go tool pprof -timeout 600 "$@" 2>&1; } # its exit status is 1 or 2, by version
expect "a bad query is an error that says why" 0 "400.*expected a value in double quotes" refused -top "$url/api/v1/pprof?query=%7Ba%3D"
# A profile that counts nothing; newer versions say so in other words.
expect "no data is no profile" 0 "profile has no samples|profiles have empty common sample type list" refused -top "$url/api/v1/pprof?query=process_cpu%7Bservice_name%3D%22nobody%22%7D&from=now-1h"

# Its page: pprof listens, draws, and answers with the functions of the server's profile.
port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
launch go tool pprof -timeout 600 -http="127.0.0.1:$port" -no_browser "$last" >"$work/http.log" 2>&1
page() {
	for _ in $(seq 600); do
		node -e 'fetch(process.argv[1]).then(async (r) => { if (!r.ok) process.exit(1); console.log(await r.text()); }, () => process.exit(1))' "http://127.0.0.1:$port/ui/$1" >"$work/page" 2>/dev/null && return 0
		sleep 0.2
	done
	cat "$work/http.log"
	return 1
}
check "-http: the page comes" page top
check "-http: with the functions" sh -c 'grep -q "parse" "$1" && grep -q "hash" "$1"' sh "$work/page"
check "-http: flame graph" page flamegraph
for pid in $(pgrep -P "${pids##* }" 2>/dev/null); do kill "$pid"; done
stop_server
finish
