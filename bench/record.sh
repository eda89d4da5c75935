#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Recording one program: wick record, the same without privileges, and perf record --call-graph dwarf with perf script behind it, all of the same running program without frame pointers, at the same rate, for
# WICK_BENCH_SECONDS (10) until Ctrl-C. Columns: samples; how many that is of those
# that the program's CPU time stands for, from the profiler's start on (which takes it a part of a second); the share whose stack reaches _start or clone, by one oracle for all (tests/complete.mjs); samples lost by the profiler's own account; how much less the
# program got done with a second of its CPU time than alone; CPU time of the profiler itself, from its start to a file that a viewer opens; size of that file, and of what was written on the way; seconds from
# Ctrl-C to that file. perf aborts now and then while BPF programs are loaded, by anybody on the machine: it is tried three times.
. bench/lib.inc
seconds=${WICK_BENCH_SECONDS:-10}
chmod 777 "$work"
program=$work/wick-bench-load
cp "$O/programs/deep" "$program"
cp "$WICK" "$work/wick"
chmod 755 "$work/wick" "$program"
nobody() { setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups --inh-caps=-all env HOME="$work" "$@"; }
# Units of work in a second of CPU time, of a run that is timed into $work/program.time.
speed() { awk -v u="$(cat "$work/units")" 'END { printf "%.2f", u / ($1 + $2) }' "$work/program.time"; }
start_program() {
	launch nobody /usr/bin/time -o "$work/program.time" -f '%U %S' "$program" $((seconds + 3)) 2 >"$work/units"
	runner=$!
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		target=$(pgrep -x wick-bench-load | tail -n 1)
		[ -n "$target" ] && break
		sleep 0.1
	done
	pids="$pids $target"
}
since() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }'; }
# FINISH COMMAND...: the profiler beside the program, Ctrl-C after a while, then FINISH; sets cpu, took. Fails if either does.
beside() {
	finish=$1
	shift
	start_program
	began=$(cpu_of "$target")
	launch /usr/bin/time -o "$work/time" -f '%U %S' "$@" -p "$target" >/dev/null 2>"$work/log"
	timer=$!
	sleep "$seconds"
	used=$(awk -v a="$(cpu_of "$target")" -v b="$began" 'BEGIN { print a - b }')
	interrupted=$(date +%s.%N)
	# The innermost: setpriv and env become what they start.
	profiler=$(pgrep -P "$timer" | head -n 1)
	[ -z "$profiler" ] || kill -INT "$profiler"
	wait "$timer"
	cpu=$(tail -n 1 "$work/time" | awk '{ print $1 + $2 }')
	[ -n "$profiler" ] && $finish # perf ends by the signal that it got, also when all is well
	status=$?
	took=$(since "$interrupted")
	wait "$runner"
	return $status
}
row() { # NAME SAMPLES COMPLETE LOST FILE BETWEEN_BYTES; hz, used
	seen=$(echo "$2" | tr -d , | awk -v u="$used" -v hz="$hz" '{ printf "%.0f%%", 100 * $1 / (u * hz) }')
	printf '%-28s %8s %6s %10s %6s %9s %7s %9s %9s %8s\n' "$1" "$2" "$seen" "$3" "$4" "$(awk -v a="$alone" -v b="$(speed)" 'BEGIN { printf "%.1f%%", (a - b) * 100 / a }')" "$cpu" \
		"$(($(stat -c %s "$5") / 1000))" "$(($6 / 1000))" "$took"
}
is_written() { test -s "$work/out.firefox.json"; }
script() {
	/usr/bin/time -o "$work/script.time" -f '%U %S' perf script -i "$work/perf.data" -F comm,pid,tid,time,event,ip,sym,dso >"$work/perf.script" 2>"$work/script.log" || return 1
	cpu=$(tail -n 1 "$work/script.time" | awk -v a="$cpu" '{ printf "%.2f", a + $1 + $2 }')
}
wick_row() { # NAME COMMAND...
	name=$1
	shift
	if beside is_written "$@"; then
		"$WICK" convert "$work/out.firefox.json" -o "$work/out.folded" 2>/dev/null
		read -r _ _ percent <<-END
			$(node tests/complete.mjs folded "$work/out.folded" --strict | head -n 1)
		END
		row "$name" "$(sed -n 's/.*wick record: \([0-9,]*\) samples in.*/\1/p' "$work/log")" "$percent%" "$(awk '/counts_full:/ { n = $2 } END { print n + 0 }' "$work/log")" "$work/out.firefox.json" 0
	else
		echo "$name: $(tail -n 1 "$work/log")"
	fi
	rm -f "$work/out.firefox.json"
}
perf_row() { # NAME HZ
	for _ in 1 2 3; do
		rm -f "$work/perf.data"
		beside script perf record -q -e cpu-clock -F "$2" --call-graph dwarf -N -B -o "$work/perf.data" || continue
		read -r samples _ percent <<-END
			$(node tests/complete.mjs perf "$work/perf.script" --strict | head -n 1)
		END
		lost=$(perf report -i "$work/perf.data" --stats 2>/dev/null | awk '/LOST_SAMPLES|LOST events/ { n += $NF } END { print n + 0 }')
		row "$1" "$samples" "$percent%" "$lost" "$work/perf.script" "$(stat -c %s "$work/perf.data")"
		return
	done
	echo "$1: $(tail -n 1 "$work/log" | cut -c 1-100) (three times)"
}
start_program
wait "$runner"
alone=$(speed)
printf '%-28s %8s %6s %10s %6s %9s %7s %9s %9s %8s\n' "profiler, ${seconds} s" samples seen complete lost slowdown "CPU s" "file kB" "way kB" "to open s"
for hz in 99 999; do
	wick_row "wick record, $hz Hz" "$WICK" record -F $hz -o "$work/out.firefox.json"
	wick_row "... without privileges" setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups --inh-caps=-all env HOME="$work" "$work/wick" record -F $hz -o "$work/out.firefox.json"
	perf_row "perf record + script, $hz Hz" $hz
done
