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
 * is kept and rows that were sorted by stack mostly still are.
 */
#include "store/union.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/merge.h"

struct stack_union {
	struct profile *pool;
	struct hash128 *hashes; /* by pool id, then by table id; zero = no row refers to it */
	size_t hash_capacity;
	uint32_t *ranks; /* pool id -> table id */
	struct block_tables tables;
	uint8_t *used; /* by table id */
};

int stack_union_new(struct stack_union **ret, struct error *err)
{
	struct stack_union *all = mem_zalloc(sizeof(*all));
	if (!all)
		return error_nomem(err);
	int r = profile_new(&all->pool, err);
	if (r < 0) {
		stack_union_free(all);
		return r;
	}
	*ret = all;
	return 0;
}

static void free_tables(struct block_tables *t)
{
	void *const columns[] = {
		t->stack_parents,	t->stack_locations,	 t->location_mappings,	  t->location_frame_types,
		t->location_addresses,	t->location_folded,	 t->location_line_firsts, t->line_functions,
		t->line_numbers,	t->line_columns,	 t->function_names,	  t->function_system_names,
		t->function_file_names, t->function_start_lines, t->mapping_starts,	  t->mapping_limits,
		t->mapping_offsets,	t->mapping_file_names,	 t->mapping_build_ids,	  t->mapping_flags};
	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
		mem_free(columns[i]);
}

