/* SPDX-License-Identifier: Apache-2.0 */
#include "render/diff.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/order.h"
#include "base/sum.h"
#include "render/flame_int.h"
#include "render/units.h"

struct diff_builder {
	struct diff *diff;
	size_t node_capacity, base_capacity;
	struct index32 children;
	uint32_t *nodes;   /* of the side that is being added, by its node */
	uint32_t *strings; /* likewise: string id + 1 */
};

static int take_string(struct diff_builder *builder, const struct flame *side, uint32_t id, uint32_t *ret)
{
	if (!builder->strings[id]) {
		struct bytes text = intern_get(&side->strings, id);
		uint32_t own;
		int r = intern_add(&builder->diff->tree->strings, text.data, text.len, &own);
		if (r < 0)
			return r;
		builder->strings[id] = own + 1;
	}
	*ret = builder->strings[id] - 1;
	return 0;
}

/* The node of the tree that `from` belongs to, added if it is new. */
static int take_node(struct diff_builder *builder, const struct flame *side, const struct flame_node *from, uint32_t parent,
		     uint32_t *ret)
{
	struct flame *tree = builder->diff->tree;
	struct flame_node node = *from;
	node.parent = parent;
	node.total = node.self = 0;
	int r = take_string(builder, side, from->name, &node.name);
	if (!r)
		r = take_string(builder, side, from->file, &node.file);
	if (!r)
		r = take_string(builder, side, from->binary, &node.binary);
	if (r < 0)
		return r;
	uint64_t hash = hash64_mix((uint64_t)parent << 32 | node.name);
	hash = hash64_mix(hash ^ ((uint64_t)node.file << 32 | node.binary)) + node.frame_type;
	for (size_t at = index32_first(&builder->children, hash); index32_at(&builder->children, hash, &at, ret); at++) {
		struct flame_node *known = &tree->nodes[*ret];
		if (known->parent == parent && known->name == node.name && known->file == node.file &&
		    known->binary == node.binary && known->frame_type == node.frame_type) {
			known->inlined &= node.inlined;
			if (node.line && (!known->line || node.line < known->line))
				known->line = node.line;
			return 0;
		}
	}
	r = array_reserve(&tree->nodes, &builder->node_capacity, tree->count + 1, FLAME_NODES_MAX);
	if (!r)
		r = array_reserve(&builder->diff->base, &builder->base_capacity, tree->count + 1, FLAME_NODES_MAX);
	if (!r)
		r = index32_add(&builder->children, hash, (uint32_t)tree->count);
	if (r < 0)
		return r;
	*ret = (uint32_t)tree->count++;
	tree->nodes[*ret] = node;
	builder->diff->base[*ret] = (struct diff_value){0};
	return 0;
}

static int add_side(struct diff_builder *builder, const struct flame *side, bool is_base)
{
	builder->nodes = mem_zalloc_array(side->count, sizeof(*builder->nodes));
	builder->strings = mem_zalloc_array(side->strings.count, sizeof(*builder->strings));
	int r = builder->nodes && builder->strings ? 0 : -ENOMEM;
	for (size_t i = 0; !r && i < side->count; i++) {
		const struct flame_node *from = &side->nodes[i];
		r = take_node(builder, side, from, i ? builder->nodes[from->parent] : 0, &builder->nodes[i]);
		if (r < 0)
			break;
		struct flame_node *node = &builder->diff->tree->nodes[builder->nodes[i]];
		struct diff_value *base = &builder->diff->base[builder->nodes[i]];
		*(is_base ? &base->total : &node->total) = from->total;
		*(is_base ? &base->self : &node->self) = from->self;
	}
	builder->nodes = mem_free(builder->nodes);
	builder->strings = mem_free(builder->strings);
	return r;
}

/* Siblings by the sum of both sides: the tree is ordered by it, then has the new side's values again. */
static int put_in_order(struct diff *diff, struct error *err)
{
	struct flame *tree = diff->tree;
	_cleanup_(mem_freep) uint32_t *position = mem_alloc_array(tree->count, sizeof(*position));
	_cleanup_(mem_freep) struct diff_value *base = mem_alloc_array(tree->count, sizeof(*base));
	_cleanup_(mem_freep) int64_t *totals = mem_alloc_array(tree->count, sizeof(*totals));
	if (!position || !base || !totals)
		return error_nomem(err);
	for (size_t i = 0; i < tree->count; i++) {
		totals[i] = tree->nodes[i].total;
		tree->nodes[i].total = sum_add(totals[i], diff->base[i].total);
	}
	int r = flame_put_in_order(tree, position, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < tree->count; i++) {
		base[position[i]] = diff->base[i];
		tree->nodes[position[i]].total = totals[i];
	}
	mem_free(diff->base);
	diff->base = TAKE(base);
	return 0;
}

