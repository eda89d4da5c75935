/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a Parquet file, and what its footer says.
 *
 * Files are read with pread, not mapped: a file that shrinks under a mapping kills the process.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "codec/compress.h"
#include "codec/parquet_file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied as they are on disk");

#define MEMORY_MAX_DEFAULT (1024u * 1024 * 1024)

static _Atomic uint64_t serials;

/* ---- opening ---- */

static int corrupt(const struct parquet_file *file, struct error *err, const char *fault)
{
	return error_set(err, -EBADMSG, "%s: %s", file->name, fault);
}

/* Reads exactly len bytes. */
int parquet_read_at(struct parquet_file *file, uint64_t offset, void *data, size_t len, struct error *err)
{
	file->bytes_read += len;
	ssize_t n = io_pread(file->fd, data, len, offset, file->name, err);
	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : corrupt(file, err, "truncated while it was read");
}

/* The length that the end of the file gives the footer; false if it makes no sense. */
static bool footer_length(const struct parquet_file *file, const uint8_t tail[PARQUET_TAIL_LEN], uint32_t *ret)
{
	memcpy(ret, tail, 4);
	return !memcmp(tail + 4, "PAR1", 4) && *ret <= file->size - PARQUET_MAGIC_LEN - PARQUET_TAIL_LEN &&
	       *ret <= PARQUET_FOOTER_MAX && *ret <= file->memory_max;
}

static int load_footer(struct parquet_file *file, uint32_t len, struct error *err)
{
	file->footer_start = file->size - PARQUET_TAIL_LEN - len;
	mem_free(file->footer);
	file->footer = mem_alloc(len + PARQUET_TAIL_LEN);
	if (!file->footer)
		return error_nomem(err);
	int r = parquet_read_at(file, file->footer_start, file->footer, len + PARQUET_TAIL_LEN, err);
	if (r == 0)
		file->footer_hash = hash64(file->footer, len + PARQUET_TAIL_LEN);
	return r;
}

