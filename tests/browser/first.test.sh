#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first minutes with the page, in headless Chromium: a server that has data of three minutes, which tests/browser/first.test.mjs pushes.
. tests/lib.inc
. tests/lib/browser.inc
browser_tests_on_server "the first minutes" tests/browser/first.test.mjs