struct stack_union *stack_union_free(struct stack_union *all)
{
	if (!all)
		return NULL;
	profile_free(all->pool);
	mem_free(all->hashes);
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

static int keep_hash(struct stack_union *all, uint32_t id, struct hash128 hash, struct error *err)
{
	size_t had = all->hash_capacity;
	if (array_reserve(&all->hashes, &all->hash_capacity, (size_t)id + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	memset(all->hashes + had, 0, (all->hash_capacity - had) * sizeof(*all->hashes));
	all->hashes[id] = hash;
	return 0;
}

/* Callers come before callees, so a caller's id is known. */
static int add_stacks(struct adding *a, const uint8_t *used, uint32_t *ids)
{
	const struct block_tables *t = a->tables;
	mark_needed(a, used);
	for (size_t i = 1; i < t->stack_count; i++) {
		uint32_t location;
		if (!a->needed[i])
			continue;
		int r = add_location(a, (uint32_t)t->stack_locations[i], &location);
		if (r == 0)
			r = profile_add_stack(a->all->pool, ids[t->stack_parents[i]], location, &ids[i], a->err);
		if (r == 0 && (used ? used[i] : has_hash(a->hashes, i)))
			r = keep_hash(a->all, ids[i], a->hashes->hashes[i], a->err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_block(struct adding *a, const uint8_t *used, uint32_t *ids)
{
	const struct block_tables *t = a->tables;
	if (a->hashes->count != t->stack_count)
		return error_set(a->err, -EBADMSG, "stacks and their hashes are not of the same number");
	a->functions = mem_zalloc_array(t->function_count, sizeof(*a->functions));
	a->locations = mem_zalloc_array(t->location_count, sizeof(*a->locations));
	a->needed = mem_alloc(t->stack_count);
	if (!a->functions || !a->locations || !a->needed)
		return error_nomem(a->err);
	int r = collect_mappings(a);
	return r == 0 ? add_stacks(a, used, ids) : r;
}

int stack_union_add(struct stack_union *all, const struct block_tables *tables, const struct block_hashes *hashes,
		    const uint8_t *used, uint32_t **ret_ids, struct error *err)
{
	struct adding a = {.all = all, .tables = tables, .hashes = hashes, .err = err};
	assert(!all->ranks);
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
		mem_free(ids);
		return r;
	}
	*ret_ids = ids;
	return 0;
}

/* ---- memory ---- */

/* What entries cost in the end. Arrays and hash tables grow by doubling and are copied while they do, hence more than their
 * size. A function or a location is counted with three strings or one line of middling size. */
#define STACK_BYTES    96
#define LOCATION_BYTES 224
#define FUNCTION_BYTES 512

uint64_t stack_union_bytes(const struct stack_union *all, uint64_t more_stacks, uint64_t more_locations,
			   uint64_t more_functions)
{
	return (all->pool->stack_count + more_stacks) * STACK_BYTES +
	       (all->pool->location_count + more_locations) * LOCATION_BYTES +
	       (all->pool->function_count + more_functions) * FUNCTION_BYTES;
}

/* ---- the tables ---- */

/* Children of each stack as linked lists, the first-seen child first. */
struct children {
	uint32_t *first, *next;
};

/* Numbers the stacks in depth-first order: along first children and next siblings, up again over callers. */
static void number_stacks(struct stack_union *all, const struct children *children)
{
	const struct profile *pool = all->pool;
	uint32_t at = 0, count = 0;
	for (;;) {
		all->ranks[at] = count++;
		if (children->first[at]) {
			at = children->first[at];
			continue;
		}
		while (at && !children->next[at])
			at = pool->stacks[at].parent;
		if (at == 0)
			return;
		at = children->next[at];
	}
}

static int order_stacks(struct stack_union *all, struct error *err)
{
	const struct profile *pool = all->pool;
	_cleanup_(mem_freep) uint32_t *first = mem_zalloc_array(pool->stack_count, sizeof(*first));
	_cleanup_(mem_freep) uint32_t *next = mem_zalloc_array(pool->stack_count, sizeof(*next));
	all->ranks = mem_alloc_array(pool->stack_count, sizeof(*all->ranks));
	if (!first || !next || !all->ranks)
		return error_nomem(err);
	for (size_t i = pool->stack_count; i-- > 1;) {
		uint32_t parent = pool->stacks[i].parent;
		next[i] = first[parent];
		first[parent] = (uint32_t)i;
	}
	number_stacks(all, &(struct children){first, next});
	return 0;
}

static int make_stacks(struct stack_union *all, struct error *err)
{
	const struct profile *pool = all->pool;
	struct block_tables *t = &all->tables;
	size_t n = t->stack_count = pool->stack_count;
	_cleanup_(mem_freep) struct hash128 *by_pool_id = all->hashes;
	size_t have = all->hash_capacity;
	all->hash_capacity = 0;
	all->hashes = mem_zalloc_array(n, sizeof(*all->hashes));
	all->used = mem_zalloc(n);
	t->stack_parents = mem_alloc_array(n, sizeof(*t->stack_parents));
	t->stack_locations = mem_alloc_array(n, sizeof(*t->stack_locations));
	if (!all->hashes || !all->used || !t->stack_parents || !t->stack_locations)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		uint32_t rank = all->ranks[i];
		t->stack_parents[rank] = (int32_t)all->ranks[pool->stacks[i].parent];
		t->stack_locations[rank] = (int32_t)pool->stacks[i].location;
		if (i < have)
			all->hashes[rank] = by_pool_id[i];
		all->used[rank] = (all->hashes[rank].high | all->hashes[rank].low) != 0;
	}
	/* The hash of the empty stack is zero, so it does not tell whether a row has it. */
	all->used[0] = 1;
	return 0;
}

static int make_locations(struct stack_union *all, struct error *err)
{
	const struct profile *pool = all->pool;
	struct block_tables *t = &all->tables;
	size_t n = t->location_count = pool->location_count, lines = t->line_count = pool->line_count, at = 0;
	t->location_mappings = mem_alloc_array(n, sizeof(*t->location_mappings));
	t->location_frame_types = mem_alloc_array(n, sizeof(*t->location_frame_types));
	t->location_addresses = mem_alloc_array(n, sizeof(*t->location_addresses));
	t->location_folded = mem_alloc(n);
	t->location_line_firsts = mem_alloc_array(n + 1, sizeof(*t->location_line_firsts));
	t->line_functions = mem_alloc_array(lines, sizeof(*t->line_functions));
	t->line_numbers = mem_alloc_array(lines, sizeof(*t->line_numbers));
	t->line_columns = mem_alloc_array(lines, sizeof(*t->line_columns));
	if (!t->location_mappings || !t->location_frame_types || !t->location_addresses || !t->location_folded ||
	    !t->location_line_firsts || !t->line_functions || !t->line_numbers || !t->line_columns)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const struct profile_location *location = &pool->locations[i];
		t->location_mappings[i] = (int32_t)location->mapping;
		t->location_frame_types[i] = (int32_t)location->frame_type;
		t->location_addresses[i] = (int64_t)location->address;
		t->location_folded[i] = location->folded;
		t->location_line_firsts[i] = at;
		for (uint32_t k = 0; k < location->line_count; k++, at++) {
			const struct profile_line *line = &pool->lines[location->line_first + k];
			t->line_functions[at] = (int32_t)line->function;
			t->line_numbers[at] = line->line;
			t->line_columns[at] = line->column;
		}
	}
	assert(at == lines);
	t->location_line_firsts[n] = at;
	return 0;
}

static int make_functions(struct stack_union *all, struct error *err)
{
	const struct profile *pool = all->pool;
	struct block_tables *t = &all->tables;
	size_t n = t->function_count = pool->function_count;
	t->function_names = mem_alloc_array(n, sizeof(*t->function_names));
	t->function_system_names = mem_alloc_array(n, sizeof(*t->function_system_names));
	t->function_file_names = mem_alloc_array(n, sizeof(*t->function_file_names));
	t->function_start_lines = mem_alloc_array(n, sizeof(*t->function_start_lines));
	if (!t->function_names || !t->function_system_names || !t->function_file_names || !t->function_start_lines)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const struct profile_function *function = &pool->functions[i];
		t->function_names[i] = profile_string_bytes(pool, function->name);
		t->function_system_names[i] = profile_string_bytes(pool, function->system_name);
		t->function_file_names[i] = profile_string_bytes(pool, function->file_name);
		t->function_start_lines[i] = function->start_line;
	}
	return 0;
}

static int make_mappings(struct stack_union *all, struct error *err)
{
	const struct profile *pool = all->pool;
	struct block_tables *t = &all->tables;
	size_t n = t->mapping_count = pool->mapping_count;
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
		const struct profile_mapping *mapping = &pool->mappings[i];
		t->mapping_starts[i] = (int64_t)mapping->start;
		t->mapping_limits[i] = (int64_t)mapping->limit;
		t->mapping_offsets[i] = (int64_t)mapping->offset;
		t->mapping_file_names[i] = profile_string_bytes(pool, mapping->file_name);
		t->mapping_build_ids[i] = profile_string_bytes(pool, mapping->build_id);
		t->mapping_flags[i] = (int32_t)mapping->flags;
	}
	return 0;
}

int stack_union_finish(struct stack_union *all, struct error *err)
{
	assert(!all->ranks);
	int r = order_stacks(all, err);
	if (r == 0)
		r = make_stacks(all, err);
	if (r == 0)
		r = make_locations(all, err);
	if (r == 0)
		r = make_functions(all, err);
	return r == 0 ? make_mappings(all, err) : r;
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
