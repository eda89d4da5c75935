/* SPDX-License-Identifier: Apache-2.0 */
#include "store/read/plan.h"

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

/* Whether the table can answer at all, leaving the ends of the range aside. */
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
	if (!criteria->by_step || criteria->step_ns == 0)
		return true;
	/* Each bucket must lie within one step. */
	return level->bucket_ns != INT64_MAX && criteria->step_ns % level->bucket_ns == 0 &&
	       store_select_steps_ns(criteria->select) % level->bucket_ns == 0;
}

static void add(struct planning *p, enum block_file file, int64_t from_ns, int64_t to_ns)
{
	/* Each level gives at most two segments, and the coarsest usable one only one. */
	if (p->plan->count < PLAN_SEGMENTS_MAX)
		p->plan->segments[p->plan->count++] = (struct plan_segment){file, from_ns, to_ns};
	else
		p->plan->missing = true;
}

/* There are no samples: the finest table that can answer gives the buckets that begin in the range. */
static void add_rounded(struct planning *p, int64_t from_ns, int64_t to_ns)
{
	for (size_t i = SAMPLE_LEVEL; i-- > 0;) {
		if (!is_usable(p, &levels[i]) || levels[i].bucket_ns == INT64_MAX)
			continue;
		p->plan->rounded = true;
		add(p, levels[i].file, from_ns, to_ns);
		return;
	}
	p->plan->missing = true;
}

static void cover(struct planning *p, size_t at, int64_t from_ns, int64_t to_ns)
{
	const struct block_meta *meta = p->meta;
	if (from_ns >= to_ns || from_ns > meta->max_ns || to_ns <= meta->min_ns)
		return;
	while (at < SAMPLE_LEVEL && !is_usable(p, &levels[at]))
		at++;
	if (at == SAMPLE_LEVEL) {
		if (has_file(p, BLOCK_SAMPLES))
			add(p, BLOCK_SAMPLES, from_ns, to_ns);
		else
			add_rounded(p, from_ns, to_ns);
		return;
	}
	bool from_start = from_ns <= meta->min_ns, to_end = to_ns > meta->max_ns;
	int64_t bucket = levels[at].bucket_ns;
	if (bucket == INT64_MAX) {
		if (from_start && to_end)
			add(p, levels[at].file, INT64_MIN, INT64_MAX);
		else
			cover(p, at + 1, from_ns, to_ns);
		return;
	}
	/* Where the block begins or ends inside of the range, buckets are whole: nothing of the block lies outside. */
	int64_t low = from_start ? time_floor(meta->min_ns, bucket) : ceil_to(from_ns, bucket);
	int64_t high = to_end ? time_floor(meta->max_ns, bucket) + bucket : time_floor(to_ns, bucket);
	if (low >= high) {
		cover(p, at + 1, from_ns, to_ns);
		return;
	}
	add(p, levels[at].file, low, high);
	cover(p, at + 1, from_ns, low);
	cover(p, at + 1, high, to_ns);
}

void plan_make(const struct block_meta *meta, const struct plan_criteria *criteria, struct plan *ret)
{
	*ret = (struct plan){0};
	struct planning p = {.meta = meta,
			     .criteria = criteria,
			     .plan = ret,
			     .labels_kept = criteria->only_averages || keeps_all(meta, criteria)};
	cover(&p, 0, criteria->select->from_ns, criteria->select->to_ns);
}
