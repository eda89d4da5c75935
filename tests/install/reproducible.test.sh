#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same commit gives the same bytes: what is in build/dist is made once more by a user without privileges, in another folder of another depth, with another
# umask, time zone, language and home, and without what the compiler kept from the first time. Checksums must be equal.
. tests/lib.inc
. tests/install/install.inc
commit=$(git rev-parse HEAD)
[ -s "$dist/SHA256SUMS" ] || {
	fail "there is something in $dist" "make it with: ./dev dist"
	finish
}
grep -qs -- "-$commit\"" "$dist"/*.spdx.json || {
	fail "$dist is of the commit that is checked out" "make it with: ./dev dist"
	finish
}
home=$work/another/user
mkdir -p "$home"
# A worktree's repository is elsewhere: a copy has it all. What the page is bundled of is fetched once.
check "another folder has the commit" sh -c 'git clone -q --no-hardlinks . "$0/deeper/wick" && git -C "$0/deeper/wick" checkout -q "$1"' "$home" "$commit"
if [ -d build/page-packages ]; then
	mkdir -p "$home/deeper/wick/build"
	cp -R build/page-packages "$home/deeper/wick/build/"
fi
chown -R 65534:65534 "$home"
language=$(locale -a 2>/dev/null | grep -E '^(de_DE|tr_TR|en_US)' | head -n 1)
began=$(date +%s)
check "another user makes it" setpriv --reuid 65534 --regid 65534 --clear-groups env -i PATH=/usr/bin:/bin HOME="$home" USER=somebody LOGNAME=somebody TMPDIR="$home" TZ=Asia/Kathmandu LANG="${language:-C.UTF-8}" \
	LC_ALL="${language:-C.UTF-8}" CCACHE_DISABLE=1 WICK_TEST_OWNER="$WICK_TEST_OWNER" sh -c 'umask 077 && cd "$HOME/deeper/wick" && tools/dist'
echo "made in $(($(date +%s) - began)) s"
# Of the first, what a whole run makes; there may be more from a run before.
other=$home/deeper/wick/build/dist
check "it made something" test -s "$other/SHA256SUMS"
while read -r sum file; do
	check "$file has the same bytes" test "$(sed -n "s/ .*[ *]$file\$//p" "$dist/SHA256SUMS")" = "$sum"
done <"$other/SHA256SUMS"
check "there are no other files" sh -c 'awk "{ print \$2 }" "$0/SHA256SUMS" >"$2" && awk "{ print \$2 }" "$1/SHA256SUMS" | cmp - "$2"' "$dist" "$other" "$work/names"
finish
