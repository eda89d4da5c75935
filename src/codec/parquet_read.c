/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Parquet reader: opens a file by its footer and decodes one column chunk at a time into arrays.
 *
 * Everything comes from outside. A chunk's place is checked against the file, a page's against its chunk, the number of values
 * of each page against what its row group still needs, and every buffer against memory_max before it is made. The checksums
 * come first: once the chunk's hash has matched, page CRCs have nothing to add and are skipped.
 *
 * Files are read with pread, not mapped: a file that shrinks under a mapping kills the process.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "codec/compress.h"
#include "codec/parquet_int.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied as they are on disk");

/* A fuzzer cannot guess checksums; what they guard must hold without them. */
#ifdef WICK_FUZZING
#define CHECKSUMS_MATTER false
#else
#define CHECKSUMS_MATTER true
#endif

#define MAGIC_LEN	   4
#define TAIL_LEN	   8 /* footer length, magic */
#define MEMORY_MAX_DEFAULT (1024u * 1024 * 1024)

struct parquet_file {
	int fd; /* -1 when `input` is the file */
	struct bytes input;
	char *name;
	uint64_t size, footer_start, footer_hash, bytes_read;
	size_t memory_max;
	uint8_t *footer; /* what statistics refer to */
	struct parquet_metadata metadata;
	struct buffer chunk, page;
	uint32_t *words; /* levels, dictionary indexes */
	size_t word_capacity;
	ZSTD_DCtx *zstd;
};

/* ---- opening ---- */

static int corrupt(const struct parquet_file *file, struct error *err, const char *fault)
{
	return error_set(err, -EBADMSG, "%s: %s", file->name, fault);
}

/* Reads exactly len bytes. */
static int read_at(struct parquet_file *file, uint64_t offset, void *data, size_t len, struct error *err)
{
	file->bytes_read += len;
	if (file->fd < 0) {
		memcpy(data, file->input.data + offset, len);
		return 0;
	}
	ssize_t n = io_pread(file->fd, data, len, offset, file->name, err);
	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : corrupt(file, err, "truncated while it was read");
}

static int read_footer(struct parquet_file *file, const uint64_t *expected, struct error *err)
{
	uint8_t head[MAGIC_LEN], tail[TAIL_LEN];
	uint32_t len;
	if (file->size < MAGIC_LEN + TAIL_LEN)
		return corrupt(file, err, "too short to be a Parquet file");
	int r = read_at(file, 0, head, sizeof(head), err);
	if (r == 0)
		r = read_at(file, file->size - TAIL_LEN, tail, sizeof(tail), err);
	if (r < 0)
		return r;
	if (!memcmp(head, "PARE", 4) || !memcmp(tail + 4, "PARE", 4))
		return error_set(err, -ENOTSUP, "%s: encrypted Parquet files are not supported", file->name);
	if (memcmp(head, "PAR1", 4) || memcmp(tail + 4, "PAR1", 4))
		return corrupt(file, err, "not a Parquet file: the magic number is missing at its start or end");
	memcpy(&len, tail, 4);
	if (len > file->size - MAGIC_LEN - TAIL_LEN || len > PARQUET_FOOTER_MAX || len > file->memory_max)
		return corrupt(file, err, "the footer's length is wrong");
	file->footer_start = file->size - TAIL_LEN - len;
	file->footer = mem_alloc(len + TAIL_LEN);
	if (!file->footer)
		return error_nomem(err);
	r = read_at(file, file->footer_start, file->footer, len + TAIL_LEN, err);
	if (r < 0)
		return r;
	file->footer_hash = hash64(file->footer, len + TAIL_LEN);
	if (expected && file->footer_hash != *expected)
		return corrupt(file, err, "the footer does not match its checksum");
	return parquet_metadata_read((struct bytes){file->footer, len}, file->name, &file->metadata, err);
}

static int open_common(struct parquet_file *file, const char *name, const struct parquet_read_options *options,
		       struct parquet_file **ret, struct error *err)
{
	file->memory_max = options && options->memory_max ? options->memory_max : MEMORY_MAX_DEFAULT;
	buffer_init(&file->chunk, file->memory_max);
	buffer_init(&file->page, file->memory_max);
	file->name = mem_strdup(name);
	file->zstd = ZSTD_createDCtx();
	int r = file->name && file->zstd ? 0 : error_nomem(err);
	if (r == 0 && file->fd >= 0)
		r = io_file_size(file->fd, &file->size, name, err);
	if (r == 0)
		r = read_footer(file, options ? options->expected_footer : NULL, err);
	if (r < 0) {
		parquet_close(file);
		return r;
	}
	*ret = file;
	return 0;
}

