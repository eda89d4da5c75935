#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# profilecli, Pyroscope's own command line, built from its sources (replay/build.sh): uploads and asks for a profile, with its exemplars. And its canary, which
# pushes profiles over several protocols, asks for them by all calls that Grafana makes, and judges the answers.
. tests/clients/clients.inc
client_tool go 1.25.8 || {
	skip profilecli "$why"
	finish
}
sh tests/clients/replay/build.sh profilecli "$tool" "$client_cache" >"$work/build.log" 2>&1
case $? in
0) ;;
3)
	skip profilecli "$(tail -n 1 "$work/build.log")"
	finish
	;;
*)
	fail "profilecli builds" "$(tail -n 25 "$work/build.log")"
	finish
	;;
esac
client_server
profilecli=$client_cache/servers/profilecli
export PROFILECLI_URL="$url" HOME="$work"

# ---- a profile ----
node --input-type=module -e "
	import { gzipSync } from 'node:zlib';
	import { writeFileSync } from 'node:fs';
	import { pprofProfile } from '$PWD/tests/harness.mjs';
	const span = { span_id: '00f067aa0ba902b7', trace_id: '4bf92f3577b34da6a3ce929d0e0e4736' };
	const body = pprofProfile([[['heavy', 'main'], 7000, span], [['light', 'main'], 3000, {}]], { timeNs: BigInt(Date.now()) * 1000000n, durationNs: 1e9 });
	writeFileSync('$work/in.pb.gz', body[0] === 31 ? body : gzipSync(body));"
expect "upload" 0 'successfully uploaded' "$profilecli" upload --extra-labels=service_name=shop --extra-labels=region=eu "$work/in.pb.gz"
type=process_cpu:cpu:nanoseconds::
check_stored "upload: the total" total "{service_name=\"shop\", region=\"eu\"}" 10000 0
ask() { "$profilecli" query "$@" 2>&1; }
expect "query profile" 0 . ask profile --profile-type=$type --query='{service_name="shop"}' --output="pprof=$work/out.pb.gz"
expect "query profile: its total and names" 0 '^10000 heavy light main$' node --input-type=module -e "
	const { readPprof, total } = await import('$PWD/tests/convert/readers.mjs');
	const profile = readPprof('$work/out.pb.gz');
	console.log(String(total(profile, 0)), [...new Set(profile.samples.flatMap((s) => s.frames.map((f) => f.name)))].sort().join(' '));"
expect "query series" 0 "process_cpu +\| $type +\| cpu +\| nanoseconds +\| eu +\| shop" ask series --query='{service_name="shop"}'
expect "query top" 0 '1 \| shop +\| +10µs' ask top --profile-type=$type --label-names=service_name
expect "query label-values-cardinality" 0 'region +\| +1 ' ask label-values-cardinality
expect "query exemplars profile" 0 '[0-9a-f]{8}-[0-9a-f-]{27} \| .* 10µs \| eu +\| shop' ask exemplars profile --profile-type=$type
expect "query exemplars span" 0 '4bf92f3577b34da6a3ce929d0e0e4736 \| 00f067aa0ba902b7 \| .* 7µs \| eu +\| shop' ask exemplars span --profile-type=$type

# ---- the canary ----
port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
launch "$profilecli" canary-exporter --listen-address="127.0.0.1:$port" --query-probe-set=all >"$work/canary.log" 2>&1
probes() { curl -s "http://127.0.0.1:$port/metrics" | sed -n 's/^probe_success{name="\(.*\)"} /\1 /p'; }
# The last of a round.
has_ended() { probes | grep -q '^query-exemplars '; }
check "the canary has run" wait_for has_ended
probes >"$work/probes"
check "all 16 probes" test "$(wc -l <"$work/probes")" -eq 16
while read -r probe success; do
	if [ "$success" = 1 ]; then pass "canary: $probe"; else fail "canary: $probe" "$(grep 'level=error' "$work/canary.log" | tail -n 5)"; fi
done <"$work/probes"
check_nothing_refused
finish
