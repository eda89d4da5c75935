/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done to the stacks of a merged profile. Private to src/query. Each replaces *profile by a new one with the same
 * sample types and, per sample, the same values and labels; samples whose stack is left out are gone, and samples that have
 * become equal are summed. Frames are functions: an inlined one counts as a frame of its own.
 */
#ifndef WICK_QUERY_TRANSFORM_H
#define WICK_QUERY_TRANSFORM_H

#include "query/frames.h"

/* Keeps the stacks that have a frame that passes there, or with `negate` those that have none, as the store would have. */
int transform_filter(struct profile **profile, struct frame_matcher *filter, enum store_where where, bool negate,
		     struct error *err);
/* Leaves out frames that pass the filter; their values stay with their callers. */
int transform_hide(struct profile **profile, struct frame_matcher *filter, struct error *err);
/* Leaves out the internals of interpreters (profile/interpreters.h), in place if there are any. */
int transform_hide_interpreters(struct profile **profile, struct error *err);
/* What the functions that pass call: stacks begin at the outermost frame that passes; others are left out. */
int transform_callees(struct profile **profile, struct frame_matcher *filter, struct error *err);
/* Who calls them: stacks begin at the outermost frame that passes and go on to its caller, the caller's caller ... */
int transform_callers(struct profile **profile, struct frame_matcher *filter, struct error *err);

enum transform_collapse {
	COLLAPSE_MATCHING,  /* neighbours that pass the filter become the outermost one */
	COLLAPSE_RECURSION, /* a function that calls itself becomes one frame */
	COLLAPSE_BINARY,    /* neighbours of the same binary become one frame with its name */
	COLLAPSE_FILE,	    /* likewise */
	COLLAPSE_PACKAGE,   /* likewise, by what stands before the function in its name */
};
/* filter is NULL but for COLLAPSE_MATCHING. */
int transform_collapse(struct profile **profile, enum transform_collapse how, struct frame_matcher *filter, struct error *err);

/* A root frame for each label of the list, named "label=value". */
int transform_label_frames(struct profile **profile, const char *const *by, size_t by_count, struct error *err);

/* "net/http" of "net/http.(*conn).serve", "std::vector" of "std::vector<int>::push_back"; empty if there is none. */
struct bytes function_package(struct bytes function);

#endif
