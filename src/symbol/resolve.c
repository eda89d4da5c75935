/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for a whole profile.
 *
 * The locations that lack names are sorted by binary, so that each table is fetched once and stays in the processor's cache. A
 * function is demangled once per table however many locations lie in it: `functions` remembers what each range became.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"
#include "elf/demangle.h"
#include "profile/resolve.h"
#include "symbol/symbol_int.h"

struct resolver {
	struct symbolizer *symbolizer;
	struct profile *profile;
	uint32_t *locations; /* those without names */
	size_t location_count;
	struct map64 functions; /* range of the current table -> function id */
	struct buffer text;
	size_t resolved;
};

/* Locations of one binary are neighbours; which order the binaries have does not matter. */
static int compare_locations(const void *a, const void *b, void *context)
{
	const struct profile *profile = context;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct profile_mapping *mx = &profile->mappings[profile->locations[x].mapping];
	const struct profile_mapping *my = &profile->mappings[profile->locations[y].mapping];
	if (mx->build_id != my->build_id)
		return mx->build_id < my->build_id ? -1 : 1;
	if (mx->file_name != my->file_name)
		return mx->file_name < my->file_name ? -1 : 1;
	return x < y ? -1 : x > y;
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
	if (resolver->location_count > 1)
		qsort_r(resolver->locations, resolver->location_count, sizeof(*resolver->locations), compare_locations,
			profile);
	return 0;
}

/* Adds text as a string of the profile, well-formed whatever the file held. */
static int add_text(struct resolver *resolver, struct bytes text, uint32_t *ret, struct error *err)
{
	if (text_is_utf8(text))
		return profile_add_string(resolver->profile, text.data, text.len, ret, err);
	_cleanup_(buffer_release) struct buffer clean;
	buffer_init(&clean, SIZE_MAX);
	if (text_append_utf8(&clean, text) < 0)
		return error_nomem(err);
	return profile_add_string(resolver->profile, clean.data, clean.len, ret, err);
}

static int add_function(struct resolver *resolver, const char *mangled, uint32_t *ret, struct error *err)
{
	struct profile_function function = {0};
	int r = add_text(resolver, bytes_of_string(mangled), &function.system_name, err);
	if (r < 0)
		return r;
	function.name = function.system_name;
	buffer_clear(&resolver->text);
	r = demangle_symbol(mangled, &resolver->text);
	if (r < 0)
		return error_nomem(err);
	if (r > 0)
		r = add_text(resolver, buffer_bytes(&resolver->text), &function.name, err);
	return r < 0 ? r : profile_add_function(resolver->profile, &function, ret, err);
}

/* The function of a range, remembered. */
static int get_function(struct resolver *resolver, uint32_t range, const char *mangled, uint32_t *ret, struct error *err)
{
	uint64_t known;
	if (map64_get(&resolver->functions, range, &known)) {
		*ret = (uint32_t)known;
		return 0;
	}
	int r = add_function(resolver, mangled, ret, err);
	if (r < 0)
		return r;
	return map64_put(&resolver->functions, range, *ret) < 0 ? error_nomem(err) : 0;
}

static bool is_inside_mapping(const struct profile *profile, const struct profile_location *location)
{
	const struct profile_mapping *mapping = &profile->mappings[location->mapping];
	return location->address >= mapping->start && (mapping->limit <= mapping->start || location->address < mapping->limit);
}

static const char *find_name(const struct profile *profile, const struct symbol_table *table, uint32_t id, uint32_t *ret_range)
{
	const struct profile_location *location = &profile->locations[id];
	const struct profile_mapping *mapping = &profile->mappings[location->mapping];
	if (!is_inside_mapping(profile, location))
		return NULL;
	if (symbol_table_flags(table) & SYMBOL_TABLE_NO_OFFSETS)
		return symbol_table_find_mapped(table, mapping->start, mapping->limit, location->address, ret_range);
	return symbol_table_find(table, profile_location_file_offset(profile, id), ret_range);
}

static int resolve_location(struct resolver *resolver, const struct symbol_table *table, uint32_t id, struct error *err)
{
	struct profile *profile = resolver->profile;
	uint32_t range;
	const char *name = find_name(profile, table, id, &range);
	if (!name)
		return 0;
	struct profile_line line = {0};
	int r = get_function(resolver, range, name, &line.function, err);
	if (r == 0)
		r = profile_set_location_lines(profile, id, &line, 1, err);
	if (r == 0)
		resolver->resolved++;
	return r;
}

/* All locations of the binary that locations[first] lies in; *ret_next is the first of the next binary. */
static int resolve_binary(struct resolver *resolver, size_t first, size_t *ret_next, struct error *err)
{
	struct profile *profile = resolver->profile;
	const struct profile_mapping mapping = profile->mappings[profile->locations[resolver->locations[first]].mapping];
	size_t end = first;
	while (end < resolver->location_count) {
		const struct profile_mapping *m = &profile->mappings[profile->locations[resolver->locations[end]].mapping];
		if (m->build_id != mapping.build_id || m->file_name != mapping.file_name)
			break;
		end++;
	}
	*ret_next = end;
	struct shared_table *shared;
	int r = symbolizer_acquire(resolver->symbolizer, profile_string(profile, mapping.build_id),
				   profile_string(profile, mapping.file_name), &shared, err);
	if (r < 0)
		return r;
	size_t resolved_before = resolver->resolved;
	map64_clear(&resolver->functions);
	for (size_t i = first; shared && r == 0 && i < end; i++)
		r = resolve_location(resolver, shared->table, resolver->locations[i], err);
	symbolizer_release(resolver->symbolizer, shared, end - first, resolver->resolved - resolved_before);
	return r;
}

int symbolizer_resolve(struct symbolizer *symbolizer, struct profile *profile, size_t *ret_resolved, size_t *ret_unresolved,
		       struct error *err)
{
	return symbolizer_resolve_from(symbolizer, profile, 1, ret_resolved, ret_unresolved, err);
}

int symbolizer_resolve_from(struct symbolizer *symbolizer, struct profile *profile, uint32_t first, size_t *ret_resolved,
			    size_t *ret_unresolved, struct error *err)
{
	struct resolver resolver = {.symbolizer = symbolizer, .profile = profile};
	map64_init(&resolver.functions);
	buffer_init(&resolver.text, DEMANGLE_OUTPUT_MAX);
	int r = collect_locations(&resolver, first, err);
	for (size_t at = 0; r == 0 && at < resolver.location_count;)
		r = resolve_binary(&resolver, at, &at, err);
	map64_release(&resolver.functions);
	buffer_release(&resolver.text);
	mem_free(resolver.locations);
	if (r < 0)
		return r;
	if (ret_resolved)
		*ret_resolved = resolver.resolved;
	if (ret_unresolved)
		*ret_unresolved = resolver.location_count - resolver.resolved;
	return 0;
}
