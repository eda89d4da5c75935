#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
name="names from debuginfod"
. tests/network.inc
exec node tests/symbol/debuginfod.mjs
