/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/profile: the interning tables behind struct profile, and how keys are hashed. Essay at the top of profile.c.
 */
#ifndef WICK_PROFILE_PROFILE_INT_H
#define WICK_PROFILE_PROFILE_INT_H

#include <string.h>

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
	uint16_t *stack_depths;	   /* parallel to profile.stacks; NULL after profile_shrink_stacks() */
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

bool profile_labels_equal(const struct profile_label *a, const struct profile_label *b);

/* Room for `need` entries in an array of the profile; -E2BIG names `what`. */
int profile_reserve(struct profile *profile, const char *what, void **array, size_t *capacity, size_t need, size_t element_size,
		    struct error *err);
#define profile_reserve_array(profile, what, array, capacity, need, err)                                                       \
	(__builtin_expect((need) <= *(capacity) && (need) <= (profile)->index->entities_max, 1)                                \
		 ? 0                                                                                                           \
		 : profile_reserve((profile), (what), (void **)(array), (capacity), (need), sizeof(**(array)), (err)))

/* A table whose entries are found by what they hold. The first is not in the index where the table's own functions say so. */
struct profile_table {
	const char *what; /* for messages */
	void **entries;
	size_t *count, *capacity, size; /* size: of an entry */
	struct index32 *index;
	bool (*equal)(const void *a, const void *b); /* for profile_intern() */
};
/* Of a struct profile or profile_markers: the array `many`, its members one_count, index->one_capacity and index->many. */
#define PROFILE_TABLE(owner, one, many, text, is_equal)                                                                        \
	((struct profile_table){.what = (text),                                                                                \
				.entries = (void **)&(owner)->many,                                                            \
				.count = &(owner)->one##_count,                                                                \
				.capacity = &(owner)->index->one##_capacity,                                                   \
				.size = sizeof(*(owner)->many),                                                                \
				.index = &(owner)->index->many,                                                                \
				.equal = (is_equal)})
/* An empty entry that is not in the index. */
int profile_table_begin(struct profile *profile, struct profile_table table, struct error *err);
void profile_table_release(struct profile_table table);
/* Room for one more entry, then the entry. */
int profile_table_grow(struct profile *profile, const struct profile_table *table, struct error *err);
static inline int profile_table_reserve(struct profile *profile, const struct profile_table *table, struct error *err)
{
	bool has_room = *table->count < *table->capacity && *table->count < profile->index->entities_max &&
			index32_has_room(table->index);
	return __builtin_expect(has_room, 1) ? 0 : profile_table_grow(profile, table, err);
}
static inline uint32_t profile_table_append(const struct profile_table *table, const void *entry, uint64_t hash)
{
	uint32_t id = (uint32_t)(*table->count)++;
	memcpy((char *)*table->entries + id * table->size, entry, table->size);
	index32_insert(table->index, hash, id);
	return id;
}

/* Callers may pass entries of the profile itself; adding moves the tables. The index of `entry` in the table, SIZE_MAX if it
 * lies elsewhere. */
static inline size_t profile_own_index(const void *table, size_t count, const void *entry, size_t element_size)
{
	uintptr_t first = (uintptr_t)table, at = (uintptr_t)entry;
	return at >= first && at < first + count * element_size ? (at - first) / element_size : SIZE_MAX;
}

/* The id of what equals `entry`, which may be of the table itself; added if there is none. Inline so that the comparison is. */
static inline __attribute__((always_inline)) int profile_intern(struct profile *profile, const struct profile_table table,
								const void *entry, uint64_t hash, uint32_t *ret_id,
								struct error *err)
{
	uint32_t id;
	for (size_t at = index32_first(table.index, hash); index32_at(table.index, hash, &at, &id); at++)
		if (table.equal((const char *)*table.entries + id * table.size, entry)) {
			*ret_id = id;
			return 0;
		}
	size_t own = profile_own_index(*table.entries, *table.count, entry, table.size);
	int r = profile_table_reserve(profile, &table, err);
	if (r < 0)
		return r;
	*ret_id = profile_table_append(&table, own == SIZE_MAX ? entry : (char *)*table.entries + own * table.size, hash);
	return 0;
}

/* markers.c */
struct profile_markers *profile_markers_free(struct profile_markers *markers); /* NULL allowed; returns NULL */

struct profile_copy;
/* merge.c: adds the comments that `to` does not have. copy: from `from` to `to`. */
int profile_unite_comments(struct profile *to, const struct profile *from, struct profile_copy *copy, struct error *err);

/* aggregate.c: sample `from` as sample `to`, which is not behind it; and after samples have changed otherwise than by adding.
 */
void profile_move_sample(struct profile *profile, size_t to, size_t from);
void profile_forget_sample_index(struct profile *profile);
bool profile_values_are_zero(const int64_t *values, size_t count);
/* Brings the sample index up to date: afterwards samples are distinct and not zero. Trusts what the index holds. */
int profile_aggregate_new(struct profile *profile, struct error *err);
/* Adds values to the sample with this key, or adds one. The index must be up to date. *ret_became_zero is set when a sum is all
 * zero, and left alone otherwise. */
int profile_accumulate(struct profile *profile, const struct profile_sample *key, const int64_t *values, bool *ret_became_zero,
		       struct error *err);

#endif
