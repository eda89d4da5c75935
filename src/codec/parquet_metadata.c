/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parquet's footer and page headers (parquet-format/src/main/thrift/parquet.thrift), both ways.
 *
 * Only fields that something here uses are read; the rest is skipped. The schema is a tree flattened in depth-first order; the
 * reader turns it into a list of leaf columns with how many optional steps lead to each. Nothing is believed that the size of
 * the footer does not allow.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "codec/parquet_int.h"

#define SCHEMA_DEPTH_MAX 16
#define PATH_MAX_BYTES	 4096
#define CREATED_BY	 "wick version " WICK_VERSION

enum {
	CONVERTED_UTF8 = 0,
	CONVERTED_UINT_32 = 13,
	CONVERTED_UINT_64 = 14,
	CONVERTED_JSON = 19,
	LOGICAL_STRING = 1,
	LOGICAL_TIMESTAMP = 8,
	LOGICAL_INTEGER = 10,
	LOGICAL_JSON = 12,
	TIME_UNIT_NANOS = 3,
};

/* ---- reading ---- */

struct reading {
	struct thrift_reader thrift;
	struct parquet_metadata *metadata;
	int error; /* -ENOMEM, -ENOTSUP */
};

struct schema_element {
	int32_t type, type_length, repetition, children, converted;
	struct bytes name;
	enum parquet_logical logical;
};

static bool fail(struct reading *reading, const char *fault)
{
	thrift_fail(&reading->thrift, fault);
	return false;
}

static void fail_memory(struct reading *reading)
{
	reading->error = -ENOMEM;
	fail(reading, "out of memory");
}

static bool read_time_unit_is_nanos(struct thrift_reader *thrift, uint8_t type)
{
	bool nanos = false;
	struct thrift_field field = {0};
	thrift_expect_struct(thrift, type);
	while (thrift_next(thrift, &field)) {
		nanos |= field.id == TIME_UNIT_NANOS;
		thrift_skip(thrift, field.type);
	}
	return nanos;
}

static enum parquet_logical read_timestamp(struct thrift_reader *thrift)
{
	bool utc = false, nanos = false;
	struct thrift_field field = {0};
	while (thrift_next(thrift, &field)) {
		if (field.id == 1)
			utc = thrift_read_bool(thrift, field.type);
		else if (field.id == 2)
			nanos = read_time_unit_is_nanos(thrift, field.type);
		else
			thrift_skip(thrift, field.type);
	}
	return utc && nanos ? PARQUET_TIMESTAMP_NS : PARQUET_PLAIN_TYPE;
}

static enum parquet_logical read_integer(struct thrift_reader *thrift)
{
	int64_t width = 0;
	bool is_signed = true;
	struct thrift_field field = {0};
	while (thrift_next(thrift, &field)) {
		if (field.id == 1)
			width = thrift_read_int(thrift, field.type);
		else if (field.id == 2)
			is_signed = thrift_read_bool(thrift, field.type);
		else
			thrift_skip(thrift, field.type);
	}
	if (is_signed)
		return PARQUET_PLAIN_TYPE;
	return width == 64 ? PARQUET_UINT64 : PARQUET_UINT32;
}

static enum parquet_logical read_logical(struct thrift_reader *thrift, uint8_t type)
{
	enum parquet_logical logical = PARQUET_PLAIN_TYPE;
	struct thrift_field field = {0};
	thrift_expect_struct(thrift, type);
	while (thrift_next(thrift, &field)) {
		if (field.id == LOGICAL_TIMESTAMP && field.type == THRIFT_STRUCT) {
			logical = read_timestamp(thrift);
			continue;
		}
		if (field.id == LOGICAL_INTEGER && field.type == THRIFT_STRUCT) {
			logical = read_integer(thrift);
			continue;
		}
		if (field.id == LOGICAL_STRING)
			logical = PARQUET_STRING;
		if (field.id == LOGICAL_JSON)
			logical = PARQUET_JSON;
		thrift_skip(thrift, field.type);
	}
	return logical;
}

