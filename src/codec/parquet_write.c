/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Parquet writer.
 *
 *   "PAR1"
 *   row group:  column chunk: [dictionary page] data page...      a chunk is built in memory, hashed, written
 *               column chunk ...
 *   footer (Thrift), its length in 4 bytes, "PAR1"
 *
 * A chunk's encoding is chosen once, for the whole chunk: a dictionary if it stays small beside the data, else delta for
 * integers and PLAIN for the rest. Engines that switch in the middle of a chunk save little on row groups of this size, and pay
 * with readers that get it wrong. Pages are cut by rows and, for strings, by bytes.
 *
 * The row group comes as arrays that the caller owns, so the writer's own memory is one chunk: its dictionary, its indexes, the
 * page being built and the compressed pages.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/map.h"
#include "codec/parquet_int.h"

#define PAGE_ROWS_MAX	      (64 * 1024)
#define PAGE_BYTES	      (1024 * 1024)
#define DICTIONARY_VALUES_MAX (64 * 1024)
#define DICTIONARY_BYTES_MAX  (1024 * 1024)
#define STATISTICS_BYTES_MAX  256
#define ZSTD_LEVEL	      3

struct dictionary {
	struct index32 index;
	uint64_t *words; /* keys of fixed-size types */
	struct bytes *strings;
	size_t count, word_capacity, string_capacity;
	uint32_t *indexes; /* one a dense value */
	size_t index_capacity;
};

struct parquet_writer {
	int fd;
	char *path;
	struct parquet_metadata metadata;
	uint32_t *sorted_by;
	size_t sorted_by_count;
	uint64_t offset;
	ZSTD_CCtx *zstd;
	struct arena statistics; /* what the footer refers to */
	struct buffer chunk, page, levels;
	struct dictionary dictionary;
	void *dense; /* values without nulls */
	size_t dense_size;
	uint32_t *widened;
	size_t widened_capacity;
};

/* The values of a chunk that are there. */
struct dense {
	struct parquet_values values;
	size_t count;
};

/* ---- opening ---- */

static int copy_schema(struct parquet_writer *writer, const struct parquet_write_options *options)
{
	struct parquet_metadata *metadata = &writer->metadata;
	metadata->columns = mem_zalloc_array(options->column_count, sizeof(*metadata->columns));
	metadata->key_values = mem_zalloc_array(options->key_value_count, sizeof(*metadata->key_values));
	writer->sorted_by = mem_alloc_array(options->sorted_by_count, sizeof(*writer->sorted_by));
	if (!metadata->columns || !metadata->key_values || !writer->sorted_by)
		return -ENOMEM;
	for (size_t i = 0; i < options->column_count; i++) {
		struct parquet_column column = options->columns[i];
		assert(column.type != PARQUET_INT96 && (column.type != PARQUET_FIXED || column.type_length > 0));
		column.name = mem_strdup(column.name);
		if (!column.name)
			return -ENOMEM;
		metadata->columns[i].column = column;
		metadata->column_count++;
	}
	for (size_t i = 0; i < options->key_value_count; i++) {
		metadata->key_value_count++;
		metadata->key_values[i].key = mem_strdup(options->key_values[i].key);
		metadata->key_values[i].value = mem_strdup(options->key_values[i].value);
		if (!metadata->key_values[i].key || !metadata->key_values[i].value)
			return -ENOMEM;
	}
	for (size_t i = 0; i < options->sorted_by_count; i++)
		writer->sorted_by[i] = options->sorted_by[i];
	writer->sorted_by_count = options->sorted_by_count;
	return 0;
}

static int write_out(struct parquet_writer *writer, const void *data, size_t len, struct error *err)
{
	int r = io_write(writer->fd, data, len, writer->path, err);
	if (r == 0)
		writer->offset += len;
	return r;
}

