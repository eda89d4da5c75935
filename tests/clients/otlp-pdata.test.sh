#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The OpenTelemetry Collector's exporters, from its modules: gRPC, HTTP with protobuf, HTTP with JSON. What they send is known to the nanosecond.
. tests/clients/clients.inc
client_go otlp-pdata 1.26
client_server
for form in grpc proto json; do
	expect "$form: the exporter sends" 0 '^sent$' "$program" "${url#http://}" "$form"
	selector="process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{service_name=\"shop.$form\", host_name=\"h1\", thread_name=\"worker\"}"
	check_stored "$form: the total" total "$selector" 10000000000 0
	check_stored "$form: heavy has 70 %" split "$selector" '^heavy$' '^light$'
	check_stored "$form: names" names "$selector" '^main$' '^heavy$' '^light$'
	check_stored "$form: by Pyroscope's API" pyroscope process_cpu:cpu:nanoseconds:cpu:nanoseconds "{service_name=\"shop.$form\"}" '^heavy$' '^light$'
done
check_stored "one type" types process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta
check_nothing_refused
finish
