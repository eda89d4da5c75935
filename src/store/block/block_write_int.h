/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the writing of blocks: block_write.c (rows, appends, the whole), block_write_series.c, block_write_tables.c,
 * block_labels.c (files), block_order.c (order), block_write_order.c (the order within row groups), block_write_head.c (a
 * head's rows and tables). */
#ifndef WICK_STORE_BLOCK_BLOCK_WRITE_INT_H
#define WICK_STORE_BLOCK_BLOCK_WRITE_INT_H

#include "store/block/block_write.h"

/* What the rows of a series add up to. */
struct series_sums {
	uint64_t rows;	  /* of samples or processes */
	uint64_t numbers; /* rows that have some */
	int64_t total;	  /* of samples: base/sum.h */
	int64_t first_ns, last_ns;
};

/* A file of the block. */
struct block_file_layout {
	enum block_file file;
	const struct parquet_column *columns;
	size_t column_count;
	const uint32_t *sorted_by;
	size_t sorted_by_count;
	size_t page_rows; /* 0 = PARQUET_PAGE_ROWS */
	int zstd_level;	  /* parquet_write_options */
};

/* Rows on their way into a file, a row group at a time. */
#define BLOCK_GROUP_COLUMNS_MAX 12
struct block_group {
	enum block_file file;
	struct parquet_writer *writer; /* NULL = not open */
	const atomic_bool *cancel;
	size_t count, capacity, column_count;
	void *columns[BLOCK_GROUP_COLUMNS_MAX]; /* each with room for `capacity` values as they are in memory */
	struct parquet_values values[BLOCK_GROUP_COLUMNS_MAX];
	const size_t *page_starts; /* of the group that is flushed next, the caller's; page_start_count 0 = even pages */
	size_t page_start_count;
};
/* Release it whatever this returns. */
int block_group_open(struct block_group *group, const char *directory, const struct block_file_layout *layout, size_t capacity,
		     const atomic_bool *cancel, struct error *err);
int block_group_flush(struct block_group *group, struct error *err);
/* Flushes, finishes the file, and releases. */
int block_group_finish(struct block_group *group, struct block_meta *meta, struct error *err);
void block_group_release(struct block_group *group);

/* Columns of a group of samples. */
enum { SERIES, STACK, TIME, VALUE, TRACE, SPAN };

/* Scratch of what puts a row group into the order of its partitions: block_write_order.c. */
struct block_partitioner {
	uint32_t *order;     /* by row of the new order: which it is now */
	size_t *starts;	     /* by partition; when the order is found, the row behind each */
	size_t *page_starts; /* pages of the group */
	uint8_t *column;
	size_t order_capacity, start_capacity, page_capacity, column_capacity;
	size_t partition_count, page_count;
	bool is_split; /* the last group ended within the rows of one series and time: they go on in the next one */
};
void block_partitioner_release(struct block_partitioner *partitioner);

struct block_writer {
	struct block_write_options options;
	char *directory;
	size_t group_rows, sample_rows; /* of a row group */
	struct block_meta meta;

	/* Series, in block order */
	const struct series *series;
	struct series_columns columns;
	size_t series_count;
	uint32_t keep;
	struct series_sums *sums;
	int32_t *rollup_ids; /* NULL without rollups, like: */
	bool *gauges;	     /* by series */
	size_t rollup_count;

	/* Rows */
	struct block_group samples, processes;
	struct profile_link *links; /* of the group's samples, and which have one; NULL without links */
	uint8_t *linked;
	uint32_t *numbers; /* likewise: ids of texts */
	uint8_t *numbered;
	size_t numbers_column;
	struct block_partitioner partitioner;
	uint64_t rows;	   /* of samples and processes */
	__int128 times;	   /* their sum */
	int32_t stack_max; /* largest stack id that a row refers to */

	size_t stack_count;
	bool has_tables, has_appends;
};

int block_file_open(struct block_writer *writer, const struct block_file_layout *layout, struct parquet_writer **ret,
		    struct error *err);
int block_write_check_cancel(const atomic_bool *cancel, struct error *err); /* NULL = never */
int block_file_finish(struct block_writer *writer, enum block_file file, struct parquet_writer *from, struct error *err);

/* Writes a table of `rows` rows whose columns `fill` provides for a range of rows; sorted by its first column. */
struct block_table {
	enum block_file file;
	const struct parquet_column *columns;
	size_t column_count;
	size_t rows;
	void (*fill)(const void *context, void *scratch, size_t from, size_t count, struct parquet_values *ret);
	const void *context;
	size_t scratch_row_size; /* bytes of scratch a row */
};
int block_table_write(struct block_writer *writer, const struct block_table *table, struct error *err);
/* Hands out columns of scratch memory; the widest type first, so that all are aligned. */
void *block_take(void **scratch, size_t count, size_t size);

/* Writes the samples of the group; with partitions perhaps without the last ones, which stay: those of one series and time are
 * in one group. */
int block_flush_samples(struct block_writer *writer, bool all, struct error *err);

int block_write_series(struct block_writer *writer, struct error *err); /* series.parquet */
int block_write_labels(struct block_writer *writer, struct error *err); /* labels.parquet, meta.labels */

/* Sorts by the upper 32 bits, keeping the order of equal ones; both arrays have count entries. The result is in `keys`. */
void block_sort_by_high(uint64_t *keys, uint64_t *spare, size_t count);
/* block_write_order.c. Row i of the array becomes what row order[i] is; entries have `size` bytes. The scratch is made as large
 * as one column, and is the caller's to free. -ENOMEM. */
int block_reorder(const uint32_t *order, size_t count, void *column, size_t size, uint8_t **scratch, size_t *scratch_capacity,
		  struct error *err);
/* Codes of a column in the order of their values. The caller frees with mem_free(). */
int block_order_of_values(const struct series_column *column, uint32_t **ret, struct error *err);

#endif
