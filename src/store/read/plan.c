/* SPDX-License-Identifier: Apache-2.0 */
#include "store/read/plan.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/time.h"

/* From coarse to fine. */
static const struct level {
	enum block_file file;
	int64_t bucket_ns; /* INT64_MAX: the whole block; 0: samples, exact */
	bool has_stacks;
} levels[] = {
	{BLOCK_ROLLUP_ALL, INT64_MAX, true},
	{BLOCK_ROLLUP_1H, 3600ll * 1000000000, true},
	{BLOCK_ROLLUP_5M, 300ll * 1000000000, true},
	{BLOCK_TOTALS, BLOCK_TOTALS_NS, false},
	{BLOCK_SAMPLES, 0, true},
};
#define LEVELS	     (sizeof(levels) / sizeof(*levels))
#define SAMPLE_LEVEL (LEVELS - 1)
#define STEPS_MAX    4096 /* ends of steps that a level is split at; with more the next one is taken */
_Static_assert(LEVELS + 1 <= PLAN_SEGMENTS_MAX, "one for each level, and one for what is rounded");

struct planning {
	const struct block_meta *meta;
	const struct plan_criteria *criteria;
	struct plan *plan;
	bool labels_kept; /* rollups have all labels that the query mentions */
};

/* INT64_MAX when it would pass it. */
static int64_t ceil_to(int64_t time, int64_t bucket)
{
	int64_t down = time_floor(time, bucket), up;
	if (down == time)
		return time;
	return __builtin_add_overflow(down, bucket, &up) ? INT64_MAX : up;
}

static bool keeps(const struct block_meta *meta, const char *name)
{
	const struct block_label_name *label = block_meta_label(meta, name);
	return !label || label->in_rollups;
}

static bool keeps_all(const struct block_meta *meta, const struct plan_criteria *criteria)
{
	const struct series_conditions *series = &criteria->select->series;
	bool all = (!criteria->grouping || criteria->grouping->by) && !series->key_count;
	for (size_t i = 0; i < series->label_count; i++) {
		const struct label_fallback *fallback = series->labels[i].fallback;
		all &= keeps(meta, series->labels[i].label) && (!fallback || keeps(meta, fallback->label));
	}
	for (size_t i = 0; criteria->grouping && criteria->grouping->by && i < criteria->grouping->by_count; i++)
		all &= keeps(meta, criteria->grouping->by[i]);
	return all;
}

static bool has_file(const struct planning *p, enum block_file file)
{
	return p->meta->files[file].size > 0 && !(p->criteria->unusable >> file & 1);
}

/* Each bucket lies within one step. */
static bool steps_fit(const struct plan_criteria *criteria, const struct level *level)
{
	if (!criteria->by_step || criteria->step_ns == 0)
		return true;
	return level->bucket_ns != INT64_MAX && criteria->step_ns % level->bucket_ns == 0 &&
	       store_select_steps_ns(criteria->select) % level->bucket_ns == 0;
}

/* Whether it pays to take those buckets that lie within one step. Tables with stacks are as large as a third of the samples,
 * and have no partitions, so most buckets have to. */
static bool is_worth_splitting(const struct planning *p, const struct level *level)
{
	int64_t step = p->criteria->step_ns, partition = p->meta->partition_ns;
	return level->bucket_ns != INT64_MAX && has_file(p, BLOCK_SAMPLES) && partition > 0 && step > partition &&
	       step / (level->has_stacks ? 2 : 1) >= level->bucket_ns;
}

/* Whether the table can answer at all, leaving the ends of the range and of steps aside. */
static bool is_usable(const struct planning *p, const struct level *level)
{
	const struct plan_criteria *criteria = p->criteria;
	if (!has_file(p, level->file))
		return false;
	if (level->bucket_ns == 0)
		return true;
	if (criteria->averages && (!p->meta->counts_profiles || criteria->unusable >> BLOCK_TOTALS & 1)) {
		p->plan->uncounted = true;
		return false;
	}
	if (criteria->select->samples_only || criteria->select->link_count || criteria->by_span || criteria->numbers ||
	    (criteria->by_stack && !level->has_stacks) || (level->has_stacks && (!criteria->by_stack || !p->labels_kept)))
		return false;
	return steps_fit(criteria, level) || is_worth_splitting(p, level);
}

/* ---- ranges ---- */

static int add(struct plan_ranges *ranges, int64_t from_ns, int64_t to_ns)
{
	struct block_range range = {from_ns, to_ns};
	if (from_ns >= to_ns)
		return 0;
	if (ranges->count && ranges->items[ranges->count - 1].to_ns == from_ns) {
		ranges->items[ranges->count - 1].to_ns = to_ns;
		return 0;
	}
	return array_push(&ranges->items, &ranges->count, &ranges->capacity, SIZE_MAX, range);
}

/* What lies outside of the block is left out. */
static int add_rest(const struct planning *p, struct plan_ranges *rest, int64_t from_ns, int64_t to_ns)
{
	return from_ns > p->meta->max_ns || to_ns <= p->meta->min_ns ? 0 : add(rest, from_ns, to_ns);
}

