#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How long /healthz takes while a server is flooded (docs/security.md): by heavy uploads and queries, connections, handshakes; and what its process grows by.
#   TEXT     only floods whose name has this in it
if [ -z "${WICK_PRIVATE_NETWORK:-}" ]; then
	WICK_PRIVATE_NETWORK=1 exec unshare -n sh "$0" "$@"
fi
PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
ulimit -n "$(ulimit -H -n)"
exec node bench/attack.mjs "$@"