static enum parquet_logical logical_of_converted(int32_t converted)
{
	switch (converted) {
	case CONVERTED_UTF8: return PARQUET_STRING;
	case CONVERTED_JSON: return PARQUET_JSON;
	case CONVERTED_UINT_32: return PARQUET_UINT32;
	case CONVERTED_UINT_64: return PARQUET_UINT64;
	default: return PARQUET_PLAIN_TYPE;
	}
}

static void read_element(struct thrift_reader *thrift, struct schema_element *ret)
{
	*ret = (struct schema_element){.type = -1, .converted = -1};
	struct thrift_field field = {0};
	while (thrift_next(thrift, &field)) {
		switch (field.id) {
		case 1: ret->type = thrift_read_i32(thrift, field.type); break;
		case 2: ret->type_length = thrift_read_i32(thrift, field.type); break;
		case 3: ret->repetition = thrift_read_i32(thrift, field.type); break;
		case 4: ret->name = thrift_read_binary(thrift, field.type); break;
		case 5: ret->children = thrift_read_i32(thrift, field.type); break;
		case 6: ret->converted = thrift_read_i32(thrift, field.type); break;
		case 10: ret->logical = read_logical(thrift, field.type); break;
		default: thrift_skip(thrift, field.type);
		}
	}
	if (ret->logical == PARQUET_PLAIN_TYPE)
		ret->logical = logical_of_converted(ret->converted);
}

/* Where the depth-first walk is. */
struct schema_walk {
	struct {
		int32_t children_left;
		unsigned definition;
		bool repeated;
		size_t path_len;
	} levels[SCHEMA_DEPTH_MAX];
	size_t depth;
	char path[PATH_MAX_BYTES];
};

static bool is_logical_for(enum parquet_logical logical, int32_t type)
{
	switch (logical) {
	case PARQUET_STRING:
	case PARQUET_JSON: return type == PARQUET_BYTE_ARRAY;
	case PARQUET_TIMESTAMP_NS:
	case PARQUET_UINT64: return type == PARQUET_INT64;
	case PARQUET_UINT32: return type == PARQUET_INT32;
	default: return true;
	}
}

static bool add_leaf(struct reading *reading, const struct schema_element *element, const char *path, unsigned definition,
		     bool repeated)
{
	struct parquet_metadata *metadata = reading->metadata;
	if (element->type < PARQUET_BOOLEAN || element->type > PARQUET_FIXED)
		return fail(reading, "a column has an unknown type");
	if (element->type == PARQUET_FIXED && (element->type_length <= 0 || element->type_length > PATH_MAX_BYTES))
		return fail(reading, "a column has an invalid type length");
	int r = array_reserve(&metadata->columns, &metadata->column_capacity, metadata->column_count + 1, PARQUET_COLUMNS_MAX);
	if (r == -E2BIG)
		return fail(reading, "too many columns");
	char *name = r < 0 ? NULL : mem_strdup(path);
	if (!name) {
		fail_memory(reading);
		return false;
	}
	metadata->columns[metadata->column_count++] = (struct parquet_schema_column){
		.column = {.name = name,
			   .type = (enum parquet_type)element->type,
			   .logical = is_logical_for(element->logical, element->type) ? element->logical : PARQUET_PLAIN_TYPE,
			   .type_length = element->type == PARQUET_FIXED   ? (uint32_t)element->type_length
					  : element->type == PARQUET_INT96 ? 12
									   : 0,
			   .optional = definition > 0},
		.repetition = element->repetition,
		.max_definition = definition,
		.repeated = repeated,
	};
	return true;
}

