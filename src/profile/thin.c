/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/thin.h"

#include <string.h>

#include "base/hash.h"
#include "profile/filter.h"

void profile_thin_markers(struct profile *profile, uint32_t *places)
{
	struct profile_markers *markers = profile->markers;
	size_t kept = 0, values = 0;
	for (size_t i = 0; markers && i < markers->marker_count; i++) {
		struct profile_marker marker = markers->markers[i];
		size_t count = markers->schemas[marker.schema].field_count;
		if (places[i] == PROFILE_THIN_GONE)
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

void profile_thin_rows(struct profile *profile, const bool *keep)
{
	struct profile_markers *markers = profile->markers;
	size_t kept = 0;
	for (size_t i = 0; markers && i < markers->row_count; i++)
		if (keep[i])
			markers->rows[kept++] = markers->rows[i];
	if (markers)
		markers->row_count = kept;
}

static bool stays(const void *mask, const struct profile *profile, size_t sample)
{
	int64_t time_ns = profile->samples[sample].time_ns;
	return time_ns == 0 || (hash64_mix((uint64_t)time_ns) & *(const uint64_t *)mask) == 0;
}

int profile_thin_samples(struct profile *profile, unsigned from, unsigned to, struct error *err)
{
	uint64_t mask = ((1ull << to) - 1) & ~((1ull << from) - 1);
	size_t types = profile->sample_type_count;
	int r = mask ? profile_filter_samples(profile, stays, &mask, err) : 0;
	for (size_t i = 0; r == 0 && mask && i < profile->sample_count * types; i++)
		if (profile->samples[i / types].time_ns)
			profile->values[i] *= 1ll << (to - from);
	return r;
}
