/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Parquet writer.
 *
 *   "PAR1"
 *   row group:  column chunk: [dictionary page] data page...      a chunk is built in memory, hashed, written
 *               column chunk ...
 *   page indexes, a row group after the other:  [column index] offset index of the first column, of the second ...
 *   footer (Thrift), its length in 4 bytes, "PAR1"
 *
 * All columns of a row group have their pages cut at the same rows, so that a reader that wants some rows reads the same pages
 * of every column. Indexes are kept until the end because a reader that plans over many row groups wants them side by side;
 * that of one row group are some hundred bytes a column.
 *
 * A chunk's encoding is chosen once, for the whole chunk: a dictionary if it comes out shorter, else delta for integers and
 * PLAIN for the rest. What is shorter before compression says little of what is behind it (times that change every ten rows: a
 * dictionary takes a fifth of delta before, and almost twice of it behind), so where it is not obvious some values of the chunk
 * are encoded and compressed both ways. Engines that switch in the middle of a chunk save little on row groups of this size,
 * and pay with readers that get it wrong. Its compression is chosen after the fact: pages that do not get shorter are left as
 * they are, which spares readers a pass (the format has one codec a chunk, so it goes by the chunk).
 *
 * The row group comes as arrays that the caller owns, so the writer's own memory is one chunk: its dictionary, its indexes, its
 * pages before and after compression; and the page indexes and statistics of all that has been written.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <string.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/io.h"
#include "codec/parquet_int.h"

#define PAGE_BYTES_MAX	     (4u * 1024 * 1024) /* of strings: where a page would have more, the group's pages get fewer rows */
#define STATISTICS_BYTES_MAX 256
#define ZSTD_LEVEL	     1
#define SHRINK_MIN_PERCENT   3
#define HEADER_MAX	     64

/* A page of the chunk at hand. The dictionary's, if there is one, comes first. */
struct page_work {
	size_t first_row, rows;
	size_t from, count; /* its values among those that are there */
	struct parquet_range range;
	size_t body, body_len;	   /* in `bodies` */
	size_t packed, packed_len; /* in `packed` */
	struct parquet_index_entry entry;
};

struct parquet_writer {
	int fd;
	char *path;
	struct parquet_metadata metadata;
	uint32_t *sorted_by;
	size_t sorted_by_count, page_rows;
	bool unsorted; /* the next groups */
	uint64_t offset;
	ZSTD_CCtx *zstd;
	struct arena statistics; /* what the footer refers to */
	struct buffer bodies, packed, chunk, levels;
	struct buffer indexes; /* of all row groups; their places in the footer count from its start until the end */
	struct parquet_dictionary dictionary;
	unsigned granule; /* of the width of its indexes */
	size_t *starts;	  /* first rows of the group's pages */
	size_t start_count, start_capacity;
	struct page_work *pages;
	size_t page_count, page_capacity;
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

int parquet_writer_start(int fd, const char *name, const struct parquet_write_options *options, struct parquet_writer **ret,
			 struct error *err)
{
	assert(options->column_count > 0);
	struct parquet_writer *writer = mem_zalloc(sizeof(*writer));
	if (!writer) {
		io_close(fd);
		return error_nomem(err);
	}
	writer->fd = fd;
	arena_init(&writer->statistics, SIZE_MAX);
	buffer_init(&writer->bodies, SIZE_MAX);
	buffer_init(&writer->packed, SIZE_MAX);
	buffer_init(&writer->chunk, SIZE_MAX);
	buffer_init(&writer->indexes, SIZE_MAX);
	buffer_init(&writer->levels, PARQUET_PAGE_MAX);
	writer->page_rows = options->page_rows ? options->page_rows : PARQUET_PAGE_ROWS;
	writer->path = mem_strdup(name);
	writer->zstd = fault_reached(FAULT_ALLOC) ? NULL : ZSTD_createCCtx();
	int r = writer->path && writer->zstd ? copy_schema(writer, options) : -ENOMEM;
	if (r < 0) {
		error_nomem(err);
	} else {
		ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel,
				       options->zstd_level ? options->zstd_level : ZSTD_LEVEL);
		r = write_out(writer, "PAR1", 4, err);
	}
	if (r < 0) {
		parquet_writer_free(writer);
		return r;
	}
	*ret = writer;
	return 0;
}