int parquet_writer_open(const char *path, const struct parquet_write_options *options, struct parquet_writer **ret,
			struct error *err)
{
	assert(options->column_count > 0);
	struct parquet_writer *writer = mem_zalloc(sizeof(*writer));
	if (!writer)
		return error_nomem(err);
	writer->fd = -1;
	arena_init(&writer->statistics, SIZE_MAX);
	buffer_init(&writer->chunk, SIZE_MAX);
	buffer_init(&writer->page, PARQUET_PAGE_MAX);
	buffer_init(&writer->levels, PARQUET_PAGE_MAX);
	writer->path = mem_strdup(path);
	writer->zstd = ZSTD_createCCtx();
	int r = writer->path && writer->zstd ? copy_schema(writer, options) : -ENOMEM;
	if (r < 0) {
		error_nomem(err);
	} else {
		ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
		r = writer->fd = io_open(path, O_WRONLY | O_CREAT | O_EXCL, options->mode ? options->mode : 0640, err);
	}
	if (r >= 0)
		r = write_out(writer, "PAR1", 4, err);
	if (r < 0) {
		parquet_writer_free(writer);
		return r;
	}
	*ret = writer;
	return 0;
}

struct parquet_writer *parquet_writer_free(struct parquet_writer *writer)
{
	if (!writer)
		return NULL;
	io_close(writer->fd);
	mem_free(writer->path);
	parquet_metadata_release(&writer->metadata);
	mem_free(writer->sorted_by);
	ZSTD_freeCCtx(writer->zstd);
	arena_release(&writer->statistics);
	buffer_release(&writer->chunk);
	buffer_release(&writer->page);
	buffer_release(&writer->levels);
	index32_release(&writer->dictionary.index);
	mem_free(writer->dictionary.words);
	mem_free(writer->dictionary.strings);
	mem_free(writer->dictionary.indexes);
	mem_free(writer->dense);
	mem_free(writer->widened);
	mem_free(writer);
	return NULL;
}

/* ---- nulls out ---- */

static int gather_present(struct parquet_writer *writer, const struct parquet_column *column,
			  const struct parquet_values *values, size_t rows, struct dense *ret)
{
	size_t size = parquet_type_size(column->type), count = 0;
	*ret = (struct dense){.values = *values, .count = rows};
	if (!column->optional || !values->present)
		return 0;
	for (size_t i = 0; i < rows; i++)
		count += values->present[i] != 0;
	ret->count = count;
	if (count == rows)
		return 0;
	if (count * size > writer->dense_size) {
		void *grown = mem_realloc_array(writer->dense, rows, size);
		if (!grown)
			return -ENOMEM;
		writer->dense = grown;
		writer->dense_size = rows * size;
	}
	uint8_t *to = writer->dense;
	const uint8_t *from = values->booleans;
	for (size_t i = 0; i < rows; i++) {
		if (values->present[i]) {
			memcpy(to, from + i * size, size);
			to += size;
		}
	}
	ret->values.booleans = writer->dense;
	return 0;
}

/* ---- statistics ---- */

#define DEFINE_RANGE(name, ctype, member)                                                                                      \
	static void range_##name(const struct dense *dense, void *ret_min, void *ret_max)                                      \
	{                                                                                                                      \
		const ctype *values = (const ctype *)dense->values.member;                                                     \
		ctype least = values[0], most = values[0];                                                                     \
		for (size_t i = 1; i < dense->count; i++) {                                                                    \
			least = values[i] < least ? values[i] : least;                                                         \
			most = values[i] > most ? values[i] : most;                                                            \
		}                                                                                                              \
		memcpy(ret_min, &least, sizeof(least));                                                                        \
		memcpy(ret_max, &most, sizeof(most));                                                                          \
	}
DEFINE_RANGE(boolean, uint8_t, booleans)
DEFINE_RANGE(i32, int32_t, i32)
DEFINE_RANGE(u32, uint32_t, i32)
DEFINE_RANGE(i64, int64_t, i64)
DEFINE_RANGE(u64, uint64_t, i64)

/* No range when there is a NaN, and zeros as the specification wants them: min -0.0, max +0.0. */
static bool range_f64(const struct dense *dense, double *ret_min, double *ret_max)
{
	double least = dense->values.f64[0], most = least;
	for (size_t i = 0; i < dense->count; i++) {
		double value = dense->values.f64[i];
		if (value != value)
			return false;
		least = value < least ? value : least;
		most = value > most ? value : most;
	}
	*ret_min = least == 0 ? -0.0 : least;
	*ret_max = most == 0 ? 0.0 : most;
	return true;
}

static bool range_f32(const struct dense *dense, float *ret_min, float *ret_max)
{
	float least = dense->values.f32[0], most = least;
	for (size_t i = 0; i < dense->count; i++) {
		float value = dense->values.f32[i];
		if (value != value)
			return false;
		least = value < least ? value : least;
		most = value > most ? value : most;
	}
	*ret_min = least == 0 ? -0.0f : least;
	*ret_max = most == 0 ? 0.0f : most;
	return true;
}

