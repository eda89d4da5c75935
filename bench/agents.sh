#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Thousands of agents on one server, each from an address of its own, with a token, in the clear and by TLS (certificates for P-256 and for RSA), in a network of
# this machine's: what the server takes of memory and CPU, how many connect per second, first with full handshakes (connect), then with resumed ones (again).
#   --agents N     10000
#   --seconds N    60, of uploads and polls, each every 10 s
if [ -z "${WICK_PRIVATE_NETWORK:-}" ]; then
	WICK_PRIVATE_NETWORK=1 exec unshare -n sh "$0" "$@"
fi
. bench/lib.inc
PATH=$PATH:/usr/sbin:/sbin
agents=10000 seconds=60
while [ $# -gt 1 ]; do
	case $1 in
	--agents) agents=$2 ;;
	--seconds) seconds=$2 ;;
	esac
	shift 2
done
ip link set lo up
ip addr add 10.9.0.1/16 dev lo
sysctl -qw net.core.somaxconn=4096 2>/dev/null
ulimit -n "$(ulimit -H -n)"
printf 'secret-secret\n' >"$work/token"
chmod 600 "$work/token"
certificate() { openssl req -x509 -nodes -keyout "$work/$1.key.pem" -out "$work/$1.cert.pem" -days 2 -subj /CN=wick -addext subjectAltName=IP:10.9.0.1 -newkey "$@" 2>/dev/null; }
certificate ec -pkeyopt ec_paramgen_curve:P-256
certificate rsa -pkeyopt rsa_keygen_bits:2048
node -e "
import('$PWD/tests/harness.mjs').then(({ pprofProfile }) => {
	const stacks = Array.from({ length: 20 }, (_, i) => [Array.from({ length: 12 }, (_, j) => 'function' + (i * 7 + j)), 1 + i, {}]);
	require('fs').writeFileSync('$work/body', pprofProfile(stacks, { timeNs: 0 }).subarray(0, -2)); // without its time, the last field
	process.exit(0);
})"
status_of() { awk -v name="^$2:" '$0 ~ name { printf "%.1f", $2 / 1024 }' "/proc/$1/status"; }
processes=4
each=$((agents / processes))
for kind in clear ec rsa; do
	flags=-
	printf 'connections: {max: 20000}\n' >"$work/server.yaml"
	case $kind in
	ec | rsa)
		printf 'tls: {cert_file: %s, key_file: %s}\n' "$work/$kind.cert.pem" "$work/$kind.key.pem" >>"$work/server.yaml"
		flags=tr
		;;
	esac
	launch "$WICK" server --data "$work/data.$kind" --listen 0.0.0.0:0 --config "$work/server.yaml" --token-file "$work/token" 2>"$work/server.log"
	server=$!
	for _ in $(seq 600); do
		port=$(sed -n 's|.*://0.0.0.0:\([0-9]*\).*|\1|p' "$work/server.log" | head -n 1)
		[ -z "$port" ] || break
		sleep 0.1
	done
	sleep 1
	before=$(cpu_of "$server") rss=$(status_of "$server" VmRSS)
	clients=
	for n in $(seq 0 $((processes - 1))); do
		launch "$O/bench/agents" 10.9.0.1 "$port" $((n * each)) "$each" "$seconds" 10 32 "$flags" "$work/body" >"$work/out.$n"
		clients="$clients $!"
	done
	until [ "$(grep -c '^connect' "$work"/out.* | awk -F: '{ n += $2 } END { print n }')" -eq $processes ]; do sleep 0.2; done
	connected=$(cpu_of "$server")
	sleep $((seconds / 2))
	rss_full=$(status_of "$server" VmRSS)
	until [ "$(grep -c '^steady' "$work"/out.* | awk -F: '{ n += $2 } END { print n }')" -eq $processes ]; do sleep 0.2; done
	steady=$(cpu_of "$server")
	for client in $clients; do wait "$client"; done
	after=$(cpu_of "$server")
	printf '%s: %s agents; server %s MB before, %s MB with all connected, %s MB at most\n' "$kind" "$((each * processes))" "$rss" "$rss_full" "$(peak_of "$server")"
	echo "server CPU: $before $connected $steady $after" | awk -v s="$seconds" '{ printf "  server CPU s: connecting %.2f, %s s of uploads and polls %.2f (%.1f %% of a CPU), connecting again %.2f\n", $4 - $3, s, $5 - $4, 100 * ($5 - $4) / s, $6 - $5 }'
	for part in connect steady again; do
		cat "$work"/out.* | awk -v part="$part" '$1 == part { calls += $2; t = $4 > t ? $4 : t; p50 += $9 / 4; p99 = $12 > p99 ? $12 : p99; failed += $15; resumed += $17 }
			END { printf "  %-8s %d calls in %.1f s, %.0f/s, p50 %.1f ms, p99 %.1f ms, failed %d, resumed %d\n", part, calls, t, calls / t, p50, p99, failed, resumed }'
	done
	kill "$server"
	wait "$server" 2>/dev/null
done
