/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a profile and their calls, as Parca's table, top list and call graph count them. */
#ifndef WICK_SERVER_PARCA_FUNCTIONS_H
#define WICK_SERVER_PARCA_FUNCTIONS_H

#include "base/cancel.h"
#include "base/intern.h"
#include "base/map.h"
#include "profile/profile.h"

#define PARCA_FUNCTIONS_MAX (4u * 1024 * 1024) /* and calls */
#define PARCA_NO_LINE	    UINT32_MAX

/* A function by its name, or an address without one by its binary. A stack counts once, however often the function recurs. */
struct parca_function {
	uint32_t location, line; /* where it was met first; PARCA_NO_LINE: no function is known there */
	int64_t flat, total, flat_base, total_base;
	uint64_t stamp; /* private */
};
struct parca_call {
	uint32_t caller, callee; /* functions */
	int64_t total;		 /* of stacks with that call */
	uint64_t stamp;		 /* private */
};
struct parca_functions {
	const struct profile *profile;
	struct parca_function *items; /* as they are met, each sample's leaf first */
	struct parca_call *calls;     /* likewise */
	size_t count, capacity, call_count, call_capacity;
	struct intern keys;
	struct map64 call_index;
	uint32_t *by_line, *by_location; /* functions */
	int64_t total;			 /* of all samples */
};
/* One sample type, or two: "base" and what is compared with it. -E2BIG, -ECANCELED, -ENOMEM. */
int parca_functions_build(const struct profile *profile, bool with_calls, const atomic_bool *cancel,
			  struct parca_functions *ret, struct error *err);
void parca_functions_release(struct parca_functions *functions);
/* The name of a line's function: a string of the profile; 0 = not known, as for PARCA_NO_LINE. */
uint32_t parca_line_name(const struct profile *profile, uint32_t line);
/* value - base * scale, rounded */
int64_t parca_difference(int64_t value, int64_t base, double scale);

#endif
