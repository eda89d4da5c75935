#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The RPM packages, by rpm itself, in a root with a package database of its own: digests, dependencies, installation, upgrade and removal. The files of the
# root are Debian's, since no mirror of a distribution with RPM is needed for what the packages hold: a static program.
. tests/lib.inc
. tests/install/install.inc
uses debootstrap rpm rpmbuild || {
	skip "RPM packages" "$missing"
	finish
}
ls "$dist"/wick-[0-9]*.rpm >/dev/null 2>&1 || {
	fail "there are RPM packages in $dist" "make them with: ./dev dist rpm"
	finish
}
for package in "$dist"/*.rpm; do
	expect "rpm -K: ${package##*/}" 0 'digests OK' rpm -K --nosignature "$package"
	check "${package##*/} names no folder and host of this machine" sh -c '! rpm -qp --qf "[%{FILENAMES}\n]%{BUILDHOST}\n%{PREIN}%{POSTIN}" "$0" | grep -q "$1\|$(hostname)"' "$package" "$PWD"
	expect "${package##*/} is of the commit's time" 0 "^$(git log -1 --format=%ct)\$" rpm -qp --qf '%{BUILDTIME}\n' "$package"
done
if uses rpmlint; then
	expect "rpmlint finds no error" 0 ' 0 errors' rpmlint --config tests/install/rpmlint.toml "$dist"/*.rpm
else skip "rpmlint" "$missing"; fi
known_program
fresh_system bookworm >"$work/fresh" || {
	skip "RPM packages in a root" "$(cat "$work/fresh")"
	finish
}
in_root() { command rpm --root "$system" --dbpath /var/lib/rpm --define '_pkgverify_level none' "$@"; }
# What a distribution has: a shell, as a package that is there already.
base() {
	printf '%s\n' 'Name: base' 'Version: 1' 'Release: 1' 'Summary: A shell' 'License: MIT' 'BuildArch: noarch' 'Provides: /bin/sh' '%description' 'A shell.' '%files' >"$work/base.spec"
	rpmbuild -bb --quiet --define "_topdir $work/rpmbuild" --define "_rpmdir $work" --define '_rpmfilename base.rpm' "$work/base.spec"
}
check "a package for what the root has" base
check "the root's database is made" in_root -i "$work/base.rpm"
mkdir -p "$system/usr/lib/sysusers.d" "$system/usr/lib/tmpfiles.d" "$system/usr/share/licenses" # as every distribution has them
files_of "$system" >"$work/before"
expect "an agent alone is refused, since it needs the program" 1 'wick = .* is needed by' in_root -i "$dist"/wick-agent-*.rpm
check "they install" in_root -i "$dist"/wick-[0-9]*.rpm "$dist"/wick-agent-*.rpm "$dist"/wick-server-*.rpm
check "all is as the packages have it" in_root -V wick wick-agent wick-server
expect "the program runs" 0 '^wick [0-9.]+$' in_system wick --version
check "the user is there" in_system getent passwd wick
check "its folder is there, and its own" sh -c 'test "$(chroot "$0" stat -c %U:%G:%a /var/lib/wick)" = wick:wick:750' "$system"
for unit in wick wick-agent wick-server; do check "$unit.service is there" test -s "$system/usr/lib/systemd/system/$unit.service"; done
check "manual pages can be read" sh -c 'zcat "$0/usr/share/man/man1/wick-record.1.gz" | grep -q "^.TH"' "$system"
shows_known "RPM" "$system" setpriv --reuid wick --regid wick --clear-groups wick server --listen 127.0.0.1:0 --data /var/lib/wick -- wick agent
echo '# changed by hand' >>"$system/etc/default/wick-agent"
check "they are installed again over themselves" in_root -U --replacepkgs "$dist"/wick-[0-9]*.rpm "$dist"/wick-agent-*.rpm "$dist"/wick-server-*.rpm
check "settings that were changed stay" grep -q 'changed by hand' "$system/etc/default/wick-agent"
check "the program is not removed under the server" sh -c '! rpm --root "$0" --dbpath /var/lib/rpm -e wick' "$system"
check "they are removed" in_root -e wick-agent wick-server wick
check "profiles stay" sh -c 'ls "$0"/var/lib/wick/* >/dev/null' "$system"
files_of "$system" | grep -vE '^\./(etc/(passwd|group|shadow|gshadow|subuid|subgid)-?|var/lib/wick(/.*)?|root/.*)$' >"$work/after"
left=$(comm -13 "$work/before" "$work/after")
if [ "$left" = ./etc/default/wick-agent.rpmsave ]; then pass "nothing else stays but the changed setting"; else fail "nothing else stays but the changed setting" "$left"; fi
finish
