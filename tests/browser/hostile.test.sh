#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Hostile names in every view, in headless Chromium: an empty server, and profiles that tests/browser/hostile.test.mjs pushes.
. tests/lib.inc
[ -x "${WICK_CHROMIUM:-/usr/bin/chromium}" ] || { skip "hostile names" "no chromium"; finish; }
start_server || { fail "the server starts"; finish; }
WICK_URL=$url node --test tests/browser/hostile.test.mjs >"$work/node.log" 2>&1
status=$?
[ "$status" -eq 0 ] || tail -n 400 "$work/node.log"
eval "$(sed -nE 's/^(#|ℹ) (pass|fail|skipped) ([0-9]+)$/node_\2=\3/p' "$work/node.log")"
passed=$((passed + ${node_pass:-0})) failed=$((failed + ${node_fail:-1})) skipped=$((skipped + ${node_skipped:-0}))
finish
