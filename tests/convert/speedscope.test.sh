#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. tests/lib.inc
[ -x "$WICK_CHROMIUM" ] || {
	skip "speedscope's importer" "no chromium"
	finish
}
exec node tests/convert/speedscope.mjs
