/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table: one row a function.
 *
 * A function's total counts each stack once, however often the function occurs in it. In the tree that is the sum over those of
 * its nodes that have no other node of the function above them; a walk in pre-order knows them by counting, for each function,
 * its nodes on the path from the root.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/order.h"
#include "base/sum.h"
#include "render/flame_int.h"
#include "render/units.h"

struct row_key {
	uint32_t name, file, binary;
};
struct row_finder {
	bool by_name;
	struct index32 index;
	struct row_key *keys;
	size_t key_capacity, row_capacity;
};

static void row_finder_release(struct row_finder *finder)
{
	index32_release(&finder->index);
	finder->keys = mem_free(finder->keys);
}

/* The row of a node, added if it is new. 0 or -ENOMEM. */
static int find_row(struct row_finder *finder, struct table *table, const struct flame *flame, const struct flame_node *node,
		    uint32_t *ret)
{
	struct row_key wanted = {
		.name = node->name, .file = finder->by_name ? 0 : node->file, .binary = finder->by_name ? 0 : node->binary};
	uint64_t hash = hash64_mix(hash64_mix((uint64_t)wanted.name << 32 | wanted.file) ^ wanted.binary);
	for (size_t at = index32_first(&finder->index, hash); index32_at(&finder->index, hash, &at, ret); at++) {
		const struct row_key *key = &finder->keys[*ret];
		if (key->name == wanted.name && key->file == wanted.file && key->binary == wanted.binary)
			return 0;
	}
	if (array_reserve(&table->rows, &finder->row_capacity, table->count + 1, FLAME_NODES_MAX) < 0 ||
	    array_reserve(&finder->keys, &finder->key_capacity, table->count + 1, FLAME_NODES_MAX) < 0 ||
	    index32_add(&finder->index, hash, (uint32_t)table->count) < 0)
		return -ENOMEM;
	*ret = (uint32_t)table->count++;
	finder->keys[*ret] = wanted;
	table->rows[*ret] = (struct table_row){
		.name = intern_string(&flame->strings, node->name),
		.file = intern_string(&flame->strings, node->file),
		.binary = intern_string(&flame->strings, node->binary),
		.frame_type = node->frame_type,
	};
	return 0;
}

/* Rows without values; ret_rows[node] is the row of each node but the root. */
static int make_rows(struct table *table, const struct flame *flame, bool by_name, uint32_t *ret_rows)
{
	_cleanup_(row_finder_release) struct row_finder finder = {.by_name = by_name};
	for (size_t i = 1; i < flame->count; i++) {
		int r = budget_poll() ? -ENOMEM : find_row(&finder, table, flame, &flame->nodes[i], &ret_rows[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

/* values: by node, in place of the tree's; NULL = those of the tree. */
static void add_values(struct table *table, const struct flame *flame, const struct diff_value *values, const uint32_t *rows,
		       uint32_t *path, uint32_t *on_path)
{
	uint32_t depth = 0; /* frames on the path: path[1 .. depth] */
	for (size_t i = 1; i < flame->count && !budget_poll(); i++) {
		const struct flame_node *node = &flame->nodes[i];
		struct table_row *row = &table->rows[rows[i]];
		for (; depth >= node->depth; depth--)
			on_path[path[depth]]--;
		path[++depth] = rows[i];
		if (on_path[rows[i]]++ == 0)
			sum_to(&row->total, values ? values[i].total : node->total);
		sum_to(&row->self, values ? values[i].self : node->self);
		if (node->line != 0 && (row->line == 0 || node->line < row->line))
			row->line = node->line;
		row->inlined |= node->inlined;
		row->called |= !node->inlined && node->depth > 1 && rows[node->parent] != rows[i];
	}
}

DEFINE_ORDER(compare_rows, struct table_row,
	     ORDER(b->self, a->self) ?: ORDER(b->total, a->total) ?: strcmp(a->name, b->name) ?: strcmp(a->binary, b->binary) ?:
		     strcmp(a->file, b->file));

int table_build_values(const struct flame *flame, const struct diff_value *values, bool by_name, struct table *ret,
		       struct error *err)
{
	_cleanup_(table_release) struct table table = {.total = flame->total};
	_cleanup_(mem_freep) uint32_t *rows = mem_zalloc_array(flame->count, sizeof(*rows));
	_cleanup_(mem_freep) uint32_t *path = mem_alloc_array((size_t)flame_max_depth(flame) + 1, sizeof(*path));
	*ret = (struct table){0};
	if (!rows || !path || make_rows(&table, flame, by_name, rows) < 0)
		return error_nomem(err);
	_cleanup_(mem_freep) uint32_t *on_path = mem_zalloc_array(table.count, sizeof(*on_path));
	if (!on_path)
		return error_nomem(err);
	add_values(&table, flame, values, rows, path, on_path);
	sort_array(table.rows, table.count, compare_rows);
	*ret = table;
	table.rows = NULL;
	return 0;
}

int table_build(const struct flame *flame, struct table *ret, struct error *err)
{
	return table_build_values(flame, NULL, false, ret, err);
}

int table_build_by_name(const struct flame *flame, struct table *ret, struct error *err)
{
	return table_build_values(flame, NULL, true, ret, err);
}

int table_build_profile(const struct profile *profile, size_t sample_type, enum flame_unnamed unnamed, bool by_name,
			struct table *ret, struct error *err)
{
	int r = table_build_sides(profile, sample_type, NULL, unnamed, by_name, ret, NULL, NULL, err);
	if (r == 0)
		sort_array(ret->rows, ret->count, compare_rows);
	return r;
}

void table_release(struct table *table)
{
	mem_free(table->rows);
	intern_release(&table->texts);
	*table = (struct table){0};
}

void table_write_json(const struct table *table, size_t limit, struct json_writer *json)
{
	size_t count = limit > 0 && limit < table->count ? limit : table->count;
	json_begin_object(json);
	json_member_int(json, "total", table->total);
	json_member_uint(json, "count", table->count);
	json_member_array(json, "rows");
	for (size_t i = 0; i < count; i++) {
		const struct table_row *row = &table->rows[i];
		json_begin_object(json);
		json_member_cstring(json, "name", row->name);
		json_member_cstring(json, "file", row->file);
		json_member_uint(json, "line", row->line);
		json_member_cstring(json, "binary", row->binary);
		json_member_uint(json, "kind", row->frame_type + (row->inlined && !row->called ? 8 : 0));
		json_member_int(json, "self", row->self);
		json_member_int(json, "total", row->total);
		json_end_object(json);
	}
	json_end_array(json);
	json_end_object(json);
}
