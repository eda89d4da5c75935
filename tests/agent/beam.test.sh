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
seconds=${WICK_TEST_SECONDS:-$(if_full 12 4)}
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
	truth_equals "$release" "python3 tests/programs/listed/check.py" $enter erl $flags -pa "$inside" -run truth main "$seconds" "$inside/log"
	truth_equals "$release, with frame pointers" "python3 tests/programs/listed/check.py" \
		$enter erl +JPperf true $flags -pa "$inside" -run truth main "$seconds" "$inside/log"
	rm -rf "$outside" "$work/log"
done

if set_up /; then
	log=$outside/log
	# Hidden, code without a name is seen.
	if [ -n "${WICK_TEST_FULL:-}" ]; then
		"$WICK" record -F 199 --runtimes none -o "$work/none.folded" -- erl $flags -pa "$inside" -run truth main 2 "$log" plain 2>"$work/err"
		if grep -q '\[anon\]' "$work/none.folded" && ! grep -q 'truth:' "$work/none.folded"; then
			pass "--runtimes none shows generated code only"
		else
			fail "--runtimes none shows generated code only" "$(head -n 5 "$work/none.folded")"
		fi
	fi
	"$WICK" record -F 199 -o "$work/calls.folded" -- erl $flags -pa "$inside" -run truth main 4 "$log" in_c garbage 2>"$work/err"
	if grep -qE ';truth:burn_in_c/2_\[j\](;[^;]+)*;lists_reverse_2' "$work/calls.folded" &&
		grep -qE ';truth:build/2_\[j\](;[^;]+)*;erts_garbage_collect' "$work/calls.folded"; then
		pass "C stands behind the function that called it"
	else
		fail "C stands behind the function that called it" "$(grep burn_in_c "$work/calls.folded" | head -n 5)"
	fi
	# Processes that live for a moment: what is in the program's functions has all of them.
	printf '#!/bin/sh\nfor i in 1 2 3 4 5; do erl %s -pa %s -run truth main 1 %s plain; done\n' "$flags" "$inside" "$log" >"$work/short.sh"
	"$WICK" record -F 499 -o "$work/short.folded" -- sh "$work/short.sh" 2>"$work/err"
	if awk '{ n = $NF } /truth:|function of Erlang/ { all += n } /truth:plain\/0_\[j\];truth:(hot|cold)\/0_\[j\];truth:burn\/2/ { good += n }
		END { exit !(good > 0 && good > 0.8 * all) }' "$work/short.folded"; then
		pass "functions of short-lived processes"
	else
		fail "functions of short-lived processes" "$(cat "$work/err" && head -n 5 "$work/short.folded")"
	fi
	# A process that runs already, by its number, and what doctor says of it.
	rm -f "$log"
	launch erl $flags -pa "$inside" -run truth main 3600 "$log" plain
	running=$!
	wait_for grep -qs plain "$log" && wait_cpu 1500 $running
	check "a process that runs is recorded" record_cpu 1500 $running -F 199 -p $running -o "$work/running.folded"
	if awk '{ n = $NF; all += n } /truth:plain\/0_\[j\];truth:hot\/0_\[j\];truth:burn\/2/ { hot += n } /truth:plain\/0_\[j\];truth:cold\/0_\[j\];truth:burn\/2/ { cold += n }
		END { exit !(hot + cold > 0.9 * all && hot > 0.86 * (hot + cold) && cold > 0.06 * (hot + cold)) }' "$work/running.folded"; then
		pass "it shows its functions from the first moment, nine tenths in one and a tenth in the other"
	else
		fail "it shows its functions from the first moment, nine tenths in one and a tenth in the other" "$(head -n 5 "$work/running.folded")"
	fi
	expect "doctor tells the release" 0 'beam +Erlang/OTP [0-9]+ \(erts [0-9.]+\) in ' "$WICK" doctor --pid $running --duration 1
	kill $running
fi
rm -rf "$outside"
finish
