#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Data directories of every format version, made by the program of their time, open and answer with the sums that were sent.
exec node tests/store/golden/golden.mjs check tests/store/golden/v*
