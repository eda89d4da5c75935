/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the Parquet reader: an open file, and the decoding of its chunks. */
#ifndef WICK_CODEC_PARQUET_FILE_H
#define WICK_CODEC_PARQUET_FILE_H

#include "codec/parquet_int.h"

/* A fuzzer cannot guess checksums; what they guard must hold without them. */
#ifdef WICK_FUZZING
#define PARQUET_CHECKSUMS_MATTER false
#else
#define PARQUET_CHECKSUMS_MATTER true
#endif

#define PARQUET_MAGIC_LEN 4
#define PARQUET_TAIL_LEN  8 /* footer length, magic */

struct parquet_column_pages {
	struct parquet_location *pages; /* where they are */
	size_t count;
	struct bytes column_index;	    /* as in the file; empty = none */
	struct parquet_index_entry *bounds; /* what they hold: NULL until parsed, or for good */
	bool parsed;
};
struct parquet_group_index {
	bool loaded;
	size_t page_count; /* 0 = the row group is one page */
	struct parquet_column_pages *columns;
	int fault;	     /* what reading pages fails with, 0 = nothing */
	const char *message; /* of the fault; NULL = out of memory */
};
struct parquet_footer {
	uint64_t size, start, hash; /* as in the file */
	uint8_t *bytes;
	struct parquet_metadata metadata;
};
struct parquet_file {
	int fd;
	char *name;
	uint64_t size, footer_start, footer_hash, bytes_read;
	uint64_t serial; /* unique over all files ever opened: distinguishes two at the same address */
	size_t memory_max;
	bool around_indexes; /* parquet_read_options */
	void (*on_corrected)(void *context, uint64_t offset, uint8_t mask);
	void *corrected_context;
	uint8_t *footer; /* what statistics refer to */
	struct parquet_metadata metadata;
	bool is_footer_lent;		     /* these two are a struct parquet_footer's */
	struct parquet_group_index *indexes; /* one a row group */
	size_t loaded_indexes;		     /* how many of them are loaded */
	struct arena index_arena;
	struct buffer chunk, page;
	uint32_t *words; /* levels, dictionary indexes */
	size_t word_capacity;
	struct zstd_stream *zstd; /* NULL until used */
};

/* Reads exactly len bytes. */
int parquet_read_at(struct parquet_file *file, uint64_t offset, void *data, size_t len, struct error *err);
/* The range of INT32 and INT64 from PLAIN-encoded bounds. */
bool parquet_range_of_bounds(const struct parquet_column *column, struct bytes least, struct bytes most, int64_t *ret_min,
			     int64_t *ret_max);

/* ---- page index (parquet_index.c) ---- */

/* Loads it if need be; never NULL. */
const struct parquet_group_index *parquet_group_index(struct parquet_file *file, size_t group);
int parquet_group_index_fault(const struct parquet_group_index *index, struct error *err);
/* Parses and verifies all of it. */
int parquet_group_index_check(struct parquet_file *file, size_t group, struct error *err);
int64_t parquet_chunk_start(const struct parquet_chunk *chunk);
bool parquet_chunk_is_inside(const struct parquet_file *file, const struct parquet_chunk *chunk);
size_t parquet_hash_count(const struct parquet_chunk *chunk);
/* False also when there is no such hash. */
bool parquet_hash_matches(const struct parquet_chunk *chunk, size_t which, struct bytes data);

/* ---- flipped bits (parquet_correct.c) ---- */

/* What is tried bit by bit, at most: a second or so. */
#define CORRECT_TRIED_MAX 32768
/* Put one flipped bit right, if somebody wants to know, and if there is one; tell its place. `offset` is where the bytes begin
 * in the file; their hash is number `hash` of the chunk. */
bool parquet_correct_page(struct parquet_file *file, const struct parquet_chunk *chunk, size_t hash, uint64_t offset,
			  struct bytes bytes);
bool parquet_correct_index(struct parquet_file *file, const struct parquet_chunk *chunk, size_t hash, uint64_t offset,
			   struct bytes bytes);
bool parquet_correct_footer(struct parquet_file *file, uint64_t expected, size_t len);
void parquet_note_corrected(struct parquet_file *file, uint64_t offset, size_t bit);
/* The bit of `len` bytes (8 a byte, the lowest first) that makes their CRC-32 the one that it should be. */
bool parquet_correct_by_crc(uint32_t is, uint32_t should_be, size_t len, size_t *ret_bit);
/* The bit of the first `tried` bytes that makes `data` match; it is flipped then. */
bool parquet_correct_by_trying(uint8_t *data, size_t len, size_t tried, bool (*matches)(const void *context, struct bytes data),
			       const void *context, size_t *ret_bit);

/* ---- decoding (parquet_read.c) ---- */

/* Where a chunk's values go and what is known of it. */
struct parquet_chunk_reader {
	struct parquet_file *file;
	const struct parquet_schema_column *schema;
	const struct parquet_chunk *chunk;
	size_t group, column;
	struct parquet_data *data;
	struct parquet_codes *codes; /* NULL; else values go there, and `data` has only what helps */
	size_t done;		     /* rows decoded */
	bool check_crc;
	/* Damaged pages are passed over, and marked here, by page from `bad_first` on; NULL = damage is an error */
	uint8_t *bad;
	size_t bad_first, bad_count;
	struct arena *dictionary_arena; /* what a dictionary of strings and its values live in */
	struct error *err;
};
int parquet_chunk_reader_open(struct parquet_file *file, size_t group, size_t column, struct parquet_data *data,
			      struct parquet_chunk_reader *ret, struct error *err);
/* Reads and decodes all pages. */
int parquet_chunk_decode(struct parquet_chunk_reader *reader);
int parquet_chunk_corrupt(const struct parquet_chunk_reader *reader, const char *text);
int parquet_chunk_checksum_fault(const struct parquet_chunk_reader *reader, uint64_t start, uint64_t end);
int parquet_chunk_too_large(const struct parquet_chunk_reader *reader);

/* Codes (parquet_codes.c). Turns data->dictionary, strings, into the codes of these strings. */
int parquet_codes_dictionary(struct parquet_chunk_reader *reader);
/* The codes of PLAIN values. */
int parquet_codes_plain(struct parquet_chunk_reader *reader, struct bytes input, size_t count, uint32_t *out);
/* Splits PLAIN values; views of input. */
int parquet_decode_plain_bytes(const struct parquet_chunk_reader *reader, struct bytes input, size_t count, struct bytes *out);

#endif
