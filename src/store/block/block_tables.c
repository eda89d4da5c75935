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

/* Takes over what the strings of `data` point into. */
static int keep_strings(struct block_tables *tables, struct parquet_data *data, struct error *err)
{
	if (array_reserve(&tables->arenas, &tables->arena_capacity, tables->arena_count + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	tables->bytes += data->storage.used_bytes;
	tables->arenas[tables->arena_count++] = data->storage;
	arena_init(&data->storage, 0);
	return 0;
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

/* Reads one column of all row groups into a new array, *ret. */
static int load_column(struct block_tables *tables, struct parquet_file *file, const char *name, enum parquet_type type,
		       void *ret, struct error *err)
{
	size_t rows = parquet_rows(file), size = block_value_size(type);
	void *all = mem_alloc_array(rows, size);
	if (!all)
		return error_nomem(err);
	memcpy(ret, &all, sizeof(all));
	tables->bytes += rows * size;
	return block_read_column(file, name, type, all, tables, err);
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
	struct error *err;
};

static int check_parents(struct loading *l)
{
	const struct block_tables *t = l->tables;
	for (size_t i = 1; i < t->stack_count; i++)
		if (t->stack_parents[i] < 0 || (size_t)t->stack_parents[i] >= i)
			return error_set(l->err, -EBADMSG, "a stack's parent does not come before it");
	return 0;
}

/* Turns the sorted column of location ids into where each location's lines begin. */
static int index_lines(struct loading *l, struct parquet_file *file)
{
	struct block_tables *t = l->tables;
	_cleanup_(mem_freep) int32_t *locations = NULL;
	int r = load_column(t, file, "location_id", PARQUET_INT32, &locations, l->err);
	if (r < 0)
		return r;
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
	int r = layout->file == BLOCK_LINES ? index_lines(l, file) : 0;
	for (size_t i = 0; r == 0 && i < layout->column_count; i++)
		if (layout->arrays[i])
			r = load_column(l->tables, file, columns[i].name, columns[i].type,
					block_table_array(l->tables, layout, i), l->err);
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
		r = check_tables(&loading);
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
	mem_free(hashes);
	return NULL;
}
