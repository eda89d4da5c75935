#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. tests/network.inc
. tests/lib.inc
need_sampling "export of what the agent samples"
WICK_CACHE=$work/cache node tests/interop/export.mjs
