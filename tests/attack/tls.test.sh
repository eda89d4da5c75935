#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
name="attacks on TLS"
. tests/network.inc
ulimit -n "$(ulimit -H -n)"
exec node tests/attack/tls.mjs
