/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: the user half of unwinding. Goes on with walks that the kernel side could not finish for lack of
 * knowledge (struct abi_tail), and sends it what it lacked: mappings of processes, tables of binaries.
 *
 * Only processes that were sampled, what they fork, and those that a runtime is expected in (expected.h) are sent to the kernel
 * side; only tables that a walk needed are loaded. What idle processes map costs nothing.
 */
#ifndef WICK_AGENT_UNWINDER_H
#define WICK_AGENT_UNWINDER_H

#include "agent/chains.h"
#include "agent/process/process.h"
#include "agent/runtime/runtimes.h"
#include "agent/sample/sampler.h"
#include "agent/unwind/unwind_tables.h"

struct unwinder;
/* sampler (NULL = there is no kernel side, all walks are done here), binaries and processes must outlive it. cache_directory
 * may be NULL; a cache that cannot be used is done without. */
int unwinder_new(struct sampler *sampler, struct binaries *binaries, struct process_table *processes,
		 const char *cache_directory, struct unwinder **ret, struct error *err);
struct unwinder *unwinder_free(struct unwinder *unwinder);
DEFINE_CLEANUP_POINTER(unwinder_free, struct unwinder);

/*
 * Completes a sample of `process`, which is as it was at the time of the sample: goes on where the tail begins (NULL = there is
 * none), finds out whether the kernel side walked by mappings that were out of date, and counts the result. May change
 * sample->result, ->flags and ->user_chain; longer chains are added to `chains`. 0 or -ENOMEM.
 */
int unwinder_complete(struct unwinder *unwinder, struct process *process, struct abi_sample *sample,
		      const struct abi_tail *tail, struct chains *chains);
/* Walks from a tail alone, for tests: fills ret_frames (UNWIND_FRAMES_MAX), which hold tail->depth frames already. */
enum unwind_result unwinder_walk(struct unwinder *unwinder, struct process *process, const struct abi_tail *tail,
				 uint64_t *ret_frames, size_t *ret_count);
/* Its runtimes, which the profile takes names from. */
struct runtimes *unwinder_runtimes(struct unwinder *unwinder);
/* From here on results of walks are not counted, and after the time (CLOCK_MONOTONIC) no table is loaded; 0 ends that. */
void unwinder_warm_up(struct unwinder *unwinder, int64_t until_ns);
/* Tells the kernel side of changes since the last call. After each drain. */
void unwinder_update(struct unwinder *unwinder);
/* When a process should be looked at again (expected.h), although nothing happens; 0 = none. */
int64_t unwinder_next_look_ns(const struct unwinder *unwinder);
/* Once a flush: memory that was released settles, windows into the heap are closed. */
void unwinder_tick(struct unwinder *unwinder);

/* All but the figures of the sampling program. */
void unwinder_get_stats(const struct unwinder *unwinder, struct agent_unwind_stats *ret);

#endif