int parquet_open(const char *path, const struct parquet_read_options *options, struct parquet_file **ret, struct error *err)
{
	struct parquet_file *file = mem_zalloc(sizeof(*file));
	if (!file)
		return error_nomem(err);
	file->fd = io_open(path, O_RDONLY, 0, err);
	if (file->fd < 0) {
		int r = file->fd;
		mem_free(file);
		return r;
	}
	return open_common(file, path, options, ret, err);
}

int parquet_open_bytes(struct bytes input, const char *name, const struct parquet_read_options *options,
		       struct parquet_file **ret, struct error *err)
{
	struct parquet_file *file = mem_zalloc(sizeof(*file));
	if (!file)
		return error_nomem(err);
	file->fd = -1;
	file->input = input;
	file->size = input.len;
	return open_common(file, name, options, ret, err);
}

struct parquet_file *parquet_close(struct parquet_file *file)
{
	if (!file)
		return NULL;
	io_close(file->fd);
	parquet_metadata_release(&file->metadata);
	buffer_release(&file->chunk);
	buffer_release(&file->page);
	ZSTD_freeDCtx(file->zstd);
	mem_free(file->words);
	mem_free(file->footer);
	mem_free(file->name);
	mem_free(file);
	return NULL;
}

/* ---- what the footer says ---- */

uint64_t parquet_file_size(const struct parquet_file *file)
{
	return file->size;
}

uint64_t parquet_bytes_read(const struct parquet_file *file)
{
	return file->bytes_read;
}

uint64_t parquet_footer_hash(const struct parquet_file *file)
{
	return file->footer_hash;
}

uint64_t parquet_rows(const struct parquet_file *file)
{
	return (uint64_t)file->metadata.rows;
}

size_t parquet_group_count(const struct parquet_file *file)
{
	return file->metadata.group_count;
}

size_t parquet_group_rows(const struct parquet_file *file, size_t group)
{
	assert(group < file->metadata.group_count);
	return (size_t)file->metadata.groups[group].rows;
}

size_t parquet_column_count(const struct parquet_file *file)
{
	return file->metadata.column_count;
}

const struct parquet_column *parquet_column_at(const struct parquet_file *file, size_t column)
{
	assert(column < file->metadata.column_count);
	return &file->metadata.columns[column].column;
}

bool parquet_find_column(const struct parquet_file *file, const char *name, size_t *ret)
{
	for (size_t i = 0; i < file->metadata.column_count; i++) {
		if (!strcmp(file->metadata.columns[i].column.name, name)) {
			*ret = i;
			return true;
		}
	}
	return false;
}

const char *parquet_key_value(const struct parquet_file *file, const char *key)
{
	for (size_t i = 0; i < file->metadata.key_value_count; i++)
		if (!strcmp(file->metadata.key_values[i].key, key))
			return file->metadata.key_values[i].value;
	return NULL;
}

void parquet_chunk_statistics(const struct parquet_file *file, size_t group, size_t column, struct parquet_statistics *ret)
{
	assert(group < file->metadata.group_count && column < file->metadata.column_count);
	*ret = file->metadata.groups[group].chunks[column].statistics;
}

bool parquet_chunk_range(const struct parquet_file *file, size_t group, size_t column, int64_t *ret_min, int64_t *ret_max)
{
	struct parquet_statistics statistics;
	const struct parquet_column *schema = parquet_column_at(file, column);
	size_t size = schema->type == PARQUET_INT64 ? 8 : 4;
	parquet_chunk_statistics(file, group, column, &statistics);
	if ((schema->type != PARQUET_INT32 && schema->type != PARQUET_INT64) || parquet_is_unsigned(schema))
		return false;
	if (!statistics.has_range || statistics.min.len != size || statistics.max.len != size)
		return false;
	if (size == 8) {
		memcpy(ret_min, statistics.min.data, 8);
		memcpy(ret_max, statistics.max.data, 8);
	} else {
		int32_t min, max;
		memcpy(&min, statistics.min.data, 4);
		memcpy(&max, statistics.max.data, 4);
		*ret_min = min;
		*ret_max = max;
	}
	return true;
}

