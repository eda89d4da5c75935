// SPDX-License-Identifier: Apache-2.0
/*
 * Both tables probe linearly over a power of two of slots, at most 70% full: a probe run is short and lies in one or two cache
 * lines, and there is always a free slot to end it.
 *
 * map64 removes by shifting later entries of the run back. Tombstones were rejected: a map of processes or sockets that come
 * and go for months would fill with them and have to be rebuilt at a time that nobody chose.
 *
 * index32 keeps 32 bits of the hash. They choose the slot too, so that growing needs neither the keys nor the full hash.
 */
#include "base/map.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/sum.h"

#define CAPACITY_FIRST 16

static bool is_too_full(size_t count, size_t capacity)
{
	return count > capacity / 10 * 7;
}

/* The least capacity for count entries, not below `capacity`; 0 when no size_t is large enough. */
static size_t capacity_for(size_t count, size_t capacity)
{
	if (capacity < CAPACITY_FIRST)
		capacity = CAPACITY_FIRST;
	while (capacity && is_too_full(count, capacity))
		capacity *= 2;
	return capacity;
}

/* ---- map64 ---- */

void map64_init_guarded(struct map64 *map)
{
	*map = (struct map64){.secret = hash64_secret()};
}

void map64_release(struct map64 *map)
{
	mem_free(map->entries);
	mem_free(map->used);
	*map = (struct map64){0};
}

void map64_clear(struct map64 *map)
{
	if (map->capacity)
		memset(map->used, 0, map->capacity);
	map->count = 0;
}

static size_t map64_home(const struct map64 *map, uint64_t key)
{
	/* Both steps are bijections, and the first does nothing without a secret. */
	return hash64_mix((key ^ map->secret) * (map->secret | 1)) & (map->capacity - 1);
}

/* The slot of key, or the free slot where it would go. The capacity must not be 0. */
static size_t map64_slot(const struct map64 *map, uint64_t key)
{
	size_t at = map64_home(map, key);
	while (map->used[at] && map->entries[at].key != key)
		at = (at + 1) & (map->capacity - 1);
	return at;
}

static int map64_grow(struct map64 *map)
{
	size_t capacity = capacity_for(map->count + 1, map->capacity);
	struct map64 grown = {.capacity = capacity, .count = map->count, .secret = map->secret};
	if (!capacity)
		return -ENOMEM;
	grown.entries = mem_alloc_array(capacity, sizeof(*grown.entries));
	grown.used = mem_zalloc(capacity);
	if (!grown.entries || !grown.used) {
		map64_release(&grown);
		return -ENOMEM;
	}
	for (size_t i = 0; i < map->capacity; i++) {
		if (!map->used[i])
			continue;
		size_t at = map64_slot(&grown, map->entries[i].key);
		grown.entries[at] = map->entries[i];
		grown.used[at] = 1;
	}
	map64_release(map);
	*map = grown;
	return 0;
}

/* The key's slot, made with value 0 when it is not there. */
static int map64_make_slot(struct map64 *map, uint64_t key, size_t *ret)
{
	size_t at = 0;
	if (map->capacity) {
		at = map64_slot(map, key);
		if (map->used[at]) {
			*ret = at;
			return 0;
		}
	}
	if (is_too_full(map->count + 1, map->capacity)) {
		int r = map64_grow(map);
		if (r < 0)
			return r;
		at = map64_slot(map, key);
	}
	map->entries[at] = (struct map64_entry){key, 0};
	map->used[at] = 1;
	map->count++;
	*ret = at;
	return 0;
}

int map64_put(struct map64 *map, uint64_t key, uint64_t value)
{
	size_t at;
	int r = map64_make_slot(map, key, &at);
	if (r == 0)
		map->entries[at].value = value;
	return r;
}

int map64_add(struct map64 *map, uint64_t key, uint64_t value)
{
	size_t at;
	int r = map64_make_slot(map, key, &at);
	if (r == 0)
		map->entries[at].value += value;
	return r;
}

int map64_sum(struct map64 *map, uint64_t key, int64_t value)
{
	size_t at;
	int r = map64_make_slot(map, key, &at);
	if (r == 0)
		map->entries[at].value = (uint64_t)sum_add((int64_t)map->entries[at].value, value);
	return r;
}

bool map64_get(const struct map64 *map, uint64_t key, uint64_t *ret_value)
{
	if (!map->count)
		return false;
	size_t at = map64_slot(map, key);
	if (!map->used[at])
		return false;
	if (ret_value)
		*ret_value = map->entries[at].value;
	return true;
}

bool map64_remove(struct map64 *map, uint64_t key)
{
	if (!map->count)
		return false;
	size_t mask = map->capacity - 1;
	size_t hole = map64_slot(map, key);
	if (!map->used[hole])
		return false;
	for (size_t at = (hole + 1) & mask; map->used[at]; at = (at + 1) & mask) {
		/* An entry may move into the hole unless its home lies behind the hole: a lookup would then no longer pass it.
		 */
		size_t home = map64_home(map, map->entries[at].key);
		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		map->entries[hole] = map->entries[at];
		hole = at;
	}
	map->used[hole] = 0;
	map->count--;
	return true;
}

bool map64_next(const struct map64 *map, size_t *cursor, uint64_t *ret_key, uint64_t *ret_value)
{
	while (*cursor < map->capacity) {
		size_t at = (*cursor)++;
		if (!map->used[at])
			continue;
		if (ret_key)
			*ret_key = map->entries[at].key;
		if (ret_value)
			*ret_value = map->entries[at].value;
		return true;
	}
	return false;
}

/* ---- index32 ---- */

void index32_release(struct index32 *index)
{
	mem_free(index->slots);
	*index = (struct index32){0};
}

void index32_clear(struct index32 *index)
{
	if (index->capacity)
		memset(index->slots, 0, index->capacity * sizeof(*index->slots));
	index->count = 0;
}

static void move_slot(struct index32 *index, struct index32_slot slot)
{
	size_t mask = index->capacity - 1;
	size_t at = slot.hash & mask;
	while (index->slots[at].id_plus_1)
		at = (at + 1) & mask;
	index->slots[at] = slot;
}

int index32_reserve(struct index32 *index, size_t more)
{
	size_t need;
	if (__builtin_add_overflow(index->count, more, &need))
		return -ENOMEM;
	if (!is_too_full(need, index->capacity))
		return 0;
	struct index32 grown = {.count = index->count, .capacity = capacity_for(need, index->capacity)};
	if (!grown.capacity)
		return -ENOMEM;
	grown.slots = mem_zalloc_array(grown.capacity, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	for (size_t i = 0; i < index->capacity; i++)
		if (index->slots[i].id_plus_1)
			move_slot(&grown, index->slots[i]);
	mem_free(index->slots);
	*index = grown;
	return 0;
}

int index32_add(struct index32 *index, uint64_t hash, uint32_t id)
{
	assert(id < UINT32_MAX);
	int r = index32_reserve(index, 1);
	if (r < 0)
		return r;
	index32_insert(index, hash, id);
	return 0;
}
