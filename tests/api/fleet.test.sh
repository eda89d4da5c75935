#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The generated fleet that tests of the page look at has what bench/fleet/truth.c says of it, in blocks and as it is sent on.
. tests/lib.inc
. tests/browser/fleet.inc
start_fleet >"$work/start.log" 2>&1 || {
	fail "a fleet starts" "$(cat "$work/start.log")"
	finish
}
WICK_URL=$url node tests/api/fleet.mjs "$fleet_deploy" "$fleet_to"
