/* SPDX-License-Identifier: Apache-2.0 */
#include "top/recent.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/filter.h"
#include "profile/merge.h"

#define INTERVALS_MAX  100000u
#define COMPACT_FACTOR 2     /* tables have grown to so many times what is used ... */
#define COMPACT_LEAST  20000 /* ... and to so many entries */

int top_recent_init(struct top_recent *recent, int64_t length_ns, struct error *err)
{
	*recent = (struct top_recent){.length_ns = length_ns, .first = 1};
	return profile_new(&recent->profile, err);
}

void top_recent_release(struct top_recent *recent)
{
	recent->profile = profile_free(recent->profile);
	recent->intervals = mem_free(recent->intervals);
	recent->count = recent->capacity = 0;
}

static size_t count_entries(const struct profile *profile)
{
	return profile->stack_count + profile->location_count + profile->label_set_count + profile->strings.count;
}

static bool is_recent(const void *context, const struct profile *profile, size_t sample)
{
	const struct top_recent *recent = context;
	return profile->samples[sample].time_ns >= recent->first;
}

static void drop(struct top_recent *recent, size_t count)
{
	recent->first += (int64_t)count;
	recent->count -= count;
	memmove(recent->intervals, recent->intervals + count, recent->count * sizeof(*recent->intervals));
	profile_filter_samples(recent->profile, is_recent, recent);
}

static void drop_old(struct top_recent *recent)
{
	int64_t oldest_ns = recent->intervals[recent->count - 1].to_ns - recent->length_ns;
	size_t old = 0;
	while (old + 1 < recent->count && recent->intervals[old].to_ns <= oldest_ns)
		old++;
	if (old)
		drop(recent, old);
	while (recent->count > 1 && recent->profile->sample_count > TOP_SAMPLES_MAX)
		drop(recent, 1);
}

/* Names and stacks that no sample refers to any more leave too, once there are as many of them as of others. */
static int compact(struct top_recent *recent, struct error *err)
{
	_cleanup_(profile_freep) struct profile *fresh = NULL;
	size_t now = count_entries(recent->profile);
	if (now < COMPACT_LEAST || now < COMPACT_FACTOR * recent->compacted)
		return 0;
	int r = profile_new(&fresh, err);
	if (r == 0)
		r = profile_merge(fresh, recent->profile, false, err);
	if (r < 0)
		return r;
	profile_free(recent->profile);
	recent->profile = TAKE(fresh);
	recent->compacted = count_entries(recent->profile);
	return 0;
}

int top_recent_add(struct top_recent *recent, struct profile *profile, const struct top_interval *interval, struct error *err)
{
	int64_t number = recent->first + (int64_t)recent->count;
	int r = array_reserve(&recent->intervals, &recent->capacity, recent->count + 1, INTERVALS_MAX);
	if (r == -E2BIG && recent->count > 1) {
		drop(recent, 1);
		r = 0;
	}
	if (r < 0)
		return error_nomem(err);
	for (size_t i = 0; profile && i < profile->sample_count; i++)
		profile->samples[i].time_ns = number;
	if (profile)
		r = profile_merge(recent->profile, profile, false, err);
	if (r < 0)
		return r;
	recent->intervals[recent->count++] = *interval;
	drop_old(recent);
	return compact(recent, err);
}

int top_recent_clear(struct top_recent *recent, struct error *err)
{
	_cleanup_(profile_freep) struct profile *fresh = NULL;
	int r = profile_new(&fresh, err);
	if (r < 0)
		return r;
	profile_free(recent->profile);
	recent->profile = TAKE(fresh);
	recent->first += (int64_t)recent->count;
	recent->count = recent->compacted = 0;
	return 0;
}

void top_recent_sum(const struct top_recent *recent, struct top_interval *ret)
{
	struct top_interval sum = {0};
	int64_t length_ns = 0;
	for (size_t i = 0; i < recent->count; i++) {
		const struct top_interval *interval = &recent->intervals[i];
		length_ns += interval->to_ns - interval->from_ns;
		sum.to_ns = interval->to_ns;
		sum.taken += interval->taken;
		sum.lost += interval->lost;
		sum.stacks += interval->stacks;
		sum.incomplete += interval->incomplete;
		sum.own_cpu_ns += interval->own_cpu_ns;
	}
	sum.from_ns = sum.to_ns - length_ns;
	*ret = sum;
}
