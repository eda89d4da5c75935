#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Names, files and lines in the page: `wick up`, a program of which lines and inlined functions are known, and
# tests/browser/symbols.test.mjs to look at it.
. tests/lib.inc
can_sample || { skip "files and lines in the page" "$no_sampling"; finish; }
[ -x /usr/bin/chromium ] || { skip "files and lines in the page" "no chromium"; finish; }
# The server is another user than the test, and reads the source where the debug information says it is.
mkdir "$work/program" && cp tests/browser/hot_lines.c "$work/program/" &&
	cc -g -O2 -o "$work/program/hot_lines" "$work/program/hot_lines.c" || { fail "the program compiles"; finish; }
"$WICK" up --data "$work/up" --listen 127.0.0.1:0 -F 99 2>"$work/up.log" &
pids="$pids $!"
wait_url "$work/up.log" "$!" || { fail "wick up starts" "$(cat "$work/up.log")"; finish; }
"$work/program/hot_lines" 3600 >/dev/null &
pids="$pids $!"
WICK_URL=$url WICK_HOT_SOURCE="$work/program/hot_lines.c" node --test tests/browser/symbols.test.mjs >"$work/node.log" 2>&1
status=$?
[ "$status" -eq 0 ] || tail -n 400 "$work/node.log"
eval "$(sed -nE 's/^(#|ℹ) (pass|fail|skipped) ([0-9]+)$/node_\2=\3/p' "$work/node.log")"
passed=$((passed + ${node_pass:-0})) failed=$((failed + ${node_fail:-1})) skipped=$((skipped + ${node_skipped:-0}))
finish
