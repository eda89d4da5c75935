/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The union of the stacks of several blocks.
 *
 * What makes two stacks one. Their frames must be equal in all that is stored: the mapping, where in it, frame type, lines. The
 * 128-bit hash is not enough: it leaves the binary of a frame with lines out, and filters look at that. So strings, functions,
 * locations and nodes of the trie are interned in a profile, the same way the head does it, each node by (caller's node,
 * location). Mappings are the same part of the same binary whatever its address was in this or that process; the first address
 * is kept, and locations of the others are moved there (src/profile/copy.c).
 *
 * Hashes are not made anew: a stack has content, so the inputs have its hash.
 *
 * Only what used stacks need is taken over: their callers, the locations of those, and so on. Nothing is left behind of what
 * was deleted, and a merge of blocks holds no garbage of either.
 *
 * Order. Nodes are numbered depth-first, so that a callee follows its caller and the stacks of one service lie together; among
 * siblings the one that was seen first comes first, so that with inputs in the order of time the numbering of the first of them
 * is kept and rows that were sorted by stack mostly still are. Locations, functions and mappings are numbered by first use, in
 * that order.
 *
 * Memory. There may be a million nodes, so they are not kept in the profile: 8 bytes and a hash of 16 a node, in arrays that
 * grow by a quarter, and an open-addressing table of ids. A node that is the next one after its caller, which most are, is
 * found without the table and is not in it. How much blocks share cannot be known before, so what is there is measured while a
 * block is added, and the block is taken back when it gets too much.
 */
#include "store/compact/union.h"

#include <assert.h>
#include <errno.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "store/block/block_pool.h"

#define CHECK_EVERY 1024 /* nodes, between two looks at the memory */

struct stack_union {
	struct profile *pool; /* strings, mappings, functions, locations */
	/* Nodes of the trie, by id; 0 is the empty stack. From stack_union_finish() on by id of the tables. */
	uint32_t *parents, *locations;
	struct hash128 *hashes; /* zero = no row refers to it */
	size_t count, capacity;
	uint32_t *slots; /* ids, open addressing; 0 = free */
	size_t slot_count, slots_used;
	bool is_closed;	 /* nothing can be added any more */
	uint32_t *ranks; /* id -> id in the tables */
	uint8_t *used;	 /* by id in the tables */
	struct block_tables tables;
};

/* Room for one more node. */
static int reserve_nodes(struct stack_union *all, size_t need)
{
	if (need <= all->capacity)
		return 0;
	size_t capacity = need + need / 4 + 1024;
	uint32_t *parents = mem_realloc_array(all->parents, capacity, sizeof(*parents));
	if (parents)
		all->parents = parents;
	uint32_t *locations = mem_realloc_array(all->locations, capacity, sizeof(*locations));
	if (locations)
		all->locations = locations;
	struct hash128 *hashes = mem_realloc_array(all->hashes, capacity, sizeof(*hashes));
	if (hashes)
		all->hashes = hashes;
	if (!parents || !locations || !hashes)
		return -ENOMEM;
	if (all->capacity == 0) {
		parents[0] = locations[0] = 0;
		hashes[0] = (struct hash128){0};
	}
	all->capacity = capacity;
	return 0;
}

int stack_union_new(struct stack_union **ret, struct error *err)
{
	_cleanup_(stack_union_freep) struct stack_union *all = mem_zalloc(sizeof(*all));
	if (!all)
		return error_nomem(err);
	int r = profile_new(&all->pool, err);
	if (r == 0 && reserve_nodes(all, 1) < 0)
		r = error_nomem(err);
	all->count = 1;
	if (r < 0)
		return r;
	*ret = TAKE(all);
	return 0;
}

struct stack_union *stack_union_free(struct stack_union *all)
{
	if (!all)
		return NULL;
	profile_free(all->pool);
	/* Columns of stacks are the union's own arrays. */
	all->tables.stack_parents = all->tables.stack_locations = NULL;
	block_tables_release(&all->tables);
	mem_free(all->parents);
	mem_free(all->locations);
	mem_free(all->hashes);
	mem_free(all->slots);
	mem_free(all->ranks);
	mem_free(all->used);
	return mem_free(all);
}

/* ---- adding ---- */

struct adding {
	struct stack_union *all;
	const struct block_tables *tables;
	const struct block_hashes *hashes;
	const struct stack_union_limits *limits;
	struct error *err;
	struct block_to_pool to_pool;
	uint8_t *needed; /* by stack: it is used or calls one that is */
};

static bool has_hash(const struct block_hashes *hashes, size_t stack)
{
	return (hashes->hashes[stack].high | hashes->hashes[stack].low) != 0;
}

