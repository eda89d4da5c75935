/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of a million entries does not fit into the caches, so what a lookup costs is waiting for memory. Lookups are
 * therefore made in batches: the slots of a whole batch are asked for first, then the entries that they name, and only then
 * compared.
 */
#include "store/stack_set.h"

#include <errno.h>

#include "base/alloc.h"

#define BATCH 32

void stack_set_release(struct stack_set *set)
{
	mem_free(set->entries);
	index32_release(&set->index);
	*set = (struct stack_set){0};
}

static uint64_t slot_hash(struct hash128 hash, uint32_t group)
{
	return group ? hash64_mix(hash.low ^ (uint64_t)group << 17) : hash.low;
}

/* Asks for the memory that looking this one up will touch. */
static void prefetch_slot(const struct stack_set *set, uint64_t hash)
{
	if (set->index.capacity)
		__builtin_prefetch(&set->index.slots[index32_first(&set->index, hash) & (set->index.capacity - 1)]);
}

static void prefetch_entry(const struct stack_set *set, uint64_t hash)
{
	uint32_t id;
	size_t at = index32_first(&set->index, hash);
	if (index32_at(&set->index, hash, &at, &id))
		__builtin_prefetch(&set->entries[id]);
}

static bool find(const struct stack_set *set, uint64_t slot, struct hash128 hash, uint32_t group, uint32_t *ret)
{
	for (size_t at = index32_first(&set->index, slot); index32_at(&set->index, slot, &at, ret); at++) {
		const struct stack_entry *entry = &set->entries[*ret];
		if (entry->hash.low == hash.low && entry->hash.high == hash.high && entry->group == group)
			return true;
	}
	return false;
}

static int add_batch(struct stack_set *set, uint32_t source, const struct stack_sums *sums, const struct hash128 *hashes,
		     size_t from, size_t count, size_t max, struct error *err)
{
	uint64_t slots[BATCH];
	for (size_t i = 0; i < count; i++) {
		uint32_t group = sums->groups ? sums->groups[from + i] : 0;
		slots[i] = slot_hash(hashes[sums->listed ? from + i : sums->stacks[from + i]], group);
		prefetch_slot(set, slots[i]);
	}
	for (size_t i = 0; i < count; i++)
		prefetch_entry(set, slots[i]);
	for (size_t i = 0; i < count; i++) {
		uint32_t stack = sums->stacks[from + i], group = sums->groups ? sums->groups[from + i] : 0, id;
		int64_t value = sums->values[from + i];
		struct hash128 hash = hashes[sums->listed ? from + i : stack];
		if (find(set, slots[i], hash, group, &id)) {
			struct stack_entry *entry = &set->entries[id];
			entry->value = stack_value_add(set->doubles, entry->value, value);
			/* Sources come in any order; which one gives the frames must not depend on it. */
			if (source < entry->source) {
				entry->source = source;
				entry->stack = stack;
			}
			continue;
		}
		if (set->count >= max)
			return error_set(err, -E2BIG, "more than %zu distinct stacks", max);
		index32_add(&set->index, slots[i], (uint32_t)set->count); /* there is room */
		set->entries[set->count++] =
			(struct stack_entry){.hash = hash, .value = value, .group = group, .source = source, .stack = stack};
	}
	return 0;
}

int stack_set_add(struct stack_set *set, uint32_t source, const struct stack_sums *sums, const struct hash128 *hashes,
		  size_t max, struct error *err)
{
	int r = 0;
	for (size_t from = 0; r == 0 && from < sums->count; from += BATCH) {
		size_t count = sums->count - from < BATCH ? sums->count - from : BATCH;
		if (array_reserve(&set->entries, &set->capacity, set->count + count, UINT32_MAX - 1) < 0 ||
		    index32_reserve(&set->index, count) < 0)
			return error_nomem(err);
		r = add_batch(set, source, sums, hashes, from, count, max, err);
	}
	return r;
}
