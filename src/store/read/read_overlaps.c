/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that several sources have rows of.
 *
 * Each source counts the profiles of a gauge by itself: different times of a series. A time that two sources have is one
 * profile, though, as it will be when they are merged. That happens when data comes late or twice, or when a head was cut
 * between two appends of one time.
 *
 *   spans     from when to when each source has each series, noted while it was counted, source by source in the order of age
 *   shared    of a series, where a span reaches into those before: mostly that is nowhere, and nothing more to do
 *   times     the series' times there, of each source that has any, from samples
 *   doubles   a time that came from n sources was counted n - 1 times too often
 *
 * Times are held for some series at once, so memory is bounded; sources are then scanned again for the next series.
 *
 * Left as they are: blocks of which only rollups are left. Nothing is known of single profiles there.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "store/block/block_scan.h"
#include "store/read/read_int.h"

size_t read_overlap_times_max = 1024 * 1024;

struct profile_time {
	uint32_t number;
	int64_t time_ns;
};
struct overlaps {
	struct reading *r;
	uint32_t first, end; /* numbers of the series whose times are collected */
	struct profile_time *times;
	size_t count, capacity, times_max;
	/* The source at hand */
	size_t source_first; /* of times, its own */
	uint32_t *numbers;   /* by its series, NOT_AVERAGED = not wanted */
	size_t series_count;
	int64_t from_ns, last_ns; /* of what is wanted of it; from > last: nothing */
	struct block *block;
	const struct block_scan *scan;
	struct error *err;
};

/* ---- times ---- */

static int add_time(struct overlaps *o, uint32_t id, int64_t time_ns)
{
	uint32_t number = o->numbers[id];
	const struct average_series *series = o->r->averages.series;
	if (number == NOT_AVERAGED || time_ns < series[number].shared_first_ns || time_ns > series[number].shared_last_ns)
		return 0;
	/* Rows of a profile are mostly neighbours. */
	const struct profile_time *last = o->count > o->source_first ? &o->times[o->count - 1] : NULL;
	if (last && last->number == number && last->time_ns == time_ns)
		return 0;
	int r = array_reserve(&o->times, &o->capacity, o->count + 1, o->times_max); /* which changes: not array_push() */
	if (r == -ENOMEM)
		return error_nomem(o->err);
	if (r == 0)
		o->times[o->count++] = (struct profile_time){number, time_ns};
	return r;
}

DEFINE_ORDER(compare_times, struct profile_time, ORDER(a->number, b->number) ?: ORDER(a->time_ns, b->time_ns));

