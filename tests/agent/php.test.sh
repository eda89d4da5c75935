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
seconds=${WICK_TEST_SECONDS:-$(if_full 20 2)}
programs=$PWD/tests/programs/php

# NAME PHP VARIANT...
equal() {
	name=$1 php=$2
	shift 2
	truth_equals "$name" "$php" "$programs/truth.php" "$seconds" "$work/log" "$@"
}

for php in ${WICK_PHPS:-/usr/bin/php}; do
	if ! version=$("$php" -nr 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;' 2>&1); then
		skip "$php" "$version"
		continue
	fi
	equal "$version" "$php"
	[ "$php" != /usr/bin/php ] ||
		truth_has ';Truth\\callbacks;usort;execute_ex(;[^;]+)+;Truth\\compare;Truth\\burn'
done

php=/usr/bin/php
if [ -x "$php" ]; then
	if [ -n "${WICK_TEST_FULL:-}" ]; then
		truth_hidden execute_ex ';Truth\\burn' "$php" "$programs/truth.php" 1 "$work/log" plain
		truth_short 0.5 /execute_ex/ '/\{main\};Truth\\main;Truth\\plain;Truth\\(hot|cold);Truth\\burn/' 10 "$php" "$programs/truth.php" 0.2 "$work/log" plain
	fi
	# Code of a file that is compiled, run and thrown away again and again, as servers without opcache do with each request: its functions are known from
	# before, and what is outside of them is at least that.
	printf '<?php\nwork();\n' >"$work/request.php"
	printf '<?php\nfunction work() { for ($i = 0, $x = 0; $i < 60000; $i++) $x ^= $i; }\nfunction used() { $u = getrusage(); return $u["ru_utime.tv_sec"] + $u["ru_utime.tv_usec"] / 1e6; }\n$end = used() + 1;\nwhile (used() < $end) include "%s";\n' \
		"$work/request.php" >"$work/server.php"
	"$WICK" record -F 399 -o "$work/requests.folded" -- "$php" "$work/server.php" 2>"$work/err"
	if awk '{ n = $NF / 2506265 } /;work/ { all += n } /\{main\}(;[^;{]+)*;\{main\}(;[^;]+)*;work/ { good += n } END { exit !(all >= 50 && good > 0.95 * all) }' "$work/requests.folded" &&
		! grep -q '{main}.*\[function of PHP\]\|\[function of PHP\].*{main}' "$work/requests.folded"; then # the first sample knows none
		pass "code of files that are thrown away at once"
	else
		fail "code of files that are thrown away at once" "$(cat "$work/err" && head -n 5 "$work/requests.folded")"
	fi
	truth_running '/\{main\};Truth\\main;Truth\\plain;Truth\\(hot|cold);Truth\\burn/' 'php +PHP [78]\.[0-9]+ in ' "$php" "$programs/truth.php" 3600 "$work/log" plain
fi
finish
