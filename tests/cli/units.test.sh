#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What systemd makes of the units: no complaint, and how much of the system is exposed to them, as docs/security.md has it.
. tests/lib.inc
uses systemd-analyze || {
	skip "the units of systemd" "$missing"
	finish
}
case $(systemd-analyze security --help 2>&1) in
*--offline*) ;;
*)
	skip "the units of systemd" "this systemd-analyze has no --offline"
	finish
	;;
esac
units=$work/root/usr/lib/systemd/system
mkdir -p "$units"
cp packaging/*.service "$units/"
# NAME MOST: exposure is at most that.
exposed() {
	systemd-analyze security --offline=true --root="$work/root" "$1.service" >"$work/$1" 2>&1
	exposure=$(sed -n 's/.*Overall exposure level for .*: \([0-9.]*\) .*/\1/p' "$work/$1")
	if [ -n "$exposure" ] && awk -v is="$exposure" -v most="$2" 'BEGIN { exit !(is <= most) }'; then
		pass "$1.service: exposure $exposure, at most $2"
	else
		fail "$1.service: exposure ${exposure:-unknown}, at most $2" "$(grep -E '✗|rror|nknown' "$work/$1")"
	fi
	if grep -E 'Unknown|Failed to parse|ignoring' "$work/$1"; then fail "$1.service: systemd understands all of it"; else pass "$1.service: systemd understands all of it"; fi
}
exposed wick-server 1.0
exposed wick-agent 2.5
exposed wick 2.6
documented() { # every unit's exposure is the one in the documentation
	for unit in wick-server wick-agent wick; do
		grep -q "| \`$unit.service\` | $(sed -n 's/.*Overall exposure level for .*: \([0-9.]*\) .*/\1/p' "$work/$unit") |" docs/security.md || return 1
	done
}
check "docs/security.md has these numbers" documented
finish
