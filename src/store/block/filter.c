/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* A trie of stacks, of a block or of a head. Parents come before their children. */
struct trie {
	const int32_t *parents, *locations;
	size_t stack_count, location_count;
	/* lines is scratch memory with room for line_max */
	void (*frame)(const void *source, size_t location, struct frame_line *lines, struct frame *ret);
	const void *source;
	size_t line_max; /* of one location */
};

/* Marks the stacks for which the condition's place in the stack matches. */
static void spread(const struct trie *trie, const uint8_t *bits, enum store_where where, uint8_t *found)
{
	found[0] = 0;
	for (size_t i = 1; i < trie->stack_count; i++) {
		uint8_t own = bits[trie->locations[i]];
		size_t parent = (size_t)trie->parents[i];
		if (where == STORE_ANYWHERE)
			found[i] = (uint8_t)(found[parent] | ((own & FRAME_MATCH_ANY) != 0));
		else if (where == STORE_LEAF)
			found[i] = (own & FRAME_MATCH_INNERMOST) != 0;
		else
			found[i] = parent ? found[parent] : (own & FRAME_MATCH_OUTERMOST) != 0;
	}
}

/* How much of the path each stack has passed, by parents first; those that have passed all of it, or have left it, need no look
 * at their frames. */
static int spread_path(const struct trie *trie, struct frame_path *path, struct frame_line *lines, uint8_t *found,
		       struct error *err)
{
	_cleanup_(mem_freep) uint16_t *passed = mem_alloc_array(trie->stack_count, sizeof(*passed));
	if (!passed)
		return error_nomem(err);
	passed[0] = found[0] = 0;
	for (size_t i = 1; i < trie->stack_count; i++) {
		uint16_t at = passed[trie->parents[i]];
		if (at < path->count) {
			struct frame frame;
			trie->frame(trie->source, (size_t)trie->locations[i], lines, &frame);
			at = (uint16_t)frame_path_follow(path, &frame, at);
		}
		passed[i] = at;
		found[i] = at == path->count;
	}
	return 0;
}

static void match_locations(const struct trie *trie, struct frame_matcher *matcher, struct frame_line *lines, uint8_t *bits)
{
	bits[0] = 0; /* "none" */
	for (size_t i = 1; i < trie->location_count; i++) {
		struct frame frame;
		trie->frame(trie->source, i, lines, &frame);
		bits[i] = (uint8_t)frame_matcher_match(matcher, &frame);
	}
}

/* ---- conditions ---- */

struct stack_filter {
	struct stack_condition {
		enum store_where where;
		bool negate;
		struct frame_matcher *matcher;
	} * conditions;
	size_t count;
	struct frame_path path; /* of no functions: none */
};

int stack_filter_new(const struct store_select *select, struct stack_filter **ret, struct error *err)
{
	*ret = NULL;
	if (!select->condition_count && !select->call_site_count)
		return 0;
	if (select->call_site_count > FRAME_PATH_MAX)
		return error_set(err, -EINVAL, "query: the call site has more than %u frames", FRAME_PATH_MAX);
	struct stack_filter *filter = mem_zalloc(sizeof(*filter));
	if (!filter)
		return error_nomem(err);
	filter->path = (struct frame_path){
		.functions = select->call_site, .count = select->call_site_count, .symbols = select->symbols};
	buffer_init(&filter->path.text, SIZE_MAX);
	filter->conditions = mem_zalloc_array(select->condition_count, sizeof(*filter->conditions));
	int r = filter->conditions ? 0 : error_nomem(err);
	for (size_t i = 0; r == 0 && i < select->condition_count; i++) {
		const struct store_stack_condition *from = &select->conditions[i];
		struct stack_condition *to = &filter->conditions[i];
		to->where = from->where;
		to->negate = from->negate;
		r = frame_matcher_new(from->tests, from->test_count, select->symbols, &to->matcher, err);
		filter->count += r == 0;
	}
	if (r < 0) {
		stack_filter_free(filter);
		return r;
	}
	*ret = filter;
	return 0;
}

struct stack_filter *stack_filter_free(struct stack_filter *filter)
{
	if (!filter)
		return NULL;
	for (size_t i = 0; i < filter->count; i++)
		frame_matcher_free(filter->conditions[i].matcher);
	mem_free(filter->conditions);
	buffer_release(&filter->path.text);
	return mem_free(filter);
}

int stack_filter_failure(const struct stack_filter *filter, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && filter && i < filter->count; i++)
		r = frame_matcher_failure(filter->conditions[i].matcher, err);
	return r == 0 && filter ? frame_path_failure(&filter->path, err) : r;
}

static int apply(struct stack_filter *filter, const struct trie *trie, uint8_t *accepted, struct error *err)
{
	_cleanup_(mem_freep) uint8_t *bits = mem_alloc(trie->location_count);
	_cleanup_(mem_freep) uint8_t *found = mem_alloc(trie->stack_count);
	_cleanup_(mem_freep) struct frame_line *lines = mem_alloc_array(trie->line_max + 1, sizeof(*lines));
	if (!bits || !found || !lines)
		return error_nomem(err);
	for (size_t c = 0; c < filter->count; c++) {
		const struct stack_condition *condition = &filter->conditions[c];
		match_locations(trie, condition->matcher, lines, bits);
		spread(trie, bits, condition->where, found);
		for (size_t i = 0; i < trie->stack_count; i++)
			accepted[i] &= (uint8_t)(found[i] ^ (condition->negate ? 1 : 0));
	}
	if (!filter->path.count)
		return 0;
	int r = spread_path(trie, &filter->path, lines, found, err);
	for (size_t i = 0; r == 0 && i < trie->stack_count; i++)
		accepted[i] &= found[i];
	return r;
}

