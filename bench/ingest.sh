#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the server takes and answers of raw pprof uploads: bench/ingest.c against a server on this machine; queries on the head first, then on blocks after a restart.
. bench/lib.inc
start_server
"$O/bench/ingest" "$url" "$server_pid"
"$O/bench/ingest" "$url" "$server_pid" "head in memory"
printf '  server        peak %s MB\n' "$(peak_of "$server_pid")"
kill "$server_pid"
wait "$server_pid" 2>/dev/null
start_server
"$O/bench/ingest" "$url" "$server_pid" "blocks on disk"
