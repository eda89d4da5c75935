#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks of Perl: what tests/programs/perl/truth.pl says of its own stacks, against what is recorded; in a process that runs already, in short-lived
# and forked ones. With every interpreter in WICK_PERLS, else /usr/bin/perl.
. tests/lib.inc
. tests/agent/truth.inc
need_sampling "perl"
[ "$(uname -m)" = x86_64 ] || {
	skip "perl" "only x86-64 so far"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 20 4)}
programs=$PWD/tests/programs/perl

# NAME PERL VARIANT...
equal() {
	name=$1 perl=$2
	shift 2
	truth_equals "$name" "python3 tests/programs/listed/check.py" "$perl" "$programs/truth.pl" "$seconds" "$work/log" "$@"
}

for perl in ${WICK_PERLS:-/usr/bin/perl}; do
	if ! version=$("$perl" -e 'printf("%vd", $^V)' 2>&1); then
		skip "$perl" "$version"
		continue
	fi
	equal "$version" "$perl"
done

perl=/usr/bin/perl
if [ -x "$perl" ]; then
	# Hidden, the interpreter alone is seen.
	if [ -n "${WICK_TEST_FULL:-}" ]; then
		"$WICK" record -F 199 --runtimes none -o "$work/none.folded" -- "$perl" "$programs/truth.pl" 1 "$work/log" plain 2>"$work/err"
		if grep -q 'Perl_runops_standard' "$work/none.folded" && ! grep -q ';main::burn' "$work/none.folded"; then
			pass "--runtimes none shows the interpreter only"
		else
			fail "--runtimes none shows the interpreter only" "$(head -n 5 "$work/none.folded")"
		fi
	fi
	"$WICK" record -F 199 -o "$work/calls.folded" -- "$perl" "$programs/truth.pl" 2 "$work/log" callbacks 2>"$work/err"
	if grep -qE ';main::callbacks;Perl_runops_standard(;[^;]+)+;main::by_burning;main::burn' "$work/calls.folded" &&
		grep -qE ';main::callbacks;Perl_runops_standard(;[^;]+)+;main::__ANON__;main::burn' "$work/calls.folded"; then
		pass "what C calls stands behind the C function"
	else
		fail "what C calls stands behind the C function" "$(grep -E 'by_burning|__ANON__' "$work/calls.folded" | head -n 3)"
	fi
	# Processes that live for a moment, forked from one that is known and run by a shell: all but their start has the subroutines that ran.
	printf '#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9 10; do %s %s 0.2 %s plain; done\n' "$perl" "$programs/truth.pl" "$work/log" >"$work/short.sh"
	"$WICK" record -F 499 -o "$work/short.folded" -- sh "$work/short.sh" 2>"$work/err"
	if awk '{ n = $NF } /Perl_runops_standard/ && !/Perl_(require|load|yy|pp_require)|BEGIN/ { loop += n }
		/\(main\);main::plain;main::(hot|cold);main::burn/ { good += n } END { exit !(loop > 100 && good > 0.5 * loop) }' "$work/short.folded"; then
		pass "subroutines of short-lived processes"
	else
		fail "subroutines of short-lived processes" "$(cat "$work/err" && head -n 5 "$work/short.folded")"
	fi
	# A process that runs already, by its number, and what doctor says of it.
	launch "$perl" "$programs/truth.pl" 3600 "$work/log" plain
	running=$!
	check "a process that runs is recorded" record_cpu 1500 $running -F 199 -p $running -o "$work/running.folded"
	if awk '{ n = $NF; all += n } /\(main\);main::plain;main::(hot|cold);main::burn/ { good += n } END { exit !(good > 0.9 * all) }' "$work/running.folded"; then
		pass "it shows its subroutines from the first moment"
	else
		fail "it shows its subroutines from the first moment" "$(head -n 5 "$work/running.folded")"
	fi
	expect "doctor tells the version" 0 'perl +Perl 5\.[0-9]+ in ' "$WICK" doctor --pid $running --duration 1
	kill $running
fi
finish
