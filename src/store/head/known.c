/* SPDX-License-Identifier: Apache-2.0 */
#include "store/head/known.h"

#include "base/alloc.h"

void known_release(struct known *known)
{
	mem_free(known->entries);
	index32_release(&known->index);
	*known = (struct known){0};
}

void known_fetch_index(const struct known *known, struct hash128 key)
{
	if (known->count)
		__builtin_prefetch(&known->index.slots[index32_first(&known->index, key.low)]);
}

void known_fetch_entry(const struct known *known, struct hash128 key)
{
	if (!known->count)
		return;
	uint32_t id_plus_1 = known->index.slots[index32_first(&known->index, key.low)].id_plus_1;
	if (id_plus_1)
		__builtin_prefetch(&known->entries[id_plus_1 - 1]);
}

bool known_find(const struct known *known, struct hash128 key, uint32_t *ret_id)
{
	uint32_t at_entry;
	for (size_t at = index32_first(&known->index, key.low); index32_at(&known->index, key.low, &at, &at_entry); at++) {
		const struct known_entry *entry = &known->entries[at_entry];
		if (entry->key.low == key.low && entry->key.high == key.high) {
			*ret_id = entry->id;
			return true;
		}
	}
	return false;
}

int known_add(struct known *known, struct hash128 key, uint32_t id)
{
	int r = array_reserve(&known->entries, &known->capacity, known->count + 1, UINT32_MAX - 1);
	if (r == 0)
		r = index32_add(&known->index, key.low, (uint32_t)known->count);
	if (r == 0)
		known->entries[known->count++] = (struct known_entry){key, id};
	return r;
}
