/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each series had at each time.
 *
 * An average over all profiles of a group, as Pyroscope's API has it, or how the values of profiles are distributed, cannot be
 * told from sums per step: one needs the values that were summed. The store keeps samples, not the profiles that they came in;
 * but the samples of one profile have its time and are of one series, so that those of one series in one millisecond are taken
 * together. This is more than a sum costs, and bounded by QUERY_POINTS_MAX.
 *
 * Of spans it is the same, but that those of a group are told apart by their ids, whatever series their samples are of.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/time.h"
#include "query/query_int.h"

#define SERIES_MAX 200000

struct points_build {
	struct store *store;
	const struct query_scan *scan;
	struct groups series; /* by all labels */
	struct groups groups;
	/* A series, and the group that it is in; in several where it is grouped by a label of its host that changed. */
	struct member {
		uint32_t series, group;
	} * members;
	size_t member_count, member_capacity;
	struct map64 member_numbers; /* series << 32 | group -> member */
	struct map64 sums;	     /* member, or span, << 32 | millisecond since from -> value */

	/* Of spans */
	struct profile *links; /* a pool of them; NULL = points are of series */
	struct span {
		uint32_t group, link;
		uint32_t series; /* the last one that had samples of it */
		uint32_t labels; /* of `common` */
	} * spans;
	size_t span_count, span_capacity;
	struct map64 numbers; /* group << 32 | link -> span */
	struct groups common; /* labels that all series of a span have */
};

static void build_release(struct points_build *build)
{
	groups_release(&build->series);
	groups_release(&build->groups);
	mem_free(build->members);
	map64_release(&build->member_numbers);
	map64_release(&build->sums);
	profile_free(build->links);
	mem_free(build->spans);
	map64_release(&build->numbers);
	groups_release(&build->common);
}

/* The group of a series now. */
static int find_group(struct points_build *build, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
		      struct error *err)
{
	_cleanup_(labels_release) struct labels wanted = {0};
	char text[PROFILE_TYPE_TEXT_MAX];
	int r = 0;
	for (size_t i = 0; !r && i < build->groups.by_count; i++) {
		const char *name = build->groups.by[i], *value = query_type_label_value(name, type, text);
		value = value ? value : labels_get(labels, name);
		value = value ? value : host_join_value(build->scan, labels, name);
		r = value ? labels_set(&wanted, name, value, err) : 0;
	}
	return r < 0 ? r : groups_find(&build->groups, &wanted, ret, err);
}

static int on_group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
		    struct error *err)
{
	struct points_build *build = context;
	struct member member;
	uint64_t number;
	int r = groups_on_group(&build->series, type, labels, &member.series, err);
	if (r == 0)
		r = find_group(build, type, labels, &member.group, err);
	if (r < 0)
		return r;
	uint64_t key = (uint64_t)member.series << 32 | member.group;
	if (!map64_get(&build->member_numbers, key, &number)) {
		number = build->member_count;
		if (map64_put(&build->member_numbers, key, number) < 0 ||
		    array_push(&build->members, &build->member_count, &build->member_capacity, UINT32_MAX, member) < 0)
			return error_nomem(err);
	}
	*ret = (uint32_t)number;
	return 0;
}

static int too_many(const struct points_build *build, struct error *err)
{
	return error_set(
		err, -EINVAL,
		"query: more than %d %s, the limit for averages and distributions; narrow the selector or the time range",
		QUERY_POINTS_MAX, build->links ? "spans" : "profiles");
}

static int on_point(void *context, uint32_t number, uint64_t bucket, int64_t value, struct error *err)
{
	struct points_build *build = context;
	if (map64_sum(&build->sums, (uint64_t)number << 32 | bucket, value) < 0)
		return error_nomem(err);
	return build->sums.count > QUERY_POINTS_MAX ? too_many(build, err) : 0;
}

/* ---- spans ---- */

