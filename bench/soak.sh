#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Half an hour of 8 writers and 4 readers beside cuts and compaction, with heads and windows so small that there are many: memory, stalls, sums. SOAK_SECONDS sets another length.
. bench/lib.inc
cat >"$work/wick.yaml" <<'TEXT'
head: {size: 4MiB}
cut: {age: 5s}
compact: {window: 1m, long_window: 10m, memory: 64MiB}
TEXT
seconds=${SOAK_SECONDS:-1800}
echo "$seconds s; head 4 MiB, cut after 5 s, compacted over 1 min and 10 min"
start_server --config "$work/wick.yaml"
"$O/bench/soak" "$url" "$server_pid" "$seconds"
status=$?
curl -s "$url/metrics" | grep -E '^wick_store_(cuts|cut_failures|compactions|compact_failures|blocks|problems)[a-z_]*(\{[^}]*\})? ' | sed 's/^/  /'
if grep -vE 'http://|Ctrl-C' "$work/server.log" | grep .; then status=1; fi
kill "$server_pid"
wait "$server_pid"
du -sk "$work/data" | awk '{ printf "  on disk                  %.1f MB\n", $1 / 1024 }'
exit "$status"