static int keep_statistics(struct parquet_writer *writer, const void *min, size_t min_len, const void *max, size_t max_len,
			   struct parquet_statistics *ret)
{
	char *kept_min = arena_strndup(&writer->statistics, min, min_len);
	char *kept_max = arena_strndup(&writer->statistics, max, max_len);
	if (!kept_min || !kept_max)
		return -ENOMEM;
	ret->min = (struct bytes){(uint8_t *)kept_min, min_len};
	ret->max = (struct bytes){(uint8_t *)kept_max, max_len};
	ret->has_range = true;
	return 0;
}

static int range_of_bytes(struct parquet_writer *writer, const struct dense *dense, struct parquet_statistics *ret)
{
	const struct bytes *values = dense->values.bytes;
	size_t least = 0, most = 0;
	for (size_t i = 1; i < dense->count; i++) {
		if (bytes_compare(values[i], values[least]) < 0)
			least = i;
		if (bytes_compare(values[i], values[most]) > 0)
			most = i;
	}
	struct bytes min = values[least], max = values[most];
	if (min.len > STATISTICS_BYTES_MAX || max.len > STATISTICS_BYTES_MAX)
		return 0;
	return keep_statistics(writer, min.data, min.len, max.data, max.len, ret);
}

static int compute_statistics(struct parquet_writer *writer, const struct parquet_column *column, const struct dense *dense,
			      size_t rows, struct parquet_statistics *ret)
{
	uint8_t min[8], max[8];
	*ret = (struct parquet_statistics){.has_null_count = true, .null_count = (int64_t)(rows - dense->count)};
	if (dense->count == 0)
		return 0;
	switch (column->type) {
	case PARQUET_BOOLEAN: range_boolean(dense, min, max); return keep_statistics(writer, min, 1, max, 1, ret);
	case PARQUET_INT32:
		(parquet_is_unsigned(column) ? range_u32 : range_i32)(dense, min, max);
		return keep_statistics(writer, min, 4, max, 4, ret);
	case PARQUET_INT64:
		(parquet_is_unsigned(column) ? range_u64 : range_i64)(dense, min, max);
		return keep_statistics(writer, min, 8, max, 8, ret);
	case PARQUET_FLOAT: {
		float least, most;
		return range_f32(dense, &least, &most) ? keep_statistics(writer, &least, 4, &most, 4, ret) : 0;
	}
	case PARQUET_DOUBLE: {
		double least, most;
		return range_f64(dense, &least, &most) ? keep_statistics(writer, &least, 8, &most, 8, ret) : 0;
	}
	default: return range_of_bytes(writer, dense, ret);
	}
}

/* ---- dictionary ---- */

static bool is_bytes_type(enum parquet_type type)
{
	return type == PARQUET_BYTE_ARRAY || type == PARQUET_FIXED;
}

static uint64_t word_at(const struct dense *dense, size_t size, size_t i)
{
	uint64_t word = 0;
	memcpy(&word, dense->values.booleans + i * size, size);
	return word;
}

/* Each returns 1 and the entry's index, 0 when the dictionary grows past its use, or -ENOMEM. */
static int add_word(struct dictionary *dictionary, uint64_t word, size_t max, uint32_t *ret)
{
	uint64_t hash = hash64_mix(word);
	uint32_t id;
	for (size_t at = index32_first(&dictionary->index, hash); index32_at(&dictionary->index, hash, &at, &id); at++) {
		if (dictionary->words[id] == word) {
			*ret = id;
			return 1;
		}
	}
	if (dictionary->count >= max)
		return 0;
	id = (uint32_t)dictionary->count;
	if (array_reserve(&dictionary->words, &dictionary->word_capacity, dictionary->count + 1, DICTIONARY_VALUES_MAX) < 0 ||
	    index32_add(&dictionary->index, hash, id) < 0)
		return -ENOMEM;
	dictionary->words[dictionary->count++] = word;
	*ret = id;
	return 1;
}

