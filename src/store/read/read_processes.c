/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of processes, source by source. The rows of a head are put together under its lock and handed over after it; those of a
 * block go out as they are read, because a day of a fleet has too many to hold. So a block that turns out to be damaged
 * half-way has already been seen in part, and the caller has to begin again, without it.
 */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/time.h"
#include "store/block/block_scan.h"
#include "store/processes.h"
#include "store/read/select.h"
#include "store/store_int.h"

struct reading {
	struct local_store *store;
	const struct store_select *select;
	struct series_matcher *series; /* its conditions, compiled */
	const struct store_grouping *grouping;
	unsigned columns;
	store_on_process on_row;
	void *context;
	struct store_read_stats *stats;
	struct store_snapshot snapshot;
	size_t done, source_count;
	struct store_read_stats lost; /* rows that are damaged */
	/* The block at hand */
	struct block *block;
	const struct selection *selection;
	const struct block_scan *scan;
	bool has_given, is_limited;
	int callback_code; /* what on_row() returned */
};

static uint32_t group_of(const struct selection *selection, uint32_t series)
{
	return selection->groups ? selection->groups[series] : 0;
}

/* rows: those of this source so far. */
static int check(struct reading *r, uint64_t rows, struct error *err)
{
	return select_check(r->select, rows, r->done, r->source_count, r->stats, err);
}

static int give(struct reading *r, struct store_process_row *row, struct error *err)
{
	r->has_given = true;
	r->callback_code = r->on_row(r->context, row, err);
	return r->callback_code;
}

/* ---- heads ---- */

/* head->lock is held. The rows that are wanted; *ret_selection has the groups of their series. */
static int collect_rows(struct reading *r, struct head *head, struct selection *ret_selection, struct process_row **ret,
			size_t *ret_count, struct error *err)
{
	struct head_columns *columns;
	int code = head_columns_get(head, &columns, err);
	if (code < 0)
		return code;
	code = selection_make_processes(r->series, r->grouping, &columns->columns, ret_selection, err);
	head_columns_put(head, columns);
	if (code < 0)
		return code;
	r->stats->series += ret_selection->matched;
	_cleanup_(mem_freep) uint32_t *numbers = mem_alloc_array(ret_selection->count, sizeof(*numbers));
	if (!numbers)
		return error_nomem(err);
	for (size_t i = 0; i < ret_selection->count; i++)
		numbers[i] = ret_selection->wanted[i] ? (uint32_t)i : UINT32_MAX;
	return head_processes_sorted(&head->processes, numbers, r->select->from_ns, r->select->to_ns, ret, ret_count, err);
}

static int read_head(struct reading *r, struct head *head, struct error *err)
{
	_cleanup_(selection_release) struct selection selection = {0};
	_cleanup_(mem_freep) struct process_row *rows = NULL;
	size_t count = 0;
	pthread_rwlock_rdlock(&head->lock);
	int code = head->processes.end.count ? collect_rows(r, head, &selection, &rows, &count, err) : 0;
	pthread_rwlock_unlock(&head->lock);
	for (size_t i = 0; code == 0 && i < count; i++) {
		struct store_process_row row = {.group = group_of(&selection, rows[i].series), .time_ns = rows[i].time_ns};
		for (size_t c = 0; c < PROCESS_STATS_COLUMNS; c++)
			row.values[c] = r->columns >> c & 1 ? rows[i].values[c] : 0;
		code = give(r, &row, err);
	}
	r->stats->rows += count;
	r->stats->head_rows += count;
	return code;
}

/* ---- blocks ---- */

static int on_run(void *context, const struct block_run *run, struct error *err)
{
	struct reading *r = context;
	struct store_process_row row = {.group = group_of(r->selection, run->id)};
	int code = 0;
	for (size_t i = 0; code == 0 && i < run->count; i++) {
		row.time_ns = run->times[i];
		for (size_t c = 0; c < PROCESS_STATS_COLUMNS; c++)
			row.values[c] = run->values[c] ? run->values[c][i] : 0;
		code = give(r, &row, err);
	}
	return code;
}

static int on_check(void *context, struct error *err)
{
	struct reading *r = context;
	int code = check(r, r->scan->rows, err);
	r->is_limited = code == SELECT_LIMITED;
	return code;
}

static int on_lost(void *context, const struct block_lost *lost, const char *why)
{
	struct reading *r = context;
	damage_note_rows(r->store, r->block, lost, why);
	if (lost->rows)
		store_read_stats_lose(&r->lost, lost->rows, lost->from_ns, lost->to_ns);
	return 0;
}

static int scan_rows(struct reading *r, const struct block *block, const struct selection *selection, struct error *err)
{
	const struct block_range range = {r->select->from_ns, r->select->to_ns};
	struct block_scan scan = {
		.block = block,
		.file = BLOCK_PROCESSES,
		.wanted = selection->wanted,
		.id_count = selection->count,
		.ranges = &range,
		.range_count = 1,
		.need_times = true,
		.columns = r->columns,
		.on_run = on_run,
		.check = on_check,
		.on_lost = on_lost,
		.context = r,
	};
	r->selection = selection;
	r->scan = &scan;
	int code = block_scan(&scan, err);
	block_scan_add_counts(&scan, r->stats);
	return code;
}

