// SPDX-License-Identifier: Apache-2.0
#include "base/order.h"

struct polled {
	int (*compare)(const void *, const void *);
	int (*compare_by)(const void *, const void *, void *);
	void *context;
};

static int compare_polled(const void *left, const void *right, void *context)
{
	const struct polled *polled = context;
	if (budget_poll())
		return 0;
	return polled->compare ? polled->compare(left, right) : polled->compare_by(left, right, polled->context);
}

void sort_polled(void *items, size_t count, size_t size, int (*compare)(const void *, const void *))
{
	struct polled polled = {.compare = compare};
	qsort_r(items, count, size, compare_polled, &polled);
}

void sort_polled_by(void *items, size_t count, size_t size, int (*compare)(const void *, const void *, void *),
		    const void *context)
{
	struct polled polled = {.compare_by = compare, .context = (void *)(uintptr_t)context};
	qsort_r(items, count, size, compare_polled, &polled);
}
