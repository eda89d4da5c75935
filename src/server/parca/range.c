/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QueryRange of Parca's query service: values over time (pkg/parcacol/querier.go).
 *
 *   1 query  2 start  3 end  4 limit  5 step  6 sum_by*
 *   ->  1 series { 1 labelset { 1 labels { 1 name 2 value } }
 *                  2 samples { 1 timestamp  2 value  3 value_per_second  4 duration  5 count }
 *                  3 period_type  4 sample_type }
 *
 * Types with ":delta": a point is the sum of a step, one series for each combination of the labels of sum_by, and a single one
 * without sum_by. Of CPU time a value per second is cores. Types samples:count are given as CPU time, where it is known what a
 * sample stands for. Without a step one is chosen for `limit` points at most.
 *
 * Other types are gauges: each series by itself, unless sum_by says otherwise, and a point is the average of the step.
 *
 * Where the range is short enough for that to be cheap, the times of profiles are looked at: count is how many of them have a
 * part in a point, and a step that is shorter than the time between any two of them has that as its duration. Else the rate of
 * profiles that come every 10 seconds would be twice too large in every other step of 5, and nothing between.
 */
#include <errno.h>
#include <string.h>

#include "base/sorted.h"
#include "base/time.h"
#include "codec/protobuf.h"
#include "server/parca/parca_int.h"

#define ROWS_MAX      1000
#define POINTS_LEAST  100
#define POINTS_MOST   11000
#define COUNT_MOST_NS (3600 * NS_PER_S)

int parca_write_time(struct buffer *out, uint32_t field, int64_t ns)
{
	size_t mark;
	pb_begin(out, field, &mark);
	pb_put_varint(out, 1, (uint64_t)(ns / NS_PER_S));
	pb_put_varint(out, 2, (uint64_t)(ns % NS_PER_S));
	return pb_end(out, mark);
}

static int write_value_type(struct buffer *out, uint32_t field, const char *type, const char *unit)
{
	size_t mark;
	pb_begin(out, field, &mark);
	pb_put_string(out, 1, type);
	pb_put_string(out, 2, unit);
	return pb_end(out, mark);
}

static int write_labels(struct buffer *out, const struct query_series_row *row)
{
	size_t mark;
	pb_begin(out, 1, &mark);
	pyroscope_write_labels(out, &row->labels);
	if (row->others)
		pyroscope_write_label(out, "__others__", "true");
	return pb_end(out, mark);
}

/* What is written of each series. */
struct range {
	const struct query_series *series;
	const struct query_points *points; /* NULL = profiles are not counted */
	bool gauge, is_cpu;
	int64_t scale; /* of values */
	const char *type, *unit;
};

/* The place of the labels among the groups, which are sorted; the number of groups if they are none of them. */
static size_t find_group(const struct query_points *points, const struct labels *labels)
{
	size_t count = points->group_count;
	size_t at = sorted_count_while(count, i, labels_compare(&points->groups[i], labels) < 0);
	return at < count && labels_compare(&points->groups[at], labels) == 0 ? at : count;
}

/* The first point of a group at or after a time; points are sorted by both. */
static size_t find_point(const struct query_points *points, size_t group, int64_t time_ns)
{
	const struct query_group_point *items = points->points;
	return sorted_count_while(points->count, i,
				  items[i].group < group || (items[i].group == group && items[i].time_ns < time_ns));
}

/* How many times of its group are in a step. */
static uint64_t count_times(const struct query_points *points, size_t group, int64_t from_ns, int64_t to_ns)
{
	uint64_t count = 0;
	int64_t last_ns = -1;
	for (size_t at = find_point(points, group, from_ns); at < points->count; at++) {
		const struct query_group_point *point = &points->points[at];
		if (point->group != group || point->time_ns >= to_ns)
			break;
		count += point->time_ns != last_ns;
		last_ns = point->time_ns;
	}
	return count;
}

/* The least time between two profiles of a group; 0 = there are no two. */
static int64_t find_interval(const struct query_points *points, size_t group)
{
	int64_t least_ns = 0, last_ns = -1;
	for (size_t at = find_point(points, group, INT64_MIN); at < points->count && points->points[at].group == group; at++) {
		int64_t gap_ns = points->points[at].time_ns - last_ns;
		if (last_ns >= 0 && gap_ns > 0 && (!least_ns || gap_ns < least_ns))
			least_ns = gap_ns;
		last_ns = points->points[at].time_ns;
	}
	return least_ns;
}

/* A gauge is no amount per second, and of no duration. */
static int write_point(struct buffer *out, const struct range *range, const struct query_point *point, int64_t duration_ns,
		       uint64_t count)
{
	double seconds = range->is_cpu ? (double)duration_ns : (double)duration_ns / (double)NS_PER_S;
	int64_t value;
	size_t mark;
	if (__builtin_mul_overflow(point->value, range->scale, &value))
		value = INT64_MAX;
	pb_begin(out, 2, &mark);
	parca_write_time(out, 1, point->time_ns);
	pb_put_varint(out, 2, (uint64_t)value);
	pb_put_double(out, 3, range->gauge ? (double)value : (double)value / seconds);
	pb_put_varint(out, 4, range->gauge ? 0 : (uint64_t)duration_ns);
	pb_put_varint(out, 5, count);
	return pb_end(out, mark);
}

