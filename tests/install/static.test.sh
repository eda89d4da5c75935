#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The static program in roots that have nothing for it: an empty one, one of BusyBox and musl as Alpine is, one with an older C library, and Ubuntu 22.04. It
# samples, stores and answers; what it cannot do it says.
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
works_in() { # NAME ROOT [COMPILER...]
	works_name=$1 works_root=$2
	shift 2
	cp "$program" "$works_root/wick" || fail "$works_name: it is copied"
	known_program "$@"
	cp "$work/known" "$works_root/known"
	expect "$works_name: it starts" 0 '^wick [0-9.]+$' chroot "$works_root" /wick --version
	chroot "$works_root" /wick record -F 499 -o /recorded.folded -- /known 3 >"$work/said" 2>&1 || fail "$works_name: it records" "$(cat "$work/said")"
	check "$works_name: it records a program, with names" grep -q 'main;known_caller;known_leaf ' "$works_root/recorded.folded"
	shows_known "$works_name" "$works_root" /wick server --listen 127.0.0.1:0 --data /server-data -- /wick agent
	launch chroot "$works_root" /wick up --listen 127.0.0.1:0 --data /data 2>"$work/up.log"
	up=$!
	if wait_url "$work/up.log" "$up"; then
		check "$works_name: wick up samples and answers" wait_for sh -c '"$0" query --url "$1" process_cpu >"$2" 2>&1 && grep -q . "$2"' "$WICK" "$url" "$work/answer"
		check "$works_name: it resolves names of /etc/hosts" sh -c 'chroot "$0" /wick query --url "http://another.name:${1##*:}" process_cpu 2>&1 | grep -qv "cannot resolve\|not known"' "$works_root" "$url"
	else fail "$works_name: wick up starts" "$(cat "$work/up.log")"; fi
	kill -INT "$up"
	wait "$up"
	check "$works_name: debuginfod is said to be missing" sh -c 'DEBUGINFOD_URLS=http://127.0.0.1:1 chroot "$0" /wick doctor 2>&1 | grep -q "linked statically"' "$works_root"
}
# NAME: a root with nothing but a list of hosts; sets system.
bare_root() {
	system=$work/$1
	mkdir -p "$system/etc" "$system/tmp"
	mount_kernel "$system"
	echo '127.0.0.1 another.name' >"$system/etc/hosts"
}
bare_root empty
works_in "an empty root" "$system"
if uses musl-gcc busybox && ! readelf -lW "$(command -v busybox)" | grep -q INTERP; then
	bare_root busybox
	mkdir -p "$system/bin" "$system/lib"
	cp "$(command -v busybox)" "$system/bin/" && chroot "$system" /bin/busybox --install -s /bin
	cp -L /lib/ld-musl-x86_64.so.1 "$system/lib/"
	# The load is linked with musl, as programs of Alpine are.
	works_in "BusyBox and musl" "$system" musl-gcc
	check "BusyBox and musl: so is the load" sh -c 'readelf -lW "$0/known" | grep -q ld-musl' "$system"
else skip "a root of BusyBox and musl" "${missing:-busybox is not static}"; fi
for suite in bullseye jammy; do
	if uses debootstrap && fresh_system "$suite" >"$work/fresh"; then
		echo '127.0.0.1 another.name' >>"$system/etc/hosts"
		works_in "$suite" "$system"
	else skip "$suite" "${missing:-$(cat "$work/fresh")}"; fi
done
finish
