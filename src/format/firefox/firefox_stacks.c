/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the tables that stacks are made of: stackTable -> frameTable -> funcTable -> resourceTable, and libs.
 *
 * The functions that are inlined at an address are frames of their own in the file and one location here. A row of stackTable
 * is joined with the row above it if its frame is inlined into that one's: same address, lib and symbol, one deeper. Only rows
 * that a sample ends in, and those that begin above such a location, become stacks: a pass from the last row to the first finds
 * them, and since a row's prefix comes before it, one pass from the first to the last makes them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "format/firefox/firefox_int.h"
#include "format/firefox/firefox_read.h"

/* Functions inlined at one address; what is deeper begins a frame of its own. */
#define INLINED_MAX 128
/* Of one table, which has some ten. */
#define COLUMNS_MAX 256u
#define LIB_BYTES   (1ull << 32) /* addresses of each lib; the file does not tell where they were loaded */

const struct json_node *firefox_column(struct firefox_table *table, const char *name)
{
	for (size_t i = 0; i < table->column_count; i++)
		if (table->columns[i].name == name)
			return table->columns[i].values;
	const struct json_node *values = json_node_get(table->node, name);
	if (table->column_count < FIREFOX_COLUMNS_MAX) {
		table->columns[table->column_count].name = name;
		table->columns[table->column_count++].values = values;
	}
	return values;
}

static const struct json_node *cell(struct firefox_table *table, const char *column, size_t row)
{
	return json_node_at(firefox_column(table, column), row);
}

/* A number that may be missing: null, or not marked by its flag (0 = it has none) in tables that have flags. */
static bool get(struct firefox_table *table, const char *column, size_t row, int64_t flag, int64_t *ret)
{
	const struct json_node *flags = firefox_column(table, "flags");
	int64_t set;
	if (flag && flags && (!json_node_integer(json_node_at(flags, row), &set) || !(set & flag)))
		return false;
	return json_node_integer(cell(table, column, row), ret);
}

/* The same for an index into a table of so many rows. FIREFOX_NONE also for a row that is not there, which is counted. */
static uint32_t get_index(struct firefox_reader *reader, struct firefox_table *table, const char *column, size_t row,
			  int64_t flag, size_t rows)
{
	int64_t number;
	if (!get(table, column, row, flag, &number) || number == -1)
		return FIREFOX_NONE;
	if (number >= 0 && (uint64_t)number < rows)
		return (uint32_t)number;
	reader->dangling++;
	return FIREFOX_NONE;
}

static int check_columns(const struct json_node *table, const char *name, struct error *err)
{
	return json_node_count(table) <= COLUMNS_MAX
		       ? 0
		       : error_set(err, -E2BIG, "%s has %zu columns, more than %u", name, json_node_count(table), COLUMNS_MAX);
}

int firefox_table_length(const struct json_node *table, const char *name, const char *column, size_t *ret, struct error *err)
{
	int r = check_columns(table, name, err);
	if (r < 0)
		return r;
	const struct json_node *values = json_node_get(table, column);
	int64_t length = (int64_t)json_node_count(values);
	if (!json_node_is(values, JSON_NODE_ARRAY))
		return error_set(err, -EBADMSG, "%s has no column %s", name, column);
	json_node_integer(json_node_get(table, "length"), &length);
	if (length < 0 || (uint64_t)length > values->count || length >= FIREFOX_NONE)
		return error_set(err, -EBADMSG, "%s declares %lld rows and has %zu", name, (long long)length,
				 (size_t)values->count);
	*ret = (size_t)length;
	return 0;
}

/* ---- libs ---- */

static int read_lib(struct firefox_reader *reader, const struct json_node *lib, size_t index, uint32_t *ret, struct error *err)
{
	struct bytes path = json_node_bytes(json_node_get(lib, "path")), id = json_node_bytes(json_node_get(lib, "codeId"));
	struct profile_mapping mapping = {.start = (index + 1) * LIB_BYTES, .limit = (index + 2) * LIB_BYTES};
	_cleanup_(buffer_release) struct buffer build_id = {.max = SIZE_MAX};
	if (path.len == 0)
		path = json_node_bytes(json_node_get(lib, "name"));
	if (id.len == 0) {
		if (firefox_append_build_id(json_node_bytes(json_node_get(lib, "breakpadId")), &build_id) == -ENOMEM)
			return error_nomem(err);
		id = buffer_bytes(&build_id);
	}
	int r = profile_add_bytes(reader->profile, path, &mapping.file_name, err);
	if (r == 0)
		r = profile_add_bytes(reader->profile, id, &mapping.build_id, err);
	return r < 0 ? r : profile_add_mapping(reader->profile, &mapping, ret, err);
}