static int add_string(struct dictionary *dictionary, struct bytes text, size_t max, size_t *bytes, uint32_t *ret)
{
	uint64_t hash = hash64(text.data, text.len);
	uint32_t id;
	for (size_t at = index32_first(&dictionary->index, hash); index32_at(&dictionary->index, hash, &at, &id); at++) {
		if (bytes_equal(dictionary->strings[id], text)) {
			*ret = id;
			return 1;
		}
	}
	*bytes += text.len + 4;
	if (dictionary->count >= max || *bytes > DICTIONARY_BYTES_MAX)
		return 0;
	id = (uint32_t)dictionary->count;
	if (array_reserve(&dictionary->strings, &dictionary->string_capacity, dictionary->count + 1, DICTIONARY_VALUES_MAX) <
		    0 ||
	    index32_add(&dictionary->index, hash, id) < 0)
		return -ENOMEM;
	dictionary->strings[dictionary->count++] = text;
	*ret = id;
	return 1;
}

/* 1 = built, 0 = does not pay. */
static int build_dictionary(struct dictionary *dictionary, const struct parquet_column *column, const struct dense *dense)
{
	size_t size = parquet_type_size(column->type), bytes = 0;
	size_t max = dense->count / 2 + 1;
	if (column->layout != PARQUET_AUTO || column->type == PARQUET_BOOLEAN || dense->count == 0)
		return 0;
	if (max > DICTIONARY_VALUES_MAX)
		max = DICTIONARY_VALUES_MAX;
	if (array_reserve(&dictionary->indexes, &dictionary->index_capacity, dense->count, PARQUET_GROUP_ROWS_MAX) < 0)
		return -ENOMEM;
	index32_clear(&dictionary->index);
	dictionary->count = 0;
	for (size_t i = 0; i < dense->count; i++) {
		uint32_t *at = &dictionary->indexes[i];
		int r;
		if (is_bytes_type(column->type))
			r = add_string(dictionary, dense->values.bytes[i], max, &bytes, at);
		else
			r = add_word(dictionary, word_at(dense, size, i), max, at);
		if (r <= 0)
			return r;
	}
	return 1;
}

/* ---- values ---- */

static int put_plain_bytes(const struct parquet_column *column, const struct bytes *values, size_t count, struct buffer *out)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++) {
		uint32_t len = (uint32_t)values[i].len;
		if (values[i].len > INT32_MAX)
			return -E2BIG;
		assert(column->type != PARQUET_FIXED || values[i].len == column->type_length);
		if (column->type == PARQUET_BYTE_ARRAY)
			r = buffer_append(out, &len, 4);
		if (r == 0)
			r = buffer_append(out, values[i].data, values[i].len);
	}
	return r;
}

static int put_plain(const struct parquet_column *column, const struct dense *dense, size_t from, size_t count,
		     struct buffer *out)
{
	size_t size = parquet_type_size(column->type);
	if (is_bytes_type(column->type))
		return put_plain_bytes(column, dense->values.bytes + from, count, out);
	if (column->type == PARQUET_BOOLEAN)
		return parquet_encode_booleans(dense->values.booleans + from, count, out);
	return buffer_append(out, dense->values.booleans + from * size, count * size);
}

static int put_values(struct parquet_writer *writer, const struct parquet_column *column, int encoding,
		      const struct dense *dense, size_t from, size_t count, struct buffer *out)
{
	if (encoding == ENCODING_RLE_DICTIONARY) {
		unsigned width = parquet_bit_width(writer->dictionary.count - 1);
		/* Some readers refuse a width of 0. */
		width = width ? width : 1;
		int r = buffer_append_byte(out, (uint8_t)width);
		return r < 0 ? r : parquet_encode_hybrid(writer->dictionary.indexes + from, count, width, out);
	}
	if (encoding == ENCODING_DELTA_BINARY_PACKED)
		return column->type == PARQUET_INT32 ? parquet_encode_delta32(dense->values.i32 + from, count, out)
						     : parquet_encode_delta64(dense->values.i64 + from, count, out);
	return put_plain(column, dense, from, count, out);
}

/* ---- pages ---- */

