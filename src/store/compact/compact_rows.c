/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging the rows of blocks by (series, time).
 *
 * A source reads a block a few pages at a time, turns ids into those of the new block and leaves out what is not wanted. The
 * merge takes from the source whose next row comes first, and not that row alone but all up to where the next source comes in,
 * found by doubling steps: blocks of one window hardly overlap in time within a series, so that most of the work is memcpy.
 *
 * Within one (series, time) rows are ordered by stack. New ids of stacks come in another order than the old ones, so each such
 * group is sorted on its way out; equal rows meet there and are summed. Rows of processes have no stack: those of one group are
 * parts of one row, and summed as well.
 *
 * Series in another order. Ids of a block's series nearly always rise in the new block too, because all blocks order them by
 * the same rule. Where they do not (a block of an older version; a label that got too many values for rollups to keep it) the
 * rows are first copied to a temporary file without compression, and read from there series by series. Blocks whose row groups
 * have partitions of time (block/partition.h) are read by whole row groups, which are put into order in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/order.h"
#include "base/sum.h"
#include "store/block/block_write_int.h"
#include "store/compact/compact_int.h"

#define OUT_ROWS  (64 * 1024)
#define TURN_ROWS (16 * 1024) /* read at once from the temporary file */

static const struct batch_column sample_columns[] = {
	{"series_id", PARQUET_INT32, false, false},  {"time_ns", PARQUET_INT64, false, false},
	{"stack_id", PARQUET_INT32, false, false},   {"value", PARQUET_INT64, false, false},
	{"trace_id", PARQUET_FIXED, true, true},     {"span_id", PARQUET_FIXED, true, true},
	{"numbers", PARQUET_BYTE_ARRAY, true, true},
};
const struct row_layout sample_rows = {
	.file = BLOCK_SAMPLES,
	.in = sample_columns,
	.in_count = 7,
	.kinds = {ROW_I32, ROW_I64, ROW_I32, ROW_I64, ROW_LINK, ROW_NUMBERS},
	.column_count = 6,
	.stack_column = 2,
};
#define SAMPLE_STACK   2
#define SAMPLE_VALUE   3
#define SAMPLE_LINK    4
#define SAMPLE_NUMBERS 5
#define IN_TRACE       4 /* of sample_columns */
#define IN_SPAN	       5
#define IN_NUMBERS     6

static const struct batch_column process_columns[] = {
	{"series_id", PARQUET_INT32, false, false},
	{"time_ns", PARQUET_INT64, false, false},
	{"cpu_ns", PARQUET_INT64, false, false},
	{"rss_bytes", PARQUET_INT64, false, false},
	{"minor_faults", PARQUET_INT64, false, false},
	{"major_faults", PARQUET_INT64, false, false},
	{"voluntary_switches", PARQUET_INT64, false, false},
	{"involuntary_switches", PARQUET_INT64, false, false},
	{"read_bytes", PARQUET_INT64, false, false},
	{"written_bytes", PARQUET_INT64, false, false},
	{"threads", PARQUET_INT64, false, false},
};
const struct row_layout process_rows = {
	.file = BLOCK_PROCESSES,
	.in = process_columns,
	.in_count = 2 + BLOCK_PROCESS_COLUMNS,
	.kinds = {ROW_I32, ROW_I64, ROW_I64, ROW_I64, ROW_I64, ROW_I64, ROW_I64, ROW_I64, ROW_I64, ROW_I64, ROW_I64},
	.column_count = 2 + BLOCK_PROCESS_COLUMNS,
	.stack_column = SIZE_MAX,
};

/* ---- sources ---- */

struct turned; /* rows in a temporary file */
struct row_source {
	struct row_source_options options;
	struct batch_reader in;
	struct profile_link *links;
	uint32_t *numbers;
	size_t link_capacity, number_capacity;
	struct turned *turned;
	uint64_t dropped;
	/* The batch: columns with ids of the new block; those at..count are left. */
	uint8_t *columns[ROW_COLUMNS_MAX];
	size_t at, count;
};

static inline int32_t *series_of(const struct row_source *source)
{
	return (int32_t *)(void *)source->columns[0];
}

