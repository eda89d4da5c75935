/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a head as a block. The files, columns and their reasons are in docs/format.md, their order is block_order.c.
 *
 * Equal (series, stack, time, link) meet in one row. Stacks are renumbered; locations, functions and mappings keep the pool's
 * ids, and a few of them may be left that no sample needs (from refused appends): renumbering would cost more than they do.
 */
#include "store/block_write_int.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/time.h"
#include "codec/json.h"

const char *const block_file_names[BLOCK_FILE_COUNT] = {
	[BLOCK_SAMPLES] = "samples.parquet",	 [BLOCK_SERIES] = "series.parquet",   [BLOCK_STACKS] = "stacks.parquet",
	[BLOCK_LOCATIONS] = "locations.parquet", [BLOCK_LINES] = "lines.parquet",     [BLOCK_FUNCTIONS] = "functions.parquet",
	[BLOCK_MAPPINGS] = "mappings.parquet",	 [BLOCK_APPENDS] = "appends.parquet",
};

/* ---- files ---- */

int block_write_open(struct writing *writing, enum block_file file, const struct parquet_column *columns, size_t column_count,
		     const uint32_t *sorted_by, size_t sorted_by_count, struct parquet_writer **ret)
{
	char path[PATH_MAX];
	static const struct parquet_key_value key_values[] = {{"wick.block_version", "1"}};
	struct parquet_write_options options = {.columns = columns,
						.column_count = column_count,
						.sorted_by = sorted_by,
						.sorted_by_count = sorted_by_count,
						.key_values = key_values,
						.key_value_count = 1,
						.mode = 0640};
	int r = io_join_path(path, sizeof(path), writing->directory, block_file_names[file]);
	if (r < 0)
		return error_set_errno(writing->err, r, "%s", writing->directory);
	return parquet_writer_open(path, &options, ret, writing->err);
}

int block_write_finish(struct writing *writing, enum block_file file, struct parquet_writer *writer)
{
	return parquet_writer_finish(writer, &writing->meta->files[file], writing->err);
}

/* Writes a table of `count` rows whose columns `fill` provides for a range of rows. */
struct table {
	enum block_file file;
	const struct parquet_column *columns;
	size_t column_count;
	size_t rows;
	void (*fill)(struct writing *writing, void *scratch, size_t from, size_t count, struct parquet_values *ret);
	size_t scratch_row_size; /* bytes of scratch a row */
};

static const uint32_t first_column[] = {0};

static int write_table(struct writing *writing, const struct table *table)
{
	_cleanup_(parquet_writer_freep) struct parquet_writer *writer = NULL;
	size_t most = table->rows < PARQUET_GROUP_ROWS ? table->rows : PARQUET_GROUP_ROWS;
	_cleanup_(mem_freep) uint8_t *scratch = mem_alloc_array(most, table->scratch_row_size);
	struct parquet_values values[16] = {0};
	assert(table->column_count <= sizeof(values) / sizeof(*values));
	if (!scratch)
		return error_nomem(writing->err);
	int r = block_write_open(writing, table->file, table->columns, table->column_count, first_column, 1, &writer);
	for (size_t from = 0; r == 0 && from < table->rows; from += most) {
		size_t count = table->rows - from < most ? table->rows - from : most;
		table->fill(writing, scratch, from, count, values);
		r = parquet_writer_group(writer, values, count, writing->err);
	}
	return r == 0 ? block_write_finish(writing, table->file, writer) : r;
}

/* Hands out aligned columns of scratch memory. */
static void *take(uint8_t **scratch, size_t count, size_t size)
{
	void *taken = *scratch;
	*scratch += count * size;
	return taken;
}

/* ---- samples ---- */