/* Compresses `body` and appends header and body to the chunk. */
static int put_page(struct parquet_writer *writer, struct parquet_page *page, const struct buffer *body,
		    struct parquet_chunk *chunk, struct error *err)
{
	size_t bound = ZSTD_compressBound(body->len), header_room = 64;
	struct buffer *out = &writer->chunk;
	if (body->len > INT32_MAX || bound > INT32_MAX)
		return error_set(err, -E2BIG, "%s: a page of %zu bytes is too long for the format", writer->path, body->len);
	if (buffer_reserve(out, bound + header_room) < 0)
		return error_nomem(err);
	/* The body first, behind room for the header, which holds the body's size and CRC. */
	uint8_t *at = out->data + out->len + header_room;
	size_t len = ZSTD_compress2(writer->zstd, at, bound, body->data, body->len);
	if (ZSTD_isError(len))
		return error_set(err, -ENOMEM, "%s: cannot compress a page: %s", writer->path, ZSTD_getErrorName(len));
	page->size_uncompressed = (int32_t)body->len;
	page->size_compressed = (int32_t)len;
	page->crc = (uint32_t)crc32(0, at, (uInt)len);
	size_t start = out->len;
	if (parquet_page_write(page, out) < 0)
		return error_nomem(err);
	assert(out->len - start <= header_room);
	memmove(out->data + out->len, at, len);
	chunk->size_uncompressed += (int64_t)(out->len - start + body->len);
	out->len += len;
	return 0;
}

