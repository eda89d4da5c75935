#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Filters by functions, in headless Chromium: an empty server, and profiles that tests/browser/filter.test.mjs pushes.
. tests/lib.inc
. tests/lib/browser.inc
browser_tests_on_server "filters by functions" tests/browser/filter.test.mjs
