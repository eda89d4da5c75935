#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks of PHP: what tests/programs/php/truth.php says of its own stacks, against what is recorded; in a process that runs already, in short-lived
# ones. With every interpreter in WICK_PHPS, else /usr/bin/php.
. tests/lib.inc
. tests/agent/truth.inc
need_sampling "php"
[ "$(uname -m)" = x86_64 ] || {
	skip "php" "only x86-64 so far"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 20 4)}
programs=$PWD/tests/programs/php

# NAME PHP VARIANT...
equal() {
	name=$1 php=$2
	shift 2
	truth_equals "$name" "python3 tests/programs/listed/check.py" "$php" "$programs/truth.php" "$seconds" "$work/log" "$@"
}

for php in ${WICK_PHPS:-/usr/bin/php}; do
	if ! version=$("$php" -nr 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;' 2>&1); then
		skip "$php" "$version"
		continue
	fi
	equal "$version" "$php"
done

php=/usr/bin/php
if [ -x "$php" ]; then
	# Hidden, the engine alone is seen.
	if [ -n "${WICK_TEST_FULL:-}" ]; then
		"$WICK" record -F 199 --runtimes none -o "$work/none.folded" -- "$php" "$programs/truth.php" 1 "$work/log" plain 2>"$work/err"
		if grep -q 'execute_ex' "$work/none.folded" && ! grep -q ';Truth\\burn' "$work/none.folded"; then
			pass "--runtimes none shows the engine only"
		else
			fail "--runtimes none shows the engine only" "$(head -n 5 "$work/none.folded")"
		fi
	fi
	"$WICK" record -F 199 -o "$work/calls.folded" -- "$php" "$programs/truth.php" 2 "$work/log" callbacks 2>"$work/err"
	if grep -qE ';Truth\\callbacks;usort;execute_ex(;[^;]+)+;Truth\\compare;Truth\\burn' "$work/calls.folded"; then
		pass "what C calls stands behind the C function"
	else
		fail "what C calls stands behind the C function" "$(grep compare "$work/calls.folded" | head -n 3)"
	fi
	# Processes that live for a moment: all but their start has the functions that ran.
	printf '#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9 10; do %s %s 0.2 %s plain; done\n' "$php" "$programs/truth.php" "$work/log" >"$work/short.sh"
	"$WICK" record -F 499 -o "$work/short.folded" -- sh "$work/short.sh" 2>"$work/err"
	if awk '{ n = $NF } /execute_ex/ { loop += n } /\{main\};Truth\\main;Truth\\plain;Truth\\(hot|cold);Truth\\burn/ { good += n }
		END { exit !(loop > 100 && good > 0.5 * loop) }' "$work/short.folded"; then
		pass "functions of short-lived processes"
	else
		fail "functions of short-lived processes" "$(cat "$work/err" && head -n 5 "$work/short.folded")"
	fi
	# Code of a file that is compiled, run and thrown away again and again, as servers without opcache do with each request: its functions are known from
	# before, and what is outside of them is at least that.
	printf '<?php\nwork();\n' >"$work/request.php"
	printf '<?php\nfunction work() { for ($i = 0, $x = 0; $i < 60000; $i++) $x ^= $i; }\n$end = microtime(true) + 2;\nwhile (microtime(true) < $end) include "%s";\n' \
		"$work/request.php" >"$work/server.php"
	"$WICK" record -F 199 -o "$work/requests.folded" -- "$php" "$work/server.php" 2>"$work/err"
	if awk '{ n = $NF } /;work/ { all += n } /\{main\}(;[^;{]+)*;\{main\}(;[^;]+)*;work/ { good += n } END { exit !(all > 14 && good > 0.95 * all) }' "$work/requests.folded" &&
		! grep -q '{main}.*\[function of PHP\]\|\[function of PHP\].*{main}' "$work/requests.folded"; then # the first sample knows none
		pass "code of files that are thrown away at once"
	else
		fail "code of files that are thrown away at once" "$(cat "$work/err" && head -n 5 "$work/requests.folded")"
	fi
	# A process that runs already, by its number, and what doctor says of it.
	launch "$php" "$programs/truth.php" 3600 "$work/log" plain
	running=$!
	check "a process that runs is recorded" record_cpu 1500 $running -F 199 -p $running -o "$work/running.folded"
	if awk '{ n = $NF; all += n } /\{main\};Truth\\main;Truth\\plain;Truth\\(hot|cold);Truth\\burn/ { good += n } END { exit !(good > 0.9 * all) }' "$work/running.folded"; then
		pass "it shows its functions from the first moment"
	else
		fail "it shows its functions from the first moment" "$(head -n 5 "$work/running.folded")"
	fi
	expect "doctor tells the version" 0 'php +PHP [78]\.[0-9]+ in ' "$WICK" doctor --pid $running --duration 1
	kill $running
fi
finish