static inline int64_t *times_of(const struct row_source *source)
{
	return (int64_t *)(void *)source->columns[1];
}

/* Links of the batch from their two columns. */
static int make_links(struct row_source *source, struct error *err)
{
	const size_t trace = IN_TRACE, span = IN_SPAN, n = source->in.count;
	if (array_reserve(&source->links, &source->link_capacity, n, SIZE_MAX) < 0)
		return error_nomem(err);
	memset(source->links, 0, n * sizeof(*source->links));
	source->columns[SAMPLE_LINK] = (uint8_t *)source->links;
	if (!batch_reader_has(&source->in, trace) || !batch_reader_has(&source->in, span))
		return 0;
	const struct parquet_data *traces = &source->in.data[trace], *spans = &source->in.data[span];
	for (size_t i = 0; i < n; i++) {
		if (traces->present && !traces->present[i])
			continue;
		if (traces->bytes[i].len != 16 || (spans->bytes[i].len != 8 && spans->bytes[i].len != 0))
			return error_set(err, -EBADMSG, "a trace or span id has the wrong length");
		memcpy(source->links[i].trace_id, traces->bytes[i].data, 16);
		if (spans->bytes[i].len)
			memcpy(source->links[i].span_id, spans->bytes[i].data, 8);
	}
	return 0;
}

/* Ids of the texts of the batch. Values that are equal are mostly the same bytes, those of the page's dictionary. */
static int make_numbers(struct row_source *source, struct error *err)
{
	const size_t n = source->in.count;
	const struct parquet_data *data = &source->in.data[IN_NUMBERS];
	struct bytes last = {0};
	uint32_t id = 0;
	if (array_reserve(&source->numbers, &source->number_capacity, n, SIZE_MAX) < 0)
		return error_nomem(err);
	memset(source->numbers, 0, n * sizeof(*source->numbers));
	source->columns[SAMPLE_NUMBERS] = (uint8_t *)source->numbers;
	if (!batch_reader_has(&source->in, IN_NUMBERS))
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (data->present && !data->present[i])
			continue;
		struct bytes text = data->bytes[i];
		if ((text.data != last.data || text.len != last.len) &&
		    intern_add(source->options.texts, text.data, text.len, &id) < 0)
			return error_nomem(err);
		last = text;
		source->numbers[i] = id;
	}
	return 0;
}

static inline void move_row(const struct row_layout *layout, uint8_t *const columns[], size_t to, size_t from)
{
	for (size_t c = 0; c < layout->column_count; c++) {
		size_t size = row_column_size(layout->kinds[c]);
		if (columns[c])
			memcpy(columns[c] + to * size, columns[c] + from * size, size);
	}
}

/* Takes the rows out that are not wanted; columns still have the block's ids. */
static void leave_out(struct row_source *source)
{
	const struct row_mapping *mapping = &source->options.mapping;
	const int32_t *series = series_of(source);
	const int64_t *times = times_of(source);
	size_t kept = 0;
	for (size_t i = 0; i < source->count; i++) {
		bool out = mapping->series[series[i]] == NOT_WANTED;
		if (mapping->drop && !out) {
			const struct row_range *range = &mapping->drop[series[i]];
			out = times[i] >= range->from_ns && times[i] < range->to_ns;
		}
		if (!out && kept != i)
			move_row(source->options.layout, source->columns, kept, i);
		kept += !out;
	}
	source->dropped += source->count - kept;
	source->count = kept;
}

static int map_ids(struct row_source *source, struct error *err)
{
	const struct row_mapping *mapping = &source->options.mapping;
	const struct row_layout *layout = source->options.layout;
	int32_t *series = series_of(source), *stacks = NULL;
	bool all_wanted = true;
	if (layout->stack_column != SIZE_MAX)
		stacks = (int32_t *)(void *)source->columns[layout->stack_column];
	if (!block_ids_are_below(series, source->count, mapping->series_count))
		return error_set(err, -EBADMSG, "a row refers to a missing series");
	if (stacks && !block_ids_are_below(stacks, source->count, mapping->stack_count))
		return error_set(err, -EBADMSG, "a row refers to a missing stack");
	for (size_t i = 0; i < source->count && all_wanted; i++)
		all_wanted = mapping->series[series[i]] != NOT_WANTED;
	if (mapping->drop || !all_wanted)
		leave_out(source);
	for (size_t i = 0; i < source->count; i++)
		series[i] = (int32_t)mapping->series[series[i]];
	for (size_t i = 0; stacks && mapping->stacks && i < source->count; i++)
		stacks[i] = (int32_t)mapping->stacks[stacks[i]];
	return 0;
}

