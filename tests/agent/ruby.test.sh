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
seconds=${WICK_TEST_SECONDS:-$(if_full 20 2)}
programs=$PWD/tests/programs/ruby

# NAME RUBY VARIANT...
equal() {
	name=$1 ruby=$2
	shift 2
	truth_equals "$name" "$ruby" "$programs/truth.rb" "$seconds" "$work/log" "$@"
}

for ruby in ${WICK_RUBIES:-/usr/bin/ruby}; do
	if ! version=$("$ruby" -e 'puts RUBY_VERSION' 2>&1); then
		skip "$ruby" "$version"
		continue
	fi
	equal "$version" "$ruby"
	[ "$ruby" != /usr/bin/ruby ] ||
		truth_has ';callbacks;sort_by;each;rb_vm_exec(;[^;]+)+;block in callbacks;burn'
done

ruby=/usr/bin/ruby
if [ -x "$ruby" ]; then
	if [ -n "${WICK_TEST_FULL:-}" ]; then
		truth_hidden rb_vm_exec ';burn' "$ruby" "$programs/truth.rb" 1 "$work/log" plain
		truth_short 0.5 /rb_vm_exec/ '/<main>;each;(.*;)?block in <main>;plain;(hot|cold);burn/' 8 "$ruby" --disable-gems "$programs/truth.rb" 0.3 "$work/log" plain
	fi
	truth_running '/<main>;each;(.*;)?block in <main>;plain;(hot|cold);burn/' 'ruby +Ruby [23]\.[0-9]+ in ' "$ruby" "$programs/truth.rb" 3600 "$work/log" plain
fi
finish