int diff_build(const struct flame *base, const struct flame *side, struct diff **ret, struct error *err)
{
	_cleanup_(diff_freep) struct diff *diff = mem_zalloc(sizeof(*diff));
	struct diff_builder builder = {.diff = diff};
	if (!diff || !(diff->tree = mem_zalloc(sizeof(*diff->tree))) ||
	    intern_init(&diff->tree->strings, LIMIT_PROFILE_STRING_BYTES) < 0)
		return error_nomem(err);
	const struct flame *like = side->count > 1 || base->count <= 1 ? side : base;
	memcpy(diff->tree->unit, like->unit, sizeof(like->unit));
	memcpy(diff->tree->type, like->type, sizeof(like->type));
	int r = add_side(&builder, base, true);
	if (!r)
		r = add_side(&builder, side, false);
	index32_release(&builder.children);
	if (r == -E2BIG)
		return error_set(err, r, "the tree of both sides has more than %u nodes or too many names", FLAME_NODES_MAX);
	if (r < 0)
		return error_nomem(err);
	diff->base_total = base->total;
	diff->tree->total = side->total;
	diff->tree->sample_count = side->sample_count;
	r = put_in_order(diff, err);
	if (r < 0)
		return r;
	*ret = TAKE(diff);
	return 0;
}

static int build_types(const struct profile *profile, size_t base_type, size_t sample_type, size_t nodes_max, bool by_name,
		       struct diff **ret, struct error *err)
{
	_cleanup_(diff_freep) struct diff *diff = mem_zalloc(sizeof(*diff));
	if (!diff)
		return error_nomem(err);
	int r = flame_build_sides(profile, base_type, sample_type, nodes_max, by_name, &diff->base, &diff->tree, err);
	if (r < 0)
		return r;
	diff->base_total = diff->base[0].total;
	*ret = TAKE(diff);
	return 0;
}

int diff_build_types(const struct profile *profile, size_t base_type, size_t sample_type, size_t nodes_max, struct diff **ret,
		     struct error *err)
{
	return build_types(profile, base_type, sample_type, nodes_max, false, ret, err);
}

int diff_build_types_by_name(const struct profile *profile, size_t base_type, size_t sample_type, struct diff **ret,
			     struct error *err)
{
	return build_types(profile, base_type, sample_type, 0, true, ret, err);
}

/* ---- leaving out what is small ---- */

static uint64_t node_size(const struct diff *diff, size_t i)
{
	int64_t a = units_magnitude(diff->tree->nodes[i].total), b = units_magnitude(diff->base[i].total);
	return (uint64_t)(a > b ? a : b);
}

struct diff_trim {
	struct diff *diff;
	struct flame_node *nodes; /* those that are kept */
	struct diff_value *base;
	size_t count;
	uint32_t *position; /* of kept nodes in the new arrays; UINT32_MAX = left out */
	struct diff_rest {
		uint32_t count;
		int64_t base, side;
	} * rests; /* by position: the children that were left out */
};

static void trim_release(struct diff_trim *trim)
{
	mem_free(trim->nodes);
	mem_free(trim->base);
	mem_free(trim->position);
	mem_free(trim->rests);
}

/* The size that a node must have, so that about nodes_max have it. */
static int find_threshold(const struct diff *diff, size_t nodes_max, uint64_t *ret)
{
	_cleanup_(mem_freep) uint64_t *sizes = mem_alloc_array(diff->tree->count, sizeof(*sizes));
	if (!sizes)
		return -ENOMEM;
	for (size_t i = 0; i < diff->tree->count; i++)
		sizes[i] = node_size(diff, i);
	*ret = flame_threshold(sizes, diff->tree->count, nodes_max);
	return 0;
}

/* In pre-order: kept nodes get a place, the others are added to the rest of their parent, if that was kept. */
static void choose(struct diff_trim *trim, uint64_t threshold, size_t nodes_max)
{
	const struct flame *tree = trim->diff->tree;
	for (size_t i = 0; i < tree->count; i++) {
		uint32_t parent = i ? trim->position[tree->nodes[i].parent] : 0;
		trim->position[i] = UINT32_MAX;
		if (parent == UINT32_MAX)
			continue;
		if (i == 0 || (trim->count < nodes_max && node_size(trim->diff, i) >= threshold)) {
			trim->position[i] = (uint32_t)trim->count;
			trim->nodes[trim->count] = tree->nodes[i];
			trim->nodes[trim->count].parent = parent;
			trim->base[trim->count++] = trim->diff->base[i];
			continue;
		}
		trim->rests[parent].count++;
		sum_to(&trim->rests[parent].side, tree->nodes[i].total);
		sum_to(&trim->rests[parent].base, trim->diff->base[i].total);
	}
}

