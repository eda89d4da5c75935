# SPDX-License-Identifier: Apache-2.0
# ninety.pl SECONDS: spends nine tenths of its CPU time in hot() and one in cold().
use strict;
use warnings;

sub hot {
	my ($n) = @_;
	my $total = 0;
	for (my $i = 0; $i < 9 * $n; $i++) { $total += $i & 7 }
	return $total;
}

sub cold {
	my ($n) = @_;
	my $total = 0;
	for (my $i = 0; $i < $n; $i++) { $total += $i & 7 }
	return $total;
}

sub rounds {
	my ($seconds) = @_;
	my $end = (times)[0] + $seconds;
	while ((times)[0] < $end) {
		hot(20000);
		cold(20000);
	}
}

rounds($ARGV[0]);