static int add_span(struct points_build *build, uint64_t key, uint32_t series, uint64_t *ret, struct error *err)
{
	struct span span = {.group = (uint32_t)(key >> 32), .link = (uint32_t)key, .series = series};
	if (build->span_count == QUERY_POINTS_MAX)
		return too_many(build, err);
	int r = groups_find(&build->common, &build->series.items[series], &span.labels, err);
	if (r < 0)
		return r;
	if (array_reserve(&build->spans, &build->span_capacity, build->span_count + 1, QUERY_POINTS_MAX) < 0 ||
	    map64_put(&build->numbers, key, build->span_count) < 0)
		return error_nomem(err);
	*ret = build->span_count;
	build->spans[build->span_count++] = span;
	return 0;
}

/* Another series has samples of the span, too. */
static int keep_common(struct points_build *build, struct span *span, uint32_t series, struct error *err)
{
	_cleanup_(labels_release) struct labels common = {0};
	const struct labels *known = &build->common.items[span->labels], *more = &build->series.items[series];
	int r = 0;
	for (size_t i = 0; !r && i < known->count; i++) {
		const char *value = labels_get(more, known->items[i].name);
		if (value && strcmp(value, known->items[i].value) == 0)
			r = labels_set(&common, known->items[i].name, value, err);
	}
	span->series = series;
	return r < 0 ? r : groups_find(&build->common, &common, &span->labels, err);
}

static int on_span(void *context, uint32_t of, const struct profile_link *link, uint32_t *ret, struct error *err)
{
	struct points_build *build = context;
	uint32_t series = build->members[of].series, id;
	uint64_t number;
	int r = profile_add_link(build->links, link, &id, err);
	uint64_t key = (uint64_t)build->members[of].group << 32 | id;
	if (!r && !map64_get(&build->numbers, key, &number))
		r = add_span(build, key, series, &number, err);
	if (!r && build->spans[number].series != series)
		r = keep_common(build, &build->spans[number], series, err);
	if (r < 0)
		return r;
	*ret = (uint32_t)number;
	return 0;
}

/* ---- the result ---- */

DEFINE_ORDER(compare_points, struct query_group_point,
	     ORDER(a->group, b->group) ?: ORDER(a->time_ns, b->time_ns) ?: ORDER(a->series, b->series) ?: ORDER(a->link, b->link));

DEFINE_ORDER_OF_PLACES(compare_groups, struct labels, labels_compare(a, b));

/* Puts the groups in order of their labels. */
static int sort_groups(struct points_build *build, struct query_points *ret, uint32_t *place, struct error *err)
{
	size_t count = build->groups.count;
	_cleanup_(mem_freep) uint32_t *order = mem_alloc_array(count, sizeof(*order));
	ret->groups = mem_alloc_array(count, sizeof(*ret->groups));
	if (!order || !ret->groups)
		return error_nomem(err);
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	sort_array_by(order, count, compare_groups, build->groups.items);
	for (uint32_t i = 0; i < count; i++) {
		place[order[i]] = i;
		ret->groups[i] = build->groups.items[order[i]];
		build->groups.items[order[i]] = (struct labels){0};
	}
	ret->group_count = count;
	return 0;
}

static int points_finish(struct points_build *build, int64_t from_ns, struct query_points *ret, struct error *err)
{
	_cleanup_(mem_freep) uint32_t *place = mem_alloc_array(build->groups.count, sizeof(*place));
	size_t cursor = 0;
	uint64_t key, value;
	ret->points = mem_alloc_array(build->sums.count, sizeof(*ret->points));
	if (!place || !ret->points)
		return error_nomem(err);
	int r = sort_groups(build, ret, place, err);
	if (r < 0)
		return r;
	while (map64_next(&build->sums, &cursor, &key, &value)) {
		uint32_t number = (uint32_t)(key >> 32);
		const struct span *span = build->links ? &build->spans[number] : NULL;
		ret->points[ret->count++] =
			(struct query_group_point){.group = place[span ? span->group : build->members[number].group],
						   .series = span ? span->labels : build->members[number].series,
						   .link = span ? span->link : 0,
						   .time_ns = from_ns + (int64_t)(uint32_t)key * NS_PER_MS,
						   .value = (int64_t)value};
	}
	sort_array(ret->points, ret->count, compare_points);
	struct groups *series = build->links ? &build->common : &build->series; /* taken over */
	ret->series = series->items;
	ret->series_count = series->count;
	series->items = NULL;
	series->count = 0;
	ret->links = TAKE(build->links);
	return 0;
}

