/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markers that programs make with libwickmark (client/wickmark_abi.h), collected while they run.
 *
 * A thread of its own looks for processes that have the library, by the name of its shared file in /proc/PID/maps, holds the
 * lease that switches their markers on, and empties their rings. What it finds becomes markers and counters (profile/markers.h)
 * of a profile that is handed over at the end. Processes that are started with the name of marks_recorder_name() in their
 * environment announce themselves, so that those are complete which end at once.
 *
 * The shared file is the process's: everything in it is taken as a claim. Its size cannot change (it is sealed, or refused),
 * every number is read once and checked, records are copied before they are looked at, and what comes of them is bounded.
 *
 * Times become wall-clock time by one difference for the whole recording, or up to the next marks_take(). Markers reach from
 * the start of the recording to its end: what lies outside is cut off, or left out.
 */
#ifndef WICK_AGENT_MARKERS_MARKS_H
#define WICK_AGENT_MARKERS_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "profile/profile.h"

/* Markers and rows of counters that one profile keeps, of all processes together, unless marks_limit() says otherwise. If there
 * are more they are thinned out, evenly over the time (marks_thin.c), and those that go are counted. */
#define MARKS_MAX 8000000u
/* Their values, too, as many as a table of a profile may have. */
#define MARKS_VALUES_MAX LIMIT_PROFILE_ENTITIES
/* Processes that have the library, at a time. */
#define MARKS_FILES_MAX 4096u

struct marks_stats {
	uint64_t markers, rows;
	uint64_t processes; /* that had the library */
	uint64_t lost;	    /* that the programs had no room for, as they say */
	uint64_t left_out;  /* beyond what is kept */
	uint64_t malformed; /* records that made no sense */
	uint64_t refused;   /* files: of another version, damaged, or too many */
	uint64_t busy;	    /* processes whose markers another recorder takes */
	uint64_t waiting;   /* now: markers and rows that the next marks_take() gives */
	uint64_t yielded;   /* now, of marks_continuous(): processes whose markers another recorder takes */
	bool is_full;	    /* now, of marks_continuous(): it should be taken soon, or else some are left out */
};

struct marks;
/* all: of every process; else of those of marks_follow() and their children. */
int marks_new(bool all, struct marks **ret, struct error *err);
/* For the environment variable MARKS_ENVIRONMENT of a command that is to be recorded; lives as long as marks. "" = not to be
 * had. */
#define MARKS_ENVIRONMENT "WICKMARK_RECORDER"
const char *marks_recorder_name(const struct marks *marks);
/* Before marks_start(). max: at least 1. A marker takes 64 B in memory and 16 for each value. */
void marks_limit(struct marks *marks, size_t max);
/* Before marks_start(): it goes on for as long as the machine runs. So it gives way to recorders that do not, and takes over
 * again when they have ended; looks for processes, and at their rings, less often, for less CPU; keeps no more than
 * MARKS_CONTINUOUS_MAX, some 30 MB, up to a marks_take(); and has spans of wickmark_long_begin() only when they end, so that
 * each is there once. Where another recorder takes over, a few markers of that moment may be in both. */
#define MARKS_CONTINUOUS_MAX 200000u
void marks_continuous(struct marks *marks);
/* Before marks_start(). -E2BIG beyond 1024. */
int marks_follow(struct marks *marks, pid_t pid, struct error *err);
/* Before marks_start(): the recording is to begin then, by the wall clock, and not with marks_start(). What comes before is
 * left out; if that is called a little earlier, markers of the very beginning are there, too. */
void marks_begin_at(struct marks *marks, int64_t begin_ns);
int marks_start(struct marks *marks, struct error *err);
/* All that was collected since the start or the last taking, as a profile of its own; the collecting goes on. From any one
 * thread, between marks_start() and marks_stop(). Each profile is whole in itself: names, threads, schemas. A span is in the
 * profile of its end, with its true beginning. Spans that are still under way (wickmark_long_begin) reach in each profile from
 * the last taking to now, and are in that of their end as a whole. The two ends of an asynchronous span that lie in two
 * profiles are a START and an END. MARKS_MAX is for each profile. */
int marks_take(struct marks *marks, struct profile **ret, struct error *err);
/* Switches the markers off, takes what is left, and adds all to the profile, or that to all, whichever is less to move:
 * *profile may be another one afterwards. Times of its markers are on the same clock as time_now_ns(). Once. */
int marks_stop(struct marks *marks, struct profile **profile, struct error *err);
/* Of all since the start. Any time. */
void marks_get_stats(struct marks *marks, struct marks_stats *ret);
struct marks *marks_free(struct marks *marks); /* NULL allowed; stops; returns NULL */
DEFINE_CLEANUP_POINTER(marks_free, struct marks);

#endif
