#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Names, files and lines in the page: `wick up`, a program of which lines and inlined functions are known, and
# tests/browser/symbols.test.mjs to look at it.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/machine.inc
browser_tests_on_machine "files and lines in the page" tests/browser/symbols.test.mjs