static int scan_block(struct reading *r, struct block *block, struct error *err)
{
	struct block_series *series = NULL;
	_cleanup_(selection_release) struct selection selection = {0};
	int64_t started = time_monotonic_ns();
	int code = cache_get(r->store, block, BLOCK_PART_SERIES, (void **)&series, r->stats, err);
	if (code < 0)
		return code;
	code = selection_make_processes(r->series, r->grouping, &series->columns, &selection, err);
	if (code == 0)
		selection_limit(&selection, r->select, series->first_ns, series->last_ns);
	int64_t chosen = time_monotonic_ns();
	r->stats->phase_ns[STORE_PHASE_INDEX] += (uint64_t)(chosen - started);
	r->stats->series += selection.matched;
	if (code == 0 && selection.matched)
		code = scan_rows(r, block, &selection, err);
	r->stats->phase_ns[STORE_PHASE_SCAN] += (uint64_t)(time_monotonic_ns() - chosen);
	cache_put(r->store, BLOCK_PART_SERIES, series);
	return code;
}

static int read_block(struct reading *r, struct block *block, struct error *err)
{
	const struct block_meta *meta = &block->meta;
	struct error own = {0};
	if (meta->files[BLOCK_PROCESSES].size == 0 || meta->min_ns >= r->select->to_ns || meta->max_ns < r->select->from_ns) {
		r->stats->blocks_skipped++;
		return 0;
	}
	r->stats->blocks++;
	r->block = block;
	if (meta->lost.rows && meta->lost.from_ns < r->select->to_ns && meta->lost.to_ns >= r->select->from_ns)
		store_read_stats_lose(&r->lost, meta->lost.rows, meta->lost.from_ns, meta->lost.to_ns);
	r->has_given = r->is_limited = false;
	r->callback_code = 0;
	int code = scan_block(r, block, &own);
	damage_note_corrected(r->store, block);
	if (r->is_limited)
		return SELECT_LIMITED;
	if (code == -EBADMSG && r->callback_code == 0) {
		blocks_set_aside(r->store, block, own.message);
		return r->has_given ? error_set(err, -EAGAIN, "%s", own.message) : 0;
	}
	if (code < 0 && err)
		*err = own;
	return code;
}

/* ---- all of it ---- */

static int read_sources(struct reading *r, struct error *err)
{
	int code = 0;
	r->source_count = 2 + r->snapshot.block_count;
	for (; code == 0 && r->done < r->source_count; r->done++) {
		code = check(r, 0, err);
		if (code != 0)
			break;
		if (r->done >= 2)
			code = read_block(r, r->snapshot.blocks[r->source_count - 1 - r->done], err);
		else if (r->snapshot.heads[1 - r->done])
			code = read_head(r, r->snapshot.heads[1 - r->done], err);
	}
	return code == SELECT_LIMITED ? 0 : code;
}

static void give_lost(struct reading *r)
{
	char from[TIME_TEXT_MAX], to[TIME_TEXT_MAX];
	if (!r->lost.lost_rows)
		return;
	store_read_stats_lose(r->stats, r->lost.lost_rows, r->lost.lost_from_ns, r->lost.lost_to_ns);
	if (!r->stats->partial)
		snprintf(r->stats->why, sizeof(r->stats->why), "%llu rows from %s to %s are damaged",
			 (unsigned long long)r->lost.lost_rows, time_format(r->lost.lost_from_ns, from),
			 time_format(r->lost.lost_to_ns, to));
	r->stats->partial = true;
}

int local_read_processes(struct local_store *store, const struct store_select *select, const struct store_grouping *grouping,
			 unsigned columns, store_on_process on_row, void *context, struct store_read_stats *stats,
			 struct error *err)
{
	struct store_read_stats own;
	struct reading reading = {
		.store = store,
		.select = select,
		.grouping = grouping,
		.columns = columns,
		.on_row = on_row,
		.context = context,
		.stats = stats ? stats : &own,
	};
	*reading.stats = (struct store_read_stats){0};
	if (select->from_ns >= select->to_ns)
		return 0;
	_cleanup_(series_matcher_freep) struct series_matcher *series = NULL;
	int code = series_matcher_new(&select->series, &series, err);
	if (code == 0)
		code = store_snapshot_take(store, &reading.snapshot, err);
	if (code < 0)
		return code;
	reading.series = series;
	code = read_sources(&reading, err);
	int failure = series_matcher_failure(series, err);
	code = failure < 0 ? failure : code;
	give_lost(&reading);
	gaps_note(store, select->from_ns, select->to_ns, reading.stats);
	store_snapshot_release(store, &reading.snapshot);
	return code;
}
