#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A server that root starts is another user, has no capabilities, cannot write elsewhere, and still does what it did as root.
. tests/network.inc
. tests/lib.inc
status_of() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" | tr '\t' ' '; }
is() { [ "$(status_of "$server_pid" "$1")" = "$2" ]; }
# Of a user that is not root, nothing changes but the sandbox.
expect "only root can become somebody else" 1 'only root can run it as user root' setpriv --reuid 65534 --regid 65534 --clear-groups "$WICK" server --data "$work/x" --user root
expect "a user that there is not" 1 "there is no user 'nobody-of-that-name'" "$WICK" server --data "$work/x" --user nobody-of-that-name
[ "$(id -u)" -eq 0 ] || {
	skip "a server that root starts" "not root"
	finish
}
need_server
check "it is another user" is Uid '65534 65534 65534 65534'
# A static program cannot ask for the groups of a user, and has none.
check "without groups of root's" sh -c 'case " $0 " in *" 0 "*) exit 1 ;; esac' "$(status_of "$server_pid" Groups)"
for set in CapInh CapPrm CapEff CapBnd CapAmb; do check "without capabilities: $set" is $set 0000000000000000; done
check "no program gives it more" is NoNewPrivs 1
if "$WICK" doctor 2>/dev/null | grep -q 'CONFIG_SECCOMP_FILTER'; then skip "system calls are filtered" "no seccomp here"; else check "system calls are filtered" is Seccomp 2; fi
check "its data is that user's" test "$(stat -c %U "$work/data")" = nobody
check "it stores" sh -c 'echo "a;b 3" | curl -sf --data-binary @- "$0/api/v1/ingest?name=p" >/dev/null' "$url"
stop_server
check "nothing was refused to it" sh -c '! grep "not among" "$0"' "$work/server.log"

# What an earlier start of root left is given to the user, and what leads elsewhere is not followed.
chown -R 0:0 "$work/data"
: >"$work/secret"
ln -s "$work/secret" "$work/data/blocks/link"
need_server
check "what root left is the user's" test "$(find "$work/data" ! -type l ! -user nobody | wc -l)" -eq 0
check "what a link leads to is not" test "$(stat -c %U "$work/secret")" = root
check "it still has what was stored" sh -c '"$0" query --url "$1" p --format folded -o "$2" && grep -q "a;b 3" "$2"' "$WICK" "$url" "$work/folded"
stop_server
ln "$work/secret" "$work/data/blocks/name"
expect "a second name of another file is refused" 1 'blocks/name cannot be given to user nobody: it has a second name' "$WICK" server --data "$work/data" --listen 127.0.0.1:0
rm "$work/data/blocks/name"
mkdir "$work/other" && : >"$work/other/passwd"
expect "a directory of something else is not given away" 1 "other cannot be given to user nobody: it has something in it, but nothing of wick's" "$WICK" server --data "$work/other" --listen 127.0.0.1:0
check "and stays root's" test "$(stat -c %U "$work/other")" = root
mkdir -m 700 "$work/closed"
expect "a directory that the user cannot get to is named" 1 'user nobody cannot use .*closed/data; choose another directory' "$WICK" server --data "$work/closed/data" --listen 127.0.0.1:0

# Staying, and other users.
need_server --user root --data "$work/roots"
check "--user root stays root" is Uid '0 0 0 0'
check "... in the sandbox" is NoNewPrivs 1
check "... with its data" test "$(stat -c %U "$work/roots")" = root
stop_server
need_server --user 4242 --data "$work/numbers"
check "a user may be a number" is Uid '4242 4242 4242 4242'
stop_server
chown 4243 "$work/numbers" && chown -R 4243 "$work/numbers"
need_server --data "$work/numbers"
check "the owner of the data is taken" is Uid '4243 4243 4243 4243'
stop_server
need_server --no-sandbox
check "--no-sandbox filters nothing" is Seccomp 0
check "... and is another user all the same" is Uid '65534 65534 65534 65534'
stop_server

launch "$WICK" server --data "$work/data" --listen 127.0.0.1:83 2>"$work/low.log"
server_pid=$!
check "a port below 1024 is bound" wait_url "$work/low.log" $server_pid
check "... by another user's server" is Uid '65534 65534 65534 65534'
stop_server

# Files and ports of root's: a certificate that is renewed, tokens that are revoked, an audit log that is moved away.
umask 077
mkdir "$work/roots.only"
certificate() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/roots.only/key.pem" -out "$work/roots.only/cert.pem" -subj "/CN=$1" -days 2 2>/dev/null; }
subject() { openssl s_client -connect "127.0.0.1:$port" </dev/null 2>/dev/null | openssl x509 -noout -subject; }
certificate first
cat >"$work/roots.only/server.yaml" <<END
audit: {file: $work/roots.only/audit.log, size: 1M}
tls: {cert_file: $work/roots.only/cert.pem, key_file: $work/roots.only/key.pem}
END
token=$("$WICK" token create --file "$work/roots.only/tokens.yaml" --name me --role admin 2>/dev/null | tail -n 1)
umask 022
launch "$WICK" server --data "$work/data" --listen 127.0.0.1:0 --tokens "$work/roots.only/tokens.yaml" --config "$work/roots.only/server.yaml" 2>"$work/tls.log"
server_pid=$!
wait_for grep -q 'https://' "$work/tls.log"
port=$(sed -n 's|.*https://127.0.0.1:\([0-9]*\).*|\1|p' "$work/tls.log")
check "it is another user with files of root's" is Uid '65534 65534 65534 65534'
check "it serves the certificate" sh -c 'case $0 in *first*) ;; *) exit 1 ;; esac' "$(subject)"
allowed() { [ "$(curl -sk -o /dev/null -w '%{http_code}' -X POST -H "Authorization: Bearer $token" "https://127.0.0.1:$port/api/v1/compact")" = "$1" ]; }
check "it knows the token" allowed 200
certificate second
renewed() { case $(subject) in *second*) ;; *) return 1 ;; esac }
check "a renewed certificate is served" wait_for renewed
check "the audit log has the call" wait_for grep -q '"target":"/api/v1/compact"' "$work/roots.only/audit.log"
mv "$work/roots.only/audit.log" "$work/roots.only/audit.log.old"
allowed 200
check "... and is made again when it was moved" wait_for grep -q '"target":"/api/v1/compact"' "$work/roots.only/audit.log"
"$WICK" token revoke --file "$work/roots.only/tokens.yaml" me >/dev/null 2>&1
check "a revoked token is refused" wait_for allowed 401
stop_server
check "nothing was refused to it either" sh -c '! grep "not among" "$0"' "$work/tls.log"
finish