static void note_segment(struct plan *plan, enum block_file file)
{
	const struct plan_ranges *ranges = &plan->ranges[plan->count];
	if (ranges->count)
		plan->segments[plan->count++] = (struct plan_segment){file, ranges->items, ranges->count};
}

/* The first end of a step behind this time. */
static int64_t next_step(const struct plan_criteria *criteria, int64_t time_ns)
{
	int64_t steps = store_select_steps_ns(criteria->select), step = criteria->step_ns, next;
	if (time_ns < steps)
		return steps;
	return __builtin_add_overflow(steps + (time_ns - steps) / step * step, step, &next) ? INT64_MAX : next;
}

/* Whole buckets from low to high: those in which a step ends are left to the next level. */
static int take_buckets(const struct planning *p, const struct level *level, int64_t low, int64_t high,
			struct plan_ranges *taken, struct plan_ranges *rest)
{
	bool fit = steps_fit(p->criteria, level);
	int r = 0;
	for (int64_t at = low; r == 0 && at < high;) {
		int64_t end = fit ? high : next_step(p->criteria, at), split = high;
		if (end < high)
			split = time_floor(end, level->bucket_ns);
		r = add(taken, at, split);
		/* A step that ends where a bucket does splits none. */
		at = split;
		if (r == 0 && split < high && split != end) {
			at = split + level->bucket_ns;
			r = add_rest(p, rest, split, at);
		}
	}
	return r;
}

/* Takes what the level has of a range; the rest is the next level's. */
static int take_range(const struct planning *p, const struct level *level, const struct block_range *range,
		      struct plan_ranges *taken, struct plan_ranges *rest)
{
	const struct block_meta *meta = p->meta;
	int64_t from_ns = range->from_ns, to_ns = range->to_ns, bucket = level->bucket_ns;
	bool from_start = from_ns <= meta->min_ns, to_end = to_ns > meta->max_ns;
	if (bucket == INT64_MAX)
		return from_start && to_end ? add(taken, INT64_MIN, INT64_MAX) : add_rest(p, rest, from_ns, to_ns);
	/* Where the block begins or ends inside of the range, buckets are whole: nothing of the block lies outside. */
	int64_t low = from_start ? time_floor(meta->min_ns, bucket) : ceil_to(from_ns, bucket);
	int64_t high = to_end ? time_floor(meta->max_ns, bucket) + bucket : time_floor(to_ns, bucket);
	if (low >= high ||
	    (!steps_fit(p->criteria, level) && ((uint64_t)high - (uint64_t)low) / (uint64_t)p->criteria->step_ns > STEPS_MAX))
		return add_rest(p, rest, from_ns, to_ns);
	int r = add_rest(p, rest, from_ns, low);
	if (r == 0)
		r = take_buckets(p, level, low, high, taken, rest);
	return r == 0 ? add_rest(p, rest, high, to_ns) : r;
}

/* There are no samples: the finest table that can answer gives the buckets that begin in the ranges. */
static void round_rest(struct planning *p)
{
	for (size_t i = SAMPLE_LEVEL; i-- > 0;) {
		if (!is_usable(p, &levels[i]) || levels[i].bucket_ns == INT64_MAX)
			continue;
		p->plan->rounded = true;
		note_segment(p->plan, levels[i].file);
		return;
	}
	p->plan->missing = true;
}

/* What is left of the range is always where the next segment's ranges are; those of a level become it. */
static int take_level(struct planning *p, const struct level *level)
{
	struct plan *plan = p->plan;
	struct plan_ranges taken = {0}, rest = {0}, *left = &plan->ranges[plan->count];
	int r = 0;
	for (size_t i = 0; r == 0 && i < left->count; i++)
		r = take_range(p, level, &left->items[i], &taken, &rest);
	mem_free(left->items);
	*left = taken;
	note_segment(plan, level->file);
	plan->ranges[plan->count] = rest;
	return r;
}

int plan_make(const struct block_meta *meta, const struct plan_criteria *criteria, struct plan *ret, struct error *err)
{
	*ret = (struct plan){0};
	struct planning p = {.meta = meta,
			     .criteria = criteria,
			     .plan = ret,
			     .labels_kept = criteria->only_averages || keeps_all(meta, criteria)};
	int r = add_rest(&p, &ret->ranges[0], criteria->select->from_ns, criteria->select->to_ns);
	for (size_t i = 0; r == 0 && i < SAMPLE_LEVEL; i++)
		if (ret->ranges[ret->count].count && is_usable(&p, &levels[i]))
			r = take_level(&p, &levels[i]);
	if (r == 0 && ret->ranges[ret->count].count) {
		if (has_file(&p, BLOCK_SAMPLES))
			note_segment(ret, BLOCK_SAMPLES);
		else
			round_rest(&p);
	}
	return r < 0 ? error_nomem(err) : 0;
}

void plan_release(struct plan *plan)
{
	for (size_t i = 0; i < PLAN_SEGMENTS_MAX; i++)
		mem_free(plan->ranges[i].items);
	*plan = (struct plan){0};
}
