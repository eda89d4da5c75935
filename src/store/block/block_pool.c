/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block/block_pool.h"

#include <stdint.h>

#include "base/alloc.h"

/* ---- from a block ---- */

static int add_text(struct profile *profile, struct bytes text, uint32_t *ret, struct error *err)
{
	return profile_add_string(profile, text.data, text.len, ret, err);
}

static int collect_mappings(struct block_to_pool *b)
{
	const struct block_tables *t = b->tables;
	int r = profile_new(&b->mappings, b->err);
	for (size_t i = 1; r == 0 && i < t->mapping_count; i++) {
		struct profile_mapping mapping = {.start = (uint64_t)t->mapping_starts[i],
						  .limit = (uint64_t)t->mapping_limits[i],
						  .offset = (uint64_t)t->mapping_offsets[i],
						  .flags = (uint32_t)t->mapping_flags[i]};
		r = add_text(b->mappings, t->mapping_file_names[i], &mapping.file_name, b->err);
		if (r == 0)
			r = add_text(b->mappings, t->mapping_build_ids[i], &mapping.build_id, b->err);
		if (r == 0)
			r = profile_add_mapping(b->mappings, &mapping, &b->mapping_ids[i], b->err);
	}
	return r == 0 ? profile_copy_new(b->pool, b->mappings, &b->copy, b->err) : r;
}

int block_to_pool_start(struct block_to_pool *b)
{
	const struct block_tables *t = b->tables;
	b->mapping_ids = mem_zalloc_array(t->mapping_count, sizeof(*b->mapping_ids));
	b->functions = mem_zalloc_array(t->function_count, sizeof(*b->functions));
	b->locations = mem_zalloc_array(t->location_count, sizeof(*b->locations));
	if (!b->mapping_ids || !b->functions || !b->locations)
		return error_nomem(b->err);
	return collect_mappings(b);
}

void block_to_pool_release(struct block_to_pool *b)
{
	profile_copy_free(b->copy);
	profile_free(b->mappings);
	mem_free(b->mapping_ids);
	mem_free(b->functions);
	mem_free(b->locations);
	mem_free(b->lines);
}

static int add_function(struct block_to_pool *b, uint32_t id, uint32_t *ret)
{
	const struct block_tables *t = b->tables;
	struct profile_function function = {.start_line = t->function_start_lines[id]};
	*ret = id ? b->functions[id] : 0;
	if (id == 0 || *ret)
		return 0;
	int r = add_text(b->pool, t->function_names[id], &function.name, b->err);
	if (r == 0)
		r = add_text(b->pool, t->function_system_names[id], &function.system_name, b->err);
	if (r == 0)
		r = add_text(b->pool, t->function_file_names[id], &function.file_name, b->err);
	if (r == 0)
		r = profile_add_function(b->pool, &function, &b->functions[id], b->err);
	*ret = b->functions[id];
	return r;
}

static int collect_lines(struct block_to_pool *b, uint32_t location, size_t *ret_count)
{
	const struct block_tables *t = b->tables;
	size_t first = t->location_line_firsts[location], count = t->location_line_firsts[location + 1] - first;
	*ret_count = count;
	if (array_reserve(&b->lines, &b->line_capacity, count, SIZE_MAX) < 0)
		return error_nomem(b->err);
	for (size_t i = 0; i < count; i++) {
		b->lines[i].line = t->line_numbers[first + i];
		b->lines[i].column = t->line_columns[first + i];
		int r = add_function(b, (uint32_t)t->line_functions[first + i], &b->lines[i].function);
		if (r < 0)
			return r;
	}
	return 0;
}

int block_to_pool_location(struct block_to_pool *b, uint32_t id, uint32_t *ret)
{
	const struct block_tables *t = b->tables;
	uint32_t mapping = b->mapping_ids[t->location_mappings[id]];
	struct profile_location location = {.frame_type = (uint32_t)t->location_frame_types[id],
					    .address = (uint64_t)t->location_addresses[id],
					    .folded = t->location_folded[id] != 0};
	size_t line_count;
	*ret = id ? b->locations[id] : 0;
	if (id == 0 || *ret)
		return 0;
	int r = collect_lines(b, id, &line_count);
	if (r == 0)
		r = profile_copy_mapping(b->copy, mapping, &location.mapping, b->err);
	if (r < 0)
		return r;
	location.address += b->pool->mappings[location.mapping].start - b->mappings->mappings[mapping].start;
	r = profile_add_location(b->pool, &location, b->lines, line_count, &b->locations[id], b->err);
	*ret = b->locations[id];
	return r;
}

/* ---- from a pool ---- */

int numbering_init(struct numbering *numbering, size_t count, struct error *err)
{
	*numbering = (struct numbering){.to_new = mem_zalloc_array(count, sizeof(uint32_t)),
					.to_old = mem_zalloc_array(count, sizeof(uint32_t)),
					.count = 1};
	return numbering->to_new && numbering->to_old ? 0 : error_nomem(err);
}

void numbering_release(struct numbering *numbering)
{
	mem_free(numbering->to_new);
	mem_free(numbering->to_old);
}

