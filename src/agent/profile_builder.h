/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: the profile that grows between two flushes.
 *
 * A sample is resolved against the process as it is when the sample's turn comes, and added to a struct profile at once.
 * Samples that agree in process, thread name, stacks and cgroup are resolved once and counted.
 */
#ifndef WICK_AGENT_PROFILE_BUILDER_H
#define WICK_AGENT_PROFILE_BUILDER_H

#include "agent/agent.h"
#include "agent/chains.h"
#include "agent/process/binary.h"
#include "agent/process/cgroups.h"
#include "agent/process/process.h"
#include "agent/process/sample_labels.h"
#include "agent/runtime/runtimes.h"

#define PROFILE_BUILDER_SAMPLES_MAX 262144u /* distinct ones; then the profile is full and should be flushed */

struct sample_key {
	uint64_t user_leaf, user_chain, kernel_leaf, kernel_chain, cgroup;
	uint32_t process, version;
	char comm[16];
	uint16_t flags; /* of the sample */
	uint8_t result, what;
	uint32_t padding2; /* 0 */
};
struct sample_state {
	struct sample_key key;
	uint32_t losses; /* bit by enum agent_loss, counted again with each sample */
};

/* Frames that stand for something else than code. */
enum profile_builder_marker {
	PROFILE_BUILDER_CUT,	/* callers are missing */
	PROFILE_BUILDER_SIGNAL, /* what a signal handler returns to */
	PROFILE_BUILDER_GAP,	/* a caller may be missing here */
	PROFILE_BUILDER_MARKERS,
};

struct profile_builder {
	/* What it uses; set once. */
	const struct agent_sink *sink;
	struct binaries *binaries;
	struct chains *chains;
	struct cgroups *cgroups;
	struct runtimes *runtimes; /* the unwinder's */
	const struct labels *labels;
	struct relabel *relabel; /* NULL = none */
	char host[65], release[65];
	const char *types[2]; /* of values, all in ns: "cpu" ...; the first one is also the period's. The second may be NULL */
	int64_t period_ns;
	bool is_timed;	       /* samples are not counted together, and have times */
	bool keeps_empty;      /* since window_open() */
	bool cpu_is_second;    /* what was run counts in both columns */
	int64_t wall_clock_ns; /* - CLOCK_MONOTONIC; set once, so that times are in order */

	struct profile *profile;     /* NULL until the first sample */
	struct sample_state *states; /* by sample */
	size_t state_capacity;
	struct sample_labels sample_labels;
	struct thread_names thread_names;
	struct index32 index;				    /* of states */
	struct map64 kernel_locations;			    /* address -> location */
	uint32_t marker_locations[PROFILE_BUILDER_MARKERS]; /* 0 = not in the profile yet */
	uint64_t relabel_dropped;			    /* samples, since the start of the agent */
	uint64_t sample_ns;				    /* of the sample that is being added */
	uint64_t losses[AGENT_LOSS_COUNT];		    /* since the start of the agent */
};

void profile_builder_init(struct profile_builder *builder); /* of what it uses, which stands in it already; else zeroes */
void profile_builder_release(struct profile_builder *builder);
/* value: what the sample stands for, in ns of types[column]. */
int profile_builder_add(struct profile_builder *builder, struct process *process, const struct abi_sample *sample,
			unsigned column, int64_t value, struct error *err);
static inline bool profile_builder_is_full(const struct profile_builder *builder)
{
	return builder->profile && builder->profile->sample_count >= PROFILE_BUILDER_SAMPLES_MAX;
}
/* Starts a profile, if there is none, to put other things than samples into. It is handed over even if there are none. */
int profile_builder_open(struct profile_builder *builder, struct error *err);
/* Hands over the profile, NULL if there were no samples, and starts a new one. start_ns: wall clock. */
struct profile *profile_builder_take(struct profile_builder *builder, int64_t start_ns, int64_t duration_ns);

#endif
