/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: immutable directories of Parquet files. Their layout is docs/format.md; block_write.c writes them, block.c opens
 * them, block_meta.c has their metadata, block_series.c, block_tables.c and block_scan.c read them.
 */
#ifndef WICK_STORE_BLOCK_BLOCK_H
#define WICK_STORE_BLOCK_BLOCK_H

#include <stdatomic.h>

#include "codec/parquet.h"
#include "store/block/partition.h"
#include "store/head/head.h"
#include "store/series_columns.h"

#define BLOCK_VERSION	    3
#define BLOCK_NAME_MAX	    64
#define BLOCK_META_MAX	    (4 * 1024 * 1024)
#define BLOCK_META_LABELS   4096 /* more label names than these are not listed in the metadata */
#define BLOCK_META_TYPES    256	 /* nor more types than these */
#define BLOCK_REPLACES_MAX  4096
#define BLOCK_LABEL_COLUMNS 64 /* label names that get a column; the rest goes into the column "labels" */
#define BLOCK_LABEL_PREFIX  "label_"
#define BLOCK_READ_MAX	    (256u * 1024 * 1024)
#define BLOCK_LEVELS	    3			 /* 0 cut from a head, 1 merged over hours, 2 over days */
#define BLOCK_TOTALS_NS	    (300ll * 1000000000) /* buckets of totals */

enum block_file {
	BLOCK_SAMPLES,
	BLOCK_SERIES,
	BLOCK_STACKS,
	BLOCK_LOCATIONS,
	BLOCK_LINES,
	BLOCK_FUNCTIONS,
	BLOCK_MAPPINGS,
	BLOCK_APPENDS,
	/* Those below may be absent: their size in the metadata is 0. So may BLOCK_SAMPLES, when only rollups were kept. */
	BLOCK_LABELS,
	BLOCK_TOTALS,
	BLOCK_ROLLUP_5M,
	BLOCK_ROLLUP_1H,
	BLOCK_ROLLUP_ALL,
	BLOCK_PROCESSES,
	BLOCK_FILE_COUNT,
};
#define BLOCK_META BLOCK_FILE_COUNT
extern const char *const block_file_names[BLOCK_FILE_COUNT + 1]; /* the last one is the metadata */

/* What the series have that share a label name, a value of one, or a type. */
struct block_use {
	uint64_t series, samples;
	int64_t first_ns, last_ns;
};
/* A label name of the block's series. */
struct block_label_name {
	char *name;
	uint64_t values; /* distinct ones */
	struct block_use use;
	bool in_rollups; /* rollup series keep it */
};
/* A profile type of the block's series. */
struct block_type {
	struct profile_type type;
	struct block_use use;
};
/* Rows that blocks had which this one was made of, but which were damaged then. */
struct block_losses {
	uint64_t rows;
	int64_t from_ns, to_ns; /* their times, both included, as far as they were known; 0 if there are none */
	uint64_t names;		/* rows of the tables that stacks are made of */
};
void block_losses_add(struct block_losses *losses, uint64_t rows, int64_t from_ns, int64_t to_ns);
struct block_meta {
	char name[BLOCK_NAME_MAX];
	unsigned version, level, generation;
	int64_t created_ns, min_ns, max_ns;
	int64_t mean_ns;      /* mean time of the samples: the window that the block belongs to */
	int64_t partition_ns; /* rows of a row group of samples are ordered by partitions of this length (partition.h); 0 = none
			       */
	uint64_t last_sequence; /* of the log records in it: it holds everything up to this one that no older block holds */
	uint64_t samples, series, rollup_series;
	struct parquet_written files[BLOCK_FILE_COUNT]; /* size 0 = absent */
	struct block_label_name *labels;		/* sorted by name */
	size_t label_count;
	/* All label names are in `labels`. False in version 1, and with more than BLOCK_META_LABELS names, when only those that
	 * rollups keep are listed: of other names nothing is known without the series. */
	bool labels_complete;
	struct block_type *types;
	size_t type_count;
	bool counts_profiles; /* totals have the number of profiles of gauges, and each gauge is a rollup series by itself */
	bool types_complete;  /* the same for types: all of them are in `types`, or none */
	struct block_losses lost;
	char (*replaces)[BLOCK_NAME_MAX]; /* blocks that this one was made of */
	size_t replace_count;
};
void block_meta_release(struct block_meta *meta);
/* Only rollups are left of it. */
static inline bool block_meta_is_stripped(const struct block_meta *meta)
{
	return !meta->files[BLOCK_SAMPLES].size && meta->files[BLOCK_ROLLUP_ALL].size;
}
/* "MIN-SEQ", or "MIN-SEQ-gG" of generation G > 0. */
void block_meta_set_name(struct block_meta *meta);
/* A copy of the names for meta->replaces. -E2BIG past BLOCK_REPLACES_MAX. */
int block_meta_set_replaces(struct block_meta *meta, const char (*names)[BLOCK_NAME_MAX], size_t count, struct error *err);
uint64_t block_meta_bytes(const struct block_meta *meta); /* all files together */
int block_meta_write(const char *directory, const struct block_meta *meta, struct error *err);
/* -EBADMSG malformed or not matching its checksum, -ENOTSUP of a newer version. */
int block_meta_read(const char *directory, struct block_meta *ret, struct error *err);
/* The same, but one flipped bit of it is put right: *ret_corrected. Not on disk. */
int block_meta_read_corrected(const char *directory, struct block_meta *ret, bool *ret_corrected, struct error *err);
/* Writes what block_meta_read_corrected() made of it, in the place of what is there. */
int block_meta_heal(const char *directory, struct error *err);
/* What is known of a label; NULL if no series of the block has it, or if !labels_complete and it is not listed. */
const struct block_label_name *block_meta_label(const struct block_meta *meta, const char *name);

