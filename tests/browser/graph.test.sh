#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All that can be done with a flame graph, in headless Chromium: an empty server, and profiles that tests/browser/graph.test.mjs pushes.
. tests/lib.inc
. tests/lib/browser.inc
browser_tests_on_server "the tools of the flame graph" tests/browser/graph.test.mjs
