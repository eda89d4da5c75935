#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stacks of Ruby: what tests/programs/ruby/truth.rb says of its own stacks, against what is recorded; in a process that runs already, in short-lived
# ones. With every interpreter in WICK_RUBIES, else /usr/bin/ruby.
. tests/lib.inc
. tests/agent/truth.inc
need_sampling "ruby"
[ "$(uname -m)" = x86_64 ] || {
	skip "ruby" "only x86-64 so far"
	finish
}
seconds=${WICK_TEST_SECONDS:-$(if_full 20 6)}
programs=$PWD/tests/programs/ruby

# NAME RUBY VARIANT...
equal() {
	name=$1 ruby=$2
	shift 2
	truth_equals "$name" "python3 tests/programs/listed/check.py" "$ruby" "$programs/truth.rb" "$seconds" "$work/log" "$@"
}

for ruby in ${WICK_RUBIES:-/usr/bin/ruby}; do
	if ! version=$("$ruby" -e 'puts RUBY_VERSION' 2>&1); then
		skip "$ruby" "$version"
		continue
	fi
	equal "$version" "$ruby"
done

ruby=/usr/bin/ruby
if [ -x "$ruby" ]; then
	# Hidden, the interpreter alone is seen.
	if [ -n "${WICK_TEST_FULL:-}" ]; then
		"$WICK" record -F 199 --runtimes none -o "$work/none.folded" -- "$ruby" "$programs/truth.rb" 1 "$work/log" plain 2>"$work/err"
		if grep -q 'rb_vm_exec' "$work/none.folded" && ! grep -q ';burn' "$work/none.folded"; then
			pass "--runtimes none shows the interpreter only"
		else
			fail "--runtimes none shows the interpreter only" "$(head -n 5 "$work/none.folded")"
		fi
	fi
	"$WICK" record -F 199 -o "$work/calls.folded" -- "$ruby" "$programs/truth.rb" 2 "$work/log" callbacks 2>"$work/err"
	if grep -qE ';callbacks;sort_by;each;rb_vm_exec(;[^;]+)+;block in callbacks;burn' "$work/calls.folded"; then
		pass "what C calls stands behind the C function"
	else
		fail "what C calls stands behind the C function" "$(grep sort_by "$work/calls.folded" | head -n 3)"
	fi
	# Processes that live for a moment: all but their start has the methods that ran.
	printf '#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8; do %s --disable-gems %s 0.3 %s plain; done\n' "$ruby" "$programs/truth.rb" "$work/log" >"$work/short.sh"
	"$WICK" record -F 499 -o "$work/short.folded" -- sh "$work/short.sh" 2>"$work/err"
	if awk '{ n = $NF } /rb_vm_exec/ { loop += n } /<main>;each;(.*;)?block in <main>;plain;(hot|cold);burn/ { good += n }
		END { exit !(loop > 100 && good > 0.5 * loop) }' "$work/short.folded"; then
		pass "methods of short-lived processes"
	else
		fail "methods of short-lived processes" "$(cat "$work/err" && head -n 5 "$work/short.folded")"
	fi
	# A process that runs already, by its number, and what doctor says of it.
	launch "$ruby" "$programs/truth.rb" 3600 "$work/log" plain
	running=$!
	check "a process that runs is recorded" record_cpu 1500 $running -F 199 -p $running -o "$work/running.folded"
	if awk '{ n = $NF; all += n } /<main>;each;(.*;)?block in <main>;plain;(hot|cold);burn/ { good += n } END { exit !(good > 0.9 * all) }' "$work/running.folded"; then
		pass "it shows its methods from the first moment"
	else
		fail "it shows its methods from the first moment" "$(head -n 5 "$work/running.folded")"
	fi
	expect "doctor tells the version" 0 'ruby +Ruby [23]\.[0-9]+ in ' "$WICK" doctor --pid $running --duration 1
	kill $running
fi
finish
