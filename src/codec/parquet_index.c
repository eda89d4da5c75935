/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page index: where the pages of a column chunk are (OffsetIndex) and what values they hold (ColumnIndex), both ways
 * (parquet-format/PageIndex.md), and the part of the reader that uses it.
 *
 * Of a row group nothing is read until someone asks for its pages. Then the indexes of all its columns come with one read,
 * since they lie side by side in files of ours, and the offset indexes are compared: only if the pages of all columns begin at
 * the same rows, a page is something that a caller can name by its number. Else, and without indexes, the row group is one
 * page. Column indexes are parsed for the columns that are asked about.
 *
 * Everything is hostile. Indexes must lie in the file, pages within their chunk; rows must rise and stay below the group's; all
 * is parsed into an arena that is bounded as every other memory of the reader. What asks for a number of pages or a range has
 * no way to fail, so a fault is kept for as long as the file is open: the row group has one page then, without a range, and
 * reading pages of it fails.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "codec/parquet_file.h"

/* ---- writing ---- */

enum {
	ORDER_NONE = 0,
	ORDER_ASCENDING = 1,
	ORDER_DESCENDING = 2,
};

static int32_t boundary_order(const struct parquet_column *column, const struct parquet_index_entry *entries, size_t count)
{
	const struct parquet_index_entry *last = NULL;
	bool rises = true, falls = true;
	for (size_t i = 0; i < count; i++) {
		if (entries[i].is_null)
			continue;
		if (last) {
			int min = parquet_compare(column, last->min, entries[i].min);
			int max = parquet_compare(column, last->max, entries[i].max);
			rises &= min <= 0 && max <= 0;
			falls &= min >= 0 && max >= 0;
		}
		last = &entries[i];
	}
	return rises ? ORDER_ASCENDING : falls ? ORDER_DESCENDING : ORDER_NONE;
}

int parquet_column_index_write(const struct parquet_column *column, const struct parquet_index_entry *entries, size_t count,
			       struct buffer *out)
{
	struct thrift_writer thrift = thrift_begin(out);
	thrift_begin_list(&thrift, 1, THRIFT_TRUE, count);
	for (size_t i = 0; i < count; i++)
		thrift_put_bool(&thrift, entries[i].is_null);
	thrift_begin_list(&thrift, 2, THRIFT_BINARY, count);
	for (size_t i = 0; i < count; i++)
		thrift_put_binary(&thrift, entries[i].min.data, entries[i].min.len);
	thrift_begin_list(&thrift, 3, THRIFT_BINARY, count);
	for (size_t i = 0; i < count; i++)
		thrift_put_binary(&thrift, entries[i].max.data, entries[i].max.len);
	thrift_write_int(&thrift, 4, THRIFT_I32, boundary_order(column, entries, count));
	thrift_begin_list(&thrift, 5, THRIFT_I64, count);
	for (size_t i = 0; i < count; i++)
		thrift_put_int(&thrift, entries[i].null_count);
	thrift_end_struct(&thrift);
	return buffer_status(out);
}

int parquet_offset_index_write(const struct parquet_index_entry *entries, size_t count, struct buffer *out)
{
	struct thrift_writer thrift = thrift_begin(out);
	thrift_begin_list(&thrift, 1, THRIFT_STRUCT, count);
	for (size_t i = 0; i < count; i++) {
		thrift_begin_element(&thrift);
		thrift_write_int(&thrift, 1, THRIFT_I64, entries[i].offset);
		thrift_write_int(&thrift, 2, THRIFT_I32, entries[i].size);
		thrift_write_int(&thrift, 3, THRIFT_I64, entries[i].first_row);
		thrift_end_struct(&thrift);
	}
	thrift_end_struct(&thrift);
	return buffer_status(out);
}

/* ---- parsing ---- */

/* The entries that a list of `count` fills; the first list makes them. */
static struct parquet_index_entry *entries_for(struct thrift_reader *thrift, struct arena *arena, size_t count,
					       struct parquet_index_entry **entries, size_t *ret_count, int *error)
{
	size_t size;
	if (thrift->fault)
		return NULL;
	if (*entries && count == *ret_count)
		return *entries;
	if (*entries) {
		thrift_fail(thrift, "lists of different lengths");
		return NULL;
	}
	*entries = __builtin_mul_overflow(count, sizeof(**entries), &size) ? NULL : arena_zalloc(arena, size);
	if (!*entries) {
		*error = -ENOMEM;
		thrift_fail(thrift, "out of memory");
		return NULL;
	}
	*ret_count = count;
	return *entries;
}

