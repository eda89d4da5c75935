/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: merge, series, list.
 *
 * Each works on a snapshot: the heads and blocks as they were at one moment, referenced. Head and blocks are handled one after
 * the other, and each gives all or nothing: what a source adds to the result is collected first and handed over when nothing in
 * it can turn out to be damaged any more. A damaged block is then set aside, and the result is that of the rest.
 *
 * Merging adds values into a dense array by the source's stack ids, which costs an addition a sample; only at the end are the
 * stacks that have a value looked up in the result. The numbers of samples and of stacks differ by orders of magnitude.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "store/store_int.h"

struct point {
	uint32_t entry; /* of the series set */
	uint64_t bucket;
	int64_t value;
};

struct reading {
	struct store *store;
	const struct store_select *select;
	struct store_read_stats *stats, own_stats;
	struct store_snapshot snapshot;
	struct series_set set;
	struct error *err;

	/* Merge */
	struct merge_target target;
	bool has_type;
	struct profile_type type;
	int64_t period;
	bool has_range;
	int64_t min_ns, max_ns;

	/* Series */
	const struct store_series_sink *sink;
	int64_t step_ns;
	uint32_t announced;
	struct point *points; /* of the source at hand */
	size_t point_count, point_capacity;
};

/* A source's series that are wanted. */
struct wanted {
	bool *flags;	   /* by the source's series id */
	uint32_t *entries; /* their places in the series set */
	size_t count;	   /* of series in the source */
	size_t matched;
};

static void release_wanted(struct wanted *wanted)
{
	mem_free(wanted->flags);
	mem_free(wanted->entries);
}

static int check_cancel(const struct reading *r)
{
	if (r->select->cancel && __atomic_load_n(r->select->cancel, __ATOMIC_RELAXED))
		return error_set(r->err, -ECANCELED, "the query was cancelled");
	return 0;
}

/* ---- which series ---- */

static bool overlaps(const struct store_select *select, int64_t first_ns, int64_t last_ns)
{
	return first_ns < select->to_ns && last_ns >= select->from_ns;
}

static int select_series(struct reading *r, const struct series *series, size_t count, struct wanted *ret)
{
	*ret = (struct wanted){
		.flags = mem_zalloc(count), .entries = mem_alloc_array(count, sizeof(*ret->entries)), .count = count};
	if (!ret->flags || !ret->entries)
		return error_nomem(r->err);
	for (size_t i = 0; i < count; i++) {
		bool is_new;
		if (series[i].samples == 0 || !overlaps(r->select, series[i].first_ns, series[i].last_ns))
			continue;
		int code = series_set_add(&r->set, &series[i], &ret->entries[i], &is_new, r->err);
		if (code < 0)
			return code;
		const struct series_set_entry *entry = &r->set.entries[ret->entries[i]];
		ret->flags[i] = entry->matches;
		ret->matched += entry->matches;
		r->stats->series += entry->matches && is_new;
	}
	return 0;
}

/* ---- sinks ---- */

/* Announces a series before its first point. */
static int announce(struct reading *r, struct series_set_entry *entry)
{
	if (entry->number != UINT32_MAX)
		return 0;
	entry->number = r->announced++;
	return r->sink->on_series(r->sink->context, entry->number, &entry->type, &entry->labels, r->err);
}

static int hand_over_points(struct reading *r)
{
	int code = 0;
	for (size_t i = 0; code == 0 && i < r->point_count; i++) {
		const struct point *point = &r->points[i];
		struct series_set_entry *entry = &r->set.entries[point->entry];
		code = announce(r, entry);
		if (code == 0)
			code = r->sink->on_point(r->sink->context, entry->number, point->bucket, point->value, r->err);
	}
	r->point_count = 0;
	return code;
}

static int hand_over_series(struct reading *r, const struct wanted *wanted)
{
	int code = 0;
	for (size_t i = 0; code == 0 && i < wanted->count; i++)
		if (wanted->flags[i])
			code = announce(r, &r->set.entries[wanted->entries[i]]);
	return code;
}

/* ---- points ---- */

static uint64_t bucket_of(const struct reading *r, int64_t time_ns)
{
	return r->step_ns ? ((uint64_t)time_ns - (uint64_t)r->select->from_ns) / (uint64_t)r->step_ns : 0;
}

