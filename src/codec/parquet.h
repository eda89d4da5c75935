/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parquet: a writer and a reader of flat tables, column by column.
 *
 * Written: data pages v1 with RLE levels, dictionary pages where they pay (RLE_DICTIONARY, else DELTA_BINARY_PACKED or PLAIN),
 * ZSTD, statistics, column orders, page CRCs. Every engine that claims Parquet reads this.
 * Read: the same, and data pages v2, PLAIN_DICTIONARY, RLE booleans, uncompressed and gzip, columns nested in groups without
 * repetition. Anything else is -ENOTSUP "... is not supported (column X of FILE)". Malformed input is -EBADMSG; every size is
 * bounded by the file and by parquet_read_options.memory_max.
 *
 * Integrity. Beside the page CRCs, which any reader can check, each column chunk carries as key-value metadata the XXH3-64 of
 * each of its pages (headers included) and of its page indexes, and parquet_written has the hash of the footer, for whoever
 * keeps the file to remember. Together they leave no byte of a file unchecked, whatever part of it is read; readers that do not
 * know them lose nothing.
 *
 * Threads: a reader or writer belongs to one thread at a time; several readers may have the same file open.
 */
#ifndef WICK_CODEC_PARQUET_H
#define WICK_CODEC_PARQUET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/map.h"

/* Numbers of the specification. */
enum parquet_type {
	PARQUET_BOOLEAN = 0,
	PARQUET_INT32 = 1,
	PARQUET_INT64 = 2,
	PARQUET_INT96 = 3, /* read only, as 12 bytes */
	PARQUET_FLOAT = 4, /* read only */
	PARQUET_DOUBLE = 5,
	PARQUET_BYTE_ARRAY = 6,
	PARQUET_FIXED = 7,
};
enum parquet_logical {
	PARQUET_PLAIN_TYPE, /* also anything that is not listed here, when read */
	PARQUET_STRING,	    /* UTF-8; the writer trusts its caller */
	PARQUET_JSON,
	PARQUET_TIMESTAMP_NS, /* INT64, since 1970-01-01 UTC */
	PARQUET_UINT32,
	PARQUET_UINT64,
};
/* What to do with integers when a dictionary does not pay, and whether to try one. */
enum parquet_layout {
	PARQUET_AUTO,  /* dictionary, else delta for integers and plain for the rest */
	PARQUET_DELTA, /* INT32 and INT64 that rise or change slowly */
	PARQUET_PLAIN, /* high entropy: hashes */
};
struct parquet_column {
	const char *name; /* when read: the path, parts joined by '.' */
	enum parquet_type type;
	enum parquet_logical logical;
	enum parquet_layout layout; /* when read: AUTO */
	uint32_t type_length;	    /* of FIXED */
	bool optional;
};

/* One column of one row group: a value a row, whatever is at absent rows. */
struct parquet_values {
	const uint8_t *present; /* a byte a row, 0 = null; NULL = all present */
	union {
		const uint8_t *booleans; /* a byte a row */
		const int32_t *i32;
		const int64_t *i64;
		const float *f32;
		const double *f64;
		const struct bytes *bytes; /* BYTE_ARRAY, FIXED, INT96 */
	};
};

/* ---- writing ---- */

#define PARQUET_GROUP_ROWS (128 * 1024) /* what callers should put into one row group */
#define PARQUET_PAGE_ROWS  (16 * 1024)
struct parquet_key_value {
	const char *key, *value;
};
struct parquet_write_options {
	const struct parquet_column *columns; /* copied */
	size_t column_count;
	const uint32_t
		*sorted_by; /* columns that the rows of each group are sorted by, ascending; a promise noted in the file */
	size_t sorted_by_count;
	const struct parquet_key_value *key_values; /* copied */
	size_t key_value_count;
	size_t page_rows; /* rows of a data page, the same for all columns; 0 = PARQUET_PAGE_ROWS */
	int zstd_level;	  /* 0 = 1, the fastest; readers of 3 are no slower */
	mode_t mode;	  /* of the new file */
};
struct parquet_written {
	uint64_t size, rows;
	uint64_t footer_hash; /* XXH3-64 of the footer, from its first byte to the end of the file */
};
struct parquet_writer;
/* Makes the file; -EEXIST when it is there. */
int parquet_writer_open(const char *path, const struct parquet_write_options *options, struct parquet_writer **ret,
			struct error *err);
