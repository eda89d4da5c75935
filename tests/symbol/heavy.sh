#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# OUT PARTS COPIES [FLAG...]: builds tests/symbol/heavy.cc as a program of PARTS translation units, two compilers at a time.
# About 1.2 MB of debug information a copy and part with -O1; CXX is the compiler.
set -eu
out=$1 parts=$2 copies=$3
shift 3
here=$(dirname "$0")
rm -rf "$out.d"
mkdir -p "$out.d"
# shellcheck disable=SC2016
seq 0 $((parts - 1)) | xargs -P 2 -I "{}" sh -c \
	'out=$1 part=$2 copies=$3 source=$4; shift 4
	${CXX:-g++} -std=c++17 -g "$@" -DPART="$part" -DCOPIES="$copies" $([ "$part" = 0 ] && echo -DREGEX) -c -o "$out.d/$part.o" "$source"' \
	sh "$out" "{}" "$copies" "$here/heavy.cc" "$@"
# shellcheck disable=SC2046
${CXX:-g++} "$@" -o "$out" $(seq -f "$out.d/%g.o" 0 $((parts - 1)))
rm -rf "$out.d"
