/* SPDX-License-Identifier: Apache-2.0 */
/* Private to reading: the threads of a query, and what several of them do of one block. The essay is in read_parts.c. */
#ifndef WICK_STORE_READ_READ_PARTS_H
#define WICK_STORE_READ_READ_PARTS_H

#include "store/read/read_int.h"

/* A query begins, and ends: threads are shared out among those that run. */
unsigned read_threads_cpus(void); /* CPUs that this thread may run on */
void read_threads_enter(void);
void read_threads_leave(void);
/* Threads of a query whatever the machine has; 0 = as many as there are CPUs for. Tests set it. */
extern unsigned read_threads_max;
extern _Atomic uint64_t read_parts_joined; /* how often a thread joined another one's block; for tests */
/* Threads that a query may have beside the one that asked. */
unsigned read_helpers_allowed(unsigned cpus);

/* The query's lock is held by the callers of these. */
/* Starts threads until `wanted` help, if so many are allowed; they run read_help(). */
void read_start_helpers(struct reading *r, size_t wanted);
bool read_helper_must_leave(const struct reading *r);
/* A block that can use another thread, which has joined it then and calls read_join_share() without the lock. NULL = none. */
struct read_share *read_find_share(struct reading *r);

void read_join_share(struct read_share *share);
void *read_help(void *reading); /* read.c */

/* Adds the rows of those segments of the plan that are of rollups, or those that are not, to b->sums. */
int read_segments(struct block_source *b, const struct plan *plan, bool by_rollup);

#endif
