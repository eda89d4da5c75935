#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Damage of every kind of file of a store, at chosen and at random places: what is left is answered, what is lost is told, and repaired. How: damage.mjs.
exec node tests/store/damage.mjs
