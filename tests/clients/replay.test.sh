#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the real clients have sent in this run (replay/record.mjs), sent again to Wick and to a server of Pyroscope, built from its sources (replay/build.sh);
# then both have the same types, labels, totals and stacks (replay/pyroscope.mjs), but for what docs/ingest.md lists. By itself this script runs the
# clients first.
. tests/clients/clients.inc
recordings=${WICK_TEST_RECORDINGS:-$work/recorded}
client_tool go 1.25.8 || {
	skip replay "$why"
	finish
}
sh tests/clients/replay/build.sh pyroscope "$tool" "$client_cache" >"$work/build.log" 2>&1
case $? in
0) ;;
3)
	skip "a server of Pyroscope" "$(tail -n 1 "$work/build.log")"
	finish
	;;
*)
	fail "Pyroscope builds" "$(tail -n 25 "$work/build.log")"
	finish
	;;
esac

# ---- the servers ----
client_server --tenants
# Free ports: HTTP, gRPC, raft, memberlist.
# shellcheck disable=SC2046
set -- $(node -e 'const { createServer } = require("net"); const s = Array.from({ length: 4 }, () => createServer().listen(0, "127.0.0.1"));
	setTimeout(() => { console.log(s.map((x) => x.address().port).join(" ")); s.forEach((x) => x.close()); }, 100)')
pyroscope=http://127.0.0.1:$1
addresses=
for ring in compactor.ring distributor.ring overrides-exporter.ring query-scheduler.ring store-gateway.sharding-ring query-frontend; do
	addresses="$addresses -$ring.instance-addr=127.0.0.1"
done
mkdir "$work/pyroscope"
# shellcheck disable=SC2016,SC2086
launch sh -c 'cd "$0" && exec "$@"' "$work/pyroscope" "$client_cache/servers/pyroscope" -target=all -architecture.storage=v2 -auth.multitenancy-enabled=true \
	-server.http-listen-address=127.0.0.1 -server.http-listen-port="$1" -server.grpc-listen-address=127.0.0.1 -server.grpc-listen-port="$2" \
	-metastore.address=127.0.0.1:"$2" -query-backend.address=127.0.0.1:"$2" -metastore.raft.server-id=127.0.0.1:"$3" \
	-metastore.raft.bind-address=127.0.0.1:"$3" -metastore.raft.advertise-address=127.0.0.1:"$3" \
	-memberlist.bind-addr=127.0.0.1 -memberlist.bind-port="$4" -memberlist.advertise-addr=127.0.0.1 $addresses \
	-ingester.lifecycler.addr=127.0.0.1 -segment-writer.lifecycler.addr=127.0.0.1 -ingester.min-ready-duration=0s -segment-writer.min-ready-duration=0s \
	-metastore.min-ready-duration=0s -validation.reject-older-than=0 -validation.reject-newer-than=0 -usage-stats.enabled=false \
	-self-profiling.disable-push=true -log.level=warn >"$work/pyroscope.log" 2>&1
pyroscope_is_ready() { test "$(curl -s "$pyroscope/ready")" = ready; }
if ! wait_for pyroscope_is_ready >/dev/null; then
	fail "Pyroscope starts" "$(tail -n 20 "$work/pyroscope.log")"
	finish
fi

# ---- the clients ----
# Recordings that come with a parser (jfr-parser) are no client's; Parca Agent's protocol is not Pyroscope's.
for client in async-profiler datadog-pprof otlp-pdata profilecli py-spy pyroscope-connect pyroscope-go pyroscope-io pyroscope-java pyroscope-nodejs pyroscope-rust; do
	if [ ! -d "$recordings/$client" ]; then
		WICK_TEST_RECORDED="$recordings/$client" sh "tests/clients/$client.test.sh" >"$work/client.log" 2>&1
		if [ ! -d "$recordings/$client" ]; then
			skip "$client" "sends nothing here: $(grep -E '^(skipped|FAILED)' "$work/client.log" | head -n 1)"
			continue
		fi
	fi
	if node tests/clients/replay/pyroscope.mjs "$url" "$pyroscope" "$client" "$recordings/$client" >"$work/compared" 2>&1; then
		pass "$(head -n 1 "$work/compared")"
	else
		fail "$client: Wick has what Pyroscope has" "$(cat "$work/compared")"
	fi
	sed -n 's/^differs as documented: //p' "$work/compared" | tr ',' '\n' | sed 's/^ //' >>"$work/differences"
done
sort -u "$work/differences" >"$work/listed"
while read -r difference; do
	check "docs/ingest.md has the difference: $difference" grep -qF "| $difference |" docs/ingest.md
done <"$work/listed"
check_nothing_refused
finish
