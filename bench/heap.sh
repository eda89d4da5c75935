#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What sampling the own heap costs those that allocate: bench/heap.c.
. bench/lib.inc
"$O/bench/heap"
