/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a block that stacks are made of. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "store/block/block_write_int.h"

static void fill_ids(int32_t *ids, size_t from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		ids[i] = (int32_t)(from + i);
}

/* ---- stacks ---- */

struct stacks {
	const struct block_tables *tables;
	const uint8_t *used;
	const struct hash128 *hashes;
};

/* As 16 bytes, the high half first, each big-endian: the hash's usual hexadecimal form, byte by byte. */
static void put_hash_bytes(struct hash128 hash, uint8_t *out)
{
	uint64_t words[2] = {__builtin_bswap64(hash.high), __builtin_bswap64(hash.low)};
	memcpy(out, words, sizeof(words));
}

static void fill_stacks(const void *context, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	const struct stacks *stacks = context;
	struct bytes *hashes = block_take(&scratch, count, sizeof(*hashes));
	uint8_t *hash_bytes = block_take(&scratch, count, 16);
	int32_t *ids = block_take(&scratch, count, 4);
	fill_ids(ids, from, count);
	for (size_t i = 0; i < count; i++) {
		put_hash_bytes(stacks->hashes[from + i], hash_bytes + 16 * i);
		hashes[i] = (struct bytes){hash_bytes + 16 * i, 16};
	}
	ret[0].i32 = ids;
	ret[1].i32 = stacks->tables->stack_parents + from;
	ret[2].i32 = stacks->tables->stack_locations + from;
	ret[3] = (struct parquet_values){.bytes = hashes, .present = stacks->used + from};
}

