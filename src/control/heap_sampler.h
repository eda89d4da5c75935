/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of this process's own heap: who allocated, and what is still allocated.
 *
 * **Which allocations.** Each byte that a thread allocates is sampled with the same small probability, as in tcmalloc and Go: a
 * thread counts down a distance, drawn from an exponential distribution with a mean of the rate (512 KiB), and the allocation
 * that reaches its end is sampled. So one of `size` bytes is sampled with the probability p = 1 - exp(-size / rate), and stands
 * for 1 / p allocations: sums of these have no bias, whatever sizes there are.
 *
 * **What it costs.** Sampling goes on all the time: a profile of what is allocated cannot begin when somebody asks for it.
 *   - malloc: a subtraction and a comparison in the thread's own memory
 *   - free: one byte of a filter, by a hash of the address, says that no sampled allocation lies there
 *   - a sampled allocation: the stack, some microseconds, twice a megabyte
 * docs/api.md has what was measured.
 *
 * **Where it is kept.** In tables of fixed size in the program's zeroed memory, of which the kernel provides what is used:
 *
 *   | table | entries | KiB | if full |
 *   |---|---|---|---|
 *   | stacks, by hash, open addressing; never removed | 4,096 | 192 | the sample counts for the stack 0, which has no frames |
 *   | frames of stacks | 65,536 | 512 | the same |
 *   | live samples, by address, in buckets | 16,384 (8 GiB of heap) | 256 | the allocation counts, but as freed at once |
 *   | filter: live samples by address, counted | 16,384 | 16 | the same |
 *
 * **No locks, no allocations.** Whoever enters something claims its slot by an atomic exchange. A stack is published by its
 * place in the table of frames, which is written last, and stays. An address is in the table of live samples from before its
 * allocation is returned until its owner frees it, so nobody looks for an address that somebody else is entering or removing:
 * what tells another thread of the address also tells it of the entries. A fork() at any time leaves tables that are whole, and
 * the child goes on with them.
 *
 * **The stack** is walked by libgcc's _Unwind_Backtrace(), in the thread itself. Since glibc 2.35 it takes no lock
 * (_dl_find_object()) and allocates nothing. What calls an allocator is a call, so that CFI is right there, other than in a
 * signal handler, for which self_sampler.h rejects it. Rejected: frame pointers, which libraries do not have; self_walk.h,
 * whose tables are made with allocations, from files, and take more memory than all of the tables above.
 *
 * Who calls these functions: heap_hooks.c.
 */
#ifndef WICK_CONTROL_HEAP_SAMPLER_H
#define WICK_CONTROL_HEAP_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAP_RATE_BYTES (512u * 1024)
#define HEAP_STACKS	4096u
#define HEAP_FRAMES	65536u /* of all stacks */
#define HEAP_FRAMES_MAX 64u    /* of one: the leaf's side stays */
#define HEAP_LIVE	16384u
#define HEAP_IDLE_BYTES (64u * 1024) /* allocated by a thread until it sees that sampling has begun */

/* ---- for who asks ---- */

/* Sums are of what samples stand for. Freed is what of the allocated is no longer there. */
struct heap_sums {
	uint64_t allocated_objects, allocated_bytes, freed_objects, freed_bytes;
};
/* What found no room, since the start. */
struct heap_losses {
	uint64_t stacks; /* samples without their stack */
	uint64_t live;	 /* samples that count as freed at once */
	uint64_t live_bytes;
};
struct heap_stack {
	const uint64_t *frames; /* return addresses, leaf first; they stay */
	uint32_t depth;		/* 0 of the stack 0 */
	struct heap_sums sums;
};

/* Is it in this program at all? Not with AddressSanitizer, which has an allocator of its own. */
bool heap_sampler_is_built_in(void);
/* Begins with one sample in rate_bytes (> 0), for ever; a later call has no effect. False = it is not built in. */
bool heap_sampler_start(uint32_t rate_bytes);
/* 0 = it has not been started. */
uint32_t heap_sampler_rate(void);
/* Stack `index` of HEAP_STACKS; false if there is none (yet). */
bool heap_sampler_read(uint32_t index, struct heap_stack *ret);
struct heap_losses heap_sampler_losses(void);

/* ---- for allocators ---- */

#define HEAP_FILTER_BITS 14

struct heap_thread {
	uint64_t distance; /* bytes to the next sample */
	uint64_t random;   /* 0 = it has none yet, and no distance that was drawn */
	bool is_inside;	   /* what is allocated meanwhile is not sampled */
};
extern __thread struct heap_thread heap_thread;
extern _Atomic uint8_t heap_filter[1u << HEAP_FILTER_BITS];

/* What lies close together shares a byte: frees that follow each other find it in the cache. */
static inline uint32_t heap_filter_index(const void *ptr)
{
	return (uint32_t)(((uintptr_t)ptr >> 8) * 0x9e3779b97f4a7c15ull >> (64 - HEAP_FILTER_BITS));
}

/* Counts an allocation that is about to be made; true = heap_sampler_allocated() is to be called. */
static inline bool heap_sampler_is_due(size_t size)
{
	if (size >= heap_thread.distance)
		return true;
	heap_thread.distance -= size;
	return false;
}

/* Between these two nothing of this thread is due. */
static inline uint64_t heap_sampler_suspend(void)
{
	uint64_t distance = heap_thread.distance;
	heap_thread.distance = UINT64_MAX;
	return distance;
}
static inline void heap_sampler_resume(uint64_t distance)
{
	heap_thread.distance = distance;
}

/* May it have been sampled? */
static inline bool heap_sampler_may_know(const void *ptr)
{
	return atomic_load_explicit(&heap_filter[heap_filter_index(ptr)], memory_order_relaxed) > 0;
}

/* After an allocation that is due, before anybody else can know of it. NULL = it failed. caller: the address that the allocator
 * returns to. */
void heap_sampler_allocated(const void *ptr, size_t size, const void *caller);
/* Before it is freed: afterwards the address may be somebody else's. NULL allowed. */
void heap_sampler_freed(const void *ptr);
/* The same in two steps, for an allocator that may fail and leave it as it was. NULL = it was not sampled. */
struct heap_hold;
struct heap_hold *heap_sampler_hold(const void *ptr);
void heap_sampler_release(struct heap_hold *hold, bool is_freed);

#endif
