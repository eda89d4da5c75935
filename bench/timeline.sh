#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The time line of a page with many samples and as many markers: the size of the file, how long writing it takes, and in Chromium how
# long until it is painted and until it answers.
#   [--count N]     samples, and markers: 1000000
set -eu
. bench/lib.inc
count=1000000
while [ $# -gt 1 ]; do
	case $1 in
	--count) count=$2 ;;
	*)
		echo "timeline: unknown option $1" >&2
		exit 2
		;;
	esac
	shift 2
done
. tests/lib/chromium.inc
[ -x "$WICK_CHROMIUM" ] || {
	echo "skipped: no chromium"
	exit 0
}
[ -d tests/node_modules/playwright-core ] || (cd tests && npm ci --silent)
node bench/timeline.mjs write "$work/bench.firefox.json" "$count"
/usr/bin/time -f 'written in %e s: %U s user, %S s system, %M kB' "$WICK" convert -q "$work/bench.firefox.json" -o "$work/bench.html"
echo "the profile: $(($(wc -c <"$work/bench.firefox.json") / 1000000)) MB; the page: $(($(wc -c <"$work/bench.html") / 1000)) kB"
node bench/timeline.mjs show "$work/bench.html"
