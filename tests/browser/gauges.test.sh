#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A heap in the page, in headless Chromium: averages, one profile by itself, what the type is.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "gauges in the page"
start_server || {
	fail "the server starts"
	finish
}
WICK_URL=$url browser_tests tests/browser/gauges.test.mjs
finish
