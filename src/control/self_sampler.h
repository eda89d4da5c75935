/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of this process's own CPU time, without privileges: a timer on the CPU clock of each thread, whose signal (SIGPROF)
 * walks the thread's stack by its frame pointers.
 *
 * Only while somebody asks: then there are timers and a buffer, before and after nothing but a signal handler that does
 * nothing. The handler takes no lock and allocates nothing. It claims a slot of the buffer by one atomic exchange, and counts
 * what finds none. Memory is only read in pages that the kernel says are readable, upwards from the stack pointer: what code
 * without frame pointers has in their register ends the stack, and does no harm.
 *
 * Rejected: perf events, which take privileges on Debian (kernel.perf_event_paranoid 3); setitimer(), which gives all time to
 * whichever thread the signal happens to find; libgcc's _Unwind_Backtrace() in the handler, which ends the process where CFI is
 * wrong. Instead the top of the stack is copied, and walked by CFI afterwards (self_walk.h).
 */
#ifndef WICK_CONTROL_SELF_SAMPLER_H
#define WICK_CONTROL_SELF_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define SELF_FRAMES_MAX 128u
#define SELF_HZ		100u

#define SELF_STACK_BYTES 20480u /* libuv takes 12 KiB for its events */

struct self_frame {
	uint64_t at, caller; /* where the return address stands, and the address itself */
};
struct self_sample {
	pid_t tid;
	uint32_t periods; /* that it stands for */
	uint64_t pc, sp, fp;
	uint32_t frame_count, stack_bytes;
	struct self_frame frames[SELF_FRAMES_MAX]; /* by frame pointers */
	uint8_t stack[SELF_STACK_BYTES];	   /* from sp on */
};

/* -EBUSY: somebody samples already; -ENOMEM; what else the kernel says. */
int self_sampler_start(struct error *err);
/* Threads that are new since. To be called some times a second. -ENOMEM. */
int self_sampler_follow(struct error *err);
/* The next sample; false if there is none. */
bool self_sampler_take(struct self_sample *ret);
/* What came afterwards is lost; returns how many samples found no room. Start must have succeeded. */
uint64_t self_sampler_stop(void);

#endif
