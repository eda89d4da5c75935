/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two flame trees laid over each other: what did each function cost before and now? A node is there if one side has it. Made of
 * two sample types of one profile, or of two trees, of whatever they are.
 */
#ifndef WICK_RENDER_DIFF_H
#define WICK_RENDER_DIFF_H

#include "render/flame.h"

struct diff_value {
	int64_t total, self;
};
struct diff {
	struct flame *tree; /* nodes of both sides; its values are the new side's; siblings by falling sum of both totals */
	struct diff_value *base; /* by node */
	int64_t base_total;
};
/* Of two sample types of one profile, with the nodes_max largest nodes by the larger of both sides (0 = all), and the others of
 * a node as one child of it, as diff_trim() leaves them: what is not shown is never made, so this is as cheap as one tree.
 * -ENOMEM; -E2BIG past FLAME_NODES_MAX nodes. */
int diff_build_types(const struct profile *profile, size_t base_type, size_t sample_type, size_t nodes_max, struct diff **ret,
		     struct error *err);
/* The same of trees with siblings by name: see flame_build_by_name(). Whole. */
int diff_build_types_by_name(const struct profile *profile, size_t base_type, size_t sample_type, struct diff **ret,
			     struct error *err);
/* Of two whole trees, of whatever they are. -ENOMEM; -E2BIG past FLAME_NODES_MAX nodes. */
int diff_build(const struct flame *base, const struct flame *side, struct diff **ret, struct error *err);
/* Keeps the nodes_max largest nodes, by the larger of both sides (0 = all); what is left out below a node is one child of it,
 * of FLAME_FRAME_REST, with the sums of both. */
int diff_trim(struct diff *diff, size_t nodes_max, struct error *err);
struct diff *diff_free(struct diff *diff);
DEFINE_CLEANUP_POINTER(diff_free, struct diff);
/* As flame_write_json(), with "base_total" beside "total", and columns "base_total" and "base_self" in "nodes". */
void diff_write_json(const struct diff *diff, struct json_writer *json);

/* One row a function. Functions with base_total 0 are new, with total 0 gone. */
struct diff_row {
	struct table_row now; /* of the new side; texts live as long as the diff */
	int64_t base_self, base_total;
};
struct diff_table {
	struct diff_row *rows; /* by falling size of the change of self, then of total */
	size_t count;
	int64_t base_total, total;
	bool relative;
	struct intern texts; /* of diff_table_build_types() */
};
/* relative: the change is that of shares: the new side is scaled to the base's total, where that is not 0. The rows' values are
 * the real ones. */
int diff_table_build(const struct diff *diff, bool relative, struct diff_table *ret, struct error *err);
/* One row a name, for text: see table_build_by_name(). */
int diff_table_build_by_name(const struct diff *diff, bool relative, struct diff_table *ret, struct error *err);
/* Either of them, of two sample types of a profile and without a tree: see table_build_profile(). */
int diff_table_build_types(const struct profile *profile, size_t base_type, size_t sample_type, bool relative, bool by_name,
			   struct diff_table *ret, struct error *err);
void diff_table_release(struct diff_table *table);
/* new - base, scaled if the table is relative */
int64_t diff_table_change(const struct diff_table *table, int64_t base, int64_t value);
/* {"base_total", "total", "count", "rows": [{"name", "file", "line", "binary", "kind", "base_self", "self", "base_total",
 * "total"}]} */
void diff_table_write_json(const struct diff_table *table, size_t limit, struct json_writer *json);
/* Changes in the layout of `go tool pprof -top -diff_base`: percentages are of the base; functions
 * without a change are left out, as there. limit 0 = all. */
int diff_table_write_text(const struct diff_table *table, const char *unit, size_t limit, struct buffer *out,
			  struct error *err);

#endif
