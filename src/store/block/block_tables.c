/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The indexes of a block in memory: its series, and the tables that stacks are made of.
 *
 * Nothing is interned and nothing is hashed here: ids are row numbers, so a table is its columns, decoded. Only what a query
 * uses is turned into profile entries later. Strings stay where the Parquet reader has put them; their memory is taken over.
 *
 * Checksums have been verified by the time a column is decoded, but a reference that is out of range would be an invalid memory
 * access whoever wrote it, so all are checked once, here.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "store/block/block.h"

/* ---- what they are ---- */

/* In the order of enum block_file, from BLOCK_STACKS on. */
#define IN(array) offsetof(struct block_tables, array)
const struct block_table_layout block_table_layouts[BLOCK_TABLES] = {
	{
		.file = BLOCK_STACKS,
		.count = IN(stack_count),
		.column_count = 4,
		.columns =
			{{.name = "stack_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
			 {.name = "parent_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
			 {.name = "location_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
			 {.name = "hash", .type = PARQUET_FIXED, .type_length = 16, .layout = PARQUET_PLAIN, .optional = true}},
		.arrays = {[1] = IN(stack_parents), [2] = IN(stack_locations)},
	},
	{
		.file = BLOCK_LOCATIONS,
		.count = IN(location_count),
		.column_count = 5,
		.columns = {{.name = "location_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
			    {.name = "mapping_id", .type = PARQUET_INT32},
			    {.name = "address", .type = PARQUET_INT64, .logical = PARQUET_UINT64, .layout = PARQUET_DELTA},
			    {.name = "frame_type", .type = PARQUET_INT32},
			    {.name = "folded", .type = PARQUET_BOOLEAN}},
		.arrays = {[1] = IN(location_mappings), IN(location_addresses), IN(location_frame_types), IN(location_folded)},
	},
	{
		.file = BLOCK_LINES,
		.count = IN(line_count),
		.column_count = 5,
		.columns = {{.name = "location_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
			    {.name = "position", .type = PARQUET_INT32},
			    {.name = "function_id", .type = PARQUET_INT32},
			    {.name = "line_number", .type = PARQUET_INT64},
			    {.name = "column_number", .type = PARQUET_INT64}},
		.arrays = {[2] = IN(line_functions), IN(line_numbers), IN(line_columns)},
	},
	{
		.file = BLOCK_FUNCTIONS,
		.count = IN(function_count),
		.column_count = 5,
		.columns = {{.name = "function_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
			    {.name = "name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
			    {.name = "system_name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
			    {.name = "file_name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
			    {.name = "start_line", .type = PARQUET_INT64}},
		.arrays = {[1] = IN(function_names),
			   IN(function_system_names),
			   IN(function_file_names),
			   IN(function_start_lines)},
	},
	{
		.file = BLOCK_MAPPINGS,
		.count = IN(mapping_count),
		.column_count = 7,
		.columns = {{.name = "mapping_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
			    {.name = "memory_start", .type = PARQUET_INT64, .logical = PARQUET_UINT64},
			    {.name = "memory_limit", .type = PARQUET_INT64, .logical = PARQUET_UINT64},
			    {.name = "file_offset", .type = PARQUET_INT64, .logical = PARQUET_UINT64},
			    {.name = "file_name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
			    {.name = "build_id", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
			    {.name = "flags", .type = PARQUET_INT32}},
		.arrays = {[1] = IN(mapping_starts),
			   IN(mapping_limits),
			   IN(mapping_offsets),
			   IN(mapping_file_names),
			   IN(mapping_build_ids),
			   IN(mapping_flags)},
	},
};

size_t block_value_size(enum parquet_type type)
{
	return type == PARQUET_BYTE_ARRAY || type == PARQUET_FIXED ? sizeof(struct bytes)
	       : type == PARQUET_BOOLEAN			   ? 1
	       : type == PARQUET_INT32				   ? 4
								   : 8;
}

size_t block_table_rows(const struct block_tables *tables, const struct block_table_layout *layout)
{
	size_t count;
	memcpy(&count, (const uint8_t *)tables + layout->count, sizeof(count));
	return count;
}

int block_table_allocate(struct block_tables *tables, enum block_file file, struct error *err)
{
	const struct block_table_layout *layout = &block_table_layouts[file - BLOCK_STACKS];
	size_t rows = block_table_rows(tables, layout);
	for (size_t i = 0; i < layout->column_count; i++) {
		if (!layout->arrays[i])
			continue;
		void *array = mem_alloc_array(rows, block_value_size(layout->columns[i].type));
		if (!array)
			return error_nomem(err);
		*block_table_array(tables, layout, i) = array;
	}
	return 0;
}

void block_tables_release(struct block_tables *tables)
{
	for (size_t i = 0; i < tables->arena_count; i++)
		arena_release(&tables->arenas[i]);
	mem_free(tables->arenas);
	mem_free(tables->location_line_firsts);
	for (size_t t = 0; t < BLOCK_TABLES; t++)
		for (size_t i = 0; i < block_table_layouts[t].column_count; i++)
			if (block_table_layouts[t].arrays[i])
				mem_free(*block_table_array(tables, &block_table_layouts[t], i));
}

struct block_tables *block_tables_free(struct block_tables *tables)
{
	if (tables)
		block_tables_release(tables);
	return mem_free(tables);
}

/* ---- whole columns ---- */

static int keep_arena(struct block_tables *tables, struct arena *arena, struct error *err)
{
	if (array_reserve(&tables->arenas, &tables->arena_capacity, tables->arena_count + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	tables->bytes += arena->used_bytes;
	tables->arenas[tables->arena_count++] = *arena;
	arena_init(arena, 0);
	return 0;
}

/* Takes over what the strings of `data` point into. */
static int keep_strings(struct block_tables *tables, struct parquet_data *data, struct error *err)
{
	int r = keep_arena(tables, &data->storage, err);
	if (r < 0 || !data->dictionary_file)
		return r;
	data->dictionary_file = 0;
	return keep_arena(tables, &data->dictionary_storage, err);
}

int block_read_column(struct parquet_file *file, const char *name, enum parquet_type type, void *to,
		      struct block_tables *strings, struct error *err)
{
	size_t column, size = block_value_size(type), at = 0;
	_cleanup_(parquet_data_release) struct parquet_data data = {0};
	int r = block_find_column(file, name, type, &column, err);
	for (size_t g = 0; r == 0 && g < parquet_group_count(file); g++) {
		r = parquet_read(file, g, column, &data, err);
		if (r == 0 && data.null_count)
			r = error_set(err, -EBADMSG, "column %s has nulls", name);
		if (r == 0 && data.count != parquet_group_rows(file, g))
			r = error_set(err, -EBADMSG, "column %s has a different number of rows", name);
		if (r == 0 && data.count)
			memcpy((uint8_t *)to + at * size, data.any, data.count * size);
		at += data.count;
		if (r == 0 && type == PARQUET_BYTE_ARRAY)
			r = keep_strings(strings, &data, err);
	}
	return r;
}

static int check_references(const int32_t *ids, size_t count, size_t limit, const char *name, struct error *err)
{
	return block_ids_are_below(ids, count, limit) ? 0 : error_set(err, -EBADMSG, "column %s refers to a missing row", name);
}

/* ---- tables ---- */

struct loading {
	const struct block *block;
	struct block_tables *tables;
	uint64_t *bytes;
	uint8_t *bad[BLOCK_TABLES];		 /* by row: it cannot be read; NULL = all can be */
	int32_t *line_locations;		 /* of lines */
	const struct block_table_layout *layout; /* of the table at hand */
	struct error *err;
};

static uint8_t **bad_of(struct loading *l, enum block_file file)
{
	return &l->bad[file - BLOCK_STACKS];
}

/* One row group of a column, in which pages are damaged: those are zeros. */
static int read_group_around(struct loading *l, struct parquet_file *file, size_t group, size_t column, uint8_t *to,
			     uint8_t *bad)
{
	size_t pages = parquet_page_count(file, group), damaged, size;
	_cleanup_(mem_freep) uint8_t *bad_pages = mem_zalloc(pages);
	_cleanup_(parquet_data_release) struct parquet_data data = {0};
	if (!bad_pages)
		return error_nomem(l->err);
	int r = parquet_read_around(file, group, column, 0, pages, &data, bad_pages, &damaged, l->err);
	if (r < 0)
		return r;
	if (data.count != parquet_group_rows(file, group))
		return error_set(l->err, -EBADMSG, "a column has a different number of rows");
	size = block_value_size(data.type);
	memcpy(to, data.any, data.count * size);
	for (size_t i = 0; i < pages; i++) {
		size_t from = parquet_page_first_row(file, group, i), end = parquet_page_first_row(file, group, i + 1);
		if (bad_pages[i])
			memset(bad + from, 1, end - from);
	}
	return data.type == PARQUET_BYTE_ARRAY ? keep_strings(l->tables, &data, l->err) : 0;
}

static int read_around(struct loading *l, struct parquet_file *file, const char *name, enum parquet_type type, uint8_t *to)
{
	uint8_t **bad = bad_of(l, l->layout->file);
	size_t column, at = 0, rows = parquet_rows(file);
	if (!*bad)
		*bad = mem_zalloc(rows);
	int r = *bad ? block_find_column(file, name, type, &column, l->err) : error_nomem(l->err);
	for (size_t g = 0; r == 0 && g < parquet_group_count(file); g++) {
		r = read_group_around(l, file, g, column, to + at * block_value_size(type), *bad + at);
		at += parquet_group_rows(file, g);
	}
	return r;
}

/* Reads one column of all row groups into a new array, *ret. */
static int load_column(struct loading *l, struct parquet_file *file, const char *name, enum parquet_type type, void *ret)
{
	size_t rows = parquet_rows(file), size = block_value_size(type);
	void *all = mem_alloc_array(rows, size);
	if (!all)
		return error_nomem(l->err);
	memcpy(ret, &all, sizeof(all));
	l->tables->bytes += rows * size;
	int r = block_read_column(file, name, type, all, l->tables, l->err);
	return r == -EBADMSG ? read_around(l, file, name, type, all) : r;
}

static int check_parents(struct loading *l)
{
	const struct block_tables *t = l->tables;
	for (size_t i = 1; i < t->stack_count; i++)
		if (t->stack_parents[i] < 0 || (size_t)t->stack_parents[i] >= i)
			return error_set(l->err, -EBADMSG, "a stack's parent does not come before it");
	return 0;
}

/* Takes the lines out that cannot be read: their locations have fewer then. */
static void drop_lines(struct loading *l)
{
	struct block_tables *t = l->tables;
	const uint8_t *bad = *bad_of(l, BLOCK_LINES);
	size_t kept = 0;
	for (size_t i = 0; bad && i < t->line_count; i++) {
		if (bad[i])
			continue;
		l->line_locations[kept] = l->line_locations[i];
		t->line_functions[kept] = t->line_functions[i];
		t->line_numbers[kept] = t->line_numbers[i];
		t->line_columns[kept++] = t->line_columns[i];
	}
	t->damaged_rows += bad ? t->line_count - kept : 0;
	t->line_count = bad ? kept : t->line_count;
}

/* Turns the sorted column of location ids into where each location's lines begin. */
static int index_lines(struct loading *l)
{
	struct block_tables *t = l->tables;
	const int32_t *locations = l->line_locations;
	t->location_line_firsts = mem_zalloc_array(t->location_count + 1, sizeof(*t->location_line_firsts));
	if (!t->location_line_firsts)
		return error_nomem(l->err);
	t->bytes += (t->location_count + 1) * sizeof(*t->location_line_firsts);
	for (size_t i = 0; i < t->line_count; i++) {
		if (locations[i] < 0 || (size_t)locations[i] >= t->location_count || (i && locations[i] < locations[i - 1]))
			return error_set(l->err, -EBADMSG, "lines are not in the order of locations");
		t->location_line_firsts[locations[i] + 1]++;
	}
	for (size_t i = 1; i <= t->location_count; i++)
		t->location_line_firsts[i] += t->location_line_firsts[i - 1];
	return 0;
}

static int load_arrays(struct loading *l, const struct block_table_layout *layout, struct parquet_file *file)
{
	const struct parquet_column *columns = layout->columns;
	*l->bytes += l->block->meta.files[layout->file].size;
	size_t rows = parquet_rows(file);
	if (rows > INT32_MAX)
		return error_set(l->err, -EBADMSG, "too many rows");
	memcpy((uint8_t *)l->tables + layout->count, &rows, sizeof(rows));
	l->layout = layout;
	int r = 0;
	if (layout->file == BLOCK_LINES)
		r = load_column(l, file, "location_id", PARQUET_INT32, &l->line_locations);
	for (size_t i = 0; r == 0 && i < layout->column_count; i++)
		if (layout->arrays[i])
			r = load_column(l, file, columns[i].name, columns[i].type, block_table_array(l->tables, layout, i));
	if (r == 0 && layout->file == BLOCK_LINES) {
		drop_lines(l);
		r = index_lines(l);
	}
	return r == 0 && layout->file == BLOCK_STACKS ? check_parents(l) : r;
}

static int load_table(struct loading *l, const struct block_table_layout *layout)
{
	_cleanup_(parquet_closep) struct parquet_file *file = NULL;
	struct error own = {0}, *err = l->err;
	l->err = &own;
	int r = block_open_file(l->block, layout->file, &file, l->err);
	if (r == 0)
		r = load_arrays(l, layout, file);
	l->err = err;
	if (r < 0)
		error_set(err, r, "%s/%s: %s", l->block->path, block_file_names[layout->file], own.message);
	return r;
}

/* ---- damaged tables ---- */

/*
 * Rows that cannot be read are zeros so far. What refers to them is made to refer to a location with one line, of a function
 * that says so; a stack of which the caller is not known begins with it. Values keep their stacks, and stacks what can be
 * known of them.
 */

static int grow_arrays(struct loading *l, const struct block_table_layout *layout)
{
	size_t rows = block_table_rows(l->tables, layout), more = rows + 1;
	for (size_t i = 0; i < layout->column_count; i++) {
		size_t size = block_value_size(layout->columns[i].type);
		if (!layout->arrays[i])
			continue;
		uint8_t *grown = mem_realloc_array(*block_table_array(l->tables, layout, i), more, size);
		if (!grown)
			return error_nomem(l->err);
		memset(grown + rows * size, 0, size);
		*block_table_array(l->tables, layout, i) = grown;
	}
	memcpy((uint8_t *)l->tables + layout->count, &more, sizeof(more));
	return 0;
}

/* *ret: the location. */
static int add_placeholder(struct loading *l, int32_t *ret)
{
	struct block_tables *t = l->tables;
	int r = 0;
	for (size_t i = 0; r == 0 && i < BLOCK_TABLES; i++) {
		enum block_file file = block_table_layouts[i].file;
		if (file == BLOCK_LOCATIONS || file == BLOCK_LINES || file == BLOCK_FUNCTIONS)
			r = grow_arrays(l, &block_table_layouts[i]);
	}
	if (r < 0)
		return r;
	size_t *firsts = mem_realloc_array(t->location_line_firsts, t->location_count + 1, sizeof(*firsts));
	if (!firsts)
		return error_nomem(l->err);
	t->location_line_firsts = firsts;
	firsts[t->location_count] = t->line_count;
	t->line_functions[t->line_count - 1] = (int32_t)t->function_count - 1;
	t->function_names[t->function_count - 1] = bytes_of_string(BLOCK_DAMAGED_NAME);
	*ret = (int32_t)t->location_count - 1;
	return 0;
}

static int replace_damaged(struct loading *l)
{
	struct block_tables *t = l->tables;
	const uint8_t *stacks = *bad_of(l, BLOCK_STACKS), *locations = *bad_of(l, BLOCK_LOCATIONS),
		      *functions = *bad_of(l, BLOCK_FUNCTIONS), *mappings = *bad_of(l, BLOCK_MAPPINGS);
	size_t location_count = t->location_count, function_count = t->function_count;
	int32_t placeholder = 0;
	if (!stacks && !locations && !functions && !mappings)
		return 0;
	int r = add_placeholder(l, &placeholder);
	if (r < 0)
		return r;
	for (size_t i = 1; i < t->stack_count; i++) {
		size_t location = (size_t)t->stack_locations[i];
		bool bad = (stacks && stacks[i]) || (locations && location < location_count && locations[location]);
		if (bad)
			t->stack_locations[i] = placeholder;
		t->damaged_rows += stacks && stacks[i];
	}
	for (size_t i = 1; locations && i < location_count; i++)
		t->damaged_rows += locations[i];
	for (size_t i = 1; functions && i < function_count; i++) {
		if (!functions[i])
			continue;
		t->function_names[i] = bytes_of_string(BLOCK_DAMAGED_NAME);
		t->damaged_rows++;
	}
	for (size_t i = 1; mappings && i < t->mapping_count; i++)
		t->damaged_rows += mappings[i];
	return 0;
}

static int check_tables(struct loading *l)
{
	const struct block_tables *t = l->tables;
	if (!t->stack_count || !t->location_count || !t->function_count || !t->mapping_count)
		return error_set(l->err, -EBADMSG, "%s: a table has no row 0", l->block->path);
	int r = check_references(t->stack_locations, t->stack_count, t->location_count, "location_id", l->err);
	if (r == 0)
		r = check_references(t->location_mappings, t->location_count, t->mapping_count, "mapping_id", l->err);
	if (r == 0)
		r = check_references(t->line_functions, t->line_count, t->function_count, "function_id", l->err);
	return r < 0 ? error_prefix(l->err, r, "%s", l->block->path) : 0;
}

int block_tables_load(const struct block *block, struct block_tables **ret, uint64_t *bytes, struct error *err)
{
	struct block_tables *tables = mem_zalloc(sizeof(*tables));
	if (!tables)
		return error_nomem(err);
	struct loading loading = {.block = block, .tables = tables, .bytes = bytes, .err = err};
	tables->refs = 1;
	tables->bytes = sizeof(*tables);
	int r = 0;
	for (size_t i = 0; r == 0 && i < BLOCK_TABLES; i++)
		r = load_table(&loading, &block_table_layouts[i]);
	if (r == 0)
		r = replace_damaged(&loading);
	if (r == 0)
		r = check_tables(&loading);
	for (size_t i = 0; i < BLOCK_TABLES; i++)
		mem_free(loading.bad[i]);
	mem_free(loading.line_locations);
	if (r < 0) {
		block_tables_free(tables);
		return r;
	}
	*ret = tables;
	return 0;
}

/* ---- hashes ---- */

static struct hash128 hash_of_bytes(const uint8_t *bytes)
{
	uint64_t words[2];
	memcpy(words, bytes, sizeof(words));
	return (struct hash128){.high = __builtin_bswap64(words[0]), .low = __builtin_bswap64(words[1])};
}

/* Those of one row group; those of damaged pages are lost. */
static int read_hashes_around(struct parquet_file *file, size_t group, size_t column, struct block_hashes *hashes, size_t at,
			      struct parquet_data *data, struct error *err)
{
	size_t pages = parquet_page_count(file, group), damaged;
	_cleanup_(mem_freep) uint8_t *bad = mem_zalloc(pages);
	if (!hashes->lost)
		hashes->lost = mem_zalloc(hashes->count);
	if (!bad || !hashes->lost)
		return error_nomem(err);
	int r = parquet_read_around(file, group, column, 0, pages, data, bad, &damaged, err);
	for (size_t i = 0; r == 0 && i < pages; i++) {
		size_t from = parquet_page_first_row(file, group, i), end = parquet_page_first_row(file, group, i + 1);
		if (bad[i])
			memset(hashes->lost + at + from, 1, end - from);
	}
	return r;
}

static int read_hashes(struct parquet_file *file, struct block_hashes *hashes, struct error *err)
{
	size_t column, at = 0;
	if (!parquet_find_column(file, "hash", &column) || parquet_column_at(file, column)->type != PARQUET_FIXED ||
	    parquet_column_at(file, column)->type_length != sizeof(struct hash128))
		return error_set(err, -EBADMSG, "column hash is missing or has the wrong type");
	_cleanup_(parquet_data_release) struct parquet_data data = {0};
	int r = 0;
	for (size_t g = 0; r == 0 && g < parquet_group_count(file); g++) {
		r = parquet_read(file, g, column, &data, err);
		if (r == -EBADMSG)
			r = read_hashes_around(file, g, column, hashes, at, &data, err);
		for (size_t i = 0; r == 0 && i < data.count; i++, at++)
			if (!data.present || data.present[i])
				hashes->hashes[at] = hash_of_bytes(data.bytes[i].data);
	}
	return r;
}

int block_hashes_load(const struct block *block, struct block_hashes **ret, uint64_t *bytes, struct error *err)
{
	_cleanup_(parquet_closep) struct parquet_file *file = NULL;
	struct block_hashes *hashes = mem_zalloc(sizeof(*hashes));
	if (!hashes)
		return error_nomem(err);
	hashes->refs = 1;
	int r = block_open_file(block, BLOCK_STACKS, &file, err);
	if (r == 0) {
		hashes->count = parquet_rows(file);
		hashes->bytes = sizeof(*hashes) + hashes->count * sizeof(*hashes->hashes);
		hashes->hashes = mem_zalloc_array(hashes->count, sizeof(*hashes->hashes));
		r = hashes->hashes ? read_hashes(file, hashes, err) : error_nomem(err);
		*bytes += parquet_bytes_read(file);
	}
	if (r < 0) {
		block_hashes_free(hashes);
		return r == -EBADMSG ? error_prefix(err, r, "%s/%s", block->path, block_file_names[BLOCK_STACKS]) : r;
	}
	*ret = hashes;
	return 0;
}

struct block_hashes *block_hashes_free(struct block_hashes *hashes)
{
	if (!hashes)
		return NULL;
	mem_free(hashes->hashes);
	mem_free(hashes->lost);
	mem_free(hashes);
	return NULL;
}
