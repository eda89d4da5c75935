/* SPDX-License-Identifier: Apache-2.0 */
/* Reads some columns of a Parquet file from its first row to its last, a few pages at a time, or, where their rows have to be
 * put into the order of their first column, a row group at a time. */
#ifndef WICK_STORE_BLOCK_BATCH_READER_H
#define WICK_STORE_BLOCK_BATCH_READER_H

#include "codec/parquet.h"

#define BATCH_COLUMNS_MAX 16
#define BATCH_PAGES	  4 /* 64 Ki rows: a few hundred KiB a column */

struct batch_column {
	const char *name;
	enum parquet_type type;
	bool may_be_missing, may_be_null;
};
struct batch_reader {
	const struct batch_column *wanted;
	size_t column_count;
	struct parquet_file *file;
	size_t columns[BATCH_COLUMNS_MAX]; /* SIZE_MAX = the file does not have it */
	size_t group, page, page_count;
	size_t batch_pages;
	bool by_first; /* the caller's choice, before the first batch: rows of each row group by an INT32 column, the first,
			* equal ones in the order that they have: samples with partitions (partition.h) by series, time, stack
			*/
	/* The caller's choice as well: rows of a page that is damaged in one of the columns are left out, and told with the
	 * reason; a result that is not 0 ends the reading with it. NULL = damage is an error. Page SIZE_MAX: the group's only
	 * one. */
	int (*on_lost)(void *context, size_t group, size_t page, size_t rows, const char *why);
	void *context;
	/* The batch */
	size_t count;
	struct parquet_data data[BATCH_COLUMNS_MAX];
	uint8_t *bad; /* by page of the batch */
	size_t bad_capacity;
	/* Scratch of by_first */
	uint32_t *order, *spare;
	uint8_t *column;
	size_t order_capacity, spare_capacity, column_capacity;
};
/* What by_first takes for a row group of so many rows, with columns of so many bytes a row together, at most `widest` each. */
static inline uint64_t batch_reader_bytes(uint64_t rows, uint64_t row_bytes, uint64_t widest)
{
	return rows * (row_bytes + 2 * sizeof(uint32_t) + widest);
}
void batch_reader_init(struct batch_reader *reader);
void batch_reader_release(struct batch_reader *reader);
/* Takes the file over, also when it fails. `wanted` must live as long as the reader. */
int batch_reader_open(struct batch_reader *reader, struct parquet_file *file, const struct batch_column *wanted, size_t count,
		      struct error *err);
/* 1 = `data` and `count` are the next rows; 0 = there are no more. */
int batch_reader_next(struct batch_reader *reader, struct error *err);
static inline bool batch_reader_has(const struct batch_reader *reader, size_t column)
{
	return reader->columns[column] != SIZE_MAX;
}

#endif
