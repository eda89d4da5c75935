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
seconds=${WICK_TEST_SECONDS:-$(if_full 20 2)}
programs=$PWD/tests/programs/perl

# NAME PERL VARIANT...
equal() {
	name=$1 perl=$2
	shift 2
	truth_equals "$name" "$perl" "$programs/truth.pl" "$seconds" "$work/log" "$@"
}

for perl in ${WICK_PERLS:-/usr/bin/perl}; do
	if ! version=$("$perl" -e 'printf("%vd", $^V)' 2>&1); then
		skip "$perl" "$version"
		continue
	fi
	equal "$version" "$perl"
	[ "$perl" != /usr/bin/perl ] ||
		truth_has ';main::callbacks;Perl_runops_standard(;[^;]+)+;main::by_burning;main::burn' ';main::callbacks;Perl_runops_standard(;[^;]+)+;main::__ANON__;main::burn'
done

perl=/usr/bin/perl
if [ -x "$perl" ]; then
	if [ -n "${WICK_TEST_FULL:-}" ]; then
		truth_hidden Perl_runops_standard ';main::burn' "$perl" "$programs/truth.pl" 1 "$work/log" plain
		truth_short 0.5 '/Perl_runops_standard/ && !/Perl_(require|load|yy|pp_require)|BEGIN/' '/\(main\);main::plain;main::(hot|cold);main::burn/' 10 "$perl" "$programs/truth.pl" 0.2 "$work/log" plain
	fi
	truth_running '/\(main\);main::plain;main::(hot|cold);main::burn/' 'perl +Perl 5\.[0-9]+ in ' "$perl" "$programs/truth.pl" 3600 "$work/log" plain
fi
finish
