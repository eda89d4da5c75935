/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding column chunks, whole or some pages of them, into arrays.
 *
 * Everything comes from outside. A chunk's place is checked against the file, a page's against its chunk, the number of values
 * of each page against the rows that are still needed, and every buffer against memory_max before it is made. The checksums
 * come first: where a page's hash has matched, its CRC has nothing to add and is skipped. Pages of a file that is hashed by the
 * chunk (as it was before there was a page index) can be read alone only by verifying the whole chunk, so such chunks are one
 * page.
 *
 * Bytes are copied as seldom as can be: pages that are not compressed are decoded from where they were read, others from where
 * they were decompressed, both into the array that the caller gets. Strings stay where their page is.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "codec/compress.h"
#include "codec/parquet_file.h"

/* ---- decoded data ---- */

void parquet_data_release(struct parquet_data *data)
{
	mem_free(data->any);
	mem_free(data->present_buffer);
	mem_free(data->dictionary);
	arena_release(&data->storage);
	arena_release(&data->dictionary_storage);
	*data = (struct parquet_data){0};
}

/* ---- faults ---- */

static bool is_bytes(const struct parquet_chunk_reader *reader)
{
	enum parquet_type type = reader->schema->column.type;
	return type == PARQUET_BYTE_ARRAY || type == PARQUET_FIXED || type == PARQUET_INT96;
}

static int fault(const struct parquet_chunk_reader *reader, int code, const char *text)
{
	return error_set(reader->err, code, "%s: column %s, row group %zu: %s", reader->file->name, reader->schema->column.name,
			 reader->group, text);
}

int parquet_chunk_corrupt(const struct parquet_chunk_reader *reader, const char *text)
{
	return fault(reader, -EBADMSG, text);
}

int parquet_chunk_too_large(const struct parquet_chunk_reader *reader)
{
	return fault(reader, -E2BIG, "needs more memory than allowed");
}

/* Bytes start to end - 1 of the file. */
int parquet_chunk_checksum_fault(const struct parquet_chunk_reader *reader, uint64_t start, uint64_t end)
{
	return error_set(reader->err, -EBADMSG,
			 "%s: column %s, row group %zu: bytes %" PRIu64 " to %" PRIu64 " do not match their checksum",
			 reader->file->name, reader->schema->column.name, reader->group, start, end ? end - 1 : 0);
}