static int add_rests(struct diff_trim *trim)
{
	struct flame *tree = trim->diff->tree;
	for (size_t i = 0, kept = trim->count; i < kept; i++) {
		const struct diff_rest *rest = &trim->rests[i];
		if (!rest->count)
			continue;
		char name[32];
		struct flame_node node = {.parent = (uint32_t)i,
					  .depth = trim->nodes[i].depth + 1,
					  .frame_type = FLAME_FRAME_REST,
					  .total = rest->side,
					  .self = rest->side};
		snprintf(name, sizeof(name), "(%u smaller)", rest->count);
		int r = intern_add_string(&tree->strings, name, &node.name);
		if (r < 0)
			return r;
		trim->nodes[trim->count] = node;
		trim->base[trim->count++] = (struct diff_value){rest->base, rest->base};
		tree->trimmed += rest->count;
	}
	return 0;
}

int diff_trim(struct diff *diff, size_t nodes_max, struct error *err)
{
	struct flame *tree = diff->tree;
	if (!nodes_max || tree->count <= nodes_max)
		return 0;
	_cleanup_(trim_release) struct diff_trim trim = {
		.diff = diff,
		.nodes = mem_alloc_array(2 * nodes_max, sizeof(*trim.nodes)),
		.base = mem_alloc_array(2 * nodes_max, sizeof(*trim.base)),
		.position = mem_alloc_array(tree->count, sizeof(*trim.position)),
		.rests = mem_zalloc_array(nodes_max, sizeof(*trim.rests)),
	};
	uint64_t threshold;
	if (!trim.nodes || !trim.base || !trim.position || !trim.rests || find_threshold(diff, nodes_max, &threshold) < 0)
		return error_nomem(err);
	choose(&trim, threshold, nodes_max);
	if (add_rests(&trim) < 0)
		return error_nomem(err);
	struct flame_node *nodes = tree->nodes;
	struct diff_value *base = diff->base;
	tree->nodes = trim.nodes;
	diff->base = trim.base;
	tree->count = trim.count;
	trim.nodes = nodes;
	trim.base = base;
	return put_in_order(diff, err);
}

struct diff *diff_free(struct diff *diff)
{
	if (!diff)
		return NULL;
	flame_free(diff->tree);
	mem_free(diff->base);
	return mem_free(diff);
}

static void write_base(const struct diff *diff, bool self, struct json_writer *json)
{
	json_member_array(json, self ? "base_self" : "base_total");
	for (size_t i = 0; i < diff->tree->count; i++)
		json_int(json, self ? diff->base[i].self : diff->base[i].total);
	json_end_array(json);
}

void diff_write_json(const struct diff *diff, struct json_writer *json)
{
	json_begin_object(json);
	json_member_cstring(json, "type", diff->tree->type);
	json_member_cstring(json, "unit", diff->tree->unit);
	json_member_int(json, "base_total", diff->base_total);
	json_member_int(json, "total", diff->tree->total);
	json_member_uint(json, "trimmed", diff->tree->trimmed);
	flame_write_strings(diff->tree, json);
	json_member_object(json, "nodes");
	flame_write_nodes(diff->tree, json);
	write_base(diff, false, json);
	write_base(diff, true, json);
	json_end_object(json);
	json_end_object(json);
}

/* ---- the table ---- */

/* Texts of one tree are interned: equal ones are the same pointer. */
DEFINE_ORDER(compare_functions, struct table_row,
	     ORDER(a->name, b->name) ?: ORDER(a->file, b->file) ?: ORDER(a->binary, b->binary));

static int side_table(const struct diff *diff, bool is_base, bool by_name, struct table *ret, struct error *err)
{
	int r = table_build_values(diff->tree, is_base ? diff->base : NULL, by_name, ret, err);
	if (!r)
		sort_array(ret->rows, ret->count, compare_functions);
	return r;
}

int64_t diff_table_change(const struct diff_table *table, int64_t base, int64_t value)
{
	if (table->relative && table->total && table->base_total) {
		double scaled = (double)value * ((double)table->base_total / (double)table->total);
		value = scaled >= 9.2e18    ? INT64_MAX
			: scaled <= -9.2e18 ? INT64_MIN
					    : (int64_t)(scaled + (scaled < 0 ? -0.5 : 0.5));
	}
	return sum_difference(value, base);
}

