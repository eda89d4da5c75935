/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tables of a block are read for a range of time.
 *
 * The coarsest table that gives the same answer wins: sums of the whole block if the range covers it, sums by hour for the
 * whole hours of the range, by 5 minutes for what is left, and samples for the rest at both ends. So an answer is exact
 * whatever the range, and a month costs about as much as its rows of the coarsest table.
 *
 * Values over time are the same with steps that are a multiple of a table's buckets. With other steps that are longer than the
 * buckets the table gives those that lie within one step, and samples only the buckets in which a step ends. That pays where
 * samples have partitions, for without them the pages in which a step ends are almost all there are.
 */
#ifndef WICK_STORE_READ_PLAN_H
#define WICK_STORE_READ_PLAN_H

#include "base/cleanup.h"
#include "store/block/block_scan.h"

struct plan_criteria {
	const struct store_select *select;
	const struct store_grouping *grouping; /* NULL = none */
	bool by_stack;			       /* stacks matter: a merge, or conditions on stacks */
	bool by_step;			       /* values over time, with step_ns (0 = one bucket) */
	int64_t step_ns;
	bool by_span;	    /* spans are told apart, which only samples have */
	bool averages;	    /* among the series are gauges that are averaged */
	bool numbers;	    /* of samples are wanted, or conditions on them, and there are some: rollups have none */
	unsigned unusable;  /* files that cannot be read: a bit a file */
	bool only_averages; /* nothing else: each is a rollup series by itself, with all its labels */
};
struct plan_segment {
	enum block_file file;
	const struct block_range *ranges; /* of the table's time_ns */
	size_t range_count;
};
#define PLAN_SEGMENTS_MAX 6
struct plan {
	struct plan_segment segments[PLAN_SEGMENTS_MAX]; /* each of another table, unless `rounded` */
	struct plan_ranges {
		struct block_range *items;
		size_t count, capacity;
	} ranges[PLAN_SEGMENTS_MAX]; /* what they refer to */
	size_t count;
	bool rounded;	/* samples are gone and the ends of the range had to be rounded to buckets */
	bool missing;	/* samples are gone and no rollup can answer */
	bool uncounted; /* because those that there are lack the number of profiles */
};
/* -ENOMEM. The plan is the caller's to release, also then. */
int plan_make(const struct block_meta *meta, const struct plan_criteria *criteria, struct plan *ret, struct error *err);
void plan_release(struct plan *plan);
static inline bool plan_is_by_rollup(enum block_file file)
{
	return file == BLOCK_ROLLUP_5M || file == BLOCK_ROLLUP_1H || file == BLOCK_ROLLUP_ALL;
}

#endif
