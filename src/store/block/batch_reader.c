/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block/batch_reader.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "store/block/block_write_int.h"

void batch_reader_init(struct batch_reader *reader)
{
	*reader = (struct batch_reader){.batch_pages = BATCH_PAGES};
}

void batch_reader_release(struct batch_reader *reader)
{
	reader->file = parquet_close(reader->file);
	for (size_t i = 0; i < BATCH_COLUMNS_MAX; i++)
		parquet_data_release(&reader->data[i]);
	mem_free(reader->keys);
	mem_free(reader->spare);
	mem_free(reader->column);
	reader->keys = reader->spare = NULL;
	reader->column = NULL;
	reader->key_capacity = reader->spare_capacity = reader->column_capacity = 0;
}

int batch_reader_open(struct batch_reader *reader, struct parquet_file *file, const struct batch_column *wanted, size_t count,
		      struct error *err)
{
	assert(count <= BATCH_COLUMNS_MAX && !reader->file);
	reader->file = file;
	reader->wanted = wanted;
	reader->column_count = count;
	for (size_t i = 0; i < count; i++) {
		size_t *column = &reader->columns[i];
		*column = SIZE_MAX;
		if (!parquet_find_column(file, wanted[i].name, column)) {
			if (!wanted[i].may_be_missing)
				return error_set(err, -EBADMSG, "column %s is missing", wanted[i].name);
			*column = SIZE_MAX;
		} else if (parquet_column_at(file, *column)->type != wanted[i].type) {
			return error_set(err, -EBADMSG, "column %s has the wrong type", wanted[i].name);
		}
	}
	reader->page_count = parquet_group_count(file) ? parquet_page_count(file, 0) : 0;
	return 0;
}

static inline __attribute__((always_inline)) void reorder(const uint64_t *keys, size_t count, uint8_t *to, const uint8_t *from,
							  size_t size)
{
	for (size_t i = 0; i < count; i++)
		memcpy(to + i * size, from + (uint32_t)keys[i] * size, size);
}

/* By the rows that the keys name in their lower halves. */
static int reorder_array(struct batch_reader *reader, void *array, size_t size, struct error *err)
{
	size_t count = reader->count;
	if (array_reserve(&reader->column, &reader->column_capacity, count * size, SIZE_MAX) < 0)
		return error_nomem(err);
	switch (size) {
	case 1: reorder(reader->keys, count, reader->column, array, 1); break;
	case 4: reorder(reader->keys, count, reader->column, array, 4); break;
	case 8: reorder(reader->keys, count, reader->column, array, 8); break;
	default: reorder(reader->keys, count, reader->column, array, size);
	}
	memcpy(array, reader->column, count * size);
	return 0;
}

static int order_by_first(struct batch_reader *reader, struct error *err)
{
	const int32_t *ids = reader->data[0].i32;
	size_t count = reader->count;
	bool ordered = true;
	for (size_t i = 1; i < count && ordered; i++)
		ordered = ids[i - 1] <= ids[i];
	if (ordered)
		return 0;
	if (array_reserve(&reader->keys, &reader->key_capacity, count, UINT32_MAX) < 0 ||
	    array_reserve(&reader->spare, &reader->spare_capacity, count, UINT32_MAX) < 0)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++)
		reader->keys[i] = (uint64_t)(uint32_t)ids[i] << 32 | i;
	block_sort_by_high(reader->keys, reader->spare, count);
	int r = 0;
	for (size_t i = 0; r == 0 && i < reader->column_count; i++) {
		struct parquet_data *data = &reader->data[i];
		if (reader->columns[i] == SIZE_MAX)
			continue;
		r = reorder_array(reader, data->any, block_value_size(data->type), err);
		if (r == 0 && data->present)
			r = reorder_array(reader, data->present, 1, err);
	}
	return r;
}

int batch_reader_next(struct batch_reader *reader, struct error *err)
{
	while (reader->page >= reader->page_count) {
		if (reader->group + 1 >= parquet_group_count(reader->file))
			return 0;
		reader->page_count = parquet_page_count(reader->file, ++reader->group);
		reader->page = 0;
	}
	size_t left = reader->page_count - reader->page;
	size_t pages = left < reader->batch_pages || reader->by_first ? left : reader->batch_pages;
	reader->count = parquet_page_first_row(reader->file, reader->group, reader->page + pages) -
			parquet_page_first_row(reader->file, reader->group, reader->page);
	for (size_t i = 0; i < reader->column_count; i++) {
		struct parquet_data *data = &reader->data[i];
		if (reader->columns[i] == SIZE_MAX)
			continue;
		int r = parquet_read_pages(reader->file, reader->group, reader->columns[i], reader->page, pages, data, err);
		if (r < 0)
			return r;
		if (data->count != reader->count || (data->null_count && !reader->wanted[i].may_be_null))
			return error_set(err, -EBADMSG, "column %s has %s", reader->wanted[i].name,
					 data->null_count ? "nulls" : "a different number of rows");
	}
	reader->page += pages;
	int r = reader->by_first ? order_by_first(reader, err) : 0;
	return r < 0 ? r : 1;
}
