#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The page on large profiles, in Chromium against a server on this machine: bytes over the wire, time to the first paint, what frames cost
# while somebody zooms, scrolls, points and searches, time from a brush to the new graph, memory of the tab; a table of 250,000 rows; beside
# speedscope's own page on the same profile.
#   [--nodes "N..."]     of the flame graph: 10000 100000 1000000
set -eu
. bench/lib.inc
sizes="10000 100000 1000000"
while [ $# -gt 1 ]; do
	case $1 in
	--nodes) sizes=$2 ;;
	*)
		echo "page: unknown option $1" >&2
		exit 2
		;;
	esac
	shift 2
done
. tests/lib/chromium.inc
[ -x "$WICK_CHROMIUM" ] || {
	echo "skipped: no chromium"
	exit 0
}
[ -d tests/node_modules/playwright-core ] || (cd tests && npm ci --silent)
[ ! -f "$O/gen/web/app.js" ] || echo "  the page's script and style, gzip -9: $(node bench/page.mjs size "$O/gen/web/app.js" "$O/gen/web/app.css")"
# PROFILE: a server with it alone.
serve() {
	rm -rf "$work/data"
	: >"$work/server.log"
	start_server --debuginfod off
	curl -sf --data-binary "@$1" "$url/api/v1/ingest?name=process_cpu&label=service_name%3Dbench&format=pprof" >"$work/ingest.log"
}
end_server() {
	kill "$server_pid"
	wait "$server_pid" 2>/dev/null || true
}
node bench/page.mjs write "$work/rows.pb" 1000000 300000
serve "$work/rows.pb"
node bench/page.mjs rows "$url"
end_server
rm "$work/rows.pb"
for nodes in $sizes; do
	node bench/page.mjs write "$work/$nodes.pb" "$nodes"
	serve "$work/$nodes.pb"
	node bench/page.mjs show "$nodes" "$url"
	end_server
	# A million nodes are about what it can show at all: minutes, and gigabytes.
	timeout 300 node bench/page.mjs speedscope "$nodes" "$work/$nodes.pb" || echo "  $nodes nodes: speedscope did not get through it in 300 s"
	rm "$work/$nodes.pb"
done
