/* SPDX-License-Identifier: Apache-2.0 */
/* Reading processes.parquet: some series and a range of time, or all rows in order. block_write.c writes it. */
#ifndef WICK_STORE_BLOCK_PROCESSES_H
#define WICK_STORE_BLOCK_PROCESSES_H

#include "profile/type.h"
#include "store/batch_reader.h"
#include "store/block_write.h"

_Static_assert(BLOCK_PROCESS_COLUMNS == PROCESS_STATS_COLUMNS, "the columns of process_stats");

/* Leaves row groups and pages out by their ranges of series and time. */
struct block_process_scan {
	const struct block *block; /* that has the file */
	const uint8_t *wanted;	   /* by series id */
	size_t series_count;
	int64_t from_ns, to_ns;
	unsigned columns; /* bit by column */
	/* Rows of one series in the range; values of columns that are not read are NULL. */
	int (*on_run)(void *context, const struct block_process_rows *run, struct error *err);
	/* Between pieces of a few pages: a negative errno ends the scan. NULL = never. */
	int (*check)(void *context, struct error *err);
	void *context;
	/* Counted */
	uint64_t rows, bytes, groups, groups_skipped, pages, pages_skipped;
};
/* -EBADMSG when the file is damaged. */
int block_process_scan(struct block_process_scan *scan, struct error *err);

/* All rows in order, some thousands at a time, for merges. */
struct block_process_reader {
	struct batch_reader reader;
	const struct block *block;
};
void block_process_reader_init(struct block_process_reader *reader);
void block_process_reader_release(struct block_process_reader *reader);
/* A block without the file has no rows. */
int block_process_reader_open(struct block_process_reader *reader, const struct block *block, struct error *err);
/* 1 = *ret has the next rows, views until the next call; 0 = there are no more. Series ids are not checked. */
int block_process_reader_next(struct block_process_reader *reader, struct block_process_rows *ret, struct error *err);

#endif