/* A bound, mostly of a length of one byte. A query of a narrow range parses indexes as long as it reads pages. */
static inline struct bytes read_bound(struct thrift_reader *thrift, uint8_t type)
{
	const uint8_t *at = thrift->data + thrift->at;
	size_t left = thrift->len - thrift->at;
	if (thrift->fault || type != THRIFT_BINARY || !left || at[0] >= 0x80 || at[0] > left - 1)
		return thrift_read_binary(thrift, type);
	thrift->at += 1 + (size_t)at[0];
	return (struct bytes){at + 1, at[0]};
}

/* A number, mostly 0: pages without nulls. */
static inline int64_t read_number(struct thrift_reader *thrift, uint8_t type)
{
	bool is_integer = type == THRIFT_BYTE || type == THRIFT_I32 || type == THRIFT_I64;
	if (thrift->fault || thrift->at >= thrift->len || thrift->data[thrift->at] || !is_integer)
		return thrift_read_int(thrift, type);
	thrift->at++;
	return 0;
}

/* Element `i` of one of a column index's lists. */
static inline void read_column_element(struct thrift_reader *thrift, int id, uint8_t type, struct parquet_index_entry *entry)
{
	switch (id) {
	case 1: entry->is_null = read_number(thrift, THRIFT_BYTE) == 1; break; /* a boolean in a list takes a byte */
	case 2: entry->min = read_bound(thrift, type); break;
	case 3: entry->max = read_bound(thrift, type); break;
	default: entry->null_count = read_number(thrift, type);
	}
}

int parquet_column_index_read(struct bytes input, struct arena *arena, struct parquet_index_entry **ret, size_t *ret_count)
{
	struct thrift_reader thrift = thrift_open(input);
	struct thrift_field field = {0};
	struct parquet_index_entry *entries = NULL;
	unsigned seen = 0;
	int error = -EBADMSG;
	while (thrift_next(&thrift, &field)) {
		if ((field.id < 1 || field.id > 3) && field.id != 5) {
			thrift_skip(&thrift, field.type);
			continue;
		}
		uint8_t type;
		size_t count = thrift_read_list(&thrift, field.type, &type);
		if (field.id == 1 && type != THRIFT_TRUE && type != THRIFT_FALSE)
			thrift_fail(&thrift, "expected a list of booleans");
		struct parquet_index_entry *at = entries_for(&thrift, arena, count, &entries, ret_count, &error);
		for (size_t i = 0; at && i < count && !thrift.fault; i++)
			read_column_element(&thrift, field.id, type, &at[i]);
		seen |= 1u << field.id;
	}
	if (thrift.fault || (seen & 0xe) != 0xe)
		return error;
	*ret = entries;
	return 0;
}

/* An integer with this field header, of at most VARINT_USUAL bytes; false if it is another field, or longer. */
#define VARINT_USUAL 8
static inline bool take_int(const uint8_t **at, uint8_t header, int64_t *ret)
{
	const uint8_t *byte = *at;
	uint64_t value = 0;
	if (*byte++ != header)
		return false;
	for (unsigned i = 0; i < VARINT_USUAL; i++) {
		value |= (uint64_t)(byte[i] & 0x7f) << (7 * i);
		if (!(byte[i] & 0x80)) {
			*at = byte + i + 1;
			*ret = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
			return true;
		}
	}
	return false;
}

/* A location as about every writer has it: its three fields in order, with headers of one byte, and nothing else. */
static inline bool read_usual_location(struct thrift_reader *thrift, struct parquet_location *ret)
{
	enum { NEXT_I32 = 1 << 4 | THRIFT_I32, NEXT_I64 = 1 << 4 | THRIFT_I64, MOST = 3 * (1 + VARINT_USUAL) + 1 };
	const uint8_t *at = thrift->data + thrift->at;
	int64_t offset, size, first_row;
	if (thrift->fault || thrift->len - thrift->at < MOST || !take_int(&at, NEXT_I64, &offset) ||
	    !take_int(&at, NEXT_I32, &size) || !take_int(&at, NEXT_I64, &first_row) || *at++ != THRIFT_STOP ||
	    size != (int32_t)size)
		return false;
	thrift->at = (size_t)(at - thrift->data);
	*ret = (struct parquet_location){.offset = offset, .size = (int32_t)size, .first_row = first_row};
	return true;
}

