/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/query: carrying out a plan. */
#ifndef WICK_QUERY_RUN_H
#define WICK_QUERY_RUN_H

#include "query/pipeline_int.h"
#include "query/table.h"
#include "query/top.h"

struct run {
	struct store *store;
	struct symbolizer *symbolizer;
	const struct query_options *options;
	const struct query_plan *plan;
	struct query_result *result;
	struct query_stats *stats;
	struct error *err;
	size_t rows_max;
	size_t tail_done; /* stages of the tail that were carried out already */
};

/* What the plan asks of the store; texts belong to the plan. */
void run_query(const struct run *run, struct query *ret);
/* Read, named, transformed. */
int run_profile(struct run *run, const struct query_merge_options *options, struct profile **ret);
int run_transforms(struct run *run, struct profile **profile);
const char *run_unit(const struct run *run, char out[static QUERY_UNIT_MAX]);
/* Columns and cells of the result's table. */
void run_add_labels(struct run *run, const char *const *by, size_t by_count);
void run_add_sum_column(struct run *run, const char *name);
void run_put_sum(struct run *run, int64_t value, int64_t range_ns);

/* The trees that answers are made of: the last sample type, nodes_max 0 = all nodes; both sides of a diff. */
struct flame;
struct diff;
struct table;
struct diff_table;
int query_build_flame(const struct profile *profile, size_t nodes_max, struct flame **ret, struct error *err);
int query_build_diff(const struct profile *profile, size_t nodes_max, struct diff **ret, struct error *err);
/* Tables of the same; by_name: as table_build_by_name(). */
int query_build_table(const struct profile *profile, bool by_name, struct table *ret, struct error *err);
int query_build_diff_table(const struct query_result *result, bool by_name, struct diff_table *ret, struct error *err);
/* Of the values of these; "" if there are none. */
const char *query_profile_unit(const struct profile *profile);

int run_compare(struct run *run);
int run_join(struct run *run);

#endif
