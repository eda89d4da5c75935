#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The page in headless Chromium behind a proxy that delays, drops and spoils what the server answers.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/fleet.inc
need_browser "a server in trouble"
use_fleet || {
	fail "a fleet starts" "$fleet_fault"
	finish
}
browser_tests tests/browser/faults.test.mjs
finish
