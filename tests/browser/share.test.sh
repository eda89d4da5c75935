#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Links to what is shown, in headless Chromium: tests/browser/share.test.mjs.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "sharing"
need_server
WICK_URL=$url/ browser_tests tests/browser/share.test.mjs
finish
