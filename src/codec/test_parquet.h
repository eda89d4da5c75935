/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the Parquet codec share: random tables of every type, and files of them. Include after cmocka.h. */
#ifndef WICK_CODEC_TEST_PARQUET_H
#define WICK_CODEC_TEST_PARQUET_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "codec/parquet_file.h"
#include "codec/test_parquet_bytes.h"

static uint64_t seed = 88172645463325252ull;
static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static int64_t odd_int(void)
{
	static const int64_t odd[] = {0, 1, -1, INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX};
	switch (rnd() % 4) {
	case 0: return odd[rnd() % 7];
	case 1: return (int64_t)(rnd() % 100);
	case 2: return (int64_t)rnd();
	default: return (int64_t)(rnd() >> 40);
	}
}

static char directory[64];
static int setup(void **state)
{
	snprintf(directory, sizeof(directory), "/tmp/parquet-test-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}
static int teardown(void **state)
{
	return io_remove_tree(directory, NULL);
}
static const char *temp_path(char out[128], const char *name)
{
	io_join_path(out, 128, directory, name);
	unlink(out);
	return out;
}

#define TABLE_COLUMNS 14
static const struct parquet_column schema[TABLE_COLUMNS] = {
	{.name = "b", .type = PARQUET_BOOLEAN},
	{.name = "b?", .type = PARQUET_BOOLEAN, .optional = true},
	{.name = "i32", .type = PARQUET_INT32},
	{.name = "i32?", .type = PARQUET_INT32, .optional = true},
	{.name = "i32 delta", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
	{.name = "u32 plain", .type = PARQUET_INT32, .layout = PARQUET_PLAIN, .logical = PARQUET_UINT32},
	{.name = "i64", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
	{.name = "i64? delta", .type = PARQUET_INT64, .layout = PARQUET_DELTA, .optional = true},
	{.name = "u64?", .type = PARQUET_INT64, .logical = PARQUET_UINT64, .optional = true},
	{.name = "f64?", .type = PARQUET_DOUBLE, .optional = true},
	{.name = "f32", .type = PARQUET_FLOAT},
	{.name = "text", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
	{.name = "json?", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_JSON, .optional = true, .layout = PARQUET_PLAIN},
	{.name = "fixed?", .type = PARQUET_FIXED, .type_length = 16, .optional = true},
};

struct table {
	size_t rows;
	uint8_t *present[TABLE_COLUMNS];
	void *values[TABLE_COLUMNS];
	uint8_t *noise; /* what strings point into */
};

static bool noise_is_text; /* for readers that insist on text being UTF-8 and JSON being JSON */

static void random_values(struct table *table, size_t c, size_t distinct)
{
	const struct parquet_column *column = &schema[c];
	size_t size = parquet_type_size(column->type);
	bool narrow = rnd() % 4 == 0; /* values near 0 only */
	bool skewed = rnd() & 1;      /* some values are far more frequent than others */
	table->values[c] = mem_zalloc_array(table->rows, size);
	table->present[c] = NULL;
	if (column->optional && rnd() % 4) {
		table->present[c] = mem_alloc(table->rows);
		unsigned null_rate = (unsigned)(rnd() % 5);
		for (size_t i = 0; i < table->rows; i++)
			table->present[c][i] = null_rate == 4 ? 0 : rnd() % 4 >= null_rate;
	}
	for (size_t i = 0; i < table->rows; i++) {
		uint8_t *at = (uint8_t *)table->values[c] + i * size;
		if (table->present[c] && !table->present[c][i])
			continue;
		if (i >= distinct) {
			double u = (double)(rnd() >> 11) / 9007199254740992.0;
			size_t from = skewed ? (size_t)((double)distinct * u * u * u) : i - distinct;
			memcpy(at, (uint8_t *)table->values[c] + from * size, size);
			if (table->present[c] && !table->present[c][from])
				table->present[c][i] = 0;
			continue;
		}
		uint64_t word = narrow ? rnd() % 200 - 100 : (uint64_t)odd_int();
		double real = (double)(int64_t)word / 7;
		if (column->type == PARQUET_BOOLEAN)
			*at = word & 1;
		else if (column->type == PARQUET_DOUBLE)
			memcpy(at, &real, 8);
		else if (column->type == PARQUET_FLOAT)
			memcpy(at, &(float){(float)real}, 4);
		else if (column->type == PARQUET_BYTE_ARRAY)
			*(struct bytes *)at = (struct bytes){table->noise + rnd() % 1000, noise_is_text + rnd() % 30};
		else if (column->type == PARQUET_FIXED)
			*(struct bytes *)at = (struct bytes){table->noise + rnd() % 1000, 16};
		else
			memcpy(at, &word, size);
	}
}

static void random_table(struct table *table, size_t rows)
{
	*table = (struct table){.rows = rows, .noise = mem_alloc(1100)};
	for (size_t i = 0; i < 1100; i++)
		table->noise[i] = noise_is_text ? (uint8_t)('1' + rnd() % 9) : (uint8_t)rnd();
	for (size_t c = 0; c < TABLE_COLUMNS; c++)
		random_values(table, c, rnd() % 2 ? rows : rnd() % 2 ? 1 + rnd() % 20 : 1 + rnd() % (20 + rows / 8));
}

static void free_table(struct table *table)
{
	for (size_t c = 0; c < TABLE_COLUMNS; c++) {
		mem_free(table->values[c]);
		mem_free(table->present[c]);
	}
	mem_free(table->noise);
}

static int write_table_pages(const char *path, const struct table *tables, size_t count, size_t page_rows,
			     struct parquet_written *written, struct error *err)
{
	static const uint32_t sorted_by[] = {2};
	static const struct parquet_key_value key_values[] = {{"wick.version", "1"}};
	struct parquet_write_options options = {.columns = schema,
						.column_count = TABLE_COLUMNS,
						.sorted_by = sorted_by,
						.sorted_by_count = 1,
						.key_values = key_values,
						.key_value_count = 1,
						.page_rows = page_rows};
	_cleanup_(parquet_writer_freep) struct parquet_writer *writer = NULL;
	int r = parquet_writer_open(path, &options, &writer, err);
	for (size_t t = 0; r == 0 && t < count; t++) {
		struct parquet_values values[TABLE_COLUMNS];
		for (size_t c = 0; c < TABLE_COLUMNS; c++)
			values[c] = (struct parquet_values){.present = tables[t].present[c], .booleans = tables[t].values[c]};
		r = parquet_writer_group(writer, values, tables[t].rows, err);
	}
	return r < 0 ? r : parquet_writer_finish(writer, written, err);
}

/* data has rows [from, from + count) of a column. */
static void check_rows(const struct table *table, size_t c, size_t from, size_t count, const struct parquet_data *data)
{
	const struct parquet_column *column = &schema[c];
	size_t size = parquet_type_size(column->type), nulls = 0;
	assert_int_equal(data->count, count);
	for (size_t i = 0; i < count; i++) {
		const uint8_t *want = (uint8_t *)table->values[c] + (from + i) * size, *got = (uint8_t *)data->any + i * size;
		bool present = !table->present[c] || table->present[c][from + i];
		nulls += !present;
		assert_int_equal(data->present ? data->present[i] : 1, present);
		if (!present)
			continue;
		if (size == sizeof(struct bytes))
			assert_true(bytes_equal(*(const struct bytes *)want, *(const struct bytes *)got));
		else
			assert_memory_equal(want, got, size);
	}
	assert_int_equal(nulls, data->null_count);
}

static void check_column(const struct table *table, size_t c, const struct parquet_data *data)
{
	check_rows(table, c, 0, table->rows, data);
}

#endif
