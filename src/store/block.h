/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: immutable directories of Parquet files. Their layout is docs/format.md; block_write.c writes them, block.c opens
 * them, block_tables.c and block_scan.c read them.
 */
#ifndef WICK_STORE_BLOCK_H
#define WICK_STORE_BLOCK_H

#include "codec/parquet.h"
#include "store/head.h"

#define BLOCK_VERSION	    1
#define BLOCK_NAME_MAX	    64
#define BLOCK_META_MAX	    (1024 * 1024)
#define BLOCK_LABEL_COLUMNS 64 /* label names that get a column; the rest goes into the column "labels" */
#define BLOCK_LABEL_PREFIX  "label_"
#define BLOCK_READ_MAX	    (256u * 1024 * 1024)

enum block_file {
	BLOCK_SAMPLES,
	BLOCK_SERIES,
	BLOCK_STACKS,
	BLOCK_LOCATIONS,
	BLOCK_LINES,
	BLOCK_FUNCTIONS,
	BLOCK_MAPPINGS,
	BLOCK_APPENDS,
	BLOCK_FILE_COUNT,
};
extern const char *const block_file_names[BLOCK_FILE_COUNT];

struct block_meta {
	char name[BLOCK_NAME_MAX];
	int64_t created_ns, min_ns, max_ns;
	uint64_t last_sequence; /* of the log records in it: it holds everything up to this one that no older block holds */
	uint64_t samples, series;
	struct parquet_written files[BLOCK_FILE_COUNT];
};
uint64_t block_meta_bytes(const struct block_meta *meta); /* all files together */
int block_meta_write(const char *directory, const struct block_meta *meta, struct error *err);
/* -EBADMSG malformed or not matching its checksum, -ENOTSUP of a newer version. */
int block_meta_read(const char *directory, struct block_meta *ret, struct error *err);

/* Writes the head's samples as a block into `directory`, which must be there and empty; syncs every file and the directory. */
int block_write(struct head *head, const char *directory, struct block_meta *ret, struct error *err);

/* ---- reading ---- */

/* Decoded indexes, shared by the cache and by queries; freed with the last reference (the store's state lock guards refs). */
struct block_series {
	unsigned refs;
	size_t bytes;
	struct arena arena;
	struct series *series; /* by series id */
	size_t count;
};
/* Columns by id; ids are row numbers. All references are checked. */
struct block_tables {
	unsigned refs;
	size_t bytes;
	struct arena *arenas; /* what strings point into */
	size_t arena_count, arena_capacity;

	int32_t *stack_parents, *stack_locations;
	size_t stack_count;
	int32_t *location_mappings, *location_frame_types;
	int64_t *location_addresses;
	uint8_t *location_folded;
	size_t *location_line_firsts; /* location_count + 1 of them */
	size_t location_count;
	int32_t *line_functions;
	int64_t *line_numbers, *line_columns;
	size_t line_count;
	struct bytes *function_names, *function_system_names, *function_file_names;
	int64_t *function_start_lines;
	size_t function_count;
	int64_t *mapping_starts, *mapping_limits, *mapping_offsets;
	struct bytes *mapping_file_names, *mapping_build_ids;
	int32_t *mapping_flags;
	size_t mapping_count;
};

struct block {
	unsigned refs; /* the store's state lock */
	char *path;
	struct block_meta meta;
	bool removed, is_set_aside;
	/* Cached, or NULL; the store's state lock. */
	struct block_series *series;
	struct block_tables *tables;
	uint64_t last_used;
};
/* Reads and checks the metadata and the files' sizes. */
int block_open(const char *path, struct block **ret, struct error *err);
struct block *block_free(struct block *block);

/* Errors: -EBADMSG when the block is damaged, others when reading failed. *bytes grows by what was read from disk. */
int block_series_load(const struct block *block, struct block_series **ret, uint64_t *bytes, struct error *err);
struct block_series *block_series_free(struct block_series *series);
int block_tables_load(const struct block *block, struct block_tables **ret, uint64_t *bytes, struct error *err);
struct block_tables *block_tables_free(struct block_tables *tables);
int block_open_file(const struct block *block, enum block_file file, struct parquet_file **ret, struct error *err);
/* Reads every byte of every file: -EBADMSG names the first that is damaged. Queries check only what they read. */
int block_verify(const struct block *block, struct error *err);
/* Ids of the appends in it, by rising sequence. */
int block_read_appends(const struct block *block, struct head_append **ret, size_t *ret_count, struct error *err);

/* A scan over the samples of some series. Called for runs of one series; stacks is NULL unless wanted, times is NULL when all
 * of the run lies in the range. */
struct block_run {
	uint32_t series;
	size_t count;
	const int32_t *stacks;
	const int64_t *times, *values;
};
struct block_scan {
	const struct block *block;
	const bool *wanted; /* by series id */
	size_t series_count;
	size_t stack_count; /* stack ids are checked against it; 0 = stacks are not read */
	int64_t from_ns, to_ns;
	bool need_times; /* give times even when all lie in the range */
	const bool *cancel;
	int (*on_run)(void *context, const struct block_run *run, struct error *err);
	void *context;
	uint64_t rows, bytes; /* counted */
};
int block_scan(struct block_scan *scan, struct error *err);

#endif
