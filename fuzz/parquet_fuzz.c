/* SPDX-License-Identifier: Apache-2.0 */
/* Parquet reading: open, then decode every column of every row group, whole, page by page, around damage and as codes, and
 * verify the file, within 16 MiB a call. */
#include "codec/test_parquet_bytes.h"

#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX 64
#define PAGES_MAX  16

static volatile uint8_t sink;

static void touch(const uint8_t *data, size_t len)
{
	uint8_t sum = 0;
	for (size_t i = 0; i < len; i++)
		sum ^= data[i];
	sink = sum;
}

/* Touches what was promised. */
static void use_data(const struct parquet_data *data)
{
	if (data->present)
		touch(data->present, data->count);
	for (size_t i = 0; i < data->count; i++)
		if (data->type == PARQUET_BYTE_ARRAY || data->type == PARQUET_FIXED)
			touch(data->bytes[i].data, data->bytes[i].len);
}

static void use_codes(const struct parquet_codes *codes)
{
	for (size_t i = 0; i < codes->count; i++)
		if (codes->codes[i] != PARQUET_CODE_NULL && codes->codes[i] >= codes->value_count)
			abort();
	for (size_t i = 0; i < codes->value_count; i++)
		touch(codes->values[i].data, codes->values[i].len);
}

static size_t size_of(const struct parquet_data *data)
{
	return data->type == PARQUET_BOOLEAN				     ? 1
	       : data->type == PARQUET_INT32 || data->type == PARQUET_FLOAT  ? 4
	       : data->type == PARQUET_INT64 || data->type == PARQUET_DOUBLE ? 8
									     : 0;
}

/* Pages hold what the chunk holds. */
static void read_pages(struct parquet_file *file, size_t g, size_t c, const struct parquet_data *whole,
		       struct parquet_data *page)
{
	size_t pages = parquet_page_count(file, g);
	for (size_t p = 0; p < pages && p < PAGES_MAX; p++) {
		int64_t min, max;
		struct bytes least, most;
		size_t first = parquet_page_first_row(file, g, p), behind = parquet_page_first_row(file, g, p + 1);
		if (first > behind || behind > parquet_group_rows(file, g))
			abort();
		if (parquet_page_range(file, g, c, p, &min, &max))
			sink = (uint8_t)(min ^ max);
		if (parquet_page_bounds(file, g, c, p, &least, &most)) {
			touch(least.data, least.len);
			touch(most.data, most.len);
		}
		if (parquet_read_pages(file, g, c, p, 1, page, NULL) < 0)
			continue;
		if (page->count != behind - first)
			abort();
		use_data(page);
		size_t size = size_of(page);
		/* A checksum that was not checked may hide that a page is not where its index says, so only that both can be
		 * read. */
		if (whole && size && whole->count > first)
			touch((const uint8_t *)whole->any + first * size, size);
	}
}

/* Around what is damaged: as many rows as there are, whatever is in them. */
static void read_around(struct bytes bytes)
{
	struct parquet_read_options options = {.memory_max = 16 * 1024 * 1024, .around_indexes = true};
	struct parquet_file *file = NULL;
	struct parquet_data column = {0};
	uint8_t bad[PAGES_MAX];
	if (test_parquet_open_bytes(bytes, &options, &file, NULL) < 0)
		return;
	for (size_t g = 0; g < parquet_group_count(file) && g < GROUPS_MAX; g++) {
		size_t pages = parquet_page_count(file, g), damaged = 0, marked = 0;
		pages = pages < PAGES_MAX ? pages : PAGES_MAX;
		for (size_t c = 0; c < parquet_column_count(file) && c < GROUPS_MAX; c++) {
			memset(bad, 0, sizeof(bad));
			if (parquet_read_around(file, g, c, 0, pages, &column, bad, &damaged, NULL) < 0)
				continue;
			marked = 0;
			for (size_t i = 0; i < pages; i++)
				marked += bad[i];
			if (marked != damaged || column.count != parquet_page_first_row(file, g, pages))
				abort();
			use_data(&column);
		}
	}
	parquet_data_release(&column);
	parquet_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct parquet_read_options options = {.memory_max = 16 * 1024 * 1024};
	struct parquet_file *file = NULL;
	struct parquet_data column = {0}, page = {0};
	struct parquet_codes codes = {0};
	if (test_parquet_open_bytes((struct bytes){data, size}, &options, &file, NULL) < 0)
		return 0;
	for (size_t g = 0; g < parquet_group_count(file) && g < GROUPS_MAX; g++) {
		for (size_t c = 0; c < parquet_column_count(file) && c < GROUPS_MAX; c++) {
			int64_t min, max;
			parquet_chunk_range(file, g, c, &min, &max);
			bool fine = parquet_read(file, g, c, &column, NULL) == 0;
			if (fine)
				use_data(&column);
			read_pages(file, g, c, fine ? &column : NULL, &page);
			if (parquet_read_codes(file, g, c, &codes, NULL) == 0)
				use_codes(&codes);
		}
	}
	parquet_verify(file, NULL);
	read_around((struct bytes){data, size});
	parquet_data_release(&column);
	parquet_data_release(&page);
	parquet_codes_release(&codes);
	parquet_close(file);
	return 0;
}
