#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The graph over time in headless Chromium, on three hours of a fleet of which one service's deploy is known.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/fleet.inc
browser_tests_on_fleet "the graph over time" tests/browser/time.test.mjs