int firefox_read_libs(struct firefox_reader *reader, struct error *err)
{
	const struct json_node *libs = json_node_get(reader->root, "libs");
	reader->lib_count = json_node_is(libs, JSON_NODE_ARRAY) ? libs->count : 0;
	if (reader->lib_count >= UINT32_MAX - 2)
		return error_set(err, -E2BIG, "too many libs");
	reader->mappings = mem_zalloc_array(reader->lib_count, sizeof(*reader->mappings));
	if (!reader->mappings)
		return error_nomem(err);
	int r = 0;
	for (size_t i = 0; r == 0 && i < reader->lib_count; i++)
		r = read_lib(reader, json_node_at(libs, i), i, &reader->mappings[i], err);
	return r;
}

/* ---- functions ---- */

struct func {
	uint32_t function, lib; /* lib: FIREFOX_NONE = none is given here */
	bool is_js;
};

/* Its tables, and what was made of them. */
struct reading {
	struct firefox_reader *reader;
	struct firefox_source *source;
	size_t frame_count, func_count, resource_count, row_count;
	struct func *funcs;
	uint32_t *prefixes;		  /* by row of stackTable; FIREFOX_NONE = a root */
	uint32_t *frames;		  /* the same */
	struct firefox_read_frame *known; /* by row of frameTable */
	uint32_t *depths;		  /* the same, in rows */
};

static int read_text(struct reading *reading, struct firefox_table *table, const char *column, size_t row, uint32_t *ret,
		     struct error *err)
{
	int64_t index;
	*ret = 0;
	if (!json_node_integer(cell(table, column, row), &index))
		return 0;
	const struct json_node *text = index < 0 ? NULL : json_node_at(reading->source->strings, (size_t)index);
	if (!json_node_is(text, JSON_NODE_TEXT)) {
		reading->reader->dangling++;
		return 0;
	}
	struct bytes bytes = json_node_bytes(text);
	return profile_add_bytes(reading->reader->profile, bytes, ret, err);
}

static int read_file_name(struct reading *reading, size_t row, uint32_t *ret, struct error *err)
{
	struct firefox_table *funcs = &reading->source->funcs, *sources = &reading->source->sources;
	uint32_t source;
	if (reading->reader->version < FIREFOX_SOURCES)
		return read_text(reading, funcs, "fileName", row, ret, err);
	*ret = 0;
	source = get_index(reading->reader, funcs, "source", row, FIREFOX_FUNC_HAS_SOURCE,
			   json_node_count(firefox_column(sources, "filename")));
	return source == FIREFOX_NONE ? 0 : read_text(reading, sources, "filename", source, ret, err);
}

static int read_func(struct reading *reading, size_t row, struct error *err)
{
	struct firefox_table *table = &reading->source->funcs, *resources = &reading->source->resources;
	struct func *func = &reading->funcs[row];
	struct profile_function function = {0};
	int64_t line, flags;
	int r = read_text(reading, table, "name", row, &function.name, err);
	if (r == 0)
		r = read_file_name(reading, row, &function.file_name, err);
	if (r < 0)
		return r;
	uint32_t resource =
		get_index(reading->reader, table, "resource", row, FIREFOX_FUNC_HAS_RESOURCE, reading->resource_count);
	func->lib = FIREFOX_NONE;
	if (resource != FIREFOX_NONE && reading->reader->version < FIREFOX_FRAME_LIBS)
		func->lib = get_index(reading->reader, resources, "lib", resource, 0, reading->reader->lib_count);
	if (get(table, "lineNumber", row, FIREFOX_FUNC_HAS_LINE, &line) && line > 0)
		function.start_line = line;
	const struct json_node *is_js = cell(table, "isJS", row);
	func->is_js = json_node_integer(cell(table, "flags", row), &flags)
			      ? flags & FIREFOX_FUNC_IS_JS
			      : json_node_is(is_js, JSON_NODE_BOOLEAN) && is_js->boolean;
	return profile_add_function(reading->reader->profile, &function, &func->function, err);
}

static int read_funcs(struct reading *reading, struct error *err)
{
	int r = firefox_table_length(reading->source->funcs.node, "funcTable", "name", &reading->func_count, err);
	if (r < 0)
		return r;
	reading->resource_count = json_node_count(firefox_column(&reading->source->resources, "name"));
	reading->funcs = mem_alloc_array(reading->func_count + 1, sizeof(*reading->funcs));
	if (!reading->funcs)
		return error_nomem(err);
	for (size_t i = 0; i < reading->func_count; i++) {
		r = read_func(reading, i, err);
		if (r < 0)
			return error_prefix(err, r, "funcTable");
	}
	/* Behind the others: what frames have whose function is not there. */
	struct func *missing = &reading->funcs[reading->func_count];
	*missing = (struct func){.lib = FIREFOX_NONE};
	return profile_add_function(reading->reader->profile, &(struct profile_function){0}, &missing->function, err);
}

