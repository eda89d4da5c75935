/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/top is a live view of where CPU time goes, for a terminal (wick top): what was sampled in the last seconds, tables and
 * trees of it, what keys do, and how it is drawn. Where samples come from, and the terminal itself, are not known here.
 *
 * This: samples of the last seconds. They come an interval at a time, and leave as they came, so that what is shown is exact:
 * the sum of whole intervals and not an average that fades. All are in one profile, each with the number of its interval as its
 * time.
 */
#ifndef WICK_TOP_RECENT_H
#define WICK_TOP_RECENT_H

#include "profile/profile.h"

/* What is known of an interval, or of several together. */
struct top_interval {
	int64_t from_ns, to_ns;	     /* monotonic */
	uint64_t taken, lost;	     /* samples; those that are lost are not among those taken */
	uint64_t stacks, incomplete; /* user stacks, and those that do not reach their root */
	int64_t own_cpu_ns;	     /* CPU time that the sampling took, and this program */
};

/* More samples are not kept; older intervals leave early, then. */
#define TOP_SAMPLES_MAX 500000u
struct top_recent {
	int64_t length_ns;
	struct profile *profile;
	struct top_interval *intervals; /* the oldest first, without gaps in their numbers */
	size_t count, capacity;
	int64_t first;	  /* the number of intervals[0]; from 1 */
	size_t compacted; /* entries of the profile when it had only what is used */
};

int top_recent_init(struct top_recent *recent, int64_t length_ns, struct error *err);
void top_recent_release(struct top_recent *recent);
/* The next interval; profile: NULL = without samples. Its samples' times are changed. Intervals that end `length_ns` before
 * this one's end or earlier leave. 0, -ENOMEM, -E2BIG, or -EINVAL when the sample types are others than before. */
int top_recent_add(struct top_recent *recent, struct profile *profile, const struct top_interval *interval, struct error *err);
/* Everything leaves. */
int top_recent_clear(struct top_recent *recent, struct error *err);
/* Of all intervals: from_ns is as far before to_ns as they are long together, whatever was missed between them. */
void top_recent_sum(const struct top_recent *recent, struct top_interval *ret);

#endif
