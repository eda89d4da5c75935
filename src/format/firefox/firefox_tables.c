/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A location of a profile is an address with all functions that are inlined there; a frame of the format is one of these. So a
 * location becomes one frame or more, and a stack as many rows as its location has frames, numbered so that both are found by
 * adding: of the rows of stacks, of which there may be tens of millions, only every 16th is kept beside the profile.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/hash.h"
#include "base/text.h"
#include "format/firefox/firefox_int.h"

#define GUID_BYTES 16

size_t firefox_frames_of(const struct firefox_tables *tables, uint32_t location)
{
	uint32_t lines = tables->profile->locations[location].line_count;
	return lines ? lines : 1;
}

uint32_t firefox_first_row(const struct firefox_tables *tables, uint32_t stack)
{
	uint32_t known = stack / FIREFOX_STACKS_A_ROW * FIREFOX_STACKS_A_ROW;
	size_t row = tables->first_rows[stack / FIREFOX_STACKS_A_ROW];
	/* Stack 0 is the empty one, and has no rows. */
	for (known = known ? known : 1; known < stack; known++)
		row += firefox_frames_of(tables, tables->profile->stacks[known].location);
	return (uint32_t)row;
}

bool firefox_address(const struct firefox_tables *tables, uint32_t location, uint64_t *ret)
{
	const struct profile_location *known = &tables->profile->locations[location];
	if (known->address == 0)
		return false;
	*ret = profile_location_file_offset(tables->profile, location);
	return *ret <= INT32_MAX;
}

uint32_t firefox_lib(const struct firefox_tables *tables, uint32_t location)
{
	return tables->lib_of_mapping[tables->profile->locations[location].mapping];
}

/* Mappings of one file are one lib. */
static int number_libs(struct firefox_tables *tables)
{
	const struct profile *profile = tables->profile;
	_cleanup_(map64_release) struct map64 known = {0};
	tables->lib_of_mapping = mem_alloc_array(profile->mapping_count, sizeof(*tables->lib_of_mapping));
	if (!tables->lib_of_mapping)
		return -ENOMEM;
	for (uint32_t i = 0; i < profile->mapping_count; i++) {
		const struct profile_mapping *mapping = &profile->mappings[i];
		uint64_t key = (uint64_t)mapping->file_name << 32 | mapping->build_id, lib = FIREFOX_NONE;
		if (key && !map64_get(&known, key, &lib)) {
			lib = tables->lib_count;
			if (map64_put(&known, key, lib) < 0 ||
			    array_reserve(&tables->libs, &tables->lib_capacity, tables->lib_count + 1, UINT32_MAX) < 0)
				return -ENOMEM;
			tables->libs[tables->lib_count++] = i;
		}
		tables->lib_of_mapping[i] = (uint32_t)lib;
	}
	return 0;
}

static int add_source(struct firefox_tables *tables, uint32_t string)
{
	if (string == 0 || tables->source_of_string[string])
		return 0;
	int r = array_push(&tables->sources, &tables->source_count, &tables->source_capacity, UINT32_MAX, string);
	if (r < 0)
		return r;
	tables->source_of_string[string] = (uint32_t)tables->source_count;
	return 0;
}

static int add_func(struct firefox_tables *tables, const struct firefox_func *func, uint32_t *ret)
{
	uint64_t parts[3] = {(uint64_t)func->name << 32 | func->source, func->lib, (uint64_t)func->start_line};
	uint64_t hash = hash64_guarded(parts, sizeof(parts));
	if (tables->func_index.capacity)
		for (size_t at = index32_first(&tables->func_index, hash); index32_at(&tables->func_index, hash, &at, ret);
		     at++) {
			const struct firefox_func *known = &tables->funcs[*ret];
			if (known->name == func->name && known->source == func->source && known->lib == func->lib &&
			    known->start_line == func->start_line)
				return 0;
		}
	int r = array_reserve(&tables->funcs, &tables->func_capacity, tables->func_count + 1, UINT32_MAX);
	if (r == 0)
		r = index32_add(&tables->func_index, hash, (uint32_t)tables->func_count);
	if (r == 0)
		r = add_source(tables, func->source);
	if (r < 0)
		return r;
	*ret = (uint32_t)tables->func_count;
	tables->funcs[tables->func_count++] = *func;
	return 0;
}

/* The function of one line of a location, or of a location without lines, which is called by its address. */
static int find_func(struct firefox_tables *tables, uint32_t location, uint32_t line, struct buffer *text, uint32_t *ret)
{
	const struct profile *profile = tables->profile;
	struct firefox_func func = {.lib = firefox_lib(tables, location), .symbol = FIREFOX_NONE};
	int r;
	buffer_clear(text);
	if (line == FIREFOX_NONE) {
		r = format_append_address(profile, location, text);
	} else {
		const struct profile_function *function = &profile->functions[profile->lines[line].function];
		func.source = function->file_name;
		func.start_line = function->start_line;
		r = format_append_function(profile, profile->lines[line].function, text);
	}
	if (r == 0)
		r = intern_add(&tables->texts, text->data, text->len, &func.name);
	return r < 0 ? r : add_func(tables, &func, ret);
}

/* The format knows symbols by where they begin, which profiles do not tell: the lowest address seen stands for it. */
static int note_symbol(struct firefox_tables *tables, uint32_t location, uint32_t index)
{
	struct firefox_func *func = &tables->funcs[index];
	uint64_t address;
	if (func->lib == FIREFOX_NONE || !firefox_address(tables, location, &address))
		return 0;
	if (func->symbol == FIREFOX_NONE) {
		int r = array_reserve(&tables->symbols, &tables->symbol_capacity, tables->symbol_count + 1, UINT32_MAX);
		if (r < 0)
			return r;
		func->symbol = (uint32_t)tables->symbol_count;
		func->address = address;
		tables->symbols[tables->symbol_count++] = index;
	}
	func->address = address < func->address ? address : func->address;
	return 0;
}