static void read_location(struct thrift_reader *thrift, struct parquet_location *ret)
{
	struct thrift_field field = {0};
	if (read_usual_location(thrift, ret))
		return;
	*ret = (struct parquet_location){.offset = -1, .first_row = -1};
	while (thrift_next(thrift, &field)) {
		switch (field.id) {
		case 1: ret->offset = thrift_read_int(thrift, field.type); break;
		case 2: ret->size = thrift_read_i32(thrift, field.type); break;
		case 3: ret->first_row = thrift_read_int(thrift, field.type); break;
		default: thrift_skip(thrift, field.type);
		}
	}
}

int parquet_offset_index_read(struct bytes input, struct arena *arena, struct parquet_location **ret, size_t *ret_count)
{
	struct thrift_reader thrift = thrift_open(input);
	struct thrift_field field = {0};
	struct parquet_location *pages = NULL;
	size_t count = 0, size;
	while (thrift_next(&thrift, &field)) {
		uint8_t type;
		if (field.id != 1 || pages) {
			thrift_skip(&thrift, field.type);
			continue;
		}
		count = thrift_read_list(&thrift, field.type, &type);
		if (thrift.fault || type != THRIFT_STRUCT)
			return -EBADMSG;
		pages = __builtin_mul_overflow(count, sizeof(*pages), &size) ? NULL : arena_alloc(arena, size);
		if (!pages)
			return -ENOMEM;
		for (size_t i = 0; i < count && !thrift.fault; i++)
			read_location(&thrift, &pages[i]);
	}
	if (thrift.fault || !pages)
		return -EBADMSG;
	*ret = pages;
	*ret_count = count;
	return 0;
}

/* ---- hashes of a chunk ---- */

size_t parquet_hash_count(const struct parquet_chunk *chunk)
{
	return chunk->page_hashes.len / PARQUET_HASH_DIGITS;
}

bool parquet_hash_matches(const struct parquet_chunk *chunk, size_t which, struct bytes data)
{
	uint64_t hash;
	if (which >= parquet_hash_count(chunk))
		return false;
	struct bytes text = {chunk->page_hashes.data + which * PARQUET_HASH_DIGITS, PARQUET_HASH_DIGITS};
	if (!parquet_parse_hash(text, &hash))
		return false;
	return !PARQUET_CHECKSUMS_MATTER || hash64(data.data, data.len) == hash;
}

/* ---- the row groups' indexes in memory ---- */

#define SPAN_MAX (4u * 1024 * 1024) /* of a row group's indexes, to be read at once */

/* Indexes of one row group, while they are loaded. */
struct loading {
	struct parquet_file *file;
	size_t group;
	struct parquet_group_index *index;
	struct bytes window; /* bytes of the file that are there already */
	uint64_t window_start;
	struct error *err;
};

static int index_fault(struct loading *l, int code, size_t column, const char *text)
{
	return error_set(l->err, code, "%s: column %s, row group %zu: %s", l->file->name,
			 l->file->metadata.columns[column].column.name, l->group, text);
}

static bool is_inside(const struct parquet_file *file, int64_t offset, int32_t len)
{
	return offset >= PARQUET_MAGIC_LEN && len > 0 && (uint64_t)offset <= file->footer_start &&
	       (uint64_t)len <= file->footer_start - (uint64_t)offset;
}

static int read_into_arena(struct loading *l, uint64_t offset, size_t len, struct bytes *ret)
{
	uint8_t *memory = arena_alloc(&l->file->index_arena, len);
	if (!memory)
		return error_nomem(l->err);
	int r = parquet_read_at(l->file, offset, memory, len, l->err);
	*ret = (struct bytes){memory, len};
	return r;
}

