#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What scraping costs the server: CPU time, memory and threads for fake targets that a fake Docker daemon lists, with rules, 15 s apart.
#
#   ./dev bench scrape [--targets N] [--seconds S]
set -eu
exec node bench/scrape.mjs "$@"