static int unsupported_encoding(const struct parquet_chunk_reader *reader, int encoding)
{
	static const char *const names[] = {
		"PLAIN",	  "GROUP_VAR_INT",	 "PLAIN_DICTIONARY",	    "RLE",
		"BIT_PACKED",	  "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
		"RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
	const char *name = encoding >= 0 && encoding < (int)(sizeof(names) / sizeof(names[0])) ? names[encoding] : "unknown";
	return error_set(reader->err, -ENOTSUP, "encoding %s (%d) is not supported for this type (column %s of %s)", name,
			 encoding, reader->schema->column.name, reader->file->name);
}

static int unsupported_codec(const struct parquet_chunk_reader *reader)
{
	static const char *const names[] = {"none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw"};
	int codec = reader->chunk->codec;
	const char *name = codec >= 0 && codec < (int)(sizeof(names) / sizeof(names[0])) ? names[codec] : "unknown";
	return error_set(reader->err, -ENOTSUP, "compression %s (%d) is not supported (column %s of %s): rewrite it with zstd",
			 name, codec, reader->schema->column.name, reader->file->name);
}

/* ---- memory ---- */

/* Bytes of a decoded value. */
static size_t out_size(const struct parquet_chunk_reader *reader)
{
	return reader->codes ? sizeof(*reader->codes->codes) : parquet_type_size(reader->schema->column.type);
}

/* Makes *buffer at least `size` bytes long; what it held is gone. */
static int grow(void **buffer, size_t *capacity, size_t size)
{
	if (size <= *capacity)
		return 0;
	void *grown = mem_alloc(size);
	if (!grown)
		return -ENOMEM;
	mem_free(*buffer);
	*buffer = grown;
	*capacity = size;
	return 0;
}

/* Makes the output arrays; the row count comes from the file, so the memory limit is what bounds it. */
static int prepare_output(struct parquet_chunk_reader *reader, size_t rows)
{
	struct parquet_data *data = reader->data;
	size_t size = out_size(reader), need;
	void *present = data->present_buffer;
	int r = 0;
	if (__builtin_mul_overflow(rows, size + 1, &need) || need > reader->file->memory_max)
		return parquet_chunk_too_large(reader);
	if (reader->schema->max_definition)
		r = grow(&present, &data->present_size, rows);
	data->present_buffer = present;
	if (r == 0 && reader->codes) {
		void *codes = reader->codes->codes;
		r = grow(&codes, &reader->codes->codes_size, rows * size);
		reader->codes->codes = codes;
	} else if (r == 0) {
		r = grow(&data->any, &data->any_size, rows * size);
	}
	arena_release(&data->storage);
	arena_init(&data->storage, reader->file->memory_max);
	data->type = reader->schema->column.type;
	data->count = rows;
	data->null_count = 0;
	data->present = NULL;
	return r < 0 ? error_nomem(reader->err) : 0;
}

static int reserve_words(struct parquet_chunk_reader *reader, size_t count)
{
	struct parquet_file *file = reader->file;
	if (array_reserve(&file->words, &file->word_capacity, count, SIZE_MAX) < 0)
		return error_nomem(reader->err);
	return 0;
}

/* ---- decompression ---- */

static int decompress_gzip(struct parquet_chunk_reader *reader, struct bytes input, uint8_t *out, size_t len)
{
	_cleanup_(buffer_release) struct buffer whole = {.max = len};
	int r = gzip_decompress(input, &whole, NULL);
	if (r == -ENOMEM)
		return error_nomem(reader->err);
	if (r < 0 || whole.len != len)
		return parquet_chunk_corrupt(reader, "a page cannot be decompressed");
	memcpy(out, whole.data, len);
	return 0;
}

static int decompress(struct parquet_chunk_reader *reader, struct bytes input, uint8_t *out, size_t len)
{
	if (len == 0)
		return 0;
	if (reader->chunk->codec == CODEC_GZIP)
		return decompress_gzip(reader, input, out, len);
	if (reader->chunk->codec != CODEC_ZSTD)
		return unsupported_codec(reader);
	int r = zstd_decompress_exactly(&reader->file->zstd, input, out, len, NULL);
	if (r == -ENOMEM)
		return error_nomem(reader->err);
	return r < 0 ? parquet_chunk_corrupt(reader, "a page cannot be decompressed") : 0;
}

/* Gives a page's bytes as they were before compression, except `plain` bytes at its start that never are (the levels of a v2
 * page). They live in `keep`, or, if that is NULL, until the next page. */
static int unpack_page(struct parquet_chunk_reader *reader, const struct parquet_page *page, struct bytes body, size_t plain,
		       bool compressed, struct arena *keep, struct bytes *ret)
{
	struct buffer *scratch = &reader->file->page;
	size_t len = (size_t)page->size_uncompressed;
	if (len > PARQUET_PAGE_MAX || len > reader->file->memory_max)
		return parquet_chunk_too_large(reader);
	if (plain > len || plain > body.len || (!compressed && len != body.len))
		return parquet_chunk_corrupt(reader, "a page's sizes contradict each other");
	if (!compressed && !keep) {
		*ret = body;
		return 0;
	}
	buffer_clear(scratch);
	if (!keep && buffer_reserve(scratch, len ? len : 1) < 0)
		return error_nomem(reader->err);
	uint8_t *out = keep ? arena_alloc(keep, len) : scratch->data;
	if (!out)
		return arena_is_full(keep, len) ? parquet_chunk_too_large(reader) : error_nomem(reader->err);
	*ret = (struct bytes){out, len};
	size_t copied = compressed ? plain : len;
	if (copied)
		memcpy(out, body.data, copied);
	if (!compressed)
		return 0;
	return decompress(reader, (struct bytes){body.data + plain, body.len - plain}, out + plain, len - plain);
}

/* ---- values ---- */

int parquet_decode_plain_bytes(const struct parquet_chunk_reader *reader, struct bytes input, size_t count, struct bytes *out)
{
	size_t at = 0, fixed = reader->schema->column.type_length;
	bool has_length = reader->schema->column.type == PARQUET_BYTE_ARRAY;
	for (size_t i = 0; i < count; i++) {
		uint32_t len = (uint32_t)fixed;
		if (has_length) {
			if (input.len - at < 4)
				return parquet_chunk_corrupt(reader, "a page ends inside a value");
			memcpy(&len, input.data + at, 4);
			at += 4;
		}
		if (len > input.len - at)
			return parquet_chunk_corrupt(reader, "a page ends inside a value");
		out[i] = (struct bytes){input.data + at, len};
		at += len;
	}
	return 0;
}

static int decode_plain(struct parquet_chunk_reader *reader, struct bytes input, size_t count, void *out)
{
	size_t size = parquet_type_size(reader->schema->column.type);
	if (is_bytes(reader))
		return parquet_decode_plain_bytes(reader, input, count, out);
	if (reader->schema->column.type == PARQUET_BOOLEAN)
		return parquet_decode_booleans(input, count, out) ? 0 : parquet_chunk_corrupt(reader, "a page is too short");
	if (count * size > input.len)
		return parquet_chunk_corrupt(reader, "a page is too short");
	if (count)
		memcpy(out, input.data, count * size);
	return 0;
}

static int decode_dictionary(struct parquet_chunk_reader *reader, struct bytes input, size_t count, void *out)
{
	const struct parquet_data *data = reader->data;
	if (!data->dictionary_file || reader->schema->column.type == PARQUET_BOOLEAN)
		return parquet_chunk_corrupt(reader, "a page refers to a dictionary that is not there");
	if (count == 0)
		return 0;
	if (input.len < 1)
		return parquet_chunk_corrupt(reader, "a page is too short");
	struct bytes indexes = {input.data + 1, input.len - 1};
	unsigned width = input.data[0];
	size_t size = out_size(reader);
	bool fine;
	if (size == sizeof(uint32_t))
		fine = parquet_decode_dictionary32(indexes, width, count, data->dictionary, data->dictionary_count, out);
	else if (size == sizeof(uint64_t))
		fine = parquet_decode_dictionary64(indexes, width, count, data->dictionary, data->dictionary_count, out);
	else
		fine = parquet_decode_dictionary_bytes(indexes, width, count, data->dictionary, data->dictionary_count, out);
	return fine ? 0 : parquet_chunk_corrupt(reader, "dictionary indexes are malformed or out of range");
}

static int decode_rle_booleans(struct parquet_chunk_reader *reader, struct bytes input, size_t count, uint8_t *out)
{
	uint32_t len;
	if (count == 0)
		return 0;
	if (input.len < 4)
		return parquet_chunk_corrupt(reader, "a page is too short");
	memcpy(&len, input.data, 4);
	int r = reserve_words(reader, count);
	if (r < 0)
		return r;
	if (len > input.len - 4 || !parquet_decode_hybrid((struct bytes){input.data + 4, len}, 1, count, reader->file->words))
		return parquet_chunk_corrupt(reader, "booleans are malformed");
	for (size_t i = 0; i < count; i++)
		out[i] = (uint8_t)reader->file->words[i];
	return 0;
}

static int decode_values(struct parquet_chunk_reader *reader, int encoding, struct bytes input, size_t count, void *out)
{
	enum parquet_type type = reader->schema->column.type;
	if (encoding == ENCODING_PLAIN)
		return reader->codes ? parquet_codes_plain(reader, input, count, out) : decode_plain(reader, input, count, out);
	if (encoding == ENCODING_RLE_DICTIONARY || encoding == ENCODING_PLAIN_DICTIONARY)
		return decode_dictionary(reader, input, count, out);
	if (encoding == ENCODING_RLE && type == PARQUET_BOOLEAN)
		return decode_rle_booleans(reader, input, count, out);
	if (encoding != ENCODING_DELTA_BINARY_PACKED || (type != PARQUET_INT32 && type != PARQUET_INT64))
		return unsupported_encoding(reader, encoding);
	bool fine =
		type == PARQUET_INT32 ? parquet_decode_delta32(input, count, out) : parquet_decode_delta64(input, count, out);
	return fine ? 0 : parquet_chunk_corrupt(reader, "delta-packed values are malformed");
}

/* ---- pages ---- */

/* Decodes definition levels of `count` rows; counts those that have a value. */
static int decode_levels(struct parquet_chunk_reader *reader, struct bytes input, size_t count, size_t *ret_values)
{
	uint8_t *present = reader->data->present_buffer + reader->done;
	if (!parquet_decode_levels(input, reader->schema->max_definition, count, present, ret_values))
		return parquet_chunk_corrupt(reader, "definition levels are malformed or out of range");
	return 0;
}

/* Moves `values` dense values to the rows that have one, from the end so that nothing is overwritten; the others get `empty`
 * in every byte. */
static inline __attribute__((always_inline)) void spread_by(uint8_t *at, size_t size, const uint8_t *present, size_t count,
							    size_t values, int empty)
{
	for (size_t i = count; i-- > values;) {
		if (present[i])
			memmove(at + i * size, at + --values * size, size);
		else
			memset(at + i * size, empty, size);
	}
}

static void spread(uint8_t *at, size_t size, const uint8_t *present, size_t count, size_t values, int empty)
{
	switch (size) {
	case 1: spread_by(at, 1, present, count, values, empty); break;
	case 4: spread_by(at, 4, present, count, values, empty); break;
	case 8: spread_by(at, 8, present, count, values, empty); break;
	default: spread_by(at, sizeof(struct bytes), present, count, values, empty);
	}
}

static int decode_rows(struct parquet_chunk_reader *reader, int encoding, struct bytes values, size_t count, size_t value_count)
{
	size_t size = out_size(reader);
	uint8_t *all = reader->codes ? (uint8_t *)reader->codes->codes : reader->data->any;
	uint8_t *out = all + reader->done * size;
	int r = decode_values(reader, encoding, values, value_count, out);
	if (r < 0)
		return r;
	if (value_count < count)
		spread(out, size, reader->data->present_buffer + reader->done, count, value_count, reader->codes ? 0xff : 0);
	reader->data->null_count += count - value_count;
	reader->done += count;
	return 0;
}

/* Where the strings of a page have to stay. */
static struct arena *kept_in(struct parquet_chunk_reader *reader, const struct parquet_page *page)
{
	return is_bytes(reader) && !reader->codes && page->encoding == ENCODING_PLAIN ? &reader->data->storage : NULL;
}

static int decode_page_v1(struct parquet_chunk_reader *reader, const struct parquet_page *page, struct bytes body)
{
	struct bytes rest;
	size_t count = (size_t)page->value_count, values = count;
	int r = unpack_page(reader, page, body, 0, reader->chunk->codec != CODEC_UNCOMPRESSED, kept_in(reader, page), &rest);
	if (r < 0)
		return r;
	if (reader->schema->max_definition) {
		uint32_t len;
		if (page->definition_encoding != ENCODING_RLE)
			return unsupported_encoding(reader, page->definition_encoding);
		if (rest.len < 4)
			return parquet_chunk_corrupt(reader, "a page is too short");
		memcpy(&len, rest.data, 4);
		if (len > rest.len - 4)
			return parquet_chunk_corrupt(reader, "definition levels extend past the end of their page");
		r = decode_levels(reader, (struct bytes){rest.data + 4, len}, count, &values);
		if (r < 0)
			return r;
		rest = (struct bytes){rest.data + 4 + len, rest.len - 4 - len};
	}
	return decode_rows(reader, page->encoding, rest, count, values);
}

static int decode_page_v2(struct parquet_chunk_reader *reader, const struct parquet_page *page, struct bytes body)
{
	struct bytes rest;
	size_t count = (size_t)page->value_count, values = count;
	if (page->definition_size < 0 || page->repetition_size < 0 || page->row_count != page->value_count)
		return parquet_chunk_corrupt(reader, "a page's levels contradict its schema");
	/* Repetition levels mean nothing here, but some writers leave a few. */
	size_t skipped = (size_t)page->repetition_size, plain = skipped + (size_t)page->definition_size;
	bool compressed = page->is_compressed && reader->chunk->codec != CODEC_UNCOMPRESSED;
	int r = unpack_page(reader, page, body, plain, compressed, kept_in(reader, page), &rest);
	if (r < 0)
		return r;
	if (reader->schema->max_definition) {
		r = decode_levels(reader, (struct bytes){rest.data + skipped, plain - skipped}, count, &values);
		if (r < 0)
			return r;
	} else if (plain > skipped) {
		return parquet_chunk_corrupt(reader, "a required column has definition levels");
	}
	return decode_rows(reader, page->encoding, (struct bytes){rest.data + plain, rest.len - plain}, count, values);
}

/* Makes data->dictionary out of a page's values. */
static int keep_dictionary(struct parquet_chunk_reader *reader, struct bytes values, size_t count)
{
	struct parquet_data *data = reader->data;
	size_t size = parquet_type_size(reader->schema->column.type), need = is_bytes(reader) ? 1 : size;
	/* Each value takes some bytes of the page (strings of no length have their 4): nobody gets memory for a mere number. */
	if (count > values.len / need)
		return parquet_chunk_corrupt(reader, "the dictionary is shorter than its header declares");
	if (count * size > reader->file->memory_max)
		return parquet_chunk_too_large(reader);
	if (grow(&data->dictionary, &data->dictionary_size, count * size) < 0)
		return error_nomem(reader->err);
	data->dictionary_count = count;
	if (is_bytes(reader))
		return parquet_decode_plain_bytes(reader, values, count, data->dictionary);
	if (count)
		memcpy(data->dictionary, values.data, count * size);
	return 0;
}

static int decode_dictionary_page(struct parquet_chunk_reader *reader, const struct parquet_page *page, struct bytes body)
{
	struct parquet_data *data = reader->data;
	struct bytes values;
	if (data->dictionary_file || reader->done)
		return parquet_chunk_corrupt(reader, "a dictionary page that is not the first page");
	if (page->encoding != ENCODING_PLAIN && page->encoding != ENCODING_PLAIN_DICTIONARY)
		return unsupported_encoding(reader, page->encoding);
	int r = unpack_page(reader, page, body, 0, reader->chunk->codec != CODEC_UNCOMPRESSED,
			    is_bytes(reader) ? reader->dictionary_arena : NULL, &values);
	if (r == 0)
		r = keep_dictionary(reader, values, (size_t)page->value_count);
	if (r == 0 && reader->codes)
		r = parquet_codes_dictionary(reader);
	if (r < 0)
		return r;
	data->dictionary_file = reader->file->serial;
	data->dictionary_group = reader->group;
	data->dictionary_column = reader->column;
	return 0;
}

static int decode_page(struct parquet_chunk_reader *reader, const struct parquet_page *page, struct bytes body)
{
	if (PARQUET_CHECKSUMS_MATTER && reader->check_crc && page->has_crc &&
	    libdeflate_crc32(0, body.data, body.len) != page->crc)
		return parquet_chunk_corrupt(reader, "a page does not match its CRC");
	if (page->type == PAGE_INDEX)
		return 0;
	if (page->type == PAGE_DICTIONARY)
		return decode_dictionary_page(reader, page, body);
	if ((size_t)page->value_count > reader->data->count - reader->done)
		return parquet_chunk_corrupt(reader, "its pages hold more values than the row group has rows");
	return page->type == PAGE_DATA ? decode_page_v1(reader, page, body) : decode_page_v2(reader, page, body);
}

/* How long the page is that has that hash of the chunk, as far as it is known from elsewhere; else what its header says. */
static size_t known_length(const struct parquet_chunk_reader *reader, size_t hash, size_t len, size_t most)
{
	const struct parquet_group_index *index = parquet_group_index(reader->file, reader->group);
	if (!index->page_count)
		return len;
	const struct parquet_column_pages *pages = &index->columns[reader->column];
	size_t dictionary = (size_t)(pages->pages[0].offset - parquet_chunk_start(reader->chunk));
	if (dictionary && hash-- == 0)
		len = dictionary;
	else if (hash < pages->count)
		len = (size_t)pages->pages[hash].size;
	return len < most ? len : most;
}

/* Decodes the page at the start of `bytes`, which begin at byte `offset` of the file. `hash` is which of the chunk's hashes it
 * has, if the chunk has any. A header that makes no sense is a wrong checksum there, only found sooner. */
static int decode_next(struct parquet_chunk_reader *reader, struct bytes bytes, uint64_t offset, size_t hash, size_t *ret_used)
{
	struct parquet_page page;
	size_t header_len;
	bool hashed = reader->chunk->page_hashes.len > 0;
	const char *bad = parquet_page_read(bytes, &page, &header_len);
	if (!bad && (size_t)page.size_compressed > bytes.len - header_len)
		bad = "it extends past the end of its chunk";
	size_t len = bad ? bytes.len : header_len + (size_t)page.size_compressed;
	if (hashed && ((bad && PARQUET_CHECKSUMS_MATTER) ||
		       !parquet_hash_matches(reader->chunk, hash, (struct bytes){bytes.data, len}))) {
		size_t known = known_length(reader, hash, len, bytes.len);
		if (!parquet_correct_page(reader->file, reader->chunk, hash, offset, (struct bytes){bytes.data, known}))
			return parquet_chunk_checksum_fault(reader, offset, offset + len);
		bad = parquet_page_read(bytes, &page, &header_len);
		len = known;
		if (!bad && header_len + (size_t)page.size_compressed != len)
			bad = "its length is wrong";
	}
	if (bad)
		return error_set(reader->err, -EBADMSG, "%s: column %s, row group %zu: page header: %s", reader->file->name,
				 reader->schema->column.name, reader->group, bad);
	*ret_used = len;
	return decode_page(reader, &page, (struct bytes){bytes.data + header_len, (size_t)page.size_compressed});
}

/* ---- chunks ---- */

static int read_bytes(struct parquet_chunk_reader *reader, uint64_t offset, size_t len, struct bytes *ret)
{
	struct parquet_file *file = reader->file;
	buffer_clear(&file->chunk);
	int r = buffer_reserve(&file->chunk, len ? len : 1);
	if (r < 0)
		return r == -E2BIG ? parquet_chunk_too_large(reader) : error_nomem(reader->err);
	*ret = (struct bytes){file->chunk.data, len};
	return parquet_read_at(file, offset, file->chunk.data, len, reader->err);
}

int parquet_chunk_reader_open(struct parquet_file *file, size_t group, size_t column, struct parquet_data *data,
			      struct parquet_chunk_reader *ret, struct error *err)
{
	assert(group < file->metadata.group_count && column < file->metadata.column_count);
	*ret = (struct parquet_chunk_reader){
		.file = file,
		.schema = &file->metadata.columns[column],
		.chunk = parquet_chunk_at(&file->metadata, group, column),
		.group = group,
		.column = column,
		.data = data,
		.dictionary_arena = &data->storage,
		.err = err,
	};
	ret->check_crc = !ret->chunk->has_hash && !ret->chunk->page_hashes.len;
	if (ret->schema->repeated)
		return error_set(err, -ENOTSUP, "repeated values are not supported (column %s of %s)", ret->schema->column.name,
				 file->name);
	if (ret->chunk->value_count != file->metadata.groups[group].rows)
		return parquet_chunk_corrupt(ret, "the number of values is not the number of rows");
	if (!parquet_chunk_is_inside(file, ret->chunk))
		return parquet_chunk_corrupt(ret, "lies outside of the file");
	return 0;
}

/* All pages one after the other. A chunk whose pages are hashed has nothing but them, as many as there are hashes. */
static int decode_pages(struct parquet_chunk_reader *reader, struct bytes bytes, uint64_t offset)
{
	const struct parquet_chunk *chunk = reader->chunk;
	bool hashed = chunk->page_hashes.len > 0;
	size_t at = 0, pages = 0;
	while ((hashed || reader->done < reader->data->count) && at < bytes.len) {
		size_t used;
		int r = decode_next(reader, (struct bytes){bytes.data + at, bytes.len - at}, offset + at, pages++, &used);
		if (r < 0)
			return r;
		at += used;
	}
	if (reader->done < reader->data->count)
		return parquet_chunk_corrupt(reader, "its pages hold fewer values than the row group has rows");
	if (hashed && chunk->page_hashes.len != (pages + 1 + (chunk->column_index_length > 0)) * PARQUET_HASH_DIGITS)
		return parquet_chunk_corrupt(reader, "its pages and checksums differ in number");
	return 0;
}

int parquet_chunk_decode(struct parquet_chunk_reader *reader)
{
	const struct parquet_chunk *chunk = reader->chunk;
	uint64_t start = (uint64_t)parquet_chunk_start(chunk);
	struct bytes bytes;
	reader->data->dictionary_file = 0;
	int r = prepare_output(reader, parquet_group_rows(reader->file, reader->group));
	if (r == 0)
		r = read_bytes(reader, start, (size_t)chunk->size_compressed, &bytes);
	if (r < 0)
		return r;
	if (PARQUET_CHECKSUMS_MATTER && chunk->has_hash && hash64(bytes.data, bytes.len) != chunk->hash)
		return parquet_chunk_checksum_fault(reader, start, start + bytes.len);
	return decode_pages(reader, bytes, start);
}

static int finish(struct parquet_chunk_reader *reader, int r)
{
	struct parquet_data *data = reader->data;
	if (r == 0 && data->null_count)
		data->present = data->present_buffer;
	if (r < 0)
		data->dictionary_file = 0;
	return r;
}

int parquet_read(struct parquet_file *file, size_t group, size_t column, struct parquet_data *ret, struct error *err)
{
	struct parquet_chunk_reader reader;
	int r = parquet_chunk_reader_open(file, group, column, ret, &reader, err);
	if (r == 0)
		r = finish(&reader, parquet_chunk_decode(&reader));
	/* The strings are in `storage`, which whoever has them may take away. */
	if (is_bytes(&reader))
		ret->dictionary_file = 0;
	return r;
}

/* ---- some pages ---- */

static bool has_this_dictionary(const struct parquet_chunk_reader *reader)
{
	const struct parquet_data *data = reader->data;
	return data->dictionary_file == reader->file->serial && data->dictionary_group == reader->group &&
	       data->dictionary_column == reader->column;
}

/* The dictionary page is what lies before the first data page. */
static int read_dictionary(struct parquet_chunk_reader *reader, const struct parquet_column_pages *pages)
{
	struct parquet_data *data = reader->data;
	uint64_t start = (uint64_t)parquet_chunk_start(reader->chunk), end = (uint64_t)pages->pages[0].offset;
	struct bytes bytes;
	size_t used = 0;
	if (start == end || has_this_dictionary(reader))
		return 0;
	data->dictionary_file = 0;
	arena_release(&data->dictionary_storage);
	arena_init(&data->dictionary_storage, reader->file->memory_max);
	reader->dictionary_arena = &data->dictionary_storage;
	int r = read_bytes(reader, start, end - start, &bytes);
	if (r == 0)
		r = decode_next(reader, bytes, start, 0, &used);
	if (r == 0 && (used != bytes.len || !data->dictionary_file))
		return parquet_chunk_corrupt(reader, "unexpected data before its pages");
	return r;
}

/* What is left of a page that cannot be read: `rows` rows without values. */
static void lose_page(struct parquet_chunk_reader *reader, size_t page, size_t at, size_t rows, size_t nulls)
{
	struct parquet_data *data = reader->data;
	size_t size = out_size(reader);
	reader->bad[page - reader->bad_first] = 1;
	reader->bad_count++;
	reader->done = at + rows;
	data->null_count = nulls;
	if (rows)
		memset((uint8_t *)data->any + at * size, 0, rows * size);
	if (!reader->schema->max_definition)
		return;
	memset(data->present_buffer + at, 0, rows);
	data->null_count += rows;
}

/* Pages [first, behind), which lie one behind the other; bytes begin with the first of them. */
static int decode_run(struct parquet_chunk_reader *reader, const struct parquet_column_pages *pages, size_t first,
		      size_t behind, struct bytes bytes)
{
	size_t hash = parquet_chunk_start(reader->chunk) < pages->pages[0].offset, at = 0;
	size_t group_rows = parquet_group_rows(reader->file, reader->group);
	for (size_t i = first; i < behind; i++) {
		const struct parquet_location *page = &pages->pages[i];
		size_t last = i + 1 < pages->count ? (size_t)page[1].first_row : group_rows, used;
		size_t before = reader->done, nulls = reader->data->null_count, room = reader->data->count - before;
		/* Where indexes are damaged, the pages of one column need not have the rows that those of the first one have.
		 */
		if (last < (size_t)page->first_row || last - (size_t)page->first_row > room)
			return parquet_chunk_corrupt(reader, "its pages do not have the rows of the row group");
		size_t wanted = before + last - (size_t)page->first_row;
		struct bytes one = {bytes.data + at, (size_t)page->size};
		int r = decode_next(reader, one, (uint64_t)page->offset, hash + i, &used);
		if (r == 0 && (used != one.len || reader->done != wanted))
			r = parquet_chunk_corrupt(reader, "a page does not match the offset index");
		if (r == -EBADMSG && reader->bad)
			lose_page(reader, i, before, wanted - before, nulls);
		else if (r < 0)
			return r;
		at += one.len;
	}
	return 0;
}

static int read_runs(struct parquet_chunk_reader *reader, const struct parquet_column_pages *pages, size_t first, size_t count)
{
	size_t behind = first + count;
	while (first < behind) {
		const struct parquet_location *start = &pages->pages[first];
		size_t end = first + 1;
		size_t len = (size_t)start->size;
		for (; end < behind && pages->pages[end].offset == start->offset + (int64_t)len; end++)
			len += (size_t)pages->pages[end].size;
		struct bytes bytes;
		int r = read_bytes(reader, (uint64_t)start->offset, len, &bytes);
		if (r == 0)
			r = decode_run(reader, pages, first, end, bytes);
		if (r < 0)
			return r;
		first = end;
	}
	return 0;
}

/* A row group that is one page. */
static int read_only_page(struct parquet_file *file, size_t group, size_t column, struct parquet_data *ret, uint8_t *bad,
			  size_t *ret_bad, struct error *err)
{
	struct parquet_chunk_reader reader;
	int r = parquet_read(file, group, column, ret, err);
	if (r != -EBADMSG || !bad)
		return r;
	/* The chunk's place may be what is wrong; that does not matter here. */
	struct error own = {0};
	size_t rows = parquet_group_rows(file, group);
	parquet_chunk_reader_open(file, group, column, ret, &reader, &own);
	reader.err = err;
	reader.bad = bad;
	r = prepare_output(&reader, rows);
	if (r < 0)
		return r;
	lose_page(&reader, 0, 0, rows, 0);
	*ret_bad = reader.bad_count;
	return finish(&reader, 0);
}

static int read_pages(struct parquet_file *file, size_t group, size_t column, size_t first, size_t count,
		      struct parquet_data *ret, uint8_t *bad, size_t *ret_bad, struct error *err)
{
	struct parquet_chunk_reader reader;
	const struct parquet_group_index *index = parquet_group_index(file, group);
	assert(first <= parquet_page_count(file, group) && count <= parquet_page_count(file, group) - first);
	int r = file->around_indexes && index->fault == -EBADMSG ? 0 : parquet_group_index_fault(index, err);
	if (r < 0)
		return r;
	if (!index->page_count && count)
		return read_only_page(file, group, column, ret, bad, ret_bad, err);
	r = parquet_chunk_reader_open(file, group, column, ret, &reader, err);
	size_t rows = parquet_page_first_row(file, group, first + count) - parquet_page_first_row(file, group, first);
	if (r == 0)
		r = prepare_output(&reader, rows);
	if (r < 0 || !count)
		return r;
	if (!has_this_dictionary(&reader))
		ret->dictionary_file = 0;
	reader.bad = bad;
	reader.bad_first = first;
	r = read_dictionary(&reader, &index->columns[column]);
	/* Pages that need it will say so. */
	if (r == -EBADMSG && bad) {
		ret->dictionary_file = 0;
		r = 0;
	}
	if (r == 0)
		r = read_runs(&reader, &index->columns[column], first, count);
	if (r == 0 && reader.done != rows)
		r = parquet_chunk_corrupt(&reader, "its pages do not have the rows of the row group");
	*ret_bad = reader.bad_count;
	return finish(&reader, r);
}

int parquet_read_pages(struct parquet_file *file, size_t group, size_t column, size_t first, size_t count,
		       struct parquet_data *ret, struct error *err)
{
	size_t none;
	return read_pages(file, group, column, first, count, ret, NULL, &none, err);
}

int parquet_read_around(struct parquet_file *file, size_t group, size_t column, size_t first, size_t count,
			struct parquet_data *ret, uint8_t *bad, size_t *ret_bad, struct error *err)
{
	*ret_bad = 0;
	return read_pages(file, group, column, first, count, ret, bad, ret_bad, err);
}