static int compare_rows(const void *left, const void *right, void *context)
{
	const struct diff_row *a = left, *b = right;
	return units_compare(diff_table_change(context, a->base_self, a->now.self),
			     diff_table_change(context, b->base_self, b->now.self)) ?:
		units_compare(diff_table_change(context, a->base_total, a->now.total),
			      diff_table_change(context, b->base_total, b->now.total)) ?:
		strcmp(a->now.name, b->now.name) ?: strcmp(a->now.binary, b->now.binary) ?: strcmp(a->now.file, b->now.file);
}

static int build_table(const struct diff *diff, bool relative, bool by_name, struct diff_table *ret, struct error *err)
{
	_cleanup_(table_release) struct table base = {0};
	_cleanup_(table_release) struct table side = {0};
	struct diff_table table = {.base_total = diff->base_total, .total = diff->tree->total, .relative = relative};
	int r = side_table(diff, true, by_name, &base, err);
	if (!r)
		r = side_table(diff, false, by_name, &side, err);
	if (r < 0)
		return r;
	table.rows = mem_alloc_array(side.count, sizeof(*table.rows));
	if (!table.rows)
		return error_nomem(err);
	/* Both tables are of one tree, so they have the same rows in the same order. */
	for (; table.count < side.count; table.count++) {
		const struct table_row *before = &base.rows[table.count];
		table.rows[table.count] = (struct diff_row){side.rows[table.count], before->self, before->total};
	}
	sort_array_by(table.rows, table.count, compare_rows, &table);
	*ret = table;
	return 0;
}

int diff_table_build(const struct diff *diff, bool relative, struct diff_table *ret, struct error *err)
{
	return build_table(diff, relative, false, ret, err);
}

int diff_table_build_by_name(const struct diff *diff, bool relative, struct diff_table *ret, struct error *err)
{
	return build_table(diff, relative, true, ret, err);
}

int diff_table_build_types(const struct profile *profile, size_t base_type, size_t sample_type, bool relative, bool by_name,
			   struct diff_table *ret, struct error *err)
{
	_cleanup_(table_release) struct table side = {0};
	_cleanup_(mem_freep) struct diff_value *bases = NULL;
	struct diff_table table = {.relative = relative};
	int r = table_build_sides(profile, sample_type, &base_type, FLAME_UNNAMED_BY_ADDRESS, by_name, &side, &bases,
				  &table.base_total, err);
	if (r < 0)
		return r;
	table.total = side.total;
	table.rows = mem_alloc_array(side.count, sizeof(*table.rows));
	if (!table.rows)
		return error_nomem(err);
	for (; table.count < side.count; table.count++)
		table.rows[table.count] =
			(struct diff_row){side.rows[table.count], bases[table.count].self, bases[table.count].total};
	table.texts = side.texts;
	side.texts = (struct intern){0};
	sort_array_by(table.rows, table.count, compare_rows, &table);
	*ret = table;
	return 0;
}

void diff_table_release(struct diff_table *table)
{
	mem_free(table->rows);
	intern_release(&table->texts);
	*table = (struct diff_table){0};
}

void diff_table_write_json(const struct diff_table *table, size_t limit, struct json_writer *json)
{
	size_t count = limit && limit < table->count ? limit : table->count;
	json_begin_object(json);
	json_member_int(json, "base_total", table->base_total);
	json_member_int(json, "total", table->total);
	json_member_uint(json, "count", table->count);
	json_member_array(json, "rows");
	for (size_t i = 0; i < count; i++) {
		const struct diff_row *row = &table->rows[i];
		const char *texts[][2] = {{"name", row->now.name}, {"file", row->now.file}, {"binary", row->now.binary}};
		json_begin_object(json);
		for (size_t k = 0; k < 3; k++)
			json_member_cstring(json, texts[k][0], texts[k][1]);
		json_member_uint(json, "line", row->now.line);
		json_member_uint(json, "kind", row->now.frame_type);
		json_member_int(json, "base_self", row->base_self);
		json_member_int(json, "self", row->now.self);
		json_member_int(json, "base_total", row->base_total);
		json_member_int(json, "total", row->now.total);
		json_end_object(json);
	}
	json_end_array(json);
	json_end_object(json);
}

int diff_table_write_text(const struct diff_table *table, const char *unit, size_t limit, struct buffer *out, struct error *err)
{
	struct table changes = {.total = table->base_total, .rows = mem_zalloc_array(table->count, sizeof(struct table_row))};
	if (!changes.rows)
		return error_nomem(err);
	for (size_t i = 0; i < table->count; i++) {
		const struct diff_row *row = &table->rows[i];
		struct table_row change = row->now;
		change.self = diff_table_change(table, row->base_self, row->now.self);
		change.total = diff_table_change(table, row->base_total, row->now.total);
		if (change.self || change.total)
			changes.rows[changes.count++] = change;
	}
	int r = table_write_text(&changes, unit, limit, out, err);
	table_release(&changes);
	return r;
}
