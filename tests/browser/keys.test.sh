#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The list of keys, in headless Chromium: an empty server, and a profile that tests/browser/keys.test.mjs pushes.
. tests/lib.inc
. tests/lib/browser.inc
browser_tests_on_server "the list of keys" tests/browser/keys.test.mjs
