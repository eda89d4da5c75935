#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All that can be done with a flame graph, in headless Chromium: an empty server, and profiles that tests/browser/graph.test.mjs pushes.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "the tools of the flame graph"
start_server || {
	fail "the server starts"
	finish
}
WICK_URL=$url browser_tests tests/browser/graph.test.mjs
finish
