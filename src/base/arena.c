// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

#define CHUNK_SIZE_FIRST 1024
#define CHUNK_SIZE_MAX	 (1024 * 1024)
#define ALIGNMENT	 16

struct arena_chunk {
	struct arena_chunk *next;
	size_t size, used; /* of data */
	_Alignas(ALIGNMENT) uint8_t data[];
};

void arena_init(struct arena *arena, size_t max_bytes)
{
	*arena = (struct arena){.max_bytes = max_bytes};
}

void arena_release(struct arena *arena)
{
	struct arena_chunk *next;
	for (struct arena_chunk *chunk = arena->chunks; chunk; chunk = next) {
		next = chunk->next;
		mem_free(chunk);
	}
	arena->chunks = NULL;
	arena->used_bytes = 0;
}

static size_t padding(const struct arena_chunk *chunk, size_t alignment)
{
	return -chunk->used & (alignment - 1);
}

static bool fits_in_chunk(const struct arena_chunk *chunk, size_t size, size_t alignment)
{
	if (!chunk)
		return false;
	size_t left = chunk->size - chunk->used, pad = padding(chunk, alignment);
	return pad <= left && size <= left - pad;
}

/* False when the limit would be passed. *ret_cost is what used_bytes grows by. */
static bool within_limit(const struct arena *arena, size_t size, size_t alignment, size_t *ret_cost)
{
	size_t overhead =
		fits_in_chunk(arena->chunks, size, alignment) ? padding(arena->chunks, alignment) : sizeof(struct arena_chunk);
	return !__builtin_add_overflow(size, overhead, ret_cost) && arena->used_bytes <= arena->max_bytes &&
	       *ret_cost <= arena->max_bytes - arena->used_bytes;
}

bool arena_is_full(const struct arena *arena, size_t size)
{
	size_t cost;
	return !within_limit(arena, size ? size : 1, 1, &cost);
}

/* A large object gets a chunk of its own behind the newest, so that the newest goes on being filled. `room` bounds what may be
 * added without passing the limit, and is at least `size`. */
static struct arena_chunk *add_chunk(struct arena *arena, size_t size, size_t room)
{
	struct arena_chunk *newest = arena->chunks;
	size_t chunk_size = newest ? newest->size * 2 : CHUNK_SIZE_FIRST;
	if (chunk_size > CHUNK_SIZE_MAX)
		chunk_size = CHUNK_SIZE_MAX;
	if (chunk_size > room)
		chunk_size = room;
	bool alone = size > chunk_size / 2;
	if (alone)
		chunk_size = size;
	struct arena_chunk *chunk = mem_alloc(sizeof(*chunk) + chunk_size);
	if (!chunk)
		return NULL;
	chunk->size = chunk_size;
	chunk->used = 0;
	struct arena_chunk **link = alone && newest ? &newest->next : &arena->chunks;
	chunk->next = *link;
	*link = chunk;
	return chunk;
}

static void *allocate(struct arena *arena, size_t size, size_t alignment)
{
	size_t cost;
	if (size == 0)
		size = 1;
	if (!within_limit(arena, size, alignment, &cost))
		return NULL;
	struct arena_chunk *chunk = arena->chunks;
	if (!fits_in_chunk(chunk, size, alignment)) {
		chunk = add_chunk(arena, size, arena->max_bytes - arena->used_bytes - sizeof(*chunk));
		if (!chunk)
			return NULL;
	}
	chunk->used += padding(chunk, alignment);
	void *result = chunk->data + chunk->used;
	chunk->used += size;
	arena->used_bytes += cost;
	return result;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	return allocate(arena, size, ALIGNMENT);
}

void *arena_zalloc(struct arena *arena, size_t size)
{
	void *result = arena_alloc(arena, size);
	if (result)
		memset(result, 0, size);
	return result;
}

char *arena_strndup(struct arena *arena, const char *text, size_t len)
{
	if (len == SIZE_MAX)
		return NULL;
	/* Text needs no alignment, and most of an arena of strings is short strings. */
	char *copy = allocate(arena, len + 1, 1);
	if (!copy)
		return NULL;
	if (len > 0)
		memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}