/* Columns that are only there where they are needed. */
static bool is_optional(enum row_column_kind kind)
{
	return kind == ROW_LINK || kind == ROW_NUMBERS;
}

/* The next batch of the file that has a row; 0 at the end. */
static int next_batch(struct row_source *source, struct error *err)
{
	const struct row_layout *layout = source->options.layout;
	int r;
	source->at = source->count = 0;
	while ((r = batch_reader_next(&source->in, err)) > 0) {
		if (!source->in.count) /* all of it is damaged */
			continue;
		for (size_t c = 0; c < layout->column_count; c++)
			source->columns[c] = is_optional(layout->kinds[c]) ? NULL : source->in.data[c].any;
		source->count = source->in.count;
		r = source->options.need_links ? make_links(source, err) : 0;
		if (r == 0 && source->options.texts)
			r = make_numbers(source, err);
		if (r == 0)
			r = map_ids(source, err);
		if (r < 0 || source->count > 0)
			break;
	}
	return r < 0 ? r : source->count > 0;
}

static int note_lost(void *context, size_t group, size_t page, size_t rows, const char *why)
{
	const struct row_source *source = context;
	const struct row_source_options *options = &source->options;
	const struct block_meta *meta = &options->mapping.block->meta;
	struct parquet_file *file = source->in.file;
	size_t column = source->in.columns[1]; /* time */
	struct block_lost lost = {.file = options->layout->file,
				  .group = group,
				  .page = page,
				  .rows = rows,
				  .from_ns = meta->min_ns,
				  .to_ns = meta->max_ns};
	if (page == SIZE_MAX || !parquet_page_range(file, group, column, page, &lost.from_ns, &lost.to_ns))
		parquet_chunk_range(file, group, column, &lost.from_ns, &lost.to_ns);
	options->on_lost(options->context, options->mapping.block, &lost, why);
	return 0;
}

static int open_rows(struct row_source *source, struct error *err)
{
	struct row_source_options *options = &source->options;
	struct parquet_file *file;
	int r = block_open_file(options->mapping.block, options->layout->file, &file, err);
	if (r < 0)
		return r;
	source->in.on_lost = options->on_lost ? note_lost : NULL;
	source->in.context = source;
	source->in.batch_pages = options->batch_pages ? options->batch_pages : BATCH_PAGES;
	source->in.by_first = options->in_order && options->layout == &sample_rows && options->mapping.block->meta.partition_ns;
	/* Links and numbers come last: without them their columns are not read. */
	size_t columns = options->layout->in_count;
	if (options->layout == &sample_rows && !options->texts)
		columns = options->need_links ? IN_NUMBERS : IN_TRACE;
	return batch_reader_open(&source->in, file, options->layout->in, columns, err);
}

/* ---- turning ---- */

/* All rows of a block, row by row, in its own order: those of a series are one range. */
struct turned {
	int fd;
	size_t row_size;
	uint64_t rows;
	struct range {
		uint32_t series; /* of the new block */
		uint64_t first, count;
	} * ranges; /* those of one series together, then by new series */
	size_t range_count, range_capacity, range;
	uint64_t range_at; /* rows of the current range that were read */
	uint8_t *buffer;   /* TURN_ROWS rows as they are in the file, and as columns */
	uint8_t *columns[ROW_COLUMNS_MAX];
};

static struct turned *turned_free(struct turned *turned)
{
	if (!turned)
		return NULL;
	io_close(turned->fd);
	mem_free(turned->ranges);
	mem_free(turned->buffer);
	for (size_t i = 0; i < ROW_COLUMNS_MAX; i++)
		mem_free(turned->columns[i]);
	return mem_free(turned);
}

