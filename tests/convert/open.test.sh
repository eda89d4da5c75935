#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A profile opened: what is served, to whom, and what Firefox Profiler's own command line makes of it.
exec node tests/convert/open.mjs
