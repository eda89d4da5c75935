#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Other tools' formats: how fast each is decoded, in MB (10^6 bytes) a second of one thread's CPU time, beside `go tool pprof`, `perf script` and
# speedscope's importer on the same files; what it takes to turn a large pprof into Firefox JSON; and what the server takes of profiles as
# each kind of client sends them (aim: 40 MB/s of a core, 10 times `go tool pprof`). Options: --size MB (default: 100).
. bench/lib.inc
size=100
[ "${1:-}" = --size ] && size=$2

# SECONDS MB COMMAND...: user + system seconds, and peak resident MB, of a command; its output is dropped.
timed() {
	env time -f '%U %S %e %M' -o "$work/time" "$@" >/dev/null 2>"$work/errors" || {
		tail -n 3 "$work/errors"
		return 1
	}
	tail -n 1 "$work/time" >"$work/last"
}
rate() { # FILE: MB/s by CPU time, seconds of the wall clock, peak MB of the last command
	awk -v bytes="$(stat -c %s "$1")" '{ cpu = $1 + $2; printf "%8.1f MB/s   %6.2f s CPU   %6.2f s   peak %7.1f MB\n", bytes / 1e6 / (cpu ? cpu : 0.01), cpu, $3, $4 / 1024 }' "$work/last"
}
row() { printf '  %-13s %-34s ' "$1" "$2"; }

for format in pprof folded perf-script cpuprofile speedscope chrome-trace; do
	"$O/bench/interop_input" "$format" "$size" >"$work/in.$format" || exit 1
done
echo "inputs of $size MB; the same profile but for what the formats cannot hold"
for format in pprof folded perf-script cpuprofile speedscope chrome-trace; do
	row "$format" "wick, decoder alone"
	"$O/bench/pprof_decode" "$work/in.$format" 3 | sed -n 's/^decode: */   /p'
	row "" "wick convert to pprof, whole"
	timed "$WICK" convert "$work/in.$format" -q -o "$work/out.pb" && rate "$work/in.$format"
done

# Google's tool takes a minute and gigabytes for 100 MB: a tenth of it tells as much.
if command -v go >/dev/null; then
	"$O/bench/interop_input" pprof $(((size + 9) / 10)) >"$work/small.pb"
	row pprof "go tool pprof -proto, a tenth"
	PPROF_BINARY_PATH=/nonexistent timed go tool pprof -symbolize=none -proto -output "$work/go.pb" "$work/small.pb" && rate "$work/small.pb"
	row "" "wick convert, the same tenth"
	timed "$WICK" convert "$work/small.pb" -q -o "$work/out.pb" && rate "$work/small.pb"
else
	echo "  go tool pprof: not installed"
fi

# A recording of this machine: its size is what it is.
if command -v perf >/dev/null && [ "$(id -u)" -eq 0 ]; then
	"$O/programs/workload" 30 >/dev/null 2>&1 &
	pids="$pids $!"
	if perf record -q -a -g -F 4000 -o "$work/perf.data" sleep 8 >/dev/null 2>&1 && perf script -i "$work/perf.data" >"$work/perf.txt" 2>/dev/null; then
		echo "a recording of this machine: $(stat -c %s "$work/perf.data") bytes, $(stat -c %s "$work/perf.txt") as text"
		row perf.data "perf script"
		timed perf script -i "$work/perf.data" && rate "$work/perf.data"
		if "$WICK" convert --help | grep -q 'perf\.data'; then
			row "" "wick convert to pprof, whole"
			timed "$WICK" convert "$work/perf.data" -q -o "$work/out.pb" && rate "$work/perf.data"
		fi
		row perf-script "wick convert of its text"
		timed "$WICK" convert "$work/perf.txt" -q -o "$work/out.pb" && rate "$work/perf.txt"
	else
		echo "  perf script: perf cannot record here"
	fi
else
	echo "  perf script: not installed, or not root"
fi

# It runs in a browser and says itself how long an import took.
if [ -x "${WICK_CHROMIUM:-/usr/bin/chromium}" ] && [ -d tests/node_modules/speedscope ]; then
	echo "speedscope's importer, in a browser"
	for format in folded perf-script cpuprofile speedscope chrome-trace; do cp "$work/in.$format" "$work/in.$format.json"; done
	node bench/interop_speedscope.mjs "$work/in.folded" "$work/in.perf-script" "$work/in.cpuprofile.json" "$work/in.speedscope.json" "$work/in.chrome-trace.json"
else
	echo "  speedscope's importer: needs chromium, and \`npm ci --ignore-scripts\` in tests/"
fi

echo "a pprof of $size MB to Firefox JSON (aim: 5 s, 3 times its size in memory)"
row pprof "wick convert to firefox"
timed "$WICK" convert "$work/in.pprof" -q -o "$work/out.firefox.json" && rate "$work/in.pprof"

echo "a server takes profiles, each stored and synced before the answer"
start_server
"$O/bench/ingest" "$url" "$server_pid" endpoints
printf '  server peak %s MB\n' "$(peak_of "$server_pid")"
