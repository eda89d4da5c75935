/* SPDX-License-Identifier: Apache-2.0 */
/* As block_scan.c does with samples: ranges of row groups and pages tell what can be left out, runs of wanted series are handed
 * out as slices of decoded pages. Columns that nobody asked for are not read. */
#include "store/block/block_processes.h"

#include <errno.h>

#include "base/alloc.h"

#define PAGES_AT_ONCE 4
#define COLUMNS	      (2 + PROCESS_STATS_COLUMNS)

enum { COLUMN_SERIES, COLUMN_TIME, COLUMN_FIRST };

struct scanning {
	struct block_process_scan *scan;
	struct parquet_file *file;
	size_t at[COLUMNS];
	struct parquet_data data[COLUMNS];
	uint32_t *wanted_before; /* how many series below i are wanted */
	struct error *err;
};

static int malformed(const struct scanning *s, const char *what)
{
	return error_set(s->err, -EBADMSG, "%s/%s: %s", s->scan->block->path, block_file_names[BLOCK_PROCESSES], what);
}

static bool is_read(const struct scanning *s, size_t column)
{
	return column < COLUMN_FIRST || s->scan->columns >> (column - COLUMN_FIRST) & 1;
}

static int find_columns(struct scanning *s)
{
	for (size_t i = 0; i < COLUMNS; i++) {
		const char *name = i == COLUMN_SERIES ? "series_id"
				   : i == COLUMN_TIME ? "time_ns"
						      : process_stats_columns[i - COLUMN_FIRST].column;
		enum parquet_type type = i == COLUMN_SERIES ? PARQUET_INT32 : PARQUET_INT64;
		if (!parquet_find_column(s->file, name, &s->at[i]) || parquet_column_at(s->file, s->at[i])->type != type ||
		    parquet_column_at(s->file, s->at[i])->optional)
			return malformed(s, "a column is missing or has the wrong type");
	}
	return 0;
}

static int count_wanted(struct scanning *s)
{
	const struct block_process_scan *scan = s->scan;
	s->wanted_before = mem_alloc_array(scan->series_count + 1, sizeof(*s->wanted_before));
	if (!s->wanted_before)
		return error_nomem(s->err);
	s->wanted_before[0] = 0;
	for (size_t i = 0; i < scan->series_count; i++)
		s->wanted_before[i + 1] = s->wanted_before[i] + (scan->wanted[i] != 0);
	return 0;
}

/* Rows of these ranges are not wanted, as far as is known. */
static bool can_skip(const struct scanning *s, bool has_series, int64_t first, int64_t last, bool has_times, int64_t time_min,
		     int64_t time_max)
{
	const struct block_process_scan *scan = s->scan;
	if (has_times && (time_max < scan->from_ns || time_min >= scan->to_ns))
		return true;
	if (!has_series || first < 0 || last >= (int64_t)scan->series_count || first > last)
		return false; /* if it is damaged, the rows will tell */
	return s->wanted_before[last + 1] == s->wanted_before[first];
}

static bool skips_group(const struct scanning *s, size_t group)
{
	int64_t first = 0, last = 0, time_min = 0, time_max = 0;
	bool has_series = parquet_chunk_range(s->file, group, s->at[COLUMN_SERIES], &first, &last);
	bool has_times = parquet_chunk_range(s->file, group, s->at[COLUMN_TIME], &time_min, &time_max);
	return can_skip(s, has_series, first, last, has_times, time_min, time_max);
}

static bool skips_page(const struct scanning *s, size_t group, size_t page)
{
	int64_t first = 0, last = 0, time_min = 0, time_max = 0;
	bool has_series = parquet_page_range(s->file, group, s->at[COLUMN_SERIES], page, &first, &last);
	bool has_times = parquet_page_range(s->file, group, s->at[COLUMN_TIME], page, &time_min, &time_max);
	return can_skip(s, has_series, first, last, has_times, time_min, time_max);
}

static int read_pages(struct scanning *s, size_t group, size_t first, size_t count)
{
	for (size_t i = 0; i < COLUMNS; i++) {
		if (!is_read(s, i))
			continue;
		int r = parquet_read_pages(s->file, group, s->at[i], first, count, &s->data[i], s->err);
		if (r < 0)
			return r;
		if (s->data[i].count != s->data[COLUMN_SERIES].count)
			return malformed(s, "columns differ in length");
	}
	const struct parquet_data *series = &s->data[COLUMN_SERIES];
	for (size_t i = 0; i < series->count; i++)
		if ((uint32_t)series->i32[i] >= s->scan->series_count)
			return malformed(s, "a row refers to a missing series");
	return 0;
}

static int give_run(struct scanning *s, size_t from, size_t to)
{
	struct block_process_scan *scan = s->scan;
	struct block_process_rows run = {
		.count = to - from,
		.series = s->data[COLUMN_SERIES].i32 + from,
		.times = s->data[COLUMN_TIME].i64 + from,
	};
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
		run.values[i] = is_read(s, COLUMN_FIRST + i) ? s->data[COLUMN_FIRST + i].i64 + from : NULL;
	scan->rows += run.count;
	return scan->on_run(scan->context, &run, s->err);
}

static int give_rows(struct scanning *s)
{
	const struct block_process_scan *scan = s->scan;
	const int32_t *series = s->data[COLUMN_SERIES].i32;
	const int64_t *times = s->data[COLUMN_TIME].i64;
	size_t count = s->data[COLUMN_SERIES].count;
	int r = 0;
	for (size_t from = 0, to; r == 0 && from < count; from = to) {
		to = from + 1;
		if (!scan->wanted[series[from]] || times[from] < scan->from_ns || times[from] >= scan->to_ns)
			continue;
		while (to < count && series[to] == series[from] && times[to] >= scan->from_ns && times[to] < scan->to_ns)
			to++;
		r = give_run(s, from, to);
	}
	return r;
}

static int scan_group(struct scanning *s, size_t group)
{
	struct block_process_scan *scan = s->scan;
	size_t count = parquet_page_count(s->file, group);
	int r = 0;
	for (size_t first = 0, next; r == 0 && first < count; first = next) {
		next = first + 1;
		if (skips_page(s, group, first)) {
			scan->pages_skipped++;
			continue;
		}
		while (next < count && next - first < PAGES_AT_ONCE && !skips_page(s, group, next))
			next++;
		scan->pages += next - first;
		r = scan->check ? scan->check(scan->context, s->err) : 0;
		if (r == 0)
			r = read_pages(s, group, first, next - first);
		if (r == 0)
			r = give_rows(s);
	}
	return r;
}

static int scan_file(struct scanning *s)
{
	struct block_process_scan *scan = s->scan;
	int r = find_columns(s);
	if (r == 0)
		r = count_wanted(s);
	for (size_t g = 0; r == 0 && g < parquet_group_count(s->file); g++) {
		bool skip = skips_group(s, g);
		scan->groups += !skip;
		scan->groups_skipped += skip;
		r = skip ? 0 : scan_group(s, g);
	}
	return r;
}

int block_process_scan(struct block_process_scan *scan, struct error *err)
{
	struct scanning s = {.scan = scan, .err = err};
	for (size_t i = 0; i < COLUMNS; i++)
		parquet_data_init(&s.data[i]);
	int r = block_open_file(scan->block, BLOCK_PROCESSES, &s.file, err);
	if (r == 0) {
		r = scan_file(&s);
		scan->bytes += parquet_bytes_read(s.file);
	}
	for (size_t i = 0; i < COLUMNS; i++)
		parquet_data_release(&s.data[i]);
	mem_free(s.wanted_before);
	parquet_close(s.file);
	return r;
}
