/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, locations and stacks of the dictionary: most of a request, and each used by many profiles or by none. They are
 * read once, into arrays, and all references are checked on the way; what a profile uses is taken from the arrays.
 *
 * Two readers. Nearly all entries are of a few short numbers, in any order, and for those there is a quick reader: no call and
 * no branch for each byte. It takes an entry as a whole or not at all. Whatever it does not take, everything malformed among
 * it, goes to the general reader, which alone says what is wrong; so the quick one may be as narrow as it likes, but must never
 * accept what the general one refuses, or read it as something else.
 *
 * The arrays take up to 16 bytes for each of the input (an empty location is two bytes there, and 32 here), and are counted
 * against the request's budget. Rejected: to read an entry again whenever a profile first uses it, which takes no
 * arrays, and twice the time.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "format/format_int.h"
#include "format/otlp/otlp_int.h"

static bool is_reference(const struct otlp_dictionary *dictionary, enum otlp_table_number number, uint64_t index)
{
	return index < dictionary->tables[number].count || index == 0;
}

static inline bool read_quickly(const struct otlp_dictionary *dictionary, const uint8_t *at, const uint8_t *end, uint64_t v[5])
{
	return pb_quick_numbers(at, end, dictionary->end, 4, v);
}

/* ---- functions ---- */

/* v: 1 name, 2 system name, 3 file name, 4 start line */
static int parse_function(const struct otlp_dictionary *dictionary, struct pb_cursor cursor, uint64_t v[5], struct error *err)
{
	static const char *const names[] = {"", "Function.name_strindex", "Function.system_name_strindex",
					    "Function.filename_strindex", "Function.start_line"};
	struct pb_field field;
	int r;
	v[1] = v[2] = v[3] = v[4] = 0;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number > 4)
			continue;
		r = pb_expect(&cursor, &field, PB_VARINT, names[field.number], err);
		if (r == 0 && field.number < 4)
			r = otlp_check_reference(dictionary, OTLP_STRINGS, field.value, names[field.number], err);
		if (r < 0)
			return r;
		v[field.number] = field.value;
	}
	return r;
}

int otlp_read_function(struct otlp_dictionary *dictionary, size_t index, struct error *err)
{
	struct pb_cursor cursor = otlp_entry_at(dictionary, OTLP_FUNCTIONS, index);
	uint64_t v[5];
	int r = 0;
	if (!read_quickly(dictionary, cursor.at, cursor.end, v) || !is_reference(dictionary, OTLP_STRINGS, v[1]) ||
	    !is_reference(dictionary, OTLP_STRINGS, v[2]) || !is_reference(dictionary, OTLP_STRINGS, v[3]))
		r = parse_function(dictionary, cursor, v, err);
	dictionary->functions[index] = (struct otlp_function){(uint32_t)v[1], (uint32_t)v[2], (uint32_t)v[3], (int64_t)v[4]};
	return r;
}

/* ---- locations ---- */

static struct profile_line line_of(const uint64_t v[5])
{
	return (struct profile_line){.function = (uint32_t)v[1], .line = (int64_t)v[2], .column = (int64_t)v[3]};
}

static int parse_line(struct otlp_dictionary *dictionary, struct pb_cursor cursor, size_t first, struct error *err)
{
	uint64_t v[5] = {0};
	int r = format_read_varints(&cursor, "Line", v, 3, err);
	if (r == 0)
		r = otlp_check_reference(dictionary, OTLP_FUNCTIONS, v[1], "Line.function_index", err);
	if (r < 0)
		return r;
	/* Lines are frames, those of functions inlined here. */
	if (dictionary->line_count - first >= LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "a location has more than %d lines, the limit", LIMIT_STACK_DEPTH);
	r = array_push(&dictionary->lines, &dictionary->line_count, &dictionary->line_capacity, UINT32_MAX, line_of(v));
	return r < 0 ? error_nomem(err) : 0;
}

/* The last of the attributes that is one says what kind of a frame it is. */
static uint32_t frame_type_of(const struct otlp_dictionary *dictionary, const struct otlp_indexes *attributes)
{
	uint32_t type = PROFILE_FRAME_UNKNOWN;
	for (size_t i = 0; i < attributes->count; i++)
		if (dictionary->frame_types[attributes->items[i]])
			type = dictionary->frame_types[attributes->items[i]] - 1u;
	return type;
}

static int parse_location(struct otlp_dictionary *dictionary, struct pb_cursor cursor, struct otlp_location *ret,
			  struct error *err)
{
	static const enum pb_wire wires[] = {0, PB_VARINT, PB_VARINT, PB_BYTES};
	struct otlp_indexes *attributes = &dictionary->attributes;
	size_t first = dictionary->line_count;
	uint64_t v[4] = {0};
	struct pb_field field;
	int r;
	attributes->count = 0;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number > 4)
			continue;
		if (field.number == 4) {
			r = otlp_read_indexes(dictionary, attributes, &cursor, &field, OTLP_ATTRIBUTES,
					      "Location.attribute_indices", err);
		} else {
			r = pb_expect(&cursor, &field, wires[field.number], "Location", err);
			v[field.number] = field.value;
		}
		if (r == 0 && field.number == 3)
			r = parse_line(dictionary, pb_open_nested(&cursor, field.bytes), first, err);
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = otlp_check_reference(dictionary, OTLP_MAPPINGS, v[1], "Location.mapping_index", err);
	if (r == 0)
		r = otlp_check_duplicate_keys(dictionary, attributes, err);
	*ret = (struct otlp_location){.mapping = (uint32_t)v[1],
				      .address = v[2],
				      .line_first = (uint32_t)first,
				      .line_count = (uint32_t)(dictionary->line_count - first),
				      .attribute_count = (uint32_t)attributes->count};
	if (r == 0)
		ret->frame_type = frame_type_of(dictionary, attributes);
	return r;
}

