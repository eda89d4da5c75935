/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call trees as they fit a terminal: what a function called, in all places where it is, or all that there is, down to what is
 * large enough to be seen. A table of lines, or an icicle: each item from its left to its right, below its caller.
 */
#ifndef WICK_TOP_TREE_H
#define WICK_TOP_TREE_H

#include "top/data.h"

struct top_focus {
	const char *name, *binary; /* of a function; name NULL = everything */
};
struct top_tree_item {
	uint64_t id;		   /* of the path: the same in the next picture */
	const char *name, *binary; /* live as long as the data */
	uint32_t frame_type;
	uint32_t parent; /* in items; the root's is 0 */
	uint32_t depth;
	bool is_last;	    /* no sibling follows */
	double left, right; /* in the icicle, of 0 to 1 */
	int64_t total, self;
};
struct top_caller {
	const char *name;
	int64_t total;
};
#define TOP_CALLERS_MAX 4
struct top_tree {
	struct top_tree_item *items; /* a caller before what it calls, the larger first */
	size_t count;
	struct top_caller callers[TOP_CALLERS_MAX]; /* of the focus, the largest first */
	size_t caller_count;
};
struct top_tree_options {
	struct top_focus focus;
	double least;	    /* smaller shares of the root are left out */
	unsigned depth_max; /* the root has 0 */
};
#define TOP_TREE_ITEMS_MAX 20000u

/* Without a focus the root is everything. The focus's item is the root otherwise; nothing if it is nowhere: count 0. */
int top_tree_build(const struct top_data *data, const struct top_tree_options *options, struct top_tree *ret,
		   struct error *err);
void top_tree_release(struct top_tree *tree);

#endif
