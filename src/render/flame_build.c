/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the flame tree.
 *
 * The profile's stacks are a trie of locations; the flame tree is a trie of functions: several locations of one function become
 * one node, and a location with inlined functions becomes several. A profile of a fleet has a million stacks, and a table of
 * (parent, function) -> node that is asked once for each of them misses the cache every time. So nothing is looked up. The tree
 * is unfolded from the root: a node has a list of stacks that end in it or lie below it (its members), and to expand it is to
 * deal those out to its children by function, an array by function telling where each one's child is. Totals are known before
 * that, from one backward pass over the stacks, since parents come before children.
 *
 * That order has a second use. No one can look at a million nodes, and a page should not have to load them: with a limit, the
 * nodes are expanded by falling total until there are enough. What is shown is then exact, and complete down to some size;
 * children that were not expanded are drawn as one, "(12 smaller)", so that nothing is missing from the sums; and the time
 * depends on what is shown, not on what there is. (Where the limit is above what there can be, they are expanded as they come.)
 *
 * A comparison of two sample types of one profile (diff.h) is the same tree with a second sum for each stack and node, that of
 * the base; siblings and what is expanded first go by both. So both sides are dealt out once, and what is left out is never
 * made.
 *
 * A stack has one place at a time: it is in the list of one node, waiting at one of the lines of its location (the outermost
 * first; 0 is the innermost, where the stack ends), and moves to a child when that node is expanded. Most stacks of a trie are
 * the only child of their parent, which has no value of its own, and were added right after it: such a run has one place, too,
 * and goes down from stack to stack. So what is kept is as much as there are samples, not as there are stacks: of one it is
 * half a cache line, and those below one stack are next to each other.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "render/flame_int.h"
#include "render/frame_set.h"
#include "render/units.h"

/* A run of stacks that have a value, or one above them has: `stack`, where it waits, to `last`, each the parent of the next
 * entry of the profile, its only child, and without a value of its own but for the last. */
struct slot {
	uint32_t stack, last;
	uint32_t line;			   /* of the location of `stack` */
	uint32_t next;			   /* in the list that it is in: slot + 1, 0 = the last */
	uint32_t child_first, child_count; /* slots */
	int64_t total;
};

struct node {
	uint32_t parent, frame;
	uint32_t depth : 30;
	bool inlined : 1, expanded : 1;
	union {
		uint32_t members; /* slot + 1, 0 = none; before it is expanded */
		uint32_t branch;  /* and afterwards */
	};
	int64_t total, base_total; /* 0 if nothing is compared */
};
/* What a node that is expanded has besides; many more are only met. */
struct branch {
	uint32_t child_first, child_count;
	int64_t self, base_self;
};

struct place {
	uint32_t parent, child; /* child is the place's if parent is the node being expanded; both + 1 */
};

struct waiting {
	uint64_t size;
	uint32_t node;
};

struct builder {
	const struct profile *profile;
	struct flame *flame;
	bool by_name; /* flame_build_by_name() */
	bool has_base;
	size_t base_type; /* sample type */
	struct slot *slots;
	int64_t *slot_bases;		       /* by slot: the base's total; NULL without one */
	int64_t *slot_selfs, *slot_base_selfs; /* by slot, where they are not what is left of totals: keep_selfs(); else NULL */
	struct diff_value *bases;	       /* by node of the result, likewise */
	uint32_t root;			       /* slot of the empty stack */
	struct frame_set frames;
	struct place *places; /* by frame */
	size_t place_count, place_capacity;
	/* Nodes */
	struct node *nodes;
	struct branch *branches;
	struct branch making; /* of the node that is being expanded */
	size_t node_count, node_capacity, branch_count, branch_capacity;
	struct waiting *heap; /* or a plain stack, when there is no limit */
	size_t heap_count, heap_capacity;
	/* Strings of the profile and of texts in the flame; + 1 */
	uint32_t *string_ids, *text_ids;
	/* Where stacks end, if that is asked for (else NULL): slot + 1 by stack; node + 1, or else the place in the result + 1,
	 * by slot; place in the result + 1, of itself and of "(N smaller)" below it, by node. */
	uint32_t *slot_of_stack, *end_of_slot, *rest_of_slot, *place_of_node, *rest_of_node;
};

static void builder_release(struct builder *b)
{
	void *arrays[] = {b->slots,	 b->places,	   b->nodes,	   b->branches,	      b->heap,		b->string_ids,
			  b->text_ids,	 b->slot_of_stack, b->end_of_slot, b->rest_of_slot,   b->place_of_node, b->rest_of_node,
			  b->slot_bases, b->bases,	   b->slot_selfs,  b->slot_base_selfs};
	for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
		mem_free(arrays[i]);
	frame_set_release(&b->frames);
}

