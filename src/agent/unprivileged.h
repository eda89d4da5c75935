/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: sampling without privileges. Perf events of one's own processes take the place of the BPF programs:
 * they see user space only, and no off-CPU time. A sample is the registers and a copy of the stack (events.h), which becomes
 * what the kernel side leaves behind when it cannot walk at all (struct abi_tail): the unwinder goes on from the leaf.
 */
#ifndef WICK_AGENT_UNPRIVILEGED_H
#define WICK_AGENT_UNPRIVILEGED_H

#include "agent/sample/events.h"
#include "base/intern.h"
#include "base/map.h"
#include "bpf/abi.h"

struct unprivileged_sampler {
	struct map64 names; /* tid -> string: names of threads, which samples do not carry */
	struct intern strings;
	struct abi_tail tail;
	uint64_t samples, lost;
	uint64_t refused; /* processes that may not be sampled */
};
int unprivileged_sampler_new(struct unprivileged_sampler **ret); /* 0 or -ENOMEM */
struct unprivileged_sampler *unprivileged_sampler_free(struct unprivileged_sampler *sampler);
/* Threads and their names, from an event that is not a sample. */
void unprivileged_sampler_note(struct unprivileged_sampler *sampler, const struct event *event);
/* Converts a sample that stands for so long into the record that the kernel side would have made. *ret has a tail,
 * sampler->tail, if ABI_SAMPLE_TAIL. */
void unprivileged_sampler_convert(struct unprivileged_sampler *sampler, const struct event *event, uint64_t value_ns,
				  struct abi_sample *ret);

#endif