/* ---- frames ---- */

static void read_frame(struct reading *reading, size_t row, struct firefox_read_frame *frame)
{
	struct firefox_table *table = &reading->source->frames;
	int64_t flags, number;
	*frame = (struct firefox_read_frame){.lib = FIREFOX_NONE, .address = -1, .category = -1};
	frame->func = get_index(reading->reader, table, "func", row, 0, reading->func_count);
	if (frame->func == FIREFOX_NONE)
		frame->func = (uint32_t)reading->func_count;
	if (reading->reader->version >= FIREFOX_FRAME_LIBS)
		frame->lib =
			get_index(reading->reader, table, "lib", row, FIREFOX_FRAME_HAS_ADDRESS, reading->reader->lib_count);
	else
		frame->lib = reading->funcs[frame->func].lib;
	if (get(table, "address", row, FIREFOX_FRAME_HAS_ADDRESS, &number) && number >= 0 && (uint64_t)number < LIB_BYTES)
		frame->address = number;
	if (get(table, "category", row, FIREFOX_FRAME_HAS_CATEGORY, &number))
		frame->category = number;
	if (get(table, "line", row, FIREFOX_FRAME_HAS_LINE, &number) && number > 0)
		frame->line = number;
	if (get(table, "column", row, FIREFOX_FRAME_HAS_COLUMN, &number) && number > 0)
		frame->column = number;
	if (get(table, "nativeSymbol", row, FIREFOX_FRAME_HAS_SYMBOL, &number))
		frame->symbol = number + 1;
	if (json_node_integer(cell(table, "flags", row), &flags))
		frame->is_inlined = flags & FIREFOX_FRAME_IS_INLINED;
	else
		frame->is_inlined = json_node_integer(cell(table, "inlineDepth", row), &number) && number > 0;
}

static uint32_t frame_type_of(const struct reading *reading, const struct firefox_read_frame *frame)
{
	uint32_t type = firefox_frame_type(reading->reader, frame->category);
	if (type != FIREFOX_NONE)
		return type;
	if (reading->funcs[frame->func].is_js)
		return PROFILE_FRAME_JIT;
	return frame->lib == FIREFOX_NONE ? PROFILE_FRAME_UNKNOWN : PROFILE_FRAME_NATIVE;
}

/* Whether a function stands for an address without a name: it is called "0x123", or "libc.so+0x123" by us. */
static bool is_unnamed(const struct reading *reading, const struct firefox_read_frame *frame)
{
	const struct profile *profile = reading->reader->profile;
	const struct profile_function *function = &profile->functions[reading->funcs[frame->func].function];
	struct bytes name = profile_string_bytes(profile, function->name);
	char address[TEXT_NUMBER_MAX];
	if (frame->address < 0 || frame->line || function->file_name)
		return false;
	int len = snprintf(address, sizeof(address), "0x%llx", (unsigned long long)frame->address);
	if (name.len < (size_t)len || memcmp(name.data + name.len - (size_t)len, address, (size_t)len) != 0)
		return false;
	return name.len == (size_t)len || name.data[name.len - (size_t)len - 1] == '+';
}

/* One location of the frames of a chain of rows, innermost first. */
static int add_location(struct reading *reading, const struct firefox_read_frame *frames, size_t count, uint32_t *ret,
			struct error *err)
{
	const struct firefox_read_frame *outermost = &frames[count - 1];
	struct profile_location location = {.frame_type = frame_type_of(reading, outermost)};
	struct profile_line lines[INLINED_MAX];
	if (outermost->lib != FIREFOX_NONE)
		location.mapping = reading->reader->mappings[outermost->lib];
	if (outermost->address >= 0)
		location.address = (uint64_t)outermost->address + reading->reader->profile->mappings[location.mapping].start;
	for (size_t i = 0; i < count; i++)
		lines[i] = (struct profile_line){reading->funcs[frames[i].func].function, frames[i].line, frames[i].column};
	if (count == 1 && is_unnamed(reading, outermost))
		count = 0;
	return profile_add_location(reading->reader->profile, &location, lines, count, ret, err);
}

/* ---- stacks ---- */

static int read_prefix(struct reading *reading, size_t row, struct error *err)
{
	struct firefox_table *table = &reading->source->stacks;
	int64_t number;
	uint32_t prefix = FIREFOX_NONE;
	if (reading->reader->version >= FIREFOX_PREFIX_OFFSETS) {
		bool is_good =
			json_node_integer(cell(table, "prefixOffset", row), &number) && number >= 0 && (uint64_t)number <= row;
		prefix = is_good && number ? (uint32_t)(row - (size_t)number) : FIREFOX_NONE;
		reading->reader->dangling += !is_good;
	} else if (json_node_integer(cell(table, "prefix", row), &number)) {
		bool is_good = number >= 0 && (uint64_t)number < row;
		prefix = is_good ? (uint32_t)number : FIREFOX_NONE;
		reading->reader->dangling += !is_good;
	}
	reading->prefixes[row] = prefix;
	reading->depths[row] = prefix == FIREFOX_NONE ? 1 : reading->depths[prefix] + 1;
	if (reading->depths[row] > LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "row %zu is deeper than %d frames, the limit", row, LIMIT_STACK_DEPTH);
	return 0;
}

