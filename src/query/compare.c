/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One profile for each of the largest values of a label. Their sums come first, without stacks and so from rollups and totals
 * where there are some; only then the stacks of those that are shown are read, in one pass, and distributed.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/sum.h"
#include "profile/merge.h"
#include "query/run.h"

/* The samples with one label set, as a profile of its own. */
static int take_value(const struct profile *from, const char *label, const char *value, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *to = NULL;
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	int r = profile_new(&to, err);
	if (!r)
		r = profile_copy_new(to, from, &copy, err);
	if (!r)
		r = profile_copy_sample_types(copy, err);
	for (size_t i = 0; !r && i < from->sample_count; i++) {
		const char *own = profile_label_value(from, from->samples[i].labels, label);
		if (strcmp(own ? own : "", value) != 0)
			continue;
		struct profile_sample sample = {0};
		r = profile_copy_stack(copy, from->samples[i].stack, &sample.stack, err);
		if (!r)
			r = profile_add_sample(to, &sample, from->values + i * from->sample_type_count, err);
	}
	if (r < 0)
		return r;
	to->time_ns = from->time_ns;
	to->duration_ns = from->duration_ns;
	*ret = TAKE(to);
	return 0;
}

static int add_value(struct run *run, const struct profile *profile, const char *value)
{
	struct query_comparison *comparison = &run->result->comparison;
	struct query_compared *item = &comparison->items[comparison->count];
	item->value = mem_strdup(value);
	if (!item->value)
		return error_nomem(run->err);
	comparison->count++;
	int r = take_value(profile, comparison->label, value, &item->profile, run->err);
	if (!r && item->profile->sample_type_count)
		item->total = profile_total(item->profile, 0);
	return r;
}

int run_compare(struct run *run)
{
	struct query_comparison *comparison = &run->result->comparison;
	const char *by[] = {run->plan->last->names[0]}, *only[64];
	struct query query;
	run_query(run, &query);
	query.whole = true; /* a part of the values would be compared with all of others */
	struct query_series_options sums = {.whole = true, .by = by, .by_count = 1, .limit = SIZE_MAX};
	_cleanup_(query_series_release) struct query_series series = {0};
	int r = query_series(run->store, run->symbolizer, &query, &sums, &series, run->stats, run->err);
	if (r < 0)
		return r;
	comparison->count_before_limit = series.count;
	size_t count = series.count < run->plan->last->number ? series.count : run->plan->last->number;
	for (size_t i = 0; i < series.count; i++)
		sum_to(&comparison->total, series.rows[i].total);
	for (size_t i = 0; i < count; i++) {
		const char *value = labels_get(&series.rows[i].labels, by[0]);
		only[i] = value ? value : "";
	}
	comparison->label = mem_strdup(by[0]);
	comparison->items = mem_zalloc_array(count, sizeof(*comparison->items));
	if (!comparison->label || !comparison->items)
		return error_nomem(run->err);
	struct query_merge_options merge = {.by = by, .by_count = 1, .only = only, .only_count = count, .groups_max = SIZE_MAX};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	run->result->kind = QUERY_COMPARISON;
	if (!count)
		return 0;
	r = run_profile(run, &merge, &profile);
	for (size_t i = 0; !r && i < count; i++)
		r = add_value(run, profile, only[i]);
	run->result->type = series.type;
	return r;
}
