/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scanning a block's samples.
 *
 * Rows are sorted by series, then time. A row group is skipped when its statistics say that none of its series is wanted, or
 * that it lies outside of the range; otherwise whole columns are decoded, and the runs of wanted series are handed out as
 * slices. Times are only decoded when the group is not within the range as a whole, or when somebody asks for them.
 */
#include <errno.h>

#include "base/alloc.h"
#include "store/block.h"

struct columns {
	size_t series, stack, time, value;
};
struct scanning {
	struct block_scan *scan;
	struct parquet_file *file;
	struct columns at;
	struct parquet_data series, stacks, times, values;
	bool has_times;
	struct error *err;
};

static int malformed(const struct scanning *s, const char *what)
{
	return error_set(s->err, -EBADMSG, "%s/%s: %s", s->scan->block->path, block_file_names[BLOCK_SAMPLES], what);
}

static bool find(const struct parquet_file *file, const char *name, enum parquet_type type, size_t *ret)
{
	return parquet_find_column(file, name, ret) && parquet_column_at(file, *ret)->type == type &&
	       !parquet_column_at(file, *ret)->optional;
}

static bool any_wanted(const struct block_scan *scan, int64_t from, int64_t to)
{
	if (from < 0 || to >= (int64_t)scan->series_count)
		return true; /* damaged; the rows will tell */
	for (int64_t i = from; i <= to; i++)
		if (scan->wanted[i])
			return true;
	return false;
}

/* Whether a row group can be skipped, and whether all of it lies in the range. */
static bool is_skipped(const struct scanning *s, size_t group, bool *ret_inside)
{
	const struct block_scan *scan = s->scan;
	int64_t min, max;
	*ret_inside = false;
	if (parquet_chunk_range(s->file, group, s->at.time, &min, &max)) {
		if (max < scan->from_ns || min >= scan->to_ns)
			return true;
		*ret_inside = min >= scan->from_ns && max < scan->to_ns;
	}
	return parquet_chunk_range(s->file, group, s->at.series, &min, &max) && !any_wanted(scan, min, max);
}

static int read_group(struct scanning *s, size_t group, bool inside)
{
	int r = parquet_read(s->file, group, s->at.series, &s->series, s->err);
	if (r == 0)
		r = parquet_read(s->file, group, s->at.value, &s->values, s->err);
	if (r == 0 && s->scan->stack_count)
		r = parquet_read(s->file, group, s->at.stack, &s->stacks, s->err);
	s->has_times = !inside || s->scan->need_times;
	if (r == 0 && s->has_times)
		r = parquet_read(s->file, group, s->at.time, &s->times, s->err);
	if (r < 0)
		return r;
	uint32_t most_series = 0, most_stack = 0;
	for (size_t i = 0; i < s->series.count; i++)
		most_series = (uint32_t)s->series.i32[i] > most_series ? (uint32_t)s->series.i32[i] : most_series;
	for (size_t i = 0; s->scan->stack_count && i < s->stacks.count; i++)
		most_stack = (uint32_t)s->stacks.i32[i] > most_stack ? (uint32_t)s->stacks.i32[i] : most_stack;
	if (most_series >= s->scan->series_count || (s->scan->stack_count && most_stack >= s->scan->stack_count))
		return malformed(s, "a sample refers to a series or stack that is not there");
	return 0;
}

/* The rows of one series; gives those in the range. */
static int give_run(struct scanning *s, size_t from, size_t to, bool inside)
{
	struct block_scan *scan = s->scan;
	if (!inside) {
		while (from < to && s->times.i64[from] < scan->from_ns)
			from++;
		while (to > from && s->times.i64[to - 1] >= scan->to_ns)
			to--;
	}
	if (from == to)
		return 0;
	struct block_run run = {
		.series = (uint32_t)s->series.i32[from],
		.count = to - from,
		.stacks = scan->stack_count ? s->stacks.i32 + from : NULL,
		.times = s->has_times ? s->times.i64 + from : NULL,
		.values = s->values.i64 + from,
	};
	scan->rows += run.count;
	return scan->on_run(scan->context, &run, s->err);
}

static int scan_group(struct scanning *s, size_t group, bool inside)
{
	int r = read_group(s, group, inside);
	for (size_t from = 0, to; r == 0 && from < s->series.count; from = to) {
		int32_t series = s->series.i32[from];
		for (to = from + 1; to < s->series.count && s->series.i32[to] == series; to++)
			;
		if (s->scan->wanted[series])
			r = give_run(s, from, to, inside);
	}
	return r;
}

static int scan_file(struct scanning *s)
{
	struct block_scan *scan = s->scan;
	if (!find(s->file, "series_id", PARQUET_INT32, &s->at.series) ||
	    !find(s->file, "stack_id", PARQUET_INT32, &s->at.stack) || !find(s->file, "time_ns", PARQUET_INT64, &s->at.time) ||
	    !find(s->file, "value", PARQUET_INT64, &s->at.value))
		return malformed(s, "a column is missing or of another type");
	for (size_t g = 0; g < parquet_group_count(s->file); g++) {
		bool inside;
		if (scan->cancel && __atomic_load_n(scan->cancel, __ATOMIC_RELAXED))
			return error_set(s->err, -ECANCELED, "the query was cancelled");
		if (is_skipped(s, g, &inside))
			continue;
		int r = scan_group(s, g, inside);
		if (r < 0)
			return r;
	}
	return 0;
}

int block_scan(struct block_scan *scan, struct error *err)
{
	struct scanning s = {.scan = scan, .err = err};
	struct parquet_data *const all[] = {&s.series, &s.stacks, &s.times, &s.values};
	for (size_t i = 0; i < 4; i++)
		parquet_data_init(all[i]);
	int r = block_open_file(scan->block, BLOCK_SAMPLES, &s.file, err);
	if (r == 0) {
		r = scan_file(&s);
		scan->bytes += parquet_bytes_read(s.file);
	}
	for (size_t i = 0; i < 4; i++)
		parquet_data_release(all[i]);
	parquet_close(s.file);
	return r;
}
