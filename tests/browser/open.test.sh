#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wick open in headless Chromium: the page, and a page of another site that asks for the profile, as Firefox Profiler does.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "wick open"
browser_tests tests/browser/open.test.mjs
finish
