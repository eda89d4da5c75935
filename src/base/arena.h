/* SPDX-License-Identifier: Apache-2.0 */
/* An arena: many small allocations with one lifetime, freed together. One unit of work has one arena. Not thread-safe. */
#ifndef WICK_BASE_ARENA_H
#define WICK_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;
struct arena {
	struct arena_chunk *chunks; /* newest first */
	size_t used_bytes;	    /* handed out, including chunk overhead */
	size_t max_bytes;	    /* limit on used_bytes */
};

void arena_init(struct arena *arena, size_t max_bytes);
void arena_release(struct arena *arena); /* frees everything; the arena may be used again */
/* NULL when memory is short or max_bytes would be passed. Aligned to 16 bytes; not zeroed. */
void *arena_alloc(struct arena *arena, size_t size);
void *arena_zalloc(struct arena *arena, size_t size);
/* Copies exactly len bytes, which may hold NULs, and adds a NUL. Not aligned. */
char *arena_strndup(struct arena *arena, const char *text, size_t len);
/* Tells the two reasons of a NULL apart: true when max_bytes, not memory, stands in the way of `size` more bytes of text. */
bool arena_is_full(const struct arena *arena, size_t size);

#endif
