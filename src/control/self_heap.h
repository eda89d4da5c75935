/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap profile of this process, of what heap_sampler.h counts, as Go's: alloc_objects, alloc_space, inuse_objects and
 * inuse_space by stack, since the start or within some seconds. Frames of the functions that everybody allocates with
 * (base/alloc.h) are left out: the leaf is who asked for memory.
 */
#ifndef WICK_CONTROL_SELF_HEAP_H
#define WICK_CONTROL_SELF_HEAP_H

#include <stdatomic.h>

#include "base/buffer.h"
#include "control/heap_sampler.h"
#include "symbol/worker.h"

#define SELF_HEAP_NOT_BUILT_IN "this program was built with AddressSanitizer, which has its own allocator."

/* What tools show first. */
enum self_heap_default { SELF_HEAP_IN_USE, SELF_HEAP_ALLOCATED };

/* A pprof, gzipped, into out. duration_ns > 0: what changes within that time; values may be negative. worker: who reads
 * symbols; NULL = this process. -ENOTSUP: there is no sampler, or it has not been started; -EBUSY: another change is being
 * measured; -ECANCELED; -ENOMEM. */
int self_heap_make(enum self_heap_default shown, int64_t duration_ns, const atomic_bool *cancel,
		   const struct symbol_worker_options *worker, struct buffer *out, struct error *err);

#endif
