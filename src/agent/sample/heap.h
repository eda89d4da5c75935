/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: the memory that unwind tables and process mappings lie in (bpf/unwind.h), shared with the BPF programs.
 *
 * The BPF array behind it is allocated by the kernel at once, so its size is the hard limit of all of it. Mapping the whole
 * array would make it count as resident memory of the agent; instead windows of HEAP_WINDOW_BYTES are mapped when they are
 * touched, and let go by heap_trim().
 *
 * What is freed may still be read by a program that runs on another CPU: it is not given out again before heap_settle() has
 * been called twice, and *reuses (shared with the programs) is raised before any byte is, so that a walk that was held up for
 * longer can tell that its reads may have been wrong.
 *
 * Not thread-safe.
 */
#ifndef WICK_AGENT_SAMPLE_HEAP_H
#define WICK_AGENT_SAMPLE_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

#define HEAP_WINDOW_BYTES 65536u
#define HEAP_ALIGN	  64u

struct heap;
/* map_fd: a BPF_F_MMAPABLE array of `bytes` (a multiple of HEAP_WINDOW_BYTES), stays the caller's and must outlive the heap;
 * -1 = ordinary memory (tests). reuses may be NULL. */
int heap_new(int map_fd, uint32_t bytes, uint32_t *reuses, struct heap **ret, struct error *err);
struct heap *heap_free(struct heap *heap);
DEFINE_CLEANUP_POINTER(heap_free, struct heap);

/* A place for `bytes` (rounded up to HEAP_ALIGN), 0 if there is none. Contents are undefined. */
uint32_t heap_allocate(struct heap *heap, uint32_t bytes);
/* place 0 is allowed. `bytes` as when allocated. */
void heap_release(struct heap *heap, uint32_t place, uint32_t bytes);
/* To be called now and then, at least some milliseconds apart: what was released before the last call becomes available. */
void heap_settle(struct heap *heap);

int heap_write(struct heap *heap, uint32_t place, const void *data, uint32_t bytes, struct error *err);
/* Where the byte at `place` lies in our memory, valid to the end of its window and until heap_trim(); NULL when it is out of
 * range or cannot be mapped. For the walk in user space, which reads through it. */
const uint8_t *heap_at(struct heap *heap, uint32_t place);
/* Unmaps windows if more than `keep` bytes of them are mapped. */
void heap_trim(struct heap *heap, size_t keep);

struct heap_stats {
	uint64_t bytes, used, waiting; /* waiting: released, not settled */
	uint64_t largest_free;
	uint64_t mapped;
};
void heap_get_stats(const struct heap *heap, struct heap_stats *ret);

#endif
