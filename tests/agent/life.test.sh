#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wick doctor --pid: a busy process, an idle one, one that runs a file that is gone, and none.
. tests/lib.inc
expect "doctor --pid wants a number" 2 "pid" "$WICK" doctor --pid x
need_sampling "doctor --pid"
expect "there is no such process" 1 "no process 4194303" "$WICK" doctor --pid 4194303 -d 1
cp "$O/programs/load" "$work/program"
"$work/program" 3600 >/dev/null &
busy=$!
sleep 3600 &
idle=$!
pids="$pids $busy $idle"
wait_cpu 50 "$busy" # it is what was copied, and not yet what replaces it
build_id=$(readelf -n "$work/program" | sed -n 's/.*Build ID: //p')
cp /bin/true "$work/true" && mv "$work/true" "$work/program"
"$WICK" doctor --pid "$busy" -d 4 >"$work/busy" 2>&1
expect "the program is named" 0 "^ok +executable +$work/program" cat "$work/busy"
expect "its build-id is that of the replaced file" 0 "^ok +build-id +$build_id" cat "$work/busy"
expect "its unwind information is counted" 0 "^ok +program +[0-9]+ rows" cat "$work/busy"
expect "it was sampled" 0 "^ok +samples +[1-9][0-9]* in" cat "$work/busy"
expect "complete stacks are counted" 0 "^(ok|warn) +complete +[0-9.]+ %" cat "$work/busy"
expect "an idle process has no samples" 0 "^warn +samples +none in" "$WICK" doctor --pid "$idle" -d 1
finish