/* Bytes that stay, from the window if they are there. */
static int fetch(struct loading *l, int64_t offset, int32_t len, struct bytes *ret)
{
	uint64_t at = (uint64_t)offset;
	if (at < l->window_start || at - l->window_start > l->window.len ||
	    (size_t)len > l->window.len - (at - l->window_start))
		return read_into_arena(l, at, (size_t)len, ret);
	*ret = (struct bytes){l->window.data + (at - l->window_start), (size_t)len};
	return 0;
}

/* Reads all indexes of the row group, if they lie side by side. */
static int load_window(struct loading *l)
{
	const struct parquet_metadata *metadata = &l->file->metadata;
	uint64_t start = UINT64_MAX, end = 0;
	for (size_t c = 0; c < metadata->column_count; c++) {
		const struct parquet_chunk *chunk = parquet_chunk_at(metadata, l->group, c);
		const int64_t offsets[] = {chunk->offset_index_offset, chunk->column_index_offset};
		const int32_t lengths[] = {chunk->offset_index_length, chunk->column_index_length};
		for (size_t i = 0; i < 2; i++) {
			if (i == 1 && lengths[i] == 0)
				continue;
			if (!is_inside(l->file, offsets[i], lengths[i]))
				return index_fault(l, -EBADMSG, c, "its page index lies outside of the file");
			uint64_t at = (uint64_t)offsets[i], behind = at + (uint64_t)lengths[i];
			start = at < start ? at : start;
			end = behind > end ? behind : end;
		}
	}
	l->window_start = start;
	return end - start > SPAN_MAX ? 0 : read_into_arena(l, start, end - start, &l->window);
}

/* A chunk's own bytes begin where its dictionary page does. */
int64_t parquet_chunk_start(const struct parquet_chunk *chunk)
{
	bool has_dictionary = chunk->dictionary_offset >= PARQUET_MAGIC_LEN && chunk->dictionary_offset < chunk->data_offset;
	return has_dictionary ? chunk->dictionary_offset : chunk->data_offset;
}

bool parquet_chunk_is_inside(const struct parquet_file *file, const struct parquet_chunk *chunk)
{
	int64_t start = parquet_chunk_start(chunk);
	return start >= PARQUET_MAGIC_LEN && chunk->size_compressed >= 0 && (uint64_t)start <= file->footer_start &&
	       (uint64_t)chunk->size_compressed <= file->footer_start - (uint64_t)start;
}

static bool are_locations_sane(const struct parquet_file *file, const struct parquet_chunk *chunk, int64_t rows,
			       const struct parquet_location *pages, size_t count)
{
	if (!parquet_chunk_is_inside(file, chunk) || count == 0 || pages[0].first_row != 0)
		return false;
	int64_t at = parquet_chunk_start(chunk), end = at + chunk->size_compressed, row = -1;
	for (size_t i = 0; i < count; i++) {
		if (pages[i].offset < at || pages[i].offset > end || pages[i].size <= 0 ||
		    pages[i].size > end - pages[i].offset)
			return false;
		if (pages[i].first_row <= row || pages[i].first_row >= rows)
			return false;
		row = pages[i].first_row;
		at = pages[i].offset + pages[i].size;
	}
	return true;
}

static int load_offsets(struct loading *l, size_t column)
{
	struct parquet_file *file = l->file;
	const struct parquet_chunk *chunk = parquet_chunk_at(&file->metadata, l->group, column);
	struct parquet_column_pages *pages = &l->index->columns[column];
	struct bytes bytes;
	size_t count = 0;
	int r = fetch(l, chunk->offset_index_offset, chunk->offset_index_length, &bytes);
	size_t last = parquet_hash_count(chunk) - 1;
	if (r == 0 && chunk->page_hashes.len && !parquet_hash_matches(chunk, last, bytes) &&
	    !parquet_correct_index(file, chunk, last, (uint64_t)chunk->offset_index_offset, bytes))
		return index_fault(l, -EBADMSG, column, "its offset index does not match its checksum");
	if (r == 0 && chunk->column_index_length)
		r = fetch(l, chunk->column_index_offset, chunk->column_index_length, &pages->column_index);
	if (r < 0)
		return r;
	r = parquet_offset_index_read(bytes, &file->index_arena, &pages->pages, &count);
	if (r == -ENOMEM)
		return error_nomem(l->err);
	int64_t rows = file->metadata.groups[l->group].rows;
	if (r < 0 || !are_locations_sane(file, chunk, rows, pages->pages, count))
		return index_fault(l, -EBADMSG, column, "its offset index is malformed");
	bool has_dictionary = parquet_chunk_start(chunk) < pages->pages[0].offset;
	size_t hashes = has_dictionary + count + (chunk->column_index_length > 0) + 1;
	if (chunk->page_hashes.len && chunk->page_hashes.len != hashes * PARQUET_HASH_DIGITS)
		return index_fault(l, -EBADMSG, column, "its page index and its checksums contradict each other");
	pages->count = count;
	return 0;
}

