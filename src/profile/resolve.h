/* SPDX-License-Identifier: Apache-2.0 */
/* Giving names to locations that came with an address only. */
#ifndef WICK_PROFILE_RESOLVE_H
#define WICK_PROFILE_RESOLVE_H

#include "profile/profile.h"

/*
 * Replaces the lines of a location (innermost inlined function first), in place, so that stacks and samples stay as they are.
 * location is not 0. The functions must be valid ids (asserted). 0, -ENOMEM or -E2BIG; unchanged on failure.
 *
 * The location is interned under its new content from then on; adding the old content again gives a new location. If a location
 * with the new content was there already, both stay, and adding that content gives one of them. Content hashes
 * (profile_hash_stacks) change with the lines: those that identify stored stacks are taken before. Old lines stay in the table
 * of lines, unused.
 */
int profile_set_location_lines(struct profile *profile, uint32_t location, const struct profile_line *lines, size_t line_count,
			       struct error *err);

#endif
