#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is refused, damaged or cut off is told: to senders of every protocol, in the log, in metrics, and to who queries that time. How: partial.mjs.
exec node tests/store/partial.mjs
