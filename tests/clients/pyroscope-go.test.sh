#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pyroscope's SDK for Go, which sends all its types to /ingest; and godeltaprof, which is scraped: the same types by either way.
. tests/clients/clients.inc
types='block:contentions:count:contentions:count block:delay:nanoseconds:contentions:count goroutine:goroutine:count:goroutine:count
memory:alloc_objects:count:space:bytes memory:alloc_space:bytes:space:bytes memory:inuse_objects:count:space:bytes memory:inuse_space:bytes:space:bytes
mutex:contentions:count:contentions:count mutex:delay:nanoseconds:contentions:count
process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta process_cpu:samples:count:cpu:nanoseconds:delta'
client_go pyroscope-go 1.25
client_server
check "pushed: the program comes to its end" sh -c '"$1" -push "$2" -seconds "$3" >"$4" 2>&1' sh "$program" "$url" "$client_seconds" "$work/push.log"
service='{service_name="shop.go", region="eu"'
check_workload "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta$service}" "$work/push.log" '^main\.heavy$' '^main\.light$'
check_stored "pushed: the label of the code that ran" split "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta$service, vehicle=\"bike\"}" '^main\.heavy$' '^main\.light$'
check_stored "pushed: types and units" types $types
check_stored "pushed: allocations" above "memory:alloc_space:bytes:space:bytes$service}" '^main\.allocate$' 1000000
check_stored "pushed: sizes of objects make no series" series "memory:alloc_space:bytes:space:bytes$service}" 1
check_stored "pushed: contention" above "mutex:delay:nanoseconds:contentions:count$service}" '^main\.contend$' 1000000
check_stored "pushed: labels" labels region=eu vehicle=bike pyroscope_spy=gospy bytes=
check_stored "pushed: by Pyroscope's API" pyroscope process_cpu:cpu:nanoseconds:cpu:nanoseconds '{service_name="shop.go"}' '^main\.heavy$' '^main\.light$'
check "pushed: the client has nothing to complain of" sh -c '! grep -iE "error|fail" "$1"' sh "$work/push.log"
check_nothing_refused
stop_server

# Scraped, by a server of its own: godeltaprof in place of Go's own profiles.
launch "$program" -seconds 100000 >"$work/address"
check "scraped: the program listens" wait_for test -s "$work/address"
cat >"$work/scrape.yml" <<CONFIG
scrape_configs:
  - job_name: shop
    scrape_interval: 2s
    scrape_timeout: 60s
    static_configs: [{targets: ['$(cat "$work/address")']}]
    profiling_config:
      pprof_config:
        process_cpu: {seconds: 1}
        memory: {enabled: false}
        mutex: {enabled: false}
        block: {enabled: false}
        godeltaprof_memory: {enabled: true}
        godeltaprof_mutex: {enabled: true}
        godeltaprof_block: {enabled: true}
CONFIG
rm -rf "$work/data"
client_server --config "$work/scrape.yml"
service='{job="shop"'
check_stored "scraped: contention" above "mutex:delay:nanoseconds:contentions:count$service}" '^main\.contend$' 1000000
check_stored "scraped: allocations" above "memory:alloc_space:bytes:space:bytes$service}" '^main\.allocate$' 1000000
check_stored "scraped: heavy has 70 %" split "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta$service}" '^main\.heavy$' '^main\.light$'
check_stored "scraped: types are those that are pushed" types $types
check_stored "scraped: sizes of objects make no series" series "memory:alloc_space:bytes:space:bytes$service}" 1
check_stored "scraped: labels" labels vehicle=bike bytes=
check_nothing_refused
finish
