#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tasks that people have with a fleet, on one that goes on (tests/browser/fleet.inc), in headless Chromium: tests/browser/fleet.test.mjs.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/fleet.inc
need_browser "the page on a fleet"
use_fleet || {
	fail "a fleet starts" "$fleet_fault"
	finish
}
browser_tests tests/browser/fleet.test.mjs
finish
