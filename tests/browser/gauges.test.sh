#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A heap in the page, in headless Chromium: averages, one profile by itself, what the type is.
. tests/lib.inc
. tests/lib/browser.inc
browser_tests_on_server "gauges in the page" tests/browser/gauges.test.mjs
