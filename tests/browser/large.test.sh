#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The page in headless Chromium on a profile so large that the table and the legend come after the graph.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "large profiles"
browser_tests tests/browser/large.test.mjs
finish
