/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of a profile's stacks, locations and label sets: 128-bit hashes with a seed of the caller's, for recognising in one
 * lookup what was taken over from an earlier profile. Agents send the same stacks every few seconds; copying one frame by frame
 * looks up every frame, its function and its mapping in tables that no cache holds.
 *
 * Unlike profile_hash_stacks(), whose hashes are stored and leave out what is no part of a stack's identity, these cover all
 * that profile_copy_stack() or profile_copy_location() would copy: equal keys (under one seed) mean that copying gives the same
 * id. The seed is secret, since whoever could make two stacks collide would have one counted as the other.
 */
#ifndef WICK_PROFILE_KEYS_H
#define WICK_PROFILE_KEYS_H

#include "profile/labels.h"
#include "profile/profile.h"

struct profile_keys {
	struct hash128 *stacks;	    /* by stack id */
	struct hash128 *locations;  /* by location id */
	struct hash128 *label_sets; /* by label set id; with the base labels and the profile's resource labels */
};
/* base: labels that are added to every set, see labels_of_sample(); NULL = none. */
int profile_keys_make(const struct profile *profile, const struct labels *base, uint64_t seed, struct profile_keys *ret,
		      struct error *err);
void profile_keys_release(struct profile_keys *keys);

#endif
