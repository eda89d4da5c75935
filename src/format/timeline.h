/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When what happened, by thread, for the page of an opened profile (web/src/api/timeline_data.ts reads it): threads, samples
 * and markers. Small things are JSON, the many are columns of numbers.
 *
 * JSON, an object: start_ns (text: unix time), length_ns, threads [{name, process, host ("" if there is but one), pid, tid
 * (null = unknown), samples, markers}], strings [..], categories [[name, colour]], schemas [{name, fields: [[key,
 * label, format]]}] (numbers of strings; entry 0 of both is "none"; formats are enum profile_field_format), stacks, samples,
 * markers; samples_out, markers_out (those beyond the limits, the latest), untimed_out (samples without a time that were beyond
 * them) and until_ns (up to here all is there that has a time; 0 = up to the end, or not even the start).
 *
 * Columns, one after the other: its length in bytes as 4 bytes, little endian, then numbers as LEB128; signed ones as zigzag.
 * Samples are in the order of threads, in each by time, and so are markers.
 *
 *   sample time   signed: difference to the sample before, the first of a thread to 0; time is ns since start + 1, 0 = unknown
 *   sample stack  number of the stack, as first met
 *   for each sample type: values, signed; then the node of its flame tree in which each stack ends
 *   marker schema, name, category
 *   marker kind   phase + 4 if its flow ends + 8 if it is of the process
 *   marker start  signed: difference to the marker before, the first of a thread to 0; ns since start; of an END: its end
 *   marker length ns, 0 if it has none
 *   marker flow   1 = the first met, ...; 0 = none
 *   values        for each field of each marker's schema: kind; then number of the string, signed number, or a double's 8 bytes
 */
#ifndef WICK_FORMAT_TIMELINE_H
#define WICK_FORMAT_TIMELINE_H

#include "codec/json.h"
#include "profile/profile.h"

/* LIMITS of what is in one page; samples without a time are left out first, then the latest. A text is cut. */
#define TIMELINE_SAMPLES_MAX	2000000u
#define TIMELINE_MARKERS_MAX	2000000u
#define TIMELINE_TEXT_BYTES_MAX 1000u

struct timeline;
/* *ret = NULL if there is nothing to show: no times, no markers, one thread. -ENOMEM. The profile stays as long as it does. */
int timeline_new(const struct profile *profile, size_t samples_max, size_t markers_max, struct timeline **ret,
		 struct error *err);
struct timeline *timeline_free(struct timeline *timeline); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(timeline_free, struct timeline);

void timeline_put_json(struct timeline *timeline, struct json_writer *json);
/* Columns; the limit of `out` is theirs. 0, -ENOMEM, -E2BIG. Of samples: all before those of the first sample type. */
int timeline_put_samples(const struct timeline *timeline, struct buffer *out, struct error *err);
/* places: node by stack of the profile (flame_build_placed()). */
int timeline_put_type(const struct timeline *timeline, size_t type, const uint32_t *places, struct buffer *out,
		      struct error *err);
int timeline_put_markers(struct timeline *timeline, struct buffer *out, struct error *err);

#endif
