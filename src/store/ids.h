/* SPDX-License-Identifier: Apache-2.0 */
/* The ids of the last appends, so that a retried append is stored once. A ring with a hash table over it, of fixed size: adding
 * never fails, the oldest id makes room. */
#ifndef WICK_STORE_IDS_H
#define WICK_STORE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define STORE_ID_SIZE	 16
#define STORE_IDS_KEPT	 65536
#define STORE_ID_BUCKETS 131072

struct id_entry {
	uint8_t id[STORE_ID_SIZE];
	uint64_t sequence; /* of its record */
	uint32_t next;	   /* in its bucket: index + 1, 0 = none */
};
struct id_ring {
	struct id_entry *entries;
	uint32_t *buckets; /* index + 1 of the first entry */
	size_t start, count;
	uint64_t seed; /* ids come from outside; nobody shall fill one bucket */
};
int id_ring_init(struct id_ring *ring, struct error *err);
void id_ring_release(struct id_ring *ring);
bool id_is_set(const uint8_t id[STORE_ID_SIZE]); /* not all zero */
void id_ring_add(struct id_ring *ring, const uint8_t id[STORE_ID_SIZE], uint64_t sequence);
bool id_ring_find(const struct id_ring *ring, const uint8_t id[STORE_ID_SIZE], uint64_t *ret_sequence);
/* Takes back the ids of records above `sequence`, which are the newest. */
void id_ring_rewind(struct id_ring *ring, uint64_t sequence);

#endif
