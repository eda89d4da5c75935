#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wick token: what it writes, what it refuses, and that the file is as it was when it fails.
. tests/lib.inc
file=$work/tokens.yaml
token() { "$WICK" token "$@" --file "$file"; }
expect "a command is needed" 2 'create, list or revoke' "$WICK" token
expect "an unknown one is named" 2 "unknown command 'make'" "$WICK" token make
expect "create needs a name and a role" 2 'needs --name and --role' token create --name a
expect "a role that is none is refused" 1 "'root' must be agent" token create --name a --role root
expect "so is a name" 1 'letters, digits' token create --name 'a b' --role read
expect "and a tenant" 1 'is no name of a tenant' token create --name a --role read --tenant ../x
expect "and a time that is past" 1 'in the past' token create --name a --role read --expires 2020-01-01
expect "and one that is none" 1 'neither a duration' token create --name a --role read --expires soon
check "nothing was written" test ! -e "$file"
expect "a list of no file fails" 1 'No such file' token list
expect "so does revoking in it" 1 'No such file' token revoke a

expect "a token is made" 0 '^wick_[0-9a-f]{64}$' token create --name agents --role agent --tenant '*'
check "the file is for its owner" test "$(stat -c %a "$file")" = 600
expect "another, for several tenants and roles" 0 '^wick_' token create --name ci --role write --role read --tenant a --tenant b --expires 90d
expect "an entry for a certificate has no token" 0 '^$' token create --name host --role agent --certificate host.example
expect "a name is there once" 1 "already" token create --name ci --role read
expect "the list has names, roles, tenants" 0 '^ci +token +write, read +a,b +20' token list
expect "... and certificates" 0 '^host +certificate +agent +anonymous +never' token list
expect "... also as JSON" 0 '"name":"ci","roles":\["write","read"\],"tenants":\["a","b"\]' token list --format json
secret=$(token create --name once --role read)
check "the token is not in the file" sh -c '! grep -q "${1#wick_}" "$2"' sh "$secret" "$file"
check "its hash is" grep -q "$(printf %s "$secret" | sha256sum | cut -d ' ' -f 1)" "$file"

sed -i '1i # reviewed by ada' "$file"
before=$(grep -v once "$file" | wc -l)
expect "one is revoked" 0 '^$' token revoke once
expect "... and gone" 1 "no token 'once'" token revoke once
check "comments and the rest stay" sh -c 'grep -q "^# reviewed by ada" "$1" && grep -q "name: .ci" "$1"' sh "$file"
check "... line by line" test "$(wc -l <"$file")" -eq $((before - 2))

# Of a service: root edits, the service goes on to read it.
if [ "$(id -u)" -eq 0 ]; then
	chown 65534:65534 "$file"
	chmod 640 "$file"
	expect "a file of another user's is edited" 0 '^wick_' token create --name more --role read
	check "... and still that user's" test "$(stat -c '%u:%g %a' "$file")" = '65534:65534 640'
fi
cp "$file" "$work/good"
chmod 600 "$file"
echo '  - broken' >>"$file"
cp "$file" "$work/bad"
expect "a file that is wrong is not edited" 1 'line' token create --name x --role read
expect "nor listed" 1 'line' token list
check "... and left as it is" cmp "$file" "$work/bad"
cp "$work/good" "$file"
expect "a disk that is full" 1 'cannot write|No space' env WICK_FAULT=write:1:sticky "$WICK" token create --name x --role read --file "$file"
expect "a rename that fails" 1 'cannot' env WICK_FAULT=rename:1 "$WICK" token revoke ci --file "$file"
check "... leave it as it is" cmp "$file" "$work/good"
check "... and nothing beside it" test "$(find "$work" -name '*.tmp' | wc -l)" -eq 0

# Several at the same time: each one's entry is there.
for i in 1 2 3 4 5 6 7 8; do token create --name "many-$i" --role read >/dev/null & done
wait
expect "eight at the same time" 0 '^8$' sh -c '"$1" token list --file "$2" | grep -c ^many-' sh "$WICK" "$file"
: >"$file"
expect "an empty file is not taken for a new one" 1 'is empty' token create --name x --role read
finish
