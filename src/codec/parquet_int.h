/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the Parquet codec: metadata as it is in the footer, and the value encodings. */
#ifndef WICK_CODEC_PARQUET_INT_H
#define WICK_CODEC_PARQUET_INT_H

#include "codec/parquet.h"
#include "codec/thrift.h"

#define PARQUET_CHUNK_HASH_KEY "wick.xxh3"
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

/* A column chunk as the footer has it. */
struct parquet_chunk {
	int32_t codec;
	int64_t value_count, size_compressed, size_uncompressed;
	int64_t data_offset, dictionary_offset; /* dictionary_offset 0 = none */
	struct parquet_statistics statistics;
	bool has_hash;
	uint64_t hash;
	uint32_t encodings; /* bit a encoding, for the writer */
};
struct parquet_group {
	int64_t rows;
	struct parquet_chunk *chunks; /* one a column */
};
struct parquet_schema_column {
	struct parquet_column column; /* .name is owned */
	int32_t repetition;
	unsigned max_definition; /* number of optional steps on the path */
	bool repeated;		 /* a repeated step on the path: not supported */
	char **path;		 /* unused when reading */
};
struct parquet_metadata {
	int64_t rows;
	struct parquet_schema_column *columns;
	size_t column_count, column_capacity;
	struct parquet_group *groups;
	size_t group_count, group_capacity;
	struct {
		char *key, *value;
	} * key_values;
	size_t key_value_count, key_value_capacity;
};
/* Statistics and strings are views of `footer` or copies; `name` is for messages. */
int parquet_metadata_read(struct bytes footer, const char *name, struct parquet_metadata *ret, struct error *err);
void parquet_metadata_release(struct parquet_metadata *metadata);
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

/* ---- encodings (parquet_encode.c, parquet_decode.c). Decoders return false on malformed input. ---- */

unsigned parquet_bit_width(uint64_t value); /* bits needed for it; 0 for 0 */
/* RLE / bit-packed hybrid without a length prefix. */
int parquet_encode_hybrid(const uint32_t *values, size_t count, unsigned width, struct buffer *out);
bool parquet_decode_hybrid(struct bytes input, unsigned width, size_t count, uint32_t *out);
int parquet_encode_delta32(const int32_t *values, size_t count, struct buffer *out);
int parquet_encode_delta64(const int64_t *values, size_t count, struct buffer *out);
bool parquet_decode_delta32(struct bytes input, size_t count, int32_t *out);
bool parquet_decode_delta64(struct bytes input, size_t count, int64_t *out);
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