/* Writes a head that is not empty as a block of level 0 into `directory`, which must be there and empty; syncs every file and
 * the directory. */
int block_write(struct head *head, const char *directory, struct block_meta *ret, struct error *err);

/* ---- reading ---- */

/* Decoded indexes, shared by the cache and by queries; freed with the last reference (the store's state lock guards refs). */
struct block_series {
	unsigned refs;
	size_t bytes;
	struct series_columns columns;
	/* By series id */
	int64_t *periods, *totals, *first_ns, *last_ns;
	uint64_t *samples;
	int32_t *rollup_ids; /* rising; NULL in blocks without rollups */
	size_t rollup_count;
	int64_t *numbers; /* rows that have numbers; NULL if none of the block has */
};
/* Whether all ids are below the limit, and none is negative. */
#define BLOCK_IDS_STEP 16
static inline bool block_ids_are_below(const int32_t *ids, size_t count, size_t limit)
{
	/* The sign of id | last - id tells whether an id is negative or larger than the last one: compilers do it for many ids
	 * at once, where they compare one by one. */
	uint32_t last = limit > INT32_MAX ? INT32_MAX : (uint32_t)limit - 1, signs = 0;
	size_t i = 0;
	for (; i + BLOCK_IDS_STEP <= count; i += BLOCK_IDS_STEP)
		for (size_t k = 0; k < BLOCK_IDS_STEP; k++)
			signs |= (uint32_t)ids[i + k] | (last - (uint32_t)ids[i + k]);
	for (; i < count; i++)
		signs |= (uint32_t)ids[i] | (last - (uint32_t)ids[i]);
	return signs >> 31 == 0;
}
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
	uint64_t damaged_rows; /* of all tables, that could not be read: frames of BLOCK_DAMAGED_NAME stand for them */

	int64_t *mapping_starts, *mapping_limits, *mapping_offsets;
	struct bytes *mapping_file_names, *mapping_build_ids;
	int32_t *mapping_flags;
	size_t mapping_count;
};
/* The function of frames that cannot be read any more. */
#define BLOCK_DAMAGED_NAME "[damaged]"
/* Those tables: their columns in memory and in files. */
struct block_table_layout {
	enum block_file file;
	size_t count; /* where struct block_tables has the number of rows */
	size_t column_count;
	struct parquet_column columns[7];
	size_t arrays[7]; /* where it has the column's array; 0 = the column is only in the file */
};
#define BLOCK_TABLES 5
extern const struct block_table_layout block_table_layouts[BLOCK_TABLES];
size_t block_value_size(enum parquet_type type); /* in memory */
static inline void **block_table_array(const struct block_tables *tables, const struct block_table_layout *layout,
				       size_t column)
{
	return (void **)((uint8_t *)tables + layout->arrays[column]);
}
size_t block_table_rows(const struct block_tables *tables, const struct block_table_layout *layout);
/* Makes the arrays of one of them, for the number of rows that `tables` has. */
int block_table_allocate(struct block_tables *tables, enum block_file file, struct error *err);
void block_tables_release(struct block_tables *tables);

/* The content hash of each stack of a block that a sample refers to; zero for the others. */
struct block_hashes {
	unsigned refs;
	size_t bytes;
	struct hash128 *hashes; /* by stack id */
	uint8_t *lost;		/* by stack id: it could not be read, and is zero; NULL = all could be */
	size_t count;
};

/* The footer of a block's file. */
struct block_footer {
	unsigned refs;
	size_t bytes;
	struct parquet_footer *footer;
};

