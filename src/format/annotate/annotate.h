/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markers and counters that were collected beside a recording, put into the profile that another profiler made of it: a profile
 * of the Firefox Profiler's processed format, which stays what it is, and gets more. The method is in annotate.c.
 */
#ifndef WICK_FORMAT_ANNOTATE_ANNOTATE_H
#define WICK_FORMAT_ANNOTATE_ANNOTATE_H

#include "codec/input.h"
#include "format/format.h"

/* By which times of the two files belong together. */
enum annotate_clock {
	ANNOTATE_CLOCK_AUTO = 0,  /* the monotonic one if both files tell it and it can be the same one, else the other */
	ANNOTATE_CLOCK_MONOTONIC, /* of one machine since it started */
	ANNOTATE_CLOCK_WALL,
};
struct annotate_options {
	const char *title; /* what the profile is called; NULL = as before */
	int64_t offset_ns; /* added to the times of all markers */
	enum annotate_clock clock;
};

struct annotate_stats {
	uint64_t markers, counters; /* that were added */
	uint64_t threads;	    /* that got markers, those that are new among them */
	uint64_t new_threads;	    /* that the profile did not have */
	uint64_t names;		    /* of threads and processes that were completed */
	uint64_t clamped;	    /* spans that were cut to the profile's time */
	/* Left out */
	uint64_t outside;			/* before or after the profile */
	uint64_t malformed;			/* without a time, or none that makes sense */
	bool by_wall_clock, by_monotonic_clock; /* what times were taken by; both if files differ */
	bool boots_differ;			/* the monotonic clocks seem to be of two machines or starts */
};

struct annotate;
int annotate_new(struct annotate **ret, struct error *err);
struct annotate *annotate_free(struct annotate *annotate); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(annotate_free, struct annotate);

/* Markers of a file: of the Firefox Profiler's format (56 to 75), or lines "START END NAME" in nanoseconds of CLOCK_MONOTONIC,
 * as samply reads them. thread: "PID:TID" or "TID", whose the lines are; NULL = as the file's name says, marker-PID-TID.txt or
 * marker-PID.txt. -EBADMSG, -EINVAL, -E2BIG, -ENOMEM, and what reading gives. */
int annotate_add_markers(struct annotate *annotate, const char *path, const char *thread, struct error *err);
/* Writes the profile with all that was added. Once. -EBADMSG, -ENOTSUP (a version that cannot be read), -ENOMEM, -E2BIG, and
 * what reading and the sink give. */
int annotate_write(struct annotate *annotate, struct input *base, const struct annotate_options *options,
		   struct format_sink *sink, struct annotate_stats *ret_stats, struct error *err);

#endif
