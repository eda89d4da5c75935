#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Profiles as HTML files, opened from the disk in headless Chromium.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "HTML files"
browser_tests tests/browser/report.test.mjs
finish