/* A place of a block that is damaged. */
struct block_damage {
	enum block_file file;
	size_t group, page; /* SIZE_MAX = all of them */
};
struct block {
	unsigned refs; /* the store's state lock */
	char *path;
	struct block_meta meta;
	bool removed, is_set_aside;
	bool is_left_alone; /* compaction cannot read it, and it is not damaged */
	bool is_stuck;	    /* removed, but its files cannot be */
	/* Files that are not read any more, because they are damaged and others have what they hold: a bit a file */
	atomic_uint unusable;
	/* Files in which a flipped bit was put right when it was read, but not on disk; those that were reported; a bit a file,
	 * and BLOCK_META for the metadata */
	atomic_uint corrected;
	unsigned corrected_reported; /* the store's state lock */
	struct block_place {
		struct block *block;
		enum block_file file;
	} places[BLOCK_FILE_COUNT];
	struct block_damage *damage; /* what was reported; the store's state lock */
	size_t damage_count, damage_capacity;
	int64_t due_ns; /* when retention has something to take out of it; 0 = not known */
	/* Cached, or NULL; the store's state lock. */
	struct block_series *series;
	struct block_tables *tables;
	struct block_hashes *hashes;
	struct block_footer *samples_footer;
	uint64_t last_used;
};
static inline bool block_can_use(const struct block *block, enum block_file file)
{
	return block->meta.files[file].size > 0 && !(block->unusable >> file & 1);
}
/* Whether what the file holds can be made of the block's other files. */
bool block_is_derivable(const struct block *block, enum block_file file);
/* Whether the file is there and as long as it should be; -EBADMSG if not. */
int block_check_file(const struct block *block, enum block_file file, struct error *err);
/* Reads and checks the metadata and the files' sizes. Files with rows, sums, labels or ids of appends that are missing or have
 * the wrong size are marked as unusable; others make it -EBADMSG. */
int block_open(const char *path, struct block **ret, struct error *err);
/* The same for a block to be repaired, whatever is missing of it but the metadata. */
int block_open_loosely(const char *path, struct block **ret, struct error *err);
struct block *block_free(struct block *block);
DEFINE_CLEANUP_POINTER(block_free, struct block);

/* Errors: -EBADMSG when the block is damaged, others when reading failed. *bytes grows by what was read from disk. */
int block_series_load(const struct block *block, struct block_series **ret, uint64_t *bytes, struct error *err);
struct block_series *block_series_free(struct block_series *series);
int block_tables_load(const struct block *block, struct block_tables **ret, uint64_t *bytes, struct error *err);
struct block_tables *block_tables_free(struct block_tables *tables);
int block_hashes_load(const struct block *block, struct block_hashes **ret, uint64_t *bytes, struct error *err);
struct block_hashes *block_hashes_free(struct block_hashes *hashes);
int block_open_file(const struct block *block, enum block_file file, struct parquet_file **ret, struct error *err);
/* For block_open_file_with(), which does not read it. The file must be one that stays what it is while the block is there. */
int block_footer_load(const struct block *block, enum block_file file, struct block_footer **ret, uint64_t *bytes,
		      struct error *err);
struct block_footer *block_footer_free(struct block_footer *footer);
DEFINE_CLEANUP_POINTER(block_footer_free, struct block_footer);
/* footer: of this file, and lives as long as what is opened; NULL = it is read. */
int block_open_file_with(const struct block *block, enum block_file file, const struct block_footer *footer,
			 struct parquet_file **ret, struct error *err);
/* A column by name and type; -EBADMSG if there is none. */
int block_find_column(const struct parquet_file *file, const char *name, enum parquet_type type, size_t *ret,
		      struct error *err);
/* Reads a column of all row groups into `to`, which has room for the file's rows. What strings point into goes to `strings`. */
int block_read_column(struct parquet_file *file, const char *name, enum parquet_type type, void *to,
		      struct block_tables *strings, struct error *err);
/* Looks into labels.parquet for values of a label that begin with `prefix`: on_value for each, in order; what it is given is
 * valid during the call. Reads only the pages where they are; -EBADMSG may come after some were given. */
typedef int (*block_on_value)(void *context, const char *value, const struct block_use *use, struct error *err);
int block_labels_find(const struct block *block, const char *label, const char *prefix, block_on_value on_value, void *context,
		      uint64_t *bytes, struct error *err);
/*
 * Looks at every byte of every file. What does not match its checksum because of one flipped bit is put right on disk, if
 * `write`; what is damaged beyond that is told, file by file and part by part. Also files that are missing. -EBADMSG: the
 * metadata cannot be read.
 */
struct block_healed {
	uint64_t bits;	  /* put right */
	unsigned damaged; /* files that are not whole: a bit a file */
	uint64_t parts;	  /* of them */
};
int block_heal(const char *path, bool write, void (*on_damage)(void *context, const char *message), void *context,
	       struct block_healed *ret, struct error *err);
/* Reads every byte of every file: -EBADMSG names the first that is damaged. Queries check only what they read. */
int block_verify(const struct block *block, struct error *err);
/* The same to the end: on_damage is called for each part that is damaged, and 0 returned. */
int block_verify_all(const struct block *block, void (*on_damage)(void *context, const char *message), void *context,
		     struct error *err);
/* Ids of the appends in it, by rising sequence. */
int block_read_appends(const struct block *block, struct head_append **ret, size_t *ret_count, struct error *err);

#endif
