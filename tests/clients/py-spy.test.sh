#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# py-spy: its folded stacks and its speedscope files, sent as Pyroscope's clients send such.
. tests/clients/clients.inc
client_pip python 3.10
client_server
pyspy=$PYTHONPATH/bin/py-spy
now=$(date +%s)
for format in raw speedscope; do
	if ! "$pyspy" record --format "$format" --rate 100 --output "$work/$format" -- "$python" tests/clients/python/work.py "$client_seconds" >"$work/$format.log" 2>&1; then
		if grep -qiE 'permission|ptrace' "$work/$format.log"; then
			skip "py-spy $format" "$(grep -iE 'permission|ptrace' "$work/$format.log" | head -n 1)"
		else
			fail "py-spy records $format" "$(cat "$work/$format.log")"
		fi
		continue
	fi
	case $format in raw) as=folded ;; *) as=$format ;; esac
	check "$format is accepted" curl -sSf --data-binary "@$work/$format" "$url/ingest?name=shop.$format.cpu&format=$as&spyName=pyspy&sampleRate=100&from=$now&until=$(date +%s)"
	case $format in raw) selector="process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{service_name=\"shop.raw\"}" ;; *) selector="{service_name=\"shop.$format\"}" ;; esac
	check_workload "$selector" "$work/$format.log" '^heavy\b' '^light\b' wall_ns
	check_stored "$format: names" names "$selector" '^work\b' '^main\b'
done
check_nothing_refused
finish