/* last[series] is the index + 1 of its newest point: rows of a series mostly come by rising time. */
static int add_point(struct reading *r, uint32_t *last, uint32_t series, uint32_t entry, uint64_t bucket, int64_t value)
{
	if (last[series] && r->points[last[series] - 1].bucket == bucket) {
		int64_t *sum = &r->points[last[series] - 1].value;
		*sum = (int64_t)((uint64_t)*sum + (uint64_t)value);
		return 0;
	}
	if (array_reserve(&r->points, &r->point_capacity, r->point_count + 1, UINT32_MAX - 1) < 0)
		return error_nomem(r->err);
	r->points[r->point_count++] = (struct point){.entry = entry, .bucket = bucket, .value = value};
	last[series] = (uint32_t)r->point_count;
	return 0;
}

/* ---- merging ---- */

/* Notes type, period and time range of what is wanted; all must be of one type. */
static int note_series(struct reading *r, const struct series *series, const struct wanted *wanted)
{
	for (size_t i = 0; i < wanted->count; i++) {
		const struct series *one = &series[i];
		if (!wanted->flags[i])
			continue;
		if (r->has_type && !profile_type_equal(&r->type, one->type)) {
			char a[PROFILE_TYPE_TEXT_MAX], b[PROFILE_TYPE_TEXT_MAX];
			return error_set(r->err, -EINVAL, "the selection has series of different types, %s and %s: select one",
					 profile_type_format(&r->type, a), profile_type_format(one->type, b));
		}
		r->type = *one->type;
		r->has_type = true;
		r->period = one->period > r->period ? one->period : r->period;
		int64_t first = one->first_ns > r->select->from_ns ? one->first_ns : r->select->from_ns;
		int64_t last = one->last_ns < r->select->to_ns ? one->last_ns : r->select->to_ns;
		r->min_ns = !r->has_range || first < r->min_ns ? first : r->min_ns;
		r->max_ns = !r->has_range || last > r->max_ns ? last : r->max_ns;
		r->has_range = true;
	}
	return 0;
}

static int set_type(struct reading *r)
{
	struct profile *into = r->target.profile;
	uint32_t type, unit;
	int code = profile_add_cstring(into, r->type.sample_type, &type, r->err);
	if (code == 0)
		code = profile_add_cstring(into, r->type.sample_unit, &unit, r->err);
	if (code == 0)
		code = profile_add_sample_type(into, type, unit, r->err);
	if (code == 0)
		code = profile_add_cstring(into, r->type.period_type, &into->period_type.type, r->err);
	if (code == 0)
		code = profile_add_cstring(into, r->type.period_unit, &into->period_type.unit, r->err);
	into->period = r->period;
	into->time_ns = r->min_ns;
	into->duration_ns = (int64_t)((uint64_t)r->max_ns - (uint64_t)r->min_ns);
	return code;
}

static int finish_merge(struct reading *r)
{
	int code = r->has_type ? set_type(r) : 0;
	for (size_t stack = 0; code == 0 && stack < r->target.count; stack++) {
		struct profile_sample sample = {.stack = (uint32_t)stack};
		if (r->target.values[stack])
			code = profile_add_sample(r->target.profile, &sample, &r->target.values[stack], r->err);
	}
	return code;
}

/* ---- the head ---- */

static bool is_in_range(const struct store_select *select, int64_t time_ns)
{
	return time_ns >= select->from_ns && time_ns < select->to_ns;
}

static int copy_head_stacks(struct reading *r, const struct profile *pool, const int64_t *sums)
{
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	int code = profile_copy_new(r->target.profile, pool, &copy, r->err);
	for (size_t i = 0; code == 0 && i < pool->stack_count; i++) {
		uint32_t stack;
		if (sums[i] == 0)
			continue;
		code = profile_copy_stack(copy, (uint32_t)i, &stack, r->err);
		if (code == 0)
			code = merge_target_add(&r->target, stack, sums[i], r->err);
	}
	return code;
}

