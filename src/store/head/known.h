/* SPDX-License-Identifier: Apache-2.0 */
/* From 128-bit keys to ids: what a head has taken over before. */
#ifndef WICK_STORE_HEAD_KNOWN_H
#define WICK_STORE_HEAD_KNOWN_H

#include "base/hash.h"
#include "base/map.h"

struct known {
	struct known_entry {
		struct hash128 key;
		uint32_t id;
	} * entries;
	size_t count, capacity;
	struct index32 index;
};
void known_release(struct known *known);
/* What comes is in no cache: asks for the place in the index, then for the entry that it leads to, before known_find() waits.
 */
void known_fetch_index(const struct known *known, struct hash128 key);
void known_fetch_entry(const struct known *known, struct hash128 key);
bool known_find(const struct known *known, struct hash128 key, uint32_t *ret_id);
int known_add(struct known *known, struct hash128 key, uint32_t id); /* not there yet; 0 or -ENOMEM */
#define KNOWN_ENTRY_BYTES 48					     /* memory of one, with the index */

#endif