static bool are_aligned(const struct parquet_group_index *index, size_t columns)
{
	const struct parquet_column_pages *first = &index->columns[0];
	for (size_t c = 1; c < columns; c++) {
		const struct parquet_column_pages *other = &index->columns[c];
		if (other->count != first->count)
			return false;
		for (size_t i = 0; i < first->count; i++)
			if (other->pages[i].first_row != first->pages[i].first_row)
				return false;
	}
	return true;
}

static bool have_offset_indexes(const struct parquet_file *file, size_t group)
{
	for (size_t c = 0; c < file->metadata.column_count; c++)
		if (parquet_chunk_at(&file->metadata, group, c)->offset_index_length == 0)
			return false;
	return file->metadata.groups[group].rows > 0;
}

static int load_group(struct parquet_file *file, size_t group, struct parquet_group_index *index, struct error *err)
{
	struct loading l = {.file = file, .group = group, .index = index, .err = err};
	size_t columns = file->metadata.column_count;
	index->columns = arena_zalloc(&file->index_arena, columns * sizeof(*index->columns));
	if (!index->columns)
		return error_nomem(err);
	int r = load_window(&l);
	for (size_t c = 0; r == 0 && c < columns; c++)
		r = load_offsets(&l, c);
	if (r == 0)
		index->page_count = are_aligned(index, columns) ? index->columns[0].count : 0;
	return r;
}

/* Keeps a fault for those who read; its first one. */
static void keep_fault(struct parquet_file *file, struct parquet_group_index *index, int code, const struct error *err)
{
	if (index->fault)
		return;
	index->fault = code;
	if (err->message[0])
		index->message = arena_strndup(&file->index_arena, err->message, strlen(err->message));
}

const struct parquet_group_index *parquet_group_index(struct parquet_file *file, size_t group)
{
	assert(group < file->metadata.group_count);
	struct parquet_group_index *index = &file->indexes[group];
	if (index->loaded)
		return index;
	index->loaded = true;
	file->loaded_indexes++;
	if (have_offset_indexes(file, group)) {
		struct error err = {0};
		int r = load_group(file, group, index, &err);
		if (r < 0)
			keep_fault(file, index, r, &err);
	}
	return index;
}

void parquet_forget_index(struct parquet_file *file, size_t group)
{
	assert(group < file->metadata.group_count);
	struct parquet_group_index *index = &file->indexes[group];
	if (!index->loaded)
		return;
	*index = (struct parquet_group_index){0};
	if (--file->loaded_indexes == 0)
		arena_release(&file->index_arena);
}

int parquet_group_index_fault(const struct parquet_group_index *index, struct error *err)
{
	if (index->fault == 0)
		return 0;
	return index->message ? error_set(err, index->fault, "%s", index->message) : error_nomem(err);
}

int parquet_index_damage(struct parquet_file *file, size_t group, struct error *err)
{
	const struct parquet_group_index *index = parquet_group_index(file, group);
	return index->fault == -EBADMSG ? parquet_group_index_fault(index, err) : 0;
}

/* ---- what callers ask ---- */

size_t parquet_page_count(struct parquet_file *file, size_t group)
{
	size_t count = parquet_group_index(file, group)->page_count;
	return count ? count : 1;
}

size_t parquet_page_first_row(struct parquet_file *file, size_t group, size_t page)
{
	const struct parquet_group_index *index = parquet_group_index(file, group);
	if (page >= (index->page_count ? index->page_count : 1))
		return parquet_group_rows(file, group);
	return index->page_count ? (size_t)index->columns[0].pages[page].first_row : 0;
}

