/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An item stands for nodes of the flame tree, its sources: one, below the root of everything, and where a function is looked
 * at, all that have the same path from it. The children of an item are those of all its sources, put together by name.
 * Recursion counts once: of the places where a function is, those below another one are part of it.
 *
 * Only items that are large enough are looked into, so the work is that of what can be seen, whatever the tree has.
 */
#include "top/tree.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/order.h"
#include "base/sum.h"

/* A child of a source. */
struct part {
	uint32_t name, binary, type, node;
	int64_t total, self;
};

/* Parts of one name. */
struct group {
	size_t first, count;
	int64_t total, self;
};

struct growing {
	const struct top_data *data;
	const struct top_tree_options *options;
	int64_t whole, least;
	struct top_tree *tree;
	size_t item_capacity;
	uint32_t *sources; /* of the items on the way down, one behind the other */
	size_t source_count, source_capacity;
};

void top_tree_release(struct top_tree *tree)
{
	tree->items = mem_free(tree->items);
	tree->count = tree->caller_count = 0;
}

DEFINE_ORDER(compare_parts, struct part, ORDER(a->name, b->name) ?: ORDER(a->binary, b->binary) ?: ORDER(a->type, b->type) ?: ORDER(a->node, b->node));
DEFINE_ORDER(compare_groups, struct group, ORDER(b->total, a->total) ?: ORDER(a->first, b->first));

static bool is_same(const struct part *a, const struct part *b)
{
	return a->name == b->name && a->binary == b->binary && a->type == b->type;
}

struct parts {
	struct part *items;
	size_t count, capacity;
	int64_t folded; /* self of what was folded into the item above */
};

/* Frames without a name are known by their binary only: such a one that calls another is one, or a binary without symbols would
 * be a stairway. */
static bool is_folded(const struct flame *flame, const struct flame_node *node)
{
	const struct flame_node *parent = &flame->nodes[node->parent];
	return node->name == parent->name && node->binary == parent->binary && node->frame_type == parent->frame_type &&
	       intern_string(&flame->strings, node->name)[0] == '[';
}

static int collect_parts(const struct growing *growing, uint32_t source, struct parts *parts, struct error *err)
{
	const struct flame *flame = growing->data->flame;
	const uint32_t *ends = growing->data->ends;
	for (uint32_t at = source + 1; at < ends[source];) {
		const struct flame_node *node = &flame->nodes[at];
		if (is_folded(flame, node)) {
			sum_to(&parts->folded, node->self);
			at++; /* its children follow, as if they were its parent's */
			continue;
		}
		struct part part = {node->name, node->binary, node->frame_type, at, node->total, node->self};
		if (array_push(&parts->items, &parts->count, &parts->capacity, FLAME_NODES_MAX, part) < 0)
			return error_nomem(err);
		at = ends[at];
	}
	return 0;
}

static void parts_release(struct parts *parts)
{
	parts->items = mem_free(parts->items);
}

static int group_parts(struct parts *all, struct group **ret, size_t *ret_count, struct error *err)
{
	const struct part *parts = all->items;
	size_t capacity = 0, count = all->count;
	sort_bytes(all->items, count, sizeof(*all->items), compare_parts);
	for (size_t i = 0; i < count;) {
		struct group group = {.first = i};
		for (; i < count && is_same(&parts[i], &parts[group.first]); i++) {
			sum_to(&group.total, parts[i].total);
			sum_to(&group.self, parts[i].self);
			group.count++;
		}
		if (array_push(ret, ret_count, &capacity, FLAME_NODES_MAX, group) < 0)
			return error_nomem(err);
	}
	sort_bytes(*ret, *ret_count, sizeof(**ret), compare_groups);
	return 0;
}

static int add_item(struct growing *growing, const struct top_tree_item *item, struct error *err)
{
	struct top_tree *tree = growing->tree;
	return array_push(&tree->items, &tree->count, &growing->item_capacity, TOP_TREE_ITEMS_MAX, *item) < 0 ? error_nomem(err)
													      : 0;
}

/* The item of a group, whose sources come behind those of the items above. */
static int add_group(struct growing *growing, uint32_t parent, const struct part *parts, const struct group *group, double left,
		     struct error *err)
{
	const struct top_tree_item *above = &growing->tree->items[parent];
	const struct intern *strings = &growing->data->flame->strings;
	struct top_tree_item item = {.name = intern_string(strings, parts[group->first].name),
				     .binary = intern_string(strings, parts[group->first].binary),
				     .frame_type = parts[group->first].type,
				     .parent = parent,
				     .depth = above->depth + 1,
				     .left = left,
				     .right = left + (double)group->total / (double)growing->whole,
				     .total = group->total,
				     .self = group->self};
	item.id = hash64_mix(above->id ^ hash64(item.name, strlen(item.name)));
	for (size_t i = 0; i < group->count; i++)
		if (array_push(&growing->sources, &growing->source_count, &growing->source_capacity, FLAME_NODES_MAX,
			       parts[group->first + i].node) < 0)
			return error_nomem(err);
	return add_item(growing, &item, err);
}

