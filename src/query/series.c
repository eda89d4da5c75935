/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values over time: sums per step and per group of label values.
 *
 * Steps are aligned to multiples of the step since 1970, and the range is widened to whole steps, so that the same instant
 * falls into the same step whatever range is asked for, and the first and the last step are as complete as the others. Sums are
 * kept in one hash table keyed by (group, step), since most groups have values in few steps.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/time.h"
#include "query/query_int.h"

#define GROUPS_MAX     100000
#define POINTS_MAX     11000
#define POINTS_DEFAULT 200
#define ROWS_DEFAULT   100

struct series_build {
	const char *const *by;
	size_t by_count;
	struct query_series_row *groups;
	size_t group_count, group_capacity;
	struct index32 group_index;
	uint32_t *group_of; /* by the store's series number */
	size_t series_capacity;
	struct map64 sums; /* group << 32 | step -> value */
	int64_t first_ns, step_ns;
};

static int group_key(const struct series_build *build, const struct labels *labels, struct labels *ret, struct error *err)
{
	labels_init(ret);
	for (size_t i = 0; i < build->by_count; i++) {
		const char *value = labels_get(labels, build->by[i]);
		int r = value ? labels_set(ret, build->by[i], value, err) : 0;
		if (r) {
			labels_release(ret);
			return r;
		}
	}
	return 0;
}

/* Finds or makes the group of these labels. */
static int find_group(struct series_build *build, const struct labels *labels, uint32_t *ret, struct error *err)
{
	struct labels key;
	int r = group_key(build, labels, &key, err);
	if (r)
		return r;
	uint64_t hash = labels_hash(&key);
	for (size_t at = index32_first(&build->group_index, hash); index32_at(&build->group_index, hash, &at, ret); at++) {
		if (labels_compare(&build->groups[*ret].labels, &key) == 0) {
			labels_release(&key);
			return 0;
		}
	}
	r = array_reserve(&build->groups, &build->group_capacity, build->group_count + 1, GROUPS_MAX);
	if (!r)
		r = index32_add(&build->group_index, hash, (uint32_t)build->group_count);
	if (r) {
		labels_release(&key);
		if (r == -E2BIG)
			return error_set(err, -EINVAL,
					 "query: more than %d groups; group by fewer labels or narrow the selector",
					 GROUPS_MAX);
		return error_nomem(err);
	}
	*ret = (uint32_t)build->group_count;
	build->groups[build->group_count++] = (struct query_series_row){.labels = key};
	return 0;
}

static int build_on_series(void *context, uint32_t series, const struct profile_type *type, const struct labels *labels,
			   struct error *err)
{
	struct series_build *build = context;
	(void)type;
	if (array_reserve(&build->group_of, &build->series_capacity, (size_t)series + 1, UINT32_MAX))
		return error_nomem(err);
	return find_group(build, labels, &build->group_of[series], err);
}

static int build_on_point(void *context, uint32_t series, uint64_t bucket, int64_t value, struct error *err)
{
	struct series_build *build = context;
	uint32_t group = build->group_of[series];
	uint64_t key = (uint64_t)group << 32 | bucket, sum = 0;
	map64_get(&build->sums, key, &sum);
	if (map64_put(&build->sums, key, sum + (uint64_t)value))
		return error_nomem(err);
	struct query_series_row *row = &build->groups[group];
	row->total = (int64_t)((uint64_t)row->total + (uint64_t)value);
	return 0;
}