/* One bit of the file's last bytes, which say where the footer begins: true if it was found, and the footer is loaded. */
static bool correct_tail(struct parquet_file *file, uint8_t tail[PARQUET_TAIL_LEN], uint64_t expected)
{
	for (size_t bit = 0; file->on_corrected && bit < PARQUET_TAIL_LEN * 8; bit++) {
		uint32_t len;
		tail[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (footer_length(file, tail, &len) && load_footer(file, len, NULL) == 0) {
			memcpy(file->footer + len, tail, PARQUET_TAIL_LEN);
			file->footer_hash = hash64(file->footer, len + PARQUET_TAIL_LEN);
			if (file->footer_hash == expected) {
				parquet_note_corrected(file, file->size - PARQUET_TAIL_LEN, bit);
				return true;
			}
		}
		tail[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	return false;
}

/* The magic number at the start is in no checksum. */
static bool correct_head(struct parquet_file *file, const uint8_t head[PARQUET_MAGIC_LEN])
{
	uint32_t is, magic;
	memcpy(&is, head, 4);
	memcpy(&magic, "PAR1", 4);
	if (!file->on_corrected || __builtin_popcount(is ^ magic) != 1)
		return false;
	parquet_note_corrected(file, 0, (size_t)__builtin_ctz(is ^ magic));
	return true;
}

static int find_footer(struct parquet_file *file, const uint64_t *expected, uint8_t tail[PARQUET_TAIL_LEN], uint32_t *ret_len,
		       struct error *err)
{
	int r = 0;
	bool fine = footer_length(file, tail, ret_len);
	if (fine)
		r = load_footer(file, *ret_len, err);
	if (r < 0 || (fine && (!expected || file->footer_hash == *expected)))
		return r;
	if (expected && correct_tail(file, tail, *expected)) {
		memcpy(ret_len, tail, 4);
		return 0;
	}
	if (memcmp(tail + 4, "PAR1", 4))
		return corrupt(file, err, "not a Parquet file: the magic number is missing at its start or end");
	if (!fine)
		return corrupt(file, err, "the footer's length is wrong");
	r = load_footer(file, *ret_len, err);
	if (r < 0)
		return r;
	if (!parquet_correct_footer(file, *expected, *ret_len + PARQUET_TAIL_LEN))
		return corrupt(file, err, "the footer does not match its checksum");
	file->footer_hash = *expected;
	return 0;
}

static int read_footer(struct parquet_file *file, const uint64_t *expected, struct error *err)
{
	uint8_t head[PARQUET_MAGIC_LEN], tail[PARQUET_TAIL_LEN];
	uint32_t len;
	if (file->size < PARQUET_MAGIC_LEN + PARQUET_TAIL_LEN)
		return corrupt(file, err, "too short to be a Parquet file");
	int r = parquet_read_at(file, 0, head, sizeof(head), err);
	if (r == 0)
		r = parquet_read_at(file, file->size - PARQUET_TAIL_LEN, tail, sizeof(tail), err);
	if (r < 0)
		return r;
	if (!memcmp(head, "PARE", 4) || !memcmp(tail + 4, "PARE", 4))
		return error_set(err, -ENOTSUP, "%s: encrypted Parquet files are not supported", file->name);
	if (memcmp(head, "PAR1", 4) && !correct_head(file, head))
		return corrupt(file, err, "not a Parquet file: the magic number is missing at its start or end");
	r = find_footer(file, expected, tail, &len, err);
	return r < 0 ? r : parquet_metadata_read((struct bytes){file->footer, len}, file->name, &file->metadata, err);
}

static int borrow_footer(struct parquet_file *file, const struct parquet_footer *footer, struct error *err)
{
	if (file->size != footer->size)
		return corrupt(file, err, "its length has changed");
	file->footer_start = footer->start;
	file->footer_hash = footer->hash;
	file->footer = footer->bytes;
	file->metadata = footer->metadata;
	file->is_footer_lent = true;
	return 0;
}

static int open_file(struct parquet_file *file, const char *path, const struct parquet_read_options *options,
		     const struct parquet_footer *footer, struct error *err)
{
	file->memory_max = options && options->memory_max ? options->memory_max : MEMORY_MAX_DEFAULT;
	buffer_init(&file->chunk, file->memory_max);
	buffer_init(&file->page, file->memory_max);
	arena_init(&file->index_arena, file->memory_max);
	file->around_indexes = options && options->around_indexes;
	file->on_corrected = options ? options->on_corrected : NULL;
	file->corrected_context = options ? options->context : NULL;
	file->serial = atomic_fetch_add(&serials, 1) + 1;
	file->name = mem_strdup(path);
	file->fd = io_open(path, O_RDONLY, 0, err);
	if (file->fd < 0)
		return file->fd;
	int r = file->name ? io_file_size(file->fd, &file->size, path, err) : error_nomem(err);
	if (r == 0)
		r = footer ? borrow_footer(file, footer, err)
			   : read_footer(file, options ? options->expected_footer : NULL, err);
	if (r < 0)
		return r;
	file->indexes = mem_zalloc_array(file->metadata.group_count, sizeof(*file->indexes));
	return file->indexes ? 0 : error_nomem(err);
}

int parquet_open_with(const char *path, const struct parquet_read_options *options, const struct parquet_footer *footer,
		      struct parquet_file **ret, struct error *err)
{
	struct parquet_file *file = mem_zalloc(sizeof(*file));
	if (!file)
		return error_nomem(err);
	int r = open_file(file, path, options, footer, err);
	if (r < 0)
		parquet_close(file);
	else
		*ret = file;
	return r;
}

int parquet_open(const char *path, const struct parquet_read_options *options, struct parquet_file **ret, struct error *err)
{
	return parquet_open_with(path, options, NULL, ret, err);
}

struct parquet_file *parquet_close(struct parquet_file *file)
{
	if (!file)
		return NULL;
	io_close(file->fd);
	if (!file->is_footer_lent) {
		parquet_metadata_release(&file->metadata);
		mem_free(file->footer);
	}
	buffer_release(&file->chunk);
	buffer_release(&file->page);
	arena_release(&file->index_arena);
	mem_free(file->indexes);
	zstd_stream_release(&file->zstd);
	mem_free(file->words);
	mem_free(file->name);
	mem_free(file);
	return NULL;
}

/* ---- footers that are kept ---- */

int parquet_footer_load(const char *path, const struct parquet_read_options *options, struct parquet_footer **ret,
			struct error *err)
{
	_cleanup_(parquet_closep) struct parquet_file *file = NULL;
	int r = parquet_open(path, options, &file, err);
	if (r < 0)
		return r;
	struct parquet_footer *footer = mem_alloc(sizeof(*footer));
	if (!footer)
		return error_nomem(err);
	*footer = (struct parquet_footer){.size = file->size,
					  .start = file->footer_start,
					  .hash = file->footer_hash,
					  .bytes = file->footer,
					  .metadata = file->metadata};
	file->is_footer_lent = true;
	*ret = footer;
	return 0;
}

struct parquet_footer *parquet_footer_free(struct parquet_footer *footer)
{
	if (!footer)
		return NULL;
	parquet_metadata_release(&footer->metadata);
	mem_free(footer->bytes);
	return mem_free(footer);
}

size_t parquet_footer_bytes(const struct parquet_footer *footer)
{
	const struct parquet_metadata *metadata = &footer->metadata;
	return sizeof(*footer) + (size_t)(footer->size - footer->start) +
	       metadata->column_capacity * sizeof(*metadata->columns) + metadata->group_capacity * sizeof(*metadata->groups) +
	       metadata->chunk_capacity * sizeof(*metadata->chunks);
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

void parquet_chunk_statistics(const struct parquet_file *file, size_t group, size_t column, struct parquet_statistics *ret)
{
	assert(group < file->metadata.group_count && column < file->metadata.column_count);
	*ret = parquet_chunk_at(&file->metadata, group, column)->statistics;
}

bool parquet_chunk_range(const struct parquet_file *file, size_t group, size_t column, int64_t *ret_min, int64_t *ret_max)
{
	struct parquet_statistics statistics;
	parquet_chunk_statistics(file, group, column, &statistics);
	return statistics.has_range &&
	       parquet_range_of_bounds(parquet_column_at(file, column), statistics.min, statistics.max, ret_min, ret_max);
}
