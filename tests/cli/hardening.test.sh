#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the compiler and the linker put into the program against faults that are used: readelf decides.
. tests/lib.inc
binary=$WICK
# NAME PATTERN WHAT...: a line of what readelf says has it.
has() {
	name=$1 pattern=$2
	shift 2
	# shellcheck disable=SC2046
	check "$name" sh -c 'readelf -W "$@" | grep -qE "$0"' "$pattern" "$@" "$binary"
}
lacks() {
	name=$1 pattern=$2
	shift 2
	check "$name" sh -c '! readelf -W "$@" | grep -qE "$0"' "$pattern" "$@" "$binary"
}
if readelf -l "$binary" | grep -q INTERP; then
	has "its place in memory is random" 'Type: +DYN' -h
	has "what the loader writes is read-only afterwards" 'GNU_RELRO' -l
	has "all of it is looked up at the start" 'BIND_NOW' -d
	lacks "no folder is searched for libraries but the system's" 'R(UN)?PATH' -d
fi
lacks "no part of it can be written and executed" 'LOAD.* RWE ' -l
has "the stack cannot be executed" 'GNU_STACK.* RW ' -l
has "stacks have guards" '__stack_chk_fail' --syms
if [ -n "${SAN:-}" ]; then skip "lengths of copies are checked" "not with sanitizers"; else has "lengths of copies are checked" '__(memcpy|snprintf|read|sprintf|vsnprintf)_chk' --syms; fi
# The mark that the loader looks for is not there, because Debian 12's start files do not have it: newer systems' do.
case $(uname -m) in
x86_64) mark='endbr64' ;;
aarch64) mark='paciasp|bti' ;;
*) mark='' ;;
esac
if [ -n "$mark" ]; then
	check "functions are marked as what may be jumped to" sh -c 'objdump -d --no-show-raw-insn --disassemble=main "$1" | grep -A1 "<main>:" | grep -qE "$0"' "$mark" "$binary"
fi
finish
