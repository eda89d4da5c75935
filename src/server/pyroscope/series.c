/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values over time as Pyroscope gives them. A point at time T is what came in the step that ends with T, in (T - step, T], in
 * milliseconds, and the first T is the start of the range. For a range of six hours or more whose step is a whole number of
 * five minutes, T is moved to a whole multiple of five minutes, so that it can be answered from rollups.
 */
#include <errno.h>
#include <math.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/sorted.h"
#include "base/time.h"
#include "server/pyroscope/pyroscope_int.h"

#define ROWS_MAX     100000
#define POINTS_MAX   11000
#define ROLLUP_MS    (300 * 1000)
#define AVERAGE	     1
#define HEATMAP_SPAN 2

struct steps {
	int64_t first_ms, step_ms; /* the first T */
	int64_t count;
};

static int find_steps(struct pyroscope *p, const struct pyroscope_request *in, struct steps *ret, struct error *err)
{
	if (!(in->step >= 0.001) || in->step > (double)(INT64_MAX / NS_PER_S / 4))
		return error_set(err, -EINVAL, "step must be >= 1ms");
	*ret = (struct steps){.first_ms = in->start, .step_ms = (int64_t)(in->step * 1000)};
	if (in->end - in->start >= QUERY_ROUND_FROM_NS / NS_PER_MS && ret->step_ms % ROLLUP_MS == 0)
		ret->first_ms -= ret->first_ms % ROLLUP_MS;
	ret->count = (in->end - ret->first_ms) / ret->step_ms + 1;
	if (ret->count > POINTS_MAX)
		return error_set(err, -EINVAL, "more than %d points; use a longer step or a shorter range", POINTS_MAX);
	/* (T - step, T] in milliseconds is [T - step + 1 ms, T + 1 ms); whole five minutes stay whole. */
	int64_t shift = ret->step_ms % ROLLUP_MS == 0 && ret->first_ms % ROLLUP_MS == 0 ? 0 : 1;
	p->query.from_ns = (ret->first_ms - ret->step_ms + shift) * NS_PER_MS;
	if (p->query.from_ns < 0)
		return error_set(err, -EINVAL, "invalid time range in the query: it starts before 1970");
	p->query.to_ns = p->query.from_ns + ret->count * ret->step_ms * NS_PER_MS;
	return 0;
}

static int select_steps(struct pyroscope *p, const struct pyroscope_request *in, struct steps *ret, struct error *err)
{
	int r = pyroscope_select(p, in, err);
	if (!r)
		r = find_steps(p, in, ret, err);
	if (!r && in->limit < 0)
		r = error_set(err, -EINVAL, "limit must be non-negative");
	if (!r && in->exemplars > PYROSCOPE_EXEMPLARS_SPANS)
		r = error_set(err, -EINVAL, "unknown exemplar type: %llu", (unsigned long long)in->exemplars);
	return r;
}

/* ---- sums ---- */

static int take_sums(struct query_series *from, const struct steps *steps, int64_t from_ns, struct pyroscope_series *ret,
		     struct error *err)
{
	ret->type = from->type;
	ret->rows = mem_zalloc_array(from->count, sizeof(*ret->rows));
	if (!ret->rows)
		return error_nomem(err);
	for (size_t i = 0; i < from->count; i++) {
		struct query_series_row *row = &from->rows[i];
		struct pyroscope_row *to = &ret->rows[ret->count++];
		to->labels = row->labels;
		row->labels = (struct labels){0};
		to->total = (double)row->total;
		to->points = mem_alloc_array(row->point_count, sizeof(*to->points));
		if (!to->points)
			return error_nomem(err);
		for (size_t k = 0; k < row->point_count; k++) {
			int64_t step = (row->points[k].time_ns - from_ns) / (steps->step_ms * NS_PER_MS);
			to->points[to->count++] = (struct pyroscope_point){steps->first_ms + step * steps->step_ms,
									   (double)row->points[k].value, 0};
		}
	}
	return 0;
}

