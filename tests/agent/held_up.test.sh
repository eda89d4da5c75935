#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A recorder that is kept from the CPU while a program begins: it is stopped before the program executes, and goes on when that has used a second of CPU time. Until then nobody knows what the program maps, and of all
# its samples there are copies of the stack: they are complete from the first one on. The program is deep, whose every stack is known to begin in _start or in the start of a thread.
. tests/lib.inc
need_sampling "held up"
# NAME THREADS: records a program that waits to begin; sets samples and percent, of stacks that reach their root.
record_held_up() {
	cp "$O/programs/deep" "$work/$1"
	# shellcheck disable=SC2016 # of the inner shell
	launch sh -c 'kill -STOP $$; exec "$@"' sh "$work/$1" 600 "$2" >/dev/null
	program=$!
	wait_for is_stopped "$program" || return 1
	launch "$WICK" record -F 99 -p "$program" -o "$work/$1.pb" 2>"$work/$1.log"
	recorder=$!
	wait_recording "$recorder" || return 1
	kill -STOP "$recorder"
	wait_for is_stopped "$recorder" || return 1
	kill -CONT "$program"
	wait_cpu 1000 "$program" || return 1
	kill -CONT "$recorder"
	wait_cpu 200 "$program"
	kill -INT "$recorder"
	wait "$recorder" || return 1
	kill "$program"
	"$WICK" convert "$work/$1.pb" -o "$work/$1.folded" 2>>"$work/$1.log" || return 1
	# The dynamic linker, the shell before its exec, and exec itself are not deep's functions.
	grep -E ';(step[A-Z]?[a-z]*|leafWork|leafSort)(_\[i\])?[; ]' "$work/$1.folded" >"$work/$1.deep"
	node tests/complete.mjs folded "$work/$1.deep" --show 8 >"$work/$1.complete"
	read -r all _ percent <"$work/$1.complete"
	samples=$(awk -v all="$all" 'BEGIN { printf "%.0f", all / 10101010 }')
}
is_stopped() { grep -q '^State:.*T' "/proc/$1/status"; }
# NAME THREADS
verify() {
	if ! record_held_up "$1" "$2"; then
		fail "$1: a recorder can be held up" "$(cat "$work/$1.log")"
		return
	fi
	# By sampling a second of CPU time at 99 Hz, more than the 64 copies that may be made between two looks of the recorder.
	if [ "$samples" -ge 80 ]; then pass "$1: $samples samples (at least 80)"; else fail "$1: $samples samples (at least 80)" "$(cat "$work/$1.log")"; fi
	if awk -v got="$percent" 'BEGIN { exit !(got >= 99) }'; then pass "$1: $percent % of stacks are complete (at least 99)"; else fail "$1: $percent % of stacks are complete (at least 99)" "$(cut -c 1-200 "$work/$1.complete" "$work/$1.log")"; fi
}
verify one_thread 1
verify two_threads 2
finish