static int filter_trie(struct stack_filter *filter, const struct trie *trie, uint8_t **ret, struct error *err)
{
	uint8_t *accepted = mem_alloc(trie->stack_count);
	if (!accepted)
		return error_nomem(err);
	for (size_t i = 0; i < trie->stack_count; i++)
		accepted[i] = 1;
	int r = apply(filter, trie, accepted, err);
	if (r < 0) {
		mem_free(accepted);
		return r;
	}
	*ret = accepted;
	return 0;
}

/* ---- blocks ---- */

static void block_frame(const void *source, size_t location, struct frame_line *lines, struct frame *ret)
{
	const struct block_tables *t = source;
	size_t mapping = (size_t)t->location_mappings[location], first = t->location_line_firsts[location];
	uint64_t address = (uint64_t)t->location_addresses[location];
	*ret = (struct frame){
		.frame_type = (uint32_t)t->location_frame_types[location],
		.binary = t->mapping_file_names[mapping],
		.build_id = t->mapping_build_ids[mapping],
		.address = mapping ? address - (uint64_t)t->mapping_starts[mapping] + (uint64_t)t->mapping_offsets[mapping]
				   : address,
		.lines = lines,
		.line_count = t->location_line_firsts[location + 1] - first,
	};
	for (size_t i = 0; i < ret->line_count; i++) {
		size_t function = (size_t)t->line_functions[first + i];
		lines[i] = (struct frame_line){.function = t->function_names[function],
					       .system_name = t->function_system_names[function],
					       .file = t->function_file_names[function],
					       .line = t->line_numbers[first + i],
					       .column = t->line_columns[first + i]};
	}
}

int filter_block(struct stack_filter *filter, const struct block_tables *tables, uint8_t **ret, struct error *err)
{
	struct trie trie = {.parents = tables->stack_parents,
			    .locations = tables->stack_locations,
			    .stack_count = tables->stack_count,
			    .location_count = tables->location_count,
			    .frame = block_frame,
			    .source = tables};
	*ret = NULL;
	if (!filter)
		return 0;
	for (size_t i = 0; i < tables->location_count; i++) {
		size_t lines = tables->location_line_firsts[i + 1] - tables->location_line_firsts[i];
		trie.line_max = lines > trie.line_max ? lines : trie.line_max;
	}
	return filter_trie(filter, &trie, ret, err);
}

/* ---- heads ---- */

static void pool_frame(const void *source, size_t location, struct frame_line *lines, struct frame *ret)
{
	frame_of_location(source, (uint32_t)location, lines, ret);
}

int filter_pool(struct stack_filter *filter, const struct profile *pool, uint8_t **ret, struct error *err)
{
	*ret = NULL;
	if (!filter)
		return 0;
	_cleanup_(mem_freep) int32_t *parents = mem_alloc_array(pool->stack_count, sizeof(*parents));
	_cleanup_(mem_freep) int32_t *locations = mem_alloc_array(pool->stack_count, sizeof(*locations));
	if (!parents || !locations)
		return error_nomem(err);
	for (size_t i = 0; i < pool->stack_count; i++) {
		parents[i] = (int32_t)pool->stacks[i].parent;
		locations[i] = (int32_t)pool->stacks[i].location;
	}
	struct trie trie = {.parents = parents,
			    .locations = locations,
			    .stack_count = pool->stack_count,
			    .location_count = pool->location_count,
			    .frame = pool_frame,
			    .source = pool};
	for (size_t i = 0; i < pool->location_count; i++)
		trie.line_max = pool->locations[i].line_count > trie.line_max ? pool->locations[i].line_count : trie.line_max;
	return filter_trie(filter, &trie, ret, err);
}

/* ---- links ---- */

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct store_id));
}

static bool condition_holds(const struct store_link_condition *condition, const struct profile_link *link)
{
	struct store_id id = {0};
	if (condition->part == STORE_SPAN_ID)
		memcpy(id.bytes, link->span_id, sizeof(link->span_id));
	else
		memcpy(id.bytes, link->trace_id, sizeof(link->trace_id));
	bool found = condition->count && bsearch(&id, condition->ids, condition->count, sizeof(id), compare_ids);
	return found != condition->negate;
}

bool filter_link_passes(const struct store_select *select, const struct profile_link *link)
{
	for (size_t i = 0; i < select->link_count; i++)
		if (!condition_holds(&select->links[i], link))
			return false;
	return true;
}

bool filter_numbers_pass(const struct store_select *select, struct bytes numbers)
{
	for (size_t i = 0; i < select->number_count; i++)
		if (!number_condition_matches(&select->numbers[i], numbers))
			return false;
	return true;
}

int filter_pool_links(const struct store_select *select, const struct profile *pool, uint8_t **ret, struct error *err)
{
	*ret = NULL;
	if (select->link_count == 0)
		return 0;
	uint8_t *passes = mem_alloc(pool->link_count);
	if (!passes)
		return error_nomem(err);
	for (size_t i = 0; i < pool->link_count; i++)
		passes[i] = filter_link_passes(select, &pool->links[i]);
	*ret = passes;
	return 0;
}
