# SPDX-License-Identifier: Apache-2.0
# Runs subroutines in many ways, and writes down for each the stack that Perl itself says it is called by.
#
# truth.pl SECONDS LOG [VARIANT...]: SECONDS of CPU time. LOG gets a line a stack, JSON: {"variant": ..., "stack": [[name, file, line], ...]}, outermost first;
# the last frame is main::burn(), in which nearly all time goes by. Runs on 5.28 and later.
use strict;
use warnings;
use utf8;
no warnings 'recursion';
use List::Util qw(first reduce);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID);
use Encode ();
use FindBin;

our ( $variant, $log, %known );

sub quote {
	my ($text) = @_;
	$text = Encode::encode( 'UTF-8', $text ) if utf8::is_utf8($text);
	$text =~ s/(["\\])/\\$1/g;
	return qq("$text");
}

# caller() has the line of the call beside the subroutine that is called.
sub note {
	my ( @stack, $file, $line );
	( undef, $file, $line ) = caller(0);
	my $eval = qr/^\(eval \d+\)$/; # anew each time
	for ( my $i = 1 ; my @call = caller($i) ; $i++ ) {
		$file =~ s/$eval/(eval)/;
		unshift @stack, sprintf( '[%s,%s,%d]', quote( $call[3] ), quote($file), $line );
		( $file, $line ) = @call[ 1, 2 ];
	}
	unshift @stack, sprintf( '["(main)",%s,%d]', quote($file), $line );
	my $key = sprintf( '{"variant":"%s","stack":[%s]}', $variant, join( ',', @stack ) );
	print {$log} "$key\n" unless $known{$key}++;
}

sub burn {
	my ($milliseconds) = @_;
	note();
	my $end   = clock_gettime(CLOCK_MONOTONIC) + ( $milliseconds // 20 ) / 1000;
	my $total = 0;
	while ( clock_gettime(CLOCK_MONOTONIC) < $end ) {
		for my $i ( 1 .. 200 ) { $total += $i * $i % 7 }
	}
	return $total;
}

sub plain { hot(); cold(); }
sub hot   { burn(18); return; }
sub cold  { burn(2);  return; }

sub deep {
	my ($depth) = @_;
	$depth //= 200;
	my $result = $depth ? deep( $depth - 1 ) : burn();
	return $result;
}
sub even { my ($n) = @_; my $result = $n ? odd( $n - 1 )  : burn(); return $result; }
sub odd  { my ($n) = @_; my $result = $n ? even( $n - 1 ) : burn(); return $result; }
sub mutual { even(12); return; }

sub blocks {
	for my $i ( 1 .. 2 ) {
		foreach my $key ( sort { $a cmp $b } keys %{ { a => 1, b => 2 } } ) {
			{
				while (1) {
					if ( $i > 0 ) {
						burn(5);
					}
					last;
				}
			}
		}
	}
	return;
}

sub raises {
	my ($depth) = @_;
	if ($depth) {
		eval { raises( $depth - 1 ); 1 } or do { burn(3); die $@ };
	}
	die "expected\n";
}

sub exceptions {
	eval { raises(5); };
	burn(5);
	local $SIG{__DIE__} = sub { burn(5) };
	eval { die "expected\n" };
	local $SIG{__WARN__} = sub { burn(5) };
	warn "expected\n";
	return;
}

sub by_burning { burn(3); return $a <=> $b; }

sub callbacks {
	my @list = sort { burn(3); $a <=> $b } 3, 1, 2;
	@list = sort by_burning 3, 1, 2;
	@list = map  { burn(3); $_ } 1, 2;
	@list = grep { burn(3); 1 } 1, 2;
	my $found = first { burn(3); 0 } 1, 2;
	my $sum = reduce { burn(3); $a + $b } 1, 2, 3;
	( my $text = 'ab' ) =~ s/b/burn(5)/e;
	'a' =~ /a(?{ burn(5) })/;
	return;
}

sub closures {
	my ($n) = @_;
	my $inner = sub { my ($more) = @_; burn( 60 + 0 * $more ); return $n; };
	my $outer = sub { my $result = $inner->(1); return $result; };
	$outer->();
	return;
}

{
	package Held;
	use overload '+' => \&plus, '""' => sub { main::burn(5); return 'held' }, 'cmp' => sub { main::burn(5); return 0 };
	sub new     { my ($class) = @_; return bless {}, $class; }
	sub method  { main::burn(5); return; }
	sub plus    { main::burn(5); return 1; }
	sub DESTROY { main::burn(5); return; }
	our $AUTOLOAD;
	sub AUTOLOAD { main::burn(5); return; }

	package Heir;
	our @ISA = ('Held');
	sub method { my ($self) = @_; $self->SUPER::method(); return; }

	package Tied;
	sub TIESCALAR { my ($class) = @_; return bless [], $class; }
	sub FETCH     { main::burn(5); return 1; }
}

sub methods {
	my $held = Heir->new;
	$held->method;
	$held->missing(1);
	my $sum = $held + 1;
	my $text = "$held";
	tie my $tied, 'Tied';
	my $value = $tied;
	untie $tied;
	undef $held;
	return;
}

sub goes { @_ = (5); goto &burn_for; }
sub burn_for { my ($n) = @_; burn($n); return; }

sub evaluated {
	# Compiled anew each time: names are read while it runs.
	eval "sub { burn(60) }->();\nburn(60);" or 1;
	return;
}

sub included { do "$FindBin::Bin/included.pl"; return; }

sub signals {
	local $SIG{USR1} = sub { burn(10) };
	kill USR1 => $$;
	my $after = 1;
	return;
}

sub wanted_list { my @list = ( burn(5), scalar( burn(5) ) ); return wantarray ? @list : $list[0]; }
sub contexts { my ( $first, $second ) = wanted_list(); my $one = wanted_list(); return; }

sub grüße_Привет { burn(); return; }

our %variants = (
	plain      => \&plain,
	deep       => sub { deep() },
	mutual     => \&mutual,
	blocks     => \&blocks,
	exceptions => \&exceptions,
	callbacks  => \&callbacks,
	closures   => sub { closures(1) },
	methods    => \&methods,
	goes       => \&goes,
	evaluated  => \&evaluated,
	included   => \&included,
	signals    => \&signals,
	contexts   => \&contexts,
	unicode    => \&grüße_Привет,
);

my ( $seconds, $path, @names ) = @ARGV;
@names = sort keys %variants unless @names;
open $log, '>', $path or die "$path: $!";
$log->autoflush(1);
close STDERR;
for my $name (@names) {
	$variant = $name;
	my $end = clock_gettime(CLOCK_PROCESS_CPUTIME_ID) + $seconds / @names;
	while ( clock_gettime(CLOCK_PROCESS_CPUTIME_ID) < $end ) { $variants{$name}->() }
}
