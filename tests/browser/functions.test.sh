#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the page has on functions (callers and callees, the call graph, the table) in headless Chromium, on a profile of which all is known.
. tests/lib.inc
. tests/lib/browser.inc
browser_tests_on_server "functions in the page" tests/browser/functions.test.mjs