static int merge_head(struct reading *r, const struct head *head, const struct wanted *wanted)
{
	_cleanup_(mem_freep) int64_t *sums = mem_zalloc_array(head->pool->stack_count, sizeof(*sums));
	if (!sums)
		return error_nomem(r->err);
	for (size_t i = 0; i < head->count; i++) {
		if (!wanted->flags[head->series_ids[i]] || !is_in_range(r->select, head->times[i]))
			continue;
		int64_t *sum = &sums[head->stacks[i]];
		*sum = (int64_t)((uint64_t)*sum + (uint64_t)head->values[i]);
		r->stats->rows++;
	}
	return copy_head_stacks(r, head->pool, sums);
}

static int collect_head_points(struct reading *r, const struct head *head, const struct wanted *wanted)
{
	_cleanup_(mem_freep) uint32_t *last = mem_zalloc_array(wanted->count, sizeof(*last));
	if (!last)
		return error_nomem(r->err);
	int code = 0;
	for (size_t i = 0; code == 0 && i < head->count; i++) {
		uint32_t series = head->series_ids[i];
		if (!wanted->flags[series] || !is_in_range(r->select, head->times[i]))
			continue;
		r->stats->rows++;
		code = add_point(r, last, series, wanted->entries[series], bucket_of(r, head->times[i]), head->values[i]);
	}
	return code;
}

/* The head is locked for reading only while its samples are read; callbacks of the sink come after that. */
static int read_head(struct reading *r, struct head *head, bool merge)
{
	struct wanted wanted = {0};
	if (!head)
		return 0;
	int code = check_cancel(r);
	if (code < 0)
		return code;
	pthread_rwlock_rdlock(&head->lock);
	code = select_series(r, head->series, head->series_count, &wanted);
	if (code == 0 && merge)
		code = note_series(r, head->series, &wanted);
	if (code == 0 && wanted.matched && merge)
		code = merge_head(r, head, &wanted);
	else if (code == 0 && wanted.matched && r->sink->on_point)
		code = collect_head_points(r, head, &wanted);
	pthread_rwlock_unlock(&head->lock);
	if (code == 0 && !merge)
		code = r->sink->on_point ? hand_over_points(r) : hand_over_series(r, &wanted);
	release_wanted(&wanted);
	return code;
}

/* ---- blocks ---- */

struct block_reading {
	struct reading *r;
	const struct wanted *wanted;
	int64_t *sums;	/* by stack */
	uint32_t *last; /* see add_point() */
};

static int sum_run(void *context, const struct block_run *run, struct error *err)
{
	int64_t *sums = ((struct block_reading *)context)->sums;
	for (size_t i = 0; i < run->count; i++)
		sums[run->stacks[i]] = (int64_t)((uint64_t)sums[run->stacks[i]] + (uint64_t)run->values[i]);
	return 0;
}

static int point_run(void *context, const struct block_run *run, struct error *err)
{
	struct block_reading *b = context;
	uint32_t entry = b->wanted->entries[run->series];
	int code = 0;
	for (size_t i = 0; code == 0 && i < run->count;) {
		uint64_t bucket = run->times ? bucket_of(b->r, run->times[i]) : 0, sum = 0;
		for (; i < run->count && (!run->times || bucket_of(b->r, run->times[i]) == bucket); i++)
			sum += (uint64_t)run->values[i];
		code = add_point(b->r, b->last, run->series, entry, bucket, (int64_t)sum);
	}
	return code;
}

static int scan_block(struct block_reading *b, struct block *block, size_t stack_count)
{
	struct reading *r = b->r;
	struct block_scan scan = {
		.block = block,
		.wanted = b->wanted->flags,
		.series_count = b->wanted->count,
		.stack_count = stack_count,
		.from_ns = r->select->from_ns,
		.to_ns = r->select->to_ns,
		.need_times = r->step_ns != 0,
		.cancel = r->select->cancel,
		.on_run = stack_count ? sum_run : point_run,
		.context = b,
	};
	int code = block_scan(&scan, r->err);
	r->stats->rows += scan.rows;
	r->stats->bytes += scan.bytes;
	return code;
}

static int merge_block(struct reading *r, struct block *block, const struct wanted *wanted)
{
	struct block_reading b = {.r = r, .wanted = wanted};
	struct block_tables *tables = NULL;
	int code = blocks_get_tables(r->store, block, &tables, &r->stats->bytes, r->err);
	if (code < 0)
		return code;
	b.sums = mem_zalloc_array(tables->stack_count, sizeof(*b.sums));
	code = b.sums ? scan_block(&b, block, tables->stack_count) : error_nomem(r->err);
	if (code == 0)
		code = materialize_block(tables, b.sums, &r->target, r->err);
	mem_free(b.sums);
	blocks_put_tables(r->store, tables);
	return code;
}