/* The same into a file that is open for writing and empty; closes it, also when it fails. name: for messages. */
int parquet_writer_start(int fd, const char *name, const struct parquet_write_options *options, struct parquet_writer **ret,
			 struct error *err);
/* Writes one row group; values has an entry a column. At most 16 Mi rows; 0 rows write nothing. */
int parquet_writer_group(struct parquet_writer *writer, const struct parquet_values *values, size_t rows, struct error *err);
/* The same, with pages that begin at these rows: rising, the first one 0. Where strings make such a page too long, pages are
 * cut evenly instead. start_count 0: as page_rows says. */
int parquet_writer_group_pages(struct parquet_writer *writer, const struct parquet_values *values, size_t rows,
			       const size_t *starts, size_t start_count, struct error *err);
/* Whether the promise of `sorted_by` holds for the row groups that are written from now on; at first it does. */
void parquet_writer_set_sorted(struct parquet_writer *writer, bool sorted);
/* Writes the footer and syncs the file (not its directory). */
int parquet_writer_finish(struct parquet_writer *writer, struct parquet_written *ret, struct error *err);
/* Closes; a file that was not finished stays behind for the caller to remove. */
struct parquet_writer *parquet_writer_free(struct parquet_writer *writer);
DEFINE_CLEANUP_POINTER(parquet_writer_free, struct parquet_writer);

/* ---- reading ---- */

struct parquet_read_options {
	size_t memory_max;		 /* bytes that one call may use, 0 = 1 GiB */
	const uint64_t *expected_footer; /* parquet_written.footer_hash: another one is -EBADMSG before anything is parsed */
	/* Pages are read without those page indexes that are damaged: without the places of pages a row group is one page,
	 * without ranges none of its pages is left out. parquet_index_damage() says so; without this, reading fails. */
	bool around_indexes;
	/* One flipped bit of a page, an index or the footer is put right in memory: called with its place in the file each time
	 * that it is met. The file stays as it is. NULL = what does not match its checksum is damaged. */
	void (*on_corrected)(void *context, uint64_t offset, uint8_t mask);
	void *context;
};
struct parquet_file;
int parquet_open(const char *path, const struct parquet_read_options *options, struct parquet_file **ret, struct error *err);
struct parquet_file *parquet_close(struct parquet_file *file);
DEFINE_CLEANUP_POINTER(parquet_close, struct parquet_file);

/* What opening a file finds out, for whoever opens it again and again: it is not read, checked and parsed each time. It does
 * not change, so several readers can use it at once; it must live as long as they. Files that are opened with it must be the
 * same one, which is taken on trust but for its length. */
struct parquet_footer;
int parquet_footer_load(const char *path, const struct parquet_read_options *options, struct parquet_footer **ret,
			struct error *err);
struct parquet_footer *parquet_footer_free(struct parquet_footer *footer);
size_t parquet_footer_bytes(const struct parquet_footer *footer); /* of memory */
int parquet_open_with(const char *path, const struct parquet_read_options *options, const struct parquet_footer *footer,
		      struct parquet_file **ret, struct error *err);

uint64_t parquet_file_size(const struct parquet_file *file);
uint64_t parquet_bytes_read(const struct parquet_file *file); /* from the file, so far */
uint64_t parquet_rows(const struct parquet_file *file);
size_t parquet_group_count(const struct parquet_file *file);
size_t parquet_group_rows(const struct parquet_file *file, size_t group);
size_t parquet_column_count(const struct parquet_file *file);
const struct parquet_column *parquet_column_at(const struct parquet_file *file, size_t column);
/* True and the index, or false. */
bool parquet_find_column(const struct parquet_file *file, const char *name, size_t *ret);

struct parquet_statistics {
	bool has_range, has_null_count;
	struct bytes min, max; /* as PLAIN encodes one value, without a length; views that live as long as the file */
	int64_t null_count;
};
void parquet_chunk_statistics(const struct parquet_file *file, size_t group, size_t column, struct parquet_statistics *ret);
/* The range of an INT32 or INT64 chunk; false when the file does not tell. */
bool parquet_chunk_range(const struct parquet_file *file, size_t group, size_t column, int64_t *ret_min, int64_t *ret_max);

