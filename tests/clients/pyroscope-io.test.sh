#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pyroscope's SDK for Python.
. tests/clients/clients.inc
client_pip python 3.10
client_server
check "the program comes to its end" sh -c '"$1" tests/clients/python/work.py "$2" "$3" >"$4" 2>&1' sh "$python" "$client_seconds" "$url" "$work/program.log"
selector='process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{service_name="shop.python", region="eu"}'
check_workload "$selector" "$work/program.log" '\bheavy$' '\blight$' wall_ns
check_stored "the label of the code that ran" split 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{service_name="shop.python", vehicle="bike"}' '\bheavy$' '\blight$'
check_stored "type and unit" types process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta
check_stored "names" names "$selector" '\bheavy$' '\blight$' '\bwork$' '\bmain$'
check_stored "labels" labels region=eu vehicle=bike
check_stored "by Pyroscope's API" pyroscope process_cpu:cpu:nanoseconds:cpu:nanoseconds '{service_name="shop.python"}' '\bheavy$' '\blight$'
check_nothing_refused
finish
