#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Comparisons on the page, in headless Chromium on a live fleet of which it is known what changed: bench/fleet/truth.c.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/fleet.inc
need_browser "comparisons on the page"
use_fleet || {
	fail "a fleet starts" "$fleet_fault"
	finish
}
browser_tests tests/browser/compare.test.mjs
finish
