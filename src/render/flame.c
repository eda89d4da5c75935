/* SPDX-License-Identifier: Apache-2.0 */
/* A flame tree's order, its JSON, its end. flame_build.c makes them. */
#include "render/flame.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/order.h"
#include "render/flame_int.h"

/* ---- order: of a tree that was not built by flame_build() ---- */

static int compare_siblings(const void *left, const void *right, void *context)
{
	const struct flame *flame = context;
	uint32_t a_id = *(const uint32_t *)left, b_id = *(const uint32_t *)right;
	const struct flame_node *a = &flame->nodes[a_id], *b = &flame->nodes[b_id];
	return ORDER(b->total, a->total) ?:
		strcmp(intern_string(&flame->strings, a->name), intern_string(&flame->strings, b->name)) ?: ORDER(a_id, b_id);
}

void flame_sort_children(const struct flame *flame, uint32_t *start, uint32_t *children,
			 int (*compare)(const void *left, const void *right, void *flame))
{
	for (size_t i = 1; i < flame->count; i++)
		start[flame->nodes[i].parent + 1]++;
	for (size_t i = 0; i < flame->count; i++)
		start[i + 1] += start[i];
	/* Filled from the back, so that each start ends where it belongs. */
	for (size_t i = flame->count; i-- > 1;)
		children[--start[flame->nodes[i].parent + 1]] = (uint32_t)i;
	memmove(start, start + 1, flame->count * sizeof(*start));
	start[flame->count] = (uint32_t)flame->count - 1;
	for (size_t i = 0; i < flame->count && !budget_poll(); i++)
		sort_array_by(children + start[i], start[i + 1] - start[i], compare, flame);
}

uint32_t flame_max_depth(const struct flame *flame)
{
	uint32_t max = 0;
	for (size_t i = 0; i < flame->count; i++)
		if (flame->nodes[i].depth > max)
			max = flame->nodes[i].depth;
	return max;
}

DEFINE_ORDER(compare_sizes, uint64_t, ORDER(*b, *a));

uint64_t flame_threshold(uint64_t *sizes, size_t count, size_t nodes_max)
{
	sort_array(sizes, count, compare_sizes);
	return sizes[nodes_max - 1];
}

/* Pre-order with a stack of nodes to visit; children are pushed from the last to the first. */
static void write_in_order(const struct flame *flame, const uint32_t *start, const uint32_t *children, uint32_t *stack,
			   uint32_t *position, struct flame_node *out)
{
	size_t pending = 0;
	uint32_t count = 0;
	stack[pending++] = 0;
	while (pending > 0) {
		uint32_t id = stack[--pending];
		position[id] = count;
		out[count] = flame->nodes[id];
		out[count].parent = position[flame->nodes[id].parent];
		count++;
		for (uint32_t i = start[id + 1]; i-- > start[id];)
			stack[pending++] = children[i];
	}
	assert(count == flame->count);
}

int flame_put_in_order(struct flame *flame, uint32_t *ret_position, struct error *err)
{
	size_t count = flame->count;
	_cleanup_(mem_freep) uint32_t *start = mem_zalloc_array(count + 1, sizeof(*start));
	_cleanup_(mem_freep) uint32_t *children = mem_alloc_array(count, sizeof(*children));
	_cleanup_(mem_freep) uint32_t *stack = mem_alloc_array(count, sizeof(*stack));
	_cleanup_(mem_freep) uint32_t *position = mem_alloc_array(count, sizeof(*position));
	struct flame_node *ordered = mem_alloc_array(count, sizeof(*ordered));
	if (!start || !children || !stack || !position || !ordered) {
		mem_free(ordered);
		return error_nomem(err);
	}
	flame_sort_children(flame, start, children, compare_siblings);
	write_in_order(flame, start, children, stack, position, ordered);
	mem_free(flame->nodes);
	flame->nodes = ordered;
	if (ret_position)
		memcpy(ret_position, position, count * sizeof(*position));
	return 0;
}

struct flame *flame_free(struct flame *flame)
{
	if (!flame)
		return NULL;
	intern_release(&flame->strings);
	intern_release(&flame->build_ids);
	mem_free(flame->binaries);
	mem_free(flame->nodes);
	return mem_free(flame);
}

/* ---- JSON ---- */

void flame_write_strings(const struct flame *flame, struct json_writer *json)
{
	json_member_array(json, "strings");
	for (size_t i = 0; i < flame->strings.count; i++)
		json_bytes(json, intern_get(&flame->strings, (uint32_t)i));
	json_end_array(json);
}

enum column {
	COLUMN_PARENT,
	COLUMN_NAME,
	COLUMN_FILE,
	COLUMN_LINE,
	COLUMN_BINARY,
	COLUMN_KIND,
	COLUMN_TOTAL,
	COLUMN_SELF,
	COLUMN_COUNT
};

static int64_t cell(const struct flame_node *node, enum column column)
{
	switch (column) {
	case COLUMN_PARENT: return node->parent;
	case COLUMN_NAME: return node->name;
	case COLUMN_FILE: return node->file;
	case COLUMN_LINE: return node->line;
	case COLUMN_BINARY: return node->binary;
	case COLUMN_KIND: return node->frame_type + (node->inlined ? 8 : 0);
	case COLUMN_TOTAL: return node->total;
	default: return node->self;
	}
}

void flame_write_nodes(const struct flame *flame, struct json_writer *json)
{
	static const char *const names[COLUMN_COUNT] = {"parent", "name", "file", "line", "binary", "kind", "total", "self"};
	for (enum column column = 0; column < COLUMN_COUNT; column++) {
		json_member_array(json, names[column]);
		for (size_t i = 0; i < flame->count; i++)
			json_int(json, cell(&flame->nodes[i], column));
		json_end_array(json);
	}
}

static void write_binaries(const struct flame *flame, struct json_writer *json)
{
	json_begin_array(json);
	for (size_t i = 0; i < flame->binary_count;) {
		const struct flame_binary *first = &flame->binaries[i];
		json_begin_object(json);
		json_member_bytes(json, "binary", intern_get(&flame->strings, first->name));
		json_member_array(json, "build_ids");
		for (; i < flame->binary_count && flame->binaries[i].name == first->name; i++)
			json_bytes(json, intern_get(&flame->build_ids, flame->binaries[i].build_id));
		json_end_array(json);
		json_member_uint(json, "count", first->count);
		json_end_object(json);
	}
	json_end_array(json);
}

static void write_head(const struct flame *flame, struct json_writer *json)
{
	json_member_cstring(json, "type", flame->type);
	json_member_cstring(json, "unit", flame->unit);
	json_member_int(json, "total", flame->total);
	json_member_uint(json, "samples", flame->sample_count);
	json_member_uint(json, "trimmed", flame->trimmed);
	json_key(json, "binaries");
	write_binaries(flame, json);
}

void flame_write_head_json(const struct flame *flame, struct json_writer *json)
{
	json_begin_object(json);
	write_head(flame, json);
	json_end_object(json);
}

void flame_write_json(const struct flame *flame, struct json_writer *json)
{
	json_begin_object(json);
	write_head(flame, json);
	flame_write_strings(flame, json);
	json_member_object(json, "nodes");
	flame_write_nodes(flame, json);
	json_end_object(json);
	json_end_object(json);
}
