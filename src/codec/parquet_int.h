/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the Parquet codec: metadata as it is in the footer, and the value encodings. */
#ifndef WICK_CODEC_PARQUET_INT_H
#define WICK_CODEC_PARQUET_INT_H

#include "base/map.h"
#include "codec/parquet.h"
#include "codec/thrift.h"

#define PARQUET_CHUNK_HASH_KEY "wick.xxh3"  /* of a whole chunk: files of before the page index */
#define PARQUET_PAGE_HASH_KEY  "wick.pages" /* the form that is written now, see struct parquet_chunk */
#define PARQUET_HASH_DIGITS    16
#define PARQUET_GROUP_ROWS_MAX (16u * 1024 * 1024)
#define PARQUET_COLUMNS_MAX    4096
#define PARQUET_FOOTER_MAX     (256u * 1024 * 1024)
#define PARQUET_PAGE_MAX       (256u * 1024 * 1024)

enum parquet_encoding {
	ENCODING_PLAIN = 0,
	ENCODING_PLAIN_DICTIONARY = 2,
	ENCODING_RLE = 3,
	ENCODING_BIT_PACKED = 4,
	ENCODING_DELTA_BINARY_PACKED = 5,
	ENCODING_DELTA_LENGTH_BYTE_ARRAY = 6,
	ENCODING_DELTA_BYTE_ARRAY = 7,
	ENCODING_RLE_DICTIONARY = 8,
	ENCODING_BYTE_STREAM_SPLIT = 9,
};
enum parquet_codec {
	CODEC_UNCOMPRESSED = 0,
	CODEC_SNAPPY = 1,
	CODEC_GZIP = 2,
	CODEC_LZO = 3,
	CODEC_BROTLI = 4,
	CODEC_LZ4 = 5,
	CODEC_ZSTD = 6,
	CODEC_LZ4_RAW = 7,
};
enum parquet_page_type {
	PAGE_DATA = 0,
	PAGE_INDEX = 1,
	PAGE_DICTIONARY = 2,
	PAGE_DATA_V2 = 3,
};
enum parquet_repetition {
	REPETITION_REQUIRED = 0,
	REPETITION_OPTIONAL = 1,
	REPETITION_REPEATED = 2,
};

/*
 * A column chunk as the footer has it. `page_hashes` is the text of PARQUET_PAGE_HASH_KEY: 16 hexadecimal digits each for the
 * dictionary page (if there is one), the data pages, the column index (if there is one) and the offset index. It is checked
 * and parsed only when used: opening a file should not cost what its pages cost.
 */
struct parquet_chunk {
	int32_t codec;
	uint32_t encodings; /* bit a encoding, for the writer */
	int64_t value_count, size_compressed, size_uncompressed;
	int64_t data_offset, dictionary_offset; /* dictionary_offset 0 = none */
	int64_t column_index_offset, offset_index_offset;
	int32_t column_index_length, offset_index_length; /* 0 = none */
	struct bytes page_hashes;			  /* empty = none */
	bool has_hash;
	uint64_t hash;
	struct parquet_statistics statistics;
};
struct parquet_group {
	int64_t rows;
	bool unsorted; /* for the writer */
};
struct parquet_schema_column {
	struct parquet_column column; /* .name is owned */
	int32_t repetition;
	unsigned max_definition; /* number of optional steps on the path */
	bool repeated;		 /* a repeated step on the path: not supported */
};
struct parquet_metadata {
	int64_t rows;
	struct parquet_schema_column *columns;
	size_t column_count, column_capacity;
	struct parquet_group *groups;
	size_t group_count, group_capacity;
	struct parquet_chunk *chunks; /* group by group, one a column */
	size_t chunk_capacity;
	struct {
		char *key, *value;
	} * key_values;
	size_t key_value_count; /* for the writer */
};
static inline struct parquet_chunk *parquet_chunk_at(const struct parquet_metadata *metadata, size_t group, size_t column)
{
	return &metadata->chunks[group * metadata->column_count + column];
}
/* Statistics and strings are views of `footer` or copies; `name` is for messages. */
int parquet_metadata_read(struct bytes footer, const char *name, struct parquet_metadata *ret, struct error *err);
void parquet_metadata_release(struct parquet_metadata *metadata);
bool parquet_parse_hash(struct bytes text, uint64_t *ret); /* PARQUET_HASH_DIGITS lower-case hexadecimal digits */
/* Appends the Thrift form. */
int parquet_metadata_write(const struct parquet_metadata *metadata, const uint32_t *sorted_by, size_t sorted_by_count,
			   struct buffer *out);

