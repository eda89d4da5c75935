/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/agent: what an agent is made of. */
#ifndef WICK_AGENT_AGENT_INT_H
#define WICK_AGENT_AGENT_INT_H

#include <stdarg.h>
#include <stdatomic.h>

#include "agent/agent.h"
#include "agent/chains.h"
#include "agent/cost.h"
#include "agent/expected.h"
#include "agent/process/binary.h"
#include "agent/process/cgroups.h"
#include "agent/process/counters.h"
#include "agent/process/lifetimes.h"
#include "agent/process/process.h"
#include "agent/process/process_stats.h"
#include "agent/profile_builder.h"
#include "agent/sample/cpus.h"
#include "agent/sample/events.h"
#include "agent/sample/governor.h"
#include "agent/sample/off_cpu.h"
#include "agent/sample/sampler.h"
#include "agent/unprivileged.h"
#include "agent/unwinder.h"
#include "base/thread.h"

/* The next record of one ring, in drain.c's heap. */
struct drain_cursor {
	uint64_t time_ns;
	uint32_t cpu;
	uint32_t is_sample; /* 0 = process event; events come first at equal times */
};

struct agent {
	struct agent_sink sink;
	struct labels labels;
	unsigned frequency_hz; /* as asked for */
	int64_t flush_interval_ns;

	struct sampler *sampler;		   /* NULL without privileges */
	struct unprivileged_sampler *unprivileged; /* NULL with them */
	pid_t waits_for_exec;			   /* 0 = none */
	struct unwinder *unwinder;
	struct events *events;
	struct cpu_set online;
	struct binaries binaries;
	struct process_table processes;
	struct chains chains;
	struct cgroups cgroups;
	struct profile_builder builder;
	struct profile_builder off_cpu_builder; /* of off-CPU time, if it has a profile of its own */
	struct process_stats *process_stats;	/* NULL = not wanted, or not to be had */
	char *const *followed_cgroups;		/* of struct agent_options */
	size_t followed_cgroup_count;
	uint64_t cgroups_left_out;   /* of those below them, at most at a time */
	struct counters *counters;   /* NULL = as process_stats */
	struct lifetimes *lifetimes; /* NULL = not wanted */
	struct off_cpu off_cpu;
	uint32_t wait_chance;
	int64_t wait_least_ns;
	bool off_cpu_is_separate;
	bool run_once; /* as in struct agent_options */
	unsigned off_cpu_column;
	struct governor governor;
	double budget;		/* of struct agent_options */
	struct cost_share cost; /* everything */
	struct cost_meter meter;

	struct drain_cursor *cursors; /* 2 * possible CPUs */
	int64_t drained_ns;	      /* everything up to this time is in the profile */
	int64_t woken_ns;	      /* the last drain for a wake-up */
	int64_t look_ns;	      /* when new processes are to be looked at (expected.h); 0 = there are none */
	int64_t look_least_ns;	      /* not before */
	int64_t interval_start_ns;    /* CLOCK_MONOTONIC */
	int64_t reaped_ns;	      /* processes that ended before were forgotten */
	uint64_t flush_number, jitter;
	uint64_t events_lost;
	bool is_warming; /* samples do not count yet; what was counted meanwhile: */
	uint64_t warming_samples, warming_lost;

	int epoll_fd, stop_fd;
	atomic_bool stopping;

	pthread_mutex_t stats_lock;
	struct agent_stats stats;
};

static inline unsigned agent_sample_cpus(const struct agent *agent)
{
	return agent->sampler ? sampler_cpu_limit(agent->sampler) : 0;
}

/* drain.c: moves everything up to a time from the rings to the profile, in order of time. Positive if the profile became full
 * before. */
int agent_drain(struct agent *agent, int64_t until_ns, struct error *err);
/* New processes are to be looked at then, or when that may be done again: another drain before does as well. */
void agent_plan_look(struct agent *agent, int64_t time_ns);
/* Counts waits that have not ended up to a time, and forgets them. */
int agent_close_off_cpu(struct agent *agent, int64_t until_ns, struct error *err);
/* How long until the next flush. The first ones come early, so that somebody who waits sees something; later ones at odd times,
 * so that a fleet does not send all at once. */
int64_t agent_next_interval_ns(struct agent *agent);
/* doctor.c: one row, with the printf() arguments of `found`. */
void doctor_fill(struct doctor_row *row, enum doctor_verdict verdict, const char *what, const char *fix, const char *found,
		 va_list arguments) __attribute__((format(printf, 5, 0)));

#endif
