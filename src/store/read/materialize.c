/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a block's tables into a profile: only the stacks that are asked for, and only what those refer to.
 *
 * The profile interns, so stacks of different blocks with the same content meet in one id. Mappings need more than that: the
 * same binary is loaded at other addresses in each process, and profile_copy_mapping() knows which mappings stand for the same
 * part of the same file. So the block's mappings become a small profile of their own, are copied with it, and addresses are
 * moved to the mapping that was kept, exactly as copying a whole profile would.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "profile/merge.h"
#include "store/store_int.h"

struct materializer {
	const struct block_tables *tables;
	struct profile *profile;
	struct profile *mappings; /* the block's, alone */
	uint32_t *mapping_ids;	  /* block -> `mappings` */
	struct profile_copy *copy;
	uint32_t *stacks, *locations, *functions; /* block -> profile; 0 = not yet */
	uint32_t *path;
	size_t path_capacity;
	struct profile_line *lines;
	size_t line_capacity;
	struct error *err;
};

static int add_text(struct profile *profile, struct bytes text, uint32_t *ret, struct error *err)
{
	return profile_add_string(profile, text.data, text.len, ret, err);
}

static int collect_mappings(struct materializer *m)
{
	const struct block_tables *t = m->tables;
	m->mapping_ids = mem_zalloc_array(t->mapping_count, sizeof(*m->mapping_ids));
	if (!m->mapping_ids)
		return error_nomem(m->err);
	int r = profile_new(&m->mappings, m->err);
	for (size_t i = 1; r == 0 && i < t->mapping_count; i++) {
		struct profile_mapping mapping = {.start = (uint64_t)t->mapping_starts[i],
						  .limit = (uint64_t)t->mapping_limits[i],
						  .offset = (uint64_t)t->mapping_offsets[i],
						  .flags = (uint32_t)t->mapping_flags[i]};
		r = add_text(m->mappings, t->mapping_file_names[i], &mapping.file_name, m->err);
		if (r == 0)
			r = add_text(m->mappings, t->mapping_build_ids[i], &mapping.build_id, m->err);
		if (r == 0)
			r = profile_add_mapping(m->mappings, &mapping, &m->mapping_ids[i], m->err);
	}
	return r == 0 ? profile_copy_new(m->profile, m->mappings, &m->copy, m->err) : r;
}

static int add_function(struct materializer *m, uint32_t id, uint32_t *ret)
{
	const struct block_tables *t = m->tables;
	struct profile_function function = {.start_line = t->function_start_lines[id]};
	*ret = id ? m->functions[id] : 0;
	if (id == 0 || *ret)
		return 0;
	int r = add_text(m->profile, t->function_names[id], &function.name, m->err);
	if (r == 0)
		r = add_text(m->profile, t->function_system_names[id], &function.system_name, m->err);
	if (r == 0)
		r = add_text(m->profile, t->function_file_names[id], &function.file_name, m->err);
	if (r == 0)
		r = profile_add_function(m->profile, &function, &m->functions[id], m->err);
	*ret = m->functions[id];
	return r;
}

static int add_lines(struct materializer *m, uint32_t location, size_t *ret_count)
{
	const struct block_tables *t = m->tables;
	size_t first = t->location_line_firsts[location], count = t->location_line_firsts[location + 1] - first;
	*ret_count = count;
	if (array_reserve(&m->lines, &m->line_capacity, count, SIZE_MAX) < 0)
		return error_nomem(m->err);
	for (size_t i = 0; i < count; i++) {
		m->lines[i].line = t->line_numbers[first + i];
		m->lines[i].column = t->line_columns[first + i];
		int r = add_function(m, (uint32_t)t->line_functions[first + i], &m->lines[i].function);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_location(struct materializer *m, uint32_t id, uint32_t *ret)
{
	const struct block_tables *t = m->tables;
	uint32_t mapping = m->mapping_ids[t->location_mappings[id]];
	struct profile_location location = {.frame_type = (uint32_t)t->location_frame_types[id],
					    .address = (uint64_t)t->location_addresses[id],
					    .folded = t->location_folded[id] != 0};
	size_t line_count;
	*ret = id ? m->locations[id] : 0;
	if (id == 0 || *ret)
		return 0;
	int r = add_lines(m, id, &line_count);
	if (r == 0)
		r = profile_copy_mapping(m->copy, mapping, &location.mapping, m->err);
	if (r < 0)
		return r;
	location.address += m->profile->mappings[location.mapping].start - m->mappings->mappings[mapping].start;
	r = profile_add_location(m->profile, &location, m->lines, line_count, &m->locations[id], m->err);
	*ret = m->locations[id];
	return r;
}

/* Up to the first ancestor that is there, and down again. */
static int add_stack(struct materializer *m, uint32_t id, uint32_t *ret)
{
	const struct block_tables *t = m->tables;
	size_t depth = 0;
	uint32_t at = id;
	for (; at != 0 && m->stacks[at] == 0; at = (uint32_t)t->stack_parents[at]) {
		if (array_reserve(&m->path, &m->path_capacity, depth + 1, LIMIT_STACK_DEPTH) < 0)
			return error_set(m->err, -EBADMSG, "a stack is deeper than %d", LIMIT_STACK_DEPTH);
		m->path[depth++] = at;
	}
	uint32_t parent = at ? m->stacks[at] : 0;
	while (depth > 0) {
		uint32_t location;
		at = m->path[--depth];
		int r = add_location(m, (uint32_t)t->stack_locations[at], &location);
		if (r == 0)
			r = profile_add_stack(m->profile, parent, location, &m->stacks[at], m->err);
		if (r < 0)
			return r;
		parent = m->stacks[at];
	}
	*ret = parent;
	return 0;
}

static int add_all(struct materializer *m, const uint32_t *stacks, size_t count, uint32_t *ret_ids)
{
	const struct block_tables *t = m->tables;
	m->stacks = mem_zalloc_array(t->stack_count, sizeof(*m->stacks));
	m->locations = mem_zalloc_array(t->location_count, sizeof(*m->locations));
	m->functions = mem_zalloc_array(t->function_count, sizeof(*m->functions));
	if (!m->stacks || !m->locations || !m->functions)
		return error_nomem(m->err);
	int r = collect_mappings(m);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = add_stack(m, stacks[i], &ret_ids[i]);
	return r;
}

int materialize_stacks(const struct block_tables *tables, const uint32_t *stacks, size_t count, struct profile *into,
		       uint32_t *ret_ids, struct error *err)
{
	struct materializer m = {.tables = tables, .profile = into, .err = err};
	int r = add_all(&m, stacks, count, ret_ids);
	mem_free(m.stacks);
	mem_free(m.locations);
	mem_free(m.functions);
	mem_free(m.mapping_ids);
	mem_free(m.path);
	mem_free(m.lines);
	profile_copy_free(m.copy);
	profile_free(m.mappings);
	return r;
}
