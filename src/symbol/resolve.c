/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for a whole profile.
 *
 * The locations that lack names are sorted by binary, so that each table is fetched once and stays in the processor's cache. A
 * function is demangled once per table however many locations lie in it: `functions` remembers what each became.
 *
 * First all binaries are asked for, then, if the caller wants to wait, those that are not there are waited for together, then
 * names are given binary by binary.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/order.h"
#include "base/text.h"
#include "base/time.h"
#include "elf/demangle/demangle.h"
#include "symbol/symbol_int.h"

struct resolver {
	struct symbolizer *symbolizer;
	struct profile *profile;
	uint32_t *locations; /* those without names */
	size_t location_count;
	struct map64 functions;		  /* of the tables of the current group: function -> function id */
	const struct symbol_table *table; /* that frames are of */
	struct buffer text;
	struct symbolizer_coverage coverage;
	struct symbol_others others; /* of the group's id, if several files have it */
	struct symbolizer_want want; /* what is left of the caller's */
	int64_t until_ns;
};

/* Locations of one binary. */
struct group {
	size_t first, end;
	char key[SYMBOL_KEY_MAX]; /* "" = there can be no table */
	bool is_exact;		  /* the table is of the very file, so nothing has to be compared */
};

/* Locations of one binary are neighbours; which order the binaries have does not matter. */
static int compare_locations(const void *left, const void *right, void *context)
{
	const struct profile *profile = context;
	uint32_t x = *(const uint32_t *)left, y = *(const uint32_t *)right;
	const struct profile_mapping *a = &profile->mappings[profile->locations[x].mapping],
				     *b = &profile->mappings[profile->locations[y].mapping];
	return ORDER(a->build_id, b->build_id) ?: ORDER(a->file_name, b->file_name) ?: ORDER(a->content, b->content) ?:
		ORDER(x, y);
}

static int collect_locations(struct resolver *resolver, uint32_t first, struct error *err)
{
	struct profile *profile = resolver->profile;
	resolver->locations = mem_alloc_array(profile->location_count - first, sizeof(*resolver->locations));
	if (!resolver->locations)
		return error_nomem(err);
	for (uint32_t i = first; i < profile->location_count; i++) {
		const struct profile_location *location = &profile->locations[i];
		if (location->line_count == 0 && location->mapping != 0)
			resolver->locations[resolver->location_count++] = i;
	}
	sort_array_by(resolver->locations, resolver->location_count, compare_locations, profile);
	return 0;
}

/* Adds text as a string of the profile, well-formed whatever the file held. */
static int add_text(struct resolver *resolver, struct bytes text, uint32_t *ret, struct error *err)
{
	if (text_is_utf8(text))
		return profile_add_string(resolver->profile, text.data, text.len, ret, err);
	_cleanup_(buffer_release) struct buffer clean = {.max = SIZE_MAX};
	if (text_append_utf8(&clean, text) < 0)
		return error_nomem(err);
	return profile_add_string(resolver->profile, clean.data, clean.len, ret, err);
}

static int add_function(struct resolver *resolver, const struct symbol_frame *frame, uint32_t *ret, struct error *err)
{
	/* A profile's function has one file, that of its lines, which need not be that of its declaration. */
	const char *file = frame->file[0] ? frame->file : frame->start_file;
	struct profile_function function = {.start_line = strcmp(file, frame->start_file) == 0 ? frame->start_line : 0};
	int r = add_text(resolver, bytes_of_string(frame->name), &function.system_name, err);
	if (r == 0)
		r = add_text(resolver, bytes_of_string(file), &function.file_name, err);
	if (r < 0)
		return r;
	function.name = function.system_name;
	buffer_clear(&resolver->text);
	r = demangle_symbol(frame->name, &resolver->text);
	if (r < 0)
		return error_nomem(err);
	if (r > 0)
		r = add_text(resolver, buffer_bytes(&resolver->text), &function.name, err);
	return r < 0 ? r : profile_add_function(resolver->profile, &function, ret, err);
}

/* The function of a frame, remembered by function and file. */
static int get_function(struct resolver *resolver, const struct symbol_frame *frame, uint32_t *ret, struct error *err)
{
	uint64_t known, key = hash64_mix(frame->function) ^ hash64_mix((uintptr_t)frame->file) ^
			      hash64_mix(hash64_mix((uintptr_t)resolver->table));
	if (map64_get(&resolver->functions, key, &known)) {
		*ret = (uint32_t)known;
		return 0;
	}
	int r = add_function(resolver, frame, ret, err);
	if (r < 0)
		return r;
	return map64_put(&resolver->functions, key, *ret) < 0 ? error_nomem(err) : 0;
}

static bool is_inside_mapping(const struct profile *profile, const struct profile_location *location)
{
	const struct profile_mapping *mapping = &profile->mappings[location->mapping];
	return location->address >= mapping->start && (mapping->limit <= mapping->start || location->address < mapping->limit);
}