static int put_levels(struct parquet_writer *writer, const uint8_t *present, size_t from, size_t count, struct buffer *out)
{
	if (array_reserve(&writer->widened, &writer->widened_capacity, count, PARQUET_GROUP_ROWS_MAX) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		writer->widened[i] = present ? present[from + i] != 0 : 1;
	buffer_clear(&writer->levels);
	int r = parquet_encode_hybrid(writer->widened, count, 1, &writer->levels);
	uint32_t len = (uint32_t)writer->levels.len;
	if (r == 0)
		r = buffer_append(out, &len, 4);
	return r == 0 ? buffer_append(out, writer->levels.data, writer->levels.len) : r;
}

/* How many rows from `row` on go into the next page, and how many of them have values. */
static size_t rows_of_page(const struct parquet_column *column, const struct parquet_values *values, const struct dense *dense,
			   int encoding, size_t row, size_t rows, size_t dense_at, size_t *ret_values)
{
	size_t n = 0, taken = 0, bytes = 0;
	bool count_bytes = encoding == ENCODING_PLAIN && is_bytes_type(column->type);
	while (n < PAGE_ROWS_MAX && row + n < rows && bytes < PAGE_BYTES) {
		if (!column->optional || !values->present || values->present[row + n]) {
			if (count_bytes)
				bytes += dense->values.bytes[dense_at + taken].len + 4;
			taken++;
		}
		n++;
	}
	*ret_values = taken;
	return n;
}

static int put_data_pages(struct parquet_writer *writer, const struct parquet_column *column,
			  const struct parquet_values *values, const struct dense *dense, size_t rows, int encoding,
			  struct parquet_chunk *chunk, struct error *err)
{
	struct buffer *body = &writer->page;
	size_t dense_at = 0;
	for (size_t row = 0; row < rows;) {
		size_t taken, n = rows_of_page(column, values, dense, encoding, row, rows, dense_at, &taken);
		struct parquet_page page = {.type = PAGE_DATA, .value_count = (int32_t)n, .encoding = encoding};
		int r = 0;
		buffer_clear(body);
		if (column->optional)
			r = put_levels(writer, values->present, row, n, body);
		if (r == 0)
			r = put_values(writer, column, encoding, dense, dense_at, taken, body);
		if (r < 0)
			return error_set_errno(err, r, "%s: cannot encode a page of column %s", writer->path, column->name);
		r = put_page(writer, &page, body, chunk, err);
		if (r < 0)
			return r;
		row += n;
		dense_at += taken;
	}
	return 0;
}

static int put_dictionary_page(struct parquet_writer *writer, const struct parquet_column *column, struct parquet_chunk *chunk,
			       struct error *err)
{
	const struct dictionary *dictionary = &writer->dictionary;
	struct parquet_page page = {
		.type = PAGE_DICTIONARY, .value_count = (int32_t)dictionary->count, .encoding = ENCODING_PLAIN};
	size_t size = parquet_type_size(column->type);
	int r = 0;
	buffer_clear(&writer->page);
	if (is_bytes_type(column->type))
		r = put_plain_bytes(column, dictionary->strings, dictionary->count, &writer->page);
	for (size_t i = 0; r == 0 && i < dictionary->count && !is_bytes_type(column->type); i++)
		r = buffer_append(&writer->page, &dictionary->words[i], size);
	if (r < 0)
		return error_set_errno(err, r, "%s: cannot encode the dictionary of column %s", writer->path, column->name);
	return put_page(writer, &page, &writer->page, chunk, err);
}

/* ---- chunks and groups ---- */

static int choose_encoding(const struct parquet_column *column, int has_dictionary)
{
	if (has_dictionary)
		return ENCODING_RLE_DICTIONARY;
	if (column->layout != PARQUET_PLAIN && (column->type == PARQUET_INT32 || column->type == PARQUET_INT64))
		return ENCODING_DELTA_BINARY_PACKED;
	return ENCODING_PLAIN;
}

static int put_chunk(struct parquet_writer *writer, const struct parquet_column *column, const struct parquet_values *values,
		     size_t rows, struct parquet_chunk *ret, struct error *err)
{
	struct dense dense;
	*ret = (struct parquet_chunk){.codec = CODEC_ZSTD, .value_count = (int64_t)rows};
	if (gather_present(writer, column, values, rows, &dense) < 0 ||
	    compute_statistics(writer, column, &dense, rows, &ret->statistics) < 0)
		return error_nomem(err);
	int has_dictionary = build_dictionary(&writer->dictionary, column, &dense);
	if (has_dictionary < 0)
		return error_nomem(err);
	int r = 0, encoding = choose_encoding(column, has_dictionary);
	buffer_clear(&writer->chunk);
	ret->encodings = 1u << ENCODING_RLE | 1u << encoding;
	if (has_dictionary) {
		ret->encodings |= 1u << ENCODING_PLAIN;
		ret->dictionary_offset = (int64_t)writer->offset;
		r = put_dictionary_page(writer, column, ret, err);
	}
	ret->data_offset = (int64_t)(writer->offset + writer->chunk.len);
	if (r == 0)
		r = put_data_pages(writer, column, values, &dense, rows, encoding, ret, err);
	if (r < 0)
		return r;
	ret->size_compressed = (int64_t)writer->chunk.len;
	ret->has_hash = true;
	ret->hash = hash64(writer->chunk.data, writer->chunk.len);
	return write_out(writer, writer->chunk.data, writer->chunk.len, err);
}

int parquet_writer_group(struct parquet_writer *writer, const struct parquet_values *values, size_t rows, struct error *err)
{
	struct parquet_metadata *metadata = &writer->metadata;
	if (rows == 0)
		return 0;
	if (rows > PARQUET_GROUP_ROWS_MAX)
		return error_set(err, -E2BIG, "%s: a row group of %zu rows is too large", writer->path, rows);
	if (array_reserve(&metadata->groups, &metadata->group_capacity, metadata->group_count + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	struct parquet_group *group = &metadata->groups[metadata->group_count];
	*group = (struct parquet_group){.rows = (int64_t)rows};
	group->chunks = mem_zalloc_array(metadata->column_count, sizeof(*group->chunks));
	if (!group->chunks)
		return error_nomem(err);
	metadata->group_count++;
	metadata->rows += (int64_t)rows;
	for (size_t i = 0; i < metadata->column_count; i++) {
		int r = put_chunk(writer, &metadata->columns[i].column, &values[i], rows, &group->chunks[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

int parquet_writer_finish(struct parquet_writer *writer, struct parquet_written *ret, struct error *err)
{
	struct buffer *footer = &writer->chunk;
	buffer_clear(footer);
	int r = parquet_metadata_write(&writer->metadata, writer->sorted_by, writer->sorted_by_count, footer);
	uint32_t len = (uint32_t)footer->len;
	if (r == 0 && footer->len > PARQUET_FOOTER_MAX)
		return error_set(err, -E2BIG, "%s: the footer would be too long", writer->path);
	if (r == 0)
		r = buffer_append(footer, &len, 4);
	if (r == 0)
		r = buffer_append(footer, "PAR1", 4);
	if (r < 0)
		return error_nomem(err);
	r = write_out(writer, footer->data, footer->len, err);
	if (r == 0)
		r = io_sync(writer->fd, writer->path, err);
	if (r < 0)
		return r;
	*ret = (struct parquet_written){
		.size = writer->offset,
		.rows = (uint64_t)writer->metadata.rows,
		.footer_hash = hash64(footer->data, footer->len),
	};
	return 0;
}