static int builder_init(struct builder *b, const struct profile *profile, struct flame *flame, enum flame_unnamed unnamed,
			bool by_name, struct error *err)
{
	*b = (struct builder){.profile = profile, .flame = flame, .by_name = by_name};
	int r = frame_set_init(&b->frames, profile, unnamed, by_name, err);
	if (r < 0)
		return r;
	b->string_ids = mem_zalloc_array(profile->strings.count, sizeof(uint32_t));
	return b->string_ids ? 0 : error_nomem(err);
}

/* ---- stacks ---- */

/* By stack: how many of its children are used, then where the slots of its children end and begin, then its slot; all with
 * USED, if it is. */
#define USED	  0x80000000u
#define HAS_VALUE 0x40000000u
#define GOES_ON	  0x40000000u /* from then on: the run does, with the next stack */
#define COUNT	  0x3fffffffu
static_assert(LIMIT_PROFILE_ENTITIES <= COUNT);

/* The value of a sample that counts. */
static int64_t value_of(const struct builder *b, size_t sample, size_t type)
{
	int64_t value = b->profile->values[sample * b->profile->sample_type_count + type];
	return b->by_name && value < 0 ? 0 : value;
}

static void mark_stacks(struct builder *b, size_t sample_type, uint32_t *marks)
{
	const struct profile *profile = b->profile;
	for (size_t i = 0; i < profile->sample_count; i++) {
		bool has_value = value_of(b, i, sample_type) != 0;
		b->flame->sample_count += has_value;
		if (has_value || (b->has_base && value_of(b, i, b->base_type) != 0))
			marks[profile->samples[i].stack] |= USED | HAS_VALUE;
	}
	for (size_t i = profile->stack_count; i-- > 1 && !budget_poll();) {
		uint32_t *parent = &marks[profile->stacks[i].parent];
		assert(profile->stacks[i].parent < i);
		if (marks[i] & USED)
			*parent = (*parent + 1) | USED;
	}
}

/* Marks become where the slots of a stack's children end. Returns how many slots there are. */
static uint32_t count_slots(const struct profile *profile, uint32_t *marks)
{
	uint32_t end = 0;
	for (size_t i = 0; i < profile->stack_count; i++) {
		bool goes_on = i > 0 && (marks[i] & ~USED) == 1 && i + 1 < profile->stack_count && (marks[i + 1] & USED) &&
			       profile->stacks[i + 1].parent == i;
		end += goes_on ? 0 : marks[i] & COUNT;
		marks[i] = end | (marks[i] & USED) | (goes_on ? GOES_ON : 0);
	}
	return end;
}

/*
 * The slots of one stack's children are next to each other, in the order of stacks otherwise: marks are where they end, and as
 * slots are handed out from the back, where they begin. Children come after their parent, so those of stack i are all placed
 * when i is, and so are those of the stack behind it, whose first is the end of i's. From then on the mark of a run's last
 * stack is its slot.
 */
static int make_slots(struct builder *b, uint32_t *marks, struct error *err)
{
	const struct profile *profile = b->profile;
	uint32_t end = count_slots(profile, marks);
	b->slots = mem_alloc_array((size_t)end + 1, sizeof(*b->slots));
	if (!b->slots)
		return error_nomem(err);
	struct slot run = {0};
	for (uint32_t i = (uint32_t)profile->stack_count, last = end; i-- > 0;) {
		bool used = marks[i] & USED, goes_on = marks[i] & GOES_ON;
		uint32_t first = marks[i] & COUNT, count = last - first, at = end; /* of the empty stack */
		last = first;
		if (budget_poll())
			return error_nomem(err);
		if (i > 0 && !used)
			continue;
		if (goes_on)
			marks[i] = 0;
		else
			run = (struct slot){.last = i, .child_first = first, .child_count = count};
		if (i > 1 && marks[i - 1] & GOES_ON)
			continue;
		if (i > 0) /* it has a child, so it is used */
			at = --marks[profile->stacks[i].parent] & COUNT;
		run.stack = i;
		b->slots[at] = run;
		marks[run.last] = at | USED;
		if (b->slot_of_stack)
			b->slot_of_stack[run.last] = at + 1;
	}
	b->root = end;
	if (!b->slot_of_stack)
		return 0;
	b->end_of_slot = mem_zalloc_array((size_t)end + 1, sizeof(*b->end_of_slot));
	b->rest_of_slot = mem_zalloc_array((size_t)end + 1, sizeof(*b->rest_of_slot));
	return b->end_of_slot && b->rest_of_slot ? 0 : error_nomem(err);
}

/* One of the sums of slots: theirs, or those of the base. */
static int64_t *total_of(struct builder *b, bool base, uint32_t slot)
{
	return base ? &b->slot_bases[slot] : &b->slots[slot].total;
}

