#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A real agent with a token that is for agents only: all that it does works with it, and nothing else does; its token is changed for another while both run.
. tests/lib.inc
need_sampling "roles"
case $O in /*) bin=$O ;; *) bin=$PWD/$O ;; esac
[ -x "$bin/programs/load" ] || make -s programs
file=$work/tokens.yaml
token() { # NAME ROLE: into $work/NAME.token
	(umask 077 && "$WICK" token create --file "$file" --name "$1" --role "$2" --tenant team-a >"$work/$1.token")
}
for role in agent read record; do check "a token is made for $role" token "$role" "$role"; done
printf 'audit: {file: %s}\nhost_files: false\n' "$work/audit.log" >"$work/server.yaml"
launch "$WICK" server --config "$work/server.yaml" --tenants --data "$work/data" --listen 127.0.0.1:0 --tokens "$file" 2>"$work/server.log"
server_pid=$!
wait_url "$work/server.log" "$server_pid"

cp "$bin/programs/load" "$work/steady"
"$work/steady" 3600 1 25 >/dev/null 2>&1 &
pids="$pids $!"
# No header names the tenant: the token has one only.
launch "$WICK" agent --server "$url" --token-file "$work/agent.token" --markers --spool off 2>"$work/agent.log"
agent_pid=$!

ask() { curl -s -o "$work/body" -w '%{http_code}' -H "Authorization: Bearer $(cat "$work/$1.token")" "$url$2"; }
is() { # STATUS NAME PATH
	got=$(ask "$2" "$3")
	[ "$got" = "$1" ] || {
		echo "$3 by $2: $got, not $1: $(head -c 300 "$work/body")"
		return 1
	}
}
has_steady() { is 200 read "/api/v1/label-values?label=process_executable_name" && grep -q steady "$work/body"; }
check "its profiles arrive in its tenant" wait_for has_steady
is_listed() { is 200 read /api/v1/agents && grep -q "\"$(hostname)\"" "$work/body"; }
check "it polls, and says how it is" wait_for is_listed
check "a query with its token is refused" is 403 agent /api/v1/label-values?label=process_executable_name
check "... and says which roles may" grep -q 'needs one of the roles read, record, admin' "$work/body"
for path in / /api/v1/status /api/v1/query?query=process_cpu /api/v1/agents /api/v1/recordings /metrics /api/v1/backup/x /api/v1/snapshots; do
	check "$path with its token is refused" is 403 agent "$path"
done
record() { "$WICK" record --remote "$url" --token-file "$work/$1.token" --no-markers -d 1 -o "$work/$1.firefox.json"; }
expect "a recording is ordered with a token for it, and made by the agent" 0 'of 1 of 1 hosts' record record
expect "not with one that reads" 1 'needs one of the roles record, admin' record read
expect "nor with the agent's own" 1 'needs one of the roles record, admin' record agent
expect "wick query with a token that reads" 0 steady "$WICK" query --url "$url" --token-file "$work/read.token" --from now-10m 'process_cpu | top 50 by label process_executable_name'
expect "... and with the agent's" 1 'needs one of the roles read' "$WICK" query --url "$url" --token-file "$work/agent.token" process_cpu
# The server may not open files of this machine, so it wants debug information, which the agent sends.
has_upload() { find "$work/data" -path '*debuginfo/files*' -type f 2>/dev/null | grep -q .; }
check "it uploads debug information that is wanted" wait_for has_upload

# Rotation: another token beside the first, in the file that the agent has open; then the first is revoked.
check "a second token is made" token agent-2 agent
cp "$work/agent.token" "$work/agent-1.token"
mv "$work/agent-2.token" "$work/agent.token"
logged() { grep -q "$1" "$work/audit.log"; }
check "the agent uses the second without a restart" wait_for logged '"event":"login","name":"agent-2","kind":"token"'
check "the first is revoked" "$WICK" token revoke agent --file "$file"
check "... and refused" wait_for is 401 agent-1 /api/v1/agents
newest() { is 200 read /api/v1/status && sed -nE 's/.*"newest_ms":([0-9]+).*/\1/p' "$work/body"; }
since=$(date +%s%3N)
is_newer_now() { [ "$(newest)" -gt "$since" ]; }
check "profiles go on to arrive" wait_for is_newer_now
check "the agent was refused nothing" sh -c '! grep -E "403|401|role" "$1"' - "$work/agent.log"
check "... with the second neither" is 403 agent /api/v1/label-values?label=process_executable_name
check "the order is in the audit log, with its name" logged '"event":"call","name":"record","kind":"token".*"method":"POST","target":"/api/v1/recordings","tenant":"team-a","status":201'
finish
