/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of one series. */
#ifndef WICK_STORE_SERIES_H
#define WICK_STORE_SERIES_H

#include "store/store.h"

struct series {
	const struct profile_type *type;
	const struct labels *labels;
	int64_t period; /* the largest seen */
	int64_t first_ns, last_ns;
	uint64_t samples;		/* 0 = nothing was stored after all */
	int64_t total;			/* base/sum.h */
	uint64_t mark;			/* of a head: the last append that touched it */
	uint32_t type_id, label_set_id; /* of a head: in its tables */
};

/* Part by part. */
int series_compare_types(const struct profile_type *a, const struct profile_type *b);

#endif
