#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The list of recordings of several hosts in headless Chromium: an empty server, an agent of this machine that makes one by
# `wick record --remote`, and hosts that tests/browser/recordings.test.mjs plays.
. tests/lib.inc
[ -x "${WICK_CHROMIUM:-/usr/bin/chromium}" ] || { skip "recordings in the page" "no chromium"; finish; }
can_sample && unshare --uts true 2>/dev/null && export WICK_AGENT=1
mkdir -m 1777 "$work/tmp" # of the recorders of this test
export TMPDIR="$work/tmp"
start_server || { fail "the server starts"; finish; }
WICK="$WICK" WICK_URL=$url WICK_WORK="$work" node --test tests/browser/recordings.test.mjs >"$work/node.log" 2>&1
status=$?
[ "$status" -eq 0 ] || tail -n 400 "$work/node.log"
eval "$(sed -nE 's/^(#|ℹ) (pass|fail|skipped) ([0-9]+)$/node_\2=\3/p' "$work/node.log")"
passed=$((passed + ${node_pass:-0})) failed=$((failed + ${node_fail:-1})) skipped=$((skipped + ${node_skipped:-0}))
finish
