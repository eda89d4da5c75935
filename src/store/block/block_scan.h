/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scanning one table of a block that has values over time: samples, totals, a rollup, processes. All are sorted by an id (of a
 * series, or of a rollup series), then time, then stack, so that what is wanted is found by the ranges of row groups and pages,
 * and handed out as runs of one id. Several ranges of time are read in one pass: whoever wants both ends of a range opens the
 * file, and unpacks the dictionaries of its row groups, once.
 *
 * Conditions on links and numbers, which only samples have, sieve by row: their columns are read first, and the others only of
 * pages in which a row passes.
 */
#ifndef WICK_STORE_BLOCK_BLOCK_SCAN_H
#define WICK_STORE_BLOCK_BLOCK_SCAN_H

#include "profile/type.h"
#include "store/block/block.h"

/* Called for runs of one id, of times in one range. stacks is NULL unless the scan reads them; times is NULL when they were not
 * read, because all of the run lies in a range and nobody asked for them. */
struct block_run {
	uint32_t id;
	size_t count;
	const int32_t *stacks;
	const int64_t *times;
	const uint32_t *numbers; /* ids of scan->texts, 0 = none; NULL if they are not wanted, or no row of the block has any */
	/* The first one; of processes by column of process_stats, NULL where it was not asked for. */
	const int64_t *values[PROCESS_STATS_COLUMNS];
	/* With `linked`: the ids of the span of each row. */
	const struct bytes *traces, *spans;
};
/* Rows that cannot be read, because a page of one of their columns is damaged, or another part of the row group. */
struct block_lost {
	enum block_file file;
	size_t group, page;	/* SIZE_MAX = all row groups; all pages of the row group */
	uint64_t rows;		/* 0: only the page index is damaged, and everything was read */
	int64_t from_ns, to_ns; /* times of the rows, both included, as far as they are known */
};
/* Times from from_ns on and before to_ns. */
struct block_range {
	int64_t from_ns, to_ns;
};
extern const struct block_range block_all_times;
struct block_scan {
	const struct block *block;
	enum block_file file;
	const struct block_footer *footer; /* of the file; NULL = it is read */
	const uint8_t *wanted;		   /* by id */
	size_t id_count;
	size_t stack_count;		  /* stack ids are checked against it; 0 = stacks are not read */
	const char *value;		  /* the column of values; NULL = "value" */
	unsigned columns;		  /* of processes: which of process_stats are read, bit by column */
	const struct block_range *ranges; /* of time, rising; none begins before the one before it ends */
	size_t range_count;
	bool need_times;		  /* give times even when all lie in a range */
	const struct store_select *links; /* only rows that pass its conditions on links, if it has some; NULL = all */
	bool linked;			  /* of samples, with `links`: only rows that have a link, which is given */
	/* Numbers of rows: for runs if `texts` is there, and only those that pass; NULL = all. It is asked once for each text,
	 * and once for "". */
	struct intern *texts;
	bool (*numbers_pass)(void *context, struct bytes text);
	int (*on_run)(void *context, const struct block_run *run, struct error *err);
	/* Damage is passed over: called for each page that is left out, or once for the whole file, with the reason. A code
	 * that is not 0 ends the scan with it. NULL = damage is an error. */
	int (*on_lost)(void *context, const struct block_lost *lost, const char *why);
	/* Between pieces of at most a few pages: a negative errno ends the scan. NULL = never. */
	int (*check)(void *context, struct error *err);
	void *context;
	/* Counted */
	uint64_t rows, bytes, groups, groups_skipped, pages, pages_skipped;
};
void block_scan_add_counts(const struct block_scan *scan, struct store_read_stats *to);
int block_scan(struct block_scan *scan, struct error *err);

/* The same in steps, by row groups in any order, so that several threads can share a table: each has a scanner of its own, with
 * a struct block_scan of its own that lives as long. */
struct block_scanner;
int block_scanner_open(struct block_scan *scan, struct block_scanner **ret, struct error *err);
size_t block_scanner_groups(const struct block_scanner *scanner);
/* Whether the group can have a row that is wanted; counts it as read or skipped. */
bool block_scanner_wants(const struct block_scanner *scanner, size_t group);
int block_scanner_read(struct block_scanner *scanner, size_t group, struct error *err);
struct block_scanner *block_scanner_close(struct block_scanner *scanner); /* counts bytes */

#endif
