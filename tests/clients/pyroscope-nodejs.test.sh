#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pyroscope's SDK for Node.js: wall-clock time, the CPU time measured beside it, the heap.
. tests/clients/clients.inc
client_npm nodejs
cp tests/clients/nodejs/*.mjs "$work" && ln -s "$modules" "$work/node_modules"
client_server
check "the program comes to its end" sh -c 'DEBUG="pyroscope*" node "$1/pyroscope.mjs" "$2" "$3" >"$1/program.log" 2>&1 || { tail -n 20 "$1/program.log"; exit 1; }' \
	sh "$work" "$url" "$client_seconds"
service='{service_name="shop.node", region="eu"'
check_workload "process_cpu:cpu:nanoseconds:wall:nanoseconds:delta$service}" "$work/program.log" 'heavy' 'light'
check_stored "the label of the code that ran" split "process_cpu:cpu:nanoseconds:wall:nanoseconds:delta$service, vehicle=\"bike\"}" 'heavy' 'light'
check_stored "wall-clock time: heavy has 70 %" split "wall:wall:nanoseconds:wall:nanoseconds:delta$service}" 'heavy' 'light'
check_stored "the heap" above "memory:inuse_space:bytes:inuse_space:bytes$service}" 'allocate' 100000
check_stored "types and units" types memory:inuse_objects:count:inuse_space:bytes memory:inuse_space:bytes:inuse_space:bytes \
	process_cpu:cpu:nanoseconds:wall:nanoseconds:delta wall:samples:count:wall:nanoseconds:delta wall:wall:nanoseconds:wall:nanoseconds:delta
check_stored "labels" labels region=eu vehicle=bike pyroscope_spy=nodespy
check_stored "by Pyroscope's API" pyroscope process_cpu:cpu:nanoseconds:wall:nanoseconds '{service_name="shop.node"}' 'heavy' 'light'
check "the client has nothing to complain of" sh -c '! grep -iE "error|reject" "$1"' sh "$work/program.log"
check_nothing_refused
finish
