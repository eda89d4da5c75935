#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks through code made at run time: hand-made code that keeps no frame pointer, also where it is replaced at the same address all the time
# (then each stack is right, or it says that it is not complete); Java without frame pointers, and node.
. tests/lib.inc
need_sampling "jit_stacks"
programs=$PWD/tests/programs
# NAME COMMAND...: records it into $work/NAME.folded.
record() {
	name=$1
	shift
	"$WICK" record -F 499 -o "$work/$name.pb.gz" -- "$@" >"$work/said" 2>"$work/$name.err" &&
		"$WICK" convert -q "$work/$name.pb.gz" -o - --to folded >"$work/$name.folded"
}
# NAME LEAST: the share of complete stacks that the summary gives. What is asked at the start, before the rules are known, is little of it.
complete() {
	got=$(sed -n 's/.*user stacks complete: \([0-9.]*\) %.*/\1/p' "$work/$1.err")
	if awk -v got="${got:-0}" -v least="$2" 'BEGIN { exit !(got >= least) }'; then
		pass "$1: $got % of the stacks are complete"
	else
		fail "$1: ${got:-no} % of the stacks are complete, $2 are wanted" "$(cat "$work/$1.err")"
	fi
}
# NAME: of what has a frame of the made code, prints "RIGHT FLAGGED WRONG", as numbers of different stacks. What was called back and its caller have
# one letter.
judge() {
	awk '!/\[anon/ || /_\[k\]/ { next }
		{ sub(/ [0-9]+$/, "") }
		/\[unknown stack\]|\[caller may be missing\]/ { flagged++; next }
		/;main;call_a;\[anon[^;]*(;back_a)?$/ || /;main;call_b;\[anon[^;]*(;back_b)?$/ || /;main;call_c;\[anon[^;]*(;back_c)?$/ { right++; next }
		{ wrong++; print > "/dev/stderr" }
		END { print right + 0, flagged + 0, wrong + 0 }' "$work/$1.folded"
}
judged() {
	verdict=$(judge "$1" 2>"$work/wrong")
	case $verdict in
	0\ *) fail "$1: no stack is right ($verdict)" "$(cat "$work/$1.err")" ;;
	*\ 0) pass "$1: no stack is wrong without saying so ($verdict)" ;;
	*) fail "$1: stacks are wrong ($verdict)" "$(head -n 5 "$work/wrong")" ;;
	esac
}
seconds=$(if_full 3 2)
check "code that stays is recorded" record stays "$O/programs/replaced_code" $((seconds + 1)) 100
complete stays 80
judged stays
for moment in 0.005 0.02 0.4; do
	check "code that is replaced every $moment s is recorded" record "every_$moment" "$O/programs/replaced_code" "$seconds" $moment
	judged "every_$moment"
done
check "code that has no frame yet, and is replaced, is recorded" record early "$O/programs/replaced_code" "$seconds" 0.005 early
judged early

# What an agent knows of such code is in its metrics.
launch "$WICK" up --data "$work/up" --listen 127.0.0.1:0 -F 199 --budget 0 2>"$work/up.log"
up_pid=$!
"$O/programs/replaced_code" 3600 0.4 &
replaced=$!
pids="$pids $replaced"
counted() { curl -sf "$url/metrics" | awk '$1 == "wick_agent_unwind_jit_rules" { rules = $2 } $1 ~ /^wick_agent_unwind_jit_pieces/ { n += $2 > 0 } END { exit !(rules > 0 && n == 2) }'; }
wait_url "$work/up.log" "$up_pid" || fail "wick up starts" "$(cat "$work/up.log")"
check "rules, and code that was replaced, are counted" wait_for counted
kill "$up_pid" "$replaced"
wait "$up_pid" "$replaced" 2>/dev/null
if uses java javac; then
	check "javac" javac -d "$work" "$programs/JitLoad.java"
	check "java is recorded" record java java -cp "$work" JitLoad 6
	complete java 80
else
	skip "java" "$missing"
fi
if uses node; then
	check "node is recorded" record node node "$programs/jit.js" 4
	complete node 90
else
	skip "node" "$missing"
fi
finish
