/* SPDX-License-Identifier: Apache-2.0 */
/* Reading processes.parquet: rows of some series in a range of time. block_write.c writes it. */
#ifndef WICK_STORE_BLOCK_BLOCK_PROCESSES_H
#define WICK_STORE_BLOCK_BLOCK_PROCESSES_H

#include "profile/type.h"
#include "store/block/block_write.h"

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

#endif
