/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markers that programs make with libwickmark (client/wickmark_abi.h), collected while they run.
 *
 * A separate thread discovers processes with the library by the name of its shared file in /proc/PID/maps. It holds the lease
 * that enables their markers, and drains their rings into markers and counters (profile/markers.h) of a profile, which is
 * returned at the end. Processes that start with marker_recorder_name() in their environment announce themselves, so that even
 * the markers of a short-lived process are complete.
 *
 * The shared file belongs to the process, so its content is not trusted. Its size cannot change (unsealed files are rejected),
 * every number is read once and checked, records are copied before they are parsed, and the result is bounded.
 *
 * Times are converted to wall-clock time with one offset for the whole recording, or until the next marker_recorder_take().
 * Markers are cut to the start and end of the recording, or dropped if they are outside.
 */
#ifndef WICK_AGENT_MARKERS_MARKER_RECORDER_H
#define WICK_AGENT_MARKERS_MARKER_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "profile/profile.h"

/* The default limit of markers and counter rows of one profile, of all processes together; marker_recorder_limit() changes it.
 * Beyond it, they are downsampled evenly over time (marker_downsample.c), and the dropped ones are counted. */
#define MARKER_RECORDER_MAX 8000000u
/* The limit of their values, the same as for a table of a profile. */
#define MARKER_RECORDER_VALUES_MAX LIMIT_PROFILE_ENTITIES
/* Processes with the library at a time. */
#define MARKER_RECORDER_FILES_MAX 4096u

struct marker_recorder_stats {
	uint64_t markers, rows;
	uint64_t processes; /* with the library */
	uint64_t lost;	    /* in full rings, as reported by the programs */
	uint64_t left_out;  /* dropped beyond the limit */
	uint64_t malformed; /* malformed records */
	uint64_t refused;   /* rejected files: unsupported version, damaged, or too many */
	uint64_t busy;	    /* processes whose markers another recorder collects */
	uint64_t waiting;   /* now: markers and rows for the next marker_recorder_take() */
	uint64_t yielded;   /* now, with marker_recorder_continuous(): processes whose markers another recorder collects */
	bool is_full; /* now, with marker_recorder_continuous(): call marker_recorder_take() soon, or markers are dropped */
};

struct marker_recorder;
/* all: of every process; else of those of marker_recorder_follow() and their children. */
int marker_recorder_new(bool all, struct marker_recorder **ret, struct error *err);
/* For the environment variable MARKER_RECORDER_ENVIRONMENT of a command that is to be recorded; lives as long as the recorder.
 * "" = not to be had. */
#define MARKER_RECORDER_ENVIRONMENT "WICKMARK_RECORDER"
const char *marker_recorder_name(const struct marker_recorder *recorder);
/* Before marker_recorder_start(). max: at least 1. A marker takes 64 B in memory and 16 for each value. */
void marker_recorder_limit(struct marker_recorder *recorder, size_t max);
/* Before marker_recorder_start(): collect continuously. Then it yields processes to other recorders, and resumes when they have
 * ended. To save CPU, it discovers processes and drains rings less often. It keeps at most MARKER_RECORDER_CONTINUOUS_MAX
 * markers, some 30 MB, until marker_recorder_take(). Spans of wickmark_long_begin() are recorded only when they end, so that
 * each appears once. When another recorder takes over, a few markers may be in both recordings. */
#define MARKER_RECORDER_CONTINUOUS_MAX 200000u
void marker_recorder_continuous(struct marker_recorder *recorder);
/* Before marker_recorder_start(). -E2BIG beyond 1024. */
int marker_recorder_follow(struct marker_recorder *recorder, pid_t pid, struct error *err);
/* Before marker_recorder_start(): the recording starts at this wall-clock time instead of at marker_recorder_start(). Earlier
 * markers are dropped. Call marker_recorder_start() a little before that time, so that the first markers are not missed. */
void marker_recorder_begin_at(struct marker_recorder *recorder, int64_t begin_ns);
int marker_recorder_start(struct marker_recorder *recorder, struct error *err);
/* Returns everything collected since the start or the last marker_recorder_take() as a separate profile; collecting continues.
 * From any one thread, between marker_recorder_start() and marker_recorder_stop(). Each profile is self-contained: names,
 * threads, schemas. A span is in the profile of its end, with its true start. Open spans (wickmark_long_begin) cover the time
 * since the last marker_recorder_take() in each profile, and are complete in the profile of their end. An asynchronous span
 * across two profiles is a START in one and an END in the other. MARKER_RECORDER_MAX applies to each profile. */
int marker_recorder_take(struct marker_recorder *recorder, struct profile **ret, struct error *err);
/* Disables the markers, drains the rest, and merges them with the profile. *profile may be another one afterwards, because the
 * smaller of the two is merged into the larger. Times of its markers are on the same clock as time_now_ns(). Once. */
int marker_recorder_stop(struct marker_recorder *recorder, struct profile **profile, struct error *err);
/* Of all since the start. Any time. */
void marker_recorder_get_stats(struct marker_recorder *recorder, struct marker_recorder_stats *ret);
struct marker_recorder *marker_recorder_free(struct marker_recorder *recorder); /* NULL allowed; stops; returns NULL */
DEFINE_CLEANUP_POINTER(marker_recorder_free, struct marker_recorder);

#endif
