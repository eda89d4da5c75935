/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault injection: make the n-th allocation or I/O call fail.
 *
 * A test arms a kind with n and runs its body; the n-th guarded call from then on fails once (or, with FAULT_STICKY, all from
 * then on). The test repeats with n = 1, 2, 3 ... until fault_disarm() reports that the body finished without reaching the
 * fault. Also driven from outside by the environment variable WICK_FAULT="KIND:N[:sticky][:exit]" (kind: alloc, read, write,
 * sync, rename, open), read once at start by main(), where "exit" ends the process at once (as a crash would) instead of
 * failing the call. Process-wide, atomic counters; one predictable branch when not armed.
 */
#ifndef WICK_BASE_FAULT_H
#define WICK_BASE_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum fault_kind {
	FAULT_ALLOC,
	FAULT_OPEN,
	FAULT_READ,
	FAULT_WRITE,
	FAULT_SYNC,
	FAULT_RENAME,
	FAULT_KIND_COUNT,
};
enum fault_flags {
	FAULT_STICKY = 1, /* every later call of the kind fails too */
	FAULT_EXIT = 2,	  /* _exit(137) at the call */
};

extern atomic_bool fault_armed_any;
void fault_arm(enum fault_kind kind, uint64_t nth, unsigned flags); /* nth counts from 1 */
bool fault_disarm(enum fault_kind kind);			    /* true if the fault was reached */
bool fault_reached_slow(enum fault_kind kind);
/* Called by the guarded function: true means "fail now". */
static inline bool fault_reached(enum fault_kind kind)
{
	return __builtin_expect(atomic_load_explicit(&fault_armed_any, memory_order_relaxed), 0) && fault_reached_slow(kind);
}
int fault_arm_from_environment(struct error *err); /* -EINVAL when WICK_FAULT is malformed */

#endif
