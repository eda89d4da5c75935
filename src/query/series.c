/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values over time: sums per step and per group of label values; of gauges averages, which the store makes
 * (store/read/averages.h).
 *
 * Steps are aligned to multiples of the step since 1970, and the range is widened to whole steps, so that the same instant
 * falls into the same step whatever range is asked for, and the first and the last step are as complete as the others. Sums are
 * kept in one hash table keyed by (group, step), since most groups have values in few steps.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/time.h"
#include "query/query_int.h"

#define GROUPS_MAX     100000
#define POINTS_MAX     11000
#define POINTS_DEFAULT 200
#define ROWS_DEFAULT   100

struct series_build {
	struct store *store;
	struct groups groups;
	struct query_series_row *rows; /* by group */
	__int128 *totals;	       /* of rows, exactly */
	size_t row_count, row_capacity, total_capacity;
	struct map64 sums; /* group << 32 | step -> value */
	int64_t first_ns, step_ns;
	bool whole; /* one step */
};

static int build_on_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	struct series_build *build = context;
	if (array_reserve(&build->rows, &build->row_capacity, (size_t)group + 1, UINT32_MAX) < 0 ||
	    array_reserve(&build->totals, &build->total_capacity, (size_t)group + 1, UINT32_MAX) < 0)
		return error_nomem(err);
	for (; build->row_count <= group; build->row_count++) {
		build->rows[build->row_count] = (struct query_series_row){0};
		build->totals[build->row_count] = 0;
	}
	if (bucket != STORE_RANGE && map64_sum(&build->sums, (uint64_t)group << 32 | bucket, value) < 0)
		return error_nomem(err);
	build->totals[group] += value;
	return 0;
}

static int read_part(void *context, const struct store_select *select, const struct store_grouping *grouping,
		     struct store_read_stats *stats, struct error *err)
{
	struct series_build *build = context;
	return store_series(build->store, select, grouping, build->whole ? 0 : build->step_ns, build_on_point, build, stats,
			    err);
}

DEFINE_ORDER(compare_points, struct query_point, ORDER(a->time_ns, b->time_ns));

DEFINE_ORDER(compare_rows, struct query_series_row, ORDER(b->total, a->total) ?: labels_compare(&a->labels, &b->labels));

/* Distributes the sums over the groups' point arrays, and gives the groups their labels. */
static int build_points(struct series_build *build, struct error *err)
{
	size_t cursor = 0;
	uint64_t key, value;
	while (map64_next(&build->sums, &cursor, &key, &value))
		build->rows[key >> 32].point_count++;
	for (size_t i = 0; i < build->row_count; i++) {
		struct query_series_row *row = &build->rows[i];
		row->points = mem_alloc_array(row->point_count, sizeof(*row->points));
		if (!row->points)
			return error_nomem(err);
		row->point_count = 0;
		row->total = sum_of_wide(build->totals[i]);
		row->labels = build->groups.items[i];
		build->groups.items[i] = (struct labels){0};
	}
	cursor = 0;
	while (map64_next(&build->sums, &cursor, &key, &value)) {
		struct query_series_row *row = &build->rows[key >> 32];
		int64_t time_ns = build->first_ns + (int64_t)(uint32_t)key * build->step_ns;
		row->points[row->point_count++] = (struct query_point){.time_ns = time_ns, .value = (int64_t)value};
	}
	for (size_t i = 0; i < build->row_count; i++)
		sort_array(build->rows[i].points, build->rows[i].point_count, compare_points);
	return 0;
}

static void row_release(struct query_series_row *row)
{
	labels_release(&row->labels);
	row->points = mem_free(row->points);
}

static void build_release(struct series_build *build)
{
	for (size_t i = 0; i < build->row_count; i++)
		row_release(&build->rows[i]);
	mem_free(build->rows);
	mem_free(build->totals);
	groups_release(&build->groups);
	map64_release(&build->sums);
}

void query_round_range(int64_t *from_ns, int64_t *to_ns)
{
	const int64_t bucket = 300 * NS_PER_S;
	if (*from_ns < 0 || *to_ns > INT64_MAX - bucket || *to_ns - *from_ns < QUERY_ROUND_FROM_NS)
		return;
	*from_ns = time_floor(*from_ns, bucket);
	*to_ns = time_floor(*to_ns + bucket - 1, bucket);
}

