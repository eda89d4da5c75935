#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The graph over time in headless Chromium, on three hours of a fleet of which one service's deploy is known.
. tests/lib.inc
. tests/browser/fleet.inc
[ -x "${WICK_CHROMIUM:-/usr/bin/chromium}" ] || { skip "the graph over time" "no chromium"; finish; }
start_fleet --hosts 20 || { fail "a fleet" "$(cat "$work/fleet.log")"; finish; }
WICK_URL=$url WICK_FROM=$fleet_from WICK_DEPLOY=$fleet_deploy WICK_TO=$fleet_to node --test tests/browser/time.test.mjs >"$work/node.log" 2>&1
status=$?
[ "$status" -eq 0 ] || tail -n 400 "$work/node.log"
eval "$(sed -nE 's/^(#|ℹ) (pass|fail|skipped) ([0-9]+)$/node_\2=\3/p' "$work/node.log")"
passed=$((passed + ${node_pass:-0})) failed=$((failed + ${node_fail:-1})) skipped=$((skipped + ${node_skipped:-0}))
finish
