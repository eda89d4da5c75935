/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: what processes used since the last flush, as a profile named process_stats (profile/type.h).
 *
 * The counters come from two programs of the kernel side (bpf/process_stats.bpf.c): one lists all threads when asked, the other
 * keeps the totals of processes that end. A process that was there at the last reading has used the difference; one that
 * started since then has used all that it has.
 */
#ifndef WICK_AGENT_PROCESS_PROCESS_STATS_H
#define WICK_AGENT_PROCESS_PROCESS_STATS_H

#include "agent/process/process.h"
#include "agent/process/sample_labels.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "bpf/process_stats.h"
#include "profile/type.h"

#define PROCESS_STATS_KNOWN_MAX 65536u /* processes; further ones are left out, and counted */
#define PROCESS_STATS_ROWS_MAX	512u   /* a flush: those with the most CPU time */

/* The totals of one process. */
struct process_totals {
	uint64_t started_ns, cgroup;
	int64_t values[PROCESS_STATS_COLUMNS];
	pid_t pid;
	bool has_leader; /* its first thread was listed, or it has ended */
	bool has_ended;
	bool is_gone; /* it was in the last reading, but neither in this one nor among those that have ended: that comes next */
};
/* One reading of all processes. */
struct process_reading {
	struct process_totals *items;
	size_t count, capacity;
	struct map64 by_pid; /* -> index */
	int64_t time_ns;     /* CLOCK_MONOTONIC */
};
struct process_stats {
	struct process_reading readings[2];
	unsigned now;			     /* which of them is the last one */
	int64_t older_time_ns;		     /* of the reading before these two */
	struct process_stats_source *source; /* NULL in tests */
	uint64_t ends_lost;		     /* by the kernel side, as of the last reading */
	/* Rows that there should have been: processes for which there was no room here or in the kernel side's ring, and those
	 * that the process table did not know any more. */
	uint64_t left_out;
};

/* Loads the programs and takes the first reading. Needs the privileges of the sampling program. */
int process_stats_new(bool cgroup_v1, struct process_stats **ret, struct error *err);
struct process_stats *process_stats_free(struct process_stats *stats); /* NULL allowed */
DEFINE_CLEANUP_POINTER(process_stats_free, struct process_stats);
/* Takes a reading and makes the profile of the time since the one before; NULL if nobody used CPU time. `labels` is a profile
 * builder's: nothing but what it uses is taken from it. Times are those of the interval, wall clock. */
int process_stats_take(struct process_stats *stats, const struct process_table *table, const struct sample_labels *labels,
		       int64_t start_ns, int64_t duration_ns, struct profile **ret, struct error *err);

/* A reading alone, and what it says: totals of a process now and at the reading before, NULL where there are none, of the same
 * owner of the pid. Returns the time in between. */
int process_stats_read(struct process_stats *stats, struct error *err);
int64_t process_stats_find(const struct process_stats *stats, pid_t pid, const struct process_totals **ret_now,
			   const struct process_totals **ret_before);
/* One that reads nothing by itself: records are added. NULL without memory. */
struct process_stats *process_stats_new_empty(void);

/* The parts of process_stats_take(), for tests. A reading is begun, gets records, and is compared with the one before. */
void process_stats_begin(struct process_stats *stats, int64_t time_ns);
int process_stats_add(struct process_stats *stats, const struct stats_record *record); /* 0 or -ENOMEM */
int process_stats_make(struct process_stats *stats, const struct process_table *table, const struct sample_labels *labels,
		       int64_t start_ns, int64_t duration_ns, struct profile **ret, struct error *err);

#endif
