/* SPDX-License-Identifier: Apache-2.0 */
#include "store/series.h"

#include <string.h>

#include "base/hash.h"

uint64_t series_hash(const struct profile_type *type, const struct labels *labels)
{
	char text[PROFILE_TYPE_TEXT_MAX];
	profile_type_format(type, text);
	return hash64_seed(text, strlen(text), labels_hash(labels));
}

int series_compare_types(const struct profile_type *a, const struct profile_type *b)
{
	int order = strcmp(a->name, b->name);
	if (order == 0)
		order = strcmp(a->sample_type, b->sample_type);
	if (order == 0)
		order = strcmp(a->sample_unit, b->sample_unit);
	if (order == 0)
		order = strcmp(a->period_type, b->period_type);
	if (order == 0)
		order = strcmp(a->period_unit, b->period_unit);
	return order ? order : (int)a->delta - (int)b->delta;
}
