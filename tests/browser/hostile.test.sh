#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Hostile names in every view, in headless Chromium: an empty server, and profiles that tests/browser/hostile.test.mjs pushes.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "hostile names"
start_server || {
	fail "the server starts"
	finish
}
WICK_URL=$url browser_tests tests/browser/hostile.test.mjs
finish