/* As deep as the options allow, which a screen limits. */
static int grow(struct growing *growing, uint32_t parent, size_t first_source, struct error *err)
{
	_cleanup_(parts_release) struct parts parts = {0};
	_cleanup_(mem_freep) struct group *groups = NULL;
	size_t group_count = 0, sources_end = growing->source_count;
	double left = growing->tree->items[parent].left;
	int r = 0;
	if (growing->tree->items[parent].depth >= growing->options->depth_max)
		return 0;
	for (size_t i = first_source; i < sources_end && r == 0; i++)
		r = collect_parts(growing, growing->sources[i], &parts, err);
	sum_to(&growing->tree->items[parent].self, parts.folded);
	if (r == 0)
		r = group_parts(&parts, &groups, &group_count, err);
	for (size_t i = 0; i < group_count && r == 0; i++) {
		if (groups[i].total < growing->least || growing->tree->count == TOP_TREE_ITEMS_MAX)
			break;
		r = add_group(growing, parent, parts.items, &groups[i], left, err);
		if (r < 0)
			break;
		uint32_t item = (uint32_t)growing->tree->count - 1;
		growing->tree->items[item].is_last = i + 1 == group_count || groups[i + 1].total < growing->least;
		left = growing->tree->items[item].right;
		r = grow(growing, item, sources_end, err);
		growing->source_count = sources_end;
	}
	return r;
}

/* ---- the root ---- */

static bool is_focus(const struct top_data *data, uint32_t node, const struct top_focus *focus)
{
	return strcmp(top_node_name(data, node), focus->name) == 0 && strcmp(top_node_binary(data, node), focus->binary) == 0;
}

/* The places where the focus is, and not below itself. */
static int find_focus(struct growing *growing, struct top_tree_item *root, struct error *err)
{
	const struct top_data *data = growing->data;
	const struct top_focus *focus = &growing->options->focus;
	for (uint32_t i = 1; i < data->flame->count;) {
		if (!is_focus(data, i, focus)) {
			i++;
			continue;
		}
		const struct flame_node *node = &data->flame->nodes[i];
		sum_to(&root->total, node->total);
		sum_to(&root->self, node->self);
		root->frame_type = node->frame_type;
		root->name = top_node_name(data, i);
		root->binary = top_node_binary(data, i);
		if (array_push(&growing->sources, &growing->source_count, &growing->source_capacity, FLAME_NODES_MAX, i) < 0)
			return error_nomem(err);
		i = data->ends[i];
	}
	return 0;
}

DEFINE_ORDER(compare_callers, struct top_caller, ORDER(b->total, a->total) ?: strcmp(a->name, b->name));

static int find_callers(struct growing *growing, struct error *err)
{
	const struct flame *flame = growing->data->flame;
	_cleanup_(map64_release) struct map64 totals = {0};
	_cleanup_(mem_freep) struct top_caller *callers = NULL;
	size_t count = 0, capacity = 0;
	uint64_t name, total;
	for (size_t i = 0; i < growing->source_count; i++) {
		uint32_t parent = flame->nodes[growing->sources[i]].parent;
		int64_t value = flame->nodes[growing->sources[i]].total;
		if (map64_sum(&totals, parent ? flame->nodes[parent].name : 0, value) < 0)
			return error_nomem(err);
	}
	for (size_t cursor = 0; map64_next(&totals, &cursor, &name, &total);) {
		struct top_caller caller = {name ? intern_string(&flame->strings, (uint32_t)name) : "", (int64_t)total};
		if (array_push(&callers, &count, &capacity, FLAME_NODES_MAX, caller) < 0)
			return error_nomem(err);
	}
	sort_bytes(callers, count, sizeof(*callers), compare_callers);
	for (size_t i = 0; i < count && i < TOP_CALLERS_MAX; i++)
		growing->tree->callers[growing->tree->caller_count++] = callers[i];
	return 0;
}

static int add_root(struct growing *growing, struct error *err)
{
	const struct flame *flame = growing->data->flame;
	struct top_tree_item root = {.id = 1, .name = "all", .binary = "", .right = 1, .is_last = true};
	int r = 0;
	if (growing->options->focus.name)
		r = find_focus(growing, &root, err);
	else {
		root.total = flame->total;
		root.self = flame->nodes[0].self;
		r = array_push(&growing->sources, &growing->source_count, &growing->source_capacity, FLAME_NODES_MAX, 0) < 0
			    ? error_nomem(err)
			    : 0;
	}
	if (r < 0 || growing->source_count == 0 || root.total <= 0)
		return r;
	growing->whole = root.total;
	growing->least = (int64_t)((double)root.total * growing->options->least);
	growing->least = growing->least > 0 ? growing->least : 1;
	r = add_item(growing, &root, err);
	if (r == 0 && growing->options->focus.name)
		r = find_callers(growing, err);
	return r < 0 ? r : grow(growing, 0, 0, err);
}

int top_tree_build(const struct top_data *data, const struct top_tree_options *options, struct top_tree *ret, struct error *err)
{
	_cleanup_(top_tree_release) struct top_tree tree = {0};
	struct growing growing = {.data = data, .options = options, .tree = &tree};
	int r = add_root(&growing, err);
	mem_free(growing.sources);
	if (r < 0)
		return r;
	*ret = tree;
	tree = (struct top_tree){0};
	return 0;
}
