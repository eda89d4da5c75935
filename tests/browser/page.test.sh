#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The page in headless Chromium on live data of this machine: `wick up`, a program to look at, and tests/browser/page.test.mjs to drive it.
. tests/lib.inc
can_sample || { skip "the page on live data" "$no_sampling"; finish; }
[ -x /usr/bin/chromium ] || { skip "the page on live data" "no chromium"; finish; }
"$WICK" up --data "$work/up" --listen 127.0.0.1:0 -F 99 2>"$work/up.log" &
pids="$pids $!"
wait_url "$work/up.log" "$!" || { fail "wick up starts" "$(cat "$work/up.log")"; finish; }
"$O/programs/workload" 3600 >/dev/null &
pids="$pids $!"
"$O/programs/load" 3600 1 >/dev/null &
pids="$pids $!"
# Something to see, of several flushes.
has_enough() { "$WICK" query process_cpu --url "$url" --from now-30m --format json -n 0 -o "$work/q.json" && [ "$(total_of "$work/q.json" longTask)" -gt 8000000000 ]; }
wait_for has_enough || fail "there are samples"
WICK_URL=$url node --test tests/browser/page.test.mjs >"$work/node.log" 2>&1
status=$?
[ "$status" -eq 0 ] || tail -n 400 "$work/node.log"
eval "$(sed -nE 's/^(#|ℹ) (pass|fail|skipped) ([0-9]+)$/node_\2=\3/p' "$work/node.log")"
passed=$((passed + ${node_pass:-0})) failed=$((failed + ${node_fail:-1})) skipped=$((skipped + ${node_skipped:-0}))
finish
