#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# suite.sh [SCRIPT...]: the tests in a browser (tests/browser/*.test.sh), two scripts at a time, with one Chromium, one fleet and one sampled
# machine for all. Each of them also runs alone, and then starts what it needs itself.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/fleet.inc
. tests/browser/machine.inc

# What takes longest comes first. Those of one line run one after the other: a browser has one clipboard.
scripts='compare
fleet
graph hostile share
faults
symbols
page
recordings
functions
files
markers
time
keys
filter
first
heatmap
large
open
report'
for script in tests/browser/*.test.sh; do
	script=$(basename "$script" .test.sh)
	printf '%s\n' "$scripts" | grep -qw "$script" || scripts="$scripts
$script"
done
# Of these the ones that were asked for: by name, or by file.
if [ $# -gt 0 ]; then
	scripts=$(printf '%s\n' "$scripts" | awk -v asked=" $(for script in "$@"; do printf '%s ' "$(basename "$script" .test.sh)"; done)" '{
		line = ""
		for (i = 1; i <= NF; i++) if (index(asked, " " $i " ")) line = line $i " "
		if (line) print line
	}')
fi
wants() { printf '%s\n' "$scripts" | grep -qwE "$1"; }

if [ -x "$WICK_CHROMIUM" ]; then
	launch node tests/lib/chromium.mjs >"$work/chromium" 2>"$work/chromium.log"
	if wants 'page|symbols' && can_sample; then
		start_machine >"$work/machine.log" 2>&1 || {
			fail "this machine is sampled" "$(cat "$work/machine.log" "$work/up.log")"
			finish
		}
		export WICK_MACHINE="$url" WICK_HOT_SOURCE="$hot_source"
	fi
	if wants 'compare|faults|fleet|time'; then
		use_fleet || {
			fail "a fleet starts" "$fleet_fault"
			finish
		}
	fi
	wait_for test -s "$work/chromium" || {
		fail "a browser starts" "$(cat "$work/chromium.log")"
		finish
	}
	WICK_BROWSER_WS=$(cat "$work/chromium")
	export WICK_BROWSER_WS
fi

# The log of a script, without what passed, then its closing line, as one piece.
# shellcheck disable=SC2016
run='
for name; do
	script=tests/browser/$name.test.sh log=$suite/$name.log begun=$(date +%s)
	timeout 1800 sh "$script" >"$log" 2>&1
	status=$?
	line=$(grep -E "^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$" "$log" | tail -n 1)
	flock "$suite" sh -c "
		[ -n \"\${WICK_TEST_TIMES:-}\" ] || grep -vE \"^ok |^[0-9]+ passed, [0-9]+ failed\" \"$log\" | tail -n 80
		[ -z \"\${WICK_TEST_TIMES:-}\" ] || cat \"$log\"
		[ -n \"$line\" ] || echo \"FAILED $script (exit $status, no closing line)\"
		echo \"$script: ${line:-0 passed, 1 failed, 0 skipped} ($(($(date +%s) - begun)) s)\""
	echo "${line:-0 passed, 1 failed, 0 skipped}" >"$suite/$name.counts"
done'
suite=$work/suite
mkdir "$suite" && export suite
printf '%s\n' "$scripts" | xargs -P "${WICK_TEST_JOBS:-2}" -L 1 sh -c "$run" run
for counts in "$suite"/*.counts; do
	read -r p _ f _ s _ <"$counts"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
finish
