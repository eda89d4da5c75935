#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Averages of gauges equal DuckDB's: generated queries in memory, blocks, merged blocks and rollups. What and how: gauges.mjs.
exec node tests/store/gauges.mjs