static int sum_series(struct pyroscope *p, const struct pyroscope_request *in, const struct steps *steps,
		      struct pyroscope_series *ret, struct error *err)
{
	_cleanup_(query_series_release) struct query_series series = {0};
	struct query_series_options options = {.step_ns = steps->step_ms * NS_PER_MS,
					       .unaligned = true,
					       .by = in->labels.items,
					       .by_count = in->labels.count,
					       .limit = ROWS_MAX};
	int r = query_series(p->tenant->store, p->tenant->symbolizer, &p->query, &options, &series, &p->stats, err);
	return r < 0 ? r : take_sums(&series, steps, p->query.from_ns, ret, err);
}

/* ---- exemplars ---- */

static int64_t step_of(const struct pyroscope *p, const struct steps *steps, int64_t time_ns)
{
	return (time_ns - p->query.from_ns) / (steps->step_ms * NS_PER_MS);
}

/* The largest profile of each point of one row; `at` is where those of its group begin. */
static void mark_exemplars(const struct pyroscope *p, const struct steps *steps, const struct query_points *points, size_t at,
			   struct pyroscope_row *row)
{
	uint32_t group = points->points[at].group;
	size_t k = 0;
	for (; at < points->count && points->points[at].group == group; at++) {
		const struct query_group_point *point = &points->points[at];
		int64_t time_ms = steps->first_ms + step_of(p, steps, point->time_ns) * steps->step_ms;
		while (k < row->count && row->points[k].time_ms < time_ms)
			k++;
		if (k == row->count || row->points[k].time_ms != time_ms)
			continue;
		uint32_t *best = &row->points[k].exemplar;
		if (!*best || points->points[*best - 1].value < point->value)
			*best = (uint32_t)at + 1;
	}
}

/* Rows have their labels and points. Too many profiles for the memory that a query may take are no reason to refuse the values:
 * then they come without exemplars, and the response says so. */
static int add_exemplars(struct pyroscope *p, const struct pyroscope_request *in, const struct steps *steps,
			 struct pyroscope_series *series, struct error *err)
{
	struct query_points *points = &series->points;
	struct error why = {0};
	int r = query_points(p->tenant->store, p->tenant->symbolizer, &p->query, in->labels.items, in->labels.count, points,
			     &p->stats, &why);
	if (r == -EINVAL)
		return net_response_header(p->response, "X-Wick-Partial", why.message) == -ENOMEM ? error_nomem(err) : 0;
	if (r < 0)
		return error_set(err, r, "%s", why.message);
	for (size_t i = 0; i < series->count; i++) {
		struct pyroscope_row *row = &series->rows[i];
		size_t group = sorted_count_while(points->group_count, k, labels_compare(&points->groups[k], &row->labels) < 0);
		size_t at = sorted_count_while(points->count, k, points->points[k].group < group);
		if (group < points->group_count && labels_compare(&points->groups[group], &row->labels) == 0 &&
		    at < points->count)
			mark_exemplars(p, steps, points, at, row);
	}
	return 0;
}

/* ---- averages ---- */

/* Points come by group and time: those of one step stand together. */
static int average_group(const struct pyroscope *p, const struct steps *steps, const struct query_points *points, size_t *at,
			 struct pyroscope_row *row, struct error *err)
{
	uint32_t group = points->points[*at].group;
	size_t end = *at;
	while (end < points->count && points->points[end].group == group)
		end++;
	row->points = mem_alloc_array(end - *at, sizeof(*row->points));
	if (!row->points)
		return error_nomem(err);
	while (*at < end) {
		int64_t step = step_of(p, steps, points->points[*at].time_ns);
		double sum = 0;
		size_t count = 0;
		for (; *at < end && step_of(p, steps, points->points[*at].time_ns) == step; ++*at, count++)
			sum += (double)points->points[*at].value;
		row->points[row->count++] =
			(struct pyroscope_point){steps->first_ms + step * steps->step_ms, sum / (double)count, 0};
		row->total += sum / (double)count;
	}
	return 0;
}

