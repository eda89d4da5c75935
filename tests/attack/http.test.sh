#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
ulimit -n "$(ulimit -H -n)" # for 10,000 connections
exec node tests/attack/http.mjs
