/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifying a file from its first byte to its last.
 *
 * The footer's hash covers the footer and with it all other hashes; those cover pages and page indexes. What remains is that
 * these cover everything between the magic number and the footer, so their places are collected and must tile it. Pages are
 * read one at a time, as long as their headers say, or, where their place is known from a good offset index, as that says.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/order.h"
#include "codec/parquet_file.h"

struct extent {
	uint64_t start, end;
};
struct verifying {
	struct parquet_file *file;
	struct extent *extents;
	size_t count, capacity;
	struct parquet_data data;			       /* of what has to be decoded */
	void (*on_damage)(void *context, const char *message); /* NULL = the first one ends it */
	void *context;
	uint64_t damaged;
	struct error *err;
};

/* Whether to go on. */
static int noted(struct verifying *v, int r)
{
	if (r != -EBADMSG || !v->on_damage)
		return r;
	v->damaged++;
	v->on_damage(v->context, v->err->message);
	return 0;
}

static int fault(struct verifying *v, const char *text)
{
	return error_set(v->err, -EBADMSG, "%s: %s", v->file->name, text);
}

static int add_extent(struct verifying *v, int64_t start, int64_t len)
{
	if (len == 0)
		return 0;
	int r = array_push(&v->extents, &v->count, &v->capacity, SIZE_MAX,
			   (struct extent){(uint64_t)start, (uint64_t)start + (uint64_t)len});
	return r < 0 ? error_nomem(v->err) : 0;
}

/* Reads and hashes bytes that have the hash number `which` of the chunk. */
static int check_bytes(struct parquet_chunk_reader *reader, uint64_t start, uint64_t end, size_t which)
{
	struct buffer *scratch = &reader->file->chunk;
	size_t len = end - start;
	buffer_clear(scratch);
	int r = buffer_reserve(scratch, len ? len : 1);
	if (r < 0)
		return r == -E2BIG ? parquet_chunk_too_large(reader) : error_nomem(reader->err);
	r = parquet_read_at(reader->file, start, scratch->data, len, reader->err);
	const struct bytes bytes = {scratch->data, len};
	if (r == 0 && !parquet_hash_matches(reader->chunk, which, bytes) &&
	    !parquet_correct_page(reader->file, reader->chunk, which, start, bytes))
		r = parquet_chunk_checksum_fault(reader, start, end);
	return r;
}

/* A chunk with hashed pages, which the offset index has placed. */
static int check_pages(struct verifying *v, struct parquet_chunk_reader *reader, const struct parquet_column_pages *pages)
{
	uint64_t at = (uint64_t)parquet_chunk_start(reader->chunk), end = at + (uint64_t)reader->chunk->size_compressed;
	size_t hash = 0;
	int r = 0;
	if (at < (uint64_t)pages->pages[0].offset) {
		r = noted(v, check_bytes(reader, at, (uint64_t)pages->pages[0].offset, hash++));
		at = (uint64_t)pages->pages[0].offset;
	}
	for (size_t i = 0; r == 0 && i < pages->count; i++) {
		if ((uint64_t)pages->pages[i].offset != at)
			return parquet_chunk_corrupt(reader, "unexpected bytes between its pages");
		r = noted(v, check_bytes(reader, at, at + (uint64_t)pages->pages[i].size, hash++));
		at += (uint64_t)pages->pages[i].size;
	}
	return r == 0 && at != end ? parquet_chunk_corrupt(reader, "unexpected bytes after its pages") : r;
}

static int check_chunk(struct verifying *v, size_t group, size_t column, const struct parquet_group_index *index)
{
	struct parquet_chunk_reader reader;
	int r = parquet_chunk_reader_open(v->file, group, column, &v->data, &reader, v->err);
	if (r < 0)
		return r;
	const struct parquet_chunk *chunk = reader.chunk;
	r = add_extent(v, parquet_chunk_start(chunk), chunk->size_compressed);
	if (r == 0 && index->page_count)
		r = add_extent(v, chunk->offset_index_offset, chunk->offset_index_length);
	if (r == 0 && index->page_count)
		r = add_extent(v, chunk->column_index_offset, chunk->column_index_length);
	if (r < 0)
		return r;
	if (chunk->page_hashes.len && index->page_count)
		return check_pages(v, &reader, &index->columns[column]);
	return parquet_read(v->file, group, column, &v->data, v->err);
}

static int check_groups(struct verifying *v)
{
	for (size_t g = 0; g < v->file->metadata.group_count; g++) {
		int r = noted(v, parquet_group_index_check(v->file, g, v->err));
		const struct parquet_group_index *index = parquet_group_index(v->file, g);
		for (size_t c = 0; r == 0 && c < v->file->metadata.column_count; c++)
			r = noted(v, check_chunk(v, g, c, index));
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_footer(struct verifying *v)
{
	struct parquet_file *file = v->file;
	uint8_t magic[PARQUET_MAGIC_LEN];
	size_t len = file->size - file->footer_start;
	_cleanup_(mem_freep) uint8_t *footer = mem_alloc(len);
	if (!footer)
		return error_nomem(v->err);
	int r = parquet_read_at(file, 0, magic, sizeof(magic), v->err);
	if (r == 0)
		r = parquet_read_at(file, file->footer_start, footer, len, v->err);
	/* What was put right when the file was opened is known, and differs. */
	if (r == 0 && !file->on_corrected && (memcmp(magic, "PAR1", sizeof(magic)) || hash64(footer, len) != file->footer_hash))
		r = fault(v, "the footer does not match its checksum");
	return r;
}

DEFINE_ORDER(compare_extents, struct extent, ORDER(a->start, b->start));

/* Whether every chunk has hashes of ours: only then are all bytes ours to account for. */
static bool is_hashed(const struct parquet_file *file)
{
	size_t chunks = file->metadata.group_count * file->metadata.column_count;
	for (size_t i = 0; i < chunks; i++)
		if (!file->metadata.chunks[i].page_hashes.len && !file->metadata.chunks[i].has_hash)
			return false;
	return true;
}

static int check_gaps(struct verifying *v)
{
	uint64_t at = PARQUET_MAGIC_LEN;
	sort_array(v->extents, v->count, compare_extents);
	for (size_t i = 0; i < v->count; i++) {
		if (v->extents[i].start != at)
			return fault(v, "some bytes belong to no part of the file, or to two parts");
		at = v->extents[i].end;
	}
	return at == v->file->footer_start ? 0 : fault(v, "unexpected bytes before the footer");
}

static int verify(struct verifying *v)
{
	int r = noted(v, check_footer(v));
	if (r == 0)
		r = check_groups(v);
	/* Where parts are damaged, nobody can tell what belongs to them. */
	if (r == 0 && !v->damaged && is_hashed(v->file))
		r = noted(v, check_gaps(v));
	parquet_data_release(&v->data);
	mem_free(v->extents);
	return r;
}

int parquet_verify(struct parquet_file *file, struct error *err)
{
	struct verifying v = {.file = file, .err = err};
	return verify(&v);
}

int parquet_verify_all(struct parquet_file *file, void (*on_damage)(void *context, const char *message), void *context,
		       struct error *err)
{
	struct error own = {0};
	struct verifying v = {.file = file, .on_damage = on_damage, .context = context, .err = &own};
	int r = verify(&v);
	return r < 0 ? error_set(err, r, "%s", own.message) : 0;
}