/* The bounds of a column's pages; NULL when there are none. */
static const struct parquet_index_entry *bounds_of(struct parquet_file *file, size_t group, size_t column)
{
	if (!parquet_group_index(file, group)->page_count)
		return NULL;
	struct parquet_group_index *index = &file->indexes[group];
	struct parquet_column_pages *pages = &index->columns[column];
	const struct parquet_chunk *chunk = parquet_chunk_at(&file->metadata, group, column);
	if (pages->parsed || pages->column_index.len == 0)
		return pages->bounds;
	pages->parsed = true;
	struct error err = {0};
	struct loading l = {.file = file, .group = group, .err = &err};
	size_t count = 0, hashes = parquet_hash_count(chunk);
	int r = 0;
	if (chunk->page_hashes.len && !parquet_hash_matches(chunk, hashes - 2, pages->column_index) &&
	    !parquet_correct_index(file, chunk, hashes - 2, (uint64_t)chunk->column_index_offset, pages->column_index))
		r = index_fault(&l, -EBADMSG, column, "its column index does not match its checksum");
	if (r == 0)
		r = parquet_column_index_read(pages->column_index, &file->index_arena, &pages->bounds, &count);
	if (r == 0 && count != pages->count)
		r = -EBADMSG;
	if (r == 0)
		return pages->bounds;
	pages->bounds = NULL;
	if (r == -EBADMSG && !err.message[0])
		index_fault(&l, r, column, "its column index is malformed");
	keep_fault(file, index, r, &err);
	return NULL;
}

int parquet_group_index_check(struct parquet_file *file, size_t group, struct error *err)
{
	if (parquet_group_index(file, group)->page_count)
		for (size_t c = 0; c < file->metadata.column_count; c++)
			bounds_of(file, group, c);
	return parquet_group_index_fault(parquet_group_index(file, group), err);
}

bool parquet_range_of_bounds(const struct parquet_column *column, struct bytes least, struct bytes most, int64_t *ret_min,
			     int64_t *ret_max)
{
	size_t size = column->type == PARQUET_INT64 ? 8 : 4;
	if ((column->type != PARQUET_INT32 && column->type != PARQUET_INT64) || parquet_is_unsigned(column))
		return false;
	if (least.len != size || most.len != size)
		return false;
	if (size == 8) {
		memcpy(ret_min, least.data, 8);
		memcpy(ret_max, most.data, 8);
	} else {
		int32_t min, max;
		memcpy(&min, least.data, 4);
		memcpy(&max, most.data, 4);
		*ret_min = min;
		*ret_max = max;
	}
	return true;
}

bool parquet_page_range(struct parquet_file *file, size_t group, size_t column, size_t page, int64_t *ret_min, int64_t *ret_max)
{
	assert(column < file->metadata.column_count && page < parquet_page_count(file, group));
	const struct parquet_group_index *index = parquet_group_index(file, group);
	if (!index->page_count)
		return (!index->fault || file->around_indexes) && parquet_chunk_range(file, group, column, ret_min, ret_max);
	const struct parquet_index_entry *bounds = bounds_of(file, group, column);
	if (!bounds || bounds[page].is_null)
		return false;
	return parquet_range_of_bounds(parquet_column_at(file, column), bounds[page].min, bounds[page].max, ret_min, ret_max);
}

bool parquet_page_bounds(struct parquet_file *file, size_t group, size_t column, size_t page, struct bytes *ret_min,
			 struct bytes *ret_max)
{
	assert(column < file->metadata.column_count && page < parquet_page_count(file, group));
	const struct parquet_group_index *index = parquet_group_index(file, group);
	if (parquet_column_at(file, column)->type != PARQUET_BYTE_ARRAY || index->fault)
		return false;
	if (!index->page_count) {
		struct parquet_statistics statistics;
		parquet_chunk_statistics(file, group, column, &statistics);
		*ret_min = statistics.min;
		*ret_max = statistics.max;
		return statistics.has_range;
	}
	const struct parquet_index_entry *bounds = bounds_of(file, group, column);
	if (!bounds || bounds[page].is_null)
		return false;
	*ret_min = bounds[page].min;
	*ret_max = bounds[page].max;
	return true;
}
