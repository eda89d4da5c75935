/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markers that programs make with libwickmark (client/wickmark_abi.h), collected while they run.
 *
 * A separate thread discovers processes with the library by the name of its shared file in /proc/PID/maps. It holds the lease
 * that enables their markers, and drains their rings into markers and counters (profile/markers.h) of a profile, which is
 * returned at the end. Processes that start with marks_recorder_name() in their environment announce themselves, so that even
 * the markers of a short-lived process are complete.
 *
 * The shared file belongs to the process, so its content is not trusted. Its size cannot change (unsealed files are rejected),
 * every number is read once and checked, records are copied before they are parsed, and the result is bounded.
 *
 * Times are converted to wall-clock time with one offset for the whole recording, or until the next marks_take(). Markers are
 * cut to the start and end of the recording, or dropped if they are outside.
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

/* The default limit of markers and counter rows of one profile, of all processes together; marks_limit() changes it. Beyond it,
 * they are downsampled evenly over time (marks_thin.c), and the dropped ones are counted. */
#define MARKS_MAX 8000000u
/* The limit of their values, the same as for a table of a profile. */
#define MARKS_VALUES_MAX LIMIT_PROFILE_ENTITIES
/* Processes with the library at a time. */
#define MARKS_FILES_MAX 4096u

struct marks_stats {
	uint64_t markers, rows;
	uint64_t processes; /* with the library */
	uint64_t lost;	    /* in full rings, as reported by the programs */
	uint64_t left_out;  /* dropped beyond the limit */
	uint64_t malformed; /* malformed records */
	uint64_t refused;   /* rejected files: unsupported version, damaged, or too many */
	uint64_t busy;	    /* processes whose markers another recorder collects */
	uint64_t waiting;   /* now: markers and rows for the next marks_take() */
	uint64_t yielded;   /* now, with marks_continuous(): processes whose markers another recorder collects */
	bool is_full;	    /* now, with marks_continuous(): call marks_take() soon, or markers are dropped */
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
/* Before marks_start(): collect continuously. Then it yields processes to other recorders, and resumes when they have ended. To
 * save CPU, it discovers processes and drains rings less often. It keeps at most MARKS_CONTINUOUS_MAX markers, some 30 MB,
 * until marks_take(). Spans of wickmark_long_begin() are recorded only when they end, so that each appears once. When another
 * recorder takes over, a few markers may be in both recordings. */
#define MARKS_CONTINUOUS_MAX 200000u
void marks_continuous(struct marks *marks);
/* Before marks_start(). -E2BIG beyond 1024. */
int marks_follow(struct marks *marks, pid_t pid, struct error *err);
/* Before marks_start(): the recording starts at this wall-clock time instead of at marks_start(). Earlier markers are dropped.
 * Call marks_start() a little before that time, so that the first markers are not missed. */
void marks_begin_at(struct marks *marks, int64_t begin_ns);
int marks_start(struct marks *marks, struct error *err);
/* Returns everything collected since the start or the last marks_take() as a separate profile; collecting continues. From any
 * one thread, between marks_start() and marks_stop(). Each profile is self-contained: names, threads, schemas. A span is in the
 * profile of its end, with its true start. Open spans (wickmark_long_begin) cover the time since the last marks_take() in each
 * profile, and are complete in the profile of their end. An asynchronous span across two profiles is a START in one and an END
 * in the other. MARKS_MAX applies to each profile. */
int marks_take(struct marks *marks, struct profile **ret, struct error *err);
/* Disables the markers, drains the rest, and merges them with the profile. *profile may be another one afterwards, because the
 * smaller of the two is merged into the larger. Times of its markers are on the same clock as time_now_ns(). Once. */
int marks_stop(struct marks *marks, struct profile **profile, struct error *err);
/* Of all since the start. Any time. */
void marks_get_stats(struct marks *marks, struct marks_stats *ret);
struct marks *marks_free(struct marks *marks); /* NULL allowed; stops; returns NULL */
DEFINE_CLEANUP_POINTER(marks_free, struct marks);

#endif