/* Those of one source, each once. */
static void sort_times(struct overlaps *o)
{
	size_t first = o->source_first;
	o->count = first + sort_array_once(o->times + first, o->count - first, compare_times);
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

/* Of what is not there no time is counted twice; that it is not there is said where it is counted. */
static int on_lost(void *context, const struct block_lost *lost, const char *why)
{
	struct overlaps *o = context;
	damage_note_rows(o->r->store, o->block, lost, why);
	return 0;
}

static int scan_samples(struct overlaps *o, struct block *block)
{
	_cleanup_(mem_freep) uint8_t *wanted = mem_zalloc(o->series_count);
	struct error own = {0};
	if (!wanted)
		return error_nomem(o->err);
	for (size_t i = 0; i < o->series_count; i++)
		wanted[i] = o->numbers[i] != NOT_AVERAGED;
	const struct block_range range = {o->from_ns, o->last_ns + 1}; /* spans end before the range does */
	struct block_scan scan = {.block = block,
				  .file = BLOCK_SAMPLES,
				  .wanted = wanted,
				  .id_count = o->series_count,
				  .ranges = &range,
				  .range_count = 1,
				  .need_times = true,
				  .on_run = on_run,
				  .check = on_check,
				  .on_lost = on_lost,
				  .context = o};
	o->block = block;
	o->scan = &scan;
	int code = block_scan(&scan, &own);
	THREAD_LOCK_SCOPE(&o->r->lock);
	block_scan_add_counts(&scan, o->r->stats);
	if (code < 0 && own.message[0])
		error_set(o->err, code, "%s", own.message);
	return code;
}

/* Finds the series of a source whose times are wanted. */
static int choose_series(struct overlaps *o, const struct series_columns *columns)
{
	const struct averages *averages = &o->r->averages;
	struct label items[LIMIT_LABELS_PER_SERIES];
	o->series_count = columns->count;
	o->from_ns = INT64_MAX;
	o->last_ns = INT64_MIN;
	o->numbers = mem_alloc_array(columns->count, sizeof(*o->numbers));
	if (!o->numbers)
		return error_nomem(o->err);
	for (size_t i = 0; i < columns->count; i++) {
		const struct profile_type *type = &columns->types[columns->type_ids[i]];
		uint32_t number;
		o->numbers[i] = NOT_AVERAGED;
		if (!profile_type_is_gauge(type))
			continue;
		struct labels labels = series_columns_labels(columns, i, NULL, 0, items);
		if (!averages_find(averages, type, &labels, &number) || number < o->first || number >= o->end)
			continue;
		const struct average_series *series = &averages->series[number];
		if (series->shared_first_ns > series->shared_last_ns)
			continue;
		o->numbers[i] = number;
		o->from_ns = series->shared_first_ns < o->from_ns ? series->shared_first_ns : o->from_ns;
		o->last_ns = series->shared_last_ns > o->last_ns ? series->shared_last_ns : o->last_ns;
	}
	return 0;
}

static int scan_block(struct overlaps *o, struct block *block)
{
	struct reading *r = o->r;
	struct block_series *series = NULL;
	struct store_read_stats stats = {0};
	int code = cache_get(r->store, block, BLOCK_PART_SERIES, (void **)&series, &stats, o->err);
	if (code == 0)
		code = choose_series(o, &series->columns);
	if (code == 0 && o->from_ns <= o->last_ns)
		code = scan_samples(o, block);
	cache_put(r->store, BLOCK_PART_SERIES, series);
	if (code == -EBADMSG) {
		blocks_set_aside(r->store, block, o->err->message);
		/* Points were given already, from what was read of it before. Either way the result is partial now. */
		return r->merge ? -EAGAIN : 0;
	}
	return code;
}

static int scan_head(struct overlaps *o, uint32_t source)
{
	struct head *head = o->r->snapshot.heads[1 - source];
	struct head_columns *columns = NULL;
	if (!head)
		return 0;
	pthread_rwlock_rdlock(&head->lock);
	int code = head_columns_get(head, &columns, o->err);
	if (code == 0)
		code = choose_series(o, &columns->columns);
	for (size_t i = 0; code == 0 && o->from_ns <= o->last_ns && i < o->r->head_counts[source]; i++)
		code = add_time(o, head->series_ids[i], head->times[i]);
	pthread_rwlock_unlock(&head->lock);
	head_columns_put(head, columns);
	return code;
}

static bool has_samples(const struct block *block)
{
	return block->meta.files[BLOCK_SAMPLES].size > 0;
}

static int scan_source(struct overlaps *o, uint32_t source)
{
	struct reading *r = o->r;
	int code = 0;
	if (!r->spans[source].counted)
		return 0;
	o->source_first = o->count;
	if (source < 2)
		code = scan_head(o, source);
	else if (has_samples(read_block_at(r, source)) &&
		 read_overlaps(r->select, read_block_at(r, source)->meta.min_ns, read_block_at(r, source)->meta.max_ns))
		code = scan_block(o, read_block_at(r, source));
	o->numbers = mem_free(o->numbers);
	sort_times(o);
	return code;
}

static int scan_sources(struct overlaps *o)
{
	int code = 0;
	o->count = 0;
	for (size_t i = 0; code == 0 && i < o->r->source_count; i++)
		code = scan_source(o, (uint32_t)i);
	return code;
}

/* ---- doubles ---- */

static int take_doubles(struct overlaps *o)
{
	sort_array(o->times, o->count, compare_times);
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
	struct error own = {0};
	struct overlaps o = {.r = r, .err = err ? err : &own};
	for (size_t i = r->spans_noted; i < r->source_count; i++)
		averages_note_spans(&r->averages, &r->spans[i].spans);
	int code = r->averages.overlaps ? count_all(&o) : 0;
	mem_free(o.times);
	return code;
}
