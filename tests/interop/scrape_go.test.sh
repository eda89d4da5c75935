#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A real Go program with net/http/pprof, scraped: what the server holds is what `go tool pprof` says of two profiles fetched around it.
. tests/network.inc
. tests/lib.inc
if ! uses go; then
	skip "scraping a Go program" "no go command"
	finish
fi
export HOME="$work" PPROF_TMPDIR="$work/pprof" PPROF_BINARY_PATH="$work" GOFLAGS=-mod=mod GO111MODULE=off
[ -z "${GOCACHE:-}" ] && [ -d /root/.cache/go-build ] && export GOCACHE=/root/.cache/go-build
check "the program builds" go build -o "$work/target" tests/interop/scrape_target.go
start_target() { # ADDRESS: sets target_pid and address
	launch "$work/target" "$1" >"$work/address"
	target_pid=$!
	wait_for test -s "$work/address"
	address=$(cat "$work/address")
}
start_target 127.0.0.1:0
cat >"$work/config.yml" <<EOF
scrape_configs:
  - job_name: shop
    scrape_interval: 2s
    scrape_timeout: 60s
    static_configs:
      - targets: ['$address']
        labels: {env: test}
    profiling_config:
      pprof_config:
        process_cpu: {seconds: 1}
EOF
start_server --config "$work/config.yml" || {
	fail "the server starts"
	finish
}
# PROFILE FIELD: of the target, from the API.
of_target() { node -e 'fetch(process.argv[1] + "/api/v1/targets").then((r) => r.json()).then((d) => console.log(d.targets.find((t) => t.profile === process.argv[2])?.[process.argv[3]] ?? ""))' "$url" "$1" "$2"; }
# PROFILE COUNT: so many more scrapes, within two minutes.
wait_scrapes() {
	node -e 'const [, url, profile, more] = process.argv;
		const scrapes = async () => (await (await fetch(url + "/api/v1/targets")).json()).targets.find((t) => t.profile === profile)?.scrapes ?? 0;
		(async () => {
			const before = await scrapes();
			for (let i = 0; i < 600; i++) {
				if (await scrapes() >= before + Number(more)) process.exit(0);
				await new Promise((resolve) => setTimeout(resolve, 200));
			}
			process.exit(1);
		})();' "$url" "$1" "$2"
}
fetch() { curl -s -o "$work/$2" "http://$address/debug/pprof/$1"; }
work_of() { curl -s -o /dev/null "http://$address/work?n=$1"; }
# TYPE FUNCTION: value of it and what it called in the store, summed over everything.
stored() {
	"$WICK" query --url "$url" --format json -n 0 --from now-1h "$1{job=\"shop\", env=\"test\", service_name=\"shop\"}" >"$work/answer.json" 2>"$work/query.err" || cat "$work/query.err"
	total_of "$work/answer.json" "$2"
}
# BEFORE AFTER INDEX FUNCTION: what go tool pprof says of their difference.
difference() { go tool pprof -top -nodecount=100000 -nodefraction=0 -unit="$5" -sample_index="$3" -base="$work/$1" "$work/$2" 2>/dev/null | awk -v f="$4" '$6 == f { sub(/[a-zA-Z]+$/, "", $4); print $4 }'; }

check "counters have a base" wait_scrapes memory 1
wait_scrapes mutex 1
wait_scrapes block 1
fetch allocs allocs.1 && fetch mutex mutex.1 && fetch block block.1
work_of 1000
wait_scrapes memory 1
work_of 500
wait_scrapes memory 1
work_of 700
wait_scrapes memory 2
wait_scrapes mutex 2
wait_scrapes block 2
fetch allocs allocs.2 && fetch mutex mutex.2 && fetch block block.2

same() { # NAME STORED EXPECTED LEAST
	if [ "$2" = "$3" ] && [ "${3:-0}" -ge "$4" ]; then pass "$1 ($2)"; else fail "$1" "stored $2, go tool pprof says '$3', at least $4 expected"; fi
}
same "objects allocated" "$(stored memory:alloc_objects:count:space:bytes main.allocate)" "$(difference allocs.1 allocs.2 alloc_objects main.allocate count)" 2200
same "bytes allocated" "$(stored memory:alloc_space:bytes:space:bytes main.allocate)" "$(difference allocs.1 allocs.2 alloc_space main.allocate B)" 9011200
same "contentions" "$(stored mutex:contentions:count:contentions:count main.unlockContended)" "$(difference mutex.1 mutex.2 contentions main.unlockContended count)" 20
same "blocking events" "$(stored block:contentions:count:contentions:count main.contend.func1)" "$(difference block.1 block.2 contentions main.contend.func1 count)" 20

# Goroutines are no counter: every scrape has the seven, and so have all of them together.
scrapes=$(of_target goroutine scrapes)
"$WICK" query --url "$url" --format json -n 0 --from now-1h 'goroutine:goroutine:count:goroutine:count{job="shop"}' >"$work/answer.json"
parked=$(total_of "$work/answer.json" main.park)
check "seven goroutines, whatever the number of scrapes ($scrapes)" test "$scrapes" -gt 1 -a "$parked" -eq 7
wait_scrapes process_cpu 2
cpu=$(stored process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta main.burn)
check "CPU time of main.burn ($cpu ns)" test "$cpu" -gt 100000000
check "the type names are those of others" sh -c 'curl -s "$1/api/v1/types" | grep -q "\"memory:inuse_space:bytes:space:bytes\""' sh "$url"
# One scrape in the course of time may be late on a busy machine.
check "all targets are up" wait_for sh -c 'curl -s "$1/metrics" | grep -qx "wick_scrape_targets_down 0"' sh "$url"

# A program that is started anew counts from zero: all that it counts is new.
objects=$(stored memory:alloc_objects:count:space:bytes main.allocate)
kill "$target_pid"
wait "$target_pid" 2>/dev/null
: >"$work/address"
start_target "$address"
work_of 300
wait_scrapes memory 3
wait_scrapes memory 1
after=$(stored memory:alloc_objects:count:space:bytes main.allocate)
check "after a restart counters are whole ($objects, then $after)" test "$after" -eq $((objects + 300))
check "the restart is counted" test "$(of_target memory restarts)" -ge 1
finish
