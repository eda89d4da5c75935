#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Long responses: the memory that they take, the time to their first and last byte, and what clients that read nothing of them hold.
#   [--stacks N]     different ones, of 12 frames: 205000
#   [--no-unread]    without those clients. WICK names another program to compare with
exec node bench/responses.mjs "$@"
