#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. tests/network.inc
. tests/lib.inc
if ! can_sample; then
	skip "what waits while the server is away" "$no_sampling"
	finish
fi
WICK_CACHE=$work/cache node tests/interop/spool.mjs
