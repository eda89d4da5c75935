/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a head as a block. The files, columns and their reasons are in docs/format.md; this is how they come about.
 *
 * Series get new ids in the order of type, service and labels, so that what is asked for together lies together. Samples are
 * sorted by (series, time, stack): distributed to their series by counting, which keeps the order of arrival, then sorted by
 * time inside a series only where late data makes it necessary, then by stack inside one time. Equal (series, time, stack,
 * link) meet in one row.
 *
 * The pool's ids become the block's ids as they are. A few entries may be left that no sample uses (from refused appends);
 * renumbering would cost more than they do.
 */
#include "store/block.h"

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

struct writing {
	struct head *head;
	const char *directory;
	struct block_meta *meta;
	struct error *err;
	uint32_t *order; /* head's series ids in block order */
	uint32_t *ranks; /* head's series id -> block's series id */
	size_t series_count;
	uint32_t *rows; /* sample indexes in block order */
	uint64_t *keys; /* scratch of the sort */
	uint64_t *spare;
	uint8_t *stack_used;
};

/* ---- files ---- */

static int open_file(struct writing *writing, enum block_file file, const struct parquet_column *columns, size_t column_count,
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

static int finish_file(struct writing *writing, enum block_file file, struct parquet_writer *writer)
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
	int r = open_file(writing, table->file, table->columns, table->column_count, first_column, 1, &writer);
	for (size_t from = 0; r == 0 && from < table->rows; from += most) {
		size_t count = table->rows - from < most ? table->rows - from : most;
		table->fill(writing, scratch, from, count, values);
		r = parquet_writer_group(writer, values, count, writing->err);
	}
	return r == 0 ? finish_file(writing, table->file, writer) : r;
}

/* Hands out aligned columns of scratch memory. */
static void *take(uint8_t **scratch, size_t count, size_t size)
{
	void *taken = *scratch;
	*scratch += count * size;
	return taken;
}

/* ---- order of series and samples ---- */

static int compare_order(const void *a, const void *b, void *context)
{
	const struct head *head = context;
	return series_compare(&head->series[*(const uint32_t *)a], &head->series[*(const uint32_t *)b]);
}

static int order_series(struct writing *writing)
{
	const struct head *head = writing->head;
	writing->order = mem_alloc_array(head->series_count, sizeof(*writing->order));
	writing->ranks = mem_zalloc_array(head->series_count, sizeof(*writing->ranks));
	if (!writing->order || !writing->ranks)
		return error_nomem(writing->err);
	for (size_t i = 0; i < head->series_count; i++)
		if (head->series[i].samples)
			writing->order[writing->series_count++] = (uint32_t)i;
	if (writing->series_count)
		qsort_r(writing->order, writing->series_count, sizeof(*writing->order), compare_order, writing->head);
	for (size_t i = 0; i < writing->series_count; i++)
		writing->ranks[writing->order[i]] = (uint32_t)i;
	return 0;
}

/* Sorts by the upper 32 bits, keeping the order of equal ones; both arrays have count entries. The result is in `keys`. */
static void sort_by_high(uint64_t *keys, uint64_t *spare, size_t count)
{
	if (count < 32) {
		for (size_t i = 1; i < count; i++) {
			uint64_t key = keys[i];
			size_t at = i;
			for (; at > 0 && keys[at - 1] >> 32 > key >> 32; at--)
				keys[at] = keys[at - 1];
			keys[at] = key;
		}
		return;
	}
	for (unsigned shift = 32; shift < 64; shift += 8) {
		size_t starts[257] = {0};
		for (size_t i = 0; i < count; i++)
			starts[(keys[i] >> shift & 255) + 1]++;
		bool all_same = starts[(keys[0] >> shift & 255) + 1] == count;
		if (all_same)
			continue;
		for (size_t i = 1; i < 257; i++)
			starts[i] += starts[i - 1];
		for (size_t i = 0; i < count; i++)
			spare[starts[keys[i] >> shift & 255]++] = keys[i];
		memcpy(keys, spare, count * sizeof(*keys));
	}
}

