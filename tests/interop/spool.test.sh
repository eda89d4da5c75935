#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. tests/network.inc
. tests/lib.inc
need_sampling "what waits while the server is away"
WICK_CACHE=$work/cache node tests/interop/spool.mjs
