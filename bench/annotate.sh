#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wick annotate: markers put into a profile as samply makes them. Beside it, the same profile read and written by wick convert.
#   [--samples N] [--markers N] [--threads N]     1000000, 1000000, 16
set -eu
. bench/lib.inc
samples=1000000 markers=1000000 threads=16
while [ $# -gt 1 ]; do
	case $1 in
	--samples) samples=$2 ;;
	--markers) markers=$2 ;;
	--threads) threads=$2 ;;
	*)
		echo "annotate: unknown option $1" >&2
		exit 2
		;;
	esac
	shift 2
done
node bench/annotate_input.mjs "$work/base.json" "$work/marks.json" "$samples" "$markers" "$threads"
gzip -1 -k "$work/base.json"
size() { stat -c %s "$1" | awk '{ printf "%.1f MB", $1 / 1e6 }'; }
echo "$samples samples ($(size "$work/base.json")), $markers markers ($(size "$work/marks.json")), $threads threads; best of 5"
measure() { # NAME COMMAND...
	name=$1
	shift
	for _ in 1 2 3 4 5; do /usr/bin/time -f '%e %U %S %M' -a -o "$work/times" "$@" 2>/dev/null; done
	sort -n "$work/times" | head -n 1 | awk -v name="$name" '{ printf "%-38s %5.2f s, CPU %5.2f s, %4.0f MB\n", name, $1, $2 + $3, $4 / 1024 }'
	rm "$work/times"
}
measure "annotate" "$WICK" annotate "$work/base.json" --markers "$work/marks.json" -o "$work/out.json"
measure "annotate, the profile compressed" "$WICK" annotate "$work/base.json.gz" --markers "$work/marks.json" -o "$work/out.json"
measure "annotate, profile and output compressed" "$WICK" annotate "$work/base.json.gz" --markers "$work/marks.json" -o "$work/out.json.gz"
measure "convert, the profile alone" "$WICK" convert -q "$work/base.json" -o "$work/out.firefox.json"
