/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: the labels of samples.
 *
 * All that a sample's labels depend on is its process, the names of process and thread, the executable and the cgroup, and the
 * thread itself where that is asked for; so they are put together, and relabelled, once for each such combination in a profile,
 * however many samples there are.
 *
 * Labels that are the same for all samples are the profile's resource, unless a rule of relabelling may touch them: then each
 * sample carries what the rules made of them.
 */
#ifndef WICK_AGENT_PROCESS_SAMPLE_LABELS_H
#define WICK_AGENT_PROCESS_SAMPLE_LABELS_H

#include "agent/process/binary.h"
#include "agent/process/cgroups.h"
#include "agent/process/process.h"
#include "agent/process/thread_names.h"
#include "base/map.h"
#include "bpf/abi.h"
#include "profile/labels.h"
#include "profile/profile.h"
#include "profile/relabel.h"

struct sample_labels_key {
	uint64_t cgroup;
	uint32_t process, executable;
	char comm[16], thread[16];
	uint32_t tid, padding; /* 0 unless by_thread, or the thread has a name of its own */
};
struct sample_labels_entry {
	struct sample_labels_key key;
	uint32_t set; /* of the profile; SAMPLE_LABELS_DROPPED */
};
#define SAMPLE_LABELS_DROPPED UINT32_MAX
struct sample_labels {
	/* What it uses; the profile builder's or the agent's. */
	struct binaries *binaries;
	struct cgroups *cgroups;
	const char *host, *release;
	const struct labels *given; /* NULL = none */
	struct relabel *relabel;    /* NULL = none */
	struct thread_names *names; /* NULL = the kernel's only */
	bool by_thread;		    /* also thread.id */

	struct sample_labels_entry *entries;
	size_t count, capacity;
	struct index32 index;
};

void sample_labels_release(struct sample_labels *labels);
/* Call when the profile is handed over: the sets are numbers of the profile. */
void sample_labels_clear(struct sample_labels *labels);
/* Sets a new profile's resource. */
int sample_labels_add_resource(struct sample_labels *labels, struct profile *profile, struct error *err);
/* The label set of a sample in the builder's profile. Positive: rules say that the sample is to be dropped. */
int sample_labels_add(struct sample_labels *labels, struct profile *profile, const struct process *process,
		      const struct abi_sample *sample, uint32_t *ret_set, struct error *err);

#endif
