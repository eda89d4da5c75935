/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Pyroscope's server makes of a recording that a client sends to it: some profiles, each of one kind of event, instead of
 * the one that the format jfr gives. Essay at the top of jfr_upload.c.
 */
#ifndef WICK_FORMAT_JFR_JFR_UPLOAD_H
#define WICK_FORMAT_JFR_JFR_UPLOAD_H

#include "profile/labels.h"
#include "profile/profile.h"

struct jfr_upload {
	struct bytes recording;	     /* not compressed */
	struct bytes labels;	     /* LabelsSnapshot, not compressed; empty = none */
	const struct labels *series; /* of the request: a sample's label of the same name gives way to them, and to
				      * jfr_event, which is to be the event below; NULL = none */
	int64_t period_ns;	     /* that a sample of CPU or wall-clock time stands for */
};

#define JFR_UPLOAD_PROFILES  9
#define JFR_UPLOAD_EVENT_MAX 128
struct jfr_profiles {
	struct {
		const char *name; /* first part of the profile types */
		unsigned kind;	  /* which kind of event: the same number whatever else a recording has */
		struct profile *profile;
	} items[JFR_UPLOAD_PROFILES];
	size_t count;
	char event[JFR_UPLOAD_EVENT_MAX]; /* async-profiler's setting "event" ("itimer", "wall" ...); "" = it has none */
	int64_t duration_ns;		  /* of the recording; 0 = unknown */
	uint64_t without_stack;		  /* events that were left out, since the recording does not have their stacks */
};

/* The profiles have neither a time nor a duration: those are of the request. -EBADMSG: the recording or the labels are
 * malformed; -E2BIG, -ENOMEM. On failure there is nothing to release. */
int jfr_decode_upload(const struct jfr_upload *upload, struct jfr_profiles *ret, struct error *err);
void jfr_profiles_release(struct jfr_profiles *profiles);

#endif
