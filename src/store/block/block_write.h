/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing one block, whatever its rows come from: a head, a merge of blocks, a generator.
 *
 *   block_writer_new()        where, level, what it replaces
 *   block_writer_series()     the series, in block order; a row's series is its index here
 *   block_writer_samples()    rows in order, any number of times
 *   block_writer_processes()  rows in order, any number of times
 *   block_writer_tables()     stacks and what they are made of
 *   block_writer_appends()    ids of appends
 *   block_writer_finish()     series.parquet with what the rows added up to, labels, totals, rollups, metadata; syncs
 *
 * Memory: one row group of samples (and a copy of one column, with partitions) and what the caller gives; rollups are made in
 * finish from the samples file, one rollup series and slice of time at a time.
 */
#ifndef WICK_STORE_BLOCK_BLOCK_WRITE_H
#define WICK_STORE_BLOCK_BLOCK_WRITE_H

#include "base/cancel.h"
#include "store/block/block.h"

struct block_writer;
struct block_write_options {
	const char *directory; /* there, and empty */
	unsigned level, generation;
	bool rollups;	      /* make them, and totals */
	int64_t partition_ns; /* of the rows of each row group of samples, which are given without: partition.h; 0 = none */
	bool links;	      /* rows may have links; taken to be so as well if the first rows have some */
	bool numbers;	      /* likewise */
	size_t group_rows;    /* 0 = PARQUET_GROUP_ROWS */
	size_t sample_rows;   /* of a row group of samples; 0 = group_rows */
	uint64_t last_sequence;
	const char (*replaces)[BLOCK_NAME_MAX];
	size_t replace_count;
	const atomic_bool *cancel; /* polled; -ECANCELED */
};
int block_writer_new(const struct block_write_options *options, struct block_writer **ret, struct error *err);
struct block_writer *block_writer_free(struct block_writer *writer);
DEFINE_CLEANUP_POINTER(block_writer_free, struct block_writer);

/* Labels that rollup series keep, in the order in which series are sorted by them; a label with more distinct values than
 * ROLLUP_VALUES_MAX among the series is left out. */
#define ROLLUP_LABELS_MAX 32
#define ROLLUP_VALUES_MAX 4096
extern const char *const rollup_label_names[]; /* NULL-terminated */
/* Puts series into the order of a block: *ret_order[i] is the index of the i-th (caller frees with mem_free). keep tells which
 * of rollup_label_names are kept, bit by bit. */
int block_order_of_series(const struct series *series, size_t count, uint32_t **ret_order, uint32_t *ret_keep,
			  struct error *err);

/* series, their types and labels must live until finish; of the rest only period is used. Already in order, see above, and
 * distinct. One that turns out to have no rows is kept, with 0 samples, and is in no list. */
int block_writer_series(struct block_writer *writer, const struct series *series, size_t count, uint32_t keep,
			struct error *err);

/* Rows by (series, time, stack, link, numbers); equal ones are summed into one. Links and texts of numbers are ordered by their
 * bytes, none first. -EINVAL when rows are not in order: nothing is written that readers would take for sorted. */
struct block_rows {
	size_t count;
	const int32_t *series, *stacks;
	const int64_t *times, *values;
	const struct profile_link *links; /* by row; NULL = none has one, all zero = this one has none */
	const uint32_t *numbers;	  /* likewise: ids of `texts`, 0 = this one has none */
	const struct intern *texts;	  /* profile/numbers.h; the same in all calls, and lives until finish */
};
int block_writer_samples(struct block_writer *writer, const struct block_rows *rows, struct error *err);

/* One row a process and flush, by (series, time). */
#define BLOCK_PROCESS_COLUMNS 9
struct block_process_rows {
	size_t count;
	const int32_t *series;
	const int64_t *times;
	const int64_t *values[BLOCK_PROCESS_COLUMNS]; /* cpu_ns, rss_bytes, minor_faults, major_faults, voluntary_switches,
							 involuntary_switches, read_bytes, written_bytes, threads */
};
int block_writer_processes(struct block_writer *writer, const struct block_process_rows *rows, struct error *err);

/* used: a byte a stack, whether a row refers to it; hashes: by stack, those of used ones are stored. */
int block_writer_tables(struct block_writer *writer, const struct block_tables *tables, const uint8_t *used,
			const struct hash128 *hashes, struct error *err);
/* By rising sequence; the last STORE_IDS_KEPT are stored. */
int block_writer_appends(struct block_writer *writer, const struct head_append *appends, size_t count, struct error *err);
/* What the block was made without. */
void block_writer_set_lost(struct block_writer *writer, const struct block_losses *lost);
/* -EINVAL when there were no rows at all. The caller releases *ret. */
int block_writer_finish(struct block_writer *writer, struct block_meta *ret, struct error *err);

/* rollup.c: makes the rollups and totals of a block whose samples, series and stacks are written. rollup_ids by series id,
 * rising; stack_count of the stacks table. Fills meta->files. */
struct rollup_job {
	const char *directory;
	const int32_t *rollup_ids;
	const bool *gauges; /* by series id: whether its profiles are counted; NULL = none are */
	size_t series_count, rollup_count, stack_count;
	size_t group_rows;
	int64_t min_ns, max_ns;
	bool partitioned; /* the samples are */
	const atomic_bool *cancel;
	struct block_meta *meta;
};
int rollup_write(const struct rollup_job *job, struct error *err);

#endif