static int collect_block_points(struct reading *r, struct block *block, const struct wanted *wanted)
{
	struct block_reading b = {.r = r, .wanted = wanted};
	b.last = mem_zalloc_array(wanted->count, sizeof(*b.last));
	int code = b.last ? scan_block(&b, block, 0) : error_nomem(r->err);
	mem_free(b.last);
	return code;
}

static int read_series_of_block(struct reading *r, struct block *block, bool merge, const struct block_series *series,
				struct wanted *wanted)
{
	int code = select_series(r, series->series, series->count, wanted);
	if (code == 0 && merge)
		code = note_series(r, series->series, wanted);
	if (code < 0 || wanted->matched == 0)
		return code;
	if (merge)
		return merge_block(r, block, wanted);
	if (!r->sink->on_point)
		return hand_over_series(r, wanted);
	code = collect_block_points(r, block, wanted);
	return code == 0 ? hand_over_points(r) : code;
}

static int read_one_block(struct reading *r, struct block *block, bool merge)
{
	struct wanted wanted = {0};
	struct block_series *series = NULL;
	int code = blocks_get_series(r->store, block, &series, &r->stats->bytes, r->err);
	if (code == 0)
		code = read_series_of_block(r, block, merge, series, &wanted);
	release_wanted(&wanted);
	blocks_put_series(r->store, series);
	return code;
}

static int read_block(struct reading *r, struct block *block, bool merge)
{
	struct error *err = r->err, own = {0};
	if (!overlaps(r->select, block->meta.min_ns, block->meta.max_ns)) {
		r->stats->blocks_skipped++;
		return 0;
	}
	r->stats->blocks++;
	int code = check_cancel(r);
	if (code < 0)
		return code;
	r->err = &own;
	code = read_one_block(r, block, merge);
	r->err = err;
	if (code == -EBADMSG) {
		r->point_count = 0;
		blocks_set_aside(r->store, block, own.message);
		return 0;
	}
	if (code < 0 && err)
		*err = own;
	return code;
}

/* ---- entry points ---- */

static int read_all(struct reading *r, bool merge)
{
	if (!r->stats)
		r->stats = &r->own_stats;
	*r->stats = (struct store_read_stats){0};
	if (r->select->from_ns >= r->select->to_ns)
		return 0;
	series_set_init(&r->set, r->select);
	int code = store_snapshot_take(r->store, &r->snapshot, r->err);
	for (size_t i = 0; code == 0 && i < r->snapshot.block_count; i++)
		code = read_block(r, r->snapshot.blocks[i], merge);
	for (size_t i = 0; code == 0 && i < 2; i++)
		code = read_head(r, r->snapshot.heads[i], merge);
	if (code == 0 && merge)
		code = finish_merge(r);
	store_snapshot_release(r->store, &r->snapshot);
	series_set_release(&r->set);
	mem_free(r->target.values);
	mem_free(r->points);
	return code;
}

int store_merge(struct store *store, const struct store_select *select, struct profile *into, struct store_read_stats *stats,
		struct error *err)
{
	struct reading reading = {.store = store, .select = select, .stats = stats, .err = err, .target = {.profile = into}};
	return read_all(&reading, true);
}

int store_series(struct store *store, const struct store_select *select, int64_t step_ns, const struct store_series_sink *sink,
		 struct store_read_stats *stats, struct error *err)
{
	struct reading reading = {
		.store = store, .select = select, .stats = stats, .err = err, .sink = sink, .step_ns = step_ns};
	if (step_ns < 0)
		return error_set(err, -EINVAL, "the step is negative");
	return read_all(&reading, false);
}

int store_list_series(struct store *store, const struct store_select *select, const struct store_series_sink *sink,
		      struct store_read_stats *stats, struct error *err)
{
	struct store_series_sink names_only = {.on_series = sink->on_series, .context = sink->context};
	struct reading reading = {.store = store, .select = select, .stats = stats, .err = err, .sink = &names_only};
	return read_all(&reading, false);
}
