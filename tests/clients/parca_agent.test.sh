#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Parca Agent itself, built from its sources (parca-agent/build.sh), beside a server that has nothing but what the agent sends: programs in C with and without a
# build-id, position-independent and not, stripped with their debug information uploaded, and Go old and new. Each spends 70 % of its time in one
# function and 30 % in another.
. tests/lib.inc
cache=${WICK_CLIENTS_CACHE:-${HOME:-/root}/.cache/wick/clients}
seconds=$(if_full 40 20)
can_sample || {
	skip parca_agent "$no_sampling"
	finish
}
new_go=
for folder in $(printf '%s' "$PATH" | tr ':' '\n') /usr/local/go/bin; do
	version=$("$folder/go" version 2>/dev/null | sed -nE 's/.*go([0-9]+\.[0-9]+).*/\1/p')
	if [ -n "$version" ] && printf '1.25\n%s\n' "$version" | sort -V -C; then new_go=$folder/go; fi
done
[ -n "$new_go" ] || {
	skip parca_agent "no Go of version 1.25 or newer"
	finish
}
mkdir -p "$cache"
sh tests/clients/parca-agent/build.sh "$new_go" "$cache" >"$work/build.log" 2>&1
case $? in
0) ;;
3)
	skip parca_agent "$(tail -n 1 "$work/build.log")"
	finish
	;;
*)
	fail "Parca Agent builds" "$(tail -n 25 "$work/build.log")"
	finish
	;;
esac
agent=$cache/parca-agent/bin/parca-agent

# ---- programs ----
mkdir "$work/bin"
cat >"$work/hot.c" <<'C'
static volatile unsigned sink;
__attribute__((noinline)) static void hot_function(unsigned n) { for (unsigned i = 0; i < n; i++) sink = sink * 31 + i; }
__attribute__((noinline)) void cold_function(unsigned n) { for (unsigned i = 0; i < n; i++) sink = sink * 31 + i; }
int main(void) { for (;;) { hot_function(70000); cold_function(30000); } }
C
cat >"$work/hot.go" <<'GO'
package main

var sink int

//go:noinline
func hotFunction(n int) { for i := 0; i < n; i++ { sink = sink*31 + i } }

//go:noinline
func coldFunction(n int) { for i := 0; i < n; i++ { sink = sink*31 + i } }

func main() { for { hotFunction(70000); coldFunction(30000) } }
GO
c() { # NAME [FLAG...]
	c_name=$1
	shift
	gcc -O1 -g -o "$work/bin/$c_name" "$@" "$work/hot.c"
}
c w_pie
c w_nopie -no-pie
c w_noid -Wl,--build-id=none
c w_noid_nopie -Wl,--build-id=none -no-pie
for kind in pie nopie; do
	c "w_strip_$kind" "-$(echo $kind | sed 's/nopie/no-pie/')"
	objcopy --only-keep-debug "$work/bin/w_strip_$kind" "$work/w_strip_$kind.debug"
	strip --strip-all "$work/bin/w_strip_$kind"
done
go_program() { # GO NAME [FLAG...]
	go_tool=$1 go_name=$2
	shift 2
	(cd "$work" && GOCACHE="$work/gocache" GO111MODULE=off CGO_ENABLED=0 GOFLAGS='' "$go_tool" build -o "$work/bin/$go_name" "$@" hot.go)
}
go_program "$new_go" w_go_new
go_program "$new_go" w_go_new_s -ldflags='-s -w'
if [ -x /usr/lib/go-1.19/bin/go ]; then
	go_program /usr/lib/go-1.19/bin/go w_go_old
	go_program /usr/lib/go-1.19/bin/go w_go_old_s -ldflags='-s -w'
fi

# ---- the run ----
printf "symbols: {host_files: false, debuginfod: {urls: ''}}\n" >"$work/config.yaml"
start_server --config "$work/config.yaml" || {
	fail "the server starts"
	finish
}
for program in "$work"/bin/*; do launch "$program"; done
mkdir "$work/agent"
launch "$agent" --node=test --remote-store-address="${url#http://}" --remote-store-insecure --profiling-duration=3s --analytics-opt-out \
	--telemetry-disable-panic-reporting --http-address=127.0.0.1:0 --debuginfo-temp-dir="$work/agent" --instrument-cuda-launch=false --otlp-logging >"$work/agent.log" 2>&1
agent_pid=$!
sampled() { node tests/clients/parca_agent.mjs "$url" "$@"; }
# Their ids are the agent's: those of the list of binaries.
upload_debug() {
	for upload_name in w_strip_pie w_strip_nopie; do
		upload_id=$(curl -s "$url/api/v1/binaries?text=$upload_name" | grep -o '"build_id":"[0-9a-f]*"' | head -n 1 | cut -d'"' -f4)
		[ -n "$upload_id" ] || return 1
		# What the agent sends of it would come in between, or in its place.
		grep -q "$upload_id was uploaded" "$work/server.log" || return 1
		"$WICK" debuginfo upload "$work/$upload_name.debug" --url "$url" --build-id "$upload_id" --force || return 1
	done
}
if ! wait_for sampled any; then
	fail "Parca Agent samples" "$(tail -n 20 "$work/agent.log")"
	finish
fi
pass "Parca Agent samples"
check "debug files of stripped programs are uploaded for the agent's ids" wait_for upload_debug
check "it has sampled for $seconds s" wait_for sampled seconds "$seconds"
kill "$agent_pid"
check "names, split and services of each program" wait_for sampled programs "$work"/bin/*
sampled table
check "at least 92.8 % of the programs' native samples are named, libraries included" wait_for sampled share 92.8 "$work"/bin/*
curl -s "$url/metrics" >"$work/metrics"
check "the agent's own logs are taken and dropped" grep -qE '^wick_signals_dropped_total [1-9]' "$work/metrics"
check "the agent's log has no failure of a call" sh -c "! grep -E 'Unimplemented|Request failed|Failed to upload' '$work/agent.log'"
finish
