#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Backups of a store that goes on working, from its server and from its directory: restored, they answer as the store did. How: backup.mjs.
exec node tests/store/backup.mjs
