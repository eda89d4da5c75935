#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The list of keys, in headless Chromium: an empty server, and a profile that tests/browser/keys.test.mjs pushes.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "the list of keys"
start_server || {
	fail "the server starts"
	finish
}
WICK_URL=$url browser_tests tests/browser/keys.test.mjs
finish
