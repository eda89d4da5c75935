/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries: a selector, a time range, and what is wanted of it. Grammar and semantics in docs/query.md.
 */
#ifndef WICK_QUERY_QUERY_H
#define WICK_QUERY_QUERY_H

#include "profile/labels.h"
#include "profile/profile.h"
#include "profile/type.h"
#include "store/store.h"
#include "symbol/symbol.h"

/* type{label="v", a!="b", c=~"re", d!~"re"}. The type is a full profile type, a prefix of its parts ("process_cpu",
 * "process_cpu:cpu"), or empty (any). Regular expressions are anchored (PCRE2, with match limits); an absent label is "". */
struct selector;
int selector_parse(const char *text, struct selector **ret,
		   struct error *err); /* -EINVAL: "selector: expected ... at column N near '...'" */
struct selector *selector_free(struct selector *selector);
DEFINE_CLEANUP_POINTER(selector_free, struct selector);
bool selector_matches(const struct selector *selector, const struct profile_type *type,
		      const struct labels *labels); /* thread-safe */

struct query {
	const char *selector;
	int64_t from_ns, to_ns;
	const bool *cancel; /* NULL = never */
};
struct query_stats {
	struct store_read_stats read;
	uint64_t parse_ns, read_ns, symbolize_ns;
	size_t locations_resolved, locations_unresolved;
};

/* The merged, symbolized profile of everything selected. The selection must be of one profile type: if the selector leaves
 * several, -EINVAL lists them. No data is success with sample_count 0. */
int query_merge(struct store *store, struct symbolizer *symbolizer, const struct query *query, struct profile **ret,
		struct query_stats *stats, struct error *err);

/* Sums per step, grouped by label names (none = one series). */
struct query_point {
	int64_t time_ns; /* start of the step, a multiple of step since 1970 */
	int64_t value;
};
struct query_series_row {
	struct labels labels;	    /* the group's */
	struct query_point *points; /* by rising time; steps without data are absent */
	size_t point_count;
	int64_t total;
};
struct query_series {
	struct query_series_row *rows; /* by falling total */
	size_t count, count_before_limit;
	int64_t step_ns;
	struct profile_type type;
};
/* step_ns 0 = chosen so that there are at most 200 points; limit 0 = 100 rows (the rest is only counted). More than 11,000
 * points a row is -EINVAL. */
int query_series(struct store *store, const struct query *query, int64_t step_ns, const char *const *by, size_t by_count,
		 size_t limit, struct query_series *ret, struct query_stats *stats, struct error *err);
void query_series_release(struct query_series *series);

/* Names with how many series have them; sorted. */
struct query_names {
	struct query_name {
		char *name;
		uint64_t series;
	} * items;
	size_t count, count_before_limit;
};
void query_names_release(struct query_names *names);
int query_types(struct store *store, const struct query *query, struct query_names *ret, struct error *err);
int query_label_names(struct store *store, const struct query *query, struct query_names *ret, struct error *err);
int query_label_values(struct store *store, const struct query *query, const char *label, const char *prefix, size_t limit,
		       struct query_names *ret, struct error *err);

#endif