#define SAMPLE_COLUMNS 6
static const struct parquet_column sample_columns[SAMPLE_COLUMNS] = {
	{.name = "series_id", .type = PARQUET_INT32},
	{.name = "stack_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
	{.name = "time_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
	{.name = "value", .type = PARQUET_INT64},
	/* Only when a sample has a link */
	{.name = "trace_id", .type = PARQUET_FIXED, .type_length = 16, .optional = true},
	{.name = "span_id", .type = PARQUET_FIXED, .type_length = 8, .optional = true},
};

struct sample_group {
	int32_t *series, *stacks;
	int64_t *times, *values;
	struct bytes *traces, *spans;
	uint8_t *linked;
	uint32_t *links;
	size_t count;
};

static bool is_same_row(const struct sample_group *group, int32_t series, int32_t stack, uint32_t link, int64_t time)
{
	size_t last = group->count - 1;
	return group->count && group->series[last] == series && group->stacks[last] == stack && group->times[last] == time &&
	       group->links[last] == link;
}

static void add_row(struct writing *writing, struct sample_group *group, uint32_t row)
{
	const struct head *head = writing->head;
	int32_t series = (int32_t)writing->ranks[head->series_ids[row]];
	int32_t stack = (int32_t)writing->stack_ranks[head->stacks[row]];
	uint32_t link = head->links[row];
	if (is_same_row(group, series, stack, link, head->times[row])) {
		int64_t *value = &group->values[group->count - 1];
		*value = (int64_t)((uint64_t)*value + (uint64_t)head->values[row]);
		return;
	}
	size_t at = group->count++;
	group->series[at] = series;
	group->stacks[at] = stack;
	group->times[at] = head->times[row];
	group->values[at] = head->values[row];
	group->links[at] = link;
	group->linked[at] = link != 0;
	group->traces[at] = (struct bytes){head->pool->links[link].trace_id, 16};
	group->spans[at] = (struct bytes){head->pool->links[link].span_id, 8};
}

static int write_group(struct writing *writing, struct parquet_writer *writer, struct sample_group *group)
{
	const struct parquet_values values[SAMPLE_COLUMNS] = {
		{.i32 = group->series},
		{.i32 = group->stacks},
		{.i64 = group->times},
		{.i64 = group->values},
		{.bytes = group->traces, .present = group->linked},
		{.bytes = group->spans, .present = group->linked},
	};
	int r = parquet_writer_group(writer, values, group->count, writing->err);
	writing->meta->samples += group->count;
	group->count = 0;
	return r;
}

static int write_samples(struct writing *writing)
{
	static const uint32_t sorted_by[] = {0, 2, 1};
	const struct head *head = writing->head;
	size_t n = PARQUET_GROUP_ROWS;
	_cleanup_(mem_freep) uint8_t *memory = mem_alloc_array(n, 3 * 4 + 2 * 8 + 2 * sizeof(struct bytes) + 1);
	_cleanup_(parquet_writer_freep) struct parquet_writer *writer = NULL;
	if (!memory)
		return error_nomem(writing->err);
	uint8_t *at = memory;
	struct sample_group group = {
		.times = take(&at, n, 8),
		.values = take(&at, n, 8),
		.traces = take(&at, n, sizeof(struct bytes)),
		.spans = take(&at, n, sizeof(struct bytes)),
		.series = take(&at, n, 4),
		.stacks = take(&at, n, 4),
		.links = take(&at, n, 4),
		.linked = take(&at, n, 1),
	};
	size_t columns = head->pool->link_count > 1 ? SAMPLE_COLUMNS : SAMPLE_COLUMNS - 2;
	int r = block_write_open(writing, BLOCK_SAMPLES, sample_columns, columns, sorted_by, 3, &writer);
	for (size_t i = 0; r == 0 && i < head->count; i++) {
		add_row(writing, &group, writing->rows[i]);
		if (group.count == n)
			r = write_group(writing, writer, &group);
	}
	if (r == 0)
		r = write_group(writing, writer, &group);
	return r == 0 ? block_write_finish(writing, BLOCK_SAMPLES, writer) : r;
}

/* ---- the pool's tables ---- */

static void fill_stacks(struct writing *writing, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	uint8_t *at = scratch;
	int32_t *ids = take(&at, count, 4), *parents = take(&at, count, 4), *locations = take(&at, count, 4);
	for (size_t i = 0; i < count; i++) {
		const struct profile_stack *stack = &writing->head->pool->stacks[writing->stack_ids[from + i]];
		ids[i] = (int32_t)(from + i);
		parents[i] = (int32_t)writing->stack_ranks[stack->parent];
		locations[i] = (int32_t)stack->location;
	}
	ret[0].i32 = ids;
	ret[1].i32 = parents;
	ret[2].i32 = locations;
	ret[3].bytes = writing->hashes + from;
	ret[3].present = writing->stack_used + from;
}

/* As 16 bytes, the high half first, each big-endian: the hash's usual hexadecimal form, byte by byte. */
static void put_hash_bytes(struct hash128 hash, uint8_t *out)
{
	uint64_t words[2] = {__builtin_bswap64(hash.high), __builtin_bswap64(hash.low)};
	memcpy(out, words, sizeof(words));
}

static int write_stacks(struct writing *writing)
{
	static const struct parquet_column columns[] = {
		{.name = "stack_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "parent_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "location_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "hash", .type = PARQUET_FIXED, .type_length = 16, .layout = PARQUET_PLAIN, .optional = true},
	};
	const struct profile *pool = writing->head->pool;
	_cleanup_(mem_freep) struct hash128 *hashes = mem_alloc_array(pool->stack_count, sizeof(*hashes));
	writing->hash_bytes = mem_alloc_array(writing->stack_count, 16);
	writing->hashes = mem_alloc_array(writing->stack_count, sizeof(*writing->hashes));
	if (!hashes || !writing->hash_bytes || !writing->hashes)
		return error_nomem(writing->err);
	int r = profile_hash_stacks(pool, hashes, writing->err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < writing->stack_count; i++) {
		put_hash_bytes(hashes[writing->stack_ids[i]], writing->hash_bytes + 16 * i);
		writing->hashes[i] = (struct bytes){writing->hash_bytes + 16 * i, 16};
	}
	return write_table(writing, &(struct table){BLOCK_STACKS, columns, 4, writing->stack_count, fill_stacks, 3 * 4});
}

static void fill_locations(struct writing *writing, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	uint8_t *at = scratch;
	int64_t *addresses = take(&at, count, 8);
	int32_t *ids = take(&at, count, 4), *mappings = take(&at, count, 4), *types = take(&at, count, 4);
	uint8_t *folded = take(&at, count, 1);
	const struct profile_location *locations = writing->head->pool->locations + from;
	for (size_t i = 0; i < count; i++) {
		ids[i] = (int32_t)(from + i);
		mappings[i] = (int32_t)locations[i].mapping;
		addresses[i] = (int64_t)locations[i].address;
		types[i] = (int32_t)locations[i].frame_type;
		folded[i] = locations[i].folded;
	}
	ret[0].i32 = ids;
	ret[1].i32 = mappings;
	ret[2].i64 = addresses;
	ret[3].i32 = types;
	ret[4].booleans = folded;
}

static int write_locations(struct writing *writing)
{
	static const struct parquet_column columns[] = {
		{.name = "location_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "mapping_id", .type = PARQUET_INT32},
		{.name = "address", .type = PARQUET_INT64, .logical = PARQUET_UINT64, .layout = PARQUET_DELTA},
		{.name = "frame_type", .type = PARQUET_INT32},
		{.name = "folded", .type = PARQUET_BOOLEAN},
	};
	return write_table(writing, &(struct table){BLOCK_LOCATIONS, columns, 5, writing->head->pool->location_count,
						    fill_locations, 8 + 3 * 4 + 1});
}

static void fill_lines(struct writing *writing, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	uint8_t *at = scratch;
	int64_t *numbers = take(&at, count, 8), *columns = take(&at, count, 8);
	int32_t *functions = take(&at, count, 4);
	const struct profile *pool = writing->head->pool;
	const int32_t *locations = writing->line_locations + from, *positions = writing->line_positions + from;
	for (size_t i = 0; i < count; i++) {
		const struct profile_line *line =
			&pool->lines[pool->locations[locations[i]].line_first + (uint32_t)positions[i]];
		functions[i] = (int32_t)line->function;
		numbers[i] = line->line;
		columns[i] = line->column;
	}
	ret[0].i32 = locations;
	ret[1].i32 = positions;
	ret[2].i32 = functions;
	ret[3].i64 = numbers;
	ret[4].i64 = columns;
}

static int write_lines(struct writing *writing)
{
	static const struct parquet_column columns[] = {
		{.name = "location_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "position", .type = PARQUET_INT32},
		{.name = "function_id", .type = PARQUET_INT32},
		{.name = "line_number", .type = PARQUET_INT64},
		{.name = "column_number", .type = PARQUET_INT64},
	};
	const struct profile *pool = writing->head->pool;
	size_t at = 0;
	writing->line_locations = mem_alloc_array(pool->line_count, sizeof(*writing->line_locations));
	writing->line_positions = mem_alloc_array(pool->line_count, sizeof(*writing->line_positions));
	if (!writing->line_locations || !writing->line_positions)
		return error_nomem(writing->err);
	for (size_t l = 0; l < pool->location_count; l++) {
		for (uint32_t i = 0; i < pool->locations[l].line_count; i++, at++) {
			writing->line_locations[at] = (int32_t)l;
			writing->line_positions[at] = (int32_t)i;
		}
	}
	assert(at == pool->line_count);
	return write_table(writing, &(struct table){BLOCK_LINES, columns, 5, pool->line_count, fill_lines, 2 * 8 + 4});
}

static void fill_functions(struct writing *writing, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	uint8_t *at = scratch;
	struct bytes *names = take(&at, count, sizeof(*names)), *system_names = take(&at, count, sizeof(*names));
	struct bytes *file_names = take(&at, count, sizeof(*names));
	int64_t *start_lines = take(&at, count, 8);
	int32_t *ids = take(&at, count, 4);
	const struct profile *pool = writing->head->pool;
	for (size_t i = 0; i < count; i++) {
		const struct profile_function *function = &pool->functions[from + i];
		ids[i] = (int32_t)(from + i);
		names[i] = profile_string_bytes(pool, function->name);
		system_names[i] = profile_string_bytes(pool, function->system_name);
		file_names[i] = profile_string_bytes(pool, function->file_name);
		start_lines[i] = function->start_line;
	}
	ret[0].i32 = ids;
	ret[1].bytes = names;
	ret[2].bytes = system_names;
	ret[3].bytes = file_names;
	ret[4].i64 = start_lines;
}

static int write_functions(struct writing *writing)
{
	static const struct parquet_column columns[] = {
		{.name = "function_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
		{.name = "system_name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
		{.name = "file_name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
		{.name = "start_line", .type = PARQUET_INT64},
	};
	return write_table(writing, &(struct table){BLOCK_FUNCTIONS, columns, 5, writing->head->pool->function_count,
						    fill_functions, 3 * sizeof(struct bytes) + 8 + 4});
}

static void fill_mappings(struct writing *writing, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	uint8_t *at = scratch;
	struct bytes *file_names = take(&at, count, sizeof(*file_names)), *build_ids = take(&at, count, sizeof(*file_names));
	int64_t *starts = take(&at, count, 8), *limits = take(&at, count, 8), *offsets = take(&at, count, 8);
	int32_t *ids = take(&at, count, 4), *flags = take(&at, count, 4);
	const struct profile *pool = writing->head->pool;
	for (size_t i = 0; i < count; i++) {
		const struct profile_mapping *mapping = &pool->mappings[from + i];
		ids[i] = (int32_t)(from + i);
		starts[i] = (int64_t)mapping->start;
		limits[i] = (int64_t)mapping->limit;
		offsets[i] = (int64_t)mapping->offset;
		file_names[i] = profile_string_bytes(pool, mapping->file_name);
		build_ids[i] = profile_string_bytes(pool, mapping->build_id);
		flags[i] = (int32_t)mapping->flags;
	}
	ret[0].i32 = ids;
	ret[1].i64 = starts;
	ret[2].i64 = limits;
	ret[3].i64 = offsets;
	ret[4].bytes = file_names;
	ret[5].bytes = build_ids;
	ret[6].i32 = flags;
}

static int write_mappings(struct writing *writing)
{
	static const struct parquet_column columns[] = {
		{.name = "mapping_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "memory_start", .type = PARQUET_INT64, .logical = PARQUET_UINT64},
		{.name = "memory_limit", .type = PARQUET_INT64, .logical = PARQUET_UINT64},
		{.name = "file_offset", .type = PARQUET_INT64, .logical = PARQUET_UINT64},
		{.name = "file_name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
		{.name = "build_id", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
		{.name = "flags", .type = PARQUET_INT32},
	};
	return write_table(writing, &(struct table){BLOCK_MAPPINGS, columns, 7, writing->head->pool->mapping_count,
						    fill_mappings, 2 * sizeof(struct bytes) + 3 * 8 + 2 * 4});
}

static void fill_appends(struct writing *writing, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	uint8_t *at = scratch;
	struct bytes *ids = take(&at, count, sizeof(*ids));
	int64_t *sequences = take(&at, count, 8);
	const struct head_append *appends = writing->head->appends + from;
	for (size_t i = 0; i < count; i++) {
		ids[i] = (struct bytes){appends[i].id, STORE_ID_SIZE};
		sequences[i] = (int64_t)appends[i].sequence;
	}
	ret[0].i64 = sequences;
	ret[1].bytes = ids;
}

static int write_appends(struct writing *writing)
{
	static const struct parquet_column columns[] = {
		{.name = "sequence", .type = PARQUET_INT64, .layout = PARQUET_DELTA},
		{.name = "id", .type = PARQUET_FIXED, .type_length = STORE_ID_SIZE, .layout = PARQUET_PLAIN},
	};
	return write_table(writing, &(struct table){BLOCK_APPENDS, columns, 2, writing->head->append_count, fill_appends,
						    sizeof(struct bytes) + 8});
}

/* ---- the block ---- */

static int write_files(struct writing *writing)
{
	static int (*const steps[])(struct writing *) = {
		block_order_series, block_write_series, block_order_stacks, block_order_samples, write_samples, write_stacks,
		write_locations,    write_lines,	write_functions,    write_mappings,	 write_appends,
	};
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(steps) / sizeof(*steps); i++)
		r = steps[i](writing);
	return r;
}

static void release_writing(struct writing *writing)
{
	mem_free(writing->order);
	mem_free(writing->ranks);
	mem_free(writing->stack_ids);
	mem_free(writing->stack_ranks);
	mem_free(writing->stack_used);
	mem_free(writing->rows);
	mem_free(writing->keys);
	mem_free(writing->spare);
	mem_free(writing->hashes);
	mem_free(writing->hash_bytes);
	mem_free(writing->line_locations);
	mem_free(writing->line_positions);
}

int block_write(struct head *head, const char *directory, struct block_meta *ret, struct error *err)
{
	struct writing writing = {.head = head, .directory = directory, .meta = ret, .err = err};
	assert(head->count > 0);
	*ret = (struct block_meta){
		.created_ns = time_now_ns(),
		.min_ns = head->min_ns,
		.max_ns = head->max_ns,
		.last_sequence = head->last_sequence,
	};
	snprintf(ret->name, sizeof(ret->name), "%019" PRId64 "-%010" PRIu64, ret->min_ns, ret->last_sequence);
	int r = write_files(&writing);
	ret->series = writing.series_count;
	release_writing(&writing);
	if (r == 0)
		r = block_meta_write(directory, ret, err);
	return r < 0 ? r : io_sync_dir(directory, err);
}

/* ---- metadata ---- */

static void put_hash(struct json_writer *json, const char *key, uint64_t hash)
{
	char text[17];
	snprintf(text, sizeof(text), "%016" PRIx64, hash);
	json_key(json, key);
	json_string(json, text);
}

static void put_meta(struct json_writer *json, const struct block_meta *meta)
{
	json_begin_object(json);
	json_key(json, "format");
	json_string(json, "wick block");
	json_key(json, "version");
	json_int(json, BLOCK_VERSION);
	json_key(json, "name");
	json_string(json, meta->name);
	json_key(json, "created_ns");
	json_int(json, meta->created_ns);
	json_key(json, "min_ns");
	json_int(json, meta->min_ns);
	json_key(json, "max_ns");
	json_int(json, meta->max_ns);
	json_key(json, "last_sequence");
	json_uint(json, meta->last_sequence);
	json_key(json, "samples");
	json_uint(json, meta->samples);
	json_key(json, "series");
	json_uint(json, meta->series);
	json_key(json, "files");
	json_begin_array(json);
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++) {
		json_begin_object(json);
		json_key(json, "name");
		json_string(json, block_file_names[i]);
		json_key(json, "bytes");
		json_uint(json, meta->files[i].size);
		json_key(json, "rows");
		json_uint(json, meta->files[i].rows);
		put_hash(json, "footer_xxh3", meta->files[i].footer_hash);
		json_end_object(json);
	}
	json_end_array(json);
	json_end_object(json);
}

/* The checksum covers all bytes before its own key. */
int block_meta_write(const char *directory, const struct block_meta *meta, struct error *err)
{
	char path[PATH_MAX];
	_cleanup_(buffer_release) struct buffer text;
	struct json_writer json;
	buffer_init(&text, BLOCK_META_MAX);
	json_init(&json, &text);
	put_meta(&json, meta);
	int r = json_finish(&json, err);
	if (r < 0)
		return r;
	text.len--; /* the closing brace */
	r = buffer_printf(&text, ",\"checksum\":\"%016" PRIx64 "\"}\n", hash64(text.data, text.len));
	if (r < 0)
		return error_nomem(err);
	r = io_join_path(path, sizeof(path), directory, "meta.json");
	return r < 0 ? error_set_errno(err, r, "%s", directory) : io_write_file(path, text.data, text.len, 0640, err);
}
