/* SPDX-License-Identifier: Apache-2.0 */
/* What heads and blocks know of one series, and the set in which a query numbers the series of all of them. */
#ifndef WICK_STORE_SERIES_H
#define WICK_STORE_SERIES_H

#include "base/map.h"
#include "store/store.h"

struct series {
	const struct profile_type *type;
	const struct labels *labels;
	uint64_t hash;	/* series_hash() */
	int64_t period; /* the largest seen */
	int64_t first_ns, last_ns;
	uint64_t samples; /* 0 = nothing was stored after all */
	int64_t total;	  /* wraps */
	uint64_t mark;	  /* of a head: the last append that touched it */
};

uint64_t series_hash(const struct profile_type *type, const struct labels *labels);
/* The order of series in a block: type, then service_name, then all labels. */
int series_compare(const struct series *a, const struct series *b);

/* The distinct series that a query met, each judged once by its match(). */
struct series_set_entry {
	struct profile_type type;
	struct labels labels;
	bool matches;
	uint32_t number; /* for the one who reads; UINT32_MAX at first */
};
struct series_set {
	const struct store_select *select;
	struct series_set_entry *entries;
	size_t count, capacity;
	struct index32 index;
};
void series_set_init(struct series_set *set, const struct store_select *select);
void series_set_release(struct series_set *set);
/* *ret_index is the entry. *ret_is_new tells whether it was added now. */
int series_set_add(struct series_set *set, const struct series *series, uint32_t *ret_index, bool *ret_is_new,
		   struct error *err);

#endif
