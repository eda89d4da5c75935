#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Symbol tables of a C++ program with more than 150 MB of debug information: how long one takes to build, how much memory, how
# large it is, and how many lookups a second it answers; beside llvm-symbolizer and addr2line on the same addresses. Then what a
# thousand new binaries at once do to ingest.
#   [--parts N] [--copies N] [--addresses N] [--file PROGRAM]   12, 12, 100000; the program is kept in O/bench-symbols
set -eu
. bench/lib.inc
parts=12 copies=12 count=100000 file=
while [ $# -gt 1 ]; do
	case $1 in
	--parts) parts=$2 ;;
	--copies) copies=$2 ;;
	--addresses) count=$2 ;;
	--file) file=$2 ;;
	*)
		echo "symbols: unknown option $1" >&2
		exit 2
		;;
	esac
	shift 2
done
make -s O="$O" "$O/bench/symbols" "$O/symbol/oracle"
if [ -z "$file" ]; then
	file=$O/bench-symbols/heavy-$parts-$copies
	if [ ! -e "$file" ]; then
		mkdir -p "$O/bench-symbols"
		echo "compiling $file (some minutes)"
		tests/symbol/heavy.sh "$file" "$parts" "$copies" -O1
	fi
fi
case $O in /*) bin=$O ;; *) bin=$PWD/$O ;; esac
size -A "$file" | awk -v file="$file" '/^\.debug/ { bytes += $2 } END { printf "%s: %.1f MB of debug information\n", file, bytes / 1e6 }'
"$bin/symbol/oracle" pick "$file" "$count" >"$work/addresses"
cat "$file" >/dev/null
"$bin/bench/symbols" "$file" "$work/addresses"

beside() { # NAME OUTPUT COMMAND...
	name=$1 output=$2
	shift 2
	/usr/bin/time -o "$work/time" -f '%e %M' "$@" <"$work/addresses" >"$output"
	awk -v name="$name" -v n="$count" '{ printf "%s: %.1f s, %.0f k addresses/s, %.0f MB\n", name, $1, n / $1 / 1000, $2 / 1024 }' "$work/time"
}
beside "wick debuginfo lookup, build included" "$work/ours" "$WICK" debuginfo lookup "$file" --no-demangle
if command -v llvm-symbolizer-19 >/dev/null; then
	beside "llvm-symbolizer-19" "$work/theirs" llvm-symbolizer-19 --no-demangle --inlines --obj="$file"
	"$bin/symbol/oracle" compare "$work/addresses" "$work/ours" "$work/theirs" || true
fi
beside "addr2line -i" "$work/addr2line" addr2line -i -f -e "$file"
WICK=$WICK sh tests/symbol/many.test.sh | grep -v "^ok"
