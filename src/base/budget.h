/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one piece of work may use: bytes of memory, and time until it is cancelled or late.
 *
 * A budget belongs to a piece of work (a query), and threads work on it: between budget_enter() and budget_leave() whatever the
 * thread takes from base/alloc.h and gives back there is charged to it. What passes the limit is refused as if memory were
 * short, so every function that survives a failed allocation (and tests fail the n-th of each) keeps to the budget without
 * knowing of it. A work that was cancelled, or is late, is refused whatever it asks for, which ends all that allocates; loops
 * that do not, ask budget_poll(). Who began the work reads from `end` why it failed.
 *
 * Several budgets may share a pool, the limit of all of them together. They take from it a little ahead, in pieces of
 * BUDGET_PIECE bytes, so that most allocations touch only their own counter.
 *
 * What outlives the work (caches, tables that others read too) must neither be charged to it nor fail with it: such code runs
 * in BUDGET_EXEMPT_SCOPE().
 *
 * Bytes are those that the allocator has for a block, by malloc_usable_size(). Not seen: what libraries allocate by themselves,
 * mmap(), the stacks of threads.
 *
 * Rejected: an object that is handed to whatever allocates. The tree, its tables, encoders of a dozen formats, buffers, maps
 * and pools of strings would each carry it along, what was forgotten would be unlimited, and the sums would be estimates.
 */
#ifndef WICK_BASE_BUDGET_H
#define WICK_BASE_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUDGET_PIECE ((size_t)1024 * 1024)

struct budget_pool {
	size_t max_bytes;   /* 0 = no limit; set before it is used */
	atomic_size_t used; /* bytes that budgets have taken, whole pieces */
};

/* Why work ends: the first reason. */
enum budget_end {
	BUDGET_OPEN,	   /* it does not */
	BUDGET_CANCELLED,  /* nobody waits for it any more */
	BUDGET_LATE,	   /* its deadline passed */
	BUDGET_SPENT,	   /* an allocation would have passed max_bytes */
	BUDGET_POOL_SPENT, /* or what the pool has left */
};

struct budget {
	struct budget_pool *pool;  /* NULL = none; lives longer */
	atomic_size_t max_bytes;   /* 0 = no limit */
	const atomic_bool *cancel; /* NULL = never */
	int64_t deadline_ns;	   /* monotonic; 0 = none; set before other threads enter */
	_Atomic int64_t used;	   /* bytes; below 0 if more was given back than taken: what was there before */
	_Atomic int64_t peak;
	atomic_size_t taken; /* of the pool */
	_Atomic enum budget_end end;
};
/* {.pool = ..., .max_bytes = ...} is a budget to begin with. Gives back to the pool what was taken of it, and to the kernel
 * what the heaps have kept of a large work. */
void budget_release(struct budget *budget);
/* What is left of the work when its threads have left: so many bytes that live on, such as an answer on its way. */
void budget_keep(struct budget *budget, size_t bytes);

/* This thread works on it from now on; NULL = on none. Returns what it worked on before, for budget_leave(). */
struct budget *budget_enter(struct budget *budget);
static inline void budget_leave(struct budget *before)
{
	budget_enter(before);
}
/* What this thread works on; NULL = nothing that has a budget. */
extern _Thread_local struct budget *budget_of_thread;
static inline struct budget *budget_current(void)
{
	return budget_of_thread;
}

static inline void budget_leave_scope(struct budget **before)
{
	budget_leave(*before);
}
/* The rest of the block is not the work's. */
#define BUDGET_EXEMPT_SCOPE()                                                                                                  \
	struct budget *budget_before __attribute__((cleanup(budget_leave_scope), unused)) = budget_enter(NULL)

/* Whether the thread's work is cancelled or late. Cheap enough for any loop: it looks at the clock every BUDGET_POLLS calls. */
#define BUDGET_POLLS 256u
extern _Thread_local unsigned budget_polls;
bool budget_look(void); /* the same, now */
static inline bool budget_poll(void)
{
	struct budget *budget = budget_of_thread;
	if (!budget)
		return false;
	if (++budget_polls % BUDGET_POLLS == 0)
		return budget_look();
	enum budget_end end = atomic_load_explicit(&budget->end, memory_order_relaxed);
	return end == BUDGET_CANCELLED || end == BUDGET_LATE;
}

/* Bytes that the thread's work has taken; 0 without a budget. */
size_t budget_used(void);
/* What it may still take by its own limit; SIZE_MAX without one. */
size_t budget_left(void);
/* The thread's work may take no more than that, nor more than it might before, until budget_widen() with the result: what comes
 * after it needs the rest. 0 = there is no limit to begin with. */
size_t budget_narrow(size_t max_bytes);
void budget_widen(size_t before);
/* The work goes on with what it has: an end by a limit of memory is taken back. True if there was one. */
bool budget_forgive(void);
/* It turns out that it cannot: as if an allocation had been refused for that reason. */
void budget_give_up(enum budget_end reason);
/* Whether an allocation of the thread's work was refused, or would be: what was caused by that is no fault of the data. */
bool budget_has_ended(void);

/* ---- base/alloc.c ---- */

/* False: refused. */
bool budget_charge(struct budget *budget, size_t bytes);
/* Bytes that are there already. */
void budget_add(struct budget *budget, size_t bytes);
void budget_credit(struct budget *budget, size_t bytes);

#endif
