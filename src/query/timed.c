/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A merged profile whose samples have their times, for charts of stacks over time.
 *
 * The store adds up what it reads, so that times are lost; but a range of one millisecond is one time. Which milliseconds there
 * are is known from their sums (points.c), and each of them is read by itself. That costs a plan for each, some tens of
 * microseconds, where a second key beside stack and group would cost all other reads; charts are of seconds, and bounded.
 */
#include <errno.h>

#include "base/time.h"
#include "profile/merge.h"
#include "query/query_int.h"

static int add_time(struct profile *to, const struct profile *from, int64_t time_ns, struct error *err)
{
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	int r = profile_copy_new(to, from, &copy, err);
	if (!r && !to->sample_type_count)
		r = profile_copy_sample_types(copy, err);
	if (!r && !to->period_type.type) {
		struct profile_value_type period = from->period_type;
		r = PROFILE_COPY_STRINGS(copy, err, &period.type, &period.unit);
		to->period_type = r < 0 ? to->period_type : period;
	}
	for (size_t i = 0; !r && i < from->sample_count; i++) {
		struct profile_sample sample = {.time_ns = time_ns};
		r = profile_copy_stack(copy, from->samples[i].stack, &sample.stack, err);
		if (!r)
			r = profile_copy_label_set(copy, from->samples[i].labels, &sample.labels, err);
		if (!r)
			r = profile_add_sample(to, &sample, &from->values[i * from->sample_type_count], err);
	}
	to->period = from->period > to->period ? from->period : to->period;
	return r;
}

static int read_times(struct store *store, struct symbolizer *symbolizer, const struct query *query,
		      const struct query_merge_options *options, const struct query_points *points, struct profile *into,
		      struct query_stats *stats, struct error *err)
{
	struct query one = *query;
	size_t most = options && options->samples_max ? options->samples_max : QUERY_TIMED_SAMPLES_MAX;
	int r = 0;
	for (size_t i = 0; !r && i < points->count; i++) {
		_cleanup_(profile_freep) struct profile *profile = NULL;
		int64_t time_ns = points->points[i].time_ns;
		one.from_ns = time_ns > query->from_ns ? time_ns : query->from_ns;
		one.to_ns = time_ns + NS_PER_MS < query->to_ns ? time_ns + NS_PER_MS : query->to_ns;
		r = query_merge_read(store, symbolizer, &one, options, &profile, NULL, stats, err);
		if (!r && profile->sample_count > most - into->sample_count)
			r = error_set(
				err, -EINVAL,
				"query: more than %zu stacks over time, the limit of a chart; narrow the selector or the range",
				most);
		if (!r && profile->sample_count)
			r = add_time(into, profile, time_ns, err);
	}
	return r;
}

/* Those of several series at one time are one. */
static void unite_times(struct query_points *points)
{
	size_t kept = 0;
	for (size_t i = 0; i < points->count; i++)
		if (!kept || points->points[kept - 1].time_ns != points->points[i].time_ns)
			points->points[kept++] = points->points[i];
	points->count = kept;
}

int query_merge_timed(struct store *store, struct symbolizer *symbolizer, const struct query *query,
		      const struct query_merge_options *options, struct profile **ret, struct query_stats *stats,
		      struct error *err)
{
	_cleanup_(query_points_release) struct query_points points = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct query samples = *query;
	samples.samples_only = true;
	if (query->to_ns > query->from_ns && (query->to_ns - query->from_ns) / NS_PER_MS >= UINT32_MAX)
		return error_set(err, -EINVAL, "query: stacks over time are for ranges of at most 49 days");
	int r = query_points(store, symbolizer, &samples, NULL, 0, &points, stats, err);
	unite_times(&points);
	if (!r && points.count > QUERY_TIMES_MAX)
		r = error_set(err, -EINVAL,
			      "query: %zu times, more than the %d that a chart may have; narrow the selector or the range",
			      points.count, QUERY_TIMES_MAX);
	if (!r)
		r = profile_new(&profile, err);
	if (!r)
		r = read_times(store, symbolizer, &samples, options, &points, profile, stats, err);
	stats->read.saturated |= !r && !profile_sums_fit(profile);
	if (!r)
		r = query_merge_symbolize(symbolizer, query, profile, stats, err);
	if (r < 0)
		return r;
	*ret = TAKE(profile);
	return 0;
}