static int compare_times(const void *a, const void *b, void *context)
{
	const struct head *head = context;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	if (head->times[x] != head->times[y])
		return head->times[x] < head->times[y] ? -1 : 1;
	return (x > y) - (x < y);
}

static void sort_one_time(struct writing *writing, uint32_t *rows, size_t count)
{
	const struct head *head = writing->head;
	for (size_t i = 0; i < count; i++)
		writing->keys[i] = (uint64_t)head->stacks[rows[i]] << 32 | rows[i];
	sort_by_high(writing->keys, writing->spare, count);
	for (size_t i = 0; i < count; i++)
		rows[i] = (uint32_t)writing->keys[i];
}

static void sort_one_series(struct writing *writing, uint32_t *rows, size_t count)
{
	const struct head *head = writing->head;
	bool sorted = true;
	for (size_t i = 1; i < count && sorted; i++)
		sorted = head->times[rows[i - 1]] <= head->times[rows[i]];
	if (!sorted)
		qsort_r(rows, count, sizeof(*rows), compare_times, writing->head);
	for (size_t from = 0, to; from < count; from = to) {
		for (to = from + 1; to < count && head->times[rows[to]] == head->times[rows[from]]; to++)
			;
		if (to - from > 1)
			sort_one_time(writing, rows + from, to - from);
	}
}

static int order_samples(struct writing *writing)
{
	const struct head *head = writing->head;
	_cleanup_(mem_freep) size_t *starts = mem_zalloc_array(writing->series_count + 1, sizeof(*starts));
	writing->rows = mem_alloc_array(head->count, sizeof(*writing->rows));
	writing->keys = mem_alloc_array(head->count, sizeof(*writing->keys));
	writing->spare = mem_alloc_array(head->count, sizeof(*writing->spare));
	if (!starts || !writing->rows || !writing->keys || !writing->spare)
		return error_nomem(writing->err);
	for (size_t i = 0; i < head->count; i++)
		starts[writing->ranks[head->series_ids[i]] + 1]++;
	for (size_t i = 1; i <= writing->series_count; i++)
		starts[i] += starts[i - 1];
	for (size_t i = 0; i < head->count; i++)
		writing->rows[starts[writing->ranks[head->series_ids[i]]]++] = (uint32_t)i;
	/* starts[s] is where series s ends now */
	for (size_t s = 0, from = 0; s < writing->series_count; from = starts[s++])
		sort_one_series(writing, writing->rows + from, starts[s] - from);
	return 0;
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
	int32_t series = (int32_t)writing->ranks[head->series_ids[row]], stack = (int32_t)head->stacks[row];
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
	writing->stack_used[stack] = 1;
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
	int r = open_file(writing, BLOCK_SAMPLES, sample_columns, columns, sorted_by, 3, &writer);
	for (size_t i = 0; r == 0 && i < head->count; i++) {
		add_row(writing, &group, writing->rows[i]);
		if (group.count == n)
			r = write_group(writing, writer, &group);
	}
	if (r == 0)
		r = write_group(writing, writer, &group);
	return r == 0 ? finish_file(writing, BLOCK_SAMPLES, writer) : r;
}

/* ---- the pool's tables ---- */

static void fill_stacks(struct writing *writing, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	uint8_t *at = scratch;
	struct bytes *hashes = take(&at, count, sizeof(*hashes));
	int32_t *ids = take(&at, count, 4), *parents = take(&at, count, 4), *locations = take(&at, count, 4);
	const struct profile_stack *stacks = writing->head->pool->stacks + from;
	for (size_t i = 0; i < count; i++) {
		ids[i] = (int32_t)(from + i);
		parents[i] = (int32_t)stacks[i].parent;
		locations[i] = (int32_t)stacks[i].location;
		/* keys holds the hashes by now */
		hashes[i] = (struct bytes){(const uint8_t *)(writing->keys + 2 * (from + i)), 16};
	}
	ret[0].i32 = ids;
	ret[1].i32 = parents;
	ret[2].i32 = locations;
	ret[3].bytes = hashes;
	ret[3].present = writing->stack_used + from;
}

/* The hash as 16 bytes, the high half first, each big-endian: its usual hexadecimal form, byte by byte. */
static void canonical_hash(struct hash128 hash, uint64_t ret[2])
{
	ret[0] = __builtin_bswap64(hash.high);
	ret[1] = __builtin_bswap64(hash.low);
}

