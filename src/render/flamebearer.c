/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's flame graphs (github.com/grafana/pyroscope: pkg/og/structs/flamebearer, pkg/model/flamegraph.go, tree.go).
 *
 * The one form is a list of names and a list of levels, one a row of the drawing. A level holds its nodes from left to right,
 * four numbers each: where it begins, counted from the end of the node before it in the same level; its total; its self; its
 * name. The root is level 0 and called "total". Children begin behind the self value of their parent and come in the order of
 * their names, so that two graphs of the same program look alike; what was too small to show comes last and is called "other".
 * In a comparison a node has seven numbers: begin, total and self on the left, the same on the right, and its name, and every
 * node is there on both sides, with zeros where it is not.
 *
 * Which nodes are too small: those smaller than the n-th largest, so that ties may show a few more than n. For single trees
 * flame_build_by_name() sees to it, which need not make what is not shown; a comparison has to be whole first.
 *
 * The other form is the tree in pre-order: length and bytes of the name, self, number of children, all as varints, beginning
 * with a nameless root.
 *
 * A function that happens to be called "other" stays what it is, where Pyroscope counts it, and all below it, as left out.
 */
#include "render/flamebearer.h"
#include "render/flame_int.h"
#include "render/units.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "codec/protobuf.h"

#define OTHER "other"

/* What is drawn: a node of the tree, or what was left out below one. */
struct item {
	uint32_t node;	 /* of the tree; of a rest: its parent */
	bool rest;	 /* left out here, or a rest that the tree came with */
	bool rest_added; /* by us: its values are in rests */
	uint32_t level;
	int64_t x[2]; /* left (or only), right */
};

struct sides {
	int64_t total[2], self[2];
};

struct layout {
	const struct flame *tree;
	const struct diff_value *base; /* NULL = a single tree */
	struct flamebearer *to;
	uint64_t threshold;
	uint32_t *child_start, *children; /* those of node i: children[child_start[i] .. child_start[i + 1] - 1] */
	bool *kept;
	struct sides *rests; /* by node: what was left out below it; a comparison's only */
	struct item *stack;
	size_t *level_at;   /* where the next node of a level goes */
	uint32_t *name_ids; /* by string of the tree; + 1 */
	uint32_t other_id;  /* + 1 */
};

static void layout_release(struct layout *l)
{
	void *arrays[] = {l->child_start, l->children, l->kept, l->rests, l->stack, l->level_at, l->name_ids};
	for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
		mem_free(arrays[i]);
}

static struct sides sides_of(const struct layout *l, uint32_t node)
{
	const struct flame_node *own = &l->tree->nodes[node];
	if (!l->base)
		return (struct sides){.total = {own->total}, .self = {own->self}};
	return (struct sides){.total = {l->base[node].total, own->total}, .self = {l->base[node].self, own->self}};
}

/* ---- which nodes ---- */

static uint64_t node_size(const struct layout *l, uint32_t node)
{
	struct sides sides = sides_of(l, node);
	int64_t size = sides.total[0] > sides.total[1] ? sides.total[0] : sides.total[1];
	return size > 0 ? (uint64_t)size : 0;
}

static int find_threshold(struct layout *l, size_t nodes_max, struct error *err)
{
	if (nodes_max == 0 || l->tree->count <= nodes_max)
		return 0;
	_cleanup_(mem_freep) uint64_t *sizes = mem_alloc_array(l->tree->count, sizeof(*sizes));
	if (!sizes)
		return error_nomem(err);
	for (uint32_t i = 0; i < l->tree->count; i++)
		sizes[i] = node_size(l, i);
	l->threshold = flame_threshold(sizes, l->tree->count, nodes_max);
	return 0;
}

/* Parents come before children; what is left out is counted where it hangs on what is kept. */
static size_t choose(struct layout *l)
{
	size_t items = 0;
	for (uint32_t i = 0; i < l->tree->count && !budget_poll(); i++) {
		uint32_t parent = l->tree->nodes[i].parent;
		if (i && !l->kept[parent])
			continue;
		l->kept[i] = i == 0 || node_size(l, i) >= l->threshold;
		if (l->kept[i]) {
			items++;
			continue;
		}
		struct sides sides = sides_of(l, i);
		struct sides *rest = &l->rests[parent];
		items += rest->total[0] == 0 && rest->total[1] == 0;
		for (unsigned side = 0; side < 2; side++)
			rest->self[side] = rest->total[side] = sum_add(rest->total[side], sides.total[side]);
	}
	return items;
}

/* ---- order ---- */

static int compare_names(const void *left, const void *right, void *context)
{
	const struct flame *tree = context;
	uint32_t a_id = *(const uint32_t *)left, b_id = *(const uint32_t *)right;
	const struct flame_node *a = &tree->nodes[a_id], *b = &tree->nodes[b_id];
	bool a_rest = a->frame_type == FLAME_FRAME_REST, b_rest = b->frame_type == FLAME_FRAME_REST;
	return ORDER(a_rest, b_rest) ?:
		bytes_compare(intern_get(&tree->strings, a->name), intern_get(&tree->strings, b->name)) ?:
		ORDER(a_id, b_id);
}