static int write_stacks(struct block_writer *writer, const struct stacks *stacks, struct error *err)
{
	static const struct parquet_column columns[] = {
		{.name = "stack_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "parent_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "location_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "hash", .type = PARQUET_FIXED, .type_length = 16, .layout = PARQUET_PLAIN, .optional = true},
	};
	return block_table_write(writer,
				 &(struct block_table){BLOCK_STACKS, columns, 4, stacks->tables->stack_count, fill_stacks,
						       stacks, sizeof(struct bytes) + 16 + 4},
				 err);
}

/* ---- locations and lines ---- */

static void fill_locations(const void *context, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	const struct block_tables *tables = context;
	int32_t *ids = block_take(&scratch, count, 4);
	fill_ids(ids, from, count);
	ret[0].i32 = ids;
	ret[1].i32 = tables->location_mappings + from;
	ret[2].i64 = tables->location_addresses + from;
	ret[3].i32 = tables->location_frame_types + from;
	ret[4].booleans = tables->location_folded + from;
}

static int write_locations(struct block_writer *writer, const struct block_tables *tables, struct error *err)
{
	static const struct parquet_column columns[] = {
		{.name = "location_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "mapping_id", .type = PARQUET_INT32},
		{.name = "address", .type = PARQUET_INT64, .logical = PARQUET_UINT64, .layout = PARQUET_DELTA},
		{.name = "frame_type", .type = PARQUET_INT32},
		{.name = "folded", .type = PARQUET_BOOLEAN},
	};
	return block_table_write(
		writer, &(struct block_table){BLOCK_LOCATIONS, columns, 5, tables->location_count, fill_locations, tables, 4},
		err);
}

/* The location that line `at` belongs to: the last one whose lines begin at or before it, and that has lines. */
static size_t location_of_line(const struct block_tables *tables, size_t at)
{
	size_t low = 0, high = tables->location_count;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (tables->location_line_firsts[middle] <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void fill_lines(const void *context, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	const struct block_tables *tables = context;
	int32_t *locations = block_take(&scratch, count, 4), *positions = block_take(&scratch, count, 4);
	size_t location = location_of_line(tables, from);
	for (size_t i = 0; i < count; i++) {
		while (tables->location_line_firsts[location + 1] <= from + i)
			location++;
		locations[i] = (int32_t)location;
		positions[i] = (int32_t)(from + i - tables->location_line_firsts[location]);
	}
	ret[0].i32 = locations;
	ret[1].i32 = positions;
	ret[2].i32 = tables->line_functions + from;
	ret[3].i64 = tables->line_numbers + from;
	ret[4].i64 = tables->line_columns + from;
}

static int write_lines(struct block_writer *writer, const struct block_tables *tables, struct error *err)
{
	static const struct parquet_column columns[] = {
		{.name = "location_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "position", .type = PARQUET_INT32},
		{.name = "function_id", .type = PARQUET_INT32},
		{.name = "line_number", .type = PARQUET_INT64},
		{.name = "column_number", .type = PARQUET_INT64},
	};
	assert(tables->location_line_firsts[tables->location_count] == tables->line_count);
	return block_table_write(
		writer, &(struct block_table){BLOCK_LINES, columns, 5, tables->line_count, fill_lines, tables, 2 * 4}, err);
}

/* ---- functions and mappings ---- */

static void fill_functions(const void *context, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	const struct block_tables *tables = context;
	int32_t *ids = block_take(&scratch, count, 4);
	fill_ids(ids, from, count);
	ret[0].i32 = ids;
	ret[1].bytes = tables->function_names + from;
	ret[2].bytes = tables->function_system_names + from;
	ret[3].bytes = tables->function_file_names + from;
	ret[4].i64 = tables->function_start_lines + from;
}

static int write_functions(struct block_writer *writer, const struct block_tables *tables, struct error *err)
{
	static const struct parquet_column columns[] = {
		{.name = "function_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
		{.name = "system_name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
		{.name = "file_name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
		{.name = "start_line", .type = PARQUET_INT64},
	};
	return block_table_write(
		writer, &(struct block_table){BLOCK_FUNCTIONS, columns, 5, tables->function_count, fill_functions, tables, 4},
		err);
}

static void fill_mappings(const void *context, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	const struct block_tables *tables = context;
	int32_t *ids = block_take(&scratch, count, 4);
	fill_ids(ids, from, count);
	ret[0].i32 = ids;
	ret[1].i64 = tables->mapping_starts + from;
	ret[2].i64 = tables->mapping_limits + from;
	ret[3].i64 = tables->mapping_offsets + from;
	ret[4].bytes = tables->mapping_file_names + from;
	ret[5].bytes = tables->mapping_build_ids + from;
	ret[6].i32 = tables->mapping_flags + from;
}

static int write_mappings(struct block_writer *writer, const struct block_tables *tables, struct error *err)
{
	static const struct parquet_column columns[] = {
		{.name = "mapping_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "memory_start", .type = PARQUET_INT64, .logical = PARQUET_UINT64},
		{.name = "memory_limit", .type = PARQUET_INT64, .logical = PARQUET_UINT64},
		{.name = "file_offset", .type = PARQUET_INT64, .logical = PARQUET_UINT64},
		{.name = "file_name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
		{.name = "build_id", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
		{.name = "flags", .type = PARQUET_INT32},
	};
	return block_table_write(
		writer, &(struct block_table){BLOCK_MAPPINGS, columns, 7, tables->mapping_count, fill_mappings, tables, 4},
		err);
}

int block_writer_tables(struct block_writer *writer, const struct block_tables *tables, const uint8_t *used,
			const struct hash128 *hashes, struct error *err)
{
	const struct stacks stacks = {tables, used, hashes};
	if (tables->stack_count > INT32_MAX || tables->line_count > INT32_MAX)
		return error_set(err, -E2BIG, "a block can hold %d stacks and lines", INT32_MAX);
	writer->stack_count = tables->stack_count;
	writer->has_tables = true;
	int r = write_stacks(writer, &stacks, err);
	if (r == 0)
		r = write_locations(writer, tables, err);
	if (r == 0)
		r = write_lines(writer, tables, err);
	if (r == 0)
		r = write_functions(writer, tables, err);
	return r == 0 ? write_mappings(writer, tables, err) : r;
}
