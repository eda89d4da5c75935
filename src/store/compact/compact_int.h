/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to compaction. What lies where:
 *
 *   compact.c         which blocks are merged when; a new block takes the place of others
 *   compact_merge.c   one new block out of others: the whole of it
 *   compact_series.c  their series put together      union.c   their stacks put together
 *   compact_rows.c    their rows in one order
 */
#ifndef WICK_STORE_COMPACT_COMPACT_INT_H
#define WICK_STORE_COMPACT_COMPACT_INT_H

#include "base/cancel.h"
#include "store/block/batch_reader.h"
#include "store/block/block_write.h"
#include "store/store_int.h"

#define NOT_WANTED UINT32_MAX

/* ---- series ---- */

struct merged_series;
int merged_series_new(struct merged_series **ret, struct error *err);
struct merged_series *merged_series_free(struct merged_series *merged);
DEFINE_CLEANUP_POINTER(merged_series_free, struct merged_series);
/* Adds a block's series, those that are wanted (a byte a series; NULL = all). *ret_ids (the caller's) has for each an id for
 * merged_series_renumber(), or NOT_WANTED. The block's series may go afterwards. */
int merged_series_add(struct merged_series *merged, const struct block_series *from, const uint8_t *wanted, uint32_t **ret_ids,
		      struct error *err);
uint64_t merged_series_bytes(const struct merged_series *merged, uint64_t more_series);
size_t merged_series_count(const struct merged_series *merged);
/* Puts them into the order of a block; nothing can be added any more. */
int merged_series_finish(struct merged_series *merged, uint32_t *ret_keep, struct error *err);
void merged_series_renumber(const struct merged_series *merged, uint32_t *ids, size_t count);
const struct series *merged_series_items(const struct merged_series *merged);

/* ---- rows ---- */

/* Columns of a row while it is merged: its series, its time, and the rest. Numbers are ids of texts that all sources share. */
enum row_column_kind { ROW_I32, ROW_I64, ROW_LINK, ROW_NUMBERS };
#define ROW_COLUMNS_MAX 12
struct row_layout {
	enum block_file file;
	const struct batch_column *in; /* of the file: [0] = series, [1] = time; trace_id, span_id and numbers last */
	size_t in_count;
	enum row_column_kind kinds[ROW_COLUMNS_MAX];
	size_t column_count;
	size_t stack_column; /* SIZE_MAX = there is none */
};
extern const struct row_layout sample_rows, process_rows;
static inline size_t row_column_size(enum row_column_kind kind)
{
	return kind == ROW_I64 ? 8 : kind == ROW_LINK ? sizeof(struct profile_link) : 4;
}

/* Times of a series that are left out: from_ns <= time < to_ns. */
struct row_range {
	int64_t from_ns, to_ns;
};
/* What to do with the rows of a block. */
struct row_mapping {
	const struct block *block;
	const uint32_t *series; /* by the block's id; NOT_WANTED = left out */
	size_t series_count;
	const uint32_t *stacks; /* by the block's id */
	size_t stack_count;
	const struct row_range *drop; /* by the block's series id; NULL = nothing */
};

/* The rows of one block in the order of the new one. */
struct row_source;
struct row_source_options {
	const struct row_layout *layout;
	struct row_mapping mapping;
	const char *directory; /* for temporary files */
	size_t batch_pages;
	bool need_links;
	struct intern *texts; /* of numbers; NULL = they are not needed */
	/* Damaged rows are left out and told; NULL = damage is an error */
	void (*on_lost)(void *context, const struct block *block, const struct block_lost *lost, const char *why);
	void *context;
	bool in_order; /* rows by series, time, stack, whatever partitions the block has; set by row_source_open() */
};
int row_source_open(const struct row_source_options *options, struct row_source **ret, struct error *err);
struct row_source *row_source_close(struct row_source *source);
DEFINE_CLEANUP_POINTER(row_source_close, struct row_source);

/* Merges them, and hands them to the writer. */
struct row_merge {
	const struct row_layout *layout;
	struct row_source **sources;
	size_t source_count;
	bool has_links;
	const struct intern *texts; /* NULL = no row has numbers */
	struct block_writer *writer;
	const atomic_bool *cancel;
	uint64_t rows_in;
	size_t failed; /* the source that could not be read, SIZE_MAX = it was something else */
};
int row_merge_run(struct row_merge *merge, struct error *err);

/* Looks at rows without merging them: calls on_rows for each batch after series were mapped and rows left out. */
int row_scan(const struct row_source_options *options, int (*on_rows)(void *context, uint8_t *const columns[], size_t count),
	     void *context, uint64_t *ret_dropped, struct error *err);

/* ---- one new block ---- */

/* The times of a series that are left out; false = none. */
typedef bool (*compact_drops)(void *context, const struct profile_type *type, const struct labels *labels,
			      struct row_range *ret);

struct compact_job {
	struct block *const *inputs; /* as many of them as fit, from the first on, but at least one */
	size_t input_count;
	const char *directory; /* of the new block: there, and empty */
	unsigned level;
	bool rollups;
	uint64_t memory_max; /* bytes */
	const atomic_bool *cancel;
	compact_drops drops; /* NULL = everything stays */
	void *drops_context;
	/* Rows of inputs that cannot be read are left out: told here, with the reason, and noted in the new block. */
	void (*on_lost)(void *context, const struct block *block, const struct block_lost *lost, const char *why);
	void *lost_context;
	/* Results */
	size_t used;	  /* inputs that are in the new block */
	uint64_t dropped; /* rows of samples */
	uint64_t rows_in;
	size_t damaged; /* the input that could not be read, when the result is -EBADMSG; SIZE_MAX = none of them */
};
/* Writes the block. 1 = nothing of the inputs is left, and nothing was written. With `drops`, 2 = nothing is to be left out,
 * and nothing was written. */
int compact_write(struct compact_job *job, struct block_meta *ret, struct error *err);

/* Puts in the place of a block what is left of it without what `drops` names. 2 = nothing was to be left out. compact_lock
 * held. */
int compact_rewrite(struct local_store *store, struct block *block, compact_drops drops, void *context, uint64_t *ret_dropped,
		    struct error *err);

/* Of the blocks that this one replaced, those whose directories are still there: they wait for a reader, or could not be
 * removed. Whoever replaces this one must name them too, or they would come back when this one is gone. Room for all of them.
 */
size_t compact_still_there(const struct block *block, char (*ret)[BLOCK_NAME_MAX]);

#define COMPACT_GROUP_ROWS (512 * 1024)
extern size_t compact_group_rows; /* the same; tests make it small */
#define COMPACT_INPUTS_MAX 16

#endif
