#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Names, files and lines in the page: `wick up`, a program of which lines and inlined functions are known, and
# tests/browser/symbols.test.mjs to look at it.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/machine.inc
can_sample || {
	skip "files and lines in the page" "$no_sampling"
	finish
}
need_browser "files and lines in the page"
use_machine || {
	fail "this machine is sampled" "$machine_fault"
	finish
}
browser_tests tests/browser/symbols.test.mjs
finish
