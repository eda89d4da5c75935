/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Averages of gauges (profile_type_is_gauge): what a series had on average over its profiles of a step, or of the whole range,
 * added up over series.
 *
 *   value of a group and step  =  sum over its series s of  (sum of the values of s in the step) / (profiles of s in the step)
 *
 * Conditions on stacks choose what is summed, never which profiles count: the heap that passes through a function is so much
 * per profile, whether the function is in that profile or not. The profiles of a series are its different times.
 *
 * A series has rows in several sources, so a quotient is known only when all of them were read. Values over time are collected
 * by (series, step) and divided at the end. A merge has a few hundred stacks a series, too many to keep apart until then: it
 * reads twice, first how many profiles each series has (from totals, or from two columns of the samples), then values, each
 * divided by that number as it is added. Sums of quotients are doubles; rounding (averages_round_stacks) keeps the total of a
 * group what it is.
 *
 * Each source counts its own profiles. The rows of one profile can lie in two sources: late or repeated data, or a head that
 * was cut between two appends of one time. So sources also say from when to when they have each series. Taken together in the
 * order of their age these spans nearly always follow one another; where one of them reaches into those before, read_overlaps.c
 * looks for times that were counted more than once.
 *
 * Rejected: the mean of the means of blocks, or of steps. It is another number as soon as profiles come at unequal intervals.
 */
#ifndef WICK_STORE_READ_AVERAGES_H
#define WICK_STORE_READ_AVERAGES_H

#include "base/map.h"
#include "store/read/select.h"
#include "store/stack_set.h"

#define NOT_AVERAGED UINT32_MAX		/* the number of a series that is no gauge, or not wanted */
#define AVERAGES_MAX (4u * 1024 * 1024) /* (series, step) pairs: more is -E2BIG */

/* From when to when a source has a series. */
struct average_span {
	uint32_t number;
	int64_t first_ns, last_ns;
};
struct average_spans {
	struct average_span *items;
	size_t count, capacity;
};

/* Of a whole query; under its lock. */
struct averages {
	struct index32 index;
	struct average_series {
		struct hash128 id; /* of type and labels: the same in all sources */
		uint32_t group;
		uint64_t profiles;			 /* in the range; a merge has counted them */
		int64_t first_ns, last_ns;		 /* of all spans so far; first > last: none yet */
		int64_t shared_first_ns, shared_last_ns; /* where they overlap; first > last: nowhere */
	} * series;
	size_t count, capacity;
	struct map64 profiles, sums; /* series << 32 | step */
	bool overlaps;		     /* spans of some series do */
};
/* Of one source, until it is read. */
struct source_averages {
	/* By series, by rollup series: the number of the series in struct averages, or NOT_AVERAGED; NULL = the source has no
	 * gauge that is wanted, or no rollups. */
	uint32_t *numbers, *rollup_numbers;
	bool all;			  /* whatever is wanted is a gauge */
	double *weights, *rollup_weights; /* merges: what a value of this series counts */
	struct map64 profiles, sums;	  /* as in struct averages */
	struct average_spans spans;
};
void averages_release(struct averages *averages);
void source_averages_release(struct source_averages *source);

/* Numbers the gauges of a source among those that the selection wants. The query's lock is held. */
int averages_number(struct averages *averages, const struct series_columns *columns, const struct selection *selection,
		    struct source_averages *ret, struct error *err);
/* The number of a series; false if the selection does not want it. */
bool averages_find(const struct averages *averages, const struct profile_type *type, const struct labels *labels,
		   uint32_t *ret);
int average_spans_add(struct average_spans *spans, struct average_span span, struct error *err);
void average_spans_release(struct average_spans *spans);
/* Takes the spans of one source, the one after the other by age. The query's lock is held. */
void averages_note_spans(struct averages *averages, const struct average_spans *spans);
/* Numbers and weights by rollup series, each gauge being one by itself; rollup_ids by series. */
int averages_number_rollups(struct source_averages *source, const int32_t *rollup_ids, size_t series_count, size_t rollup_count,
			    struct error *err);
/* Weights by series: 1 / profiles, and 1 for what is no gauge. The query's lock is held. */
int averages_weigh(const struct averages *averages, struct source_averages *source, size_t series_count, struct error *err);
/* Hands over what a source counted and summed. The query's lock is held. */
int averages_add(struct averages *averages, const struct source_averages *source, struct error *err);
/* After all sources of a merge were counted. */
void averages_note_profiles(struct averages *averages);
/* Gives the points to on_point, and for each group what its range has beyond the sum of its points (STORE_RANGE). */
int averages_give(const struct averages *averages, store_on_point on_point, void *context, struct error *err);

static inline uint64_t average_key(uint32_t number, uint64_t step)
{
	return (uint64_t)number << 32 | step;
}
/* To the nearest integer; what adding up doubles in another order would change does not matter. */
int64_t average_round(double value);
/* Makes integers of the values of a set, which are doubles: the values of each group add up to the rounded sum of the group,
 * and no value is a whole unit off. Groups with the same base are one. */
int averages_round_stacks(struct stack_set *set, uint32_t (*base_of)(const void *context, uint32_t group), const void *context,
			  struct error *err);

#endif
