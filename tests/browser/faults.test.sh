#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The page in headless Chromium behind a proxy that delays, drops and spoils what the server answers.
. tests/lib.inc
. tests/browser/fleet.inc
[ -x "${WICK_CHROMIUM:-/usr/bin/chromium}" ] || { skip "a server in trouble" "no chromium"; finish; }
start_fleet --hosts 20 || { fail "a fleet" "$(cat "$work/fleet.log")"; finish; }
WICK_URL=$url node --test tests/browser/faults.test.mjs >"$work/node.log" 2>&1
status=$?
[ "$status" -eq 0 ] || tail -n 400 "$work/node.log"
eval "$(sed -nE 's/^(#|ℹ) (pass|fail|skipped) ([0-9]+)$/node_\2=\3/p' "$work/node.log")"
passed=$((passed + ${node_pass:-0})) failed=$((failed + ${node_fail:-1})) skipped=$((skipped + ${node_skipped:-0}))
finish