static bool walk_element(struct reading *reading, struct schema_walk *walk, const struct schema_element *element, bool is_root)
{
	while (walk->depth > 0 && walk->levels[walk->depth - 1].children_left == 0)
		walk->depth--;
	if (!is_root && walk->depth == 0)
		return fail(reading, "the schema has elements outside its root");
	size_t start = walk->depth ? walk->levels[walk->depth - 1].path_len : 0;
	unsigned definition = walk->depth ? walk->levels[walk->depth - 1].definition : 0;
	bool repeated = walk->depth && walk->levels[walk->depth - 1].repeated;
	size_t len = start;
	if (!is_root) {
		walk->levels[walk->depth - 1].children_left--;
		if (element->name.len == 0 || element->name.len > sizeof(walk->path) - start - 2 ||
		    memchr(element->name.data, 0, element->name.len))
			return fail(reading, "a column's name is empty, too long or holds a NUL");
		if (start)
			walk->path[len++] = '.';
		memcpy(walk->path + len, element->name.data, element->name.len);
		len += element->name.len;
		if (element->repetition < REPETITION_REQUIRED || element->repetition > REPETITION_REPEATED)
			return fail(reading, "a column has an unknown repetition");
		definition += element->repetition != REPETITION_REQUIRED;
		repeated |= element->repetition == REPETITION_REPEATED;
	}
	walk->path[len] = '\0';
	if (!is_root && element->type >= 0 && element->children == 0)
		return add_leaf(reading, element, walk->path, definition, repeated);
	if (element->children < 0 || walk->depth >= SCHEMA_DEPTH_MAX)
		return fail(reading, "the schema is malformed or nested too deeply");
	walk->levels[walk->depth].children_left = element->children;
	walk->levels[walk->depth].definition = definition;
	walk->levels[walk->depth].repeated = repeated;
	walk->levels[walk->depth].path_len = len;
	walk->depth++;
	return true;
}

static void read_schema(struct reading *reading, uint8_t type)
{
	uint8_t element_type;
	struct schema_walk walk = {.depth = 0};
	size_t count = thrift_read_list(&reading->thrift, type, &element_type);
	if (reading->metadata->column_count || element_type != THRIFT_STRUCT || count == 0) {
		fail(reading, "the schema is malformed");
		return;
	}
	for (size_t i = 0; i < count && !reading->thrift.fault; i++) {
		struct schema_element element;
		read_element(&reading->thrift, &element);
		if (!reading->thrift.fault)
			walk_element(reading, &walk, &element, i == 0);
	}
	while (walk.depth > 0 && walk.levels[walk.depth - 1].children_left == 0)
		walk.depth--;
	if (walk.depth)
		fail(reading, "the schema is missing elements");
}

static void read_statistics(struct thrift_reader *thrift, uint8_t type, struct parquet_statistics *ret)
{
	bool has_min = false, has_max = false;
	struct thrift_field field = {0};
	*ret = (struct parquet_statistics){0};
	thrift_expect_struct(thrift, type);
	/* The deprecated min and max (1, 2) are left alone: their order is not defined. */
	while (thrift_next(thrift, &field)) {
		switch (field.id) {
		case 3:
			ret->null_count = thrift_read_int(thrift, field.type);
			ret->has_null_count = true;
			break;
		case 5:
			ret->max = thrift_read_binary(thrift, field.type);
			has_max = true;
			break;
		case 6:
			ret->min = thrift_read_binary(thrift, field.type);
			has_min = true;
			break;
		default: thrift_skip(thrift, field.type);
		}
	}
	ret->has_range = has_min && has_max;
}

bool parquet_parse_hash(struct bytes text, uint64_t *ret)
{
	uint64_t hash = 0;
	bool fine = true;
	if (text.len != PARQUET_HASH_DIGITS)
		return false;
	for (size_t i = 0; i < PARQUET_HASH_DIGITS; i++) {
		/* Without a branch a digit: hashes are noise, and branches on noise are mispredicted. */
		uint8_t c = text.data[i], decimal = (uint8_t)(c - '0'), letter = (uint8_t)(c - 'a');
		fine &= (decimal < 10) | (letter < 6);
		hash = hash << 4 | (uint64_t)(uint8_t)(decimal < 10 ? decimal : letter + 10);
	}
	*ret = hash;
	return fine;
}

/* Those that are ours. */
static void read_key_values(struct thrift_reader *thrift, uint8_t type, struct parquet_chunk *ret)
{
	uint8_t element;
	size_t count = thrift_read_list(thrift, type, &element);
	if (count && element != THRIFT_STRUCT)
		thrift_fail(thrift, "key-value metadata is malformed");
	for (size_t i = 0; i < count && !thrift->fault; i++) {
		struct bytes key = {0}, value = {0};
		struct thrift_field field = {0};
		while (thrift_next(thrift, &field)) {
			if (field.id == 1)
				key = thrift_read_binary(thrift, field.type);
			else if (field.id == 2)
				value = thrift_read_binary(thrift, field.type);
			else
				thrift_skip(thrift, field.type);
		}
		if (bytes_equal_string(key, PARQUET_CHUNK_HASH_KEY))
			ret->has_hash = parquet_parse_hash(value, &ret->hash);
		else if (bytes_equal_string(key, PARQUET_PAGE_HASH_KEY))
			ret->page_hashes = value;
	}
}

