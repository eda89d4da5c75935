/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: threads that wait, from the record with their stacks (ABI_WAIT_BEGINS) to the one that says how long it
 * was (ABI_WAIT_ENDS). See bpf/offcpu.h.
 */
#ifndef WICK_AGENT_SAMPLE_OFF_CPU_H
#define WICK_AGENT_SAMPLE_OFF_CPU_H

#include <sys/types.h>

#include "agent/chains.h"
#include "base/map.h"
#include "bpf/abi.h"

#define OFF_CPU_MAX 65536u /* threads at a time */

struct off_cpu {	     /* begins as zeroes */
	struct map64 by_tid; /* -> index into begins */
	struct abi_sample *begins;
	size_t count, capacity;
	uint64_t dropped; /* for lack of room */
};

void off_cpu_release(struct off_cpu *off_cpu);
/* Takes the place of an older one of the thread. 0 or -ENOMEM; beyond OFF_CPU_MAX it is dropped and counted. */
int off_cpu_begin(struct off_cpu *off_cpu, const struct abi_sample *sample);
/* Takes the thread's wait out; false if there is none. */
bool off_cpu_end(struct off_cpu *off_cpu, pid_t tid, struct abi_sample *ret_begin);
/* What a wait of `ns` stands for: waits that were not looked at are made up for by those that were. */
int64_t off_cpu_value(const struct abi_sample *begin, uint64_t ns);
/* Before an epoch of chains ends: moves those that are still needed into the current one. 0 or -ENOMEM. */
int off_cpu_keep_chains(const struct off_cpu *off_cpu, struct chains *chains);

/* The threads of a process that sleep now: calls back for each with its name. 0, or what `found` returned if not 0. */
int off_cpu_find_sleepers(pid_t pid, int (*found)(void *context, pid_t tid, const char *comm), void *context);

#endif
