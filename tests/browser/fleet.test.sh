#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tasks that people have with a fleet, on one that goes on (tests/browser/fleet.inc), in headless Chromium: tests/browser/fleet.test.mjs.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/fleet.inc
browser_tests_on_fleet "the page on a fleet" tests/browser/fleet.test.mjs