static bool has_column(const struct row_source *source, size_t c)
{
	switch (source->options.layout->kinds[c]) {
	case ROW_LINK: return source->options.need_links;
	case ROW_NUMBERS: return source->options.texts != NULL;
	default: return true;
	}
}

static int turned_new(const struct row_source *source, struct turned **ret, struct error *err)
{
	const struct row_layout *layout = source->options.layout;
	char path[PATH_MAX];
	struct turned *turned = mem_zalloc(sizeof(*turned));
	if (!turned)
		return error_nomem(err);
	*ret = turned;
	turned->fd = -1;
	bool fine = true;
	for (size_t c = 0; c < layout->column_count; c++) {
		if (!has_column(source, c))
			continue;
		turned->row_size += row_column_size(layout->kinds[c]);
		turned->columns[c] = mem_alloc_array(TURN_ROWS, row_column_size(layout->kinds[c]));
		fine &= turned->columns[c] != NULL;
	}
	turned->buffer = mem_alloc_array(TURN_ROWS, turned->row_size);
	if (!fine || !turned->buffer)
		return error_nomem(err);
	int r = io_join_path(path, sizeof(path), source->options.directory, "rows");
	if (r < 0)
		return error_set_errno(err, r, "%s", source->options.directory);
	turned->fd = io_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, err);
	return turned->fd < 0 ? turned->fd : io_unlink(path, err); /* nothing is left of it, whatever happens */
}