static int average_series(struct pyroscope *p, const struct pyroscope_request *in, const struct steps *steps,
			  struct pyroscope_series *ret, struct error *err)
{
	struct query_points *points = &ret->points;
	int r = query_points(p->tenant->store, p->tenant->symbolizer, &p->query, in->labels.items, in->labels.count, points,
			     &p->stats, err);
	ret->rows = r < 0 ? NULL : mem_zalloc_array(points->group_count, sizeof(*ret->rows));
	if (r < 0 || !ret->rows)
		return r < 0 ? r : error_nomem(err);
	ret->type = points->type;
	for (size_t at = 0; !r && at < points->count;) {
		struct pyroscope_row *row = &ret->rows[ret->count++];
		size_t first = at;
		row->labels = points->groups[points->points[at].group];
		points->groups[points->points[at].group] = (struct labels){0};
		r = average_group(p, steps, points, &at, row, err);
		if (!r && in->exemplars == PYROSCOPE_EXEMPLARS_PROFILES)
			mark_exemplars(p, steps, points, first, row);
	}
	return r;
}

/* ---- both ---- */

static int compare_labels(const void *left, const void *right)
{
	const struct pyroscope_row *a = left, *b = right;
	return labels_compare(&a->labels, &b->labels);
}

static int compare_totals(const void *left, const void *right)
{
	const struct pyroscope_row *a = left, *b = right;
	return ORDER(b->total, a->total) ?: compare_labels(left, right);
}

static void row_release(struct pyroscope_row *row)
{
	labels_release(&row->labels);
	mem_free(row->points);
}

int pyroscope_series(struct pyroscope *p, const struct pyroscope_request *in, struct pyroscope_series *ret, struct error *err)
{
	struct steps steps;
	bool average = in->aggregation == AVERAGE;
	*ret = (struct pyroscope_series){0};
	int r = select_steps(p, in, &steps, err);
	if (!r)
		r = average ? average_series(p, in, &steps, ret, err) : sum_series(p, in, &steps, ret, err);
	if (!r) {
		sort_array(ret->rows, ret->count, in->limit ? compare_totals : compare_labels);
		while (in->limit && ret->count > (size_t)in->limit)
			row_release(&ret->rows[--ret->count]);
	}
	if (!r && !average && in->exemplars == PYROSCOPE_EXEMPLARS_PROFILES)
		r = add_exemplars(p, in, &steps, ret, err);
	if (r < 0)
		pyroscope_series_release(ret);
	return r;
}

void pyroscope_series_release(struct pyroscope_series *series)
{
	for (size_t i = 0; i < series->count; i++)
		row_release(&series->rows[i]);
	mem_free(series->rows);
	query_points_release(&series->points);
	*series = (struct pyroscope_series){0};
}

/* ---- distributions ---- */

/* The last row that begins at the value or below; of a small range several rows begin at the same value. */
static size_t row_of(const double *rows, int64_t value)
{
	size_t row = PYROSCOPE_HEATMAP_ROWS - 1;
	while (row > 0 && rows[row] > (double)value)
		row--;
	return row;
}

static int fill_group(const struct pyroscope *p, const struct steps *steps, const struct query_points *points, size_t *at,
		      struct pyroscope_heatmap *to, struct error *err)
{
	uint32_t group = points->points[*at].group;
	size_t capacity = 0, *count = &to->slot_counts[to->group_count];
	struct pyroscope_slot **slots = &to->slots[to->group_count++];
	for (; *at < points->count && points->points[*at].group == group; ++*at) {
		int64_t time_ms = steps->first_ms + step_of(p, steps, points->points[*at].time_ns) * steps->step_ms;
		if (!*count || (*slots)[*count - 1].time_ms != time_ms) {
			if (array_reserve(slots, &capacity, *count + 1, QUERY_POINTS_MAX) < 0)
				return error_nomem(err);
			(*slots)[(*count)++] = (struct pyroscope_slot){.time_ms = time_ms};
		}
		size_t row = row_of(to->rows, points->points[*at].value);
		uint32_t *best = &(*slots)[*count - 1].exemplars[row];
		if (!*best || points->points[*best - 1].value < points->points[*at].value)
			*best = (uint32_t)*at + 1;
		(*slots)[*count - 1].counts[row]++;
	}
	return 0;
}

