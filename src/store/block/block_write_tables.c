/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a block that stacks are made of. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "store/block/block_write_int.h"

/* What one table is filled from. */
struct filling {
	const struct block_table_layout *layout;
	const struct block_tables *tables;
	const uint8_t *used;	      /* of stacks */
	const struct hash128 *hashes; /* likewise */
};

/* As 16 bytes, the high half first, each big-endian: the hash's usual hexadecimal form, byte by byte. */
static void put_hash_bytes(struct hash128 hash, uint8_t *out)
{
	uint64_t words[2] = {__builtin_bswap64(hash.high), __builtin_bswap64(hash.low)};
	memcpy(out, words, sizeof(words));
}

static void *fill_hashes(const struct filling *filling, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	struct bytes *hashes = block_take(&scratch, count, sizeof(*hashes));
	uint8_t *hash_bytes = block_take(&scratch, count, 16);
	for (size_t i = 0; i < count; i++) {
		put_hash_bytes(filling->hashes[from + i], hash_bytes + 16 * i);
		hashes[i] = (struct bytes){hash_bytes + 16 * i, 16};
	}
	*ret = (struct parquet_values){.bytes = hashes, .present = filling->used + from};
	return scratch;
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

static void fill_places_of_lines(const struct block_tables *tables, void *scratch, size_t from, size_t count,
				 struct parquet_values *ret)
{
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
}

/* The first column of all but the lines is the row's number. */
static void fill_ids(void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	int32_t *ids = block_take(&scratch, count, 4);
	for (size_t i = 0; i < count; i++)
		ids[i] = (int32_t)(from + i);
	ret->i32 = ids;
}

static void fill_table(const void *context, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	const struct filling *filling = context;
	const struct block_table_layout *layout = filling->layout;
	if (layout->file == BLOCK_STACKS)
		scratch = fill_hashes(filling, scratch, from, count, &ret[3]);
	if (layout->file == BLOCK_LINES)
		fill_places_of_lines(filling->tables, scratch, from, count, ret);
	else
		fill_ids(scratch, from, count, ret);
	for (size_t i = 0; i < layout->column_count; i++) {
		if (!layout->arrays[i])
			continue;
		const uint8_t *array = *block_table_array(filling->tables, layout, i);
		ret[i].booleans = array + from * block_value_size(layout->columns[i].type);
	}
}

int block_writer_tables(struct block_writer *writer, const struct block_tables *tables, const uint8_t *used,
			const struct hash128 *hashes, struct error *err)
{
	if (tables->stack_count > INT32_MAX || tables->line_count > INT32_MAX)
		return error_set(err, -E2BIG, "a block can hold %d stacks and lines", INT32_MAX);
	assert(tables->location_line_firsts[tables->location_count] == tables->line_count);
	writer->stack_count = tables->stack_count;
	writer->has_tables = true;
	int r = 0;
	for (size_t i = 0; r == 0 && i < BLOCK_TABLES; i++) {
		const struct block_table_layout *layout = &block_table_layouts[i];
		const struct filling filling = {layout, tables, used, hashes};
		const struct block_table table = {
			.file = layout->file,
			.columns = layout->columns,
			.column_count = layout->column_count,
			.rows = block_table_rows(tables, layout),
			.fill = fill_table,
			.context = &filling,
			.scratch_row_size = layout->file == BLOCK_STACKS ? sizeof(struct bytes) + 16 + 4 : 2 * 4,
		};
		r = block_table_write(writer, &table, err);
	}
	return r;
}
