/* SPDX-License-Identifier: Apache-2.0 */
#include "store/series.h"

#include <string.h>

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
