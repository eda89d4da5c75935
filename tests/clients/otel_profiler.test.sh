#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# OpenTelemetry's eBPF profiler, built from its sources (otel-profiler/build.sh), beside a server that has no files but what is uploaded: programs in C and
# Go of all kinds (profilers.inc), in Python and in JavaScript. It sends native code as addresses, with the file's GNU build-id, Go build-id and hash; what it
# names itself are Go's functions, those of interpreters and the kernel's.
. tests/clients/clients.inc
. tests/clients/profilers.inc
need_sampling otel_profiler
profiler_build otel-profiler otel-profiler 1.26
build_programs
hertz=199 # so that few seconds make enough samples for the totals
cpu=process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta

printf "symbols: {host_files: false, debuginfod: {urls: ''}}\n" >"$work/config.yaml"
client_server --config "$work/config.yaml"
start_profiler "$profiler" -collection-agent "${url#http://}" -disable-tls -samples-per-second $hertz -reporter-interval 2s
check "the profiler samples" wait_for grep -q 'Attached tracer program' "$profiler_log"
start_programs
# It reads a program before it takes samples of it.
# shellcheck disable=SC2086 # a list
check "there are samples of each program" wait_for profiled seen $cpu $program_names
measure_programs "$client_seconds"
check "the samples have arrived" wait_for has_arrived
check_nothing_refused # before it ends: its last request may be cut off
kill -INT "$profiler_pid"
wait "$profiler_pid"

# ---- types, labels, totals ----
check_stored "types: CPU time beside the count" types $cpu process_cpu:samples:count:cpu:nanoseconds:delta
check "CPU time is what the kernel says, within 5 %" profiled used $cpu "$work/used"

# ---- names ----
# Programs by their build-id or, without one, by the hash; stripped ones by their debug information alone.
for name in w_pie w_nopie w_noid w_noid_nopie; do
	check "$name: uploaded by its own id" "$WICK" debuginfo upload "$work/bin/$name" --url "$url"
done
for name in w_strip_pie w_strip_nopie; do
	check "$name: its debug file is uploaded by its build-id" "$WICK" debuginfo upload "$work/$name.debug" --url "$url"
done
check "w_strip_noid: its debug file is uploaded by its hash" "$WICK" debuginfo upload "$work/w_strip_noid.debug" --url "$url" --build-id "$(seen_id w_strip_noid)"
for name in $native; do
	case $name in w_go*) prefix=main\\. ;; *) prefix= ;; esac
	check "$name: at least 97 % of the samples have names" wait_for profiled named $cpu 97 "$name"
	check_stored "$name: heavy has 70 %" split "$cpu{service_name=\"unknown_service:$name\"}" "^${prefix}heavy\$" "^${prefix}light\$"
done
check_stored "labels" above "$cpu{service_name=\"unknown_service:w_pie\", process_executable_name=\"w_pie\", process_executable_path=\"$work/bin/w_pie\", thread_name=\"w_pie\"}" '^heavy$' 0
check "Python: functions, files, lines and kind" profiled frames $cpu w_python3 4 tests/clients/python/work.py spin:10-13 heavy:16-17 light:20-21 work:29-35 main:38-43 '<module>'
check "JavaScript: functions, files, lines and kind" profiled frames $cpu w_node 3 tests/clients/nodejs/work.mjs spin:4-8 heavy:9-11 light:12-14
for name in w_python3 w_node; do check_stored "$name: heavy has 70 %" split "$(profiled selector $cpu "$name")" '^heavy$' '^light$'; done
# shellcheck disable=SC2086
profiled table $cpu "named, %" $program_names
check "the profiler's log has no failure of a call" sh -c "! grep -E 'Request failed|Unimplemented' '$profiler_log'"
finish
