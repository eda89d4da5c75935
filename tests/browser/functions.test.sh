#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the page has on functions (callers and callees, the call graph, the table) in headless Chromium, on a profile of which all is known.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "functions in the page"
start_server || {
	fail "the server starts"
	finish
}
WICK_URL=$url browser_tests tests/browser/functions.test.mjs
finish
