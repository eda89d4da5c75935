#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the pipeline's two nodes, each on a host of its own and each recorded there, and merges the two recordings into one profile.
#
#   run.sh [-o FOLDER] [STEPS [MICROSECONDS]]      ./recorded, 2000 steps, one every 2000 us
#
# As root a host is a network namespace and a host name: alpha has 10.77.0.1, beta 10.77.0.2, and a veth pair is the cable between
# them. Without root both nodes run here, over loopback. WICK names the binary, WICK_ALPHA and WICK_BETA that of one host, and PIPELINE
# a pipeline that is already built.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
WICK=${WICK:-wick}
out=recorded
if [ "${1:-}" = -o ]; then
	out=$2
	shift 2
fi
steps=${1:-2000} pause=${2:-2000}
mkdir -p "$out"

# ---- build ----
if [ -z "${PIPELINE:-}" ]; then
	PIPELINE=$out/pipeline
	# Linked with where the library is: the loader does not look everywhere that it may be installed.
	# shellcheck disable=SC2046 # several options
	cc -O2 -g -o "$PIPELINE" "$here/pipeline.c" $(pkg-config --cflags --libs wickmark) -Wl,-rpath,"$(pkg-config --variable=libdir wickmark)" -lpthread
fi
case $PIPELINE in /*) ;; *) PIPELINE=$PWD/$PIPELINE ;; esac

# ---- two hosts ----
nets="wick-alpha-$$ wick-beta-$$"
first= # the recorder on alpha: its node would wait for beta's for ever
end() {
	if [ -n "$first" ] && kill "$first" 2>/dev/null; then wait "$first" || true; fi
	[ "$(id -u)" -ne 0 ] || for net in $nets; do ip netns del "$net" 2>/dev/null || true; done
}
trap end EXIT
trap 'exit 130' INT TERM
if [ "$(id -u)" -eq 0 ]; then
	for net in $nets; do ip netns add "$net"; done
	ip link add eth0 netns "wick-alpha-$$" type veth peer name eth0 netns "wick-beta-$$"
	number=1
	for net in $nets; do
		nsenter --net="/run/netns/$net" ip address add "10.77.0.$number/24" dev eth0
		nsenter --net="/run/netns/$net" ip link set lo up
		nsenter --net="/run/netns/$net" ip link set eth0 up
		number=$((number + 1))
	done
	address=10.77.0.1:7411
else
	echo "run.sh: not root: both nodes run on this host, over loopback" >&2
	address=127.0.0.1:7411
fi
# NAME COMMAND...: becomes the command on that host. (ip netns exec and ip -n mount a /sys of their own, which hides what wick needs, and
# does not work in a chroot.)
on_host() {
	host=$1
	shift
	if [ "$(id -u)" -eq 0 ]; then
		# shellcheck disable=SC2016 # of the inner shell
		exec nsenter --net="/run/netns/wick-$host-$$" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' sh "$host" "$@"
	else
		exec "$@"
	fi
}

# ---- the job, recorded on each ----
on_host alpha "${WICK_ALPHA:-$WICK}" record -o "$out/alpha.firefox.json" -- "$PIPELINE" 0 "$address" "$steps" "$pause" &
first=$!
(on_host beta "${WICK_BETA:-$WICK}" record -o "$out/beta.firefox.json" -- "$PIPELINE" 1 "$address" "$steps" "$pause")
wait "$first"
first=

# ---- one profile ----
"$WICK" merge "$out/alpha.firefox.json" "$out/beta.firefox.json" --host alpha --host beta --reference alpha -o "$out/pipeline.firefox.json"
echo "open it: $WICK open $out/pipeline.firefox.json    or load it at https://profiler.firefox.com"
