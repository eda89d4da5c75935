#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
exec node tests/api/subpath.mjs
