#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Parca Agent itself, built from its sources (parca-agent/build.sh), beside a server that has nothing but what the agent sends: programs in C and Go of all
# kinds (profilers.inc), in Python and in JavaScript. It uploads what programs have of symbols; the debug files of stripped ones are uploaded by hand.
. tests/clients/clients.inc
. tests/clients/profilers.inc
need_sampling parca_agent
profiler_build parca-agent parca-agent 1.25
build_programs
hertz=199 # so that few seconds make enough samples for the totals
cpu=process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta

printf "symbols: {host_files: false, debuginfod: {urls: ''}}\n" >"$work/config.yaml"
client_server --config "$work/config.yaml"
start_parca_agent "$url" $hertz
check "Parca Agent samples" wait_for grep -q 'Attached tracer program' "$profiler_log"
start_programs
# shellcheck disable=SC2086 # a list
check "there are samples of each program" wait_for profiled seen $cpu $program_names
# Their ids are the agent's: those of the list of binaries.
upload_debug() {
	for upload_name in w_strip_pie w_strip_nopie w_strip_noid; do
		seen_id $upload_name >/dev/null || return 1
		# What the agent sends of it would come in between, or in its place.
		grep -q "$seen_id was uploaded" "$work/server.log" || return 1
		"$WICK" debuginfo upload "$work/$upload_name.debug" --url "$url" --build-id "$seen_id" --force || return 1
	done
}
check "debug files of stripped programs are uploaded for the agent's ids" wait_for upload_debug
measure_programs "$client_seconds"
check "the samples have arrived" wait_for has_arrived
check_nothing_refused # before it ends: its last request may be cut off
kill "$profiler_pid"
wait "$profiler_pid"

check "CPU time is what the kernel says, within 5 %" profiled used $cpu "$work/used"
for name in $native; do
	case $name in w_go*) prefix=main\\. ;; *) prefix= ;; esac
	check "$name: at least 97 % of the samples have names" wait_for profiled named $cpu 97 "$name"
	check_stored "$name: heavy has 70 %" split "$cpu{service_name=\"unknown_service:$name\"}" "^${prefix}heavy\$" "^${prefix}light\$"
done
for name in w_python3 w_node; do check_stored "$name: heavy has 70 %" split "$(profiled selector $cpu "$name")" '\bheavy\b' '\blight\b'; done
# shellcheck disable=SC2086
profiled table $cpu "named, %" $program_names
curl -s "$url/metrics" >"$work/metrics"
check "the agent's own logs are taken and dropped" grep -qE '^wick_signals_dropped_total [1-9]' "$work/metrics"
check "the agent's log has no failure of a call" sh -c "! grep -E 'Unimplemented|Request failed|Failed to upload' '$profiler_log'"
finish
