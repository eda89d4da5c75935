#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Comparisons on the page, in headless Chromium on a live fleet of which it is known what changed: bench/fleet/truth.c.
. tests/lib.inc
. tests/browser/fleet.inc
[ -x /usr/bin/chromium ] || { skip "comparisons on the page" "no chromium"; finish; }
start_fleet >"$work/start.log" 2>&1 || { fail "a fleet starts" "$(cat "$work/start.log")"; finish; }
WICK_URL=$url WICK_FLEET=$fleet_from,$fleet_deploy,$fleet_to node --test tests/browser/compare.test.mjs >"$work/node.log" 2>&1
status=$?
[ "$status" -eq 0 ] || tail -n 400 "$work/node.log"
eval "$(sed -nE 's/^(#|ℹ) (pass|fail|skipped) ([0-9]+)$/node_\2=\3/p' "$work/node.log")"
passed=$((passed + ${node_pass:-0})) failed=$((failed + ${node_fail:-1})) skipped=$((skipped + ${node_skipped:-0}))
finish
