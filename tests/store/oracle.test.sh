#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Answers equal an independent engine's: generated queries over a small fleet, DuckDB beside Wick. What and how: oracle.mjs.
O=${O:-build}
make -s "O=$O" "$O/bench/fleet" || exit 1
exec node tests/store/oracle.mjs