/* One of fewer than 128 bytes, of which `at` is the length; while there is room for it. */
static const uint8_t *take_line(struct otlp_dictionary *dictionary, const uint8_t *at, const uint8_t *end, size_t first)
{
	uint64_t v[5];
	size_t len = at[0];
	if (len >= 0x80 || len >= (size_t)(end - at) || dictionary->line_count == dictionary->line_capacity ||
	    dictionary->line_count - first >= LIMIT_STACK_DEPTH || !read_quickly(dictionary, at + 1, at + 1 + len, v) ||
	    !is_reference(dictionary, OTLP_FUNCTIONS, v[1]))
		return NULL;
	dictionary->lines[dictionary->line_count++] = line_of(v);
	return at + 1 + len;
}

/* A list of one attribute, which is below 128. */
static const uint8_t *take_attribute(const struct otlp_dictionary *dictionary, const uint8_t *at,
				     struct otlp_location *location)
{
	if (at[0] != 1 || at[1] >= 0x80 || !is_reference(dictionary, OTLP_ATTRIBUTES, at[1]) || location->attribute_count)
		return NULL;
	location->attribute_count = 1;
	location->frame_type = dictionary->frame_types[at[1]] ? dictionary->frame_types[at[1]] - 1u : PROFILE_FRAME_UNKNOWN;
	return at + 2;
}

/* False, and nothing was added, if it is anything but mapping, address, short lines and an attribute. */
static bool read_location_quickly(struct otlp_dictionary *dictionary, struct pb_cursor cursor, struct otlp_location *ret)
{
	const uint8_t *at = cursor.at;
	size_t first = dictionary->line_count;
	uint64_t mapping = 0;
	*ret = (struct otlp_location){.line_first = (uint32_t)first};
	while (at && at < cursor.end) {
		uint32_t tag = dictionary->end - at < PB_QUICK_BYTES ? 0 : *at;
		switch (tag) {
		case 1 << 3: at = pb_quick_varint(at + 1, &mapping); break;
		case 2 << 3: at = pb_quick_varint(at + 1, &ret->address); break;
		case 3 << 3 | PB_BYTES: at = take_line(dictionary, at + 1, cursor.end, first); break;
		case 4 << 3 | PB_BYTES: at = take_attribute(dictionary, at + 1, ret); break;
		default: at = NULL; break;
		}
	}
	if (at != cursor.end || !is_reference(dictionary, OTLP_MAPPINGS, mapping)) {
		dictionary->line_count = first;
		return false;
	}
	ret->mapping = (uint32_t)mapping;
	ret->line_count = (uint32_t)(dictionary->line_count - first);
	return true;
}

int otlp_read_location(struct otlp_dictionary *dictionary, size_t index, struct error *err)
{
	struct pb_cursor cursor = otlp_entry_at(dictionary, OTLP_LOCATIONS, index);
	struct otlp_location *location = &dictionary->locations[index];
	return read_location_quickly(dictionary, cursor, location) ? 0 : parse_location(dictionary, cursor, location, err);
}

/* ---- stacks ---- */

int otlp_read_stack(struct otlp_dictionary *dictionary, size_t index, struct error *err)
{
	struct pb_cursor cursor = otlp_entry_at(dictionary, OTLP_STACKS, index);
	struct otlp_indexes *frames = &dictionary->frames;
	size_t first = frames->count;
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number != 1)
			continue;
		r = otlp_read_indexes(dictionary, frames, &cursor, &field, OTLP_LOCATIONS, "location_indices", err);
		if (r < 0)
			return r;
	}
	size_t count = frames->count - first;
	if (r == 0 && count > LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "the stack of %zu frames is deeper than %d, the limit", count, LIMIT_STACK_DEPTH);
	dictionary->stacks[index] = (struct otlp_stack){(uint32_t)first, (uint32_t)count};
	return r;
}

/* ---- memory ---- */

int otlp_entries_begin(struct otlp_dictionary *dictionary, struct error *err)
{
	size_t functions = dictionary->tables[OTLP_FUNCTIONS].count, locations = dictionary->tables[OTLP_LOCATIONS].count,
	       stacks = dictionary->tables[OTLP_STACKS].count;
	int r = otlp_spend(dictionary,
			   functions * sizeof(*dictionary->functions) + locations * sizeof(*dictionary->locations) +
				   stacks * sizeof(*dictionary->stacks),
			   err);
	if (r < 0)
		return r;
	/* One more, so that there always is an entry 0, which is the zero value unless it is read, too. */
	dictionary->functions = mem_alloc_array(functions + 1, sizeof(*dictionary->functions));
	dictionary->locations = mem_alloc_array(locations + 1, sizeof(*dictionary->locations));
	dictionary->stacks = mem_alloc_array(stacks + 1, sizeof(*dictionary->stacks));
	/* Most locations have one line. */
	if (!dictionary->functions || !dictionary->locations || !dictionary->stacks ||
	    array_reserve(&dictionary->lines, &dictionary->line_capacity, locations, UINT32_MAX) < 0)
		return error_nomem(err);
	dictionary->functions[0] = (struct otlp_function){0};
	dictionary->locations[0] = (struct otlp_location){0};
	dictionary->stacks[0] = (struct otlp_stack){0};
	return 0;
}

void otlp_entries_release(struct otlp_dictionary *dictionary)
{
	mem_free(dictionary->functions);
	mem_free(dictionary->locations);
	mem_free(dictionary->stacks);
	mem_free(dictionary->lines);
	otlp_indexes_release(&dictionary->frames);
}
