#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first minutes with the page, in headless Chromium: a server that has data of three minutes, which tests/browser/first.test.mjs pushes.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "the first minutes"
start_server || {
	fail "the server starts"
	finish
}
WICK_URL=$url browser_tests tests/browser/first.test.mjs
finish