int block_rank_stacks(const uint32_t *parents, size_t count, const uint8_t *needed, uint32_t *ranks, uint32_t *ids,
		      size_t *ret_count, struct error *err)
{
	/* Children of each stack as linked lists, the first-seen child first. */
	_cleanup_(mem_freep) uint32_t *first = mem_zalloc_array(count, sizeof(*first));
	_cleanup_(mem_freep) uint32_t *next = mem_zalloc_array(count, sizeof(*next));
	uint32_t at = 0, ranked = 0;
	if (!first || !next)
		return error_nomem(err);
	for (size_t i = count; i-- > 1;) {
		if (needed && !needed[i])
			continue;
		next[i] = first[parents[i]];
		first[parents[i]] = (uint32_t)i;
	}
	/* Along first children and next siblings, up again over callers. */
	for (;;) {
		if (ids)
			ids[ranked] = at;
		ranks[at] = ranked++;
		if (first[at]) {
			at = first[at];
			continue;
		}
		while (at && !next[at])
			at = parents[at];
		if (at == 0)
			break;
		at = next[at];
	}
	*ret_count = ranked;
	return 0;
}

struct making {
	const struct profile *pool;
	struct block_tables *tables;
	bool all; /* ids are the pool's */
	const struct numbering *locations;
	struct numbering functions, mappings;
	struct error *err;
};

static const struct profile_location *location_at(const struct making *m, size_t i)
{
	return &m->pool->locations[m->all ? i : m->locations->to_old[i]];
}

static int make_locations(struct making *m)
{
	struct block_tables *t = m->tables;
	size_t at = 0;
	t->location_line_firsts = mem_alloc_array(t->location_count + 1, sizeof(*t->location_line_firsts));
	if (!t->location_line_firsts)
		return error_nomem(m->err);
	for (size_t i = 0; i < t->location_count; i++) {
		const struct profile_location *location = location_at(m, i);
		t->location_mappings[i] =
			(int32_t)(m->all ? location->mapping : numbering_get(&m->mappings, location->mapping));
		t->location_frame_types[i] = (int32_t)location->frame_type;
		t->location_addresses[i] = (int64_t)location->address;
		t->location_folded[i] = location->folded;
		t->location_line_firsts[i] = at;
		for (uint32_t k = 0; k < location->line_count; k++, at++) {
			const struct profile_line *line = &m->pool->lines[location->line_first + k];
			t->line_functions[at] =
				(int32_t)(m->all ? line->function : numbering_get(&m->functions, line->function));
			t->line_numbers[at] = line->line;
			t->line_columns[at] = line->column;
		}
	}
	t->location_line_firsts[t->location_count] = at;
	return 0;
}

static void make_functions(struct making *m)
{
	struct block_tables *t = m->tables;
	for (size_t i = 0; i < t->function_count; i++) {
		const struct profile_function *function = &m->pool->functions[m->all ? i : m->functions.to_old[i]];
		t->function_names[i] = profile_string_bytes(m->pool, function->name);
		t->function_system_names[i] = profile_string_bytes(m->pool, function->system_name);
		t->function_file_names[i] = profile_string_bytes(m->pool, function->file_name);
		t->function_start_lines[i] = function->start_line;
	}
}

static void make_mappings(struct making *m)
{
	struct block_tables *t = m->tables;
	for (size_t i = 0; i < t->mapping_count; i++) {
		const struct profile_mapping *mapping = &m->pool->mappings[m->all ? i : m->mappings.to_old[i]];
		t->mapping_starts[i] = (int64_t)mapping->start;
		t->mapping_limits[i] = (int64_t)mapping->limit;
		t->mapping_offsets[i] = (int64_t)mapping->offset;
		t->mapping_file_names[i] = profile_string_bytes(m->pool, mapping->file_name);
		t->mapping_build_ids[i] = profile_string_bytes(m->pool, mapping->build_id);
		t->mapping_flags[i] = (int32_t)mapping->flags;
	}
}

static int make_tables(struct making *m)
{
	const struct profile *pool = m->pool;
	struct block_tables *t = m->tables;
	t->location_count = m->all ? pool->location_count : m->locations->count;
	for (size_t i = 0; i < t->location_count; i++)
		t->line_count += location_at(m, i)->line_count;
	int r = block_table_allocate(t, BLOCK_LOCATIONS, m->err);
	if (r == 0)
		r = block_table_allocate(t, BLOCK_LINES, m->err);
	if (r == 0 && !m->all)
		r = numbering_init(&m->functions, pool->function_count, m->err);
	if (r == 0 && !m->all)
		r = numbering_init(&m->mappings, pool->mapping_count, m->err);
	if (r == 0)
		r = make_locations(m);
	t->function_count = m->all ? pool->function_count : m->functions.count;
	t->mapping_count = m->all ? pool->mapping_count : m->mappings.count;
	if (r == 0)
		r = block_table_allocate(t, BLOCK_FUNCTIONS, m->err);
	if (r == 0)
		r = block_table_allocate(t, BLOCK_MAPPINGS, m->err);
	if (r < 0)
		return r;
	make_functions(m);
	make_mappings(m);
	return 0;
}

int block_tables_of_pool(const struct profile *pool, const struct numbering *locations, struct block_tables *tables,
			 struct error *err)
{
	struct making making = {.pool = pool, .tables = tables, .all = !locations, .locations = locations, .err = err};
	int r = make_tables(&making);
	numbering_release(&making.functions);
	numbering_release(&making.mappings);
	return r;
}