/* ---- levels ---- */

static uint32_t take_name(struct layout *l, const struct item *item)
{
	const struct flame_node *node = &l->tree->nodes[item->node];
	uint32_t *known = item->rest ? &l->other_id : &l->name_ids[node->name];
	if (*known == 0) {
		l->to->names[l->to->name_count++] =
			item->rest ? bytes_of_string(OTHER) : intern_get(&l->tree->strings, node->name);
		*known = (uint32_t)l->to->name_count;
	}
	return *known - 1;
}

static void put(struct layout *l, const struct item *item, const struct sides *sides)
{
	int64_t *at = &l->to->values[l->level_at[item->level]];
	unsigned count = l->base ? 2 : 1;
	for (unsigned side = 0; side < count; side++) {
		*at++ = item->x[side];
		*at++ = sides->total[side];
		*at++ = sides->self[side];
		if (sides->self[side] > l->to->max_self)
			l->to->max_self = sides->self[side];
	}
	*at = take_name(l, item);
	l->level_at[item->level] += l->to->node_values;
}

/* Pushes an item's children from the last to the first, and says where each begins. */
static size_t push_children(struct layout *l, const struct item *item, const struct sides *sides, size_t depth)
{
	struct item child = {.level = item->level + 1};
	const struct sides *rest = l->rests ? &l->rests[item->node] : NULL;
	size_t first = depth;
	for (unsigned side = 0; side < 2; side++)
		child.x[side] = sum_add(item->x[side], sides->self[side]);
	for (uint32_t i = l->child_start[item->node]; i < l->child_start[item->node + 1]; i++) {
		struct sides own = sides_of(l, l->children[i]);
		if (!l->kept[l->children[i]])
			continue;
		child.node = l->children[i];
		child.rest = l->tree->nodes[child.node].frame_type == FLAME_FRAME_REST;
		l->stack[depth++] = child;
		for (unsigned side = 0; side < 2; side++)
			child.x[side] = sum_add(child.x[side], own.total[side]);
	}
	if (rest && (rest->total[0] || rest->total[1])) {
		child.node = item->node;
		child.rest = child.rest_added = true;
		l->stack[depth++] = child;
	}
	for (size_t low = first, high = depth; low + 1 < high; low++) {
		struct item swapped = l->stack[low];
		l->stack[low] = l->stack[--high];
		l->stack[high] = swapped;
	}
	return depth;
}

static void place(struct layout *l)
{
	size_t depth = 0;
	l->stack[depth++] = (struct item){0};
	while (depth > 0 && !budget_poll()) {
		struct item item = l->stack[--depth];
		struct sides sides = item.rest_added ? l->rests[item.node] : sides_of(l, item.node);
		put(l, &item, &sides);
		if (!item.rest)
			depth = push_children(l, &item, &sides, depth);
	}
}

/* How many values each level will have: level_at becomes where each begins. */
static int make_levels(struct layout *l, struct error *err)
{
	struct flamebearer *to = l->to;
	size_t levels = 1, end = 0;
	for (size_t i = 0; i < l->tree->count; i++)
		if (l->tree->nodes[i].depth + 2 > levels)
			levels = l->tree->nodes[i].depth + 2; /* with a rest below it */
	l->level_at = mem_zalloc_array(levels, sizeof(*l->level_at));
	to->level_ends = mem_zalloc_array(levels, sizeof(*to->level_ends));
	if (!l->level_at || !to->level_ends)
		return error_nomem(err);
	for (uint32_t i = 0; i < l->tree->count; i++) {
		if (!l->kept[i])
			continue;
		to->level_ends[l->tree->nodes[i].depth]++;
		if (l->rests && (l->rests[i].total[0] || l->rests[i].total[1]))
			to->level_ends[l->tree->nodes[i].depth + 1]++;
	}
	for (size_t i = 0; i < levels; i++) {
		if (to->level_ends[i])
			to->level_count = i + 1;
		l->level_at[i] = end;
		end += to->level_ends[i] * to->node_values;
		to->level_ends[i] = end;
	}
	return 0;
}

static void encode_offsets(struct flamebearer *to, unsigned offset)
{
	for (size_t level = 0, at = 0; level < to->level_count; level++) {
		int64_t end = 0;
		for (; at < to->level_ends[level]; at += to->node_values) {
			int64_t *x = &to->values[at + offset];
			int64_t begin = *x;
			*x = sum_difference(begin, end);
			end = sum_add(begin, x[1]);
		}
	}
}