static void read_column_metadata(struct reading *reading, uint8_t type, size_t column, struct parquet_chunk *ret)
{
	struct thrift_reader *thrift = &reading->thrift;
	int32_t physical = -1;
	struct thrift_field field = {0};
	thrift_expect_struct(thrift, type);
	while (thrift_next(thrift, &field)) {
		switch (field.id) {
		case 1: physical = thrift_read_i32(thrift, field.type); break;
		case 4: ret->codec = thrift_read_i32(thrift, field.type); break;
		case 5: ret->value_count = thrift_read_int(thrift, field.type); break;
		case 6: ret->size_uncompressed = thrift_read_int(thrift, field.type); break;
		case 7: ret->size_compressed = thrift_read_int(thrift, field.type); break;
		case 8: read_key_values(thrift, field.type, ret); break;
		case 9: ret->data_offset = thrift_read_int(thrift, field.type); break;
		case 11: ret->dictionary_offset = thrift_read_int(thrift, field.type); break;
		case 12: read_statistics(thrift, field.type, &ret->statistics); break;
		default: thrift_skip(thrift, field.type);
		}
	}
	if (!thrift->fault && physical != (int32_t)reading->metadata->columns[column].column.type)
		fail(reading, "a column chunk's type is not its column's");
}

static void read_chunk(struct reading *reading, size_t column, struct parquet_chunk *ret)
{
	struct thrift_reader *thrift = &reading->thrift;
	bool has_metadata = false;
	struct thrift_field field = {0};
	while (thrift_next(thrift, &field)) {
		switch (field.id) {
		case 1:
			reading->error = -ENOTSUP;
			fail(reading, "column chunks in other files are not supported");
			break;
		case 3:
			read_column_metadata(reading, field.type, column, ret);
			has_metadata = true;
			break;
		case 4: ret->offset_index_offset = thrift_read_int(thrift, field.type); break;
		case 5: ret->offset_index_length = thrift_read_i32(thrift, field.type); break;
		case 6: ret->column_index_offset = thrift_read_int(thrift, field.type); break;
		case 7: ret->column_index_length = thrift_read_i32(thrift, field.type); break;
		default: thrift_skip(thrift, field.type);
		}
	}
	if (!thrift->fault && !has_metadata) {
		reading->error = -ENOTSUP;
		fail(reading, "a column chunk without metadata (encrypted?) is not supported");
	}
}

/* `index` is that of the group, whose chunks begin at index * columns. */
static bool read_group_columns(struct reading *reading, uint8_t type, size_t index)
{
	struct parquet_metadata *metadata = reading->metadata;
	uint8_t element;
	size_t columns = metadata->column_count, start = index * columns;
	size_t count = thrift_read_list(&reading->thrift, type, &element);
	if (!reading->thrift.fault && (count != columns || element != THRIFT_STRUCT))
		fail(reading, "a row group does not have one chunk for each column");
	if (reading->thrift.fault)
		return false;
	if (array_reserve(&metadata->chunks, &metadata->chunk_capacity, start + columns, SIZE_MAX) < 0) {
		fail_memory(reading);
		return false;
	}
	memset(metadata->chunks + start, 0, columns * sizeof(*metadata->chunks));
	for (size_t i = 0; i < columns && !reading->thrift.fault; i++)
		read_chunk(reading, i, &metadata->chunks[start + i]);
	return true;
}

static void read_group(struct reading *reading, size_t index)
{
	struct thrift_reader *thrift = &reading->thrift;
	struct thrift_field field = {0};
	struct parquet_group *group = &reading->metadata->groups[index];
	bool has_columns = false;
	while (thrift_next(thrift, &field)) {
		if (field.id == 1 && !has_columns)
			has_columns = read_group_columns(reading, field.type, index);
		else if (field.id == 3)
			group->rows = thrift_read_int(thrift, field.type);
		else
			thrift_skip(thrift, field.type);
	}
	if (!thrift->fault && (!has_columns || group->rows < 0))
		fail(reading, "a row group is incomplete");
}

