/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: started with a name (seen by top and by wick itself), all signals blocked but those of a fault (SIGSEGV ...), so
 * that the main thread handles them. Locks are plain pthread ones; THREAD_LOCK_SCOPE() holds one until the block is left.
 *
 * What threads share without a lock has an atomic type (stdatomic.h); of flags that cancel, base/cancel.h. Plain types and the
 * compiler's __atomic builtins are for memory whose layout others share (the kernel, BPF programs, client/wickmark_abi.h). */
#ifndef WICK_BASE_THREAD_H
#define WICK_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

/* name: at most 15 bytes. */
int thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *context, struct error *err);

/* Gives the calling thread a lower nice value (setpriority(2); -20 to 19), if that is permitted and it has none as low: it is
 * scheduled before others. Threads that it starts from then on have the value that it had before. */
void thread_lead(int nice);

/* Takes a lock, and lets it go wherever the block is left: after the value of a `return` is there. */
#define THREAD_LOCK_SCOPE(lock)                                                                                                \
	_cleanup_(thread_unlockp) __attribute__((unused)) pthread_mutex_t *scope_lock_ = thread_lock(lock)
static inline pthread_mutex_t *thread_lock(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	return lock;
}
static inline void thread_unlockp(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}

/* A condition that is waited for by the monotonic clock: setting the wall clock makes no wait longer or shorter. */
void thread_condition_init(pthread_cond_t *condition);
/* Waits with the lock held; false once it is `until_ns` by time_monotonic_ns(). May return true without a reason, too. */
bool thread_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns);

#endif