static void sum_slots(struct builder *b, size_t type, bool base, const uint32_t *marks)
{
	const struct profile *profile = b->profile;
	for (size_t i = 0; i < profile->sample_count; i++) {
		int64_t value = value_of(b, i, type);
		if (value)
			sum_to(total_of(b, base, marks[profile->samples[i].stack] & COUNT), value);
	}
	for (size_t i = profile->stack_count; i-- > 1 && !budget_poll();) {
		uint32_t slot = marks[i] & COUNT;
		if (!(marks[i] & USED)) /* or in the middle of a run */
			continue;
		uint32_t parent = marks[profile->stacks[b->slots[slot].stack].parent] & COUNT;
		sum_to(total_of(b, base, parent), *total_of(b, base, slot));
	}
}

/*
 * What is a stack's own is what is left of its total without its children, unless a sum stopped at a limit: those cannot be
 * taken apart, so there, and hardly anywhere is one, what is their own is summed by slot.
 */
static int keep_selfs(struct builder *b, size_t type, bool base, const uint32_t *marks, int64_t **ret, struct error *err)
{
	const struct profile *profile = b->profile;
	uint32_t full = 0;
	while (full <= b->root && !sum_is_full(*total_of(b, base, full)))
		full++;
	if (full > b->root)
		return 0;
	*ret = mem_zalloc_array((size_t)b->root + 1, sizeof(**ret));
	if (!*ret)
		return error_nomem(err);
	for (size_t i = 0; i < profile->sample_count; i++) {
		int64_t value = value_of(b, i, type);
		if (value)
			sum_to(&(*ret)[marks[profile->samples[i].stack] & COUNT], value);
	}
	return 0;
}

static int sum_side(struct builder *b, size_t type, bool base, const uint32_t *marks, int64_t **ret_selfs, struct error *err)
{
	sum_slots(b, type, base, marks);
	return keep_selfs(b, type, base, marks, ret_selfs, err);
}

static int read_stacks(struct builder *b, size_t sample_type, bool empty, struct error *err)
{
	_cleanup_(mem_freep) uint32_t *marks = mem_zalloc_array(b->profile->stack_count, sizeof(*marks));
	if (!marks)
		return error_nomem(err);
	if (!empty)
		mark_stacks(b, sample_type, marks);
	int r = make_slots(b, marks, err);
	if (r < 0)
		return r;
	b->slot_bases = b->has_base ? mem_zalloc_array((size_t)b->root + 1, sizeof(*b->slot_bases)) : NULL;
	if (b->has_base && !b->slot_bases)
		return error_nomem(err);
	if (!empty)
		r = sum_side(b, sample_type, false, marks, &b->slot_selfs, err);
	if (!r && !empty && b->has_base)
		r = sum_side(b, b->base_type, true, marks, &b->slot_base_selfs, err);
	return r;
}

/* ---- nodes ---- */

static int new_node(struct builder *b, struct node node, uint32_t *ret, struct error *err)
{
	int r = array_reserve(&b->nodes, &b->node_capacity, b->node_count + 1, FLAME_NODES_MAX);
	if (r == -E2BIG)
		return error_set(err, r, "the flame graph has more than %u nodes, the limit; select less", FLAME_NODES_MAX);
	if (r < 0)
		return error_nomem(err);
	*ret = (uint32_t)b->node_count++;
	b->nodes[*ret] = node;
	return 0;
}

/* Has a slot wait at the outermost line of a stack of its run. */
static void go_to(const struct builder *b, struct slot *slot, uint32_t stack)
{
	uint32_t lines = frame_set_line_count(&b->frames, stack);
	slot->stack = stack;
	slot->line = lines ? lines - 1 : 0;
}

static int reserve_places(struct builder *b, struct error *err)
{
	if (b->place_count == b->frames.count)
		return 0;
	if (array_reserve(&b->places, &b->place_capacity, b->frames.count, FRAME_TEXT) < 0)
		return error_nomem(err);
	while (b->place_count < b->frames.count)
		b->places[b->place_count++] = (struct place){0};
	return 0;
}

/* Moves a run to the child of `parent` that belongs to the frame it waits at. */
static int deal_out(struct builder *b, uint32_t parent, uint32_t id, struct error *err)
{
	struct slot *slot = &b->slots[id];
	uint32_t frame = 0, child_id;
	int r = frame_set_take(&b->frames, b->profile->stacks[slot->stack].location, slot->line, &frame, err);
	if (!r)
		r = reserve_places(b, err);
	if (r < 0)
		return r;
	struct place *place = &b->places[frame];
	if (place->parent != parent + 1) {
		struct node fresh = {.parent = parent, .frame = frame, .depth = b->nodes[parent].depth + 1, .inlined = true};
		r = new_node(b, fresh, &child_id, err);
		if (r < 0)
			return r;
		*place = (struct place){parent + 1, child_id};
	}
	struct node *child = &b->nodes[place->child];
	child->inlined &= slot->line + 1 < frame_set_line_count(&b->frames, slot->stack);
	sum_to(&child->total, slot->total);
	if (b->slot_bases)
		sum_to(&child->base_total, b->slot_bases[id]);
	slot->next = child->members;
	child->members = id + 1;
	return 0;
}