static void read_groups(struct reading *reading, uint8_t type)
{
	struct parquet_metadata *metadata = reading->metadata;
	uint8_t element;
	size_t count = thrift_read_list(&reading->thrift, type, &element);
	if (count && (element != THRIFT_STRUCT || metadata->group_count || metadata->column_count == 0)) {
		fail(reading, "the row groups are malformed or come before the schema");
		return;
	}
	for (size_t i = 0; i < count && !reading->thrift.fault; i++) {
		if (array_reserve(&metadata->groups, &metadata->group_capacity, metadata->group_count + 1, SIZE_MAX) < 0) {
			fail_memory(reading);
			return;
		}
		metadata->groups[metadata->group_count] = (struct parquet_group){0};
		read_group(reading, metadata->group_count++);
	}
}

int parquet_metadata_read(struct bytes footer, const char *name, struct parquet_metadata *ret, struct error *err)
{
	struct reading reading = {.metadata = ret, .thrift = thrift_open(footer)};
	*ret = (struct parquet_metadata){0};
	struct thrift_field field = {0};
	while (thrift_next(&reading.thrift, &field)) {
		switch (field.id) {
		case 2: read_schema(&reading, field.type); break;
		case 3: ret->rows = thrift_read_int(&reading.thrift, field.type); break;
		case 4: read_groups(&reading, field.type); break;
		default: thrift_skip(&reading.thrift, field.type);
		}
	}
	int64_t rows = 0;
	for (size_t g = 0; g < ret->group_count && !reading.thrift.fault; g++)
		if (__builtin_add_overflow(rows, ret->groups[g].rows, &rows))
			fail(&reading, "too many rows");
	if (!reading.thrift.fault && (ret->column_count == 0 || rows != ret->rows))
		fail(&reading, "the number of rows is not the sum of the row groups, or there is no schema");
	if (!reading.thrift.fault)
		return 0;
	parquet_metadata_release(ret);
	if (reading.error == -ENOMEM)
		return error_nomem(err);
	if (reading.error)
		return error_set(err, reading.error, "%s: %s", name, reading.thrift.fault);
	return error_set(err, -EBADMSG, "%s: malformed footer: %s at byte %zu of it", name, reading.thrift.fault,
			 reading.thrift.at);
}

void parquet_metadata_release(struct parquet_metadata *metadata)
{
	for (size_t i = 0; i < metadata->column_count; i++)
		mem_free((void *)metadata->columns[i].column.name);
	for (size_t i = 0; i < metadata->key_value_count; i++) {
		mem_free(metadata->key_values[i].key);
		mem_free(metadata->key_values[i].value);
	}
	mem_free(metadata->columns);
	mem_free(metadata->groups);
	mem_free(metadata->chunks);
	mem_free(metadata->key_values);
	*metadata = (struct parquet_metadata){0};
}

/* ---- writing ---- */

static void write_empty_struct(struct thrift_writer *thrift, int16_t id)
{
	thrift_begin_struct(thrift, id);
	thrift_end_struct(thrift);
}

static void write_logical(struct thrift_writer *thrift, enum parquet_logical logical)
{
	static const int8_t converted[] = {[PARQUET_PLAIN_TYPE] = -1,
					   [PARQUET_STRING] = CONVERTED_UTF8,
					   [PARQUET_JSON] = CONVERTED_JSON,
					   [PARQUET_TIMESTAMP_NS] = -1, /* there is none for nanoseconds */
					   [PARQUET_UINT32] = CONVERTED_UINT_32,
					   [PARQUET_UINT64] = CONVERTED_UINT_64};
	if (converted[logical] >= 0)
		thrift_write_int(thrift, 6, THRIFT_I32, converted[logical]);
	if (logical == PARQUET_PLAIN_TYPE)
		return;
	thrift_begin_struct(thrift, 10);
	switch (logical) {
	case PARQUET_STRING: write_empty_struct(thrift, LOGICAL_STRING); break;
	case PARQUET_JSON: write_empty_struct(thrift, LOGICAL_JSON); break;
	case PARQUET_TIMESTAMP_NS:
		thrift_begin_struct(thrift, LOGICAL_TIMESTAMP);
		thrift_write_bool(thrift, 1, true);
		thrift_begin_struct(thrift, 2);
		write_empty_struct(thrift, TIME_UNIT_NANOS);
		thrift_end_struct(thrift);
		thrift_end_struct(thrift);
		break;
	default:
		thrift_begin_struct(thrift, LOGICAL_INTEGER);
		thrift_write_i8(thrift, 1, logical == PARQUET_UINT64 ? 64 : 32);
		thrift_write_bool(thrift, 2, false);
		thrift_end_struct(thrift);
	}
	thrift_end_struct(thrift);
}

