/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that several sources have rows of.
 *
 * Each source counts the profiles of a gauge by itself: different times of a series. A time that two sources have is one
 * profile, though, as it will be when they are merged. That happens when data comes late or twice, or when a head was cut
 * between two appends of one time.
 *
 *   spans     from when to when each source has each series, noted while it was counted
 *   window    of a series, where at least two of its spans overlap: mostly there is none, and nothing more to do
 *   times     the series' times in its window, of each source that has any there, from samples
 *   doubles   a time that came from n sources was counted n - 1 times too often
 *
 * Times are held for some series at once, so memory is bounded; sources are then scanned again for the next series.
 *
 * Left as they are: blocks of which only rollups are left. Nothing is known of single profiles there.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "store/block/block_scan.h"
#include "store/read/read_int.h"

size_t read_overlap_times_max = 1024 * 1024;

struct window {
	int64_t from_ns, last_ns; /* from > last: none */
};
struct profile_time {
	uint32_t number;
	int64_t time_ns;
};
struct overlaps {
	struct reading *r;
	struct window *windows;	    /* by number */
	struct average_span *spans; /* those that reach into the window of their series, by source */
	size_t span_count;
	uint32_t first, end; /* numbers whose times are collected */
	struct profile_time *times;
	size_t count, capacity, times_max;
	/* The source at hand */
	size_t source_first; /* of times, its own */
	uint32_t *numbers;   /* by its series, NOT_AVERAGED = not wanted */
	const struct block_scan *scan;
	struct error *err;
};

/* ---- windows ---- */

static int compare_by_series(const void *a, const void *b)
{
	const struct average_span *x = a, *y = b;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return (x->first_ns > y->first_ns) - (x->first_ns < y->first_ns);
}

