#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two versions of the Debian packages, one after the other, on the same data: an upgrade keeps profiles and what the admin changed of settings, a way back
# keeps profiles, and data of a newer version are refused by an older program, untouched. What the agent has in the kernel goes with it.
. tests/lib.inc
. tests/install/install.inc
uses debootstrap bpftool || {
	skip "upgrades" "$missing"
	finish
}
ls "$dist"/wick_*.deb >/dev/null 2>&1 || {
	fail "there are packages in $dist" "make them with: ./dev dist deb"
	finish
}
fresh_system bookworm >"$work/fresh" || {
	skip "upgrades" "$(cat "$work/fresh")"
	finish
}
# DEB FOLDER: the same package as version 9.9.9, with other settings, as a later release would have.
newer() {
	rm -rf "$work/deb"
	dpkg-deb -R "$1" "$work/deb"
	sed -i 's/^Version: .*/Version: 9.9.9/; s/(= [0-9.]*)/(= 9.9.9)/' "$work/deb/DEBIAN/control"
	for settings in "$work/deb/etc/default"/*; do [ ! -e "$settings" ] || echo '# of 9.9.9' >>"$settings"; done
	dpkg-deb --root-owner-group -Znone -b "$work/deb" "$2/$(basename "$1" | sed 's/_[^_]*_/_9.9.9_/')" >/dev/null
}
mkdir "$system/tmp/old" "$system/tmp/new"
for name in wick wick-agent wick-server; do
	cp "$dist/$name"_*.deb "$system/tmp/old/"
	newer "$dist/$name"_*.deb "$system/tmp/new"
done
apt() { in_system apt-get "$@" </dev/null; }
installed() { in_system dpkg-query -W -f '${Version}\n' wick; }
server_command="setpriv --reuid wick --regid wick --clear-groups wick server --listen 127.0.0.1:0 --data /var/lib/wick"
known_program
apt update -qq >/dev/null 2>&1
# shellcheck disable=SC2046
check "the first version installs" apt install -y -qq --no-install-recommends $(cd "$system" && ls -d tmp/old/*.deb | sed 's|^|/|')
old=$(installed)

# ---- what the agent has in the kernel -------------------------------------------------------------------------------------------------------
# PID: programs and maps that the process has, "prog 7" and "map 9" a line.
of_process() {
	for kind in prog map; do
		for info in "/proc/$1/fdinfo"/*; do sed -n "s/^${kind}_id:[[:space:]]*/$kind /p" "$info" 2>/dev/null; done
	done | sort -u
}
none_left() { # FILE: of those in it
	while read -r kind number; do
		! bpftool "$kind" show id "$number" >/dev/null 2>&1 || {
			echo "$kind $number is still there"
			return 1
		}
	done <"$1"
}
find /sys/fs/bpf 2>/dev/null | sort >"$work/pins.before"
cp "$work/known" "$system/known"
launch chroot "$system" /known
known=$!
# shellcheck disable=SC2086
launch chroot "$system" $server_command 2>"$work/server.log"
server=$!
wait_url "$work/server.log" $server || fail "the server starts" "$(cat "$work/server.log")"
began=$(date +%s)
launch chroot "$system" wick agent --server "$url" 2>"$work/agent.log"
agent=$!
check "a known load is shown by its names" wait_for knows_functions "$url"
of_process $agent >"$work/kernel"
check "the agent has programs and maps in the kernel" sh -c 'grep -q prog "$0" && grep -q map "$0"' "$work/kernel"
kill $agent $known
wait $agent
ended=$(($(date +%s) + 1))
check "they are gone when it is stopped" wait_for none_left "$work/kernel"
check "so is what it pinned" sh -c 'find /sys/fs/bpf 2>/dev/null | sort | comm -13 "$0" - | grep -i wick; test $? -ne 0' "$work/pins.before"
answer() { # FILE: what the server says of that time
	"$WICK" query --url "$url" --from "$began" --to "$ended" 'process_cpu{process_comm="known"}' --format folded -o "$1" >"$work/query.err" 2>&1 || cat "$work/query.err"
}
answer "$work/answer.old"
stop() {
	kill "$server"
	wait "$server"
}
stop
# NAME: a server of whichever version is installed has the same answer.
same_answer() {
	# shellcheck disable=SC2086
	launch chroot "$system" $server_command 2>"$work/server.log"
	server=$!
	if wait_url "$work/server.log" $server; then
		answer "$work/answer.new"
		check "$1" cmp "$work/answer.old" "$work/answer.new"
	else fail "$1: the server starts" "$(cat "$work/server.log")"; fi
	stop
}
check "there is something to keep" test -s "$work/answer.old"
same_answer "a restart keeps profiles"

# ---- upgrade --------------------------------------------------------------------------------------------------------------------------------
echo 'OPTIONS="--retention 7d" # changed by hand' >"$system/etc/default/wick-server"
sed -i 's/env: prod/env: changed/' "$system/etc/wick/agent.yaml"
check "a newer version installs over it" apt install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
	/tmp/new/wick_9.9.9_amd64.deb /tmp/new/wick-agent_9.9.9_amd64.deb /tmp/new/wick-server_9.9.9_amd64.deb
check "it is there" test "$(installed)" = 9.9.9
check "settings that were changed by hand stay" sh -c 'grep -q "changed by hand" "$0/default/wick-server" && grep -q "env: changed" "$0/wick/agent.yaml"' "$system/etc"
check "the new ones are beside them" grep -q 'of 9.9.9' "$system/etc/default/wick-server.dpkg-dist"
check "settings that nobody changed are the new ones" grep -q 'of 9.9.9' "$system/etc/default/wick-agent"
same_answer "an upgrade keeps profiles"

# ---- the way back ---------------------------------------------------------------------------------------------------------------------------
check "the version before installs over it" apt install -y -qq --no-install-recommends --allow-downgrades -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
	"/tmp/old/wick_${old}_amd64.deb" "/tmp/old/wick-agent_${old}_amd64.deb" "/tmp/old/wick-server_${old}_amd64.deb"
check "it is there again" test "$(installed)" = "$old"
check "settings that were changed by hand stay then" grep -q 'changed by hand' "$system/etc/default/wick-server"
same_answer "a downgrade keeps profiles"

# ---- data of a newer version ----------------------------------------------------------------------------------------------------------------
all_of() { (cd "$1" && find . -type f ! -name lock -exec sha256sum {} + | sort); }
refuses() { # NAME PATTERN: data in /newer
	chroot "$system" chown -R wick:wick /newer
	all_of "$system/newer" >"$work/data.before"
	expect "$1 are refused, with what to do" 1 "$2" chroot "$system" wick server --listen 127.0.0.1:0 --data /newer
	all_of "$system/newer" >"$work/data.after"
	check "$1 stay as they are" cmp "$work/data.before" "$work/data.after"
}
# Those of the log are refused in store/head/log_test.
cp -a "$(find tests/store/golden -maxdepth 1 -name 'v*' | sort -V | tail -n 1)/data" "$system/newer"
for meta in "$system/newer/blocks"/*/meta.json; do sed -i '1s/"version":[0-9]*/"version":99/' "$meta"; done
refuses "blocks of a newer version" 'blocks/.*has version 99, and this program supports versions up to [0-9]+: use a newer wick'
finish
