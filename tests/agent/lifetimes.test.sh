#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs that become other programs, as Firefox Profiler sees them: a process of each, with its times, and what the machine is.
. tests/lib.inc
need_sampling "lifetimes"
burn='i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done' # a third of a second of CPU time, at least
odd=$(printf 'a "b"\\ \377\001')
cp "$O/programs/deep" "$work/$odd"
long=$(head -c 120000 /dev/zero | tr '\0' '\377')
# Of the child, which sleeps at its end, and of one that stays behind.
cat >"$work/command" <<END
$burn
"$O/programs/deep" 3600 >/dev/null &
echo \$! >"$work/behind"
sh -c '$burn; sleep 0.7; date +%s.%N >"$work/ended"; exit 3'
exec sh -c 'exec "\$0" 1cpu >/dev/null' "\$1"
END
"$WICK" record -F 199 -o "$work/p.firefox.json" -- sh "$work/command" "$work/$odd" "$long" >"$work/out" 2>&1
status=$?
kill "$(cat "$work/behind")"
check "the last program's status is that of the command" test $status -eq 0
seen() { node tests/agent/lifetimes.mjs "$@"; }
check "each program is a process, from its exec to its end" seen "$work/p.firefox.json" programs "$(cat "$work/behind")" deep "$(cat "$work/ended")"
check "what the machine is, and what was recorded" seen "$work/p.firefox.json" machine
"$WICK" convert -q "$work/p.firefox.json" -o "$work/q.firefox.json"
check "read and written again they are the same" seen "$work/q.firefox.json" programs "$(cat "$work/behind")" deep "$(cat "$work/ended")"
check "... and so is the machine" seen "$work/q.firefox.json" machine

# One process, from outside.
"$O/programs/deep" 3600 >/dev/null &
target=$!
pids="$pids $target"
wait_for grep -qx deep "/proc/$target/comm" >/dev/null # no longer the shell that becomes it
check "a process that was there before" record_cpu 500 $target -p $target -o "$work/there.firefox.json"
check "... began before and did not end" seen "$work/there.firefox.json" there $target
finish
