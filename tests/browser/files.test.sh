#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files that are dropped on the page of a server, in headless Chromium: tests/browser/files.test.mjs.
. tests/lib.inc
[ -x "${WICK_CHROMIUM:-/usr/bin/chromium}" ] || { skip "files on the page" "no chromium"; finish; }
WICK="$WICK" WICK_WORK="$work" node --test tests/browser/files.test.mjs >"$work/node.log" 2>&1
status=$?
[ "$status" -eq 0 ] || tail -n 400 "$work/node.log"
eval "$(sed -nE 's/^(#|ℹ) (pass|fail|skipped) ([0-9]+)$/node_\2=\3/p' "$work/node.log")"
passed=$((passed + ${node_pass:-0})) failed=$((failed + ${node_fail:-1})) skipped=$((skipped + ${node_skipped:-0}))
finish
