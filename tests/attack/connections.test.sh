#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
name="floods of connections"
. tests/network.inc
ulimit -n "$(ulimit -H -n)"
exec node tests/attack/connections.mjs
