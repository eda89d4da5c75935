/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's two forms of a flame tree, which its clients and Grafana draw from. Essay at the top of flamebearer.c.
 */
#ifndef WICK_RENDER_FLAMEBEARER_H
#define WICK_RENDER_FLAMEBEARER_H

#include "render/diff.h"

#define FLAMEBEARER_SINGLE 4 /* numbers a node */
#define FLAMEBEARER_DOUBLE 7
struct flamebearer {
	struct bytes *names; /* live as long as the tree; [0] is "total" */
	size_t name_count;
	int64_t *values;      /* level after level */
	size_t *level_ends;   /* where in values the level ends */
	size_t level_count;   /* at least one */
	unsigned node_values; /* FLAMEBEARER_SINGLE or FLAMEBEARER_DOUBLE */
	int64_t total, max_self;
	int64_t left_total, right_total; /* of a comparison */
};
/* Of a tree made by flame_build_by_name(). */
int flamebearer_of_flame(const struct flame *flame, struct flamebearer *ret, struct error *err);
/* Of a comparison of two such trees, made without a limit; left is the base. Shown are the nodes that are no smaller than the
 * nodes_max-th largest, the root counted, by the larger of both sides; 0 = all. */
int flamebearer_of_diff(const struct diff *diff, size_t nodes_max, struct flamebearer *ret, struct error *err);
void flamebearer_release(struct flamebearer *flamebearer);
/* Members of an object: "names", "levels", "numTicks", "maxSelf". */
void flamebearer_write_json(const struct flamebearer *flamebearer, struct json_writer *json);
/* Fields 1 to 4 of querier.v1.FlameGraph and FlameGraphDiff, 5 and 6 of the latter. -ENOMEM, -E2BIG. */
int flamebearer_write_protobuf(const struct flamebearer *flamebearer, struct buffer *out);

/* The tree as bytes (PROFILE_FORMAT_TREE). -ENOMEM, -E2BIG. */
int flamebearer_write_tree(const struct flame *flame, struct buffer *out, struct error *err);

#endif
