/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program was doing while it was sampled: samples by the spans of the profile's markers.
 *
 * A span is a marker with a start and an end. An interval is of its thread: a sample is in it if it is of the same thread (by
 * the labels process.pid and thread.id, of several hosts also host.name; of several threads that had the number one after the
 * other, the one that lived then) and its time is at or after the start and before the end. A start and an end that are markers
 * of their own are paired by process and name, the end with the start that came last; such a span may end on another thread,
 * and is therefore of the whole process. So is an interval that says so (profile_marker.of_process: asynchronous spans). A
 * start without an end lasts for ever, an end without a start has lasted from the beginning.
 *
 * The innermost of several spans is the one that began last; of those, the one that ends first; of those, the marker that was
 * added last.
 *
 * Both walk over samples and spans once in the order of time: O((samples + spans) log (samples + spans)).
 * 0, -ENOMEM, -E2BIG; the profile is valid but half done after a failure.
 */
#ifndef WICK_PROFILE_SPANS_H
#define WICK_PROFILE_SPANS_H

#include "profile/profile.h"

struct profile_during_found {
	size_t spans;	     /* of those names */
	size_t without_time; /* samples that went because their time is not known */
};
/* Keeps the samples in at least one span whose name, or the name of whose category, is one of `names`. Markers stay. */
int profile_filter_during(struct profile *profile, const char *const *names, size_t name_count,
			  struct profile_during_found *ret, struct error *err);

/* LIMIT of names in the label span.path: the innermost ones. */
#define PROFILE_SPAN_PATH_MAX 32
/* Gives each sample that has a time and is in a span the labels `span`, the innermost span's name, and `span.path`, the names
 * of all spans that it is in, outermost first: "request > parse". They take the place of labels of these names, which samples
 * with a time in no span lose. */
int profile_label_spans(struct profile *profile, struct error *err);

#endif
