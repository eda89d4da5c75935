#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The list of recordings of several hosts in headless Chromium: an empty server, an agent of this machine that makes one by
# `wick record --remote`, and hosts that tests/browser/recordings.test.mjs plays.
. tests/lib.inc
. tests/lib/browser.inc
need_browser "recordings in the page"
can_sample && unshare --uts true 2>/dev/null && export WICK_AGENT=1
mkdir -m 1777 "$work/tmp" # of the recorders of this test
export TMPDIR="$work/tmp"
need_server
WICK_URL=$url browser_tests tests/browser/recordings.test.mjs
finish
