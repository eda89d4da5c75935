#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The server's own CPU and heap profiles, by the tool that its users have for it.
. tests/lib.inc
uses go || {
	skip "/debug/pprof" "there is no go tool pprof"
	finish
}
start_server
HOME=$work
export HOME
check "there is an index" sh -c 'curl -sf "$0/debug/pprof/" | grep -q "href=\"/debug/pprof/profile" && curl -sf "$0/debug/pprof" | grep -q heap' "$url"
status() { curl -s -o "$work/out" -w '%{http_code}' "$@"; }
for seconds in 0 301 x -1 99999999999999999999; do
	check "seconds=$seconds is refused" test "$(status "$url/debug/pprof/profile?seconds=$seconds")" = 400
done
check "another page is refused" test "$(status -H 'Origin: http://elsewhere.example' "$url/debug/pprof/profile?seconds=1")" = 403
check "an idle server has a profile" sh -c 'go tool pprof -timeout 600 -top "$0/debug/pprof/profile?seconds=1" >"$1" 2>&1 && grep -qx "File: wick" "$1"' "$url" "$work/top"
# A machine that is busy with something else may leave the server no CPU for some seconds.
node -e 'process.stdout.write(Array.from({ length: 20000 }, (_, i) => "main;f" + (i % 100) + ";g" + i + " " + (i + 1) + "\n").join(""))' >"$work/in.folded"
# It rests most of the time: there are samples and allocations enough.
(while :; do
	curl -s -o "$work/svg" --data-binary @"$work/in.folded" "$url/api/v1/convert?to=svg"
	sleep 0.1
done) &
load=$!
pids="$pids $load"
has_names() {
	for _ in $(seq 30); do
		go tool pprof -timeout 600 -top -cum -nodecount=500 "$url/debug/pprof/profile?seconds=2" >"$work/top" 2>"$work/err"
		grep -q ' api_convert' "$work/top" && grep -q ' run_job' "$work/top" && return
	done
	cat "$work/top" "$work/err"
	return 1
}
check "a busy one has functions by their names, and their callers" has_names
# Whichever of two requests comes first is the one that is made.
is_refused() { # HELD TRIED MESSAGE
	first=
	for _ in $(seq 60); do
		[ -n "$first" ] && kill -0 "$first" 2>/dev/null || {
			curl -s -o "$work/first" "$url/debug/pprof/$1?seconds=300" &
			first=$!
			pids="$pids $first"
			sleep 0.3
		}
		[ "$(status "$url/debug/pprof/$2?seconds=1")" = 409 ] && grep -q "$3" "$work/out" && return
	done
	return 1
}
one_at_a_time() { # NAME HELD TRIED MESSAGE
	if is_refused "$2" "$3" "$4"; then pass "$1"; else fail "$1" "$(cat "$work/out")"; fi
}
is_free() { # PATH
	for _ in $(seq 240); do
		[ "$(status "$url/debug/pprof/$1?seconds=1")" = 200 ] && return
		sleep 0.5
	done
	return 1
}

# ---- heap ----
has_heap() { # PATH TYPE: the load's functions are there, below their callers
	for _ in $(seq 30); do
		go tool pprof -timeout 600 -top -cum -nodecount=500 -sample_index=alloc_space "$url/debug/pprof/$1" >"$work/top" 2>"$work/err"
		grep -q ' api_convert' "$work/top" && grep -q ' run_job' "$work/top" && break
		sleep 0.2
	done
	grep -q ' api_convert' "$work/top" && grep -qx 'File: wick' "$work/top" && grep -qx 'Type: alloc_space' "$work/top" &&
		go tool pprof -timeout 600 -top "$url/debug/pprof/$1" >"$work/top" 2>"$work/err" && grep -qx "Type: $2" "$work/top" && return
	cat "$work/top" "$work/err"
	return 1
}
if nm "$WICK" 2>/dev/null | grep -q '__asan_init'; then
	check "with sanitizers there is none, with a reason" sh -c 'curl -s "$0/debug/pprof/heap" | grep -q AddressSanitizer && curl -s "$0/debug/pprof/" | grep -q "no heap profile"' "$url"
else
	check "the index has it" sh -c 'curl -sf "$0/debug/pprof/" | grep -q "href=\"/debug/pprof/heap" && curl -sf "$0/debug/pprof/" | grep -q "href=\"/debug/pprof/allocs"' "$url"
	for query in seconds=0 seconds=301 seconds=x debug=1 debug=x 'seconds=1&debug=2'; do
		check "heap?$query is refused" test "$(status "$url/debug/pprof/heap?$query")" = 400
	done
	check "another page is refused its heap" test "$(status -H 'Origin: http://elsewhere.example' "$url/debug/pprof/heap")" = 403
	check "gc is taken" test "$(status "$url/debug/pprof/heap?gc=1&debug=0")" = 200
	check "what is in use" has_heap heap inuse_space
	check "what was allocated" has_heap allocs alloc_space
	check "what changes within a second" has_heap 'heap?seconds=1' inuse_space
	for value in alloc_objects alloc_space inuse_objects inuse_space; do
		check "$value has a unit that pprof knows" sh -c 'go tool pprof -timeout 600 -raw "$0/debug/pprof/heap" 2>"$2" | grep -q "$1/"' "$url" $value "$work/err"
	done
	check "its own command line reads it" sh -c 'curl -sf -o "$1/heap.pb.gz" "$0/debug/pprof/heap" && "$WICK" report top --sample-index alloc_space "$1/heap.pb.gz" | grep -q "[a-z]_"' "$url" "$work"
	one_at_a_time "one change is measured at a time" heap allocs 'another heap profile'
	check "what is in use is there meanwhile" test "$(status "$url/debug/pprof/heap")" = 200
	kill $first
	wait $first
	check "and ends when nobody waits for it" is_free heap
fi

# ---- one CPU profile at a time ----
one_at_a_time "one is made at a time" profile profile 'another CPU profile'
kill $first
wait $first
check "and ends when nobody waits for it" is_free profile
kill $load
finish
