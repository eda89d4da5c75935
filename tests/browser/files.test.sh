#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files that are dropped on the page of a server, in headless Chromium: tests/browser/files.test.mjs.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "files on the page"
browser_tests tests/browser/files.test.mjs
finish