static int write_stacks(struct writing *writing)
{
	static const struct parquet_column columns[] = {
		{.name = "stack_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "parent_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "location_id", .type = PARQUET_INT32},
		{.name = "hash", .type = PARQUET_FIXED, .type_length = 16, .layout = PARQUET_PLAIN, .optional = true},
	};
	const struct profile *pool = writing->head->pool;
	_cleanup_(mem_freep) struct hash128 *hashes = mem_alloc_array(pool->stack_count, sizeof(*hashes));
	uint64_t *canonical = mem_alloc_array(pool->stack_count, 2 * sizeof(*canonical));
	mem_free(writing->keys);
	writing->keys = canonical;
	if (!hashes || !canonical)
		return error_nomem(writing->err);
	int r = profile_hash_stacks(pool, hashes, writing->err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < pool->stack_count; i++)
		canonical_hash(hashes[i], canonical + 2 * i);
	return write_table(writing, &(struct table){BLOCK_STACKS, columns, 4, pool->stack_count, fill_stacks,
						    3 * 4 + sizeof(struct bytes)});
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

/* The pool stores the lines of its locations one after the other, in the order of the locations. */

static void fill_lines(struct writing *writing, void *scratch, size_t from, size_t count, struct parquet_values *ret)
{
	uint8_t *at = scratch;
	int64_t *numbers = take(&at, count, 8), *columns = take(&at, count, 8);
	int32_t *functions = take(&at, count, 4);
	/* rows holds (location, position) by now */
	const struct profile *pool = writing->head->pool;
	int32_t *locations = (int32_t *)writing->rows + from;
	int32_t *positions = (int32_t *)writing->rows + pool->line_count + from;
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
	uint32_t *rows = mem_alloc_array(pool->line_count, 2 * sizeof(*rows));
	mem_free(writing->rows);
	writing->rows = rows;
	if (!rows)
		return error_nomem(writing->err);
	size_t at = 0;
	for (size_t l = 0; l < pool->location_count; l++) {
		for (uint32_t i = 0; i < pool->locations[l].line_count; i++, at++) {
			rows[at] = (uint32_t)l;
			rows[pool->line_count + at] = i;
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

/* ---- series ---- */

#define SERIES_COLUMNS 13 /* before the columns of labels */
static const struct parquet_column series_columns[SERIES_COLUMNS] = {
	{.name = "series_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
	{.name = "name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
	{.name = "sample_type", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
	{.name = "sample_unit", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
	{.name = "period_type", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
	{.name = "period_unit", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
	{.name = "delta", .type = PARQUET_BOOLEAN},
	{.name = "period", .type = PARQUET_INT64},
	{.name = "samples", .type = PARQUET_INT64},
	{.name = "total", .type = PARQUET_INT64},
	{.name = "first_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
	{.name = "last_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
	{.name = "labels", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_JSON, .optional = true},
};

struct label_name {
	const char *name;
	size_t series;
	size_t column; /* among the label columns, or SIZE_MAX */
};
struct label_names {
	struct label_name *items; /* sorted by name */
	size_t count, capacity, columns;
};

static size_t find_label_name(const struct label_names *names, const char *name)
{
	size_t low = 0, high = names->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(names->items[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int compare_label_use(const void *a, const void *b)
{
	const struct label_name *x = *(struct label_name *const *)a, *y = *(struct label_name *const *)b;
	if (x->series != y->series)
		return x->series > y->series ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* The most frequent names get columns, which then are in the order of names. */
static int choose_columns(struct label_names *names)
{
	_cleanup_(mem_freep) struct label_name **by_use = mem_alloc_array(names->count, sizeof(*by_use));
	if (!by_use)
		return -ENOMEM;
	for (size_t i = 0; i < names->count; i++) {
		by_use[i] = &names->items[i];
		names->items[i].column = SIZE_MAX;
	}
	if (names->count)
		qsort(by_use, names->count, sizeof(*by_use), compare_label_use);
	for (size_t i = 0; i < names->count && i < BLOCK_LABEL_COLUMNS; i++)
		by_use[i]->column = 0;
	for (size_t i = 0; i < names->count; i++)
		if (names->items[i].column == 0)
			names->items[i].column = names->columns++;
	return 0;
}

static int collect_label_names(const struct writing *writing, struct label_names *ret)
{
	for (size_t s = 0; s < writing->series_count; s++) {
		const struct labels *labels = writing->head->series[writing->order[s]].labels;
		for (size_t i = 0; i < labels->count; i++) {
			const char *name = labels->items[i].name;
			size_t at = find_label_name(ret, name);
			if (at < ret->count && !strcmp(ret->items[at].name, name)) {
				ret->items[at].series++;
				continue;
			}
			if (array_reserve(&ret->items, &ret->capacity, ret->count + 1, SIZE_MAX) < 0)
				return -ENOMEM;
			memmove(ret->items + at + 1, ret->items + at, (ret->count - at) * sizeof(*ret->items));
			ret->items[at] = (struct label_name){.name = name, .series = 1};
			ret->count++;
		}
	}
	return choose_columns(ret);
}

/* One row group of series, column by column. */
struct series_group {
	int32_t *ids;
	struct bytes *parts[5];
	uint8_t *deltas, *has_rest;
	int64_t *numbers[5];
	struct bytes *rest;
	struct bytes *labels[BLOCK_LABEL_COLUMNS];
	uint8_t *has_label[BLOCK_LABEL_COLUMNS];
	struct arena arena; /* everything, also the JSON text */
};

static int allocate_group(struct series_group *group, size_t rows, size_t label_columns)
{
	struct arena *arena = &group->arena;
	bool fine = (group->ids = arena_alloc(arena, rows * sizeof(*group->ids)));
	fine &= (group->deltas = arena_alloc(arena, rows)) != NULL;
	fine &= (group->has_rest = arena_zalloc(arena, rows)) != NULL;
	fine &= (group->rest = arena_zalloc(arena, rows * sizeof(*group->rest))) != NULL;
	for (size_t i = 0; i < 5; i++) {
		fine &= (group->parts[i] = arena_alloc(arena, rows * sizeof(struct bytes))) != NULL;
		fine &= (group->numbers[i] = arena_alloc(arena, rows * sizeof(int64_t))) != NULL;
	}
	for (size_t i = 0; i < label_columns; i++) {
		fine &= (group->labels[i] = arena_zalloc(arena, rows * sizeof(struct bytes))) != NULL;
		fine &= (group->has_label[i] = arena_zalloc(arena, rows)) != NULL;
	}
	return fine ? 0 : -ENOMEM;
}

/* The labels that have no column, as a JSON object. */
static int put_rest(struct series_group *group, size_t row, const struct labels *labels, const struct label_names *names)
{
	_cleanup_(buffer_release) struct buffer text;
	struct json_writer json;
	buffer_init(&text, SIZE_MAX);
	json_init(&json, &text);
	json_begin_object(&json);
	for (size_t i = 0; i < labels->count; i++) {
		if (names->items[find_label_name(names, labels->items[i].name)].column != SIZE_MAX)
			continue;
		json_key(&json, labels->items[i].name);
		json_string(&json, labels->items[i].value);
	}
	json_end_object(&json);
	if (json_finish(&json, NULL) < 0)
		return -ENOMEM;
	char *copy = arena_strndup(&group->arena, (const char *)text.data, text.len);
	if (!copy)
		return -ENOMEM;
	group->rest[row] = (struct bytes){(uint8_t *)copy, text.len};
	group->has_rest[row] = 1;
	return 0;
}

static int put_series(struct series_group *group, size_t row, size_t id, const struct series *series,
		      const struct label_names *names)
{
	const struct profile_type *type = series->type;
	const char *const parts[] = {type->name, type->sample_type, type->sample_unit, type->period_type, type->period_unit};
	const int64_t numbers[] = {series->period, (int64_t)series->samples, series->total, series->first_ns, series->last_ns};
	size_t without_column = 0;
	group->ids[row] = (int32_t)id;
	group->deltas[row] = type->delta;
	for (size_t i = 0; i < 5; i++) {
		group->parts[i][row] = bytes_of_string(parts[i]);
		group->numbers[i][row] = numbers[i];
	}
	for (size_t i = 0; i < series->labels->count; i++) {
		const struct label *label = &series->labels->items[i];
		size_t column = names->items[find_label_name(names, label->name)].column;
		if (column == SIZE_MAX) {
			without_column++;
			continue;
		}
		group->labels[column][row] = bytes_of_string(label->value);
		group->has_label[column][row] = 1;
	}
	return without_column ? put_rest(group, row, series->labels, names) : 0;
}

static int write_series_group(struct writing *writing, struct parquet_writer *writer, const struct label_names *names,
			      size_t from, size_t count)
{
	struct series_group group;
	struct parquet_values values[SERIES_COLUMNS + BLOCK_LABEL_COLUMNS] = {0};
	arena_init(&group.arena, SIZE_MAX);
	int r = allocate_group(&group, count, names->columns);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = put_series(&group, i, from + i, &writing->head->series[writing->order[from + i]], names);
	if (r < 0) {
		arena_release(&group.arena);
		return error_nomem(writing->err);
	}
	values[0].i32 = group.ids;
	values[6].booleans = group.deltas;
	for (size_t i = 0; i < 5; i++) {
		values[1 + i].bytes = group.parts[i];
		values[7 + i].i64 = group.numbers[i];
	}
	values[12] = (struct parquet_values){.bytes = group.rest, .present = group.has_rest};
	for (size_t i = 0; i < names->columns; i++)
		values[SERIES_COLUMNS + i] = (struct parquet_values){.bytes = group.labels[i], .present = group.has_label[i]};
	r = parquet_writer_group(writer, values, count, writing->err);
	arena_release(&group.arena);
	return r;
}

static int write_series_rows(struct writing *writing, const struct label_names *names)
{
	char column_names[BLOCK_LABEL_COLUMNS][sizeof(BLOCK_LABEL_PREFIX) + 256];
	struct parquet_column columns[SERIES_COLUMNS + BLOCK_LABEL_COLUMNS];
	_cleanup_(parquet_writer_freep) struct parquet_writer *writer = NULL;
	memcpy(columns, series_columns, sizeof(series_columns));
	for (size_t i = 0; i < names->count; i++) {
		size_t column = names->items[i].column;
		if (column == SIZE_MAX)
			continue;
		snprintf(column_names[column], sizeof(column_names[column]), BLOCK_LABEL_PREFIX "%s", names->items[i].name);
		columns[SERIES_COLUMNS + column] = (struct parquet_column){
			.name = column_names[column], .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING, .optional = true};
	}
	int r = open_file(writing, BLOCK_SERIES, columns, SERIES_COLUMNS + names->columns, first_column, 1, &writer);
	for (size_t from = 0; r == 0 && from < writing->series_count; from += PARQUET_GROUP_ROWS) {
		size_t left = writing->series_count - from;
		r = write_series_group(writing, writer, names, from, left < PARQUET_GROUP_ROWS ? left : PARQUET_GROUP_ROWS);
	}
	return r == 0 ? finish_file(writing, BLOCK_SERIES, writer) : r;
}

static int write_series(struct writing *writing)
{
	struct label_names names = {0};
	int r = collect_label_names(writing, &names) < 0 ? error_nomem(writing->err) : write_series_rows(writing, &names);
	mem_free(names.items);
	return r;
}

/* ---- the block ---- */

static int write_files(struct writing *writing)
{
	static int (*const steps[])(struct writing *) = {order_series,	 write_series,	  order_samples, write_samples,
							 write_stacks,	 write_locations, write_lines,	 write_functions,
							 write_mappings, write_appends};
	writing->stack_used = mem_zalloc(writing->head->pool->stack_count);
	int r = writing->stack_used ? 0 : error_nomem(writing->err);
	for (size_t i = 0; r == 0 && i < sizeof(steps) / sizeof(*steps); i++)
		r = steps[i](writing);
	return r;
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
	mem_free(writing.order);
	mem_free(writing.ranks);
	mem_free(writing.rows);
	mem_free(writing.keys);
	mem_free(writing.spare);
	mem_free(writing.stack_used);
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
