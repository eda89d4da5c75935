#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A program that says how long it waited where: what record --wall and --off-cpu make of it, and off-CPU time through agent, server and query.
. tests/lib.inc
need_sampling "offcpu"
program="$O/programs/offcpu"
seconds=$(if_full 10 5)
# FILE PATTERN: sum of the folded stacks with a frame that matches.
sum_of() { awk -v p="$2" '{ n = $NF; sub(/ [0-9]+$/, ""); if ((";" $0 ";") ~ (";" p ";")) s += n } END { printf "%.0f", s }' "$1"; }
said() { awk -v k="$1" '$1 == k { print $2 }' "$work/said"; }
near() { # NAME GOT WANT PERCENT [SLACK_NS]
	if awk -v g="${2:-0}" -v w="${3:-0}" -v p="$4" -v s="${5:-0}" 'BEGIN { d = g - w; if (d < 0) d = -d; exit !(w > 0 && d <= w * p / 100 + s) }'; then
		pass "$1: $(awk -v g="$2" -v w="$3" 'BEGIN { printf "%.3f s, %.3f s expected", g / 1e9, w / 1e9 }')"
	else
		fail "$1: ${2:-nothing}, ${3:-nothing} expected, within $4 % and ${5:-0} ns" "$(
			grep -v 'cannot store' "$work/err"
			head -n 30 "${folded:-/dev/null}" | cut -c 1-300
		)"
	fi
}

# Wall-clock time of a command. On a virtual machine a running thread may lose time that no clock of the kernel shows: hence 3 %.
# What runs is counted by ticks of 1/499 s: a thread that computes for all of its time, or waits for the CPU. So the slack is what a thread
# that sleeps waited for it.
"$WICK" record --wall -F 499 -o "$work/wall.pb" -- "$program" $seconds >"$work/said" 2>"$work/err" || fail "record --wall works" "$(cat "$work/err")"
"$WICK" convert "$work/wall.pb" -o "$work/wall.folded" || fail "convert works"
folded="$work/wall.folded"
for name in computeAlways sleepLong sleepShort; do
	case $name in computeAlways) want=$(said computes) ;; *) want=$(said $name) ;; esac
	near "wall time below $name" "$(sum_of "$folded" $name)" "$want" 3 "$(said ${name}Delay)"
done
check "the only value is wall" sh -c "'$WICK' convert '$work/wall.pb' -o - --to folded --sample-type wall >/dev/null"
near "wall time of all threads" "$(awk '{ s += $NF } END { printf "%.0f", s }' "$folded")" "$(awk '/^(computes|sleeps|listens) / { s += $2 } END { printf "%.0f", s * 4 / 3 }' "$work/said")" 2
near "waits that had not ended" "$(sum_of "$folded" "(waitForPipe|listens)")" "$(said listens)" 2

# The same of a process that runs already: threads that sleep all the time are there, and cut off at both ends.
launch "$program" 600 "$work/ready" "$work/stop" >"$work/said"
target=$!
wait_for test -e "$work/ready"
"$WICK" record --wall -F 499 -d $((seconds - 1)) -p $target -o "$work/attached.folded" 2>"$work/err" || fail "record --wall -p works" "$(cat "$work/err")"
took=$(sed -n 's/.* samples in \([0-9.]*\) s .*/\1/p' "$work/err")
folded="$work/attached.folded"
touch "$work/stop"
wait $target
# A thread that has the CPU for all of its time is hit by each tick, one that has it for a part of it by chance: five standard errors.
near "wall time of a thread that computes" "$(sum_of "$folded" computeAlways)" "$(awk -v t="$took" 'BEGIN { printf "%.0f", t * 1e9 }')" 2 \
	"$(awk -v t="$took" -v delay="$(said computesDelay)" -v all="$(said computes)" 'BEGIN { printf "%.0f", 5e7 + (delay > all / 20 ? 5 * sqrt(t * 499) / 499 * 1e9 : 0) }')"
near "wall time of a thread that sleeps" "$(($(sum_of "$folded" sleepLong) + $(sum_of "$folded" sleepShort)))" "$(awk -v t="$took" 'BEGIN { printf "%.0f", t * 1e9 }')" 2 150000000
near "wall time of four threads" "$(awk '{ s += $NF } END { printf "%.0f", s }' "$folded")" "$(awk -v t="$took" 'BEGIN { printf "%.0f", 4 * t * 1e9 }')" 3 200000000
"$program" 600 "$work/ready2" "$work/stop2" >/dev/null &
target=$!
pids="$pids $target"
wait_for test -e "$work/ready2"
launch "$WICK" record --wall -d 600 -p $target -o "$work/woken.folded" 2>"$work/err"
recorder=$!
wait_recording $recorder && sleep 1 # so that something is there to be seen asleep
touch "$work/stop2"
wait $recorder || fail "record --wall -p works" "$(cat "$work/err")"
check "the system call of a thread that slept before is known when it wakes" grep -qE '^\[unknown stack\];.*pipe_read_\[k\]' "$work/woken.folded"
wait $target
expect "--wall needs a process" 2 "--wall requires a command or -p" "$WICK" record --wall -a
expect "a wrong --off-cpu is refused" 2 "is not a share" "$WICK" record --off-cpu often -a
expect "a share above 100 % is refused" 2 "is not a share" "$WICK" record --off-cpu 101% -a