static void mark_needed(struct adding *a, const uint8_t *used)
{
	const struct block_tables *t = a->tables;
	for (size_t i = 0; i < t->stack_count; i++)
		a->needed[i] = used ? used[i] : has_hash(a->hashes, i);
	for (size_t i = t->stack_count; i-- > 1;)
		a->needed[t->stack_parents[i]] |= a->needed[i];
}

/* ---- nodes ---- */

static uint32_t *slot_of(const struct stack_union *all, uint32_t parent, uint32_t location)
{
	size_t mask = all->slot_count - 1, at = hash64_mix((uint64_t)parent << 32 | location) & mask;
	for (; all->slots[at]; at = (at + 1) & mask)
		if (all->parents[all->slots[at]] == parent && all->locations[all->slots[at]] == location)
			break;
	return &all->slots[at];
}

/* A node behind its caller is found without the table. */
static bool is_next(const struct stack_union *all, uint32_t parent, uint32_t location)
{
	size_t at = (size_t)parent + 1;
	return at < all->count && all->parents[at] == parent && all->locations[at] == location;
}

static int grow_slots(struct stack_union *all)
{
	struct stack_union grown = *all;
	grown.slot_count = all->slot_count ? 2 * all->slot_count : 1024;
	grown.slots = mem_zalloc_array(grown.slot_count, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	for (size_t i = 0; i < all->slot_count; i++)
		if (all->slots[i])
			*slot_of(&grown, all->parents[all->slots[i]], all->locations[all->slots[i]]) = all->slots[i];
	mem_free(all->slots);
	*all = grown;
	return 0;
}

static int add_node(struct stack_union *all, uint32_t parent, uint32_t location, uint32_t *ret)
{
	uint32_t *slot = NULL;
	if (is_next(all, parent, location)) {
		*ret = parent + 1;
		return 0;
	}
	if (all->slots_used >= all->slot_count / 10 * 7 && grow_slots(all) < 0)
		return -ENOMEM;
	slot = slot_of(all, parent, location);
	if (*slot) {
		*ret = *slot;
		return 0;
	}
	if (all->count >= INT32_MAX)
		return -E2BIG;
	if (reserve_nodes(all, all->count + 1) < 0)
		return -ENOMEM;
	uint32_t id = *ret = (uint32_t)all->count++;
	all->parents[id] = parent;
	all->locations[id] = location;
	all->hashes[id] = (struct hash128){0};
	if (id != parent + 1) {
		*slot = id;
		all->slots_used++;
	}
	return 0;
}

static int check_limits(struct adding *a)
{
	const struct stack_union_limits *limits = a->limits;
	if (!limits || (a->all->count <= limits->stacks && stack_union_bytes(a->all) <= limits->bytes))
		return 0;
	return error_set(a->err, -E2BIG, "the stacks of the blocks do not fit into memory together");
}

/* Callers come before callees, so a caller's id is known. */
static int add_stacks(struct adding *a, const uint8_t *used, uint32_t *ids)
{
	const struct block_tables *t = a->tables;
	mark_needed(a, used);
	for (size_t i = 1; i < t->stack_count; i++) {
		uint32_t location = 0;
		if (!a->needed[i])
			continue;
		int r = i % CHECK_EVERY ? 0 : check_limits(a);
		if (r == 0)
			r = block_to_pool_location(&a->to_pool, (uint32_t)t->stack_locations[i], &location);
		if (r < 0)
			return r;
		r = add_node(a->all, ids[t->stack_parents[i]], location, &ids[i]);
		if (r < 0)
			return r == -ENOMEM ? error_nomem(a->err) : error_set(a->err, r, "too many stacks");
	}
	int r = check_limits(a);
	/* Only now: a block that is taken back leaves no marks. */
	for (size_t i = 1; r == 0 && i < t->stack_count; i++)
		if (used ? used[i] : has_hash(a->hashes, i))
			a->all->hashes[ids[i]] = a->hashes->hashes[i];
	return r;
}

static int add_block(struct adding *a, const uint8_t *used, uint32_t *ids)
{
	const struct block_tables *t = a->tables;
	if (a->hashes->count != t->stack_count)
		return error_set(a->err, -EBADMSG, "the numbers of stacks and hashes differ");
	a->needed = mem_alloc(t->stack_count);
	if (!a->needed)
		return error_nomem(a->err);
	int r = block_to_pool_start(&a->to_pool);
	return r == 0 ? add_stacks(a, used, ids) : r;
}

int stack_union_add(struct stack_union *all, const struct block_tables *tables, const struct block_hashes *hashes,
		    const uint8_t *used, const struct stack_union_limits *limits, uint32_t **ret_ids, struct error *err)
{
	struct adding a = {.all = all, .tables = tables, .hashes = hashes, .limits = limits, .err = err};
	a.to_pool = (struct block_to_pool){.tables = tables, .pool = all->pool, .err = err};
	size_t before = all->count;
	assert(!all->is_closed);
	uint32_t *ids = mem_zalloc_array(tables->stack_count, sizeof(*ids));
	if (!ids)
		return error_nomem(err);
	int r = add_block(&a, used, ids);
	block_to_pool_release(&a.to_pool);
	mem_free(a.needed);
	if (r < 0) {
		/* New nodes are the last ones; the table is not needed for what comes now. */
		all->count = before;
		all->is_closed = true;
		mem_free(ids);
		return r;
	}
	*ret_ids = ids;
	return 0;
}

/* ---- memory ---- */

/* Entries of the profile, with what growing by doubling leaves unused in the mean, their index, and their row in the tables
 * that are made of them. */
#define LOCATION_BYTES (48 + 20 + 30)
#define LINE_BYTES     (36 + 20)
#define FUNCTION_BYTES (36 + 20 + 60)
#define NODE_BYTES     (3 * 4) /* numbering */

uint64_t stack_union_bytes(const struct stack_union *all)
{
	const struct profile *pool = all->pool;
	const struct intern *strings = &pool->strings;
	uint64_t numbering = all->count * NODE_BYTES, slots = all->slot_count * sizeof(*all->slots);
	return all->capacity * (2 * sizeof(uint32_t) + sizeof(struct hash128)) + (slots > numbering ? slots : numbering) +
	       pool->location_count * LOCATION_BYTES + pool->line_count * LINE_BYTES + pool->function_count * FUNCTION_BYTES +
	       strings->arena.used_bytes + strings->capacity * sizeof(struct bytes) +
	       strings->index.capacity * sizeof(struct index32_slot);
}

/* ---- the tables ---- */

static int order_stacks(struct stack_union *all, struct error *err)
{
	size_t count;
	all->slots = mem_free(all->slots);
	all->ranks = mem_alloc_array(all->count, sizeof(*all->ranks));
	if (!all->ranks)
		return error_nomem(err);
	return block_rank_stacks(all->parents, all->count, NULL, all->ranks, NULL, &count, err);
}

struct node {
	uint32_t parent, location;
	struct hash128 hash;
};

static struct node swap_node(struct stack_union *all, size_t at, struct node node)
{
	struct node old = {all->parents[at], all->locations[at], all->hashes[at]};
	all->parents[at] = node.parent;
	all->locations[at] = node.location;
	all->hashes[at] = node.hash;
	return old;
}

/* Puts nodes where their ranks say, in place: along the cycles of the permutation. */
static int make_stacks(struct stack_union *all, struct error *err)
{
	struct block_tables *t = &all->tables;
	uint8_t *done = all->used = mem_zalloc(all->count);
	if (!done)
		return error_nomem(err);
	for (size_t i = 0; i < all->count; i++)
		all->parents[i] = all->ranks[all->parents[i]];
	for (size_t i = 0; i < all->count; i++) {
		if (done[i])
			continue;
		struct node node = {all->parents[i], all->locations[i], all->hashes[i]};
		size_t at = i;
		do {
			at = all->ranks[at];
			node = swap_node(all, at, node);
			done[at] = 1;
		} while (at != i);
	}
	for (size_t i = 0; i < all->count; i++)
		all->used[i] = (all->hashes[i].high | all->hashes[i].low) != 0;
	/* The hash of the empty stack is zero, so it does not tell whether a row has it. */
	all->used[0] = 1;
	t->stack_count = all->count;
	t->stack_parents = (int32_t *)all->parents;
	t->stack_locations = (int32_t *)all->locations;
	return 0;
}

/* Locations are numbered by first use, in the order of the stacks. */
static int make_tables(struct stack_union *all, struct numbering *locations, struct error *err)
{
	int r = numbering_init(locations, all->pool->location_count, err);
	for (size_t i = 0; r == 0 && i < all->count; i++)
		all->locations[i] = numbering_get(locations, all->locations[i]);
	return r == 0 ? block_tables_of_pool(all->pool, locations, &all->tables, err) : r;
}

int stack_union_finish(struct stack_union *all, struct error *err)
{
	_cleanup_(numbering_release) struct numbering locations = {0};
	assert(!all->ranks);
	all->is_closed = true;
	int r = order_stacks(all, err);
	if (r == 0)
		r = make_stacks(all, err);
	if (r == 0)
		r = make_tables(all, &locations, err);
	return r;
}

void stack_union_renumber(const struct stack_union *all, uint32_t *ids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		ids[i] = all->ranks[ids[i]];
}

const struct block_tables *stack_union_tables(const struct stack_union *all)
{
	return &all->tables;
}

const uint8_t *stack_union_used(const struct stack_union *all)
{
	return all->used;
}

const struct hash128 *stack_union_hashes(const struct stack_union *all)
{
	return all->hashes;
}
