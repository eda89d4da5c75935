#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The page in headless Chromium behind a proxy that delays, drops and spoils what the server answers.
. tests/lib.inc
. tests/lib/browser.inc
. tests/browser/fleet.inc
browser_tests_on_fleet "a server in trouble" tests/browser/faults.test.mjs