static int lay_out(struct layout *l, size_t nodes_max, struct error *err)
{
	size_t count = l->tree->count;
	struct flamebearer *to = l->to;
	l->child_start = mem_zalloc_array(count + 1, sizeof(*l->child_start));
	l->children = mem_alloc_array(count, sizeof(*l->children));
	l->kept = mem_zalloc_array(count, sizeof(*l->kept));
	l->rests = l->base ? mem_zalloc_array(count, sizeof(*l->rests)) : NULL;
	l->name_ids = mem_zalloc_array(l->tree->strings.count, sizeof(*l->name_ids));
	to->names = mem_alloc_array(l->tree->strings.count + 1, sizeof(*to->names));
	if (!l->child_start || !l->children || !l->kept || (l->base && !l->rests) || !l->name_ids || !to->names)
		return error_nomem(err);
	int r = find_threshold(l, nodes_max, err);
	if (r < 0)
		return r;
	size_t items = choose(l);
	l->stack = mem_alloc_array(items, sizeof(*l->stack));
	to->values = mem_alloc_array(items * to->node_values, sizeof(*to->values));
	if (!l->stack || !to->values)
		return error_nomem(err);
	flame_sort_children(l->tree, l->child_start, l->children, compare_names);
	r = make_levels(l, err);
	if (r < 0)
		return r;
	place(l);
	encode_offsets(to, 0);
	if (l->base)
		encode_offsets(to, 3);
	return 0;
}

int flamebearer_of_flame(const struct flame *flame, struct flamebearer *ret, struct error *err)
{
	*ret = (struct flamebearer){.node_values = FLAMEBEARER_SINGLE, .total = flame->total};
	_cleanup_(layout_release) struct layout layout = {.tree = flame, .to = ret};
	int r = lay_out(&layout, 0, err);
	if (r < 0)
		flamebearer_release(ret);
	return r;
}

int flamebearer_of_diff(const struct diff *diff, size_t nodes_max, struct flamebearer *ret, struct error *err)
{
	*ret = (struct flamebearer){.node_values = FLAMEBEARER_DOUBLE,
				    .left_total = diff->base_total,
				    .right_total = diff->tree->total,
				    .total = sum_add(diff->base_total, diff->tree->total)};
	_cleanup_(layout_release) struct layout layout = {.tree = diff->tree, .base = diff->base, .to = ret};
	int r = lay_out(&layout, nodes_max, err);
	if (r < 0)
		flamebearer_release(ret);
	return r;
}

void flamebearer_release(struct flamebearer *flamebearer)
{
	mem_free(flamebearer->names);
	mem_free(flamebearer->values);
	mem_free(flamebearer->level_ends);
	*flamebearer = (struct flamebearer){0};
}

/* ---- writing ---- */

void flamebearer_write_json(const struct flamebearer *flamebearer, struct json_writer *json)
{
	json_member_array(json, "names");
	for (size_t i = 0; i < flamebearer->name_count; i++)
		json_bytes(json, flamebearer->names[i]);
	json_end_array(json);
	json_member_array(json, "levels");
	for (size_t level = 0, at = 0; level < flamebearer->level_count; level++) {
		json_begin_array(json);
		for (; at < flamebearer->level_ends[level]; at++)
			json_int(json, flamebearer->values[at]);
		json_end_array(json);
	}
	json_end_array(json);
	json_member_int(json, "numTicks", flamebearer->total);
	json_member_int(json, "maxSelf", flamebearer->max_self);
}

int flamebearer_write_protobuf(const struct flamebearer *flamebearer, struct buffer *out)
{
	for (size_t i = 0; i < flamebearer->name_count; i++)
		pb_write_text(out, 1, flamebearer->names[i]);
	for (size_t level = 0, at = 0; level < flamebearer->level_count; at = flamebearer->level_ends[level++]) {
		size_t mark;
		pb_begin(out, 2, &mark);
		pb_write_packed(out, 1, (const uint64_t *)&flamebearer->values[at], flamebearer->level_ends[level] - at);
		pb_end(out, mark);
	}
	pb_put_varint(out, 3, (uint64_t)flamebearer->total);
	pb_put_varint(out, 4, (uint64_t)flamebearer->max_self);
	pb_put_varint(out, 5, (uint64_t)flamebearer->left_total);
	pb_put_varint(out, 6, (uint64_t)flamebearer->right_total);
	return buffer_status(out);
}

int flamebearer_write_tree(const struct flame *flame, struct buffer *out, struct error *err)
{
	_cleanup_(mem_freep) uint32_t *children = mem_zalloc_array(flame->count, sizeof(*children));
	if (!children)
		return error_nomem(err);
	if (flame->count <= 1)
		return 0; /* no data, no bytes */
	for (size_t i = 1; i < flame->count; i++)
		children[flame->nodes[i].parent]++;
	for (size_t i = 0; i < flame->count; i++) {
		const struct flame_node *node = &flame->nodes[i];
		struct bytes name = intern_get(&flame->strings, node->name);
		if (i == 0)
			name.len = 0;
		else if (node->frame_type == FLAME_FRAME_REST)
			name = bytes_of_string(OTHER);
		pb_write_raw_varint(out, name.len);
		buffer_append(out, name.data, name.len);
		pb_write_raw_varint(out, (uint64_t)node->self);
		pb_write_raw_varint(out, children[i]);
	}
	int r = buffer_status(out);
	return r < 0 ? error_set(err, r, "the tree does not fit into a response") : 0;
}