bool symbol_place_to_address(const struct symbol_table *table, const struct symbol_place *place, uint64_t *ret)
{
	uint64_t address = place->start + (place->file_offset - place->offset);
	if (place->kernel)
		return symbol_table_kernel_to_address(table, place->file_offset, ret);
	if (profile_mapping_is_linked(place->start, place->limit, place->offset)) {
		*ret = address;
		return true;
	}
	if (symbol_table_flags(table) & SYMBOL_TABLE_NO_OFFSETS)
		return symbol_table_mapped_to_address(table, place->start, place->limit, address, ret);
	return symbol_table_offset_to_address(table, place->file_offset, ret);
}

static bool find_address(const struct profile *profile, const struct symbol_table *table, uint32_t id, uint64_t *ret)
{
	const struct profile_location *location = &profile->locations[id];
	const struct profile_mapping *mapping = &profile->mappings[location->mapping];
	const struct symbol_place place = {.file_offset = profile_location_file_offset(profile, id),
					   .start = mapping->start,
					   .limit = mapping->limit,
					   .offset = mapping->offset,
					   .kernel = location->frame_type == PROFILE_FRAME_KERNEL};
	return is_inside_mapping(profile, location) && symbol_place_to_address(table, &place, ret);
}

static size_t frames_in(const struct resolver *resolver, const struct symbol_table *table, uint32_t id,
			struct symbol_frame frames[static SYMBOL_FRAMES_MAX])
{
	uint64_t address;
	uint32_t range = find_address(resolver->profile, table, id, &address) ? symbol_table_find(table, address) : CODE_NONE;
	return range == CODE_NONE ? 0 : symbol_table_frames(table, address, range, frames, SYMBOL_FRAMES_MAX);
}

/* What all files of this id that name the code at an address agree on. They may have been laid out in another way, so an offset
 * is turned into an address by each. *table: of the first that names it, from that of the id itself on: it may have been made
 * of a stripped copy. *ret_named: one of them does. */
static size_t find_frames(const struct resolver *resolver, const struct symbol_table **table, uint32_t id,
			  struct symbol_frame frames[static SYMBOL_FRAMES_MAX], bool *ret_named)
{
	const struct symbol_others *others = &resolver->others;
	uint64_t address;
	size_t count = frames_in(resolver, *table, id, frames), next = 0;
	for (; count == 0 && next < others->count; next++) {
		count = frames_in(resolver, others->tables[next]->table, id, frames);
		*table = count > 0 ? others->tables[next]->table : *table;
	}
	*ret_named = count > 0;
	if (others->is_hopeless || (next > 0 && others->are_programs))
		return 0;
	for (; next < others->count && count > 0; next++) {
		const struct symbol_table *other = others->tables[next]->table;
		if (find_address(resolver->profile, other, id, &address))
			count = others_reduce(others, other, address, frames, count);
		else if (others->are_programs)
			count = 0;
	}
	return count;
}

static int resolve_location(struct resolver *resolver, const struct symbol_table *table, uint32_t id, struct error *err)
{
	struct profile *profile = resolver->profile;
	struct symbol_frame frames[SYMBOL_FRAMES_MAX];
	struct profile_line lines[SYMBOL_FRAMES_MAX];
	bool is_named;
	size_t count = find_frames(resolver, &table, id, frames, &is_named);
	int r = 0;
	if (!is_named) {
		*(symbol_table_is_broken(table) ? &resolver->coverage.pending : &resolver->coverage.missing) += 1;
		return 0;
	}
	if (count == 0) {
		resolver->coverage.missing++;
		resolver->coverage.ambiguous++;
		return 0;
	}
	resolver->table = table;
	for (size_t i = 0; r == 0 && i < count; i++) {
		lines[i] = (struct profile_line){.line = frames[i].line, .column = frames[i].column};
		r = get_function(resolver, &frames[i], &lines[i].function, err);
	}
	if (r == 0 && symbol_table_is_broken(table)) {
		/* What was read may be zeroes. Whoever asks next gets a new table. */
		resolver->coverage.pending++;
		return 0;
	}
	if (r == 0)
		r = profile_set_location_lines(profile, id, lines, count, err);
	if (r == 0)
		resolver->coverage.resolved++;
	return r;
}

/* ---- binaries ---- */

static const struct profile_mapping *mapping_at(const struct resolver *resolver, size_t at)
{
	return &resolver->profile->mappings[resolver->profile->locations[resolver->locations[at]].mapping];
}