static int compare_points(const void *a, const void *b)
{
	const struct query_point *x = a, *y = b;
	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static int compare_rows(const void *a, const void *b)
{
	const struct query_series_row *x = a, *y = b;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return labels_compare(&x->labels, &y->labels);
}

/* Distributes the sums over the groups' point arrays. */
static int build_points(struct series_build *build, struct error *err)
{
	size_t cursor = 0;
	uint64_t key, value;
	while (map64_next(&build->sums, &cursor, &key, &value))
		build->groups[key >> 32].point_count++;
	for (size_t i = 0; i < build->group_count; i++) {
		struct query_series_row *row = &build->groups[i];
		row->points = mem_alloc_array(row->point_count, sizeof(*row->points));
		if (!row->points)
			return error_nomem(err);
		row->point_count = 0;
	}
	cursor = 0;
	while (map64_next(&build->sums, &cursor, &key, &value)) {
		struct query_series_row *row = &build->groups[key >> 32];
		int64_t time_ns = build->first_ns + (int64_t)(uint32_t)key * build->step_ns;
		row->points[row->point_count++] = (struct query_point){.time_ns = time_ns, .value = (int64_t)value};
	}
	for (size_t i = 0; i < build->group_count; i++)
		qsort(build->groups[i].points, build->groups[i].point_count, sizeof(struct query_point), compare_points);
	return 0;
}

static void rows_free(struct query_series_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		labels_release(&rows[i].labels);
		mem_free(rows[i].points);
	}
	mem_free(rows);
}

static void build_release(struct series_build *build)
{
	rows_free(build->groups, build->group_count);
	mem_free(build->group_of);
	map64_release(&build->sums);
	index32_release(&build->group_index);
}

static int64_t floor_to(int64_t value, int64_t step)
{
	int64_t rest = value % step;
	return value - (rest < 0 ? rest + step : rest);
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

static int align_range(const struct query *query, int64_t *step_ns, struct query *ret, struct error *err)
{
	if (*step_ns < 0)
		return error_set(err, -EINVAL, "query: the step must be positive");
	if (query->from_ns < 0 || query->to_ns > INT64_MAX / 2 || query->from_ns >= query->to_ns)
		return error_set(err, -EINVAL, "query: the time range is empty or out of bounds");
	if (*step_ns == 0)
		*step_ns = choose_step(query->to_ns - query->from_ns);
	*ret = *query;
	ret->from_ns = floor_to(query->from_ns, *step_ns);
	if (*step_ns < INT64_MAX / 4)
		ret->to_ns = floor_to(query->to_ns + *step_ns - 1, *step_ns);
	if ((ret->to_ns - ret->from_ns) / *step_ns > POINTS_MAX)
		return error_set(err, -EINVAL, "query: more than %d points; use a longer step or a shorter range", POINTS_MAX);
	return 0;
}

static int series_read(struct store *store, struct query_scan *scan, struct series_build *build, struct query_series *ret,
		       size_t limit, struct query_stats *stats, struct error *err)
{
	struct store_series_sink sink = {.on_series = build_on_series, .on_point = build_on_point, .context = build};
	int r = store_series(store, &scan->select, build->step_ns, &sink, &stats->read, err);
	int check = query_scan_check(scan, true, err);
	if (r || check)
		return check ? check : r;
	r = build_points(build, err);
	if (r)
		return r;
	if (build->group_count) /* qsort(NULL, 0) is undefined */
		qsort(build->groups, build->group_count, sizeof(*build->groups), compare_rows);
	*ret = (struct query_series){
		.rows = build->groups, .count = build->group_count, .count_before_limit = build->group_count};
	ret->step_ns = build->step_ns;
	if (scan->type_count)
		ret->type = scan->types[0];
	build->groups = NULL;
	build->group_count = 0;
	while (ret->count > limit) {
		struct query_series_row *row = &ret->rows[--ret->count];
		labels_release(&row->labels);
		mem_free(row->points);
	}
	return 0;
}

int query_series(struct store *store, const struct query *query, int64_t step_ns, const char *const *by, size_t by_count,
		 size_t limit, struct query_series *ret, struct query_stats *stats, struct error *err)
{
	struct query_stats unused = {0};
	struct query aligned;
	int r = align_range(query, &step_ns, &aligned, err);
	if (r)
		return r;
	_cleanup_(query_scan_release) struct query_scan scan;
	r = query_scan_init(&scan, &aligned, err);
	if (r)
		return r;
	_cleanup_(build_release) struct series_build build = {
		.by = by, .by_count = by_count, .first_ns = aligned.from_ns, .step_ns = step_ns};
	map64_init(&build.sums);
	index32_init(&build.group_index);
	return series_read(store, &scan, &build, ret, limit ? limit : ROWS_DEFAULT, stats ? stats : &unused, err);
}

void query_series_release(struct query_series *series)
{
	rows_free(series->rows, series->count);
	*series = (struct query_series){0};
}
