#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes that live for 30 ms of CPU time: their stacks are complete from the first sample on, of a binary that the agent knows and of one that was linked seconds before. A complete stack is one that ends in _start,
# the program's own or the dynamic linker's.
. tests/lib.inc
need_sampling "short"
processes=${WICK_TEST_PROCESSES:-$(if_full 300 200)}
# It has the CPU when it wants it. One that is kept from it for seconds gets no more copies of stacks than there is room for in its rings, and counts the
# others: no_process.
launch nice -n -15 "$WICK" up --data "$work/up" --listen 127.0.0.1:0 -F 99 --budget 0 2>"$work/up.log"
up_pid=$!
wait_url "$work/up.log" "$up_pid" || {
	fail "wick up starts" "$(cat "$work/up.log")"
	finish
}
# PROGRAM: runs it for 30 ms of CPU time, often.
run_often() {
	for _ in $(seq "$processes"); do "$1" 0.03cpu >/dev/null || return 1; done
}
# NAME PROGRAM PERCENT
verify() {
	"$WICK" query "process_cpu{process_executable_name=\"${2##*/}\"}" --url "$url" --from now-30m --format folded -n 0 >"$work/folded" 2>"$work/err" || {
		fail "$1: the query answers" "$(cat "$work/err")"
		return
	}
	# The dynamic linker of a system without debug symbols has no name for its entry: it is given one.
	entry=$(readelf -hW /lib64/ld-linux-x86-64.so.2 | sed -n 's/.*Entry point address: *0x//p')
	awk -v entry="${entry%?}" '{ sub("^ld-linux-x86-64[.]so[.]2[+]0x" entry "[0-9a-f](;| )", "_start;"); print }' "$work/folded" >"$work/named"
	node tests/complete.mjs folded "$work/named" --strict --show 12 >"$work/complete"
	read -r all complete percent <"$work/complete"
	samples=$(awk -v all="$all" 'BEGIN { printf "%.0f", all / 10101010 }')
	if [ "$samples" -ge "$processes" ]; then pass "$1: $samples samples of $processes processes"; else fail "$1: $samples samples of $processes processes (at least one each)" "$(head -c 1500 "$work/folded")"; fi
	if awk -v got="$percent" -v want="$3" 'BEGIN { exit !(got >= want) }'; then pass "$1: $percent % of samples are complete (at least $3)"; else
		fail "$1: $percent % of samples are complete (at least $3)" "$(
			cut -c 1-200 "$work/complete"
			curl -s "$url/metrics" | grep -E '^wick_agent_(samples_incomplete|walks)_total'
			echo "waited for the CPU: $(awk '{ print $2 / 1e6 }' "/proc/$up_pid/schedstat") ms"
		)"
	fi
}
# Known is what the agent has tables of: the first stacks of it have come, with names, to the server.
become_known() { cp "$O/programs/deep" "$work/$1" && "$work/$1" 1cpu >/dev/null; }
become_known short_known
all_come() { # PROGRAM SAMPLES: so many of a program have come
	"$WICK" query "process_cpu{process_executable_name=\"$1\"}" --url "$url" --from now-30m --format folded -n 0 2>&1 | awk -v want="$2" '{ n += $NF } END { print n / 10101010; exit n / 10101010 < want }'
}
check "a binary becomes known" wait_for all_come short_known 50
check "$processes processes of a known binary" run_often "$work/short_known"
# A build-id that was never seen, and no other file of the kind.
build() { # PROGRAM OPTION...
	built=$1
	shift
	gcc -O2 -fomit-frame-pointer -D_GNU_SOURCE -Wl,--build-id="0x$(od -An -tx1 -N20 /dev/urandom | tr -d ' \n')" "$@" -o "$built" tests/programs/deep.c -lpthread
}
check "a binary is built" build "$work/short_fresh"
check "$processes processes of it" run_often "$work/short_fresh"
# The first stack of each is longer than what is copied of one, but the most of it was never touched.
check "a binary with 128 KiB in a frame is built" build "$work/short_room" -DROOM=131072
check "$processes processes of it" run_often "$work/short_room"
# Their last samples come with the next flush, or the one after it.
wait_for all_come short_room "$processes" >/dev/null && wait_for all_come short_fresh "$processes" >/dev/null && wait_for all_come short_known "$((processes + 50))" >/dev/null
# Copies of stacks are shared by all processes of the machine: others that want them just then, as tests beside this one do, leave some without. So there is a second time.
share_of() { # PROGRAM: % of its samples that are complete
	"$WICK" query "process_cpu{process_executable_name=\"$1\"}" --url "$url" --from now-30m --format folded -n 0 >"$work/folded" 2>/dev/null
	awk '/unknown stack/ { bad += $NF } { all += $NF } END { printf "%d", all ? 100 * (all - bad) / all : 0 }' "$work/folded"
}
known=short_known
if [ "$(share_of short_known)" -lt 99 ]; then
	known=short_again
	become_known $known && wait_for all_come $known 50 >/dev/null && run_often "$work/$known" && wait_for all_come $known "$((processes + 50))" >/dev/null
fi
verify "a known binary" $known 99
verify "a fresh binary" short_fresh 90
verify "a large frame" short_room 98
finish
