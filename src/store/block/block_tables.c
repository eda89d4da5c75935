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

/* Reads one column of all row groups into a new array, *ret. */
static int load_column(struct block_tables *tables, struct parquet_file *file, const char *name, enum parquet_type type,
		       void *ret, struct error *err)
{
	size_t column, size = type == PARQUET_BYTE_ARRAY ? sizeof(struct bytes)
			      : type == PARQUET_BOOLEAN	 ? 1
			      : type == PARQUET_INT32	 ? 4
							 : 8;
	if (!parquet_find_column(file, name, &column) || parquet_column_at(file, column)->type != type)
		return error_set(err, -EBADMSG, "column %s is missing or has the wrong type", name);
	size_t rows = parquet_rows(file), at = 0;
	uint8_t *all = mem_alloc_array(rows, size);
	if (!all)
		return error_nomem(err);
	memcpy(ret, &all, sizeof(all));
	tables->bytes += rows * size;
	struct parquet_data data;
	parquet_data_init(&data);
	int r = 0;
	for (size_t g = 0; r == 0 && g < parquet_group_count(file); g++) {
		r = parquet_read(file, g, column, &data, err);
		if (r < 0)
			break;
		if (data.null_count)
			r = error_set(err, -EBADMSG, "column %s has nulls", name);
		memcpy(all + at * size, data.any, data.count * size);
		at += data.count;
		if (r == 0 && type == PARQUET_BYTE_ARRAY)
			r = keep_strings(tables, &data, err);
	}
	parquet_data_release(&data);
	return r;
}

static int check_references(const int32_t *ids, size_t count, size_t limit, const char *name, struct error *err)
{
	uint32_t most = 0;
	for (size_t i = 0; i < count; i++)
		most = (uint32_t)ids[i] > most ? (uint32_t)ids[i] : most;
	return count && most >= limit ? error_set(err, -EBADMSG, "column %s refers to a missing row", name) : 0;
}

/* ---- tables ---- */

struct loading {
	const struct block *block;
	struct block_tables *tables;
	uint64_t *bytes;
	struct error *err;
};

#define LOAD(file, name, type, target) load_column(l->tables, (file), (name), (type), &l->tables->target, l->err)

static int open_table(struct loading *l, enum block_file which, struct parquet_file **ret, size_t *ret_rows)
{
	int r = block_open_file(l->block, which, ret, l->err);
	if (r < 0)
		return r;
	*l->bytes += l->block->meta.files[which].size;
	*ret_rows = parquet_rows(*ret);
	return *ret_rows <= INT32_MAX ? 0 : error_set(l->err, -EBADMSG, "too many rows");
}

static int load_stacks(struct loading *l, struct parquet_file *file)
{
	struct block_tables *t = l->tables;
	int r = LOAD(file, "parent_id", PARQUET_INT32, stack_parents);
	if (r == 0)
		r = LOAD(file, "location_id", PARQUET_INT32, stack_locations);
	if (r < 0)
		return r;
	for (size_t i = 1; i < t->stack_count; i++)
		if (t->stack_parents[i] < 0 || (size_t)t->stack_parents[i] >= i)
			return error_set(l->err, -EBADMSG, "a stack's parent does not come before it");
	return 0;
}

static int load_locations(struct loading *l, struct parquet_file *file)
{
	int r = LOAD(file, "mapping_id", PARQUET_INT32, location_mappings);
	if (r == 0)
		r = LOAD(file, "address", PARQUET_INT64, location_addresses);
	if (r == 0)
		r = LOAD(file, "frame_type", PARQUET_INT32, location_frame_types);
	return r == 0 ? LOAD(file, "folded", PARQUET_BOOLEAN, location_folded) : r;
}

