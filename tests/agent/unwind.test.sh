#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs that know their own stack (tests/programs/unwind), sampled and checked (tests/oracle/harness): the share of complete stacks, and no wrong frame.
. tests/lib.inc
need_sampling "unwind"
[ "$(uname -m)" = x86_64 ] || {
	skip "unwind" "only x86-64 so far"
	finish
}
make -s O="$O" ${SAN:+SAN=1} "$O/oracle/harness" "$O/programs/unwind/stamp" >"$work/make.log" 2>&1 || {
	fail "the harness and its programs are built" "$(tail -n 20 "$work/make.log")"
	finish
}
while read -r missing; do skip "${missing%%:*}" "${missing#*: }"; done <"$O/programs/unwind/missing"
seconds=${WICK_TEST_UNWIND_SECONDS:-$(if_full 6 2)}
programs=$O/programs/unwind

verify() { # NAME [SCENARIO...]: runs the program; its report is in $work/NAME
	name=$1
	shift
	"$O/oracle/harness" -F 499 -v 4 "$programs/$name" "$seconds" "$@" >"$work/$name" 2>&1
	status=$?
	[ "$status" -le 1 ] && grep -q '^agent ' "$work/$name" || {
		fail "$name is checked" "$(tail -n 20 "$work/$name")"
		return 1
	}
}
value() { # NAME CHAIN WORD: the number behind the word
	awk -v chain="$2" -v word="$3" '$1 == chain { for (i = 1; i < NF; i++) if ($i == word) { sub(/%/, "", $(i + 1)); print $(i + 1); found = 1 } } END { if (!found) print 0 }' "$work/$1"
}
no_wrong() { # NAME
	wrong=0
	for chain in agent kernel user plain; do wrong=$((wrong + $(value "$1" "$chain" wrong))); done
	damaged=$(value "$1" damaged missed)
	[ "${damaged:-0}" -eq 0 ] || fail "$1: the oracle finds damaged chains wrong" "$(grep '^damaged' "$work/$1")"
	if [ "$wrong" -eq 0 ]; then
		pass "$1: no wrong frame in $(value "$1" agent samples) samples, by any of four walks"
	else fail "$1: $wrong chains are wrong and do not say so" "$(cat "$work/$1")"; fi
}

: >"$work/total"
for path in "$programs"/shadow-*; do
	name=${path##*/}
	case $name in *.so | *musl*) continue ;; esac
	verify "$name" || continue
	no_wrong "$name"
	echo "$name $(value "$name" agent samples) $(value "$name" agent right) $(value "$name" agent unchecked)" >>"$work/total"
done
# Complete, and not known to be wrong. A program by itself has too few samples to tell 99.5 % from 99.2 %, all together have enough.
share=$(awk '{ all += $2; right += $3 + $4 } END { printf "%.2f", all ? 100 * right / all : 0 }' "$work/total")
if awk -v s="$share" 'BEGIN { exit !(s >= 99.5) }'; then
	pass "$share % of all samples are complete and right (99.5 asked for)"
else fail "$share % of all samples are complete and right (99.5 asked for)" "$(
	cat "$work/total"
	for f in "$work"/shadow-*; do
		echo "${f##*/}"
		grep -E '^(agent|  incomplete)' "$f"
	done
)"; fi

# musl's libc has no CFI at all: its code is gone through. The oracle does not know the child's side of musl's posix_spawn(), whose stack lies in
# its parent's, nor the entry of its dynamic linker in a program that is just being started.
for name in shadow-musl shadow-musl-static; do
	[ -x "$programs/$name" ] || continue
	verify "$name" qsort tree frames plt libc threads signals || continue
	no_wrong "$name"
	share=$(awk '$1 == "agent" { for (i = 1; i < NF; i++) { if ($i == "samples") all = $(i + 1); if ($i == "right" || $i == "unchecked") good += $(i + 1) } }
		END { printf "%.2f", all ? 100 * good / all : 0 }' "$work/$name")
	if awk -v s="$share" 'BEGIN { exit !(s >= 95) }'; then
		pass "$name: $share % of the samples are complete and right (95 asked for)"
	else fail "$name: $share % of the samples are complete and right (95 asked for)" "$(cat "$work/$name")"; fi
done
# More frames than are taken.
if verify shadow-gcc deeper; then
	no_wrong shadow-gcc
	if [ "$(value shadow-gcc agent too_deep)" -gt 0 ]; then
		pass "2,500 frames are cut at 2,048, and it is said so"
	else fail "2,500 frames are cut at 2,048, and it is said so" "$(cat "$work/shadow-gcc")"; fi
fi
finish
