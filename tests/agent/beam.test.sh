#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks of Erlang: what tests/programs/beam/truth.erl says of its own stacks, against what is recorded; in a process that runs already, in short-lived
# ones. With the Erlang of this system, or that of every system whose root directory is in WICK_ERLANG_ROOTS ("/ /srv/trixie").
# shellcheck disable=SC2086 # flags and enter are words
. tests/lib.inc
. tests/agent/truth.inc
need_sampling "beam"
[ "$(uname -m)" = x86_64 ] || {
	skip "beam" "only x86-64 so far"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 12 3)}
flags="+sbwt none +sbwtdcpu none +sbwtdio none -noshell" # schedulers do not look for work for a while before they sleep

# ROOT: sets $inside and $outside to a directory there with truth.beam in it, and $enter to what a command is run by. False: there is no Erlang.
set_up() {
	root=${1%/} enter=
	[ -z "$root" ] || enter="chroot $root"
	outside=$(mktemp -d "$root/tmp/wick-beam.XXXXXX") || return 1
	chmod 755 "$outside"
	inside=${outside#"$root"}
	cp tests/programs/beam/truth.erl "$outside"
	$enter sh -c "cd $inside && erlc truth.erl" >"$work/err" 2>&1
}

for root in ${WICK_ERLANG_ROOTS:-/}; do
	if ! set_up "$root"; then
		skip "Erlang in $root" "$(cat "$work/err")"
		rm -rf "$outside"
		continue
	fi
	release=$($enter erl -noshell -eval 'io:format("~s", [erlang:system_info(otp_release)]), halt().')
	ln -sf "$outside/log" "$work/log"
	truth_equals "$release" $enter erl $flags -pa "$inside" -run truth main "$seconds" "$inside/log"
	truth_equals "$release, with frame pointers" \
		$enter erl +JPperf true $flags -pa "$inside" -run truth main "$seconds" "$inside/log"
	# Elixir's stack traces name functions in another way.
	cp tests/programs/beam/truth.ex "$outside"
	if elixir=$($enter sh -c "cd $inside && elixirc truth.ex && elixir -e 'IO.write(:code.lib_dir(:elixir))'" 2>"$work/err"); then
		truth_equals "$release, Elixir" \
			$enter erl $flags -pa "$inside" -pa "$elixir/ebin" -run Elixir.Truth main "$seconds" "$inside/log"
	else
		skip "Elixir in $root/" "$(tail -n 1 "$work/err")"
	fi
	rm -rf "$outside" "$work/log"
done

if set_up /; then
	log=$outside/log
	if [ -n "${WICK_TEST_FULL:-}" ]; then
		truth_hidden '\[anon\]' truth: erl $flags -pa "$inside" -run truth main 2 "$log" plain
		truth_short 0.8 '/truth:|function of Erlang/' '/truth:plain\/0;truth:(hot|cold)\/0;truth:burn\/2/' 5 erl $flags -pa "$inside" -run truth main 1 "$log" plain
	fi
	truth_record erl $flags -pa "$inside" -run truth main 2 "$log" in_c garbage
	truth_has ';truth:burn_in_c/2(;[^;]+)*;lists_reverse_2' ';truth:build/2(;[^;]+)*;erts_garbage_collect'
	ln -sf "$log" "$work/log"
	truth_warm=1500
	truth_running '/truth:plain\/0;truth:(hot|cold)\/0;truth:burn\/2/' 'beam +Erlang/OTP [0-9]+ \(erts [0-9.]+\) in ' erl $flags -pa "$inside" -run truth main 3600 "$log" plain
	truth_shares 0.86 0.94
fi
rm -rf "$outside"
finish