static int compare_by_source(const void *a, const void *b)
{
	const struct average_span *x = a, *y = b;
	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

/* Spans are sorted by series. */
static void find_windows(struct overlaps *o)
{
	const struct averages *averages = &o->r->averages;
	int64_t last_ns = 0;
	for (size_t i = 0; i < averages->count; i++)
		o->windows[i] = (struct window){INT64_MAX, INT64_MIN};
	for (size_t i = 0; i < averages->spans.count; i++) {
		const struct average_span *span = &averages->spans.items[i];
		struct window *window = &o->windows[span->number];
		if (i == 0 || span[-1].number != span->number) {
			last_ns = span->last_ns;
			continue;
		}
		if (span->first_ns <= last_ns) {
			int64_t both_ns = span->last_ns < last_ns ? span->last_ns : last_ns;
			window->from_ns = span->first_ns < window->from_ns ? span->first_ns : window->from_ns;
			window->last_ns = both_ns > window->last_ns ? both_ns : window->last_ns;
		}
		last_ns = span->last_ns > last_ns ? span->last_ns : last_ns;
	}
}

/* Leaves the spans that reach into windows. */
static void keep_spans(struct overlaps *o)
{
	struct average_spans *spans = &o->r->averages.spans;
	size_t kept = 0;
	for (size_t i = 0; i < spans->count; i++) {
		const struct average_span *span = &spans->items[i];
		const struct window *window = &o->windows[span->number];
		if (span->first_ns <= window->last_ns && span->last_ns >= window->from_ns)
			spans->items[kept++] = *span;
	}
	spans->count = kept;
	if (kept)
		qsort(spans->items, kept, sizeof(*spans->items), compare_by_source);
	o->spans = spans->items;
	o->span_count = kept;
}

/* ---- times ---- */

static int add_time(struct overlaps *o, uint32_t id, int64_t time_ns)
{
	uint32_t number = o->numbers[id];
	if (number == NOT_AVERAGED || time_ns < o->windows[number].from_ns || time_ns > o->windows[number].last_ns)
		return 0;
	/* Rows of a profile are mostly neighbours. */
	const struct profile_time *last = o->count > o->source_first ? &o->times[o->count - 1] : NULL;
	if (last && last->number == number && last->time_ns == time_ns)
		return 0;
	int r = array_reserve(&o->times, &o->capacity, o->count + 1, o->times_max);
	if (r == -ENOMEM)
		return error_nomem(o->err);
	if (r == 0)
		o->times[o->count++] = (struct profile_time){number, time_ns};
	return r;
}

static int compare_times(const void *a, const void *b)
{
	const struct profile_time *x = a, *y = b;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

/* Those of one source, each once. */
static void sort_times(struct overlaps *o)
{
	size_t first = o->source_first, kept = first;
	if (o->count > first)
		qsort(o->times + first, o->count - first, sizeof(*o->times), compare_times);
	for (size_t i = first; i < o->count; i++)
		if (kept == first || compare_times(&o->times[kept - 1], &o->times[i]) != 0)
			o->times[kept++] = o->times[i];
	o->count = kept;
}

static int on_run(void *context, const struct block_run *run, struct error *err)
{
	struct overlaps *o = context;
	int code = 0;
	for (size_t i = 0; code == 0 && i < run->count; i++)
		code = add_time(o, run->id, run->times[i]);
	return code;
}

static int on_check(void *context, struct error *err)
{
	struct overlaps *o = context;
	return read_check(o->r, o->scan->rows, err);
}

static int scan_block(struct overlaps *o, struct block *block, const struct window *hull)
{
	struct reading *r = o->r;
	struct error own = {0};
	size_t count = block->meta.series;
	_cleanup_(mem_freep) uint8_t *wanted = mem_zalloc(count);
	if (!wanted)
		return error_nomem(o->err);
	for (size_t i = 0; i < count; i++)
		wanted[i] = o->numbers[i] != NOT_AVERAGED;
	struct block_scan scan = {.block = block,
				  .file = BLOCK_SAMPLES,
				  .wanted = wanted,
				  .id_count = count,
				  .from_ns = hull->from_ns,
				  .to_ns = hull->last_ns + 1, /* no span ends at the end of time: ranges do not hold it */
				  .need_times = true,
				  .on_run = on_run,
				  .check = on_check,
				  .context = o};
	o->scan = &scan;
	int code = block_scan(&scan, &own);
	pthread_mutex_lock(&r->lock);
	block_scan_add_counts(&scan, r->stats);
	pthread_mutex_unlock(&r->lock);
	if (code == -EBADMSG) {
		blocks_set_aside(r->store, block, own.message);
		/* Points were given already, from what was read of it before. Either way the result is partial now. */
		return r->merge ? -EAGAIN : 0;
	}
	if (code < 0 && o->err && own.message[0])
		*o->err = own;
	return code;
}

static int scan_head(struct overlaps *o, uint32_t source)
{
	struct head *head = o->r->snapshot.heads[1 - source];
	int code = 0;
	pthread_rwlock_rdlock(&head->lock);
	for (size_t i = 0; code == 0 && i < o->r->head_counts[source]; i++)
		code = add_time(o, head->series_ids[i], head->times[i]);
	pthread_rwlock_unlock(&head->lock);
	return code;
}

/* The series that a source had when it was counted; a head may have more by now. */
static size_t series_of(const struct overlaps *o, uint32_t source)
{
	if (source >= 2)
		return read_block_at(o->r, source)->meta.series;
	struct head *head = o->r->snapshot.heads[1 - source];
	pthread_rwlock_rdlock(&head->lock);
	size_t count = head->series_count;
	pthread_rwlock_unlock(&head->lock);
	return count;
}

/* Spans of one source. */
static int scan_source(struct overlaps *o, const struct average_span *spans, size_t count)
{
	uint32_t source = spans->source;
	struct window hull = {INT64_MAX, INT64_MIN};
	size_t series = series_of(o, source);
	if (source >= 2 && !read_block_at(o->r, source)->meta.files[BLOCK_SAMPLES].size)
		return 0;
	_cleanup_(mem_freep) uint32_t *numbers = mem_alloc_array(series, sizeof(*numbers));
	if (!numbers)
		return error_nomem(o->err);
	for (size_t i = 0; i < series; i++)
		numbers[i] = NOT_AVERAGED;
	for (size_t i = 0; i < count; i++) {
		const struct window *window = &o->windows[spans[i].number];
		if (spans[i].number < o->first || spans[i].number >= o->end || spans[i].id >= series)
			continue;
		numbers[spans[i].id] = spans[i].number;
		hull.from_ns = window->from_ns < hull.from_ns ? window->from_ns : hull.from_ns;
		hull.last_ns = window->last_ns > hull.last_ns ? window->last_ns : hull.last_ns;
	}
	if (hull.from_ns > hull.last_ns)
		return 0;
	o->numbers = numbers;
	o->source_first = o->count;
	int code = source >= 2 ? scan_block(o, read_block_at(o->r, source), &hull) : scan_head(o, source);
	o->numbers = NULL;
	sort_times(o);
	return code;
}

static int scan_sources(struct overlaps *o)
{
	int code = 0;
	o->count = 0;
	for (size_t from = 0, to; code == 0 && from < o->span_count; from = to) {
		for (to = from + 1; to < o->span_count && o->spans[to].source == o->spans[from].source; to++)
			;
		code = scan_source(o, o->spans + from, to - from);
	}
	return code;
}

/* ---- doubles ---- */

static int take_doubles(struct overlaps *o)
{
	if (o->count)
		qsort(o->times, o->count, sizeof(*o->times), compare_times);
	for (size_t i = 1; i < o->count; i++) {
		const struct profile_time *time = &o->times[i];
		if (compare_times(&o->times[i - 1], time) != 0)
			continue;
		uint64_t key = average_key(time->number, read_bucket_of(o->r, time->time_ns));
		if (map64_add(&o->r->averages.profiles, key, (uint64_t)-1) < 0)
			return error_nomem(o->err);
	}
	return 0;
}

static int count_all(struct overlaps *o)
{
	uint32_t count = (uint32_t)o->r->averages.count, size = count;
	int code = 0;
	for (o->first = 0; code == 0 && o->first < count;) {
		o->end = count - o->first < size ? count : o->first + size;
		/* As many series as fit; one by itself may take more. */
		o->times_max = size > 1 ? read_overlap_times_max : AVERAGES_MAX;
		code = scan_sources(o);
		if (code == -E2BIG && size > 1) {
			size = (size + 1) / 2;
			code = 0;
			continue;
		}
		if (code == -E2BIG)
			return error_set(o->err, code,
					 "more than %u profiles of one series are in several blocks: take a shorter range",
					 AVERAGES_MAX);
		if (code == 0)
			code = take_doubles(o);
		o->first = o->end;
	}
	return code == SELECT_LIMITED ? 0 : code; /* the result is partial, as it says */
}

int read_count_overlaps(struct reading *r, struct error *err)
{
	struct averages *averages = &r->averages;
	struct overlaps o = {.r = r, .err = err};
	if (averages->spans.count < 2)
		return 0;
	o.windows = mem_alloc_array(averages->count, sizeof(*o.windows));
	if (!o.windows)
		return error_nomem(err);
	qsort(averages->spans.items, averages->spans.count, sizeof(*averages->spans.items), compare_by_series);
	find_windows(&o);
	keep_spans(&o);
	int code = o.span_count ? count_all(&o) : 0;
	mem_free(o.windows);
	mem_free(o.times);
	return code;
}
