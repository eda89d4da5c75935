/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings as codes: what a query that filters or groups by a column of strings wants is one comparison a distinct value, not
 * one a row, and no pointer a row.
 *
 * A dictionary page gives the values; its indexes are the codes, but for files whose writer lets a value occur twice, so each
 * entry is looked up once and the indexes go through the dictionary of codes that results, which costs what decoding any
 * dictionary costs. Pages without a dictionary have their values looked up row by row, and only new ones are copied.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "codec/parquet_file.h"

void parquet_codes_release(struct parquet_codes *codes)
{
	mem_free(codes->codes);
	mem_free(codes->values);
	arena_release(&codes->storage);
	index32_release(&codes->index);
	parquet_data_release(&codes->work);
	*codes = (struct parquet_codes){0};
}

/* The code of a value; `copy` when it has to be kept. */
static int intern(struct parquet_chunk_reader *reader, struct bytes value, bool copy, uint32_t *ret)
{
	struct parquet_codes *codes = reader->codes;
	uint64_t hash = hash64_guarded(value.data, value.len);
	uint32_t id;
	for (size_t at = index32_first(&codes->index, hash); index32_at(&codes->index, hash, &at, &id); at++) {
		if (bytes_equal(codes->values[id], value)) {
			*ret = id;
			return 0;
		}
	}
	id = (uint32_t)codes->value_count;
	if (array_reserve(&codes->values, &codes->value_capacity, codes->value_count + 1, PARQUET_CODE_NULL) < 0)
		return error_nomem(reader->err);
	if (copy) {
		const char *kept = arena_strndup(&codes->storage, (const char *)value.data, value.len);
		if (!kept)
			return arena_is_full(&codes->storage, value.len) ? parquet_chunk_too_large(reader)
									 : error_nomem(reader->err);
		value.data = (const uint8_t *)kept;
	}
	if (index32_add(&codes->index, hash, id) < 0)
		return error_nomem(reader->err);
	codes->values[codes->value_count++] = value;
	*ret = id;
	return 0;
}

int parquet_codes_dictionary(struct parquet_chunk_reader *reader)
{
	struct bytes *strings = reader->data->dictionary;
	uint32_t *codes = reader->data->dictionary; /* in place: a code is shorter than a view */
	for (size_t i = 0; i < reader->data->dictionary_count; i++) {
		uint32_t code;
		int r = intern(reader, strings[i], false, &code);
		if (r < 0)
			return r;
		codes[i] = code;
	}
	return 0;
}

int parquet_codes_plain(struct parquet_chunk_reader *reader, struct bytes input, size_t count, uint32_t *out)
{
	size_t at = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t len;
		if (input.len - at < 4)
			return parquet_chunk_corrupt(reader, "a page ends inside a value");
		memcpy(&len, input.data + at, 4);
		at += 4;
		if (len > input.len - at)
			return parquet_chunk_corrupt(reader, "a page ends inside a value");
		int r = intern(reader, (struct bytes){input.data + at, len}, true, &out[i]);
		if (r < 0)
			return r;
		at += len;
	}
	return 0;
}

int parquet_read_codes(struct parquet_file *file, size_t group, size_t column, struct parquet_codes *ret, struct error *err)
{
	struct parquet_chunk_reader reader;
	int r = parquet_chunk_reader_open(file, group, column, &ret->work, &reader, err);
	if (r < 0)
		return r;
	if (reader.schema->column.type != PARQUET_BYTE_ARRAY)
		return error_set(err, -ENOTSUP, "column %s of %s holds no strings and cannot be read as dictionary codes",
				 reader.schema->column.name, file->name);
	arena_release(&ret->storage);
	arena_init(&ret->storage, file->memory_max);
	index32_clear(&ret->index);
	ret->value_count = 0;
	reader.codes = ret;
	reader.dictionary_arena = &ret->storage;
	r = parquet_chunk_decode(&reader);
	ret->count = r == 0 ? ret->work.count : 0;
	return r;
}
