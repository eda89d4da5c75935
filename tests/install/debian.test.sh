#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The packages in fresh systems: they install, agent and server show a known load by its names, and nothing stays after purge.
. tests/lib.inc
. tests/install/install.inc
uses debootstrap || {
	skip "packages" "$missing"
	finish
}
ls "$dist"/wick_*.deb >/dev/null 2>&1 || {
	fail "there are packages in $dist" "make them with: ./dev dist deb"
	finish
}
if uses lintian; then
	# The packages are for whoever takes them from here: what only the archive asks for does not matter.
	check "lintian has nothing to say" sh -c 'lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs,bogus-mail-host-in-debian-changelog "$0"/*.deb' "$dist"
else
	skip "lintian" "$missing"
fi

# There is no systemd in these roots: what it is told is read from the scripts.
told() { # PACKAGE SCRIPT PATTERN
	dpkg-deb -I "$dist/$1"_*.deb "$2" | grep -qE "$3"
}
for service in wick wick-agent wick-server; do
	check "an upgrade restarts $service" told $service postinst "deb-systemd-invoke (try-restart|restart|._dh_action) '?$service.service"
	check "an upgrade does not stop $service before" sh -c '! dpkg-deb -I "$0" preinst 2>/dev/null | grep -q "deb-systemd-invoke stop"' "$(ls "$dist/${service}"_*.deb)"
	check "removal stops $service" told $service prerm "deb-systemd-invoke stop '?$service.service"
done
known_program
install() { in_system sh -c 'apt-get install -y -qq --no-install-recommends /tmp/debs/*.deb'; }
services() {
	shows_known "$1" "$system" setpriv --reuid wick --regid wick --clear-groups wick server --listen 127.0.0.1:0 --data /var/lib/wick -- wick agent
}
for suite in bookworm trixie noble; do
	fresh_system "$suite" >"$work/fresh" || {
		skip "$suite" "$(cat "$work/fresh")"
		continue
	}
	in_system apt-get update -qq >/dev/null 2>&1
	files_of "$system" >"$work/before"
	before=$(in_system dpkg-query -f '.\n' -W | wc -l)
	mkdir "$system/tmp/debs" && cp "$dist"/*.deb "$system/tmp/debs/"
	began=$(date +%s)
	check "$suite: they install" install
	echo "$suite: $(($(in_system dpkg-query -f '.\n' -W | wc -l) - before)) packages in $(($(date +%s) - began)) s"
	check "$suite: the program runs" in_system wick --version
	for unit in wick wick-agent wick-server; do check "$suite: $unit.service is there" test -e "$system/lib/systemd/system/$unit.service"; done
	check "$suite: the user is there" in_system getent passwd wick
	check "$suite: a second time is no change" install
	services "$suite"
	echo '# changed by hand' >>"$system/etc/default/wick-agent"
	check "$suite: they are removed" in_system sh -c 'apt-get remove -y -qq wick wick-agent wick-server libwickmark1 libwickmark-dev wick-dbgsym libwickmark1-dbgsym'
	check "$suite: settings and data stay" sh -c 'grep -q "changed by hand" "$0/etc/default/wick-agent" && ls "$0"/var/lib/wick/* >/dev/null' "$system"
	check "$suite: they are purged" in_system sh -c 'apt-get autoremove --purge -y -qq && dpkg --purge wick-agent wick-server wick'
	files_of "$system" | grep -vE '^./etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$' >"$work/after"
	grep -vE '^./etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$' "$work/before" >"$work/before.other"
	left=$(comm -13 "$work/before.other" "$work/after")
	if [ -z "$left" ]; then pass "$suite: nothing stays after purge"; else fail "$suite: nothing stays after purge" "$left"; fi
	check "$suite: nor the user" sh -c '! chroot "$0" getent passwd wick' "$system"
	unmount_all
done
finish
