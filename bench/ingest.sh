#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the server takes and answers of raw pprof uploads: bench/ingest.c against a server on this machine; queries on the head first, then on blocks after a restart.
# Then what a fleet's agents send (bench/fleet): by store_append() from one and two threads, and as OTLP; and gzipped pprofs with few samples and many names.
. bench/lib.inc
start_server
"$O/bench/ingest" "$url" "$server_pid"
"$O/bench/ingest" "$url" "$server_pid" "head in memory"
printf '  server        peak %s MB\n' "$(peak_of "$server_pid")"
kill "$server_pid"
wait "$server_pid" 2>/dev/null
start_server
"$O/bench/ingest" "$url" "$server_pid" "blocks on disk"
kill "$server_pid"
wait "$server_pid" 2>/dev/null
rm -rf "$work/data"

for threads in 1 2; do
	printf 'store_append: %s threads\n' "$threads"
	"$O/bench/fleet" --data "$work/fleet" --append --days 0.01 --jobs "$threads" 2>/dev/null
	rm -rf "$work/fleet"
done
start_server
for connections in 1 2; do
	printf 'OTLP: %s connections\n' "$connections"
	"$O/bench/fleet" --url "$url" --pid "$server_pid" --days 0.01 --jobs "$connections" --seed "$connections" 2>/dev/null
done
kill "$server_pid"
wait "$server_pid" 2>/dev/null
rm -rf "$work/data"
# With an empty log, of which it prints by how much it has grown.
start_server
"$O/bench/ingest" "$url" "$server_pid" push
printf '  server        peak %s MB\n' "$(peak_of "$server_pid")"