struct parquet_page {
	int32_t type;
	int32_t size_uncompressed, size_compressed;
	bool has_crc;
	uint32_t crc;
	int32_t value_count, encoding;
	int32_t definition_encoding;					 /* v1 */
	int32_t null_count, row_count, definition_size, repetition_size; /* v2 */
	bool is_compressed;						 /* v2 */
};
/* Reads a page header at the start of input; *ret_len is its length. Returns NULL or the fault. */
const char *parquet_page_read(struct bytes input, struct parquet_page *ret, size_t *ret_len);
int parquet_page_write(const struct parquet_page *page, struct buffer *out);

/* ---- page index (parquet_index.c) ---- */

struct parquet_index_entry {
	int64_t offset;
	int32_t size; /* with its header */
	int64_t first_row, null_count;
	bool is_null; /* no value at all: no bounds */
	struct bytes min, max;
};
struct parquet_location {
	int64_t offset, first_row;
	int32_t size; /* with its header */
};
int parquet_column_index_write(const struct parquet_column *column, const struct parquet_index_entry *entries, size_t count,
			       struct buffer *out);
int parquet_offset_index_write(const struct parquet_index_entry *entries, size_t count, struct buffer *out);
/* Read into arrays of the arena, the bounds as views of input; *ret_count pages. Return 0, -ENOMEM or -EBADMSG. */
int parquet_column_index_read(struct bytes input, struct arena *arena, struct parquet_index_entry **ret, size_t *ret_count);
int parquet_offset_index_read(struct bytes input, struct arena *arena, struct parquet_location **ret, size_t *ret_count);

/* ---- ranges (parquet_statistics.c) ---- */

#define PARQUET_BOUND_MAX 64
struct parquet_range {
	enum {
		PARQUET_RANGE_EMPTY, /* no values */
		PARQUET_RANGE_KNOWN,
		PARQUET_RANGE_UNKNOWN, /* not a number */
	} state;
	struct parquet_bound {
		uint8_t word[8];
		struct bytes bytes; /* of BYTE_ARRAY and FIXED: a view of the value */
	} min, max;
};
void parquet_range_of(const struct parquet_column *column, const void *values, size_t count, struct parquet_range *ret);
void parquet_range_merge(const struct parquet_column *column, struct parquet_range *range, const struct parquet_range *more);
/* As PLAIN encodes one value; a view of the bound or of what it refers to. */
struct bytes parquet_bound_bytes(const struct parquet_column *column, const struct parquet_bound *bound);
int parquet_compare(const struct parquet_column *column, struct bytes a, struct bytes b); /* < 0, 0, > 0 */
/* Shortens a bound of bytes to PARQUET_BOUND_MAX, in `out` if need be; false when there is no upper bound so short. */
bool parquet_cut_bound(struct bytes value, bool is_text, bool upper, uint8_t out[PARQUET_BOUND_MAX], struct bytes *ret);

/* ---- dictionaries of the writer (parquet_dictionary.c) ---- */

struct parquet_dictionary {
	uint64_t *words; /* of fixed-size types */
	struct bytes *strings;
	size_t count, word_capacity, string_capacity;
	uint32_t *indexes; /* one a value */
	size_t index_capacity;
	const uint32_t *ranks; /* after parquet_dictionary_rank(): an entry's place when the most frequent come first */
	/* private */
	struct index32 index;
	uint32_t *slots;
	size_t slot_capacity;
};
/* 1 = built, 0 = does not pay, -ENOMEM. bytes_without: what the values take without a dictionary. */
int parquet_dictionary_build(struct parquet_dictionary *dictionary, const struct parquet_column *column, const void *values,
			     size_t count, const struct parquet_range *range, size_t bytes_without);
