#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pyroscope's crate, which sends by push.v1, and pprof-rs, whose file is sent as it is. Both sample by setitimer, which rounds its 10 ms up to the kernel's
# tick and counts fewer samples than there was time, the more the busier the machine is. So the total of a file is that of the file, by another reader,
# and that of the crate, which shows nobody what it sends, only near getrusage.
. tests/clients/clients.inc
client_cargo pyroscope-rust 1.74 --features sdk
client_server
check "the program comes to its end" sh -c '"$1" "$2" "$3" >"$4" 2>&1' sh "$program" "$client_seconds" "$url" "$work/program.log"
type=process_cpu:cpu:nanoseconds:cpu:nanoseconds
selector="$type:delta{service_name=\"shop.rust\", region=\"eu\"}"
check_stored "the total is near getrusage" total "$selector" "$(workload_ns "$work/program.log" cpu_ns)" 40
check_stored "heavy has 70 %" split "$selector" 'heavy$' 'light$'
check_stored "the label of the code that ran" split "$type:delta{service_name=\"shop.rust\", vehicle=\"bike\"}" 'heavy$' 'light$'
check_stored "type and unit" types "$type:delta"
check_stored "labels" labels region=eu vehicle=bike
check_stored "by Pyroscope's API" pyroscope "$type" '{service_name="shop.rust"}' 'heavy$' 'light$'

client_cargo pyroscope-rust 1.74 --features file
check "pprof-rs: the program comes to its end" sh -c '"$1" "$2" "$3" >"$4" 2>&1' sh "$program" "$client_seconds" "$work/rust.pb" "$work/pprof.log"
check "pprof-rs: accepted" curl -sSf --data-binary "@$work/rust.pb" "$url/api/v1/ingest?label=service_name%3Dpprof-rs"
gzip -k "$work/rust.pb"
in_file=$(node --input-type=module -e 'const { readPprof, total } = await import(`${process.cwd()}/tests/convert/readers.mjs`); const p = readPprof(process.argv[1]); console.log(String(total(p, p.types.indexOf("cpu nanoseconds"))))' "$work/rust.pb.gz")
selector="$type:delta{service_name=\"pprof-rs\"}"
check_stored "pprof-rs: the total is that of the file ($in_file)" total "$selector" "$in_file" 0
check_stored "pprof-rs: heavy has 70 %" split "$selector" 'heavy$' 'light$'
check_stored "pprof-rs: names" names "$selector" 'heavy$' 'light$' 'main$'
check_nothing_refused
finish
