#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The page in headless Chromium on live data of this machine: `wick up`, a program to look at, and tests/browser/page.test.mjs to drive it.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/machine.inc
browser_tests_on_machine "the page on live data" tests/browser/page.test.mjs
