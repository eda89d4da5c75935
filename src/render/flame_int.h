/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/render. */
#ifndef WICK_RENDER_FLAME_INT_H
#define WICK_RENDER_FLAME_INT_H

#include "render/diff.h"

/* A tree of two sample types: its values are those of sample_type, and *ret_base has those of base_type, by node; mem_free().
 * Unnamed frames are told apart by address. Siblings by falling sum of both totals. */
int flame_build_sides(const struct profile *profile, size_t base_type, size_t sample_type, size_t nodes_max, bool by_name,
		      struct diff_value **ret_base, struct flame **ret, struct error *err);
/* table_build(), or table_build_by_name(), with other values than the tree's, by node; NULL = with those. */
int table_build_values(const struct flame *flame, const struct diff_value *values, bool by_name, struct table *ret,
		       struct error *err);
/* table_build_profile(), with the rows in no order. base_type: NULL = none; else *ret_bases has the values of that type, by row
 * (mem_free()), and *ret_base_total their sum. */
int table_build_sides(const struct profile *profile, size_t sample_type, const size_t *base_type, enum flame_unnamed unnamed,
		      bool by_name, struct table *ret, struct diff_value **ret_bases, int64_t *ret_base_total,
		      struct error *err);
/* Puts nodes in pre-order, siblings by falling total. ret_position (NULL allowed, room for all nodes): where each went. */
int flame_put_in_order(struct flame *flame, uint32_t *ret_position, struct error *err);
uint32_t flame_max_depth(const struct flame *flame);
/* Children of all nodes, as qsort_r() has `compare` put them: those of node i are children[start[i] .. start[i + 1] - 1].
 * start: zeroed, with room for one more than there are nodes. */
void flame_sort_children(const struct flame *flame, uint32_t *start, uint32_t *children,
			 int (*compare)(const void *left, const void *right, void *flame));
/* The nodes_max-th largest of the sizes, which are sorted. */
uint64_t flame_threshold(uint64_t *sizes, size_t count, size_t nodes_max);
/* The members of flame_write_json() that a tree's nodes have, inside an object. */
void flame_write_nodes(const struct flame *flame, struct json_writer *json);
void flame_write_strings(const struct flame *flame, struct json_writer *json);

#endif
