#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. tests/network.inc
. tests/lib.inc
if ! can_sample; then
	skip "export of what the agent samples" "$no_sampling"
	finish
fi
WICK_CACHE=$work/cache node tests/interop/export.mjs