static int write_series(struct buffer *out, const struct range *range, const struct query_series_row *row)
{
	const struct query_series *series = range->series;
	const struct query_points *points = row->others ? NULL : range->points;
	size_t mark, group = points ? find_group(points, &row->labels) : 0;
	int64_t step_ns = series->step_ns, interval_ns = points ? find_interval(points, group) : 0;
	pb_begin(out, 1, &mark);
	write_labels(out, row);
	for (size_t i = 0; i < row->point_count; i++) {
		int64_t from_ns = row->points[i].time_ns;
		write_point(out, range, &row->points[i], interval_ns > step_ns ? interval_ns : step_ns,
			    points ? count_times(points, group, from_ns, from_ns + step_ns) : 0);
	}
	write_value_type(out, 3, series->type.period_type, series->type.period_unit);
	write_value_type(out, 4, range->type, range->unit);
	return pb_end(out, mark);
}

static int write_all(struct parca *p, const struct query_series *series, const struct query_points *points, struct error *err)
{
	const struct profile_type *type = &series->type;
	struct range range = {.series = series,
			      .points = points,
			      .gauge = profile_type_is_gauge(type),
			      .scale = 1,
			      .type = type->sample_type,
			      .unit = type->sample_unit};
	if (parca_counts_samples(range.type, range.unit) && series->period > 0 && *type->period_type) {
		range.scale = series->period;
		range.type = type->period_type;
		range.unit = type->period_unit;
	}
	range.is_cpu = strcmp(range.type, "cpu") == 0 && strcmp(range.unit, "nanoseconds") == 0;
	for (size_t i = 0; i < series->count; i++)
		write_series(p->out, &range, &series->rows[i]);
	return rpc_too_large(buffer_status(p->out), err);
}

/* A step that a person would choose, for at most `limit` points. */
static int64_t choose_step(int64_t range_ns, uint64_t limit)
{
	static const int steps_s[] = {10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400};
	limit = limit < POINTS_LEAST ? POINTS_LEAST : limit > POINTS_MOST ? POINTS_MOST : limit;
	int64_t least = range_ns / NS_PER_S / (int64_t)limit;
	for (size_t i = 0; i < sizeof(steps_s) / sizeof(*steps_s); i++)
		if (steps_s[i] >= least)
			return steps_s[i] * NS_PER_S;
	return (least / 86400 + 1) * 86400 * NS_PER_S;
}

/* 1 = *ret is there. What is beyond its limits is not counted. */
static int count_profiles(struct parca *p, const struct query_series_options *options, struct query_points *ret,
			  struct error *err)
{
	const struct query *query = &p->call.query;
	struct error why = {0};
	if (query->to_ns - query->from_ns > COUNT_MOST_NS || options->each)
		return 0;
	int r = query_points(p->call.tenant->store, p->call.tenant->symbolizer, query, options->by, options->by_count, ret,
			     &p->call.stats, &why);
	return r == -EINVAL ? 0 : r < 0 ? error_set(err, r, "%s", why.message) : 1;
}

int parca_answer_query_range(struct parca *p, struct parca_request *in, struct error *err)
{
	_cleanup_(query_series_release) struct query_series series = {0};
	_cleanup_(query_points_release) struct query_points points = {0};
	if (!in->start_ns || !in->end_ns)
		return error_set(err, -EINVAL, "start and end are required");
	query_round_range(&p->call.query.from_ns, &p->call.query.to_ns);
	p->call.query.selector = in->query;
	p->call.query.sum_gauges = false; /* docs/ingest.md */
	struct query_series_options options = {
		.step_ns = in->step_ns ? in->step_ns
				       : choose_step(in->end_ns - in->start_ns, in->limit ? in->limit : POINTS_LEAST),
		.by = in->list.items,
		.by_count = in->list.count,
		.limit = ROWS_MAX,
		.others = true};
	if (options.step_ns < NS_PER_MS)
		return error_set(err, -EINVAL, "the step is shorter than 1ms");
	int r = query_series(p->call.tenant->store, p->call.tenant->symbolizer, &p->call.query, &options, &series,
			     &p->call.stats, err);
	if (!r && !in->list.count && series.count && profile_type_is_gauge(&series.type)) {
		query_series_release(&series);
		series = (struct query_series){0};
		options.each = true;
		r = query_series(p->call.tenant->store, p->call.tenant->symbolizer, &p->call.query, &options, &series,
				 &p->call.stats, err);
	}
	int counted = r < 0 ? r : count_profiles(p, &options, &points, err);
	return counted < 0 ? counted : write_all(p, &series, counted ? &points : NULL, err);
}
