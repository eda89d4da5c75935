/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside src/query. */
#ifndef WICK_QUERY_QUERY_INT_H
#define WICK_QUERY_QUERY_INT_H

#include <pthread.h>

#include "query/query.h"

#define QUERY_TYPES_MAX 64

/* 0, or -EINVAL when a match gave no answer because it passed a limit. */
int selector_failure(const struct selector *selector, struct error *err);

/* A parsed query on its way through the store: the match callback, and which profile types it let through. */
struct query_scan {
	struct selector *selector;
	pthread_mutex_t lock; /* of types */
	struct profile_type types[QUERY_TYPES_MAX];
	size_t type_count; /* distinct types seen, at most QUERY_TYPES_MAX */
	struct store_select select;
};
int query_scan_init(struct query_scan *scan, const struct query *query, struct error *err);
void query_scan_release(struct query_scan *scan);
/* -EINVAL listing the types when more than one was selected, or when a regular expression gave no answer. */
int query_scan_check(struct query_scan *scan, bool one_type, struct error *err);

#endif
