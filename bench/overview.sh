#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a start page asks of a fleet of 100 hosts (docs/api.md, "An overview"): wall clock, CPU time of the server and size of each answer.
#
#   ./dev bench overview [--data DIR]
#
# Without DIR, two days are made once, and kept in $O/fleet-overview.
set -eu
pids=
. bench/lib.inc
data=$O/fleet-overview
[ "${1:-}" != --data ] || data=$2
[ -d "$data/blocks" ] || "$O/bench/fleet" --data "$data" --days 2 --jobs 2 --compact --start "$(($(date +%s) / 86400 * 86400 - 172800))"
launch "$WICK" server --data "$data" --listen 127.0.0.1:0 --keep forever 2>"$work/server.log"
server_pid=$!
wait_url "$work/server.log" "$server_pid"
node bench/overview.mjs "$url" "$server_pid"