static int turned_add_range(struct turned *turned, uint32_t series, uint64_t first, uint64_t count, struct error *err)
{
	struct range *last = turned->range_count ? &turned->ranges[turned->range_count - 1] : NULL;
	if (last && last->series == series) {
		last->count += count;
		return 0;
	}
	if (array_reserve(&turned->ranges, &turned->range_capacity, turned->range_count + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	turned->ranges[turned->range_count++] = (struct range){series, first, count};
	return 0;
}

static int turned_write(const struct row_source *source, struct turned *turned, struct error *err)
{
	const struct row_layout *layout = source->options.layout;
	const int32_t *series = series_of(source);
	int r = 0;
	for (size_t from = 0, to; r == 0 && from < source->count; from = to) {
		for (to = from + 1; to < source->count && series[to] == series[from]; to++)
			;
		r = turned_add_range(turned, (uint32_t)series[from], turned->rows + from, to - from, err);
	}
	for (size_t from = 0; r == 0 && from < source->count; from += TURN_ROWS) {
		size_t count = source->count - from < TURN_ROWS ? source->count - from : TURN_ROWS, at = 0;
		for (size_t c = 0; c < layout->column_count; c++) {
			size_t size = row_column_size(layout->kinds[c]);
			if (!has_column(source, c))
				continue;
			for (size_t i = 0; i < count; i++)
				memcpy(turned->buffer + i * turned->row_size + at, source->columns[c] + (from + i) * size,
				       size);
			at += size;
		}
		r = io_pwrite(turned->fd, turned->buffer, count * turned->row_size, (turned->rows + from) * turned->row_size,
			      "sorted rows", err);
	}
	turned->rows += source->count;
	return r;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	return ORDER(x->series, y->series) ?: ORDER(x->first, y->first);
}

static int turn(struct row_source *source, struct error *err)
{
	int r = turned_new(source, &source->turned, err);
	while (r == 0 && (r = next_batch(source, err)) > 0)
		r = turned_write(source, source->turned, err);
	if (r < 0)
		return r;
	source->in.file = parquet_close(source->in.file);
	sort_array(source->turned->ranges, source->turned->range_count, compare_ranges);
	return 0;
}

/* Rows as they are in the file become columns behind those that are there. */
static void unpack_rows(const struct row_source *source, size_t at, size_t count)
{
	const struct turned *turned = source->turned;
	const struct row_layout *layout = source->options.layout;
	size_t offset = 0;
	for (size_t c = 0; c < layout->column_count; c++) {
		size_t size = row_column_size(layout->kinds[c]);
		if (!has_column(source, c))
			continue;
		for (size_t i = 0; i < count; i++)
			memcpy(turned->columns[c] + (at + i) * size, turned->buffer + i * turned->row_size + offset, size);
		offset += size;
	}
}

static int next_turned(struct row_source *source, struct error *err)
{
	struct turned *turned = source->turned;
	source->at = source->count = 0;
	while (turned->range < turned->range_count && source->count < TURN_ROWS) {
		const struct range *range = &turned->ranges[turned->range];
		size_t room = TURN_ROWS - source->count;
		uint64_t left = range->count - turned->range_at;
		size_t count = left < room ? (size_t)left : room, bytes = count * turned->row_size;
		ssize_t got = io_pread(turned->fd, turned->buffer, bytes, (range->first + turned->range_at) * turned->row_size,
				       "sorted rows", err);
		if (got < 0)
			return (int)got;
		if ((size_t)got != bytes)
			return error_set(err, -EIO, "the file of sorted rows was truncated");
		unpack_rows(source, source->count, count);
		source->count += count;
		turned->range_at += count;
		if (turned->range_at == range->count) {
			turned->range++;
			turned->range_at = 0;
		}
	}
	memcpy(source->columns, turned->columns, sizeof(source->columns));
	return source->count > 0;
}

static int next_rows(struct row_source *source, struct error *err)
{
	return source->turned ? next_turned(source, err) : next_batch(source, err);
}

static bool must_turn(const struct row_mapping *mapping)
{
	uint32_t last = 0;
	for (size_t i = 0; i < mapping->series_count; i++) {
		if (mapping->series[i] == NOT_WANTED)
			continue;
		if (mapping->series[i] < last)
			return true;
		last = mapping->series[i];
	}
	return false;
}

int row_source_open(const struct row_source_options *options, struct row_source **ret, struct error *err)
{
	_cleanup_(row_source_closep) struct row_source *source = mem_zalloc(sizeof(*source));
	if (!source)
		return error_nomem(err);
	source->options = *options;
	source->options.in_order = true;
	batch_reader_init(&source->in);
	int r = open_rows(source, err);
	if (r == 0 && must_turn(&options->mapping))
		r = turn(source, err);
	if (r == 0)
		r = next_rows(source, err);
	if (r < 0)
		return r;
	*ret = TAKE(source);
	return 0;
}

struct row_source *row_source_close(struct row_source *source)
{
	if (!source)
		return NULL;
	batch_reader_release(&source->in);
	mem_free(source->links);
	mem_free(source->numbers);
	turned_free(source->turned);
	return mem_free(source);
}

int row_scan(const struct row_source_options *options, int (*on_rows)(void *context, uint8_t *const columns[], size_t count),
	     void *context, uint64_t *ret_dropped, struct error *err)
{
	struct row_source source = {.options = *options};
	batch_reader_init(&source.in);
	int r = open_rows(&source, err);
	while (r == 0 && (r = next_batch(&source, err)) > 0)
		r = on_rows(context, source.columns, source.count);
	if (r == -ENOMEM)
		error_nomem(err);
	*ret_dropped += source.dropped;
	batch_reader_release(&source.in);
	mem_free(source.links);
	mem_free(source.numbers);
	return r;
}

/* ---- the merge ---- */

struct merging {
	struct row_merge *merge;
	const struct row_layout *layout;
	struct error *err;
	uint8_t *columns[ROW_COLUMNS_MAX];
	size_t count, capacity;
	/* Scratch of sorting one group */
	uint64_t *keys, *spare;
	uint8_t *copy;
	size_t key_capacity, spare_capacity, copy_capacity;
};

struct key {
	int32_t series;
	int64_t time;
};

static inline struct key key_at(const struct row_source *source, size_t i)
{
	return (struct key){series_of(source)[i], times_of(source)[i]};
}

static inline bool comes_before(struct key a, struct key b)
{
	return a.series != b.series ? a.series < b.series : a.time < b.time;
}

static int reserve_out(struct merging *m, size_t capacity)
{
	if (capacity <= m->capacity)
		return 0;
	for (size_t c = 0; c < m->layout->column_count; c++) {
		if ((m->layout->kinds[c] == ROW_LINK && !m->merge->has_links) ||
		    (m->layout->kinds[c] == ROW_NUMBERS && !m->merge->texts))
			continue;
		uint8_t *grown = mem_realloc_array(m->columns[c], capacity, row_column_size(m->layout->kinds[c]));
		if (!grown)
			return error_nomem(m->err);
		m->columns[c] = grown;
	}
	m->capacity = capacity;
	return 0;
}

/* ---- groups: the rows of one (series, time) ---- */

/* Of two rows: by link, then numbers. */
static int compare_details(const struct merging *m, size_t a, size_t b)
{
	const struct profile_link *links = (const void *)m->columns[SAMPLE_LINK];
	const uint32_t *numbers = (const void *)m->columns[SAMPLE_NUMBERS];
	int order = links ? memcmp(&links[a], &links[b], sizeof(*links)) : 0;
	if (order || !numbers || numbers[a] == numbers[b])
		return order;
	return bytes_compare(intern_get(m->merge->texts, numbers[a]), intern_get(m->merge->texts, numbers[b]));
}

struct group {
	const struct merging *m;
	size_t first;
};

static int compare_keys(const void *a, const void *b, void *context)
{
	const struct group *group = context;
	uint32_t x = (uint32_t) * (const uint64_t *)a, y = (uint32_t) * (const uint64_t *)b;
	return compare_details(group->m, group->first + x, group->first + y) ?: ORDER(x, y);
}

/* Sorts the keys of a group, stack << 32 | row, by stack, then link and numbers. */
static void sort_group(struct merging *m, size_t first, size_t count)
{
	struct group group = {m, first};
	block_sort_by_high(m->keys, m->spare, count);
	if (!m->columns[SAMPLE_LINK] && !m->columns[SAMPLE_NUMBERS])
		return;
	for (size_t from = 0, to; from < count; from = to) {
		for (to = from + 1; to < count && m->keys[to] >> 32 == m->keys[from] >> 32; to++)
			;
		if (to - from > 1)
			qsort_r(m->keys + from, to - from, sizeof(*m->keys), compare_keys, &group);
	}
}

/* Writes a sorted group to where it belongs, `to` <= first, summing equal rows; returns how many are left. */
static size_t place_group(struct merging *m, size_t first, size_t count, size_t to)
{
	int32_t *series = (void *)m->columns[0], *stacks = (void *)m->columns[SAMPLE_STACK];
	int64_t *times = (void *)m->columns[1], *values = (void *)m->columns[SAMPLE_VALUE];
	struct profile_link *links = (void *)m->columns[SAMPLE_LINK];
	uint32_t *numbers = (void *)m->columns[SAMPLE_NUMBERS];
	int64_t *old_values = (void *)m->copy;
	struct profile_link *old_links = (void *)(m->copy + count * sizeof(*old_values));
	uint32_t *old_numbers = (void *)(m->copy + count * (sizeof(*old_values) + sizeof(*old_links)));
	struct key key = {series[first], times[first]};
	size_t kept = 0;
	memcpy(old_values, values + first, count * sizeof(*old_values));
	if (links)
		memcpy(old_links, links + first, count * sizeof(*old_links));
	if (numbers)
		memcpy(old_numbers, numbers + first, count * sizeof(*old_numbers));
	for (size_t i = 0; i < count; i++) {
		uint32_t row = (uint32_t)m->keys[i];
		int32_t stack = (int32_t)(m->keys[i] >> 32);
		if (kept && stacks[to + kept - 1] == stack &&
		    (!links || !memcmp(&links[to + kept - 1], &old_links[row], sizeof(*links))) &&
		    (!numbers || numbers[to + kept - 1] == old_numbers[row])) {
			int64_t *sum = &values[to + kept - 1];
			sum_to(sum, old_values[row]);
			continue;
		}
		series[to + kept] = key.series;
		times[to + kept] = key.time;
		stacks[to + kept] = stack;
		values[to + kept] = old_values[row];
		if (links)
			links[to + kept] = old_links[row];
		if (numbers)
			numbers[to + kept] = old_numbers[row];
		kept++;
	}
	return kept;
}

static int order_group(struct merging *m, size_t first, size_t count, size_t to, size_t *ret_kept)
{
	const int32_t *stacks = (const void *)m->columns[SAMPLE_STACK];
	if (array_reserve(&m->keys, &m->key_capacity, count, UINT32_MAX) < 0 ||
	    array_reserve(&m->spare, &m->spare_capacity, count, UINT32_MAX) < 0 ||
	    array_reserve(&m->copy, &m->copy_capacity, count * (8 + sizeof(struct profile_link) + 4), SIZE_MAX) < 0)
		return error_nomem(m->err);
	for (size_t i = 0; i < count; i++)
		m->keys[i] = (uint64_t)(uint32_t)stacks[first + i] << 32 | i;
	sort_group(m, first, count);
	*ret_kept = place_group(m, first, count, to);
	return 0;
}

static void move_rows(struct merging *m, size_t to, size_t from, size_t count)
{
	for (size_t c = 0; to != from && c < m->layout->column_count; c++) {
		size_t size = row_column_size(m->layout->kinds[c]);
		if (m->columns[c])
			memmove(m->columns[c] + to * size, m->columns[c] + from * size, count * size);
	}
}

/* Orders the groups of rows 0 .. count - 1, which are whole ones but perhaps the last; *ret_kept of them are left. */
static int order_groups(struct merging *m, size_t count, size_t *ret_kept)
{
	const int32_t *series = (const void *)m->columns[0], *stacks = (const void *)m->columns[SAMPLE_STACK];
	const int64_t *times = (const void *)m->columns[1];
	size_t done = 0, kept = 0; /* rows before `done` are in place, or to be moved as they are from there on */
	for (size_t from = 0, to; from < count; from = to) {
		bool in_order = true;
		for (to = from + 1; to < count && times[to] == times[from] && series[to] == series[from]; to++)
			in_order &= stacks[to] > stacks[to - 1] ||
				    (stacks[to] == stacks[to - 1] && compare_details(m, to - 1, to) < 0);
		if (in_order)
			continue;
		size_t left = 0;
		move_rows(m, kept, done, from - done);
		kept += from - done;
		int r = order_group(m, from, to - from, kept, &left);
		if (r < 0)
			return r;
		kept += left;
		done = to;
	}
	move_rows(m, kept, done, count - done);
	*ret_kept = kept + count - done;
	return 0;
}

/* Sums the rows of each group of processes; *ret_kept are left. */
static void sum_groups(struct merging *m, size_t count, size_t *ret_kept)
{
	const int32_t *series = (const void *)m->columns[0];
	const int64_t *times = (const void *)m->columns[1];
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (kept == 0 || series[kept - 1] != series[i] || times[kept - 1] != times[i]) {
			move_rows(m, kept++, i, 1);
			continue;
		}
		for (size_t c = 2; c < m->layout->column_count; c++) {
			int64_t *values = (void *)m->columns[c];
			sum_to(&values[kept - 1], values[i]);
		}
	}
	*ret_kept = kept;
}

/* ---- output ---- */

static int hand_over(struct merging *m, size_t count)
{
	if (m->layout == &process_rows) {
		struct block_process_rows rows = {
			.count = count, .series = (const void *)m->columns[0], .times = (const void *)m->columns[1]};
		for (size_t i = 0; i < BLOCK_PROCESS_COLUMNS; i++)
			rows.values[i] = (const void *)m->columns[2 + i];
		return block_writer_processes(m->merge->writer, &rows, m->err);
	}
	const struct block_rows rows = {.count = count,
					.series = (const void *)m->columns[0],
					.times = (const void *)m->columns[1],
					.stacks = (const void *)m->columns[SAMPLE_STACK],
					.values = (const void *)m->columns[SAMPLE_VALUE],
					.links = (const void *)m->columns[SAMPLE_LINK],
					.numbers = (const void *)m->columns[SAMPLE_NUMBERS],
					.texts = m->merge->texts};
	return block_writer_samples(m->merge->writer, &rows, m->err);
}

/* Where the last group begins, which may not be complete. */
static size_t last_group(const struct merging *m)
{
	const int32_t *series = (const void *)m->columns[0];
	const int64_t *times = (const void *)m->columns[1];
	size_t at = m->count ? m->count - 1 : 0;
	while (at > 0 && series[at - 1] == series[at] && times[at - 1] == times[at])
		at--;
	return at;
}

/* Writes all complete groups, or all. */
static int flush(struct merging *m, bool all)
{
	size_t whole = all ? m->count : last_group(m), kept = whole;
	bool has_stacks = m->layout->stack_column != SIZE_MAX;
	int r = 0;
	if (whole == 0 && m->count > 0) {
		/* One group fills it all: summing it up may make room. */
		if (has_stacks)
			r = order_groups(m, m->count, &m->count);
		else
			sum_groups(m, m->count, &m->count);
		return r;
	}
	if (has_stacks)
		r = order_groups(m, whole, &kept);
	else
		sum_groups(m, whole, &kept);
	if (r == 0 && kept > 0)
		r = hand_over(m, kept);
	move_rows(m, 0, whole, m->count - whole);
	m->count -= whole;
	return r;
}

static int append(struct merging *m, const struct row_source *source, size_t count)
{
	size_t from = source->at;
	while (count > 0) {
		if (m->count >= OUT_ROWS) {
			int r = flush(m, false);
			if (r == 0 && m->count > m->capacity / 2)
				r = reserve_out(m, m->capacity * 2);
			if (r < 0)
				return r;
		}
		size_t room = m->capacity - m->count, part = count < room ? count : room;
		for (size_t c = 0; c < m->layout->column_count; c++) {
			size_t size = row_column_size(m->layout->kinds[c]);
			if (m->columns[c])
				memcpy(m->columns[c] + m->count * size, source->columns[c] + from * size, part * size);
		}
		m->count += part;
		from += part;
		count -= part;
	}
	return 0;
}

/* ---- choosing ---- */

/* How many rows from source->at on come before `bound`, or, if that is their own key, have it. There is at least one. */
static size_t run_length(const struct row_source *source, struct key bound)
{
	bool inclusive = !comes_before(key_at(source, source->at), bound);
	size_t low = source->at, high = source->count, step = 1; /* low belongs to it, high does not */
#define BELONGS(i) (inclusive ? !comes_before(bound, key_at(source, i)) : comes_before(key_at(source, i), bound))
	if (BELONGS(high - 1))
		return high - low;
	while (low + step < high && BELONGS(low + step)) {
		low += step;
		step *= 2;
	}
	if (low + step < high)
		high = low + step;
	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;
		if (BELONGS(middle))
			low = middle;
		else
			high = middle;
	}
#undef BELONGS
	return low + 1 - source->at;
}