/* A run ends in this node: those that go on from there are dealt out. */
static int deal_out_children(struct builder *b, uint32_t node, const struct slot *stack, struct error *err)
{
	size_t at = (size_t)(stack - b->slots);
	int64_t self = stack->total, base_self = b->slot_bases ? b->slot_bases[at] : 0;
	if (b->end_of_slot)
		b->end_of_slot[at] = node + 1;
	for (uint32_t i = stack->child_first, end = i + stack->child_count; i < end; i++) {
		go_to(b, &b->slots[i], b->slots[i].stack);
		self = sum_difference(self, b->slots[i].total);
		base_self = sum_difference(base_self, b->slot_bases ? b->slot_bases[i] : 0);
		int r = deal_out(b, node, i, err);
		if (r < 0)
			return r;
	}
	sum_to(&b->making.self, b->slot_selfs ? b->slot_selfs[at] : self);
	sum_to(&b->making.base_self, b->slot_base_selfs ? b->slot_base_selfs[at] : base_self);
	return 0;
}

static struct bytes frame_name(const struct builder *b, uint32_t frame)
{
	return frame_set_text(&b->frames, b->frames.frames[frame].name);
}

/* Of both sides, by which siblings are ordered. */
static int64_t sum_of(const struct node *node)
{
	return sum_add(node->total, node->base_total);
}

static int compare_siblings(const void *left, const void *right, void *context)
{
	const struct builder *b = context;
	const struct node *one = left, *other = right;
	return ORDER(sum_of(other), sum_of(one)) ?: bytes_compare(frame_name(b, one->frame), frame_name(b, other->frame)) ?:
		ORDER(one->frame, other->frame);
}

#define SORT_SMALL 8
static void sort_siblings(struct builder *b, struct node *nodes, size_t count)
{
	if (count > SORT_SMALL)
		sort_array_by(nodes, count, compare_siblings, b);
	for (size_t i = 1; i < count && count <= SORT_SMALL; i++) {
		struct node node = nodes[i];
		size_t at = i;
		for (; at > 0 && compare_siblings(&nodes[at - 1], &node, b) > 0; at--)
			nodes[at] = nodes[at - 1];
		nodes[at] = node;
	}
}

static int expand(struct builder *b, uint32_t id, struct error *err)
{
	uint32_t member = b->nodes[id].members;
	int r = 0;
	if (array_reserve(&b->branches, &b->branch_capacity, b->branch_count + 1, FLAME_NODES_MAX) < 0)
		return error_nomem(err);
	b->making = (struct branch){.child_first = (uint32_t)b->node_count};
	while (member && r == 0) {
		if (budget_poll())
			return error_nomem(err);
		struct slot *slot = &b->slots[member - 1];
		uint32_t next = slot->next;
		bool ends = slot->line == 0 && slot->stack == slot->last;
		if (slot->line > 0)
			slot->line--;
		else if (!ends)
			go_to(b, slot, slot->stack + 1);
		r = ends ? deal_out_children(b, id, slot, err) : deal_out(b, id, member - 1, err);
		member = next;
	}
	if (r < 0)
		return r;
	b->making.child_count = (uint32_t)b->node_count - b->making.child_first;
	b->nodes[id].expanded = true;
	b->nodes[id].branch = (uint32_t)b->branch_count;
	b->branches[b->branch_count++] = b->making;
	sort_siblings(b, &b->nodes[b->making.child_first], b->making.child_count);
	return 0;
}

/* ---- the order of expansion ---- */