/* A step that a person would choose, giving at most POINTS_DEFAULT points. */
static int64_t choose_step(int64_t range_ns)
{
	static const int steps_s[] = {1,   2,	5,    10,   15,	  30,	 60,	120,   300,
				      600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400};
	for (size_t i = 0; i < sizeof(steps_s) / sizeof(*steps_s); i++)
		if (range_ns / (steps_s[i] * NS_PER_S) <= POINTS_DEFAULT)
			return steps_s[i] * NS_PER_S;
	return (range_ns / POINTS_DEFAULT / (86400 * NS_PER_S) + 1) * 86400 * NS_PER_S;
}

static int align_range(const struct query *query, int64_t *step_ns, bool unaligned, struct query *ret, struct error *err)
{
	if (*step_ns < 0)
		return error_set(err, -EINVAL, "query: the step must be positive");
	if (query->from_ns < 0 || query->to_ns > INT64_MAX / 2 || query->from_ns >= query->to_ns)
		return error_set(err, -EINVAL, "query: the time range is empty or out of bounds");
	if (*step_ns == 0)
		*step_ns = choose_step(query->to_ns - query->from_ns);
	*ret = *query;
	if (!unaligned)
		ret->from_ns = time_floor(query->from_ns, *step_ns);
	if (!unaligned && *step_ns < INT64_MAX / 4)
		ret->to_ns = time_floor(query->to_ns + *step_ns - 1, *step_ns);
	if ((ret->to_ns - ret->from_ns) / *step_ns > POINTS_MAX)
		return error_set(err, -EINVAL, "query: more than %d points; use a longer step or a shorter range", POINTS_MAX);
	return 0;
}

/* The rows from `first` on as one. */
static int sum_rows(struct query_series_row *rows, size_t first, size_t count, struct query_series_row *ret, struct error *err)
{
	size_t points = 0, at = 0;
	for (size_t i = first; i < count; i++)
		points += rows[i].point_count;
	struct query_series_row sum = {.others = true, .points = mem_alloc_array(points, sizeof(*sum.points))};
	if (!sum.points)
		return error_nomem(err);
	for (size_t i = first; i < count; i++) {
		if (rows[i].point_count)
			memcpy(sum.points + at, rows[i].points, rows[i].point_count * sizeof(*sum.points));
		at += rows[i].point_count;
		sum_to(&sum.total, rows[i].total);
	}
	sort_array(sum.points, points, compare_points);
	for (size_t i = 0; i < points; i++) {
		struct query_point *last = sum.point_count ? &sum.points[sum.point_count - 1] : NULL;
		if (last && last->time_ns == sum.points[i].time_ns)
			sum_to(&last->value, sum.points[i].value);
		else
			sum.points[sum.point_count++] = sum.points[i];
	}
	*ret = sum;
	return 0;
}

int query_series_limit(struct query_series *series, size_t limit, bool others, struct error *err)
{
	bool had_others = series->count && series->rows[series->count - 1].others;
	size_t named = series->count - had_others;
	if (named <= limit)
		return 0;
	struct query_series_row rest;
	if (others) {
		int r = sum_rows(series->rows, limit, series->count, &rest, err);
		if (r < 0)
			return r;
	}
	while (series->count > limit)
		row_release(&series->rows[--series->count]);
	if (others)
		series->rows[series->count++] = rest;
	return 0;
}

/* Groups whose samples all lie outside the range or were filtered. */
static void drop_empty_rows(struct series_build *build)
{
	size_t kept = 0;
	for (size_t i = 0; i < build->row_count; i++) {
		if (build->rows[i].point_count)
			build->rows[kept++] = build->rows[i];
		else
			row_release(&build->rows[i]);
	}
	build->row_count = kept;
}

static int series_finish(struct series_build *build, const struct query_series_options *options, struct query_series *ret,
			 struct error *err)
{
	int r = build_points(build, err);
	if (r < 0)
		return r;
	drop_empty_rows(build);
	sort_array(build->rows, build->row_count, compare_rows);
	ret->rows = build->rows;
	ret->count = ret->count_before_limit = build->row_count;
	ret->step_ns = build->step_ns;
	ret->rate = options->rate && !query_type_is_gauge(&ret->type);
	build->rows = NULL;
	build->row_count = 0;
	r = query_series_limit(ret, options->limit ? options->limit : ROWS_DEFAULT, options->others, err);
	if (r < 0)
		query_series_release(ret);
	return r;
}

static int keep_names(const struct query_series_options *options, struct query_series *series)
{
	for (size_t i = 0; !options->each && i < options->by_count; i++) {
		series->by[i] = mem_strdup(options->by[i]);
		if (!series->by[i])
			return -ENOMEM;
		series->by_count++;
	}
	return 0;
}

