#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `wick agent` and OpenTelemetry's profiler at the same time, sampling programs of interpreters and virtual machines that nobody prepared
# (tests/programs/ninety/): the shares of samples that show the functions of these programs, that nine tenths of them are in the one that works nine
# times as long, and what a sample costs either.
. tests/clients/clients.inc
. tests/clients/profilers.inc
need_sampling runtimes
profiler_build otel-profiler otel-profiler 1.26
otel=$profiler
hertz=97
cpu=process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta
ninety=$PWD/tests/programs/ninety
printf "symbols: {host_files: true, debuginfod: {urls: ''}}\n" >"$work/here.yaml"

mkdir "$work/bin"
start_wick_agent here
start_otel here

program_names= program_pids=
# PROGRAM FILE: as the process w_PROGRAM, since others may run the same program. The profilers know some runtimes by the file's name.
ninety_runs() {
	runs_program=$(command -v "$1") || {
		skip "$1" "it is not installed"
		return
	}
	ln -s "$(readlink -f "$runs_program")" "$work/bin/w_$1"
	launch nice -n 5 "$work/bin/w_$1" "$ninety/$2" 100000 >"$work/w_$1.log" 2>&1
	program_names="$program_names w_$1" program_pids="$program_pids $!"
}
ninety_runs python3 ninety.py
ninety_runs node ninety.js
ninety_runs java Ninety.java
ninety_runs php ninety.php
ninety_runs perl ninety.pl
ninety_runs ruby ninety.rb
ninety_runs lua5.4 ninety.lua
ninety_runs luajit ninety.lua
# Erlang, by a copy of its program as the process w_beam.smp: its threads have names of their own.
erlang_runs() {
	erlang_root=$(erl -noshell -eval 'io:format("~s", [code:root_dir()]), halt().' 2>"$work/erl.log") &&
		(cd "$work/bin" && erlc "$ninety/ninety.erl") >>"$work/erl.log" 2>&1 || {
		skip "Erlang" "$(tail -n 1 "$work/erl.log")"
		return
	}
	cp -r "$erlang_root"/erts-*/bin "$work/erts" && cp "$work/erts/beam.smp" "$work/erts/w_beam.smp"
	launch env ROOTDIR="$erlang_root" BINDIR="$work/erts" EMU=w_beam PROGNAME=erl nice -n 5 "$work/erts/erlexec" +sbwt none -noshell \
		-pa "$work/bin" -run ninety main 100000 >"$work/w_beam.smp.log" 2>&1
	program_names="$program_names w_beam.smp" program_pids="$program_pids $!"
}
erlang_runs

# PID: "NS RUNS" of its BPF programs so far, each once.
bpf_runs() {
	cat "/proc/$1/fdinfo/"* 2>/dev/null | awk '/^prog_id:/ { id = $2 } /^run_time_ns:/ { ns[id] = $2 } /^run_cnt:/ { runs[id] = $2 }
		END { for (id in ns) { all += ns[id]; if (runs[id] > count) count = runs[id] } print all + 0, count + 0 }'
}
stats=$(sysctl -n kernel.bpf_stats_enabled)
sysctl -qw kernel.bpf_stats_enabled=1
for of in wick otel; do
	eval "pid=\$${of}_pid"
	eval "runs_$of='$(bpf_runs "$pid") $(cpu_ms "$pid")'"
done
measure_programs "$client_seconds"
for of in wick otel; do
	eval "pid=\$${of}_pid before=\$runs_$of"
	echo "$before $(bpf_runs "$pid") $(cpu_ms "$pid") $(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status")" >"$work/cost-$of"
done
sysctl -qw "kernel.bpf_stats_enabled=$stats"
for of in wick otel; do
	eval "url=\$url_$of"
	check "$of: the samples have arrived" wait_for has_arrived
done
kill "$wick_pid" "$otel_pid"
wait "$wick_pid" "$otel_pid"
for of in wick otel; do
	eval "url=\$url_$of"
	profiled ninety $cpu "$work/used" >"$work/ninety-$of"
	awk -v of="$of" '{ printf "%s, %s: %s samples, %s %% with functions, %s %% of these in hot()\n", of, $1, $2, $3, $4 }' "$work/ninety-$of"
	awk -v of="$of" '{ printf "%s: %.1f us a sample in the kernel (%d runs), %d ms of CPU time outside of it, %.1f MiB at most\n", of, $5 - $2 ? ($4 - $1) / ($5 - $2) / 1000 : 0, $5 - $2, $6 - $3, $7 / 1024 }' "$work/cost-$of"
done
for name in $program_names; do
	read -r _ samples named hot <<LINE
$(grep "^$name " "$work/ninety-wick")
LINE
	read -r other want <<LINE
$(awk -v name="$name" '$1 == name { print $3, $4 }' "$work/ninety-otel")
LINE
	# Compilers may make one function faster than the other.
	case $name in w_node | w_java) ;; *) want=90 ;; esac
	line="$name: $named % of $samples samples show functions ($other % of OpenTelemetry's), $hot % of these hot() ($want asked for)"
	# Five standard errors.
	if awk -v n="$samples" -v named="$named" -v other="$other" -v hot="$hot" -v want="$want" 'BEGIN { by = n ? 500 * sqrt(0.09 / n) : 0; exit !(n >= 300 && named >= other - 1 && hot > want - by && hot < want + by) }'; then
		pass "$line"
	else
		fail "$line" "$(head -n 5 "$work/$name.log")"
	fi
done
finish