int parquet_writer_open(const char *path, const struct parquet_write_options *options, struct parquet_writer **ret,
			struct error *err)
{
	int fd = io_open(path, O_WRONLY | O_CREAT | O_EXCL, options->mode ? options->mode : 0640, err);
	return fd < 0 ? fd : parquet_writer_start(fd, path, options, ret, err);
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
	buffer_release(&writer->bodies);
	buffer_release(&writer->packed);
	buffer_release(&writer->chunk);
	buffer_release(&writer->indexes);
	buffer_release(&writer->levels);
	parquet_dictionary_release(&writer->dictionary);
	mem_free(writer->starts);
	mem_free(writer->pages);
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

/* ---- the pages of a chunk ---- */

static bool is_bytes_type(enum parquet_type type)
{
	return type == PARQUET_BYTE_ARRAY || type == PARQUET_FIXED;
}

static int cut_evenly(struct parquet_writer *writer, size_t rows, size_t page_rows)
{
	size_t count = (rows + page_rows - 1) / page_rows;
	if (array_reserve(&writer->starts, &writer->start_capacity, count, SIZE_MAX) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		writer->starts[i] = i * page_rows;
	writer->start_count = count;
	return 0;
}

static int cut_at(struct parquet_writer *writer, const size_t *starts, size_t count)
{
	if (array_reserve(&writer->starts, &writer->start_capacity, count, SIZE_MAX) < 0)
		return -ENOMEM;
	memcpy(writer->starts, starts, count * sizeof(*starts));
	writer->start_count = count;
	return 0;
}

/* The row behind page i. */
static size_t page_end(const struct parquet_writer *writer, size_t i, size_t rows)
{
	return i + 1 < writer->start_count ? writer->starts[i + 1] : rows;
}

/* Whether a page of strings is too long, and could be shorter. */
static bool is_page_too_long(const struct parquet_writer *writer, const struct parquet_values *values, size_t rows)
{
	for (size_t c = 0; c < writer->metadata.column_count; c++) {
		const struct parquet_column *column = &writer->metadata.columns[c].column;
		const uint8_t *present = column->optional ? values[c].present : NULL;
		for (size_t i = 0; column->type == PARQUET_BYTE_ARRAY && i < writer->start_count; i++) {
			size_t bytes = 0, start = writer->starts[i], end = page_end(writer, i, rows);
			for (size_t row = start; row < end && bytes <= PAGE_BYTES_MAX; row++)
				bytes += !present || present[row] ? values[c].bytes[row].len + 4 : 0;
			if (bytes > PAGE_BYTES_MAX && end - start > 1)
				return true;
		}
	}
	return false;
}

/* The same pages for all columns: those that the caller wants, unless strings make one of them too long. */
static int choose_pages(struct parquet_writer *writer, const struct parquet_values *values, size_t rows, const size_t *starts,
			size_t start_count)
{
	size_t page_rows = writer->page_rows;
	int r = start_count ? cut_at(writer, starts, start_count) : cut_evenly(writer, rows, page_rows);
	while (r == 0 && page_rows > 1 && is_page_too_long(writer, values, rows)) {
		page_rows /= 2;
		r = cut_evenly(writer, rows, page_rows);
	}
	return r;
}

static size_t count_present(const uint8_t *present, size_t count)
{
	size_t n = 0;
	for (size_t i = 0; i < count; i++)
		n += present[i] != 0;
	return n;
}

static const void *value_at(const struct parquet_column *column, const struct dense *dense, size_t i)
{
	const uint8_t *values = dense->values.booleans; /* NULL when no row has a value */
	return values ? values + i * parquet_type_size(column->type) : NULL;
}

/* Cuts the chunk into pages, behind room for the dictionary's, and finds their ranges and the chunk's. */
static int plan_pages(struct parquet_writer *writer, const struct parquet_column *column, const struct parquet_values *values,
		      const struct dense *dense, size_t rows, struct parquet_range *ret_range)
{
	size_t count = 1 + writer->start_count, from = 0;
	const uint8_t *present = column->optional ? values->present : NULL;
	if (array_reserve(&writer->pages, &writer->page_capacity, count, SIZE_MAX) < 0)
		return -ENOMEM;
	writer->page_count = count;
	writer->pages[0] = (struct page_work){0};
	*ret_range = (struct parquet_range){.state = PARQUET_RANGE_EMPTY};
	for (size_t i = 1; i < count; i++) {
		struct page_work *page = &writer->pages[i];
		size_t row = writer->starts[i - 1], n = page_end(writer, i - 1, rows) - row;
		*page = (struct page_work){
			.first_row = row, .rows = n, .from = from, .count = present ? count_present(present + row, n) : n};
		parquet_range_of(column, value_at(column, dense, from), page->count, &page->range);
		parquet_range_merge(column, ret_range, &page->range);
		from += page->count;
	}
	return 0;
}

static struct bytes keep_bytes(struct parquet_writer *writer, struct bytes value)
{
	return (struct bytes){(uint8_t *)arena_strndup(&writer->statistics, (const char *)value.data, value.len), value.len};
}

static int keep_statistics(struct parquet_writer *writer, const struct parquet_column *column,
			   const struct parquet_range *range, size_t nulls, struct parquet_statistics *ret)
{
	*ret = (struct parquet_statistics){.has_null_count = true, .null_count = (int64_t)nulls};
	if (range->state != PARQUET_RANGE_KNOWN)
		return 0;
	struct bytes min = parquet_bound_bytes(column, &range->min), max = parquet_bound_bytes(column, &range->max);
	if (min.len > STATISTICS_BYTES_MAX || max.len > STATISTICS_BYTES_MAX)
		return 0;
	ret->min = keep_bytes(writer, min);
	ret->max = keep_bytes(writer, max);
	ret->has_range = true;
	return ret->min.data && ret->max.data ? 0 : -ENOMEM;
}

/* ---- values ---- */

static int put_plain_bytes(const struct parquet_column *column, const struct bytes *values, size_t count, struct buffer *out)
{
	size_t len = 0, prefix = column->type == PARQUET_BYTE_ARRAY ? 4 : 0;
	for (size_t i = 0; i < count; i++) {
		if (values[i].len > INT32_MAX || __builtin_add_overflow(len, values[i].len + prefix, &len))
			return buffer_fail(out, -E2BIG);
		assert(column->type != PARQUET_FIXED || values[i].len == column->type_length);
	}
	int r = buffer_reserve(out, len);
	if (r < 0)
		return r;
	uint8_t *at = out->data + out->len;
	for (size_t i = 0; i < count; i++) {
		uint32_t value_len = (uint32_t)values[i].len;
		memcpy(at, &value_len, prefix);
		if (value_len)
			memcpy(at + prefix, values[i].data, value_len);
		at += prefix + value_len;
	}
	out->len += len;
	return 0;
}

static int put_plain(const struct parquet_column *column, const void *values, size_t count, struct buffer *out)
{
	if (is_bytes_type(column->type))
		return put_plain_bytes(column, values, count, out);
	if (column->type == PARQUET_BOOLEAN)
		return parquet_encode_booleans(values, count, out);
	return buffer_append(out, values, count * parquet_type_size(column->type));
}

static int put_values(struct parquet_writer *writer, const struct parquet_column *column, int encoding,
		      const struct dense *dense, const struct page_work *page)
{
	const void *values = value_at(column, dense, page->from);
	struct buffer *out = &writer->bodies;
	if (encoding == ENCODING_RLE_DICTIONARY)
		return parquet_encode_indexes(writer->dictionary.indexes + page->from, page->count, writer->granule, out);
	if (encoding == ENCODING_DELTA_BINARY_PACKED)
		return column->type == PARQUET_INT32 ? parquet_encode_delta32(values, page->count, out)
						     : parquet_encode_delta64(values, page->count, out);
	return put_plain(column, values, page->count, out);
}

static int put_levels(struct parquet_writer *writer, const uint8_t *present, const struct page_work *page)
{
	buffer_clear(&writer->levels);
	int r = array_reserve(&writer->widened, &writer->widened_capacity, page->rows, PARQUET_GROUP_ROWS_MAX);
	if (r < 0)
		return r;
	for (size_t i = 0; i < page->rows; i++)
		writer->widened[i] = present ? present[page->first_row + i] != 0 : 1;
	parquet_encode_hybrid(writer->widened, page->rows, 1, &writer->levels);
	uint32_t len = (uint32_t)writer->levels.len;
	buffer_append(&writer->bodies, &len, 4);
	return buffer_append_buffer(&writer->bodies, &writer->levels);
}

static int put_dictionary(struct parquet_writer *writer, const struct parquet_column *column)
{
	const struct parquet_dictionary *dictionary = &writer->dictionary;
	if (is_bytes_type(column->type))
		return put_plain_bytes(column, dictionary->strings, dictionary->count, &writer->bodies);
	if (parquet_type_size(column->type) == 8)
		return buffer_append(&writer->bodies, dictionary->words, dictionary->count * 8);
	for (size_t i = 0; i < dictionary->count; i++)
		buffer_append(&writer->bodies, &dictionary->words[i], 4);
	return buffer_status(&writer->bodies);
}

/* Encodes all pages into `bodies`. */
static int encode_pages(struct parquet_writer *writer, const struct parquet_column *column, const struct parquet_values *values,
			const struct dense *dense, int encoding, bool has_dictionary)
{
	int r = 0;
	buffer_clear(&writer->bodies);
	for (size_t i = !has_dictionary; r == 0 && i < writer->page_count; i++) {
		struct page_work *page = &writer->pages[i];
		page->body = writer->bodies.len;
		if (i == 0)
			r = put_dictionary(writer, column);
		else if (column->optional)
			r = put_levels(writer, values->present, page);
		if (r == 0 && i > 0)
			r = put_values(writer, column, encoding, dense, page);
		page->body_len = writer->bodies.len - page->body;
	}
	return r;
}

/* ---- compression ---- */

/* Compresses the pages from `first` on into `packed`. */
static int compress_pages(struct parquet_writer *writer, size_t first, int32_t *ret_codec, struct error *err)
{
	buffer_clear(&writer->packed);
	for (size_t i = first; i < writer->page_count; i++) {
		struct page_work *page = &writer->pages[i];
		size_t bound = ZSTD_compressBound(page->body_len);
		if (page->body_len > INT32_MAX || bound > INT32_MAX)
			return error_set(err, -E2BIG, "%s: a page of %zu bytes is too long for the format", writer->path,
					 page->body_len);
		if (buffer_reserve(&writer->packed, bound) < 0)
			return error_nomem(err);
		size_t len = ZSTD_compress2(writer->zstd, writer->packed.data + writer->packed.len, bound,
					    writer->bodies.data + page->body, page->body_len);
		if (ZSTD_isError(len))
			return error_set(err, -ENOMEM, "%s: cannot compress a page: %s", writer->path, ZSTD_getErrorName(len));
		page->packed = writer->packed.len;
		page->packed_len = len;
		writer->packed.len += len;
	}
	uint64_t wanted = (uint64_t)writer->bodies.len * (100 - SHRINK_MIN_PERCENT) / 100;
	*ret_codec = writer->packed.len <= wanted ? CODEC_ZSTD : CODEC_UNCOMPRESSED;
	return 0;
}

static int put_hash(struct buffer *out, const void *data, size_t len)
{
	return buffer_printf(out, "%016" PRIx64, hash64(data, len));
}

/* Appends a page with its header to the chunk, and its hash to `hashes`. */
static int put_page(struct parquet_writer *writer, struct page_work *page, struct parquet_page *header, int32_t codec,
		    struct parquet_chunk *chunk, struct buffer *hashes)
{
	struct buffer *out = &writer->chunk;
	bool packed = codec == CODEC_ZSTD;
	const uint8_t *body = packed ? writer->packed.data + page->packed : writer->bodies.data + page->body;
	size_t len = packed ? page->packed_len : page->body_len, start = out->len;
	header->size_uncompressed = (int32_t)page->body_len;
	header->size_compressed = (int32_t)len;
	header->crc = libdeflate_crc32(0, body, len);
	if (buffer_reserve(out, len + HEADER_MAX) < 0 || parquet_page_write(header, out) < 0)
		return -ENOMEM;
	chunk->size_uncompressed += (int64_t)(out->len - start + page->body_len);
	assert(out->len - start <= HEADER_MAX);
	if (buffer_append(out, body, len) < 0)
		return -ENOMEM;
	page->entry.offset = (int64_t)(writer->offset + start);
	page->entry.size = (int32_t)(out->len - start);
	return put_hash(hashes, out->data + start, out->len - start);
}

/* Appends all pages to the chunk. */
static int put_pages(struct parquet_writer *writer, int encoding, bool has_dictionary, struct parquet_chunk *chunk,
		     struct buffer *hashes)
{
	int r = 0;
	buffer_clear(&writer->chunk);
	for (size_t i = !has_dictionary; r == 0 && i < writer->page_count; i++) {
		struct page_work *page = &writer->pages[i];
		struct parquet_page header = {.type = i ? PAGE_DATA : PAGE_DICTIONARY,
					      .value_count = (int32_t)(i ? page->rows : writer->dictionary.count),
					      .encoding = i ? encoding : ENCODING_PLAIN};
		r = put_page(writer, page, &header, chunk->codec, chunk, hashes);
	}
	if (has_dictionary)
		chunk->dictionary_offset = (int64_t)writer->offset;
	chunk->data_offset = writer->pages[1].entry.offset;
	chunk->size_compressed = (int64_t)writer->chunk.len;
	return r;
}

/* ---- page index ---- */

/* The bounds of a page in the indexes; false when they are unknown. */
static bool fill_entry(const struct parquet_column *column, struct page_work *page, uint8_t min_memory[PARQUET_BOUND_MAX],
		       uint8_t max_memory[PARQUET_BOUND_MAX])
{
	struct parquet_index_entry *entry = &page->entry;
	bool is_text = column->logical == PARQUET_STRING || column->logical == PARQUET_JSON;
	entry->first_row = (int64_t)page->first_row;
	entry->null_count = (int64_t)(page->rows - page->count);
	entry->is_null = page->range.state == PARQUET_RANGE_EMPTY;
	entry->min = entry->max = (struct bytes){0};
	if (entry->is_null)
		return true;
	if (page->range.state == PARQUET_RANGE_UNKNOWN)
		return false;
	entry->min = parquet_bound_bytes(column, &page->range.min);
	entry->max = parquet_bound_bytes(column, &page->range.max);
	if (column->type != PARQUET_BYTE_ARRAY)
		return entry->min.len <= STATISTICS_BYTES_MAX;
	return parquet_cut_bound(entry->min, is_text, false, min_memory, &entry->min) &&
	       parquet_cut_bound(entry->max, is_text, true, max_memory, &entry->max);
}

/* Appends the chunk's column index, if all pages have bounds, and its offset index to those of the file. */
static int put_indexes(struct parquet_writer *writer, const struct parquet_column *column, struct parquet_chunk *chunk,
		       struct buffer *hashes)
{
	struct buffer *out = &writer->indexes;
	size_t count = writer->page_count - 1, start = out->len;
	bool has_bounds = true;
	_cleanup_(mem_freep) uint8_t *memory = mem_alloc_array(count, 2 * PARQUET_BOUND_MAX);
	_cleanup_(mem_freep) struct parquet_index_entry *entries = mem_alloc_array(count, sizeof(*entries));
	if (!memory || !entries)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		uint8_t *at = memory + i * 2 * PARQUET_BOUND_MAX;
		has_bounds &= fill_entry(column, &writer->pages[i + 1], at, at + PARQUET_BOUND_MAX);
		entries[i] = writer->pages[i + 1].entry;
	}
	if (has_bounds) {
		parquet_column_index_write(column, entries, count, out);
		chunk->column_index_offset = (int64_t)start;
		chunk->column_index_length = (int32_t)(out->len - start);
		put_hash(hashes, out->data + start, out->len - start);
		start = out->len;
	}
	parquet_offset_index_write(entries, count, out);
	chunk->offset_index_offset = (int64_t)start;
	chunk->offset_index_length = (int32_t)(out->len - start);
	put_hash(hashes, out->data + start, out->len - start);
	return buffer_status(out) < 0 ? buffer_status(out) : buffer_status(hashes);
}

/* ---- chunks and groups ---- */

#define OBVIOUS_USES	    64 /* of a value: a dictionary for sure */
#define TRIAL_VALUES	    4096
#define TRIAL_DICTIONARY    (16u * 1024)
#define RANKED_GRANULE	    4
#define RANKED_GAIN_PERCENT 5  /* less is not worth what decompression may cost readers */
#define RANKED_ENTRIES	    17 /* fewer take 4 bits or less, which compression does well with in any order */

/* What is in `bodies` takes, compressed if that is shorter. */
static int trial_size(struct parquet_writer *writer, size_t *ret)
{
	size_t bound = ZSTD_compressBound(writer->bodies.len);
	buffer_clear(&writer->packed);
	if (buffer_reserve(&writer->packed, bound) < 0)
		return -ENOMEM;
	size_t len = ZSTD_compress2(writer->zstd, writer->packed.data, bound, writer->bodies.data, writer->bodies.len);
	if (ZSTD_isError(len))
		return -ENOMEM;
	*ret = len < writer->bodies.len ? len : writer->bodies.len;
	return 0;
}

static int try_values(struct parquet_writer *writer, const struct parquet_column *column, int encoding,
		      const struct dense *dense, size_t *ret)
{
	size_t from = dense->count > TRIAL_VALUES ? (dense->count - TRIAL_VALUES) / 2 : 0;
	struct page_work sample = {.from = from,
				   .count = dense->count - from < TRIAL_VALUES ? dense->count - from : TRIAL_VALUES};
	buffer_clear(&writer->bodies);
	int r = put_values(writer, column, encoding, dense, &sample);
	if (r == 0)
		r = trial_size(writer, ret);
	*ret = r == 0 ? (size_t)((double)*ret * (double)dense->count / (double)sample.count) : 0;
	return r;
}

static int try_dictionary(struct parquet_writer *writer, const struct parquet_column *column, size_t *ret)
{
	buffer_clear(&writer->bodies);
	int r = put_dictionary(writer, column);
	size_t whole = writer->bodies.len;
	if (r < 0)
		return r;
	if (whole > TRIAL_DICTIONARY)
		buffer_truncate(&writer->bodies, TRIAL_DICTIONARY);
	size_t taken = writer->bodies.len;
	r = trial_size(writer, ret);
	*ret = r == 0 && taken ? (size_t)((double)*ret * (double)whole / (double)taken) : 0;
	return r;
}

/* Puts the dictionary's most frequent values first where that makes the indexes shorter; see parquet_dictionary.c. `indexes` is
 * what they take as they are. */
static int try_ranks(struct parquet_writer *writer, const struct dense *dense, size_t *indexes)
{
	struct parquet_dictionary *dictionary = &writer->dictionary;
	size_t width = parquet_bit_width(dictionary->count - 1), ranked;
	size_t from = dense->count > TRIAL_VALUES ? (dense->count - TRIAL_VALUES) / 2 : 0, n = dense->count - from;
	uint32_t sample[TRIAL_VALUES];
	/* Runs are short already. */
	if (dictionary->count < RANKED_ENTRIES || *indexes < dense->count * width / 16)
		return 0;
	if (parquet_dictionary_rank(dictionary, dense->count) < 0)
		return -ENOMEM;
	n = n < TRIAL_VALUES ? n : TRIAL_VALUES;
	for (size_t i = 0; i < n; i++)
		sample[i] = dictionary->ranks[dictionary->indexes[from + i]];
	buffer_clear(&writer->bodies);
	int r = parquet_encode_indexes(sample, n, RANKED_GRANULE, &writer->bodies);
	if (r == 0)
		r = trial_size(writer, &ranked);
	if (r < 0)
		return r;
	ranked = (size_t)((double)ranked * (double)dense->count / (double)n);
	if (ranked > *indexes * (100 - RANKED_GAIN_PERCENT) / 100)
		return 0;
	*indexes = ranked;
	writer->granule = RANKED_GRANULE;
	return parquet_dictionary_reorder(dictionary, dense->count);
}

/* 1 when the dictionary that was built is shorter than the other encoding, 0 when not. */
static int is_dictionary_shorter(struct parquet_writer *writer, const struct parquet_column *column, const struct dense *dense,
				 int otherwise)
{
	size_t entries = 0, indexes, without = SIZE_MAX;
	bool is_integer = column->type == PARQUET_INT32 || column->type == PARQUET_INT64;
	bool is_obvious = writer->dictionary.count * OBVIOUS_USES <= dense->count;
	if (is_obvious && writer->dictionary.count < RANKED_ENTRIES)
		return 1;
	int r = try_values(writer, column, ENCODING_RLE_DICTIONARY, dense, &indexes);
	if (r == 0 && is_integer)
		r = try_ranks(writer, dense, &indexes);
	if (r == 0 && !is_obvious)
		r = try_values(writer, column, otherwise, dense, &without);
	if (r == 0 && !is_obvious)
		r = try_dictionary(writer, column, &entries);
	return r < 0 ? r : entries + indexes <= without;
}

/* Chooses, and builds the dictionary if it is to be one. */
static int choose_encoding(struct parquet_writer *writer, const struct parquet_column *column, const struct dense *dense,
			   const struct parquet_range *range, bool *ret_has_dictionary)
{
	bool is_integer = column->type == PARQUET_INT32 || column->type == PARQUET_INT64;
	int otherwise = is_integer && column->layout != PARQUET_PLAIN ? ENCODING_DELTA_BINARY_PACKED : ENCODING_PLAIN;
	size_t size = parquet_type_size(column->type), without = dense->count * size;
	*ret_has_dictionary = false;
	writer->granule = 1;
	if (column->layout != PARQUET_AUTO)
		return otherwise;
	if (is_integer)
		without = size == 4 ? parquet_delta_cost32(dense->values.i32, dense->count)
				    : parquet_delta_cost64(dense->values.i64, dense->count);
	/* Deltas of noise are longer than noise. */
	if (is_integer && without >= dense->count * size)
		otherwise = ENCODING_PLAIN;
	int r = parquet_dictionary_build(&writer->dictionary, column, dense->values.booleans, dense->count, range, without);
	if (r == 1 && !is_bytes_type(column->type))
		r = is_dictionary_shorter(writer, column, dense, otherwise);
	if (r < 0)
		return r;
	*ret_has_dictionary = r;
	return r > 0 ? ENCODING_RLE_DICTIONARY : otherwise;
}

static int put_chunk(struct parquet_writer *writer, const struct parquet_column *column, const struct parquet_values *values,
		     size_t rows, struct parquet_chunk *ret, struct error *err)
{
	struct dense dense;
	struct parquet_range range;
	bool has_dictionary = false;
	_cleanup_(buffer_release) struct buffer hashes = {.max = SIZE_MAX};
	*ret = (struct parquet_chunk){.value_count = (int64_t)rows};
	if (gather_present(writer, column, values, rows, &dense) < 0 ||
	    plan_pages(writer, column, values, &dense, rows, &range) < 0 ||
	    keep_statistics(writer, column, &range, rows - dense.count, &ret->statistics) < 0)
		return error_nomem(err);
	int encoding = choose_encoding(writer, column, &dense, &range, &has_dictionary);
	if (encoding < 0)
		return error_nomem(err);
	ret->encodings = 1u << ENCODING_RLE | 1u << encoding | (unsigned)has_dictionary << ENCODING_PLAIN;
	int r = encode_pages(writer, column, values, &dense, encoding, has_dictionary);
	if (r < 0)
		return error_set_errno(err, r, "%s: cannot encode column %s", writer->path, column->name);
	r = compress_pages(writer, !has_dictionary, &ret->codec, err);
	if (r < 0)
		return r;
	if (put_pages(writer, encoding, has_dictionary, ret, &hashes) < 0 || put_indexes(writer, column, ret, &hashes) < 0)
		return error_nomem(err);
	ret->page_hashes = keep_bytes(writer, buffer_bytes(&hashes));
	if (!ret->page_hashes.data)
		return error_nomem(err);
	return write_out(writer, writer->chunk.data, writer->chunk.len, err);
}

void parquet_writer_set_sorted(struct parquet_writer *writer, bool sorted)
{
	writer->unsorted = !sorted;
}

int parquet_writer_group_pages(struct parquet_writer *writer, const struct parquet_values *values, size_t rows,
			       const size_t *starts, size_t start_count, struct error *err)
{
	struct parquet_metadata *metadata = &writer->metadata;
	size_t columns = metadata->column_count, start = metadata->group_count * columns;
	if (rows == 0)
		return 0;
	if (rows > PARQUET_GROUP_ROWS_MAX)
		return error_set(err, -E2BIG, "%s: a row group of %zu rows is too large", writer->path, rows);
	for (size_t i = 0; i < start_count; i++)
		assert(starts[i] < rows && (i ? starts[i] > starts[i - 1] : starts[i] == 0));
	if (array_reserve(&metadata->groups, &metadata->group_capacity, metadata->group_count + 1, SIZE_MAX) < 0 ||
	    array_reserve(&metadata->chunks, &metadata->chunk_capacity, start + columns, SIZE_MAX) < 0 ||
	    choose_pages(writer, values, rows, starts, start_count) < 0)
		return error_nomem(err);
	for (size_t i = 0; i < columns; i++) {
		int r = put_chunk(writer, &metadata->columns[i].column, &values[i], rows, &metadata->chunks[start + i], err);
		if (r < 0)
			return r;
	}
	metadata->groups[metadata->group_count++] = (struct parquet_group){.rows = (int64_t)rows, .unsorted = writer->unsorted};
	metadata->rows += (int64_t)rows;
	return 0;
}

int parquet_writer_group(struct parquet_writer *writer, const struct parquet_values *values, size_t rows, struct error *err)
{
	return parquet_writer_group_pages(writer, values, rows, NULL, 0, err);
}

/* Writes the page indexes, and makes their places in the footer those in the file. */
static int put_all_indexes(struct parquet_writer *writer, struct error *err)
{
	size_t chunks = writer->metadata.group_count * writer->metadata.column_count;
	for (size_t i = 0; i < chunks; i++) {
		writer->metadata.chunks[i].column_index_offset += (int64_t)writer->offset;
		writer->metadata.chunks[i].offset_index_offset += (int64_t)writer->offset;
	}
	return write_out(writer, writer->indexes.data, writer->indexes.len, err);
}

int parquet_writer_finish(struct parquet_writer *writer, struct parquet_written *ret, struct error *err)
{
	struct buffer *footer = &writer->chunk;
	int r = put_all_indexes(writer, err);
	if (r < 0)
		return r;
	buffer_clear(footer);
	parquet_metadata_write(&writer->metadata, writer->sorted_by, writer->sorted_by_count, footer);
	uint32_t len = (uint32_t)footer->len;
	if (footer->len > PARQUET_FOOTER_MAX)
		return error_set(err, -E2BIG, "%s: the footer would be too long", writer->path);
	buffer_append(footer, &len, 4);
	if (buffer_append(footer, "PAR1", 4) < 0)
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
