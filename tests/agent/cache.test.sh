#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Symbol tables and names of the kernel that recordings leave for those that follow: used again, never those of another file, and no harm when they are
# damaged or cannot be kept.
. tests/lib.inc
need_sampling "cache"
uses gcc || {
	skip "cache" "$missing"
	finish
}
# NAME: a program of 0.15 s of CPU time in a function of that name, and in libc's qsort(), with the same build-id whatever the name is.
make_program() {
	sed "s/SPIN/$1/" >"$work/spin.c" <<'END'
#include <stdlib.h>
#include <time.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) void SPIN(int *x)
{
	for (int i = 0; i < 4000; i++)
		x[i] = i * 7919 % 4001;
	qsort(x, 4000, sizeof(*x), compare);
}
int main(void)
{
	static int x[4000];
	while (clock() < CLOCKS_PER_SEC * 15 / 100)
		SPIN(x);
}
END
	gcc -O1 -g -Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567 -o "$work/new" "$work/spin.c" && cp "$work/new" "$work/spin"
}
# NAME WHAT: a recording names the program's function and libc's, and the kernel's if there are any.
record_names() {
	"$WICK" record -F 999 -o "$work/out.folded" -- "$work/spin" 2>"$work/err"
	if grep -q ";main;$1" "$work/out.folded" && grep -q ";$1;.*sort" "$work/out.folded" && ! grep -q ";spin+0x" "$work/out.folded"; then
		pass "$2"
	else
		fail "$2" "$(cat "$work/err" && grep -o ';[^;]*0x[^;]*' "$work/out.folded")"
	fi
}
inodes() { ls -i "$cache/symbols" "$cache/kernel.names" | grep -v :; }
# Whether the files that there were are there, unchanged; there may be more.
are_kept() { [ -z "$(echo "$before" | while read -r line; do inodes | grep -qxF "$line" || echo "$line"; done)" ]; }
cache=$work/cache
mkdir -m 700 "$cache"
export WICK_CACHE="$cache"
check "a program" make_program first_function
sleep 2.2 # what has just been written is not kept
record_names first_function "the first recording"
check "... has left tables" test "$(ls "$cache/symbols" | wc -l)" -ge 2
check "... and names of the kernel" test -s "$cache/kernel.names"
check "... for its user only" test "$(find "$cache" \( -type f -a ! -perm 600 -o -type d -a ! -perm 700 \) | wc -l)" -eq 0
before=$(inodes)
record_names first_function "the second one"
check "... used them" are_kept
check "another program of the same build-id in its place" make_program second_function
record_names second_function "... has its own names"
sleep 2.2
record_names second_function "... also when it is old enough to be kept"
check "... beside the first one's" test "$(ls "$cache/symbols" | wc -l)" -ge 3
for file in "$cache"/symbols/* "$cache/kernel.names"; do printf 'XXXXXXXXXXXXXXXX' | dd of="$file" bs=1 seek=300 conv=notrunc 2>/dev/null; done
record_names second_function "damaged files"
for file in "$cache"/symbols/* "$cache/kernel.names"; do : >"$file"; done
record_names second_function "empty files"
chmod 777 "$cache/symbols"
before=$(inodes)
record_names second_function "a directory that others may write to"
check "... is left alone" test "$before" = "$(inodes)"
WICK_CACHE=/dev/null record_names second_function "no directory"
WICK_CACHE='' record_names second_function "no cache"
finish
