#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The graph over time in headless Chromium, on three hours of a fleet of which one service's deploy is known.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/fleet.inc
need_browser "the graph over time"
use_fleet || {
	fail "a fleet starts" "$fleet_fault"
	finish
}
browser_tests tests/browser/time.test.mjs
finish
