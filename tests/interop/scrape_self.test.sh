#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One server scrapes another's heap and CPU profiles, as it does those of Go programs.
. tests/lib.inc
if nm "$WICK" 2>/dev/null | grep -q '__asan_init'; then
	skip "scraping a server's heap" "AddressSanitizer has an allocator of its own"
	finish
fi
start_server
target=$url
node -e 'process.stdout.write(Array.from({ length: 20000 }, (_, i) => "main;f" + (i % 100) + ";g" + i + " " + (i + 1) + "\n").join(""))' >"$work/in.folded"
(while :; do
	curl -s -o "$work/svg" --data-binary @"$work/in.folded" "$target/api/v1/convert?to=svg"
	sleep 0.1
done) &
load=$!
pids="$pids $load"
cat >"$work/config.yml" <<EOF2
scrape_configs:
  - job_name: wick
    scrape_interval: 2s
    scrape_timeout: 60s
    static_configs:
      - targets: ['${target#http://}']
    profiling_config:
      pprof_config:
        memory: {}
        process_cpu: {seconds: 1}
        mutex: {enabled: false}
        block: {enabled: false}
        goroutine: {enabled: false}
EOF2
launch "$WICK" server --data "$work/data2" --listen 127.0.0.1:0 --config "$work/config.yml" 2>"$work/server2.log"
scraper=$!
check "a server that scrapes starts" wait_url "$work/server2.log" "$scraper"
wait_url "$work/server2.log" "$scraper"
# TYPE FUNCTION: it is in what has been stored, with more than nothing.
stores() {
	"$WICK" query --url "$url" --format json -n 0 --from now-1h "$1{job=\"wick\"}" >"$work/answer.json" 2>"$work/query.err" &&
		[ "$(total_of "$work/answer.json" "$2")" -gt 0 ] && return
	cat "$work/query.err"
	return 1
}
check "what is allocated between two scrapes" wait_for stores memory:alloc_space:bytes:space:bytes api_convert
check "and how many" wait_for stores memory:alloc_objects:count:space:bytes api_convert
# Of the main thread, or of one that is converting at that moment.
in_use() { stores memory:inuse_space:bytes:space:bytes main || stores memory:inuse_space:bytes:space:bytes enter; }
check "what is in use" wait_for in_use
check "its CPU time" wait_for stores process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta api_convert
check "all targets are up" wait_for sh -c 'curl -s "$1/metrics" | grep -qx "wick_scrape_targets_down 0"' sh "$url"
check "none has started anew" sh -c 'curl -s "$1/api/v1/targets" | node -e "process.stdin.on(\"data\", (d) => process.exit(JSON.parse(d).targets.some((t) => t.restarts > 0) ? 1 : 0))"' sh "$url"
kill "$load"
finish