/* One decoded column of one row group. Begins as zeros; may be used again and again, which saves allocations. */
struct parquet_data {
	enum parquet_type type;
	size_t count; /* rows */
	size_t null_count;
	uint8_t *present; /* a byte a row; NULL when null_count is 0. Absent values are 0 or empty. */
	union {
		void *any;
		uint8_t *booleans;
		int32_t *i32;
		int64_t *i64;
		float *f32;
		double *f64;
		struct bytes *bytes; /* views into `storage`, and, after parquet_read_pages(), of the dictionary */
	};
	/* private */
	size_t any_size, present_size; /* allocated bytes */
	uint8_t *present_buffer;
	struct arena storage;
	/* The dictionary of the chunk that was read last; dictionary_file 0 = none. */
	uint64_t dictionary_file;
	size_t dictionary_group, dictionary_column, dictionary_count, dictionary_size;
	void *dictionary;
	struct arena dictionary_storage;
};
void parquet_data_release(struct parquet_data *data);
/* Reads a whole column chunk. -EBADMSG names file, column, row group and fault. */
int parquet_read(struct parquet_file *file, size_t group, size_t column, struct parquet_data *ret, struct error *err);

/*
 * Pages. With a page index the pages of a row group begin at the same rows in all columns, and each can be found, checked by
 * its range and read alone. A file without an index (or whose columns have pages that are not aligned) has one "page" a row
 * group.
 */
size_t parquet_page_count(struct parquet_file *file, size_t group);
/* First row of a page within its group; page == parquet_page_count() gives the group's number of rows. */
size_t parquet_page_first_row(struct parquet_file *file, size_t group, size_t page);
/* The range of an INT32 or INT64 page; false when the file does not tell. -EBADMSG faults of the index show when reading. */
bool parquet_page_range(struct parquet_file *file, size_t group, size_t column, size_t page, int64_t *ret_min,
			int64_t *ret_max);
/* The least and greatest value of a BYTE_ARRAY page, perhaps cut short (the maximum then rounded up); views that live as long
 * as the file, or until parquet_forget_index(). */
bool parquet_page_bounds(struct parquet_file *file, size_t group, size_t column, size_t page, struct bytes *ret_min,
			 struct bytes *ret_max);
/* Whoever is done with a row group says so: when all whose index was loaded are done with, their memory is used again. Bounds
 * of its pages are gone; it is loaded again if need be. */
void parquet_forget_index(struct parquet_file *file, size_t group);
/* -EBADMSG and what is wrong if the page index of a row group was found to be damaged, else 0. */
int parquet_index_damage(struct parquet_file *file, size_t group, struct error *err);
/* Reads pages [first, first + count) of one column. Only these pages (and the dictionary) are read from disk and verified; the
 * dictionary is kept decoded in `ret` between calls for the same chunk. */
int parquet_read_pages(struct parquet_file *file, size_t group, size_t column, size_t first, size_t count,
		       struct parquet_data *ret, struct error *err);

/* The same around what is damaged: *bad is set to 1 for each of these pages that cannot be read (the others are left as they
 * are), whose rows are absent or zeros. The file must have been opened with around_indexes. *ret_bad: how many; 0 is success
 * without damage, else `err` names one of them. */
int parquet_read_around(struct parquet_file *file, size_t group, size_t column, size_t first, size_t count,
			struct parquet_data *ret, uint8_t *bad, size_t *ret_bad, struct error *err);

/* A BYTE_ARRAY column of one row group as codes into its distinct values: no string is copied a row. Chunks that are not
 * dictionary-encoded get a dictionary made while reading. */
struct parquet_codes {
	size_t count;	      /* rows */
	uint32_t *codes;      /* PARQUET_CODE_NULL where absent */
	struct bytes *values; /* value_count of them, distinct, in no order; views into storage */
	size_t value_count;
	/* private */
	size_t codes_size, value_capacity;
	struct arena storage;
	struct index32 index;
	struct parquet_data work;
};
#define PARQUET_CODE_NULL UINT32_MAX
void parquet_codes_release(struct parquet_codes *codes);
int parquet_read_codes(struct parquet_file *file, size_t group, size_t column, struct parquet_codes *ret, struct error *err);

/* Verifies every byte of the file, in bounded memory: pages and page indexes by their checksums, the footer by the one it had
 * when it was opened, and that they leave no gap. Chunks without checksums of ours are decoded instead. */
int parquet_verify(struct parquet_file *file, struct error *err);
/* The same to the end: on_damage is called for each part that is damaged, and 0 returned. */
int parquet_verify_all(struct parquet_file *file, void (*on_damage)(void *context, const char *message), void *context,
		       struct error *err);

#endif
