#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Hostile names in every view, in headless Chromium: an empty server, and profiles that tests/browser/hostile.test.mjs pushes.
. tests/lib.inc
. tests/lib/browser.inc
browser_tests_on_server "hostile names" tests/browser/hostile.test.mjs