/* The source whose next row comes first, and the key at which another one comes in. */
static struct row_source *choose(const struct merging *m, struct key *ret_bound, size_t *ret_index)
{
	struct key first = {INT32_MAX, INT64_MAX}, second = first;
	struct row_source *chosen = NULL;
	for (size_t i = 0; i < m->merge->source_count; i++) {
		struct row_source *source = m->merge->sources[i];
		if (source->at == source->count)
			continue;
		struct key key = key_at(source, source->at);
		if (!chosen || comes_before(key, first)) {
			second = first;
			first = key;
			chosen = source;
			*ret_index = i;
		} else if (comes_before(key, second)) {
			second = key;
		}
	}
	*ret_bound = second;
	return chosen;
}

static int merge_all(struct merging *m)
{
	struct row_source *source;
	struct key bound;
	size_t index;
	unsigned rounds = 0;
	while ((source = choose(m, &bound, &index))) {
		size_t count = run_length(source, bound);
		int r = append(m, source, count);
		source->at += count;
		m->merge->rows_in += count;
		if (r < 0)
			return r;
		if (source->at == source->count) {
			r = next_rows(source, m->err);
			if (r < 0) {
				m->merge->failed = index;
				return r;
			}
		}
		if ((++rounds & 63) == 0 && cancel_requested(m->merge->cancel))
			return error_set(m->err, -ECANCELED, "cancelled");
	}
	return flush(m, true);
}

int row_merge_run(struct row_merge *merge, struct error *err)
{
	struct merging m = {.merge = merge, .layout = merge->layout, .err = err};
	merge->failed = SIZE_MAX;
	int r = reserve_out(&m, 2 * OUT_ROWS);
	if (r == 0)
		r = merge_all(&m);
	for (size_t c = 0; c < ROW_COLUMNS_MAX; c++)
		mem_free(m.columns[c]);
	mem_free(m.keys);
	mem_free(m.spare);
	mem_free(m.copy);
	return r;
}
