#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The page in headless Chromium on live data of this machine: `wick up`, a program to look at, and tests/browser/page.test.mjs to drive it.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/machine.inc
can_sample || {
	skip "the page on live data" "$no_sampling"
	finish
}
need_browser "the page on live data"
use_machine || {
	fail "this machine is sampled" "$machine_fault"
	finish
}
browser_tests tests/browser/page.test.mjs
finish