/* Integers only. Ranks the entries, about; puts entries and indexes into that order. 0 or -ENOMEM. */
int parquet_dictionary_rank(struct parquet_dictionary *dictionary, size_t count);
int parquet_dictionary_reorder(struct parquet_dictionary *dictionary, size_t count);
void parquet_dictionary_release(struct parquet_dictionary *dictionary);

/* ---- encodings (parquet_encode.c, parquet_decode.c). Decoders return false on malformed input. ---- */

unsigned parquet_bit_width(uint64_t value); /* bits needed for it; 0 for 0 */
/* RLE / bit-packed hybrid without a length prefix. */
int parquet_encode_hybrid(const uint32_t *values, size_t count, unsigned width, struct buffer *out);
bool parquet_decode_hybrid(struct bytes input, unsigned width, size_t count, uint32_t *out);
int parquet_encode_delta32(const int32_t *values, size_t count, struct buffer *out);
int parquet_encode_delta64(const int64_t *values, size_t count, struct buffer *out);
bool parquet_decode_delta32(struct bytes input, size_t count, int32_t *out);
bool parquet_decode_delta64(struct bytes input, size_t count, int64_t *out);
/* What they would append, without the header. */
size_t parquet_delta_cost32(const int32_t *values, size_t count);
size_t parquet_delta_cost64(const int64_t *values, size_t count);
/* The body of a page of dictionary indexes: a byte of width, a multiple of `granule` bits, then hybrid. */
int parquet_encode_indexes(const uint32_t *indexes, size_t count, unsigned granule, struct buffer *out);
int parquet_encode_booleans(const uint8_t *values, size_t count, struct buffer *out);
bool parquet_decode_booleans(struct bytes input, size_t count, uint8_t *out);
/* Definition levels up to `most` as a byte a row, 1 where the level is `most`; *ret_values is how many. */
bool parquet_decode_levels(struct bytes input, unsigned most, size_t count, uint8_t *out, size_t *ret_values);
/* Hybrid indexes, each looked up in a dictionary; false also when one is out of range. */
bool parquet_decode_dictionary32(struct bytes input, unsigned width, size_t count, const uint32_t *dictionary,
				 size_t dictionary_count, uint32_t *out);
bool parquet_decode_dictionary64(struct bytes input, unsigned width, size_t count, const uint64_t *dictionary,
				 size_t dictionary_count, uint64_t *out);
bool parquet_decode_dictionary_bytes(struct bytes input, unsigned width, size_t count, const struct bytes *dictionary,
				     size_t dictionary_count, struct bytes *out);

/* ---- bit packing (parquet_bits.c) ---- */

/* Reads `count` integers of `width` bits, at most 32 or 64; what lies behind `len` bytes reads as 0. */
void parquet_unpack32(const uint8_t *input, size_t len, unsigned width, size_t count, uint32_t *out);
void parquet_unpack64(const uint8_t *input, size_t len, unsigned width, size_t count, uint64_t *out);
/* Packs groups of 8 values, none wider than `width`; writes groups * width bytes. */
void parquet_pack32(const uint32_t *values, size_t groups, unsigned width, uint8_t *out);
void parquet_pack64(const uint64_t *values, size_t groups, unsigned width, uint8_t *out);

static inline size_t parquet_type_size(enum parquet_type type)
{
	static const size_t sizes[] = {1, 4, 8, sizeof(struct bytes), 4, 8, sizeof(struct bytes), sizeof(struct bytes)};
	return sizes[type];
}
static inline bool parquet_is_unsigned(const struct parquet_column *column)
{
	return column->logical == PARQUET_UINT32 || column->logical == PARQUET_UINT64;
}

#endif