/* ---- decoded data ---- */

void parquet_data_init(struct parquet_data *data)
{
	*data = (struct parquet_data){0};
	arena_init(&data->storage, 0);
}

void parquet_data_release(struct parquet_data *data)
{
	mem_free(data->any);
	mem_free(data->present_buffer);
	arena_release(&data->storage);
	parquet_data_init(data);
}

/* ---- one chunk ---- */

struct chunk_reader {
	struct parquet_file *file;
	const struct parquet_schema_column *schema;
	const struct parquet_chunk *chunk;
	size_t group, column;
	struct parquet_data *data;
	size_t done; /* rows decoded */
	bool has_dictionary, check_crc;
	const uint8_t *dictionary_words;	/* fixed-size types: as on disk */
	const struct bytes *dictionary_strings; /* the others */
	size_t dictionary_count;
	uint8_t *dictionary_copy; /* owned */
	struct error *err;
};

static bool is_bytes(const struct chunk_reader *reader)
{
	enum parquet_type type = reader->schema->column.type;
	return type == PARQUET_BYTE_ARRAY || type == PARQUET_FIXED || type == PARQUET_INT96;
}

static int fault(const struct chunk_reader *reader, int code, const char *text)
{
	return error_set(reader->err, code, "%s: column %s, row group %zu: %s", reader->file->name, reader->schema->column.name,
			 reader->group, text);
}

static int chunk_corrupt(const struct chunk_reader *reader, const char *text)
{
	return fault(reader, -EBADMSG, text);
}

static int chunk_nomem(const struct chunk_reader *reader)
{
	return error_nomem(reader->err);
}

static int chunk_too_large(const struct chunk_reader *reader)
{
	return fault(reader, -E2BIG, "needs more memory than allowed");
}

