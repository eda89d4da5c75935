#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The static program in roots that have nothing for it: an empty one, and one with an older C library. It samples, stores and answers; what it cannot do it says.
. tests/lib.inc
. tests/install/install.inc
program=$(ls "$dist"/wick-*-linux-x86_64 2>/dev/null | head -n 1)
[ -n "$program" ] || {
	fail "there is a static program in $dist" "make it with: ./dev dist static"
	finish
}
no_interpreter() { ! readelf -lW "$program" | grep -q INTERP && ! readelf -dW "$program" | grep -q NEEDED; }
check "it needs no library" no_interpreter
check "it needs no file of the machine that it was built on" sh -c '! grep -aq "$0" "$1"' "$PWD" "$program"
burn() { # ROOT: a program that has names, in it
	printf '%s\n' 'static volatile unsigned long sink;' '__attribute__((noinline)) void known_leaf(void) { for (unsigned i = 0; i < 300000000; i++) sink += i; }' \
		'__attribute__((noinline)) void known_caller(void) { known_leaf(); sink++; }' 'int main(void) { known_caller(); return 0; }' >"$work/known.c"
	gcc -static -O1 -fno-optimize-sibling-calls -o "$1/known" "$work/known.c"
}
works_in() { # NAME ROOT
	cp "$program" "$2/wick" && burn "$2" || fail "$1: it is copied"
	expect "$1: it starts" 0 '^wick [0-9.]+$' chroot "$2" /wick --version
	chroot "$2" /wick record -F 499 -o /recorded.folded -- /known >"$work/said" 2>&1 || fail "$1: it records" "$(cat "$work/said")"
	check "$1: it records a program, with names" grep -q 'main;known_caller;known_leaf ' "$2/recorded.folded"
	launch chroot "$2" /wick up --listen 127.0.0.1:0 --data /data 2>"$work/up.log"
	up=$!
	if wait_url "$work/up.log" "$up"; then
		check "$1: wick up samples and answers" wait_for sh -c '"$0" query --url "$1" process_cpu >"$2" 2>&1 && grep -q . "$2"' "$WICK" "$url" "$work/answer"
		check "$1: it resolves names of /etc/hosts" sh -c 'chroot "$0" /wick query --url "http://another.name:${1##*:}" process_cpu 2>&1 | grep -qv "cannot resolve\|not known"' "$2" "$url"
	else fail "$1: wick up starts" "$(cat "$work/up.log")"; fi
	kill -INT "$up"
	wait "$up"
	check "$1: debuginfod is said to be missing" sh -c 'DEBUGINFOD_URLS=http://127.0.0.1:1 chroot "$0" /wick doctor 2>&1 | grep -q "linked statically"' "$2"
}
empty=$work/empty
mkdir -p "$empty/etc" "$empty/tmp"
mount_kernel "$empty"
echo '127.0.0.1 another.name' >"$empty/etc/hosts"
works_in "an empty root" "$empty"
if uses debootstrap && fresh_system bullseye >"$work/fresh"; then
	echo '127.0.0.1 another.name' >>"$system/etc/hosts"
	works_in "Debian bullseye" "$system"
else skip "Debian bullseye" "${missing:-$(cat "$work/fresh")}"; fi
finish
