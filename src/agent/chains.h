/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: the chains of callers that the kernel has sent, by epoch and hash.
 *
 * The kernel sends a chain once an epoch, so the table is kept from flush to flush. When it has grown to its limit, a new
 * epoch begins: chains are sent again, into a second table, while samples on their way may still name the first. At most one
 * epoch a flush, so a table is not emptied before all its samples are in.
 */
#ifndef WICK_AGENT_CHAINS_H
#define WICK_AGENT_CHAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "bpf/abi.h"

struct chain_table {
	uint32_t epoch;
	struct map64 by_hash; /* -> index of the first frame << 16 | count */
	uint64_t *frames;
	size_t count, capacity;
};
struct chains {
	struct chain_table tables[2]; /* begin as zeroes; [0] is the current one */
	size_t frames_max;
	uint64_t dropped; /* for lack of room */
};

void chains_release(struct chains *chains);
/* Adds a chain as the kernel sent it. Its epoch is not in it: by then it is the current one or the one before, and hashes are
 * the same in both, so it goes to the current table. 0 or -ENOMEM; a chain beyond the limit is dropped and counted. */
int chains_add(struct chains *chains, const struct abi_chain *chain);
/* The same for a chain that was completed in user space. */
int chains_put(struct chains *chains, uint64_t hash, const uint64_t *frames, size_t count);
/* The frames, innermost caller first; false if unknown. Valid until the next add. */
bool chains_find(const struct chains *chains, uint64_t hash, const uint64_t **ret_frames, size_t *ret_count);
/* Whether chains_turn() will begin a new epoch. */
bool chains_are_due(const struct chains *chains);
/* At a flush: true if a new epoch has begun, whose number (chains->tables[0].epoch) must be sent to the kernel side. */
bool chains_turn(struct chains *chains);

#endif
