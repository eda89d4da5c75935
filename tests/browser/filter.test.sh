#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Filters by functions, in headless Chromium: an empty server, and profiles that tests/browser/filter.test.mjs pushes.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "filters by functions"
start_server || {
	fail "the server starts"
	finish
}
WICK_URL=$url browser_tests tests/browser/filter.test.mjs
finish
