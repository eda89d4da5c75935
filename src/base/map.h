/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open-addressing hash tables.
 *
 * struct map64: uint64 -> uint64. struct index32: a set of dense ids (0, 1, 2 ...) whose keys live in the caller's arrays; the
 * table holds only (hash, id), the caller compares. It is what the interning tables of src/profile are made of: no key is
 * stored twice.
 */
#ifndef WICK_BASE_MAP_H
#define WICK_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map64_entry {
	uint64_t key, value;
};
struct map64 { /* begins as zeros */
	struct map64_entry *entries;
	uint8_t *used;		/* one byte per slot */
	size_t count, capacity; /* capacity is 0 or a power of two */
	uint64_t secret;	/* 0 = not guarded */
};

/* For keys that somebody outside chooses: he could choose those that get into each other's way, and make a million of them take
 * hours. Which do is a secret of the process then. map64_release() ends it. */
void map64_init_guarded(struct map64 *map);
void map64_release(struct map64 *map);
void map64_clear(struct map64 *map);
int map64_put(struct map64 *map, uint64_t key, uint64_t value); /* inserts or replaces; 0 or -ENOMEM */
/* Adds to the value (from 0), wrapping; 0 or -ENOMEM. */
int map64_add(struct map64 *map, uint64_t key, uint64_t value);
/* The same of a sum of values of samples, int64_t (base/sum.h). */
int map64_sum(struct map64 *map, uint64_t key, int64_t value);
bool map64_get(const struct map64 *map, uint64_t key, uint64_t *ret_value);
bool map64_remove(struct map64 *map, uint64_t key);
/* Iterates: start with *cursor = 0; false at the end. The map must not change meanwhile. */
bool map64_next(const struct map64 *map, size_t *cursor, uint64_t *ret_key, uint64_t *ret_value);

struct index32_slot {
	uint32_t hash, id_plus_1; /* 0 = free */
};
struct index32 { /* begins as zeros */
	struct index32_slot *slots;
	size_t count, capacity;
};
void index32_release(struct index32 *index);
void index32_clear(struct index32 *index);
/* Finds an id: walk the candidates of a hash and compare yourself:
 *     for (size_t at = index32_first(ix, h); index32_at(ix, h, &at, &id); at++) if (same(id)) return id;
 * Both are inline: a decoder asks for every entry of every table. */
/* Callers pass good hashes and poor ones (an id, an address); one multiplication makes the poor ones usable. */
static inline uint32_t index32_stored_hash(uint64_t hash)
{
	return (uint32_t)(((hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15ull) >> 32);
}
static inline size_t index32_first(const struct index32 *index, uint64_t hash)
{
	return index->capacity ? index32_stored_hash(hash) & (index->capacity - 1) : 0;
}
/* Moves *at to the next slot whose stored hash equals; false when the probe run ends. */
static inline bool index32_at(const struct index32 *index, uint64_t hash, size_t *at, uint32_t *ret_id)
{
	if (!index->capacity)
		return false;
	uint32_t stored = index32_stored_hash(hash);
	size_t mask = index->capacity - 1;
	for (size_t i = *at & mask; index->slots[i].id_plus_1; i = (i + 1) & mask) {
		if (index->slots[i].hash == stored) {
			*at = i;
			*ret_id = index->slots[i].id_plus_1 - 1;
			return true;
		}
	}
	return false;
}
/* Makes room so that the next `more` adds cannot fail; 0 or -ENOMEM. */
int index32_reserve(struct index32 *index, size_t more);
static inline bool index32_has_room(const struct index32 *index)
{
	return index->count < index->capacity / 10 * 7;
}
/* Adds an id where there is room. */
static inline void index32_insert(struct index32 *index, uint64_t hash, uint32_t id)
{
	uint32_t stored = index32_stored_hash(hash);
	size_t mask = index->capacity - 1, at = stored & mask;
	while (index->slots[at].id_plus_1)
		at = (at + 1) & mask;
	index->slots[at] = (struct index32_slot){.hash = stored, .id_plus_1 = id + 1};
	index->count++;
}
int index32_add(struct index32 *index, uint64_t hash, uint32_t id); /* does not look for an equal one; 0 or -ENOMEM */

#endif
