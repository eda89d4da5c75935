#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pyroscope's Java agent, with labels of scopes, allocations and locks.
. tests/clients/clients.inc
. tests/clients/java/java.inc
client_maven io.pyroscope:agent:2.9.2 ad738199a90734f7b8392bae1ab892027d411acb953ef1f00cd6e8e7c669ff8f
jar=$file
java_compile "$jar"
java_of 17 || {
	skip "the agent" "$why"
	finish
}
client_server
cpu=process_cpu:cpu:nanoseconds:cpu:nanoseconds
export PYROSCOPE_SERVER_ADDRESS="$url" PYROSCOPE_FORMAT=jfr PYROSCOPE_UPLOAD_INTERVAL=5s PYROSCOPE_PROFILING_INTERVAL=5ms PYROSCOPE_LABELS=pool=a PYROSCOPE_LOG_LEVEL=debug \
	PYROSCOPE_PROFILER_ALLOC=64k PYROSCOPE_PROFILER_LOCK=1us PYROSCOPE_ALLOC_LIVE=true
# NAME EVENT: the program under the agent. When its work is done, it waits to be killed, so that the agent sends the rest.
run_agent() {
	PYROSCOPE_APPLICATION_NAME=shop.$1 PYROSCOPE_PROFILER_EVENT=$2 launch "$java" "-javaagent:$jar" -cp "$classes:$jar" Labeled "$client_seconds" </dev/null >"$work/$1.log" 2>&1
	agent_pid=$!
	check "$1: the work is done" wait_for grep -q '^cpu_ns' "$work/$1.log"
}
end_agent() {
	kill "$agent_pid"
	wait "$agent_pid"
}

run_agent itimer itimer
# The agent does not sample while it writes what it has sampled, which takes the longer the busier the machine is.
check_stored "CPU time: at least 75 % of the program's" total "$cpu:delta{service_name=\"shop.itimer\"}" "$(workload_ns "$work/itimer.log" cpu_ns)" 25
check_stored "heavy has 70 %" split "$cpu:delta{service_name=\"shop.itimer\"}" '^Work\.heavy$' '^Work\.light$'
end_agent
check_stored "series of the scopes, and the rest" above "$cpu:delta{service_name=\"shop.itimer\", endpoint=\"/heavy\", http_route=\"/h x\", pool=\"a\", jfr_event=\"itimer\", pyroscope_spy=\"javaspy\"}" '^Work\.heavy$' 1000000000
check_stored "light is not in the scope of heavy" names "$cpu:delta{service_name=\"shop.itimer\", endpoint=\"/heavy\"}" '^Work\.heavy$' '!^Work\.light$' '^Labeled\$\$Lambda_\.run$' '!Lambda\$[0-9]'
check_stored "nor heavy in that of light" names "$cpu:delta{service_name=\"shop.itimer\", endpoint=\"/light\"}" '^Work\.light$' '!^Work\.heavy$'
check_stored "three series of CPU time" series "$cpu:delta{service_name=\"shop.itimer\"}" 3
check_stored "types" types "$cpu:delta" memory:alloc_in_new_tlab_objects:count:space:bytes memory:alloc_in_new_tlab_bytes:bytes:space:bytes \
	memory:live:count:objects:count \
	mutex:contentions:count:mutex:count mutex:delay:nanoseconds:mutex:count block:contentions:count:block:count block:delay:nanoseconds:block:count
check_stored "allocations by who made them" names 'memory:alloc_in_new_tlab_bytes:bytes:space:bytes{service_name="shop.itimer"}' '^Work\.allocate$'
check_stored "locks by who waited" names 'mutex:delay:nanoseconds:mutex:count{service_name="shop.itimer"}' '^Work\.takeMonitor$'
check_stored "no label for each thread" labels thread_name= thread_id= endpoint=/heavy endpoint=/light
check_stored "by Pyroscope's API: heavy has 70 %" pyroscope "$cpu" '{service_name="shop.itimer"}' '^Work\.heavy$' '^Work\.light$'

run_agent wall wall
check_stored "wall-clock samples: heavy has 70 % of the CPU time in them" split "$cpu:delta{service_name=\"shop.wall\"}" '^Work\.heavy$' '^Work\.light$'
end_agent
check_stored "and the type of wall-clock time" above 'wall:wall:nanoseconds:wall:nanoseconds:delta{service_name="shop.wall", jfr_event="wall"}' '^Work\.main$|^Labeled\.main$' 1000000000
check_nothing_refused
finish
