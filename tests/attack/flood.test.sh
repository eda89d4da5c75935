#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
name="uploads without end"
. tests/network.inc
exec node tests/attack/flood.mjs
