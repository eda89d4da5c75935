#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What an agent uses itself while it samples this machine: without --markers, with it while nobody makes markers, and while one program
# makes 10,000 a second. CPU time of the agent's process, all threads, and its resident memory at the end and at most.
#   [--seconds N] [--rate N] [--case NAME]...     60, 10000, all three: off, idle, busy
set -eu
. bench/lib.inc
seconds=60 rate=10000 cases=
while [ $# -gt 1 ]; do
	case $1 in
	--seconds)
		seconds=$2
		shift
		;;
	--rate)
		rate=$2
		shift
		;;
	--case)
		cases="$cases $2"
		shift
		;;
	*)
		echo "agent_markers: unknown option $1" >&2
		exit 2
		;;
	esac
	shift
done
make -s O="$O" "$O/bench/markers"
case $O in /*) bin=$O ;; *) bin=$PWD/$O ;; esac
for what in ${cases:-off idle busy}; do
	start_server
	option=--markers
	[ "$what" = off ] && option=
	launch "$WICK" agent --server "$url" --spool off --no-debuginfo-upload $option 2>"$work/agent.log"
	agent=$!
	sleep 10 # tables of what runs are made at the start
	load=
	if [ "$what" = busy ]; then
		launch "$bin/bench/markers" load 10 "$rate" $((seconds + 10)) >"$work/made"
		load=$!
		sleep 5
	fi
	before=$(cpu_of "$agent")
	sleep "$seconds"
	after=$(cpu_of "$agent")
	awk -v what="$what" -v before="$before" -v after="$after" -v seconds="$seconds" '/^VmRSS/ { now = $2 } /^VmHWM/ { most = $2 }
		END { printf "%-5s %.2f s of CPU in %d s (%.2f %% of one), %.1f MB, %.1f MB at most\n", what, after - before, seconds, 100 * (after - before) / seconds, now / 1024, most / 1024 }' "/proc/$agent/status"
	[ -z "$load" ] || wait "$load"
	[ "$what" != busy ] || cat "$work/made"
	kill "$agent"
	wait "$agent" || true
	grep ' markers: ' "$work/agent.log" | sed 's/.*info //' || true
	[ "$what" = off ] || echo "      $(du -sh "$work/data/recordings" | cut -f 1) on the server"
	kill "$server_pid"
	wait "$server_pid" || true
	rm -rf "$work/data"
done
