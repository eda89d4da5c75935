/* SPDX-License-Identifier: Apache-2.0 */
#include "store/ids.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/hash.h"

int id_ring_init(struct id_ring *ring, struct error *err)
{
	*ring = (struct id_ring){.entries = mem_zalloc_array(STORE_IDS_KEPT, sizeof(*ring->entries)),
				 .buckets = mem_zalloc_array(STORE_ID_BUCKETS, sizeof(*ring->buckets))};
	if (!ring->entries || !ring->buckets) {
		id_ring_release(ring);
		return error_nomem(err);
	}
	if (getrandom(&ring->seed, sizeof(ring->seed), 0) != sizeof(ring->seed)) {
		int r = -errno;
		id_ring_release(ring);
		return error_set_errno(err, r, "cannot get a random number");
	}
	return 0;
}

void id_ring_release(struct id_ring *ring)
{
	mem_free(ring->entries);
	mem_free(ring->buckets);
	*ring = (struct id_ring){0};
}

bool id_is_set(const uint8_t id[STORE_ID_SIZE])
{
	static const uint8_t none[STORE_ID_SIZE];
	return memcmp(id, none, STORE_ID_SIZE) != 0;
}

static uint32_t *bucket_of(const struct id_ring *ring, const uint8_t id[STORE_ID_SIZE])
{
	return &ring->buckets[hash64_seed(id, STORE_ID_SIZE, ring->seed) % STORE_ID_BUCKETS];
}

static void unlink_entry(struct id_ring *ring, size_t index)
{
	uint32_t *link = bucket_of(ring, ring->entries[index].id);
	while (*link != index + 1)
		link = &ring->entries[*link - 1].next;
	*link = ring->entries[index].next;
}

void id_ring_add(struct id_ring *ring, const uint8_t id[STORE_ID_SIZE], uint64_t sequence)
{
	if (ring->count == STORE_IDS_KEPT) {
		unlink_entry(ring, ring->start);
		ring->start = (ring->start + 1) % STORE_IDS_KEPT;
		ring->count--;
	}
	size_t index = (ring->start + ring->count++) % STORE_IDS_KEPT;
	struct id_entry *entry = &ring->entries[index];
	uint32_t *bucket = bucket_of(ring, id);
	memcpy(entry->id, id, STORE_ID_SIZE);
	entry->sequence = sequence;
	entry->next = *bucket;
	*bucket = (uint32_t)index + 1;
}

bool id_ring_find(const struct id_ring *ring, const uint8_t id[STORE_ID_SIZE], uint64_t *ret_sequence)
{
	for (uint32_t at = *bucket_of(ring, id); at; at = ring->entries[at - 1].next) {
		if (!memcmp(ring->entries[at - 1].id, id, STORE_ID_SIZE)) {
			*ret_sequence = ring->entries[at - 1].sequence;
			return true;
		}
	}
	return false;
}

void id_ring_rewind(struct id_ring *ring, uint64_t sequence)
{
	while (ring->count > 0) {
		size_t newest = (ring->start + ring->count - 1) % STORE_IDS_KEPT;
		if (ring->entries[newest].sequence <= sequence)
			return;
		unlink_entry(ring, newest);
		ring->count--;
	}
}
