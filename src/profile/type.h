/* SPDX-License-Identifier: Apache-2.0 */
/* Profile types: name:sample_type:sample_unit:period_type:period_unit[:delta], e.g.
 * process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta. ":delta" means that values cover a duration. */
#ifndef WICK_PROFILE_TYPE_H
#define WICK_PROFILE_TYPE_H

#include "profile/profile.h"

#define PROFILE_TYPE_TEXT_MAX 256
struct profile_type {
	char name[48], sample_type[48], sample_unit[32], period_type[48],
		period_unit[32]; /* NUL-terminated; [A-Za-z0-9_./-]* */
	bool delta;
};

int profile_type_parse(const char *text, struct profile_type *ret, struct error *err); /* -EINVAL naming text and fault */
const char *profile_type_format(const struct profile_type *type, char out[static PROFILE_TYPE_TEXT_MAX]);
bool profile_type_equal(const struct profile_type *a, const struct profile_type *b);
/* The type of one of a profile's sample types under a name ("process_cpu"); characters outside the allowed set become '_'.
 * delta = the profile has a duration. A NULL or empty name is guessed from the sample types: cpu/samples/wall -> process_cpu;
 * alloc_*, inuse_* -> memory; contentions, delay -> mutex (block when period type says so); goroutine(s) -> goroutine;
 * otherwise the sample type itself. */
void profile_type_of(const struct profile *profile, size_t sample_type, const char *name, struct profile_type *ret);

#endif
