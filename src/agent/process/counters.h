/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: what the recorded processes use, read at short intervals, as counters on the time line of their samples
 * (profile/markers.h): CPU use, context switches and memory of each process, and the frequency of the CPUs where /sys has it.
 *
 * The readings are those of process_stats.h, which see every thread in one go; without privileges they are made of
 * /proc/PID/stat and /proc/PID/task/TID/status, with CPU time in units of 10 ms.
 */
#ifndef WICK_AGENT_PROCESS_COUNTERS_H
#define WICK_AGENT_PROCESS_COUNTERS_H

#include "agent/process/process_stats.h"
#include "profile/markers.h"

#define COUNTERS_PROCESSES_MAX 256u /* at a time: one that is gone makes room for another */

struct counter_reading {  /* of one process in one interval */
	pid_t pid;	  /* 0 = of the machine: value is its mean CPU frequency in Hz */
	int64_t time_ns;  /* CLOCK_MONOTONIC */
	double cpu_share; /* 1 = one CPU */
	double switches, resident_bytes, hz;
};
struct counters {
	struct process_stats *stats;
	bool by_proc;
	int64_t interval_ns, next_ns; /* CLOCK_MONOTONIC */
	pid_t pids[COUNTERS_PROCESSES_MAX];
	int64_t followed_ns[COUNTERS_PROCESSES_MAX]; /* since when */
	size_t pid_count;
	uint64_t left_out; /* processes */
	/* Those that are not in a profile yet. */
	struct counter_reading *pending;
	size_t pending_count, pending_capacity;
};
/* by_proc: without privileges. Errors of process_stats_new(). */
int counters_new(bool cgroup_v1, bool by_proc, int64_t interval_ns, struct counters **ret, struct error *err);
struct counters *counters_free(struct counters *counters); /* NULL allowed */
DEFINE_CLEANUP_POINTER(counters_free, struct counters);
/* This process is one of the recorded. */
void counters_follow(struct counters *counters, pid_t pid);
/* Takes a reading, and says when the next one is due: later than asked for where readings are dear. 0 or a negative errno. */
int counters_read(struct counters *counters, struct error *err);
/* Moves what was read into the profile. wall_clock_ns: what wall-clock time is ahead of CLOCK_MONOTONIC. */
int counters_move(struct counters *counters, int64_t wall_clock_ns, struct profile *profile, struct error *err);

#endif