/* Turns the sorted column of location ids into where each location's lines begin. */
static int index_lines(struct loading *l, const int32_t *locations)
{
	struct block_tables *t = l->tables;
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

static int load_lines(struct loading *l, struct parquet_file *file)
{
	_cleanup_(mem_freep) int32_t *locations = NULL;
	int r = load_column(l->tables, file, "location_id", PARQUET_INT32, &locations, l->err);
	if (r == 0)
		r = index_lines(l, locations);
	if (r == 0)
		r = LOAD(file, "function_id", PARQUET_INT32, line_functions);
	if (r == 0)
		r = LOAD(file, "line_number", PARQUET_INT64, line_numbers);
	return r == 0 ? LOAD(file, "column_number", PARQUET_INT64, line_columns) : r;
}

static int load_functions(struct loading *l, struct parquet_file *file)
{
	int r = LOAD(file, "name", PARQUET_BYTE_ARRAY, function_names);
	if (r == 0)
		r = LOAD(file, "system_name", PARQUET_BYTE_ARRAY, function_system_names);
	if (r == 0)
		r = LOAD(file, "file_name", PARQUET_BYTE_ARRAY, function_file_names);
	return r == 0 ? LOAD(file, "start_line", PARQUET_INT64, function_start_lines) : r;
}

static int load_mappings(struct loading *l, struct parquet_file *file)
{
	int r = LOAD(file, "memory_start", PARQUET_INT64, mapping_starts);
	if (r == 0)
		r = LOAD(file, "memory_limit", PARQUET_INT64, mapping_limits);
	if (r == 0)
		r = LOAD(file, "file_offset", PARQUET_INT64, mapping_offsets);
	if (r == 0)
		r = LOAD(file, "file_name", PARQUET_BYTE_ARRAY, mapping_file_names);
	if (r == 0)
		r = LOAD(file, "build_id", PARQUET_BYTE_ARRAY, mapping_build_ids);
	return r == 0 ? LOAD(file, "flags", PARQUET_INT32, mapping_flags) : r;
}

static int load_table(struct loading *l, enum block_file which, size_t *ret_rows,
		      int (*load)(struct loading *l, struct parquet_file *file))
{
	_cleanup_(parquet_closep) struct parquet_file *file = NULL;
	struct error own = {0}, *err = l->err;
	l->err = &own;
	int r = open_table(l, which, &file, ret_rows);
	if (r == 0)
		r = load(l, file);
	l->err = err;
	if (r < 0)
		error_set(err, r, "%s/%s: %s", l->block->path, block_file_names[which], own.message);
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
	int r = load_table(&loading, BLOCK_STACKS, &tables->stack_count, load_stacks);
	if (r == 0)
		r = load_table(&loading, BLOCK_LOCATIONS, &tables->location_count, load_locations);
	if (r == 0)
		r = load_table(&loading, BLOCK_LINES, &tables->line_count, load_lines);
	if (r == 0)
		r = load_table(&loading, BLOCK_FUNCTIONS, &tables->function_count, load_functions);
	if (r == 0)
		r = load_table(&loading, BLOCK_MAPPINGS, &tables->mapping_count, load_mappings);
	if (r == 0)
		r = check_tables(&loading);
	if (r < 0) {
		block_tables_free(tables);
		return r;
	}
	*ret = tables;
	return 0;
}

struct block_tables *block_tables_free(struct block_tables *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->arena_count; i++)
		arena_release(&t->arenas[i]);
	void *const columns[] = {t->arenas,
				 t->stack_parents,
				 t->stack_locations,
				 t->location_mappings,
				 t->location_frame_types,
				 t->location_addresses,
				 t->location_folded,
				 t->location_line_firsts,
				 t->line_functions,
				 t->line_numbers,
				 t->line_columns,
				 t->function_names,
				 t->function_system_names,
				 t->function_file_names,
				 t->function_start_lines,
				 t->mapping_starts,
				 t->mapping_limits,
				 t->mapping_offsets,
				 t->mapping_file_names,
				 t->mapping_build_ids,
				 t->mapping_flags};
	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
		mem_free(columns[i]);
	mem_free(t);
	return NULL;
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
	struct parquet_data data;
	parquet_data_init(&data);
	int r = 0;
	for (size_t g = 0; r == 0 && g < parquet_group_count(file); g++) {
		r = parquet_read(file, g, column, &data, err);
		for (size_t i = 0; r == 0 && i < data.count; i++, at++)
			if (!data.present || data.present[i])
				hashes->hashes[at] = hash_of_bytes(data.bytes[i].data);
	}
	parquet_data_release(&data);
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
