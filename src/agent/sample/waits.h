/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: threads that wait, from the record with their stacks (ABI_WAIT_BEGINS) to the one that says how long it
 * was (ABI_WAIT_ENDS). See bpf/offcpu.h.
 */
#ifndef WICK_AGENT_SAMPLE_WAITS_H
#define WICK_AGENT_SAMPLE_WAITS_H

#include <sys/types.h>

#include "agent/chains.h"
#include "base/map.h"
#include "bpf/abi.h"

#define WAITS_MAX 65536u /* threads at a time */

struct waits {
	struct map64 by_tid; /* -> index into begins */
	struct abi_sample *begins;
	size_t count, capacity;
	uint64_t dropped; /* for lack of room */
};

void waits_init(struct waits *waits);
void waits_release(struct waits *waits);
/* Takes the place of an older one of the thread. 0 or -ENOMEM; beyond WAITS_MAX it is dropped and counted. */
int waits_begin(struct waits *waits, const struct abi_sample *sample);
/* Takes the thread's wait out; false if there is none. */
bool waits_end(struct waits *waits, pid_t tid, struct abi_sample *ret_begin);
/* What a wait of `ns` stands for: waits that were not looked at are made up for by those that were. */
int64_t waits_value(const struct abi_sample *begin, uint64_t ns);
/* Before an epoch of chains ends: moves those that are still needed into the current one. 0 or -ENOMEM. */
int waits_keep_chains(const struct waits *waits, struct chains *chains);

/* The threads of a process that sleep now: calls back for each with its name. 0, or what `found` returned if not 0. */
int waits_find_sleepers(pid_t pid, int (*found)(void *context, pid_t tid, const char *comm), void *context);

#endif