static uint64_t magnitude(int64_t value)
{
	return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

/* The larger of both sides. */
static uint64_t size_of(const struct node *node)
{
	uint64_t size = magnitude(node->total), base = magnitude(node->base_total);
	return size > base ? size : base;
}

static bool is_before(const struct waiting *one, const struct waiting *other)
{
	return one->size != other->size ? one->size > other->size : one->node < other->node;
}

static void heap_push(struct builder *b, uint32_t node)
{
	struct waiting item = {size_of(&b->nodes[node]), node};
	size_t at = b->heap_count++;
	for (; at > 0 && is_before(&item, &b->heap[(at - 1) / 2]); at = (at - 1) / 2)
		b->heap[at] = b->heap[(at - 1) / 2];
	b->heap[at] = item;
}

static uint32_t heap_pop(struct builder *b)
{
	uint32_t top = b->heap[0].node;
	struct waiting item = b->heap[--b->heap_count];
	size_t at = 0, child;
	for (; (child = 2 * at + 1) < b->heap_count; at = child) {
		if (child + 1 < b->heap_count && is_before(&b->heap[child + 1], &b->heap[child]))
			child++;
		if (!is_before(&b->heap[child], &item))
			break;
		b->heap[at] = b->heap[child];
	}
	b->heap[at] = item;
	return top;
}

/* Whether the next node is to be expanded though there are enough. */
static bool is_tie(const struct builder *b, uint64_t last)
{
	return b->by_name && b->heap[0].size == last;
}

/* The tree has no more nodes than this: one for each line of each stack's last location, and the root. */
static size_t nodes_bound(const struct builder *b)
{
	size_t bound = 1;
	for (uint32_t i = 0; i < b->root; i++) {
		for (uint32_t stack = b->slots[i].stack; stack <= b->slots[i].last; stack++) {
			uint32_t lines = frame_set_line_count(&b->frames, stack);
			bound += lines ? lines : 1;
		}
	}
	return bound;
}

/* What is to be written: a node, or (rest) what is left of its children; under which node of the result. */
struct pending {
	uint32_t node, parent;
	bool rest;
};

/* Bytes of the result, for each node that is expanded: itself and the rest of its children. */
#define RESULT_BYTES (2 * (sizeof(struct flame_node) + sizeof(struct pending) + sizeof(struct diff_value)))

/* Whether what there is of memory is needed to write what is expanded already; the slots go before that. */
static bool is_short(const struct builder *b, size_t expanded)
{
	size_t need = expanded * RESULT_BYTES, slots = (size_t)b->root * sizeof(*b->slots);
	return need > slots && need - slots > budget_left();
}

/* Whether the tree can be shown whole, and there is memory for it. */
static bool is_small(const struct builder *b, size_t nodes_max)
{
	size_t bound = nodes_bound(b),
	       node = 2 * (sizeof(struct node) + sizeof(struct branch) + sizeof(struct waiting)) + RESULT_BYTES;
	return bound <= nodes_max && bound < budget_left() / node;
}

/* A node that there was no memory to expand is as it was, but for its members, which only places are made of. */
static bool take_back(struct builder *b, uint32_t id, size_t node_count)
{
	if (b->slot_of_stack || !budget_forgive())
		return false;
	b->node_count = node_count;
	b->branch_count -= b->nodes[id].expanded;
	b->nodes[id].expanded = false;
	return true;
}

/* Expands a node, and has its children wait. */
static int grow_node(struct builder *b, uint32_t id, bool by_size, struct error *err)
{
	int r = expand(b, id, err);
	if (r < 0)
		return r;
	const struct branch *branch = &b->making;
	if (array_reserve(&b->heap, &b->heap_capacity, b->heap_count + branch->child_count, FLAME_NODES_MAX) < 0)
		return error_nomem(err);
	for (uint32_t i = branch->child_count; i-- > 0;) {
		if (by_size)
			heap_push(b, branch->child_first + i);
		else
			b->heap[b->heap_count++].node = branch->child_first + i;
	}
	return 0;
}

/* With a limit the tree may also end where memory does: it is complete down to another size then. */
static int grow(struct builder *b, size_t nodes_max, struct error *err)
{
	size_t expanded = 0;
	uint64_t last = 0;
	if (array_reserve(&b->heap, &b->heap_capacity, 1, FLAME_NODES_MAX) < 0)
		return error_nomem(err);
	b->heap[b->heap_count++] = (struct waiting){0};
	while (b->heap_count > 0 && (nodes_max == 0 || expanded < nodes_max || is_tie(b, last))) {
		last = b->heap[0].size;
		uint32_t id = nodes_max ? heap_pop(b) : b->heap[--b->heap_count].node;
		size_t node_count = b->node_count;
		int r = nodes_max && expanded && is_short(b, expanded) ? -ENOMEM : grow_node(b, id, nodes_max > 0, err);
		if (r < 0 && nodes_max && expanded && (is_short(b, expanded) || take_back(b, id, node_count)))
			break;
		if (r < 0)
			return r;
		expanded++;
	}
	b->heap = mem_free(b->heap);
	if (!b->slot_of_stack) {
		b->slots = mem_free(b->slots);
		b->slot_bases = mem_free(b->slot_bases);
		b->slot_selfs = mem_free(b->slot_selfs);
		b->slot_base_selfs = mem_free(b->slot_base_selfs);
	}
	return 0;
}

/* ---- the result ---- */

static int take_string(struct builder *b, uint32_t id, uint32_t *ret, struct error *err)
{
	uint32_t *known = id & FRAME_TEXT ? &b->text_ids[id & ~FRAME_TEXT] : &b->string_ids[id];
	if (*known == 0) {
		int r = frame_set_add_text(&b->flame->strings, frame_set_text(&b->frames, id), ret, err);
		if (r < 0)
			return r;
		*known = *ret + 1;
	}
	*ret = *known - 1;
	return 0;
}

static struct flame_node *add_result(struct builder *b, int64_t base_total, int64_t base_self)
{
	if (b->bases)
		b->bases[b->flame->count] = (struct diff_value){base_total, base_self};
	return &b->flame->nodes[b->flame->count++];
}

static const struct branch *branch_of(const struct builder *b, const struct node *node)
{
	return &b->branches[node->branch];
}

static int put_node(struct builder *b, uint32_t id, uint32_t parent, struct error *err)
{
	const struct node *node = &b->nodes[id];
	const struct frame *frame = &b->frames.frames[node->frame];
	struct flame_node *out = add_result(b, node->base_total, branch_of(b, node)->base_self);
	*out = (struct flame_node){.parent = parent,
				   .line = frame_set_line(&b->frames, node->frame),
				   .frame_type = frame->type,
				   .depth = node->depth,
				   .inlined = node->inlined,
				   .total = node->total,
				   .self = branch_of(b, node)->self};
	int r = take_string(b, frame->name, &out->name, err);
	if (r == 0)
		r = take_string(b, frame->file, &out->file, err);
	return r < 0 ? r : take_string(b, FRAME_TEXT | frame->binary, &out->binary, err);
}

struct rest {
	uint32_t count;
	int64_t total, base;
};

static struct rest rest_of(const struct builder *b, const struct node *node)
{
	struct rest rest = {0};
	const struct branch *branch = branch_of(b, node);
	for (uint32_t i = 0; i < branch->child_count; i++) {
		const struct node *child = &b->nodes[branch->child_first + i];
		if (child->expanded)
			continue;
		rest.count++;
		sum_to(&rest.total, child->total);
		sum_to(&rest.base, child->base_total);
	}
	return rest;
}

static int put_rest(struct builder *b, const struct node *node, uint32_t parent, struct error *err)
{
	char name[32];
	struct rest rest = rest_of(b, node);
	struct flame_node *out = add_result(b, rest.base, rest.base);
	*out = (struct flame_node){.parent = parent,
				   .frame_type = FLAME_FRAME_REST,
				   .depth = node->depth + 1,
				   .total = rest.total,
				   .self = rest.total};
	int len = snprintf(name, sizeof(name), "(%" PRIu32 " smaller)", rest.count);
	b->flame->trimmed += rest.count;
	return frame_set_add_text(&b->flame->strings, (struct bytes){(const uint8_t *)name, (size_t)len}, &out->name, err);
}

/* Children in reverse, so that the largest is taken first; the rest takes the place that its sum gives it. */
static size_t push_children(const struct builder *b, uint32_t id, uint32_t position, struct pending *pending, size_t count)
{
	const struct node *node = &b->nodes[id];
	struct rest rest = rest_of(b, node);
	bool due = rest.count > 0;
	const struct branch *branch = branch_of(b, node);
	for (uint32_t i = branch->child_count; i-- > 0;) {
		const struct node *child = &b->nodes[branch->child_first + i];
		if (!child->expanded)
			continue;
		if (due && sum_of(child) >= sum_add(rest.total, rest.base)) {
			pending[count++] = (struct pending){id, position, true};
			due = false;
		}
		pending[count++] = (struct pending){branch->child_first + i, position, false};
	}
	if (due)
		pending[count++] = (struct pending){id, position, true};
	return count;
}

static size_t count_result(const struct builder *b)
{
	size_t count = 0;
	for (size_t i = 0; i < b->node_count; i++)
		if (b->nodes[i].expanded)
			count += 1 + (rest_of(b, &b->nodes[i]).count > 0);
	return count;
}

static void note_place(struct builder *b, struct pending next)
{
	if (b->place_of_node)
		(next.rest ? b->rest_of_node : b->place_of_node)[next.node] = (uint32_t)b->flame->count + 1;
}

static int put_all(struct builder *b, struct error *err)
{
	size_t total = count_result(b), count = 0;
	_cleanup_(mem_freep) struct pending *pending = mem_alloc_array(total, sizeof(*pending));
	b->flame->nodes = mem_alloc_array(total, sizeof(*b->flame->nodes));
	b->bases = b->has_base ? mem_alloc_array(total, sizeof(*b->bases)) : NULL;
	b->text_ids = mem_zalloc_array(b->frames.texts.count, sizeof(*b->text_ids));
	if (b->slot_of_stack) {
		b->place_of_node = mem_zalloc_array(b->node_count, sizeof(*b->place_of_node));
		b->rest_of_node = mem_zalloc_array(b->node_count, sizeof(*b->rest_of_node));
	}
	if (!pending || !b->flame->nodes || !b->text_ids || (b->has_base && !b->bases) ||
	    (b->slot_of_stack && (!b->place_of_node || !b->rest_of_node)))
		return error_nomem(err);
	note_place(b, (struct pending){0});
	struct flame_node *root = add_result(b, b->nodes[0].base_total, branch_of(b, &b->nodes[0])->base_self);
	*root = (struct flame_node){.total = b->nodes[0].total, .self = branch_of(b, &b->nodes[0])->self};
	int r = frame_set_add_text(&b->flame->strings, bytes_of_string("total"), &root->name, err);
	count = push_children(b, 0, 0, pending, count);
	while (count > 0 && r == 0) {
		struct pending next = pending[--count];
		uint32_t position = (uint32_t)b->flame->count;
		if (budget_poll())
			return error_nomem(err);
		note_place(b, next);
		if (next.rest) {
			r = put_rest(b, &b->nodes[next.node], next.parent, err);
			continue;
		}
		r = put_node(b, next.node, next.parent, err);
		count = push_children(b, next.node, position, pending, count);
	}
	assert(r < 0 || b->flame->count == total);
	return r;
}

/* Where each stack ends in the result. What waits at a node that was not expanded is in the rest of that node's parent, and
 * so is all that is below it. */
static void place_stacks(struct builder *b, uint32_t *ret)
{
	for (size_t i = 0; i < b->node_count; i++)
		for (uint32_t member = b->nodes[i].expanded ? 0 : b->nodes[i].members; member;
		     member = b->slots[member - 1].next)
			b->rest_of_slot[member - 1] = b->rest_of_node[b->nodes[i].parent];
	for (size_t i = 0; i < b->profile->stack_count; i++) {
		uint32_t slot = b->slot_of_stack[i];
		ret[i] = i ? ret[b->profile->stacks[i].parent] : 0;
		if (slot && b->end_of_slot[slot - 1])
			ret[i] = b->place_of_node[b->end_of_slot[slot - 1] - 1] - 1;
		else if (slot && b->rest_of_slot[slot - 1])
			ret[i] = b->rest_of_slot[slot - 1] - 1;
	}
}

/* ---- build-ids ---- */

static int compare_binaries(const void *left, const void *right, void *context)
{
	const struct flame *flame = context;
	const struct flame_binary *a = left, *b = right;
	return bytes_compare(intern_get(&flame->strings, a->name), intern_get(&flame->strings, b->name))
		       ?: bytes_compare(intern_get(&flame->build_ids, a->build_id), intern_get(&flame->build_ids, b->build_id));
}

/* Sorted: each pair once, and of each binary no more than may be. */
static void unite_binaries(struct flame *flame)
{
	size_t kept = 0;
	for (size_t i = 0; i < flame->binary_count;) {
		uint32_t name = flame->binaries[i].name, count = 0;
		size_t first = kept;
		for (uint32_t last = UINT32_MAX; i < flame->binary_count && flame->binaries[i].name == name; i++) {
			if (flame->binaries[i].build_id == last)
				continue;
			last = flame->binaries[i].build_id;
			if (count++ < FLAME_BUILD_IDS_MAX)
				flame->binaries[kept++] = flame->binaries[i];
		}
		for (size_t k = first; k < kept; k++)
			flame->binaries[k].count = count;
	}
	flame->binary_count = kept;
}

/* Of the mappings whose frames were met and whose binary is named in the result. */
static int put_binaries(struct builder *b, struct error *err)
{
	const struct profile *profile = b->profile;
	struct flame *flame = b->flame;
	flame->binaries = mem_alloc_array(profile->mapping_count + 1, sizeof(*flame->binaries));
	if (!flame->binaries || intern_init(&flame->build_ids, LIMIT_PROFILE_STRING_BYTES) < 0)
		return error_nomem(err);
	for (size_t i = 0; i < profile->mapping_count; i++) {
		uint32_t text = b->frames.mapping_binaries[i];
		struct bytes build_id = profile_string_bytes(profile, profile->mappings[i].build_id);
		if (text <= 1 || b->text_ids[text - 1] == 0 || build_id.len == 0) /* not met, or a file without a name */
			continue;
		struct flame_binary *binary = &flame->binaries[flame->binary_count++];
		binary->name = b->text_ids[text - 1] - 1;
		int r = frame_set_add_text(&flame->build_ids, build_id, &binary->build_id, err);
		if (r < 0)
			return r;
	}
	sort_array_by(flame->binaries, flame->binary_count, compare_binaries, flame);
	unite_binaries(flame);
	return 0;
}

static void copy_text(char *out, size_t size, struct bytes text)
{
	size_t len = text.len < size - 1 ? text.len : size - 1;
	if (len > 0)
		memcpy(out, text.data, len);
	out[len] = '\0';
}

struct wish {
	size_t sample_type, base_type;
	enum flame_unnamed unnamed;
	bool by_name, has_base;
	size_t nodes_max;
	uint32_t *ret_places;	      /* NULL = not asked for */
	struct diff_value **ret_base; /* with has_base */
};

static int build(const struct profile *profile, const struct wish *wish, struct flame **ret, struct error *err)
{
	size_t sample_type = wish->sample_type, nodes_max = wish->nodes_max;
	/* Without sample types there are no samples, and the tree is its root. */
	bool empty = profile->sample_type_count == 0;
	uint32_t root;
	assert(empty || (sample_type < profile->sample_type_count && wish->base_type < profile->sample_type_count));
	_cleanup_(flame_freep) struct flame *flame = mem_zalloc(sizeof(*flame));
	if (!flame || intern_init(&flame->strings, LIMIT_PROFILE_STRING_BYTES) < 0)
		return error_nomem(err);
	if (!empty) {
		const struct profile_value_type *type = &profile->sample_types[sample_type];
		copy_text(flame->type, sizeof(flame->type), profile_string_bytes(profile, type->type));
		copy_text(flame->unit, sizeof(flame->unit), profile_string_bytes(profile, type->unit));
	}
	_cleanup_(builder_release) struct builder builder = {0};
	int r = builder_init(&builder, profile, flame, wish->unnamed, wish->by_name, err);
	builder.has_base = wish->has_base;
	builder.base_type = wish->base_type;
	if (r == 0 && wish->ret_places && !(builder.slot_of_stack = mem_zalloc_array(profile->stack_count, sizeof(uint32_t))))
		r = error_nomem(err);
	if (r == 0)
		r = read_stacks(&builder, sample_type, empty, err);
	if (r == 0)
		r = new_node(&builder,
			     (struct node){.total = builder.slots[builder.root].total,
					   .base_total = builder.slot_bases ? builder.slot_bases[builder.root] : 0,
					   .members = builder.root + 1},
			     &root, err);
	/* What is shown whole needs no order of expansion: of a million nodes that takes as long as all else. */
	if (r == 0 && nodes_max > 0 && is_small(&builder, nodes_max))
		nodes_max = 0;
	if (r == 0)
		r = grow(&builder, nodes_max, err);
	if (r == 0)
		r = put_all(&builder, err);
	if (r == 0)
		r = put_binaries(&builder, err);
	if (r < 0)
		return r;
	if (wish->ret_places)
		place_stacks(&builder, wish->ret_places);
	if (wish->ret_base)
		*wish->ret_base = TAKE(builder.bases);
	flame->total = flame->nodes[0].total;
	*ret = TAKE(flame);
	return 0;
}

int flame_build_largest(const struct profile *profile, size_t sample_type, enum flame_unnamed unnamed, size_t nodes_max,
			struct flame **ret, struct error *err)
{
	return build(profile, &(struct wish){.sample_type = sample_type, .unnamed = unnamed, .nodes_max = nodes_max}, ret, err);
}

int flame_build_placed(const struct profile *profile, size_t sample_type, enum flame_unnamed unnamed, size_t nodes_max,
		       uint32_t *ret_places, struct flame **ret, struct error *err)
{
	const struct wish wish = {
		.sample_type = sample_type, .unnamed = unnamed, .nodes_max = nodes_max, .ret_places = ret_places};
	return build(profile, &wish, ret, err);
}

int flame_build_by_name(const struct profile *profile, size_t sample_type, size_t nodes_max, struct flame **ret,
			struct error *err)
{
	const struct wish wish = {.sample_type = sample_type, .by_name = true, .nodes_max = nodes_max ? nodes_max + 1 : 0};
	return build(profile, &wish, ret, err);
}

int flame_build_sides(const struct profile *profile, size_t base_type, size_t sample_type, size_t nodes_max, bool by_name,
		      struct diff_value **ret_base, struct flame **ret, struct error *err)
{
	const struct wish wish = {.sample_type = sample_type,
				  .base_type = base_type,
				  .has_base = true,
				  .by_name = by_name,
				  .nodes_max = nodes_max,
				  .ret_base = ret_base};
	return build(profile, &wish, ret, err);
}

int flame_build(const struct profile *profile, size_t sample_type, enum flame_unnamed unnamed, struct flame **ret,
		struct error *err)
{
	return flame_build_largest(profile, sample_type, unnamed, 0, ret, err);
}
