#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. tests/network.inc
exec node tests/interop/forward.mjs