# Off-CPU time beside CPU time, in one file. Preemption is not in it: the thread that computes never waits by itself. Hence the slack: a
# thread that waits for the CPU before it sleeps is within its function, but not asleep.
"$WICK" record --off-cpu 100% -o "$work/off.pb" -- "$program" $seconds >"$work/said" 2>"$work/err" || fail "record --off-cpu works" "$(cat "$work/err")"
"$WICK" convert "$work/off.pb" -o "$work/off.folded" --sample-type off_cpu || fail "the file holds off_cpu"
"$WICK" convert "$work/off.pb" -o "$work/cpu.folded" --sample-type cpu || fail "the file holds cpu"
folded="$work/off.folded"
near "off-CPU time below sleepLong" "$(sum_of "$folded" sleepLong)" "$(said sleepLong)" 2 "$(said sleepLongDelay)"
near "off-CPU time below sleepShort" "$(sum_of "$folded" sleepShort)" "$(said sleepShort)" 2 "$(said sleepShortDelay)"
check "a thread that computes is blocked as long as somebody stops it" test "$(sum_of "$folded" computeAlways)" -lt $((100000000 + $(said computesBlocked)))
check "what is shown first is CPU time" sh -c "'$WICK' convert '$work/off.pb' -o - --to folded | cmp -s - '$work/cpu.folded'"
check "waits begin with the scheduler, not with the tracing" sh -c "! grep -E '(bpf_|traceiter)[^;]*_\[k\] [0-9]+$' '$folded'"
# Waits of 30 ms pass no filter of 50 ms, unless a busy machine made them longer; those of 70 ms all do.
"$WICK" record --off-cpu 50ms -o "$work/long.pb" -- "$program" $seconds >"$work/said" 2>"$work/err"
"$WICK" convert "$work/long.pb" -o "$work/long.folded" --sample-type off_cpu
folded="$work/long.folded"
near "off-CPU time above 50 ms, below sleepLong" "$(sum_of "$folded" sleepLong)" "$(said sleepLong)" 2 "$(said sleepLongDelay)"
check "none of 30 ms" test "$(sum_of "$folded" sleepShort)" -le "$(said sleepShortOver50)"

# Through agent and server.
launch "$WICK" up --data "$work/data" --listen 127.0.0.1:0 --off-cpu 50% --budget 0 2>"$work/up.log"
up_pid=$!
began=$(date +%s)
wait_url "$work/up.log" "$up_pid" || {
	fail "wick up starts" "$(cat "$work/up.log")"
	finish
}
check "its agent samples" wait_sampling "$work/up.log" "$up_pid"
launch "$program" $(if_full 20 10) >"$work/said"
target=$!
wait $target
kill -0 "$up_pid" || fail "wick up runs on" "$(cat "$work/up.log")"
waits_counted() { curl -s "$url/metrics" | tee "$work/metrics" | awk '/^wick_agent_off_cpu_intervals_total/ { found = $2 >= 50 } END { exit !found }'; }
check "/metrics counts waits" wait_for waits_counted
# A ring holds those of some seconds. An agent that is kept from the CPU for less than one loses none; else not more than came while it waited.
waited_ms=$(awk '{ printf "%d", $2 / 1e6 }' "/proc/$up_pid/schedstat")
counted() { awk -v what="$1" 'index($1, what) == 1 { found = $2; seen = 1 } END { if (seen) printf "%d", found }' "$work/metrics"; }
lost=$(counted 'wick_agent_samples_incomplete_total{reason="off_cpu_full"}')
most_lost=$((waited_ms < 1000 ? 0 : $(counted wick_agent_off_cpu_intervals_total) * waited_ms / 1000 / ($(date +%s) - began)))
check "of the waits ${lost:-an unknown number} were lost, by an agent that waited $waited_ms ms for the CPU: $most_lost at most" test "${lost:-x}" -le $most_lost
check "/metrics shows rate and cost" awk '/^wick_agent_frequency_configured_hz 19$/ { f = 1 } /^wick_agent_cost_ratio/ { c = $2 > 0 && $2 < 1 } END { exit !(f && c) }' "$work/metrics"
# What it has seen so far it sends at its end.
kill -INT "$up_pid"
wait "$up_pid"
need_server
"$WICK" query "off_cpu:off_cpu:nanoseconds:off_cpu:nanoseconds:delta{process_pid=\"$target\"}" --url "$url" --from now-30m --format json -n 0 -o "$work/off.json" || fail "the query answers"
# 100 waits (full: 200), one in two of them looked at: a standard deviation of 10 %.
near "off-CPU time below sleepLong, half of it looked at" "$(total_of "$work/off.json" sleepLong)" "$(said sleepLong)" 40
check "CPU time is a type of its own" sh -c "'$WICK' query 'process_cpu{process_pid=\"$target\"}' --url '$url' --from now-30m --format folded | grep -q computeAlways"
finish
