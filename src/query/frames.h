/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions on frames, for the store and for merged profiles. Private to src/query.
 *
 * The store asks once for each location of each block, so the same function is asked for very often: what a regular expression
 * said of a name is remembered by name, and names that the symbolizer found by address are remembered by binary and address.
 */
#ifndef WICK_QUERY_FRAMES_H
#define WICK_QUERY_FRAMES_H

#include "query/query.h"

/* Names of addresses, for as long as a query lasts. The symbolizer may be NULL: then a name is BINARY+0xOFFSET, as it is where
 * nothing is known, or not yet. wait_ns: for names that are being looked up, in all; as struct query.symbols_wait_ns. */
struct frame_names;
int frame_names_new(struct symbolizer *symbolizer, int64_t wait_ns, struct frame_names **ret, struct error *err);
struct frame_names *frame_names_free(struct frame_names *names);

struct frame_filter; /* struct query_frames, compiled */
int frame_filter_new(const struct query_frames *frames, struct frame_names *names, struct frame_filter **ret,
		     struct error *err);
struct frame_filter *frame_filter_free(struct frame_filter *filter);
/* The condition as the store takes it; the filter is its context. */
struct store_stack_condition frame_filter_condition(struct frame_filter *filter);
/* Whether the tests hold for one function of a frame; line NULL = a frame without lines. */
bool frame_filter_test(struct frame_filter *filter, const struct store_frame *frame, const struct store_line *line);
/* What went wrong in the calls above: no memory, a regular expression that took too long. */
int frame_filter_failure(const struct frame_filter *filter, struct error *err);

/* A location of a profile as a frame; lines are written to `lines`, which has room for all of them. */
void frame_of_location(const struct profile *profile, uint32_t location, struct store_line *lines, struct store_frame *ret);

/* A call site: the functions that stacks begin with, the outermost first, each by its name or its system name, inlined ones as
 * well. Nothing to release. */
struct frame_path {
	const char *const *functions;
	size_t count; /* 1 to STORE_PATH_MAX */
	struct frame_names *names;
	bool out_of_memory; /* afterwards: the condition did not hold for all that it should have */
};
struct store_stack_condition frame_path_condition(struct frame_path *path);

const char *frame_field_name(enum query_frame_field field);
int frame_tests_check(const struct query_frames *frames, struct error *err);

#endif
