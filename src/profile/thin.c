/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/thin.h"

#include <string.h>

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
