/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/format: a call graph, as callgrind's files have it (callgrind.c), and the stacks that are made up of it
 * (callgrind_stacks.c). */
#ifndef WICK_FORMAT_CALLGRIND_H
#define WICK_FORMAT_CALLGRIND_H

#include "base/limits.h"
#include "base/map.h"
#include "format/format_int.h"

struct callgrind_function {
	uint32_t name, file, object;	 /* strings; known by the first two */
	uint32_t first_cost, first_call; /* + 1; 0 = none */
	uint32_t heaviest;		 /* the call of it that cost most, + 1 */
	double own, calls, called;	 /* costs of its own, of calls by it, of calls of it by others; of the leading event */
	double total;			 /* all that it cost */
	uint32_t prefix;		 /* the stack of its callers, once has_prefix */
	uint32_t cycle;			 /* a function, + 1, that stands for all that call each other in a circle; 0 = none */
	bool cycle_is_called;		 /* from outside of it; of that function */
	bool has_prefix, is_shared;	 /* is_shared: by several callers */
};
struct callgrind_cost {
	uint32_t location, next; /* next: + 1 */
	size_t values;		 /* in values[]: the costs, and behind them what of them has stacks */
};
struct callgrind_call {
	uint32_t from, to, location, next; /* next: of the same caller, + 1 */
	size_t values;
};

struct callgrind {
	struct profile *profile;
	struct callgrind_function *functions;
	struct callgrind_cost *costs;
	struct callgrind_call *calls;
	int64_t *values;
	size_t function_count, function_capacity, cost_count, cost_capacity, call_count, call_capacity, value_count,
		value_capacity;
	struct map64 function_by_name; /* by both strings */
	struct map64 cost_of;	       /* by function and location */
	struct index32 call_index;     /* by both functions and location */
	size_t values_max;
	size_t samples_max; /* that stacks may be made of, beyond one for each cost */
	size_t leading;	    /* the event that shares go by */
	uint64_t guessed;   /* functions whose costs were shared by several callers */
};

void callgrind_init(struct callgrind *graph, size_t input_bytes);
void callgrind_release(struct callgrind *graph); /* not the profile */
int callgrind_find_function(struct callgrind *graph, uint32_t name, uint32_t file, uint32_t *ret, struct error *err);
/* costs: one for each sample type of the profile. Equal ones are summed. */
int callgrind_add_cost(struct callgrind *graph, uint32_t function, uint32_t location, const int64_t *costs, struct error *err);
int callgrind_add_call(struct callgrind *graph, uint32_t from, uint32_t to, uint32_t location, const int64_t *costs,
		       struct error *err);
/* Adds the samples to the profile. */
int callgrind_make_stacks(struct callgrind *graph, struct error *err);

#endif
