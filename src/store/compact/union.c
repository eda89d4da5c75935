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
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "profile/merge.h"

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
	struct stack_union *all = mem_zalloc(sizeof(*all));
	if (!all)
		return error_nomem(err);
	int r = profile_new(&all->pool, err);
	if (r == 0 && reserve_nodes(all, 1) < 0)
		r = error_nomem(err);
	all->count = 1;
	if (r < 0) {
		stack_union_free(all);
		return r;
	}
	*ret = all;
	return 0;
}

static void free_tables(struct block_tables *t)
{
	/* Columns of stacks are the union's own arrays. */
	void *const columns[] = {t->location_mappings,	   t->location_frame_types, t->location_addresses,
				 t->location_folded,	   t->location_line_firsts, t->line_functions,
				 t->line_numbers,	   t->line_columns,	    t->function_names,
				 t->function_system_names, t->function_file_names,  t->function_start_lines,
				 t->mapping_starts,	   t->mapping_limits,	    t->mapping_offsets,
				 t->mapping_file_names,	   t->mapping_build_ids,    t->mapping_flags};
	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
		mem_free(columns[i]);
}

struct stack_union *stack_union_free(struct stack_union *all)
{
	if (!all)
		return NULL;
	profile_free(all->pool);
	mem_free(all->parents);
	mem_free(all->locations);
	mem_free(all->hashes);
	mem_free(all->slots);
	mem_free(all->ranks);
	mem_free(all->used);
	free_tables(&all->tables);
	return mem_free(all);
}

/* ---- adding ---- */

struct adding {
	struct stack_union *all;
	const struct block_tables *tables;
	const struct block_hashes *hashes;
	const struct stack_union_limits *limits;
	struct error *err;
	struct profile *mappings; /* of the block */
	struct profile_copy *copy;
	uint32_t *mapping_ids; /* block's id -> id in `mappings` */
	uint32_t *functions;   /* block's id -> pool's id; 0 = not yet */
	uint32_t *locations;   /* likewise */
	uint8_t *needed;       /* by stack: it is used or calls one that is */
	struct profile_line *lines;
	size_t line_capacity;
};

static int add_text(struct adding *a, struct profile *profile, struct bytes text, uint32_t *ret)
{
	return profile_add_string(profile, text.data, text.len, ret, a->err);
}

static int collect_mappings(struct adding *a)
{
	const struct block_tables *t = a->tables;
	a->mapping_ids = mem_zalloc_array(t->mapping_count, sizeof(*a->mapping_ids));
	if (!a->mapping_ids)
		return error_nomem(a->err);
	int r = profile_new(&a->mappings, a->err);
	for (size_t i = 1; r == 0 && i < t->mapping_count; i++) {
		struct profile_mapping mapping = {.start = (uint64_t)t->mapping_starts[i],
						  .limit = (uint64_t)t->mapping_limits[i],
						  .offset = (uint64_t)t->mapping_offsets[i],
						  .flags = (uint32_t)t->mapping_flags[i]};
		r = add_text(a, a->mappings, t->mapping_file_names[i], &mapping.file_name);
		if (r == 0)
			r = add_text(a, a->mappings, t->mapping_build_ids[i], &mapping.build_id);
		if (r == 0)
			r = profile_add_mapping(a->mappings, &mapping, &a->mapping_ids[i], a->err);
	}
	return r == 0 ? profile_copy_new(a->all->pool, a->mappings, &a->copy, a->err) : r;
}

static int add_function(struct adding *a, uint32_t id, uint32_t *ret)
{
	const struct block_tables *t = a->tables;
	struct profile *pool = a->all->pool;
	struct profile_function function = {.start_line = t->function_start_lines[id]};
	*ret = id ? a->functions[id] : 0;
	if (id == 0 || *ret)
		return 0;
	int r = add_text(a, pool, t->function_names[id], &function.name);
	if (r == 0)
		r = add_text(a, pool, t->function_system_names[id], &function.system_name);
	if (r == 0)
		r = add_text(a, pool, t->function_file_names[id], &function.file_name);
	if (r == 0)
		r = profile_add_function(pool, &function, &a->functions[id], a->err);
	*ret = a->functions[id];
	return r;
}