static int points_init(struct points_build *build, struct query_scan *scan, const char *const *by, size_t by_count, bool spans,
		       struct error *err)
{
	int r = groups_init(&build->series, scan, NULL, 0, SERIES_MAX, err);
	if (!r)
		r = groups_init(&build->groups, NULL, by, by_count, SERIES_MAX, err);
	if (!r)
		r = groups_init(&build->common, NULL, NULL, 0, 2 * SERIES_MAX, err);
	return !r && spans ? profile_new(&build->links, err) : r;
}

static int read_part(void *context, const struct store_select *select, const struct store_grouping *grouping,
		     struct store_read_stats *stats, struct error *err)
{
	struct points_build *build = context;
	return store_series(build->store, select, grouping, NS_PER_MS, on_point, build, stats, err);
}

static int read_points(struct store *store, struct symbolizer *symbolizer, const struct query *query, const char *const *by,
		       size_t by_count, bool spans, struct query_points *ret, struct query_stats *stats, struct error *err)
{
	struct query_stats unused = {0};
	stats = stats ? stats : &unused;
	*ret = (struct query_points){0};
	struct query whole = *query; /* milliseconds */
	whole.sum_gauges = true;     /* what is averaged here are points */
	whole.from_ns -= whole.from_ns % NS_PER_MS;
	if (whole.to_ns > whole.from_ns && (whole.to_ns - whole.from_ns) / NS_PER_MS >= UINT32_MAX)
		return error_set(err, -EINVAL, "query: averages and distributions are for ranges of at most 49 days");
	_cleanup_(query_scan_release) struct query_scan scan = {0};
	_cleanup_(build_release) struct points_build build = {.store = store, .scan = &scan};
	int r = query_scan_init(&scan, symbolizer, &whole, err);
	if (!r)
		r = points_init(&build, &scan, by, by_count, spans, err);
	if (!r)
		r = query_scan_join(&scan, store, by, by_count, err);
	if (r < 0)
		return r;
	struct store_grouping grouping = {.group = on_group, .span = spans ? on_span : NULL, .context = &build};
	int64_t started = time_monotonic_ns();
	r = query_scan_read(&scan, &grouping, read_part, &build, err);
	r = query_scan_finish(&scan, store, r, stats, started, err);
	ret->type = scan.type;
	if (!r)
		r = points_finish(&build, whole.from_ns, ret, err);
	for (size_t i = 0; !r && i < ret->count; i++)
		stats->read.saturated |= sum_is_full(ret->points[i].value);
	if (r < 0)
		query_points_release(ret);
	return r;
}

int query_points(struct store *store, struct symbolizer *symbolizer, const struct query *query, const char *const *by,
		 size_t by_count, struct query_points *ret, struct query_stats *stats, struct error *err)
{
	return read_points(store, symbolizer, query, by, by_count, false, ret, stats, err);
}

int query_span_points(struct store *store, struct symbolizer *symbolizer, const struct query *query, const char *const *by,
		      size_t by_count, struct query_points *ret, struct query_stats *stats, struct error *err)
{
	return read_points(store, symbolizer, query, by, by_count, true, ret, stats, err);
}

void query_points_release(struct query_points *points)
{
	profile_free(points->links);
	for (size_t i = 0; i < points->group_count; i++)
		labels_release(&points->groups[i]);
	for (size_t i = 0; i < points->series_count; i++)
		labels_release(&points->series[i]);
	mem_free(points->groups);
	mem_free(points->series);
	mem_free(points->points);
	*points = (struct query_points){0};
}