static int read_rows(struct reading *reading, struct error *err)
{
	struct firefox_table *table = &reading->source->stacks;
	int r = firefox_table_length(table->node, "stackTable", "frame", &reading->row_count, err);
	if (r == 0)
		r = firefox_table_length(reading->source->frames.node, "frameTable", "func", &reading->frame_count, err);
	if (r < 0)
		return r;
	reading->prefixes = mem_alloc_array(reading->row_count, sizeof(*reading->prefixes));
	reading->frames = mem_alloc_array(reading->row_count, sizeof(*reading->frames));
	reading->depths = mem_alloc_array(reading->row_count, sizeof(*reading->depths));
	if (!reading->prefixes || !reading->frames || !reading->depths)
		return error_nomem(err);
	for (size_t i = 0; r == 0 && i < reading->row_count; i++) {
		reading->frames[i] = get_index(reading->reader, table, "frame", i, 0, reading->frame_count);
		if (reading->frames[i] == FIREFOX_NONE)
			reading->frames[i] = (uint32_t)reading->frame_count;
		r = read_prefix(reading, i, err);
	}
	return r < 0 ? error_prefix(err, r, "stackTable") : 0;
}

static int read_frames(struct reading *reading, struct error *err)
{
	reading->known = mem_alloc_array(reading->frame_count + 1, sizeof(*reading->known));
	if (!reading->known)
		return error_nomem(err);
	for (size_t i = 0; i < reading->frame_count; i++)
		read_frame(reading, i, &reading->known[i]);
	/* Of rows whose frame is not there. */
	reading->known[reading->frame_count] = (struct firefox_read_frame){
		.func = (uint32_t)reading->func_count, .lib = FIREFOX_NONE, .address = -1, .category = -1};
	return 0;
}

/* The frames of a row and of those above it that it is inlined into, innermost first; *ret_above: the row above all of them. */
static size_t find_chain(const struct reading *reading, uint32_t row, struct firefox_read_frame frames[INLINED_MAX],
			 uint32_t *ret_above)
{
	size_t count = 0;
	frames[count++] = reading->known[reading->frames[row]];
	uint32_t above = reading->prefixes[row];
	while (frames[count - 1].is_inlined && above != FIREFOX_NONE && count < INLINED_MAX) {
		const struct firefox_read_frame *outer = &reading->known[reading->frames[above]], *inner = &frames[count - 1];
		if (outer->address != inner->address || outer->lib != inner->lib || outer->symbol != inner->symbol)
			break;
		frames[count++] = *outer;
		above = reading->prefixes[above];
	}
	*ret_above = above;
	return count;
}

static int make_stacks(struct reading *reading, uint32_t *stacks, struct error *err)
{
	struct firefox_read_frame frames[INLINED_MAX];
	uint32_t above, location;
	for (size_t i = reading->row_count; i-- > 0;) {
		if (stacks[i] == 0)
			continue;
		find_chain(reading, (uint32_t)i, frames, &above);
		if (above != FIREFOX_NONE)
			stacks[above] = FIREFOX_NONE;
	}
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < reading->row_count; i++) {
		if (stacks[i] == 0)
			continue;
		size_t count = find_chain(reading, i, frames, &above);
		r = add_location(reading, frames, count, &location, err);
		if (r == 0)
			r = profile_add_stack(reading->reader->profile, above == FIREFOX_NONE ? 0 : stacks[above], location,
					      &stacks[i], err);
	}
	return r;
}

int firefox_read_stacks(struct firefox_reader *reader, struct firefox_source *source, uint32_t *stacks, size_t count,
			struct error *err)
{
	struct reading reading = {.reader = reader, .source = source};
	int r = check_columns(source->sources.node, "sources", err);
	if (r == 0)
		r = check_columns(source->resources.node, "resourceTable", err);
	if (r == 0)
		r = read_funcs(&reading, err);
	if (r == 0)
		r = read_rows(&reading, err);
	if (r == 0 && reading.row_count != count)
		r = error_set(err, -EBADMSG, "stackTable has %zu rows and declares %zu", reading.row_count, count);
	if (r == 0)
		r = read_frames(&reading, err);
	if (r == 0)
		r = make_stacks(&reading, stacks, err);
	mem_free(reading.known);
	mem_free(reading.funcs);
	mem_free(reading.prefixes);
	mem_free(reading.frames);
	mem_free(reading.depths);
	return r;
}