/* Whether any sum in the answer, or made of it, may be at a limit. */
static bool is_saturated(const struct query_series *series)
{
	struct sum_guard guard = {0};
	for (size_t i = 0; i < series->count; i++) {
		const struct query_series_row *row = &series->rows[i];
		sum_guard_add(&guard, row->total);
		for (size_t k = 0; k < row->point_count; k++)
			if (sum_is_full(row->points[k].value))
				return true;
	}
	return sum_guard_is_full(&guard);
}

/* *ret_several: it failed because the selector matches several types. */
static int series_once(struct store *store, struct symbolizer *symbolizer, const struct query *query,
		       const struct query_series_options *options, struct query_series *ret, bool *ret_several,
		       struct query_stats *stats, struct error *err)
{
	struct query aligned = *query;
	int64_t step_ns = options->whole ? query->to_ns - query->from_ns : options->step_ns, started = time_monotonic_ns();
	int r = options->whole ? 0 : align_range(query, &step_ns, options->unaligned, &aligned, err);
	if (r < 0)
		return r;
	_cleanup_(query_scan_release) struct query_scan scan = {0};
	_cleanup_(build_release) struct series_build build = {
		.store = store, .first_ns = aligned.from_ns, .step_ns = step_ns, .whole = options->whole};
	r = query_scan_init(&scan, symbolizer, &aligned, err);
	if (!r)
		r = groups_init(&build.groups, &scan, options->by, options->by_count, GROUPS_MAX, err);
	if (!r)
		r = query_scan_join(&scan, store, options->by, options->by_count, err);
	if (r < 0)
		return r;
	int64_t parsed = time_monotonic_ns();
	stats->parse_ns += (uint64_t)(parsed - started);
	scan.must_know_type = !query->any_type;
	struct store_grouping grouping = {.by = options->each ? NULL : build.groups.by,
					  .by_count = options->by_count,
					  .group = groups_on_group,
					  .context = &build.groups};
	r = query_scan_read(&scan, &grouping, read_part, &build, err);
	r = query_scan_finish(&scan, store, r, stats, parsed, err);
	*ret_several = scan.several_types;
	if (r < 0)
		return r;
	*ret = (struct query_series){
		.from_ns = aligned.from_ns, .to_ns = aligned.to_ns, .type = scan.type, .period = scan.read.period};
	r = series_finish(&build, options, ret, err);
	if (!r && keep_names(options, ret) < 0) {
		query_series_release(ret);
		r = error_nomem(err);
	}
	stats->read.saturated |= r == 0 && is_saturated(ret);
	return r;
}

int query_series(struct store *store, struct symbolizer *symbolizer, const struct query *query,
		 const struct query_series_options *options, struct query_series *ret, struct query_stats *stats,
		 struct error *err)
{
	static const struct query_series_options defaults;
	struct query_stats unused = {0};
	struct error why = {0};
	char text[PROFILE_TYPE_TEXT_MAX];
	bool several = false;
	options = options ? options : &defaults;
	stats = stats ? stats : &unused;
	int r = series_once(store, symbolizer, query, options, ret, &several, stats, err);
	if (r == 0 || !several || query_only_type(store, query, text, &why) <= 0)
		return r;
	struct query narrowed = *query;
	narrowed.type = text;
	return series_once(store, symbolizer, &narrowed, options, ret, &several, stats, err);
}

static bool is_time_unit(const struct query_series *series)
{
	return strcmp(series->type.sample_unit, "nanoseconds") == 0;
}

double query_series_value(const struct query_series *series, int64_t value)
{
	if (!series->rate)
		return (double)value;
	return is_time_unit(series) ? (double)value / (double)series->step_ns
				    : (double)value * (double)NS_PER_S / (double)series->step_ns;
}

const char *query_series_unit(const struct query_series *series, char out[static QUERY_UNIT_MAX])
{
	if (series->rate && is_time_unit(series))
		snprintf(out, QUERY_UNIT_MAX, "cores");
	else
		snprintf(out, QUERY_UNIT_MAX, "%s%s", series->type.sample_unit, series->rate ? "/s" : "");
	return out;
}

void query_series_release(struct query_series *series)
{
	for (size_t i = 0; i < series->count; i++)
		row_release(&series->rows[i]);
	mem_free(series->rows);
	for (size_t i = 0; i < series->by_count; i++)
		mem_free(series->by[i]);
	*series = (struct query_series){0};
}