static void write_schema(struct thrift_writer *thrift, const struct parquet_metadata *metadata)
{
	thrift_begin_list(thrift, 2, THRIFT_STRUCT, metadata->column_count + 1);
	thrift_begin_element(thrift);
	thrift_write_string(thrift, 4, "schema");
	thrift_write_int(thrift, 5, THRIFT_I32, (int32_t)metadata->column_count);
	thrift_end_struct(thrift);
	for (size_t i = 0; i < metadata->column_count; i++) {
		const struct parquet_column *column = &metadata->columns[i].column;
		thrift_begin_element(thrift);
		thrift_write_int(thrift, 1, THRIFT_I32, (int32_t)column->type);
		if (column->type == PARQUET_FIXED)
			thrift_write_int(thrift, 2, THRIFT_I32, (int32_t)column->type_length);
		thrift_write_int(thrift, 3, THRIFT_I32, column->optional ? REPETITION_OPTIONAL : REPETITION_REQUIRED);
		thrift_write_string(thrift, 4, column->name);
		write_logical(thrift, column->logical);
		thrift_end_struct(thrift);
	}
}

static void write_statistics(struct thrift_writer *thrift, const struct parquet_statistics *statistics)
{
	thrift_begin_struct(thrift, 12);
	if (statistics->has_null_count)
		thrift_write_int(thrift, 3, THRIFT_I64, statistics->null_count);
	if (statistics->has_range) {
		thrift_write_binary(thrift, 5, statistics->max.data, statistics->max.len);
		thrift_write_binary(thrift, 6, statistics->min.data, statistics->min.len);
		thrift_write_bool(thrift, 7, true);
		thrift_write_bool(thrift, 8, true);
	}
	thrift_end_struct(thrift);
}

static void write_chunk(struct thrift_writer *thrift, const struct parquet_column *column, const struct parquet_chunk *chunk)
{
	thrift_begin_element(thrift);
	thrift_write_int(thrift, 2, THRIFT_I64, 0); /* file_offset is deprecated: 0, as the specification asks */
	thrift_begin_struct(thrift, 3);
	thrift_write_int(thrift, 1, THRIFT_I32, (int32_t)column->type);
	thrift_begin_list(thrift, 2, THRIFT_I32, (size_t)__builtin_popcount(chunk->encodings));
	for (int encoding = 0; encoding < 32; encoding++)
		if (chunk->encodings >> encoding & 1)
			thrift_put_int(thrift, encoding);
	thrift_begin_list(thrift, 3, THRIFT_BINARY, 1);
	thrift_put_binary(thrift, column->name, strlen(column->name));
	thrift_write_int(thrift, 4, THRIFT_I32, chunk->codec);
	thrift_write_int(thrift, 5, THRIFT_I64, chunk->value_count);
	thrift_write_int(thrift, 6, THRIFT_I64, chunk->size_uncompressed);
	thrift_write_int(thrift, 7, THRIFT_I64, chunk->size_compressed);
	thrift_begin_list(thrift, 8, THRIFT_STRUCT, 1);
	thrift_begin_element(thrift);
	thrift_write_string(thrift, 1, PARQUET_PAGE_HASH_KEY);
	thrift_write_binary(thrift, 2, chunk->page_hashes.data, chunk->page_hashes.len);
	thrift_end_struct(thrift);
	thrift_write_int(thrift, 9, THRIFT_I64, chunk->data_offset);
	if (chunk->dictionary_offset)
		thrift_write_int(thrift, 11, THRIFT_I64, chunk->dictionary_offset);
	write_statistics(thrift, &chunk->statistics);
	thrift_end_struct(thrift);
	thrift_write_int(thrift, 4, THRIFT_I64, chunk->offset_index_offset);
	thrift_write_int(thrift, 5, THRIFT_I32, chunk->offset_index_length);
	if (chunk->column_index_length) {
		thrift_write_int(thrift, 6, THRIFT_I64, chunk->column_index_offset);
		thrift_write_int(thrift, 7, THRIFT_I32, chunk->column_index_length);
	}
	thrift_end_struct(thrift);
}