static int fill(const struct pyroscope *p, const struct steps *steps, struct query_points *points, struct pyroscope_heatmap *to,
		struct error *err)
{
	int64_t least = INT64_MAX, most = INT64_MIN;
	for (size_t i = 0; i < points->count; i++) {
		least = points->points[i].value < least ? points->points[i].value : least;
		most = points->points[i].value > most ? points->points[i].value : most;
	}
	if (most <= least)
		most = least < INT64_MAX ? least + 1 : least--;
	for (size_t i = 0; i < PYROSCOPE_HEATMAP_ROWS; i++)
		to->rows[i] = floor((double)least + (double)i * (((double)most - (double)least) / PYROSCOPE_HEATMAP_ROWS));
	to->groups = mem_zalloc_array(points->group_count, sizeof(*to->groups));
	to->slots = mem_zalloc_array(points->group_count, sizeof(*to->slots));
	to->slot_counts = mem_zalloc_array(points->group_count, sizeof(*to->slot_counts));
	int r = to->groups && to->slots && to->slot_counts ? 0 : error_nomem(err);
	for (size_t at = 0; !r && at < points->count;) {
		struct labels *labels = &points->groups[points->points[at].group];
		to->groups[to->group_count] = *labels;
		*labels = (struct labels){0};
		r = fill_group(p, steps, points, &at, to, err);
	}
	return r;
}

/* Exemplars are of what is counted. */
static int check_exemplars(const struct pyroscope_request *in, struct error *err)
{
	bool spans = in->heatmap == HEATMAP_SPAN;
	if (in->heatmap > HEATMAP_SPAN)
		return error_set(err, -EINVAL, "unknown heatmap query type: %llu", (unsigned long long)in->heatmap);
	if (in->exemplars == PYROSCOPE_EXEMPLARS_PROFILES && spans)
		return error_set(err, -EINVAL, "individual exemplars only available for individual query type");
	if (in->exemplars == PYROSCOPE_EXEMPLARS_SPANS && !spans)
		return error_set(err, -EINVAL, "span exemplars only available for span query type");
	return 0;
}

int pyroscope_heatmap(struct pyroscope *p, const struct pyroscope_request *in, struct pyroscope_heatmap *ret, struct error *err)
{
	struct steps steps;
	*ret = (struct pyroscope_heatmap){0};
	int r = select_steps(p, in, &steps, err);
	if (!r)
		r = check_exemplars(in, err);
	if (r < 0)
		return r;
	r = (in->heatmap == HEATMAP_SPAN ? query_span_points : query_points)(p->tenant->store, p->tenant->symbolizer, &p->query,
									     in->labels.items, in->labels.count, &ret->points,
									     &p->stats, err);
	if (!r)
		r = fill(p, &steps, &ret->points, ret, err);
	if (r < 0)
		pyroscope_heatmap_release(ret);
	return r;
}

void pyroscope_heatmap_release(struct pyroscope_heatmap *heatmap)
{
	for (size_t i = 0; i < heatmap->group_count; i++) {
		labels_release(&heatmap->groups[i]);
		mem_free(heatmap->slots[i]);
	}
	mem_free(heatmap->groups);
	mem_free(heatmap->slots);
	mem_free(heatmap->slot_counts);
	query_points_release(&heatmap->points);
	*heatmap = (struct pyroscope_heatmap){0};
}
