#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Recordings of Java, uploaded with their labels: what Wick has of them is what Pyroscope's own parser makes of the same bytes. The recordings are those that
# this parser is tested with (async-profiler of several versions and of Pyroscope's build, JDK Flight Recorder, Datadog's, with contexts and spans), and some
# made by hand; recordings of programs that are run here are in async-profiler.test.sh.
. tests/clients/clients.inc
client_go jfr_oracle 1.25
oracle=$program
recordings=$client_cache/go/github.com/grafana/jfr-parser@v0.18.0/parser/testdata
client_server
made() { # NAME JAVASCRIPT: a recording made by hand, and labels
	node --input-type=module -e "
		import { recording, labelsSnapshot } from '$PWD/tests/lib/jfr.mjs';
		import { writeFileSync } from 'node:fs';
		const cpu = (stackTrace, more) => ['jdk.ExecutionSample', { stackTrace, state: 'STATE_RUNNABLE', ...more }];
		const stack = ['a/B\$\$Lambda\$7/0x12.run', 'java/lang/Thread.run'], other = ['jdk/internal/reflect/GeneratedMethodAccessor3.invoke', 'x/Y\$\$EnhancerBySpringCGLIB\$\$1a.f'];
		const [events, contexts, spans] = $2;
		writeFileSync('$work/$1.jfr', recording(events));
		writeFileSync('$work/$1.labels', labelsSnapshot(contexts, spans));"
}
compared() { # NAME RECORDING [LABELS]
	name=$1
	shift
	check_output=$(node tests/clients/jfr_compare.mjs "$url" "$oracle" "$name" "$@" 2>&1) && pass "$check_output" || fail "$name" "$check_output"
}
for recording in "$recordings"/*.jfr.gz; do
	name=$(basename "$recording" .jfr.gz)
	labels=
	for file in "$recordings/$name.labels.pb.gz" "$recordings/$name.labels.gz"; do [ ! -e "$file" ] || labels=$file; done
	compared "$name" "$recording" ${labels:+"$labels"}
done
made contexts "[{ settings: { event: 'itimer' }, events: [cpu(stack, { contextId: 1, spanId: 5, spanName: 7 }), cpu(other, { contextId: 2 }), cpu(stack, { contextId: 3, spanName: 8 }),
	cpu(other, { contextId: 9, traceIdHi: 1, traceIdLo: 2 }), ['jdk.JavaMonitorEnter', { stackTrace: stack, duration: 5, contextId: 1 }]] },
	{ 1: { endpoint: '/x', service_name: 'y', 'http.route': '/a b' }, 2: { endpoint: '', pool: 'a' }, 3: { span_name: 'mine' } }, { 7: 'GET /', 8: 'POST /' }]"
made wall "[{ settings: { event: 'wall' }, events: [['profiler.WallClockSample', { stackTrace: stack, state: 'STATE_RUNNABLE', samples: 3, contextId: 1 }],
	['profiler.WallClockSample', { stackTrace: other, state: 'STATE_SLEEPING', samples: 9 }], cpu(other, { contextId: 1 }), cpu(stack, { state: 'STATE_SLEEPING' }),
	['jdk.ObjectAllocationOutsideTLAB', { stackTrace: stack, allocationSize: 70 }], ['jdk.ThreadPark', { stackTrace: stack, duration: 8 }]] }, { 1: { endpoint: '/x' } }, {}]"
made clock "[{ ticksPerSecond: 2800000000, events: [['jdk.JavaMonitorEnter', { stackTrace: stack, duration: 987654321 }], ['jdk.ThreadPark', { stackTrace: other, duration: 28 }],
	['profiler.LiveObject', { stackTrace: stack }], ['profiler.Malloc', { stackTrace: stack, size: 9 }], ['jdk.ObjectAllocationSample', { stackTrace: other, weight: 11 }],
	['jdk.NativeMethodSample', { stackTrace: other, state: 'STATE_RUNNABLE' }], ['jdk.ThreadPark', { duration: 3 }]] }, {}, {}]"
for name in contexts wall clock; do compared "made-$name" "$work/$name.jfr" "$work/$name.labels"; done
check_nothing_refused
finish
