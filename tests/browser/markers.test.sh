#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The time line of a profile with markers, in its page, in headless Chromium.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "markers in the page"
browser_tests tests/browser/markers.test.mjs
finish
