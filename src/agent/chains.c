// SPDX-License-Identifier: Apache-2.0
#include "agent/chains.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

/* An epoch ends long before its table is full: a machine with ever new stacks keeps two of this part, and not of all. */
#define DUE_PART 8

static void table_release(struct chain_table *table)
{
	map64_release(&table->by_hash);
	mem_free(table->frames);
	*table = (struct chain_table){0};
}

void chains_release(struct chains *chains)
{
	table_release(&chains->tables[0]);
	table_release(&chains->tables[1]);
}

int chains_put(struct chains *chains, uint64_t hash, const uint64_t *frames, size_t count)
{
	struct chain_table *table = &chains->tables[0];
	uint64_t known;

	if (map64_get(&table->by_hash, hash, &known))
		return 0;
	int r = array_reserve(&table->frames, &table->capacity, table->count + count, chains->frames_max);
	if (r == -E2BIG) {
		chains->dropped++;
		return 0;
	}
	if (r < 0)
		return r;
	r = map64_put(&table->by_hash, hash, (uint64_t)table->count << 16 | count);
	if (r < 0)
		return r;
	memcpy(table->frames + table->count, frames, count * sizeof(uint64_t));
	table->count += count;
	return 0;
}

int chains_add(struct chains *chains, const struct abi_chain *chain)
{
	return chains_put(chains, chain->hash, (const uint64_t *)chain->frames,
			  (chain->header.bytes - ABI_CHAIN_FIXED_BYTES) / sizeof(uint64_t));
}

bool chains_find(const struct chains *chains, uint64_t hash, const uint64_t **ret_frames, size_t *ret_count)
{
	for (size_t i = 0; i < 2; i++) {
		uint64_t value;
		if (!map64_get(&chains->tables[i].by_hash, hash, &value))
			continue;
		*ret_frames = chains->tables[i].frames + (value >> 16);
		*ret_count = value & 0xffff;
		return true;
	}
	return false;
}

bool chains_are_due(const struct chains *chains)
{
	return chains->tables[0].count >= chains->frames_max / DUE_PART;
}

bool chains_turn(struct chains *chains)
{
	if (!chains_are_due(chains))
		return false;
	table_release(&chains->tables[1]);
	chains->tables[1] = chains->tables[0];
	chains->tables[0] = (struct chain_table){.epoch = chains->tables[1].epoch + 1};
	return true;
}