static int64_t chunk_offset(const struct parquet_chunk *chunk)
{
	return chunk->dictionary_offset ? chunk->dictionary_offset : chunk->data_offset;
}

static void write_group(struct thrift_writer *thrift, const struct parquet_metadata *metadata, size_t index,
			const uint32_t *sorted_by, size_t sorted_by_count)
{
	const struct parquet_group *group = &metadata->groups[index];
	int64_t uncompressed = 0, compressed = 0;
	thrift_begin_element(thrift);
	thrift_begin_list(thrift, 1, THRIFT_STRUCT, metadata->column_count);
	for (size_t i = 0; i < metadata->column_count; i++) {
		const struct parquet_chunk *chunk = parquet_chunk_at(metadata, index, i);
		write_chunk(thrift, &metadata->columns[i].column, chunk);
		uncompressed += chunk->size_uncompressed;
		compressed += chunk->size_compressed;
	}
	thrift_write_int(thrift, 2, THRIFT_I64, uncompressed);
	thrift_write_int(thrift, 3, THRIFT_I64, group->rows);
	if (sorted_by_count && !group->unsorted) {
		thrift_begin_list(thrift, 4, THRIFT_STRUCT, sorted_by_count);
		for (size_t i = 0; i < sorted_by_count; i++) {
			thrift_begin_element(thrift);
			thrift_write_int(thrift, 1, THRIFT_I32, (int32_t)sorted_by[i]);
			thrift_write_bool(thrift, 2, false);
			thrift_write_bool(thrift, 3, false);
			thrift_end_struct(thrift);
		}
	}
	thrift_write_int(thrift, 5, THRIFT_I64, chunk_offset(parquet_chunk_at(metadata, index, 0)));
	thrift_write_int(thrift, 6, THRIFT_I64, compressed);
	if (index <= INT16_MAX)
		thrift_write_int(thrift, 7, THRIFT_I16, (int16_t)index);
	thrift_end_struct(thrift);
}

int parquet_metadata_write(const struct parquet_metadata *metadata, const uint32_t *sorted_by, size_t sorted_by_count,
			   struct buffer *out)
{
	struct thrift_writer thrift = thrift_begin(out);
	thrift_write_int(&thrift, 1, THRIFT_I32, 2);
	write_schema(&thrift, metadata);
	thrift_write_int(&thrift, 3, THRIFT_I64, metadata->rows);
	thrift_begin_list(&thrift, 4, THRIFT_STRUCT, metadata->group_count);
	for (size_t i = 0; i < metadata->group_count; i++)
		write_group(&thrift, metadata, i, sorted_by, sorted_by_count);
	if (metadata->key_value_count) {
		thrift_begin_list(&thrift, 5, THRIFT_STRUCT, metadata->key_value_count);
		for (size_t i = 0; i < metadata->key_value_count; i++) {
			thrift_begin_element(&thrift);
			thrift_write_string(&thrift, 1, metadata->key_values[i].key);
			thrift_write_string(&thrift, 2, metadata->key_values[i].value);
			thrift_end_struct(&thrift);
		}
	}
	thrift_write_string(&thrift, 6, CREATED_BY);
	thrift_begin_list(&thrift, 7, THRIFT_STRUCT, metadata->column_count);
	for (size_t i = 0; i < metadata->column_count; i++) {
		thrift_begin_element(&thrift);
		write_empty_struct(&thrift, 1); /* TYPE_ORDER: what makes min_value and max_value trustworthy */
		thrift_end_struct(&thrift);
	}
	thrift_end_struct(&thrift);
	return buffer_status(out);
}
