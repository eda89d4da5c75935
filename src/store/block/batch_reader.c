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
	mem_free(reader->order);
	mem_free(reader->spare);
	mem_free(reader->column);
	mem_free(reader->bad);
	reader->bad = NULL;
	reader->bad_capacity = 0;
	reader->order = reader->spare = NULL;
	reader->column = NULL;
	reader->order_capacity = reader->spare_capacity = reader->column_capacity = 0;
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

/* Rows by their ids, byte by byte: fills one of the two arrays, and returns it. */
static uint32_t *sort_rows(const int32_t *ids, size_t count, uint32_t *order, uint32_t *spare)
{
	for (size_t i = 0; i < count; i++)
		order[i] = (uint32_t)i;
	for (unsigned shift = 0; shift < 32; shift += 8) {
		size_t starts[257] = {0};
		for (size_t i = 0; i < count; i++)
			starts[((uint32_t)ids[i] >> shift & 255) + 1]++;
		if (starts[((uint32_t)ids[0] >> shift & 255) + 1] == count)
			continue;
		for (size_t i = 1; i < 257; i++)
			starts[i] += starts[i - 1];
		for (size_t i = 0; i < count; i++)
			spare[starts[(uint32_t)ids[order[i]] >> shift & 255]++] = order[i];
		uint32_t *sorted = spare;
		spare = order;
		order = sorted;
	}
	return order;
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
	if (array_reserve(&reader->order, &reader->order_capacity, count, UINT32_MAX) < 0 ||
	    array_reserve(&reader->spare, &reader->spare_capacity, count, UINT32_MAX) < 0)
		return error_nomem(err);
	const uint32_t *order = sort_rows(ids, count, reader->order, reader->spare);
	int r = 0;
	for (size_t i = 0; r == 0 && i < reader->column_count; i++) {
		struct parquet_data *data = &reader->data[i];
		if (reader->columns[i] == SIZE_MAX)
			continue;
		r = block_reorder(order, count, data->any, block_value_size(data->type), &reader->column,
				  &reader->column_capacity, err);
		if (r == 0 && data->present)
			r = block_reorder(order, count, data->present, 1, &reader->column, &reader->column_capacity, err);
	}
	return r;
}

/* ---- damage ---- */

static int read_column(struct batch_reader *reader, size_t column, size_t pages, size_t *damaged, struct error *why,
		       struct error *err)
{
	struct parquet_data *data = &reader->data[column];
	size_t bad = 0;
	if (!reader->on_lost)
		return parquet_read_pages(reader->file, reader->group, reader->columns[column], reader->page, pages, data, err);
	int r = parquet_read_around(reader->file, reader->group, reader->columns[column], reader->page, pages, data,
				    reader->bad, &bad, why);
	if (r < 0 && err)
		*err = *why;
	*damaged += bad;
	return r;
}

/* Takes rows [from, to) out of all columns. */
static void take_out(struct batch_reader *reader, size_t from, size_t to)
{
	for (size_t i = 0; i < reader->column_count; i++) {
		struct parquet_data *data = &reader->data[i];
		size_t size = block_value_size(data->type), behind = reader->count - to;
		if (reader->columns[i] == SIZE_MAX || !behind)
			continue;
		memmove((uint8_t *)data->any + from * size, (uint8_t *)data->any + to * size, behind * size);
		if (data->present)
			memmove(data->present + from, data->present + to, behind);
	}
	reader->count -= to - from;
}

/* From the last one on, so that those before it stay where they are. */
static int leave_out(struct batch_reader *reader, size_t pages, const char *why)
{
	bool only = reader->page_count == 1;
	size_t start = parquet_page_first_row(reader->file, reader->group, reader->page);
	int r = 0;
	for (size_t i = pages; r == 0 && i-- > 0;) {
		if (!reader->bad[i])
			continue;
		size_t page = reader->page + i;
		size_t from = parquet_page_first_row(reader->file, reader->group, page) - start;
		size_t to = parquet_page_first_row(reader->file, reader->group, page + 1) - start;
		take_out(reader, from, to);
		r = reader->on_lost(reader->context, reader->group, only ? SIZE_MAX : page, to - from, why);
	}
	for (size_t i = 0; i < reader->column_count; i++)
		reader->data[i].count = reader->count;
	return r;
}

/* ---- reading ---- */

static int read_columns(struct batch_reader *reader, size_t pages, size_t *ret_damaged, struct error *why, struct error *err)
{
	*ret_damaged = 0;
	if (reader->on_lost && array_reserve(&reader->bad, &reader->bad_capacity, pages, SIZE_MAX) < 0)
		return error_nomem(err);
	if (reader->on_lost)
		memset(reader->bad, 0, pages);
	for (size_t i = 0; i < reader->column_count; i++) {
		struct parquet_data *data = &reader->data[i];
		if (reader->columns[i] == SIZE_MAX)
			continue;
		int r = read_column(reader, i, pages, ret_damaged, why, err);
		if (r < 0)
			return r;
		if (data->count != reader->count || (data->null_count && !reader->wanted[i].may_be_null))
			return error_set(err, -EBADMSG, "column %s has %s", reader->wanted[i].name,
					 data->null_count ? "nulls" : "a different number of rows");
	}
	return 0;
}

int batch_reader_next(struct batch_reader *reader, struct error *err)
{
	while (reader->page >= reader->page_count) {
		if (reader->group + 1 >= parquet_group_count(reader->file))
			return 0;
		reader->page_count = parquet_page_count(reader->file, ++reader->group);
		reader->page = 0;
	}
	size_t left = reader->page_count - reader->page, damaged;
	size_t pages = left < reader->batch_pages || reader->by_first ? left : reader->batch_pages;
	struct error why = {0};
	reader->count = parquet_page_first_row(reader->file, reader->group, reader->page + pages) -
			parquet_page_first_row(reader->file, reader->group, reader->page);
	int r = read_columns(reader, pages, &damaged, &why, err);
	if (r == 0 && damaged)
		r = leave_out(reader, pages, why.message);
	if (r != 0)
		return r;
	reader->page += pages;
	r = reader->by_first ? order_by_first(reader, err) : 0;
	return r < 0 ? r : 1;
}
