#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A stripped program that a real agent samples, while its debug information is on a debuginfod server only, and later sent by hand for another one: names appear in what was sampled before, without a restart.
name="names of a sampled program"
. tests/network.inc
. tests/lib.inc
need_sampling "$name"

# NAME NUMBER: $work/NAME is stripped, $work/NAME.debug has what was taken away.
build() {
	gcc -O2 -g -Wl,--build-id -DNUMBER="$2" -o "$work/$1" tests/symbol/inlined.c &&
		objcopy --only-keep-debug "$work/$1" "$work/$1.debug" && strip --strip-all "$work/$1" && ! nm "$work/$1" 2>/dev/null | grep -q outer_work
}
check "a program, stripped, for debuginfod" build fetched 11
check "and one whose debug information is sent" build sent 12
mkdir "$work/files"
launch debuginfod -F "$work/files" -d :memory: -p 8002 -t 1 >"$work/debuginfod.log" 2>&1
printf 'symbols:\n  retry: 1s\n  debuginfod: {urls: "http://127.0.0.1:8002", missing: 1s}\n' >"$work/wick.yaml"
need_server --config "$work/wick.yaml"
launch "$WICK" agent --server "$url" -F 99 --budget 0 2>"$work/agent.log"
wait_sampling "$work/agent.log" "$!" || fail "the agent samples"
"$work/fetched" 4 >/dev/null &
pids="$pids $!"
"$work/sent" 4 >/dev/null
# NAME: the functions of a program's samples, by falling time, "NAME FILE" each.
functions_of() {
	"$WICK" query "process_cpu{process_executable_name=\"$1\"}" --url "$url" --from now-10m --format json -n 0 -o "$work/$1.json" 2>"$work/err" || {
		cat "$work/err"
		return 1
	}
	node -e 'for (const f of JSON.parse(require("fs").readFileSync(process.argv[1])).functions.rows) console.log(f.name, f.file)' "$work/$1.json"
}
# NAME PATTERN: waits until a line of the functions matches; 0 if it does in time.
wait_for_function() {
	for _ in $(seq 240); do
		functions_of "$1" >"$work/functions"
		grep -qE "$2" "$work/functions" && return 0
		sleep 0.5
	done
	cat "$work/functions" "$work/err" "$work/agent.log"
	curl -s "$url/api/v1/binaries?text=$1"
	return 1
}
# NAME: the functions are those of the source, inlined ones among them, in about the shares that they have by construction, 4 to 1. The first stacks
# of a process may lack their beginning on a busy machine, where its unwind table comes late: what is proven here is the names.
named() {
	wait_for_function "$1" '^innermost_step .*inlined\.c$' && grep -qE '^middle_step .*inlined\.c$' "$work/functions" && grep -qE '^outer_work .*inlined\.c$' "$work/functions" &&
		grep -qE '^hidden_work .*inlined\.c$' "$work/functions" || {
		cat "$work/functions"
		return 1
	}
	"$WICK" query "process_cpu{process_executable_name=\"$1\"}" --url "$url" --from now-10m --format folded -n 0 >"$work/folded" &&
		awk '{ v = $NF; all += v; if (/(main|\[unknown stack\]);outer_work;middle_step_\[i\]/) outer += v; if (/(main|\[unknown stack\]);hidden_work;innermost_step_\[i\]/) hidden += v; if (/main;/) complete += v }
			END { printf "of %d: outer_work %d, hidden_work %d\n", all, outer, hidden; exit !(hidden > 0 && complete > all / 2 && outer + hidden > 0.9 * all && outer > 1.5 * hidden) }' "$work/folded" || {
		head -n 20 "$work/folded"
		return 1
	}
}
check "samples of it arrive, without names" wait_for_function fetched '^fetched\+0x'
check "and of the other" wait_for_function sent '^sent\+0x'
cp "$work/fetched.debug" "$work/files/"
check "the debug file comes to debuginfod: what was sampled before has names, inlined calls and files" named fetched
check "debug information is sent" "$WICK" debuginfo upload "$work/sent.debug" --url "$url"
check "what was sampled before has names, inlined calls and files" named sent
check "the server has not been restarted" kill -0 "$server_pid"
curl -s "$url/api/v1/binaries?text=$work/fetched" >"$work/status"
check "debuginfod is named as the source" grep -q '"from":"[^"]*debuginfod' "$work/status"
finish
