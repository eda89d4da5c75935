#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Queries of a service whose stacks are all different: what a diff costs beside two flame graphs, the memory of four of the worst at a time beside
# ingest, and the CPU time after a client has left.
#   [--stacks N]    of each side: 205000, of 12 frames
exec node bench/budget.mjs "$@"
