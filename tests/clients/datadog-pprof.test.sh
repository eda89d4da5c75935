#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# @datadog/pprof, on which other SDKs for Node.js are built: its files, sent as they are.
. tests/clients/clients.inc
client_npm nodejs
cp tests/clients/nodejs/*.mjs "$work" && ln -s "$modules" "$work/node_modules"
client_server
check "the program comes to its end" sh -c 'node "$1/datadog.mjs" "$2" "$1/wall.pb.gz" "$1/heap.pb.gz" >"$1/program.log" 2>&1' sh "$work" "$client_seconds"
for file in wall heap; do
	check "$file is accepted" curl -sSf --data-binary "@$work/$file.pb.gz" "$url/api/v1/ingest?label=service_name%3Dshop"
	check "$file is accepted by /ingest" curl -sSf --data-binary "@$work/$file.pb.gz" "$url/ingest?name=ingested&format=pprof&spyName=nodespy"
done
for service in shop ingested; do
	selector="{service_name=\"$service\"}"
	check_workload "process_cpu:cpu:nanoseconds:wall:nanoseconds:delta$selector" "$work/program.log" '^heavy$' '^light$'
	check_stored "$service: wall-clock time: heavy has 70 %" split "wall:wall:nanoseconds:wall:nanoseconds:delta$selector" '^heavy$' '^light$'
	check_stored "$service: the heap" above "memory:inuse_space:bytes:inuse_space:bytes$selector" '^allocate$' 100000
done
check_stored "types and units" types memory:inuse_objects:count:inuse_space:bytes memory:inuse_space:bytes:inuse_space:bytes \
	process_cpu:cpu:nanoseconds:wall:nanoseconds:delta wall:sample:count:wall:nanoseconds:delta wall:wall:nanoseconds:wall:nanoseconds:delta
check_nothing_refused
finish