static int make_groups(struct resolver *resolver, struct group **ret, size_t *ret_count, struct error *err)
{
	struct group *groups = NULL;
	size_t count = 0, capacity = 0;
	for (size_t at = 0; at < resolver->location_count;) {
		const struct profile_mapping *mapping = mapping_at(resolver, at);
		if (array_reserve(&groups, &capacity, count + 1, SIZE_MAX) < 0) {
			mem_free(groups);
			return error_nomem(err);
		}
		struct group *group = &groups[count++];
		*group = (struct group){.first = at};
		for (; at < resolver->location_count; at++)
			if (mapping_at(resolver, at)->build_id != mapping->build_id ||
			    mapping_at(resolver, at)->file_name != mapping->file_name ||
			    mapping_at(resolver, at)->content != mapping->content)
				break;
		group->end = at;
		if (!jobs_key(resolver->symbolizer, profile_string(resolver->profile, mapping->build_id),
			      profile_string(resolver->profile, mapping->file_name), group->key))
			group->key[0] = 0;
		else if (mapping->content)
			group->is_exact =
				contents_key(resolver->symbolizer, profile_string(resolver->profile, mapping->build_id),
					     profile_string(resolver->profile, mapping->content), group->key);
	}
	*ret = groups;
	*ret_count = count;
	return 0;
}

static int acquire(struct resolver *resolver, const struct group *group, struct shared_table **ret, bool *ret_pending,
		   struct error *err)
{
	*ret = NULL;
	*ret_pending = false;
	if (!group->key[0])
		return 0;
	const char *path = profile_string(resolver->profile, mapping_at(resolver, group->first)->file_name);
	return jobs_acquire(resolver->symbolizer, group->key, path, ret, ret_pending, err);
}

/* Asks for all tables, and waits for those that are not there. */
static int wait_for_tables(struct resolver *resolver, const struct group *groups, size_t count,
			   const struct symbolizer_want *want, struct error *err)
{
	_cleanup_(mem_freep) const char **keys = mem_alloc_array(count, sizeof(*keys));
	size_t waiting = 0;
	if (!keys)
		return error_nomem(err);
	/* The largest last, which makes it the first that is built. */
	for (size_t i = 0; i < count; i++) {
		struct shared_table *shared;
		bool pending;
		int r = acquire(resolver, &groups[i], &shared, &pending, err);
		if (r < 0)
			return r;
		jobs_release(resolver->symbolizer, shared, 0, 0);
		if (pending)
			keys[waiting++] = groups[i].key;
	}
	if (waiting)
		jobs_wait(resolver->symbolizer, keys, waiting, want);
	return 0;
}

DEFINE_ORDER(compare_groups, struct group, ORDER(a->end - a->first, b->end - b->first) ?: ORDER(a->first, b->first));

static int resolve_group(struct resolver *resolver, const struct group *group, struct error *err)
{
	struct shared_table *shared;
	bool pending;
	size_t count = group->end - group->first, before = resolver->coverage.resolved,
	       ambiguous_before = resolver->coverage.ambiguous;
	const char *id = profile_string(resolver->profile, mapping_at(resolver, group->first)->build_id);
	int r = acquire(resolver, group, &shared, &pending, err);
	if (r < 0)
		return r;
	int64_t left_ns = resolver->until_ns - time_monotonic_ns();
	if (resolver->want.wait_ns > 0)
		resolver->want.wait_ns = left_ns > 0 ? left_ns : 0;
	int waiting = 0;
	if (shared && id[0] && !group->is_exact)
		waiting = others_acquire_wait(resolver->symbolizer, id, &resolver->want, &resolver->others, err);
	if (!shared || waiting > 0)
		*(pending || waiting > 0 ? &resolver->coverage.pending : &resolver->coverage.missing) += count;
	r = waiting < 0 ? waiting : 0;
	map64_clear(&resolver->functions);
	for (size_t i = group->first; shared && !waiting && r == 0 && i < group->end; i++)
		r = budget_poll() ? error_nomem(err) : resolve_location(resolver, shared->table, resolver->locations[i], err);
	others_release(resolver->symbolizer, &resolver->others);
	if (group->key[0])
		jobs_release(resolver->symbolizer, shared, count, resolver->coverage.resolved - before);
	jobs_count_ambiguous(resolver->symbolizer, resolver->coverage.ambiguous - ambiguous_before);
	return r;
}

static int resolve_all(struct resolver *resolver, const struct symbolizer_want *want, struct error *err)
{
	_cleanup_(mem_freep) struct group *groups = NULL;
	size_t count = 0;
	int r = make_groups(resolver, &groups, &count, err);
	if (r == 0)
		sort_array(groups, count, compare_groups);
	if (r == 0 && want && want->wait_ns && count)
		r = wait_for_tables(resolver, groups, count, want, err);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = resolve_group(resolver, &groups[i], err);
	return r;
}

int symbolizer_resolve(struct symbolizer *symbolizer, struct profile *profile, uint32_t first,
		       const struct symbolizer_want *want, struct symbolizer_coverage *ret, struct error *err)
{
	struct resolver resolver = {.symbolizer = symbolizer, .profile = profile, .text.max = DEMANGLE_OUTPUT_MAX};
	if (want)
		resolver.want = *want;
	resolver.until_ns = time_monotonic_ns() + resolver.want.wait_ns;
	int r = collect_locations(&resolver, first, err);
	if (r == 0)
		r = resolve_all(&resolver, want, err);
	map64_release(&resolver.functions);
	buffer_release(&resolver.text);
	mem_free(resolver.locations);
	if (r == 0 && ret)
		*ret = resolver.coverage;
	return r;
}
