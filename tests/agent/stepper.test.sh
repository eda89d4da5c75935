#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Steps through functions of libc, libstdc++, libcrypto, ld.so and the vdso, one instruction at a time, and compares the rule of each with the truth (tests/oracle/stepper).
. tests/lib.inc
[ "$(uname -m)" = x86_64 ] || {
	skip "stepper" "only x86-64 so far"
	finish
}
make -s O="$O" ${SAN:+SAN=1} "$O/oracle/stepper" "$O/programs/unwind/stamp" >"$work/make.log" 2>&1 || {
	fail "the stepper and its program are built" "$(tail -n 20 "$work/make.log")"
	finish
}
[ -x "$O/programs/unwind/stepped" ] || {
	skip "stepper" "$(grep stepped "$O/programs/unwind/missing" || echo 'no g++')"
	finish
}
step() { # NAME STEPS [VARIABLE=VALUE] WHAT: at least so many steps, none of them wrong
	name=$1 least=$2
	shift 2
	timeout 600 env "$@" >"$work/out" 2>&1
	status=$?
	if grep -q 'PTRACE\|ptrace:\|cannot be run' "$work/out"; then
		skip "$name" "no ptrace here: $(tail -n 1 "$work/out")"
		return
	fi
	summary=$(grep '^steps ' "$work/out")
	wrong=$(sed -n 's/^wrong \([0-9]*\)$/\1/p' "$work/out")
	steps=$(echo "$summary" | awk '{ print $2 }')
	if [ "$status" -eq 0 ] && [ "${wrong:-1}" -eq 0 ] && [ "${steps:-0}" -ge "$least" ]; then
		pass "$name: $summary"
	else fail "$name: exit status $status, $summary, at least $least steps expected" "$(grep -A3 '^wrong' "$work/out" | head -n 28)"; fi
}
program="$O/programs/unwind/stepped"
step "libc, libstdc++, ld.so, vdso" 500000 "$O/oracle/stepper" "$program" libs
if [ -n "${WICK_TEST_FULL:-}" ]; then step "libcrypto" 300000 "$O/oracle/stepper" "$program" crypto; fi
# Other variants of the same functions, which the processor's abilities choose between.
if [ -n "${WICK_TEST_FULL:-}" ]; then
	step "digests without AVX" 100000 OPENSSL_ia32cap=0:0 "$O/oracle/stepper" "$program" crypto digests
	step "string functions without AVX2" 100000 GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2_Usable,-AVX512F_Usable,-AVX2,-AVX512F,-ERMS,-AVX512VL \
		"$O/oracle/stepper" "$program" strings
fi
finish
