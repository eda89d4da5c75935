#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. tests/lib.inc
[ -x "${WICK_CHROMIUM:-/usr/bin/chromium}" ] || {
	skip "speedscope's importer" "no chromium"
	finish
}
exec node tests/convert/speedscope.mjs