static int unsupported_encoding(const struct chunk_reader *reader, int encoding)
{
	static const char *const names[] = {
		"PLAIN",	  "GROUP_VAR_INT",	 "PLAIN_DICTIONARY",	    "RLE",
		"BIT_PACKED",	  "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
		"RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
	const char *name = encoding >= 0 && encoding < (int)(sizeof(names) / sizeof(names[0])) ? names[encoding] : "unknown";
	return error_set(reader->err, -ENOTSUP, "encoding %s (%d) is not supported for this type (column %s of %s)", name,
			 encoding, reader->schema->column.name, reader->file->name);
}

static int unsupported_codec(const struct chunk_reader *reader)
{
	static const char *const names[] = {"none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw"};
	int codec = reader->chunk->codec;
	const char *name = codec >= 0 && codec < (int)(sizeof(names) / sizeof(names[0])) ? names[codec] : "unknown";
	return error_set(reader->err, -ENOTSUP, "compression %s (%d) is not supported (column %s of %s): rewrite it with zstd",
			 name, codec, reader->schema->column.name, reader->file->name);
}

/* Makes the output arrays; the row count comes from the file, so the memory limit is what bounds it. */
static int prepare_output(struct chunk_reader *reader)
{
	struct parquet_data *data = reader->data;
	size_t rows = parquet_group_rows(reader->file, reader->group), need;
	size_t size = parquet_type_size(reader->schema->column.type);
	if (__builtin_mul_overflow(rows, size + 1, &need) || need > reader->file->memory_max)
		return chunk_too_large(reader);
	if (rows * size > data->any_size) {
		void *grown = mem_realloc_array(data->any, rows, size);
		if (!grown)
			return chunk_nomem(reader);
		data->any = grown;
		data->any_size = rows * size;
	}
	if (reader->schema->max_definition && rows > data->present_size) {
		void *grown = mem_realloc_array(data->present_buffer, rows, 1);
		if (!grown)
			return chunk_nomem(reader);
		data->present_buffer = grown;
		data->present_size = rows;
	}
	arena_release(&data->storage);
	arena_init(&data->storage, reader->file->memory_max);
	data->type = reader->schema->column.type;
	data->count = rows;
	data->null_count = 0;
	data->present = NULL;
	return 0;
}

/* Bytes that the output will point into, or that live until the next page. */
static uint8_t *page_memory(struct chunk_reader *reader, size_t len, bool keep)
{
	if (keep)
		return arena_alloc(&reader->data->storage, len);
	buffer_clear(&reader->file->page);
	return buffer_reserve(&reader->file->page, len ? len : 1) < 0 ? NULL : reader->file->page.data;
}

static int decompress_gzip(struct chunk_reader *reader, struct bytes input, uint8_t *out, size_t len)
{
	_cleanup_(buffer_release) struct buffer whole;
	buffer_init(&whole, len);
	int r = gzip_decompress(input, &whole, NULL);
	if (r == -ENOMEM)
		return chunk_nomem(reader);
	if (r < 0 || whole.len != len)
		return chunk_corrupt(reader, "a page cannot be decompressed");
	memcpy(out, whole.data, len);
	return 0;
}

static int decompress(struct chunk_reader *reader, struct bytes input, uint8_t *out, size_t len)
{
	if (len == 0)
		return 0;
	if (reader->chunk->codec == CODEC_GZIP)
		return decompress_gzip(reader, input, out, len);
	if (reader->chunk->codec != CODEC_ZSTD)
		return unsupported_codec(reader);
	size_t n = ZSTD_decompressDCtx(reader->file->zstd, out, len, input.data, input.len);
	if (ZSTD_isError(n) || n != len)
		return chunk_corrupt(reader, "a page cannot be decompressed");
	return 0;
}

/* Unpacks what follows `plain` bytes that are never compressed (the levels of a v2 page). */
static int unpack_page(struct chunk_reader *reader, const struct parquet_page *page, struct bytes body, size_t plain,
		       bool compressed, struct bytes *ret)
{
	size_t len = (size_t)page->size_uncompressed;
	if (len > PARQUET_PAGE_MAX || len > reader->file->memory_max)
		return chunk_too_large(reader);
	if (plain > len || plain > body.len || (!compressed && len != body.len))
		return chunk_corrupt(reader, "a page's sizes contradict each other");
	uint8_t *out = page_memory(reader, len, is_bytes(reader));
	if (!out)
		return arena_is_full(&reader->data->storage, len) ? chunk_too_large(reader) : chunk_nomem(reader);
	*ret = (struct bytes){out, len};
	size_t copied = compressed ? plain : len;
	if (copied)
		memcpy(out, body.data, copied);
	if (!compressed)
		return 0;
	return decompress(reader, (struct bytes){body.data + plain, body.len - plain}, out + plain, len - plain);
}

/* ---- values ---- */

static int decode_plain_bytes(struct chunk_reader *reader, struct bytes input, size_t count, struct bytes *out)
{
	size_t at = 0, fixed = reader->schema->column.type_length;
	bool has_length = reader->schema->column.type == PARQUET_BYTE_ARRAY;
	for (size_t i = 0; i < count; i++) {
		uint32_t len = (uint32_t)fixed;
		if (has_length) {
			if (input.len - at < 4)
				return chunk_corrupt(reader, "a page ends inside a value");
			memcpy(&len, input.data + at, 4);
			at += 4;
		}
		if (len > input.len - at)
			return chunk_corrupt(reader, "a page ends inside a value");
		out[i] = (struct bytes){input.data + at, len};
		at += len;
	}
	return 0;
}

static int decode_plain(struct chunk_reader *reader, struct bytes input, size_t count, void *out)
{
	size_t size = parquet_type_size(reader->schema->column.type);
	if (is_bytes(reader))
		return decode_plain_bytes(reader, input, count, out);
	if (reader->schema->column.type == PARQUET_BOOLEAN)
		return parquet_decode_booleans(input, count, out) ? 0 : chunk_corrupt(reader, "a page is too short");
	if (count * size > input.len)
		return chunk_corrupt(reader, "a page is too short");
	if (count)
		memcpy(out, input.data, count * size);
	return 0;
}

static int reserve_words(struct chunk_reader *reader, size_t count)
{
	struct parquet_file *file = reader->file;
	if (array_reserve(&file->words, &file->word_capacity, count, SIZE_MAX) < 0)
		return chunk_nomem(reader);
	return 0;
}

static void gather(const struct chunk_reader *reader, const uint32_t *indexes, size_t count, void *out)
{
	size_t size = parquet_type_size(reader->schema->column.type);
	if (is_bytes(reader)) {
		struct bytes *to = out;
		for (size_t i = 0; i < count; i++)
			to[i] = reader->dictionary_strings[indexes[i]];
	} else if (size == 8) {
		for (size_t i = 0; i < count; i++)
			memcpy((uint8_t *)out + i * 8, reader->dictionary_words + indexes[i] * 8ul, 8);
	} else {
		for (size_t i = 0; i < count; i++)
			memcpy((uint8_t *)out + i * 4, reader->dictionary_words + indexes[i] * 4ul, 4);
	}
}

static int decode_dictionary(struct chunk_reader *reader, struct bytes input, size_t count, void *out)
{
	if (!reader->has_dictionary || reader->schema->column.type == PARQUET_BOOLEAN)
		return chunk_corrupt(reader, "a page refers to a dictionary that is not there");
	if (count == 0)
		return 0;
	if (input.len < 1)
		return chunk_corrupt(reader, "a page is too short");
	int r = reserve_words(reader, count);
	if (r < 0)
		return r;
	uint32_t *indexes = reader->file->words, most = 0;
	if (!parquet_decode_hybrid((struct bytes){input.data + 1, input.len - 1}, input.data[0], count, indexes))
		return chunk_corrupt(reader, "dictionary indexes are malformed");
	for (size_t i = 0; i < count; i++)
		most = indexes[i] > most ? indexes[i] : most;
	if (most >= reader->dictionary_count)
		return chunk_corrupt(reader, "a dictionary index is out of range");
	gather(reader, indexes, count, out);
	return 0;
}

static int decode_rle_booleans(struct chunk_reader *reader, struct bytes input, size_t count, uint8_t *out)
{
	uint32_t len;
	if (count == 0)
		return 0;
	if (input.len < 4)
		return chunk_corrupt(reader, "a page is too short");
	memcpy(&len, input.data, 4);
	int r = reserve_words(reader, count);
	if (r < 0)
		return r;
	if (len > input.len - 4 || !parquet_decode_hybrid((struct bytes){input.data + 4, len}, 1, count, reader->file->words))
		return chunk_corrupt(reader, "booleans are malformed");
	for (size_t i = 0; i < count; i++)
		out[i] = (uint8_t)reader->file->words[i];
	return 0;
}

static int decode_values(struct chunk_reader *reader, int encoding, struct bytes input, size_t count, void *out)
{
	enum parquet_type type = reader->schema->column.type;
	if (encoding == ENCODING_PLAIN)
		return decode_plain(reader, input, count, out);
	if (encoding == ENCODING_RLE_DICTIONARY || encoding == ENCODING_PLAIN_DICTIONARY)
		return decode_dictionary(reader, input, count, out);
	if (encoding == ENCODING_RLE && type == PARQUET_BOOLEAN)
		return decode_rle_booleans(reader, input, count, out);
	if (encoding != ENCODING_DELTA_BINARY_PACKED || (type != PARQUET_INT32 && type != PARQUET_INT64))
		return unsupported_encoding(reader, encoding);
	bool fine =
		type == PARQUET_INT32 ? parquet_decode_delta32(input, count, out) : parquet_decode_delta64(input, count, out);
	return fine ? 0 : chunk_corrupt(reader, "delta-packed values are malformed");
}

/* ---- pages ---- */

/* Decodes definition levels of `count` rows; counts those that have a value. */
static int decode_levels(struct chunk_reader *reader, struct bytes input, size_t count, size_t *ret_values)
{
	unsigned most = reader->schema->max_definition;
	uint8_t *present = reader->data->present_buffer + reader->done;
	int r = reserve_words(reader, count);
	if (r < 0)
		return r;
	const uint32_t *levels = reader->file->words;
	if (!parquet_decode_hybrid(input, parquet_bit_width(most), count, reader->file->words))
		return chunk_corrupt(reader, "definition levels are malformed");
	size_t values = 0;
	for (size_t i = 0; i < count; i++) {
		if (levels[i] > most)
			return chunk_corrupt(reader, "a definition level is out of range");
		present[i] = levels[i] == most;
		values += present[i];
	}
	*ret_values = values;
	return 0;
}

/* Moves `values` dense values to the rows that have one, from the end so that nothing is overwritten, and clears the others. */
static void spread(uint8_t *at, size_t size, const uint8_t *present, size_t count, size_t values)
{
	for (size_t i = count; i-- > 0;) {
		if (present[i])
			memmove(at + i * size, at + --values * size, size);
		else
			memset(at + i * size, 0, size);
	}
}

static int decode_rows(struct chunk_reader *reader, int encoding, struct bytes values, size_t count, size_t value_count)
{
	size_t size = parquet_type_size(reader->schema->column.type);
	uint8_t *out = (uint8_t *)reader->data->any + reader->done * size;
	int r = decode_values(reader, encoding, values, value_count, out);
	if (r < 0)
		return r;
	if (value_count < count)
		spread(out, size, reader->data->present_buffer + reader->done, count, value_count);
	reader->data->null_count += count - value_count;
	reader->done += count;
	return 0;
}

static int decode_page_v1(struct chunk_reader *reader, const struct parquet_page *page, struct bytes body)
{
	struct bytes rest;
	size_t count = (size_t)page->value_count, values = count;
	int r = unpack_page(reader, page, body, 0, reader->chunk->codec != CODEC_UNCOMPRESSED, &rest);
	if (r < 0)
		return r;
	if (reader->schema->max_definition) {
		uint32_t len;
		if (page->definition_encoding != ENCODING_RLE)
			return unsupported_encoding(reader, page->definition_encoding);
		if (rest.len < 4)
			return chunk_corrupt(reader, "a page is too short");
		memcpy(&len, rest.data, 4);
		if (len > rest.len - 4)
			return chunk_corrupt(reader, "definition levels pass the end of their page");
		r = decode_levels(reader, (struct bytes){rest.data + 4, len}, count, &values);
		if (r < 0)
			return r;
		rest = (struct bytes){rest.data + 4 + len, rest.len - 4 - len};
	}
	return decode_rows(reader, page->encoding, rest, count, values);
}

static int decode_page_v2(struct chunk_reader *reader, const struct parquet_page *page, struct bytes body)
{
	struct bytes rest;
	size_t count = (size_t)page->value_count, values = count;
	if (page->definition_size < 0 || page->repetition_size < 0 || page->row_count != page->value_count)
		return chunk_corrupt(reader, "a page's levels contradict its schema");
	/* Repetition levels mean nothing here, but some writers leave a few. */
	size_t skipped = (size_t)page->repetition_size, plain = skipped + (size_t)page->definition_size;
	bool compressed = page->is_compressed && reader->chunk->codec != CODEC_UNCOMPRESSED;
	int r = unpack_page(reader, page, body, plain, compressed, &rest);
	if (r < 0)
		return r;
	if (reader->schema->max_definition) {
		r = decode_levels(reader, (struct bytes){rest.data + skipped, plain - skipped}, count, &values);
		if (r < 0)
			return r;
	} else if (plain > skipped) {
		return chunk_corrupt(reader, "a required column has definition levels");
	}
	return decode_rows(reader, page->encoding, (struct bytes){rest.data + plain, rest.len - plain}, count, values);
}

static int decode_dictionary_page(struct chunk_reader *reader, const struct parquet_page *page, struct bytes body)
{
	struct bytes rest;
	size_t count = (size_t)page->value_count, size = parquet_type_size(reader->schema->column.type);
	if (reader->has_dictionary || reader->done)
		return chunk_corrupt(reader, "a dictionary page that does not come first");
	if (page->encoding != ENCODING_PLAIN && page->encoding != ENCODING_PLAIN_DICTIONARY)
		return unsupported_encoding(reader, page->encoding);
	int r = unpack_page(reader, page, body, 0, reader->chunk->codec != CODEC_UNCOMPRESSED, &rest);
	if (r < 0)
		return r;
	reader->has_dictionary = true;
	reader->dictionary_count = count;
	if (is_bytes(reader)) {
		/* Each value takes some bytes of the page, except strings of no length with their 4. */
		if (count > rest.len)
			return chunk_corrupt(reader, "the dictionary is shorter than it says");
		struct bytes *strings = arena_alloc(&reader->data->storage, count * sizeof(*strings));
		if (!strings)
			return chunk_too_large(reader);
		reader->dictionary_strings = strings;
		return decode_plain_bytes(reader, rest, count, strings);
	}
	if (count * size > rest.len)
		return chunk_corrupt(reader, "the dictionary is shorter than it says");
	reader->dictionary_copy = mem_alloc(count * size);
	if (!reader->dictionary_copy)
		return chunk_nomem(reader);
	memcpy(reader->dictionary_copy, rest.data, count * size);
	reader->dictionary_words = reader->dictionary_copy;
	return 0;
}

static int decode_page(struct chunk_reader *reader, const struct parquet_page *page, struct bytes body)
{
	if (CHECKSUMS_MATTER && reader->check_crc && page->has_crc &&
	    (uint32_t)crc32(0, body.data, (uInt)body.len) != page->crc)
		return chunk_corrupt(reader, "a page does not match its CRC");
	if (page->type == PAGE_INDEX)
		return 0;
	if (page->type == PAGE_DICTIONARY)
		return decode_dictionary_page(reader, page, body);
	if ((size_t)page->value_count > reader->data->count - reader->done)
		return chunk_corrupt(reader, "its pages hold more values than the row group has rows");
	return page->type == PAGE_DATA ? decode_page_v1(reader, page, body) : decode_page_v2(reader, page, body);
}

static int decode_chunk(struct chunk_reader *reader, struct bytes bytes)
{
	size_t at = 0;
	while (reader->done < reader->data->count && at < bytes.len) {
		struct parquet_page page;
		size_t header_len;
		const char *bad = parquet_page_read((struct bytes){bytes.data + at, bytes.len - at}, &page, &header_len);
		if (bad)
			return error_set(reader->err, -EBADMSG, "%s: column %s, row group %zu: page header: %s",
					 reader->file->name, reader->schema->column.name, reader->group, bad);
		at += header_len;
		if ((size_t)page.size_compressed > bytes.len - at)
			return chunk_corrupt(reader, "a page passes the end of its chunk");
		int r = decode_page(reader, &page, (struct bytes){bytes.data + at, (size_t)page.size_compressed});
		if (r < 0)
			return r;
		at += (size_t)page.size_compressed;
	}
	if (reader->done < reader->data->count)
		return chunk_corrupt(reader, "its pages hold fewer values than the row group has rows");
	return 0;
}

static int read_chunk_bytes(struct chunk_reader *reader, struct bytes *ret)
{
	struct parquet_file *file = reader->file;
	const struct parquet_chunk *chunk = reader->chunk;
	int64_t start = chunk->data_offset;
	if (chunk->dictionary_offset >= MAGIC_LEN && chunk->dictionary_offset < start)
		start = chunk->dictionary_offset;
	if (start < MAGIC_LEN || chunk->size_compressed < 0 || (uint64_t)start > file->footer_start ||
	    (uint64_t)chunk->size_compressed > file->footer_start - (uint64_t)start)
		return chunk_corrupt(reader, "lies outside of the file");
	size_t len = (size_t)chunk->size_compressed;
	buffer_clear(&file->chunk);
	int r = buffer_reserve(&file->chunk, len ? len : 1);
	if (r < 0)
		return r == -E2BIG ? chunk_too_large(reader) : chunk_nomem(reader);
	r = read_at(file, (uint64_t)start, file->chunk.data, len, reader->err);
	if (r < 0)
		return r;
	*ret = (struct bytes){file->chunk.data, len};
	if (CHECKSUMS_MATTER && chunk->has_hash && hash64(ret->data, len) != chunk->hash)
		return error_set(reader->err, -EBADMSG,
				 "%s: column %s, row group %zu: bytes %" PRId64 " to %" PRId64 " do not match their checksum",
				 file->name, reader->schema->column.name, reader->group, start,
				 start + chunk->size_compressed - 1);
	return 0;
}

int parquet_read(struct parquet_file *file, size_t group, size_t column, struct parquet_data *ret, struct error *err)
{
	assert(group < file->metadata.group_count && column < file->metadata.column_count);
	struct chunk_reader reader = {
		.file = file,
		.schema = &file->metadata.columns[column],
		.chunk = &file->metadata.groups[group].chunks[column],
		.group = group,
		.column = column,
		.data = ret,
		.err = err,
	};
	struct bytes bytes = {0};
	if (reader.schema->repeated)
		return error_set(err, -ENOTSUP, "repeated values are not supported (column %s of %s)",
				 reader.schema->column.name, file->name);
	if (reader.chunk->value_count != file->metadata.groups[group].rows)
		return chunk_corrupt(&reader, "the number of values is not the number of rows");
	reader.check_crc = !reader.chunk->has_hash;
	int r = prepare_output(&reader);
	if (r == 0)
		r = read_chunk_bytes(&reader, &bytes);
	if (r == 0)
		r = decode_chunk(&reader, bytes);
	mem_free(reader.dictionary_copy);
	if (r == 0 && ret->null_count)
		ret->present = ret->present_buffer;
	return r;
}
