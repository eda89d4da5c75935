#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `wick agent`, Parca Agent and OpenTelemetry's profiler at the same time, sampling the same programs, each for a server of its own: the shares of native
# samples with a name. The first two upload what programs have of symbols to servers that open no files; the third uploads nothing, so its server may open those of
# this machine. What is stripped has its names from its dynamic symbols, or none.
. tests/clients/clients.inc
. tests/clients/profilers.inc
need_sampling profilers
profiler_build otel-profiler otel-profiler 1.26
otel=$profiler
profiler_build parca-agent parca-agent 1.25
build_programs
hertz=97
cpu=process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta
printf "symbols: {host_files: false, debuginfod: {urls: ''}}\n" >"$work/apart.yaml"
printf "symbols: {host_files: true, debuginfod: {urls: ''}}\n" >"$work/here.yaml"

start_wick_agent apart
start_otel here
server_for parca apart
start_parca_agent "$url" $hertz
parca_pid=$profiler_pid
check "Parca Agent samples" wait_for grep -q 'Attached tracer program' "$profiler_log"
start_programs
for of in wick otel parca; do
	eval "url=\$url_$of"
	# shellcheck disable=SC2086 # a list
	check "$of: there are samples of each program" wait_for profiled seen $cpu $program_names
done
measure_programs "$client_seconds"
for of in wick otel parca; do
	eval "url=\$url_$of"
	check "$of: the samples have arrived" wait_for has_arrived
done
kill "$wick_pid" "$otel_pid" "$parca_pid"
wait "$wick_pid" "$otel_pid" "$parca_pid"
# Those whose code has symbols in the program, or a table of Go's.
named_programs=
for name in $native; do case $name in w_strip_*) ;; *) named_programs="$named_programs $name" ;; esac done
for of in wick otel parca; do
	eval "url=\$url_$of"
	# shellcheck disable=SC2086
	check "$of: at least 97 % of the samples have names" wait_for profiled named $cpu 97 $named_programs
	check "$of: CPU time is what the kernel says, within 5 %" profiled used $cpu "$work/used"
	# shellcheck disable=SC2086
	profiled table $cpu "$of, named, %" $program_names
done
finish
