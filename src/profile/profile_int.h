/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/profile: the interning tables behind struct profile, and how keys are hashed. Essay at the top of profile.c.
 */
#ifndef WICK_PROFILE_PROFILE_INT_H
#define WICK_PROFILE_PROFILE_INT_H

#include "base/map.h"
#include "profile/profile.h"

struct profile_index {
	size_t mapping_capacity, function_capacity, line_capacity, location_capacity, stack_capacity, label_capacity,
		label_set_capacity, link_capacity, sample_capacity, value_capacity, comment_capacity, sample_type_capacity;
	struct index32 mappings, functions, locations, label_sets, links;

	/* Ids and half of the hash, open addressing; 0 = free, since the empty stack is never looked up. */
	uint64_t *stack_slots;
	size_t stack_slot_count;   /* 0 or a power of two */
	size_t stack_branch_count; /* slots in use: stacks that are not the entry behind their parent */
	uint16_t *stack_depths;	   /* parallel to profile.stacks */
	size_t stack_depth_capacity;

	/* For merging. The first mapping of each merge key among mappings 1 .. merge_mappings_seen - 1. */
	struct index32 merge_mappings;
	size_t merge_mappings_seen;
	/* Samples 0 .. samples_seen - 1 are distinct in (stack, labels, link, time), not all zero, and all in here. */
	struct index32 samples;
	size_t samples_seen;
	bool samples_have_times;

	size_t entities_max; /* LIMIT_PROFILE_ENTITIES; tests lower it */
	uint64_t seed;	     /* so that nobody outside can choose entries that collide */
};

/* A strong product of two words: one multiplication, both halves folded. */
static inline uint64_t profile_hash_fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Adds one word to a running hash that started with the profile's seed. */
static inline uint64_t profile_hash_add(uint64_t hash, uint64_t word)
{
	return profile_hash_fold(hash ^ 0x9e3779b97f4a7c15ull, word ^ 0xd6e8feb86659fd93ull ^ (hash << 7 | hash >> 57));
}

/* Room for `need` entries in an array of the profile; -E2BIG names `what`. */
int profile_reserve(struct profile *profile, const char *what, void **array, size_t *capacity, size_t need, size_t element_size,
		    struct error *err);
#define profile_reserve_array(profile, what, array, capacity, need, err)                                                       \
	profile_reserve((profile), (what), (void **)(array), (capacity), (need), sizeof(**(array)), (err))

/* Callers may pass entries of the profile itself; adding moves the tables. The index of `entry` in the table, SIZE_MAX if it
 * lies elsewhere. */
static inline size_t profile_own_index(const void *table, size_t count, const void *entry, size_t element_size)
{
	uintptr_t first = (uintptr_t)table, at = (uintptr_t)entry;
	return at >= first && at < first + count * element_size ? (at - first) / element_size : SIZE_MAX;
}

/* markers.c */
struct profile_markers *profile_markers_free(struct profile_markers *markers); /* NULL allowed; returns NULL */

/* merge.c: adds the comments that `to` does not have. copy: from `from` to `to`. */
struct profile_copy;
int profile_unite_comments(struct profile *to, const struct profile *from, struct profile_copy *copy, struct error *err);

/* aggregate.c */
bool profile_values_are_zero(const int64_t *values, size_t count);
/* Brings the sample index up to date: afterwards samples are distinct and not zero. Trusts what the index holds. */
int profile_aggregate_new(struct profile *profile, struct error *err);
/* Adds values to the sample with this key, or adds one. The index must be up to date. *ret_became_zero is set when a sum is all
 * zero, and left alone otherwise. */
int profile_accumulate(struct profile *profile, const struct profile_sample *key, const int64_t *values, bool *ret_became_zero,
		       struct error *err);

#endif