static int collect_lines(struct adding *a, uint32_t location, size_t *ret_count)
{
	const struct block_tables *t = a->tables;
	size_t first = t->location_line_firsts[location], count = t->location_line_firsts[location + 1] - first;
	*ret_count = count;
	if (array_reserve(&a->lines, &a->line_capacity, count, SIZE_MAX) < 0)
		return error_nomem(a->err);
	for (size_t i = 0; i < count; i++) {
		a->lines[i].line = t->line_numbers[first + i];
		a->lines[i].column = t->line_columns[first + i];
		int r = add_function(a, (uint32_t)t->line_functions[first + i], &a->lines[i].function);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_location(struct adding *a, uint32_t id, uint32_t *ret)
{
	const struct block_tables *t = a->tables;
	struct profile *pool = a->all->pool;
	uint32_t mapping = a->mapping_ids[t->location_mappings[id]];
	struct profile_location location = {.frame_type = (uint32_t)t->location_frame_types[id],
					    .address = (uint64_t)t->location_addresses[id],
					    .folded = t->location_folded[id] != 0};
	size_t line_count;
	*ret = id ? a->locations[id] : 0;
	if (id == 0 || *ret)
		return 0;
	int r = collect_lines(a, id, &line_count);
	if (r == 0)
		r = profile_copy_mapping(a->copy, mapping, &location.mapping, a->err);
	if (r < 0)
		return r;
	location.address += pool->mappings[location.mapping].start - a->mappings->mappings[mapping].start;
	r = profile_add_location(pool, &location, a->lines, line_count, &a->locations[id], a->err);
	*ret = a->locations[id];
	return r;
}

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
			r = add_location(a, (uint32_t)t->stack_locations[i], &location);
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
	a->functions = mem_zalloc_array(t->function_count, sizeof(*a->functions));
	a->locations = mem_zalloc_array(t->location_count, sizeof(*a->locations));
	a->needed = mem_alloc(t->stack_count);
	if (!a->functions || !a->locations || !a->needed)
		return error_nomem(a->err);
	int r = collect_mappings(a);
	return r == 0 ? add_stacks(a, used, ids) : r;
}

int stack_union_add(struct stack_union *all, const struct block_tables *tables, const struct block_hashes *hashes,
		    const uint8_t *used, const struct stack_union_limits *limits, uint32_t **ret_ids, struct error *err)
{
	struct adding a = {.all = all, .tables = tables, .hashes = hashes, .limits = limits, .err = err};
	size_t before = all->count;
	assert(!all->is_closed);
	uint32_t *ids = mem_zalloc_array(tables->stack_count, sizeof(*ids));
	if (!ids)
		return error_nomem(err);
	int r = add_block(&a, used, ids);
	profile_copy_free(a.copy);
	profile_free(a.mappings);
	mem_free(a.mapping_ids);
	mem_free(a.functions);
	mem_free(a.locations);
	mem_free(a.needed);
	mem_free(a.lines);
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

size_t stack_union_count(const struct stack_union *all)
{
	return all->count;
}

/* ---- the tables ---- */

/* Children of each stack as linked lists, the first-seen child first. */
struct children {
	uint32_t *first, *next;
};

/* Numbers the stacks in depth-first order: along first children and next siblings, up again over callers. */
static void number_stacks(struct stack_union *all, const struct children *children)
{
	uint32_t at = 0, count = 0;
	for (;;) {
		all->ranks[at] = count++;
		if (children->first[at]) {
			at = children->first[at];
			continue;
		}
		while (at && !children->next[at])
			at = all->parents[at];
		if (at == 0)
			return;
		at = children->next[at];
	}
}

static int order_stacks(struct stack_union *all, struct error *err)
{
	all->slots = mem_free(all->slots);
	_cleanup_(mem_freep) uint32_t *first = mem_zalloc_array(all->count, sizeof(*first));
	_cleanup_(mem_freep) uint32_t *next = mem_zalloc_array(all->count, sizeof(*next));
	all->ranks = mem_alloc_array(all->count, sizeof(*all->ranks));
	if (!first || !next || !all->ranks)
		return error_nomem(err);
	for (size_t i = all->count; i-- > 1;) {
		uint32_t parent = all->parents[i];
		next[i] = first[parent];
		first[parent] = (uint32_t)i;
	}
	number_stacks(all, &(struct children){first, next});
	return 0;
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

/* Numbers by first use: old id -> new id, and back. 0 is always 0. */
struct numbering {
	uint32_t *to_new, *to_old;
	size_t count;
};

static int numbering_init(struct numbering *numbering, size_t count, struct error *err)
{
	*numbering = (struct numbering){.to_new = mem_zalloc_array(count, sizeof(uint32_t)),
					.to_old = mem_zalloc_array(count, sizeof(uint32_t)),
					.count = 1};
	return numbering->to_new && numbering->to_old ? 0 : error_nomem(err);
}

static void numbering_release(struct numbering *numbering)
{
	mem_free(numbering->to_new);
	mem_free(numbering->to_old);
}

static uint32_t number_of(struct numbering *numbering, uint32_t old)
{
	if (old && !numbering->to_new[old]) {
		numbering->to_new[old] = (uint32_t)numbering->count;
		numbering->to_old[numbering->count++] = old;
	}
	return numbering->to_new[old];
}

static int allocate_locations(struct block_tables *t, size_t lines, struct error *err)
{
	size_t n = t->location_count;
	t->line_count = lines;
	t->location_mappings = mem_alloc_array(n, sizeof(*t->location_mappings));
	t->location_frame_types = mem_alloc_array(n, sizeof(*t->location_frame_types));
	t->location_addresses = mem_alloc_array(n, sizeof(*t->location_addresses));
	t->location_folded = mem_alloc(n);
	t->location_line_firsts = mem_alloc_array(n + 1, sizeof(*t->location_line_firsts));
	t->line_functions = mem_alloc_array(lines, sizeof(*t->line_functions));
	t->line_numbers = mem_alloc_array(lines, sizeof(*t->line_numbers));
	t->line_columns = mem_alloc_array(lines, sizeof(*t->line_columns));
	return t->location_mappings && t->location_frame_types && t->location_addresses && t->location_folded &&
			       t->location_line_firsts && t->line_functions && t->line_numbers && t->line_columns
		       ? 0
		       : error_nomem(err);
}

static int make_locations(struct stack_union *all, const struct numbering *locations, struct numbering *functions,
			  struct numbering *mappings, struct error *err)
{
	const struct profile *pool = all->pool;
	struct block_tables *t = &all->tables;
	size_t lines = 0, at = 0;
	t->location_count = locations->count;
	for (size_t i = 0; i < t->location_count; i++)
		lines += pool->locations[locations->to_old[i]].line_count;
	int r = allocate_locations(t, lines, err);
	for (size_t i = 0; r == 0 && i < t->location_count; i++) {
		const struct profile_location *location = &pool->locations[locations->to_old[i]];
		t->location_mappings[i] = (int32_t)number_of(mappings, location->mapping);
		t->location_frame_types[i] = (int32_t)location->frame_type;
		t->location_addresses[i] = (int64_t)location->address;
		t->location_folded[i] = location->folded;
		t->location_line_firsts[i] = at;
		for (uint32_t k = 0; k < location->line_count; k++, at++) {
			const struct profile_line *line = &pool->lines[location->line_first + k];
			t->line_functions[at] = (int32_t)number_of(functions, line->function);
			t->line_numbers[at] = line->line;
			t->line_columns[at] = line->column;
		}
	}
	if (r == 0)
		t->location_line_firsts[t->location_count] = at;
	return r;
}

static int make_functions(struct stack_union *all, const struct numbering *functions, struct error *err)
{
	const struct profile *pool = all->pool;
	struct block_tables *t = &all->tables;
	size_t n = t->function_count = functions->count;
	t->function_names = mem_alloc_array(n, sizeof(*t->function_names));
	t->function_system_names = mem_alloc_array(n, sizeof(*t->function_system_names));
	t->function_file_names = mem_alloc_array(n, sizeof(*t->function_file_names));
	t->function_start_lines = mem_alloc_array(n, sizeof(*t->function_start_lines));
	if (!t->function_names || !t->function_system_names || !t->function_file_names || !t->function_start_lines)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const struct profile_function *function = &pool->functions[functions->to_old[i]];
		t->function_names[i] = profile_string_bytes(pool, function->name);
		t->function_system_names[i] = profile_string_bytes(pool, function->system_name);
		t->function_file_names[i] = profile_string_bytes(pool, function->file_name);
		t->function_start_lines[i] = function->start_line;
	}
	return 0;
}

static int make_mappings(struct stack_union *all, const struct numbering *mappings, struct error *err)
{
	const struct profile *pool = all->pool;
	struct block_tables *t = &all->tables;
	size_t n = t->mapping_count = mappings->count;
	t->mapping_starts = mem_alloc_array(n, sizeof(*t->mapping_starts));
	t->mapping_limits = mem_alloc_array(n, sizeof(*t->mapping_limits));
	t->mapping_offsets = mem_alloc_array(n, sizeof(*t->mapping_offsets));
	t->mapping_file_names = mem_alloc_array(n, sizeof(*t->mapping_file_names));
	t->mapping_build_ids = mem_alloc_array(n, sizeof(*t->mapping_build_ids));
	t->mapping_flags = mem_alloc_array(n, sizeof(*t->mapping_flags));
	if (!t->mapping_starts || !t->mapping_limits || !t->mapping_offsets || !t->mapping_file_names ||
	    !t->mapping_build_ids || !t->mapping_flags)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const struct profile_mapping *mapping = &pool->mappings[mappings->to_old[i]];
		t->mapping_starts[i] = (int64_t)mapping->start;
		t->mapping_limits[i] = (int64_t)mapping->limit;
		t->mapping_offsets[i] = (int64_t)mapping->offset;
		t->mapping_file_names[i] = profile_string_bytes(pool, mapping->file_name);
		t->mapping_build_ids[i] = profile_string_bytes(pool, mapping->build_id);
		t->mapping_flags[i] = (int32_t)mapping->flags;
	}
	return 0;
}

static int make_tables(struct stack_union *all, struct numbering *locations, struct numbering *functions,
		       struct numbering *mappings, struct error *err)
{
	int r = numbering_init(locations, all->pool->location_count, err);
	if (r == 0)
		r = numbering_init(functions, all->pool->function_count, err);
	if (r == 0)
		r = numbering_init(mappings, all->pool->mapping_count, err);
	for (size_t i = 0; r == 0 && i < all->count; i++)
		all->locations[i] = number_of(locations, all->locations[i]);
	if (r == 0)
		r = make_locations(all, locations, functions, mappings, err);
	if (r == 0)
		r = make_functions(all, functions, err);
	return r == 0 ? make_mappings(all, mappings, err) : r;
}

int stack_union_finish(struct stack_union *all, struct error *err)
{
	struct numbering locations = {0}, functions = {0}, mappings = {0};
	assert(!all->ranks);
	all->is_closed = true;
	int r = order_stacks(all, err);
	if (r == 0)
		r = make_stacks(all, err);
	if (r == 0)
		r = make_tables(all, &locations, &functions, &mappings, err);
	numbering_release(&locations);
	numbering_release(&functions);
	numbering_release(&mappings);
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
