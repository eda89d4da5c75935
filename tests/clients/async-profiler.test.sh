#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# async-profiler of several versions, and JDK Flight Recorder of several JDKs: their recordings, uploaded, are stored as Pyroscope's own parser reads them;
# async-profiler's OTLP and what its converter makes of a recording are stored with the same split.
. tests/clients/clients.inc
. tests/clients/java/java.inc
client_go jfr_oracle 1.25
oracle=$program
java_compile ''
client_server
seconds=$(if_full 5 2)
# NAME JAVA OPTION...: runs the program.
run_java() {
	run_name=$1 run_java=$2
	shift 2
	check "$run_name: the program comes to its end" sh -c 'out=$1; shift; "$@" </dev/null >"$out" 2>&1 || { tail -n 20 "$out"; exit 1; }' sh "$work/$run_name.log" \
		"$run_java" "$@" -cp "$classes" Work "$seconds"
}
# NAME TYPE...: the recording has these types at least, and is stored as Pyroscope reads it.
compared() {
	compared_name=$1
	shift
	if compared_output=$(JFR_TYPES="$*" node tests/clients/jfr_compare.mjs "$url" "$oracle" "$compared_name" "$work/$compared_name.jfr" 2>&1); then
		pass "$compared_output"
	else
		fail "$compared_name" "$compared_output"
	fi
}
cpu=process_cpu:cpu:nanoseconds:cpu:nanoseconds wall=wall:wall:nanoseconds:wall:nanoseconds
tlab=memory:alloc_in_new_tlab_bytes:bytes:space:bytes lock=mutex:delay:nanoseconds:mutex:count park=block:delay:nanoseconds:block:count
java_of 17 || {
	skip "async-profiler" "$why"
	finish
}
profiled() { # VERSION SHA256: all that this version can
	java_profiler "$1" "$2"
	for mode in itimer cpu wall mixed live; do
		name=ap-$1-$mode
		case $mode in
		itimer) options=event=itimer,interval=5ms wanted=$cpu ;;
		cpu) options=event=cpu,interval=5ms wanted=$cpu ;;
		wall) options=event=wall,interval=10ms,alloc=100k,lock=1us wanted="$wall $cpu $tlab $lock $park" ;;
		mixed) options=event=itimer,interval=5ms,alloc=64k,lock=1us wanted="$cpu $tlab $lock $park" ;;
		live) options=event=itimer,interval=5ms,alloc=64k,live wanted="$cpu memory:live:count:objects:count" ;;
		esac
		run_java "$name" "$java" "-agentpath:$agent=start,$options,jfr,file=$work/$name.jfr"
		# shellcheck disable=SC2086
		compared "$name" $wanted
	done
}
profiled 2.9 6c4e993c28cf2882964cac82a0f96e81a325840043884526565017b2f62c5ba4
profiled 3.0 8f798860049d01f4a2f853596d28c85d2983f0c098f165a32909b7da9c74209f
profiled 4.6 a5d3d9f4582c2033fa9db518046e73ef97219801f3e7542b82e3e09261ebe493
name=ap-4.6-nativemem
run_java "$name" "$java" "-agentpath:$agent=start,nativemem=1k,jfr,file=$work/$name.jfr"
compared "$name" memory:malloc_bytes:bytes::
check_stored "ap-4.6-itimer: heavy has 70 %" pyroscope $cpu '{service_name="ap-4.6-itimer"}' '^Work\.heavy$' '^Work\.light$'

# ---- OTLP, and the converter -----------------------------------------------------------------------------------------------------------
post() { curl -sSf -o /dev/null -X POST -H 'Content-Type: application/x-protobuf' --data-binary "@$1" "$url$2"; }
heavy='(^|[./])Work\.heavy$' light='(^|[./])Work\.light$'
run_java otlp "$java" "-agentpath:$agent=start,event=itimer,interval=5ms,otlp,file=$work/agent.otlp"
check "async-profiler's OTLP is accepted" post "$work/agent.otlp" /v1development/profiles
check_stored "async-profiler's OTLP: heavy has 70 %" split itimer:itimer:count:itimer:ns:delta "$heavy" "$light"
client_maven tools.profiler:jfr-converter:4.5 d8a5452b26adb11a2a0abf0c53799a6fd60dbccb0647efa5a734e3c46ced3df4
for format in otlp pb.gz; do
	check "the converter makes $format" "$java" -jar "$file" --cpu -o "$format" "$work/ap-4.6-itimer.jfr" "$work/converted.$format"
done
check "the converter's OTLP is accepted" post "$work/converted.otlp" /v1development/profiles
check_stored "the converter's OTLP: heavy has 70 %" split process_cpu:cpu:count:cpu:nanoseconds:delta "$heavy" "$light"
check "the converter's pprof is accepted" post "$work/converted.pb.gz" '/ingest?name=converted&format=pprof'
check_stored "the converter's pprof: heavy has 70 %" split 'process_cpu{service_name="converted"}' "$heavy" "$light"

# ---- JDK Flight Recorder ---------------------------------------------------------------------------------------------------------------
for version in 11 17 21 25; do
	name=jdk-$version
	if ! java_of "$version"; then
		skip "$name" "$why"
		continue
	fi
	home=$(dirname "$(dirname "$(readlink -f "$java")")")
	# All locks and parked threads, however short, and allocations of both kinds.
	sed -e 's,\(<setting name="threshold"[^>]*>\)[^<]*,\10 ns,' -e 's,control="[a-z-]*",,' \
		-e 's,<event name="jdk.ObjectAllocation.*>,&<setting name="enabled">true</setting><setting name="stackTrace">true</setting>,' \
		"$home/lib/jfr/profile.jfc" >"$work/$name.jfc"
	run_java "$name" "$java" "-XX:StartFlightRecording=filename=$work/$name.jfr,settings=$work/$name.jfc"
	compared "$name" $cpu $lock $park
done
check_nothing_refused
finish