static int add_frames(struct firefox_tables *tables, uint32_t location, struct buffer *text)
{
	const struct profile_location *known = &tables->profile->locations[location];
	size_t count = firefox_frames_of(tables, location);
	int r = array_reserve(&tables->frames, &tables->frame_capacity, tables->frame_count + count, FIREFOX_NONE - 1);
	for (size_t depth = 0; r == 0 && depth < count; depth++) {
		struct firefox_frame *frame = &tables->frames[tables->frame_count++];
		uint32_t line = (uint32_t)(known->line_first + (count - 1 - depth));
		*frame = (struct firefox_frame){
			.location = location, .line = known->line_count ? line : FIREFOX_NONE, .depth = (uint32_t)depth};
		r = find_func(tables, location, frame->line, text, &frame->func);
		if (r == 0 && depth == 0 && known->line_count)
			r = note_symbol(tables, location, frame->func);
	}
	return r;
}

/* Locations that no stack has are left out. */
static int number_frames(struct firefox_tables *tables)
{
	const struct profile *profile = tables->profile;
	_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
	int r = 0;
	for (size_t i = 0; i < profile->location_count; i++)
		tables->first_frame[i] = FIREFOX_NONE;
	for (size_t i = 1; r == 0 && i < profile->stack_count; i++) {
		uint32_t location = profile->stacks[i].location;
		if (tables->first_frame[location] == FIREFOX_NONE) {
			tables->first_frame[location] = (uint32_t)tables->frame_count;
			r = add_frames(tables, location, &text);
		}
		if (i % FIREFOX_STACKS_A_ROW == 0)
			tables->first_rows[i / FIREFOX_STACKS_A_ROW] = (uint32_t)tables->stack_rows;
		tables->stack_rows += firefox_frames_of(tables, location);
		if (r == 0 && tables->stack_rows >= FIREFOX_NONE)
			r = -E2BIG;
		if (r == 0 && budget_poll())
			r = -ENOMEM;
	}
	return r;
}

int firefox_tables_build(const struct profile *profile, struct firefox_tables *tables, struct error *err)
{
	*tables = (struct firefox_tables){.profile = profile};
	int r = intern_init(&tables->texts, SIZE_MAX);
	tables->first_frame = mem_alloc_array(profile->location_count, sizeof(*tables->first_frame));
	tables->first_rows = mem_zalloc_array(profile->stack_count / FIREFOX_STACKS_A_ROW + 1, sizeof(*tables->first_rows));
	tables->source_of_string = mem_zalloc_array(profile->strings.count, sizeof(*tables->source_of_string));
	if (r == 0 && (!tables->first_frame || !tables->first_rows || !tables->source_of_string))
		r = -ENOMEM;
	if (r == 0)
		r = number_libs(tables);
	if (r == 0)
		r = number_frames(tables);
	if (r == -E2BIG)
		return error_set(err, r, "the profile has more frames than the format allows");
	return r < 0 ? error_nomem(err) : 0;
}

void firefox_tables_release(struct firefox_tables *tables)
{
	mem_free(tables->frames);
	mem_free(tables->first_frame);
	mem_free(tables->first_rows);
	mem_free(tables->funcs);
	index32_release(&tables->func_index);
	mem_free(tables->libs);
	mem_free(tables->lib_of_mapping);
	mem_free(tables->symbols);
	mem_free(tables->sources);
	mem_free(tables->source_of_string);
	intern_release(&tables->texts);
}

/* The first fields of a GUID are numbers, and a build-id is bytes: these are turned around. */
static void swap_guid(uint8_t *bytes)
{
	static const uint8_t order[GUID_BYTES] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
	uint8_t copy[GUID_BYTES];
	memcpy(copy, bytes, sizeof(copy));
	for (size_t i = 0; i < sizeof(copy); i++)
		bytes[i] = copy[order[i]];
}

int firefox_append_breakpad_id(struct bytes build_id, struct buffer *out)
{
	uint8_t guid[GUID_BYTES] = {0};
	_cleanup_(buffer_release) struct buffer bytes = {.max = SIZE_MAX};
	int r = build_id.len ? text_parse_hex(build_id, &bytes) : -EINVAL;
	if (r < 0)
		return r == -EINVAL ? 0 : r;
	memcpy(guid, bytes.data, bytes.len < sizeof(guid) ? bytes.len : sizeof(guid));
	swap_guid(guid);
	for (size_t i = 0; i < sizeof(guid); i++)
		buffer_printf(out, "%02X", guid[i]);
	return buffer_append_byte(out, '0');
}

int firefox_append_build_id(struct bytes breakpad_id, struct buffer *out)
{
	static const uint8_t nothing[GUID_BYTES];
	_cleanup_(buffer_release) struct buffer bytes = {.max = SIZE_MAX};
	if (breakpad_id.len <= 2 * (size_t)GUID_BYTES)
		return -EINVAL;
	int r = text_parse_hex((struct bytes){breakpad_id.data, 2 * (size_t)GUID_BYTES}, &bytes);
	if (r < 0)
		return r;
	if (memcmp(bytes.data, nothing, sizeof(nothing)) == 0)
		return -EINVAL;
	swap_guid(bytes.data);
	return text_append_hex(out, buffer_bytes(&bytes));
}
