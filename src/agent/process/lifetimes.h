/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: from when to when processes and threads ran which program, from the events that the process table
 * follows, for recordings (profile/markers.h). Threads that were there before the first event have no start, those that are
 * there at the end no end.
 */
#ifndef WICK_AGENT_PROCESS_LIFETIMES_H
#define WICK_AGENT_PROCESS_LIFETIMES_H

#include "agent/process/process.h"
#include "base/cleanup.h"
#include "profile/profile.h"

struct lifetimes;
/* follows_all: else only processes that are named, and what they fork. */
int lifetimes_new(bool follows_all, struct lifetimes **ret, struct error *err);
struct lifetimes *lifetimes_free(struct lifetimes *lifetimes);
DEFINE_CLEANUP_POINTER(lifetimes_free, struct lifetimes);
int lifetimes_follow(struct lifetimes *lifetimes, pid_t pid, struct error *err);
/* Before and after process_table_apply(): an exec takes the name of what there was. */
int lifetimes_before(struct lifetimes *lifetimes, const struct process_table *table, const struct event *event,
		     struct error *err);
int lifetimes_after(struct lifetimes *lifetimes, const struct process_table *table, const struct event *event,
		    struct error *err);
/* Whether there is something to move. is_last: also what was reported already and goes on, for the first report may have been
 * dropped.
 */
bool lifetimes_are_pending(const struct lifetimes *lifetimes, bool is_last);
int lifetimes_move(struct lifetimes *lifetimes, const struct process_table *table, bool is_last, int64_t wall_clock_ns,
		   struct profile *profile, struct error *err);

#endif
