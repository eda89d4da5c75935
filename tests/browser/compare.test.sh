#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Comparisons on the page, in headless Chromium on a live fleet of which it is known what changed: bench/fleet/truth.c.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/fleet.inc
browser_tests_on_fleet "comparisons on the page" tests/browser/compare.test.mjs
