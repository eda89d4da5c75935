/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the writing of blocks: block_write.c (files and tables), block_order.c, block_write_series.c. */
#ifndef WICK_STORE_BLOCK_WRITE_INT_H
#define WICK_STORE_BLOCK_WRITE_INT_H

#include "store/block.h"

struct writing {
	struct head *head;
	const char *directory;
	struct block_meta *meta;
	struct error *err;
	uint32_t *order; /* series: block's id -> head's id */
	uint32_t *ranks; /* head's id -> block's id */
	size_t series_count;
	uint32_t *stack_ids;   /* stacks: block's id -> pool's id */
	uint32_t *stack_ranks; /* pool's id -> block's id */
	uint8_t *stack_used;   /* by block's id: a sample refers to it */
	size_t stack_count;
	uint32_t *rows; /* sample indexes in block order */
	uint64_t *keys; /* scratch of the sort */
	uint64_t *spare;
	struct bytes *hashes; /* of stacks, by block's id */
	uint8_t *hash_bytes;  /* 16 a stack */
	int32_t *line_locations, *line_positions;
};

/* Makes file `which` of the block. */
int block_write_open(struct writing *writing, enum block_file which, const struct parquet_column *columns, size_t column_count,
		     const uint32_t *sorted_by, size_t sorted_by_count, struct parquet_writer **ret);
int block_write_finish(struct writing *writing, enum block_file which, struct parquet_writer *writer);

int block_order_series(struct writing *writing);  /* order, ranks, series_count */
int block_order_stacks(struct writing *writing);  /* stack_ids, stack_ranks, stack_count */
int block_order_samples(struct writing *writing); /* rows */
int block_write_series(struct writing *writing);

#endif
