#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The subsecond heatmap of a profile, in its page, in headless Chromium.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "the heatmap"
browser_tests tests/browser/heatmap.test.mjs
finish
