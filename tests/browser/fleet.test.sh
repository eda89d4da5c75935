#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tasks that people have with a fleet, on one that goes on (tests/browser/fleet.inc), in headless Chromium: tests/browser/fleet.test.mjs.
. tests/lib.inc
. tests/browser/fleet.inc
[ -x "${WICK_CHROMIUM:-/usr/bin/chromium}" ] || { skip "the page on a fleet" "no chromium"; finish; }
start_fleet >"$work/start.log" 2>&1 || { fail "a fleet starts" "$(cat "$work/start.log")"; finish; }
FLEET_FROM=$fleet_from FLEET_DEPLOY=$fleet_deploy WICK_URL=$url node --test tests/browser/fleet.test.mjs >"$work/node.log" 2>&1
status=$?
[ "$status" -eq 0 ] || tail -n 400 "$work/node.log"
eval "$(sed -nE 's/^(#|ℹ) (pass|fail|skipped) ([0-9]+)$/node_\2=\3/p' "$work/node.log")"
passed=$((passed + ${node_pass:-0})) failed=$((failed + ${node_fail:-1})) skipped=$((skipped + ${node_skipped:-0}))
finish
