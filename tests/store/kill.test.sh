#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kill -9 at random moments of ingest, cut, merging and retention, through the HTTP port: every acknowledged profile is there after the restart, none twice.
. tests/network.inc
. tests/lib.inc
rounds=${WICK_KILL_ROUNDS:-$(if_full 300 24)}
check "kill -9 loop, $rounds rounds" node tests/store/kill.mjs "$WICK" "$work/data" "$rounds"
printf '%s\n' "$check_output" | tail -n 1
finish
