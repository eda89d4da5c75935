/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/downsample.h"

#include <float.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/sum.h"
#include "profile/filter.h"

void profile_remove_markers(struct profile *profile, uint32_t *places)
{
	struct profile_markers *markers = profile->markers;
	size_t kept = 0, values = 0;
	for (size_t i = 0; markers && i < markers->marker_count; i++) {
		struct profile_marker marker = markers->markers[i];
		size_t count = markers->schemas[marker.schema].field_count;
		if (places[i] == PROFILE_MARKER_REMOVED)
			continue;
		/* Values lie in the order of their markers, so that none is overwritten that is still wanted. */
		memmove(markers->values + values, markers->values + marker.value_first, count * sizeof(*markers->values));
		marker.value_first = (uint32_t)values;
		values += count;
		places[i] = (uint32_t)kept;
		markers->markers[kept++] = marker;
	}
	if (markers) {
		markers->marker_count = kept;
		markers->value_count = values;
	}
}

void profile_keep_rows(struct profile *profile, const bool *keep)
{
	struct profile_markers *markers = profile->markers;
	size_t kept = 0;
	for (size_t i = 0; markers && i < markers->row_count; i++)
		if (keep[i])
			markers->rows[kept++] = markers->rows[i];
	if (markers)
		markers->row_count = kept;
}

double profile_add_events(double a, double b)
{
	double sum = a + b;
	return sum > DBL_MAX ? DBL_MAX : sum < -DBL_MAX ? -DBL_MAX : sum;
}

/* Rows of a counter that become one. */
struct group {
	double sum;
	uint64_t rows;
	size_t last; /* of them, in the profile */
};

static void end_group(struct group *group, struct profile_markers *markers, bool *keep)
{
	struct profile_counter_row *row = &markers->rows[group->last];
	enum profile_counter_kind kind = markers->counters[row->counter].kind;
	keep[group->last] = true;
	if (kind == PROFILE_COUNTER_EVENTS)
		row->value = group->sum;
	else if (kind == PROFILE_COUNTER_SHARE)
		row->value = group->sum / (double)group->rows;
	*group = (struct group){0};
}

int profile_downsample_rows(struct profile *profile, unsigned shift, struct error *err)
{
	struct profile_markers *markers = profile->markers;
	size_t count = markers ? markers->row_count : 0;
	if (count == 0)
		return 0;
	_cleanup_(mem_freep) bool *keep = mem_zalloc_array(count, sizeof(*keep));
	_cleanup_(mem_freep) struct group *groups = mem_zalloc_array(markers->counter_count, sizeof(*groups));
	if (!keep || !groups)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++) {
		struct group *group = &groups[markers->rows[i].counter];
		group->sum = profile_add_events(group->sum, markers->rows[i].value);
		group->last = i;
		if (++group->rows >> shift)
			end_group(group, markers, keep);
	}
	for (size_t i = 0; i < markers->counter_count; i++)
		if (groups[i].rows)
			end_group(&groups[i], markers, keep);
	profile_keep_rows(profile, keep);
	return 0;
}

static bool stays(const void *mask, const struct profile *profile, size_t sample)
{
	int64_t time_ns = profile->samples[sample].time_ns;
	return time_ns == 0 || (hash64_mix((uint64_t)time_ns) & *(const uint64_t *)mask) == 0;
}

void profile_downsample_samples(struct profile *profile, unsigned from, unsigned to)
{
	uint64_t mask = ((1ull << to) - 1) & ~((1ull << from) - 1);
	size_t types = profile->sample_type_count;
	if (!mask)
		return;
	profile_filter_samples(profile, stays, &mask);
	for (size_t i = 0; i < profile->sample_count * types; i++)
		if (profile->samples[i / types].time_ns)
			profile->values[i] = sum_product(profile->values[i], 1ll << (to - from));
}
