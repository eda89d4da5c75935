/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a profile.
 *
 * Interning. Each table has a set of (hash, id) beside it; the key is the entry itself, so nothing is stored twice and there is
 * no allocation per entry. Keys are made of ids, which are fixed-size integers, and are hashed by one multiplication a word.
 * The hash is seeded per process (AT_RANDOM), because profiles come from outside and a known hash could be fed with entries
 * that all collide. It never leaves the process; the persistent identity of stacks is hash.c's.
 *
 * Stacks are the hot table: a decoder adds one entry per frame of every sample, nearly all of which exist. They have a table
 * of their own: slots hold nothing but a 32-bit id, half of them free, and the entry itself (parent, location) is compared. A
 * slot with the key inside would save a dependent load on a hit but is four times as large, and tries of real profiles live in
 * the second-level cache at four bytes a slot and not at sixteen. Growing rehashes from the dense table, in order.
 *
 * A path that was new when it was added lies in consecutive entries, so the first child of most stacks is the entry behind it.
 * That entry is looked at before the table is asked, and is not in the table at all: the tails of stacks, which are most of a
 * trie, are found by reading on, and the table holds no more than the branches.
 *
 * Entry 0. The empty string, mapping, label set and link are in their tables, so adding one gives 0. Functions, locations and
 * stacks start with an entry that is *not* in the table: an empty function is what a file says when it knows that there is a
 * frame but not which, and if it became 0 ("no function", "no frame") then encoding the profile again would lose the frame.
 *
 * Failure. Every function makes all the room that it needs before it changes anything, so a failed call leaves the profile as
 * it was, except for spare capacity.
 */
#include "profile/profile_int.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/limits.h"

/* ---- life ---- */

static int add_first_entries(struct profile *profile, struct error *err)
{
	struct profile_index *index = profile->index;
	uint32_t id;
	int r = profile_table_begin(profile, PROFILE_TABLE(profile, function, functions, "functions", NULL), err);
	if (r == 0)
		r = profile_table_begin(profile, PROFILE_TABLE(profile, location, locations, "locations", NULL), err);
	if (r == 0)
		r = profile_reserve_array(profile, "stacks", &profile->stacks, &index->stack_capacity, 1, err);
	if (r == 0)
		r = profile_reserve_array(profile, "stacks", &index->stack_depths, &index->stack_depth_capacity, 1, err);
	if (r < 0)
		return r;
	profile->stacks[profile->stack_count++] = (struct profile_stack){0};
	index->stack_depths[0] = 0;
	r = profile_add_mapping(profile, &(struct profile_mapping){0}, &id, err);
	if (r == 0)
		r = profile_table_begin(profile, PROFILE_TABLE(profile, label_set, label_sets, "label sets", NULL), err);
	return r < 0 ? r : profile_add_link(profile, &(struct profile_link){0}, &id, err);
}

int profile_new(struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = mem_zalloc(sizeof(*profile));
	if (!profile)
		return error_nomem(err);
	profile->index = mem_zalloc(sizeof(*profile->index));
	if (!profile->index)
		return error_nomem(err);
	profile->index->entities_max = LIMIT_PROFILE_ENTITIES;
	profile->index->seed = hash64_secret();
	if (intern_init(&profile->strings, LIMIT_PROFILE_STRING_BYTES) < 0)
		return error_nomem(err);
	int r = add_first_entries(profile, err);
	if (r < 0)
		return r;
	profile->index->merge_mappings_seen = 1;
	*ret = TAKE(profile);
	return 0;
}

static void index_free(struct profile_index *index)
{
	if (!index)
		return;
	index32_release(&index->mappings);
	index32_release(&index->functions);
	index32_release(&index->locations);
	index32_release(&index->label_sets);
	index32_release(&index->links);
	index32_release(&index->merge_mappings);
	index32_release(&index->samples);
	mem_free(index->stack_slots);
	mem_free(index->stack_depths);
	mem_free(index);
}

struct profile *profile_free(struct profile *profile)
{
	if (!profile)
		return NULL;
	index_free(profile->index);
	intern_release(&profile->strings);
	mem_free(profile->mappings);
	mem_free(profile->functions);
	mem_free(profile->lines);
	mem_free(profile->locations);
	mem_free(profile->stacks);
	mem_free(profile->labels);
	mem_free(profile->label_sets);
	mem_free(profile->links);
	mem_free(profile->samples);
	mem_free(profile->values);
	mem_free(profile->sample_types);
	mem_free(profile->comments);
	profile_markers_free(profile->markers);
	return mem_free(profile);
}

/* ---- room ---- */

int profile_reserve(struct profile *profile, const char *what, void **array, size_t *capacity, size_t need, size_t element_size,
		    struct error *err)
{
	size_t max = profile->index->entities_max;
	int r = array_reserve_bytes(array, capacity, need, element_size, max);
	if (r == -E2BIG)
		return error_set(err, r, "the profile has more than %zu %s, the limit; split it", max, what);
	return r < 0 ? error_nomem(err) : 0;
}

int profile_table_grow(struct profile *profile, const struct profile_table *table, struct error *err)
{
	int r = profile_reserve(profile, table->what, table->entries, table->capacity, *table->count + 1, table->size, err);
	if (r < 0)
		return r;
	return index32_reserve(table->index, 1) < 0 ? error_nomem(err) : 0;
}

/* What a table of `count` entries is to hold. */
static size_t with_room(const struct profile *profile, size_t count, size_t more)
{
	size_t max = profile->index->entities_max, need = count + (more < PROFILE_ROOM_MAX ? more : PROFILE_ROOM_MAX);
	return need < max ? need : max > count ? max : count;
}

static int grow_stack_slots(struct profile *profile, size_t branches, struct error *err);

/* Of a stack, about a quarter of its frames is where it branches off others. */
#define FRAMES_PER_BRANCH 4

int profile_make_room(struct profile *profile, const struct profile_room *room, struct error *err)
{
	struct profile_index *index = profile->index;
	/* Indexes twice as large as they must be: there is less to step over in them. */
	size_t strings = with_room(profile, profile->strings.count, room->strings);
	size_t functions = with_room(profile, profile->function_count, room->functions);
	size_t locations = with_room(profile, profile->location_count, room->locations);
	size_t lines = with_room(profile, profile->line_count, room->lines);
	size_t stacks = with_room(profile, profile->stack_count, room->stacks);
	size_t samples = with_room(profile, profile->sample_count, room->samples);
	if (intern_reserve(&profile->strings, strings) < 0 ||
	    array_reserve(&profile->functions, &index->function_capacity, functions, SIZE_MAX) < 0 ||
	    array_reserve(&profile->locations, &index->location_capacity, locations, SIZE_MAX) < 0 ||
	    array_reserve(&profile->lines, &index->line_capacity, lines, SIZE_MAX) < 0 ||
	    array_reserve(&profile->stacks, &index->stack_capacity, stacks, SIZE_MAX) < 0 ||
	    array_reserve(&index->stack_depths, &index->stack_depth_capacity, stacks, SIZE_MAX) < 0 ||
	    array_reserve(&profile->samples, &index->sample_capacity, samples, SIZE_MAX) < 0 ||
	    index32_reserve(&index->functions, 2 * (functions - profile->function_count)) < 0 ||
	    index32_reserve(&index->locations, 2 * (locations - profile->location_count)) < 0)
		return error_nomem(err);
	size_t branches = index->stack_branch_count + (stacks - profile->stack_count) / FRAMES_PER_BRANCH;
	return !branches || branches < index->stack_slot_count / 2 ? 0 : grow_stack_slots(profile, branches, err);
}

int profile_table_begin(struct profile *profile, struct profile_table table, struct error *err)
{
	int r = profile_reserve(profile, table.what, table.entries, table.capacity, 1, table.size, err);
	if (r < 0)
		return r;
	memset(*table.entries, 0, table.size);
	*table.count = 1;
	return 0;
}

void profile_table_release(struct profile_table table)
{
	index32_release(table.index);
	mem_free(*table.entries);
}

/* ---- strings and types ---- */

int profile_add_string(struct profile *profile, const void *data, size_t len, uint32_t *ret_id, struct error *err)
{
	size_t max = profile->index->entities_max;
	if (__builtin_expect(profile->strings.count >= max, 0)) {
		if (intern_find(&profile->strings, data, len, ret_id))
			return 0;
		return error_set(err, -E2BIG, "the profile has more than %zu strings, the limit; split it", max);
	}
	int r = intern_add(&profile->strings, data, len, ret_id);
	if (r == -E2BIG)
		return error_set(err, r, "the profile's strings have more than %zu bytes, the limit; split it",
				 profile->strings.arena.max_bytes);
	return r < 0 ? error_nomem(err) : 0;
}

int profile_add_cstring(struct profile *profile, const char *text, uint32_t *ret_id, struct error *err)
{
	return profile_add_string(profile, text, strlen(text), ret_id, err);
}

static int push_sample_type(struct profile *profile, uint32_t type, uint32_t unit, struct error *err)
{
	assert(type < profile->strings.count && unit < profile->strings.count);
	int r = array_push(&profile->sample_types, &profile->sample_type_count, &profile->index->sample_type_capacity,
			   LIMIT_SAMPLE_TYPES, (struct profile_value_type){.type = type, .unit = unit});
	if (r == -E2BIG)
		return error_set(err, r, "the profile has more than %d sample types, the limit", LIMIT_SAMPLE_TYPES);
	return r < 0 ? error_nomem(err) : 0;
}

int profile_add_sample_type(struct profile *profile, uint32_t type, uint32_t unit, struct error *err)
{
	if (profile->sample_count > 0)
		return error_set(err, -EINVAL, "sample type '%.64s' comes after the first sample; declare it first",
				 profile_string(profile, type));
	return push_sample_type(profile, type, unit, err);
}

int profile_append_sample_type(struct profile *profile, uint32_t type, uint32_t unit, struct error *err)
{
	size_t types = profile->sample_type_count, count = profile->sample_count;
	int r = array_reserve(&profile->values, &profile->index->value_capacity, count * (types + 1), SIZE_MAX);
	r = r < 0 ? error_nomem(err) : push_sample_type(profile, type, unit, err);
	if (r < 0)
		return r;
	/* Each moves up, so the last goes first. */
	for (size_t i = count; i-- > 0;) {
		memmove(&profile->values[i * (types + 1)], &profile->values[i * types], types * sizeof(*profile->values));
		profile->values[i * (types + 1) + types] = 0;
	}
	return 0;
}

int profile_add_named_type(struct profile *profile, const char *type, const char *unit, struct error *err)
{
	uint32_t type_id, unit_id;
	int r = profile_add_cstring(profile, type, &type_id, err);
	if (r == 0)
		r = profile_add_cstring(profile, unit, &unit_id, err);
	return r < 0 ? r : profile_add_sample_type(profile, type_id, unit_id, err);
}

int profile_add_comment(struct profile *profile, uint32_t text, struct error *err)
{
	assert(text < profile->strings.count);
	int r = profile_reserve_array(profile, "comments", &profile->comments, &profile->index->comment_capacity,
				      profile->comment_count + 1, err);
	if (r < 0)
		return r;
	profile->comments[profile->comment_count++] = text;
	return 0;
}

int profile_add_comment_text(struct profile *profile, const char *text, struct error *err)
{
	uint32_t id;
	int r = profile_add_cstring(profile, text, &id, err);
	return r < 0 ? r : profile_add_comment(profile, id, err);
}

/* ---- mappings ---- */

static uint64_t hash_mapping(const struct profile *profile, const struct profile_mapping *mapping)
{
	uint64_t hash = profile_hash_add(profile->index->seed, mapping->start);
	hash = profile_hash_add(hash, mapping->limit);
	hash = profile_hash_add(hash, mapping->offset);
	hash = profile_hash_add(hash, (uint64_t)mapping->file_name << 32 | mapping->build_id);
	hash = profile_hash_add(hash, mapping->go_id);
	return profile_hash_add(hash, (uint64_t)mapping->content << 32 | mapping->flags);
}

static bool mappings_equal(const void *left, const void *right)
{
	const struct profile_mapping *a = left, *b = right;
	return a->start == b->start && a->limit == b->limit && a->offset == b->offset && a->file_name == b->file_name &&
	       a->build_id == b->build_id && a->flags == b->flags && a->content == b->content && a->go_id == b->go_id;
}

int profile_add_mapping(struct profile *profile, const struct profile_mapping *mapping, uint32_t *ret_id, struct error *err)
{
	assert(mapping->file_name < profile->strings.count && mapping->build_id < profile->strings.count &&
	       mapping->content < profile->strings.count && mapping->go_id < profile->strings.count);
	return profile_intern(profile, PROFILE_TABLE(profile, mapping, mappings, "mappings", mappings_equal), mapping,
			      hash_mapping(profile, mapping), ret_id, err);
}

/* ---- functions ---- */

static uint64_t hash_function(const struct profile *profile, const struct profile_function *function)
{
	uint64_t hash = profile_hash_add(profile->index->seed, (uint64_t)function->name << 32 | function->system_name);
	hash = profile_hash_add(hash, function->file_name);
	return profile_hash_add(hash, (uint64_t)function->start_line);
}

static bool functions_equal(const void *left, const void *right)
{
	const struct profile_function *a = left, *b = right;
	return a->name == b->name && a->system_name == b->system_name && a->file_name == b->file_name &&
	       a->start_line == b->start_line;
}

int profile_add_function(struct profile *profile, const struct profile_function *function, uint32_t *ret_id, struct error *err)
{
	assert(function->name < profile->strings.count && function->system_name < profile->strings.count &&
	       function->file_name < profile->strings.count);
	return profile_intern(profile, PROFILE_TABLE(profile, function, functions, "functions", functions_equal), function,
			      hash_function(profile, function), ret_id, err);
}

/* ---- locations ---- */

static uint64_t hash_location(const struct profile *profile, const struct profile_location *location,
			      const struct profile_line *lines, size_t line_count)
{
	uint64_t hash = profile_hash_add(profile->index->seed, location->address);
	hash = profile_hash_add(hash,
				(uint64_t)location->mapping << 32 | (uint64_t)location->folded << 31 | location->frame_type);
	for (size_t i = 0; i < line_count; i++) {
		hash = profile_hash_add(hash, lines[i].function);
		hash = profile_hash_add(hash, (uint64_t)lines[i].line);
		hash = profile_hash_add(hash, (uint64_t)lines[i].column);
	}
	return hash;
}

static bool lines_equal(const struct profile_line *a, const struct profile_line *b, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (a[i].function != b[i].function || a[i].line != b[i].line || a[i].column != b[i].column)
			return false;
	return true;
}

static bool find_location(const struct profile *profile, uint64_t hash, const struct profile_location *key,
			  const struct profile_line *lines, size_t line_count, uint32_t *ret_id)
{
	const struct index32 *index = &profile->index->locations;
	uint32_t id;
	for (size_t at = index32_first(index, hash); index32_at(index, hash, &at, &id); at++) {
		const struct profile_location *have = &profile->locations[id];
		if (have->address == key->address && have->mapping == key->mapping && have->folded == key->folded &&
		    have->frame_type == key->frame_type && have->line_count == line_count &&
		    (line_count == 0 || lines_equal(profile->lines + have->line_first, lines, line_count))) {
			*ret_id = id;
			return true;
		}
	}
	return false;
}

/* *lines may lie in the profile itself, and then moves with it. */
static inline int reserve_lines(struct profile *profile, const struct profile_line **lines, size_t line_count,
				struct error *err)
{
	for (size_t i = 0; i < line_count; i++)
		assert((*lines)[i].function < profile->function_count);
	size_t room = profile->index->line_capacity - profile->line_count;
	if (line_count <= room && profile->line_count + line_count <= profile->index->entities_max)
		return 0;
	size_t need, own = profile_own_index(profile->lines, profile->line_count, *lines, sizeof(**lines));
	if (__builtin_add_overflow(profile->line_count, line_count, &need))
		need = SIZE_MAX;
	int r = profile_reserve_array(profile, "lines", &profile->lines, &profile->index->line_capacity, need, err);
	if (r == 0 && own != SIZE_MAX)
		*lines = profile->lines + own;
	return r;
}

static void append_lines(struct profile *profile, struct profile_location *location, const struct profile_line *lines,
			 size_t line_count)
{
	location->line_first = line_count > 0 ? (uint32_t)profile->line_count : 0;
	location->line_count = (uint32_t)line_count;
	if (line_count > 0)
		memcpy(profile->lines + profile->line_count, lines, line_count * sizeof(*lines));
	profile->line_count += line_count;
}

int profile_add_location(struct profile *profile, const struct profile_location *location, const struct profile_line *lines,
			 size_t line_count, uint32_t *ret_id, struct error *err)
{
	assert(location->mapping < profile->mapping_count);
	const struct profile_location entry = *location;
	const struct profile_table table = PROFILE_TABLE(profile, location, locations, "locations", NULL);
	uint64_t hash = hash_location(profile, location, lines, line_count);
	if (find_location(profile, hash, location, lines, line_count, ret_id))
		return 0;
	int r = profile_table_reserve(profile, &table, err);
	if (r == 0)
		r = reserve_lines(profile, &lines, line_count, err);
	if (r < 0)
		return r;
	*ret_id = profile_table_append(&table, &entry, hash);
	append_lines(profile, &profile->locations[*ret_id], lines, line_count);
	return 0;
}

int profile_set_location_lines(struct profile *profile, uint32_t location, const struct profile_line *lines, size_t line_count,
			       struct error *err)
{
	assert(location > 0 && location < profile->location_count);
	struct profile_location *entry = &profile->locations[location];
	if (index32_reserve(&profile->index->locations, 1) < 0)
		return error_nomem(err);
	int r = reserve_lines(profile, &lines, line_count, err);
	if (r < 0)
		return r;
	/* The slot of the old key stays: it leads to an entry that no longer compares equal, which a search passes over. */
	append_lines(profile, entry, lines, line_count);
	return index32_add(&profile->index->locations, hash_location(profile, entry, lines, line_count), location);
}

/* ---- stacks ---- */

static inline uint64_t hash_stack(const struct profile_index *index, uint32_t parent, uint32_t location)
{
	return profile_hash_fold(((uint64_t)parent << 32 | location) ^ index->seed, 0x9e3779b97f4a7c15ull);
}

/* The hash's upper half stands beside the id: a stack that is another one is passed over without a look at it, which would be a
 * miss of the cache. */
static inline uint64_t slot_of(uint64_t hash, uint32_t id)
{
	return (hash & 0xffffffff00000000ull) | id;
}

#define STACK_SLOTS_FIRST 64

static void fill_stack_slot(struct profile_index *index, const struct profile_stack *stack, uint32_t id)
{
	uint64_t hash = hash_stack(index, stack->parent, stack->location);
	size_t at = hash & (index->stack_slot_count - 1);
	while (index->stack_slots[at])
		at = (at + 1) & (index->stack_slot_count - 1);
	index->stack_slots[at] = slot_of(hash, id);
}

/* For at least `branches`, and one more. */
static int grow_stack_slots(struct profile *profile, size_t branches, struct error *err)
{
	struct profile_index *index = profile->index;
	size_t count = STACK_SLOTS_FIRST;
	while (count / 2 <= branches)
		count *= 2;
	uint64_t *slots = mem_zalloc_array(count, sizeof(*slots));
	if (!slots)
		return error_nomem(err);
	mem_free(index->stack_slots);
	index->stack_slots = slots;
	index->stack_slot_count = count;
	for (uint32_t id = 1; id < profile->stack_count; id++)
		if (profile->stacks[id].parent + 1 != id)
			fill_stack_slot(index, &profile->stacks[id], id);
	return 0;
}

static int add_new_stack(struct profile *profile, uint32_t parent, uint32_t location, uint32_t *ret_id, struct error *err)
{
	struct profile_index *index = profile->index;
	unsigned depth = index->stack_depths[parent] + 1u;
	if (depth > LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "a stack is deeper than %d frames, the limit", LIMIT_STACK_DEPTH);
	size_t need = profile->stack_count + 1;
	int r = profile_reserve_array(profile, "stacks", &profile->stacks, &index->stack_capacity, need, err);
	if (r < 0)
		return r;
	r = profile_reserve_array(profile, "stacks", &index->stack_depths, &index->stack_depth_capacity, need, err);
	if (r < 0)
		return r;
	uint32_t id = (uint32_t)profile->stack_count;
	bool is_branch = parent + 1 != id;
	if (is_branch && index->stack_branch_count >= index->stack_slot_count / 2) {
		r = grow_stack_slots(profile, index->stack_branch_count, err);
		if (r < 0)
			return r;
	}
	profile->stacks[id] = (struct profile_stack){.parent = parent, .location = location};
	index->stack_depths[id] = (uint16_t)depth;
	profile->stack_count++;
	if (is_branch) {
		fill_stack_slot(index, &profile->stacks[id], id);
		index->stack_branch_count++;
	}
	*ret_id = id;
	return 0;
}

static inline bool is_stack(const struct profile *profile, uint32_t id, uint32_t parent, uint32_t location)
{
	return profile->stacks[id].parent == parent && profile->stacks[id].location == location;
}

void profile_take_samples(struct profile *profile, struct profile_samples *ret)
{
	struct profile_index *index = profile->index;
	*ret = (struct profile_samples){.samples = profile->samples,
					.values = profile->values,
					.count = profile->sample_count,
					.type_count = profile->sample_type_count};
	if (profile->sample_type_count)
		ret->type = profile->sample_types[0];
	profile->samples = NULL;
	profile->values = NULL;
	profile->sample_count = profile->sample_type_count = 0;
	profile->default_sample_type = 0;
	index->sample_capacity = index->value_capacity = 0;
	profile_forget_sample_index(profile);
}

void profile_samples_release(struct profile_samples *samples)
{
	mem_free(samples->samples);
	mem_free(samples->values);
	*samples = (struct profile_samples){0};
}

/* Without memory to move it, it stays as large as it is. */
#define SHRINK(array, capacity, count)                                                                                         \
	({                                                                                                                     \
		void *moved = mem_realloc_array((array), (count), sizeof(*(array)));                                           \
		if (moved) {                                                                                                   \
			(array) = moved;                                                                                       \
			(capacity) = (count);                                                                                  \
		}                                                                                                              \
	})

void profile_shrink_stacks(struct profile *profile)
{
	struct profile_index *index = profile->index;
	index->stack_slots = mem_free(index->stack_slots);
	index->stack_slot_count = 0;
	index32_release(&index->samples);
	index->samples_seen = 0;
	SHRINK(profile->stacks, index->stack_capacity, profile->stack_count);
	index->stack_depths = mem_free(index->stack_depths);
	index->stack_depth_capacity = 0;
	SHRINK(profile->samples, index->sample_capacity, profile->sample_count);
}

static int make_stack_depths(struct profile *profile, struct error *err)
{
	struct profile_index *index = profile->index;
	index->stack_depths = mem_alloc_array(profile->stack_count, sizeof(*index->stack_depths));
	if (!index->stack_depths)
		return error_nomem(err);
	index->stack_depth_capacity = profile->stack_count;
	index->stack_depths[0] = 0;
	for (size_t i = 1; i < profile->stack_count; i++)
		index->stack_depths[i] = (uint16_t)(index->stack_depths[profile->stacks[i].parent] + 1);
	return 0;
}

/* What profile_shrink_stacks() has given back. */
static inline int need_stack_index(struct profile *profile, struct error *err)
{
	const struct profile_index *index = profile->index;
	int r = index->stack_depths ? 0 : make_stack_depths(profile, err);
	return r < 0 || index->stack_slot_count || !index->stack_branch_count
		       ? r
		       : grow_stack_slots(profile, index->stack_branch_count, err);
}

/* The id of an existing stack, or 0. */
static inline uint32_t find_stack(const struct profile *profile, uint32_t parent, uint32_t location)
{
	const struct profile_index *index = profile->index;
	if (parent + 1 < profile->stack_count && is_stack(profile, parent + 1, parent, location))
		return parent + 1;
	if (!index->stack_slot_count)
		return 0;
	uint64_t hash = hash_stack(index, parent, location), slot;
	for (size_t at = hash & (index->stack_slot_count - 1); (slot = index->stack_slots[at]);
	     at = (at + 1) & (index->stack_slot_count - 1))
		if (slot_of(hash, (uint32_t)slot) == slot && is_stack(profile, (uint32_t)slot, parent, location))
			return (uint32_t)slot;
	return 0;
}

uint32_t profile_find_stack(const struct profile *profile, uint32_t parent, uint32_t location)
{
	return find_stack(profile, parent, location);
}

int profile_add_stack(struct profile *profile, uint32_t parent, uint32_t location, uint32_t *ret_id, struct error *err)
{
	assert(parent < profile->stack_count && location < profile->location_count);
	if (need_stack_index(profile, err) < 0)
		return -ENOMEM;
	if (budget_poll())
		return error_nomem(err);
	uint32_t id = find_stack(profile, parent, location);
	if (id == 0)
		return add_new_stack(profile, parent, location, ret_id, err);
	*ret_id = id;
	return 0;
}

int profile_add_new_stack(struct profile *profile, uint32_t parent, uint32_t location, uint32_t *ret_id, struct error *err)
{
	assert(parent < profile->stack_count && location < profile->location_count);
	return need_stack_index(profile, err) < 0 ? -ENOMEM : add_new_stack(profile, parent, location, ret_id, err);
}

/* One frame more: the stack that is there, or a new one. first_new: what is added from here on; what hangs below that is new as
 * well, and need not be looked for. */
static inline int grow_stack(struct profile *profile, uint32_t *stack, uint32_t location, uint32_t first_new, struct error *err)
{
	assert(location < profile->location_count);
	uint32_t id = *stack < first_new ? find_stack(profile, *stack, location) : 0;
	int r = id ? 0 : add_new_stack(profile, *stack, location, &id, err);
	*stack = id;
	return r;
}

int profile_add_stack_frames(struct profile *profile, uint32_t parent, const uint32_t *locations, size_t count,
			     uint32_t *ret_stacks, struct error *err)
{
	assert(parent < profile->stack_count);
	if (need_stack_index(profile, err) < 0)
		return -ENOMEM;
	if (budget_poll())
		return error_nomem(err);
	uint32_t stack = parent, first_new = (uint32_t)profile->stack_count;
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = grow_stack(profile, &stack, locations[i], first_new, err);
		ret_stacks[i] = stack;
	}
	return r;
}

int profile_add_stack_leaf_first(struct profile *profile, const uint32_t *locations, size_t count, uint32_t *ret_id,
				 struct error *err)
{
	if (count > LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "a stack of %zu frames is deeper than %d, the limit", count, LIMIT_STACK_DEPTH);
	if (need_stack_index(profile, err) < 0)
		return -ENOMEM;
	uint32_t stack = 0, first_new = (uint32_t)profile->stack_count;
	int r = 0;
	for (size_t i = count; r == 0 && i-- > 0;)
		r = grow_stack(profile, &stack, locations[i], first_new, err);
	*ret_id = stack;
	return r;
}

/* ---- links and samples ---- */

static bool links_equal(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct profile_link)) == 0;
}

int profile_add_link(struct profile *profile, const struct profile_link *link, uint32_t *ret_id, struct error *err)
{
	uint64_t words[3];
	_Static_assert(sizeof(words) == sizeof(*link), "a link is 24 bytes without padding");
	memcpy(words, link, sizeof(words));
	uint64_t hash = profile_hash_add(profile->index->seed, words[0]);
	hash = profile_hash_add(profile_hash_add(hash, words[1]), words[2]);
	return profile_intern(profile, PROFILE_TABLE(profile, link, links, "links", links_equal), link, hash, ret_id, err);
}

int profile_add_sample(struct profile *profile, const struct profile_sample *sample, const int64_t *values, struct error *err)
{
	assert(sample->stack < profile->stack_count && sample->labels < profile->label_set_count &&
	       sample->link < profile->link_count && sample->numbers < profile->label_set_count);
	/* What copies, filters and merges profiles comes by here or by profile_add_stack(). */
	if (budget_poll())
		return error_nomem(err);
	struct profile_index *index = profile->index;
	const struct profile_sample entry = *sample;
	size_t types = profile->sample_type_count, count = profile->sample_count;
	size_t own = profile_own_index(profile->values, count * types, values, sizeof(*values));
	int r = profile_reserve_array(profile, "samples", &profile->samples, &index->sample_capacity, count + 1, err);
	if (r < 0)
		return r;
	if (types > 0) {
		/* Cannot overflow: the number of samples is limited, and so are the types. Each sample has a value of each
		 * type, also where the input has one of all of them, so a few bytes could take hundreds. */
		size_t max = LIMIT_VALUES_PER_ENTITY * index->entities_max;
		r = array_reserve(&profile->values, &index->value_capacity, (count + 1) * types, max);
		if (r == -E2BIG)
			return error_set(err, r, "the profile has more than %zu values in its samples, the limit; split it",
					 max);
		if (r < 0)
			return error_nomem(err);
		if (own != SIZE_MAX)
			values = profile->values + own;
		memcpy(profile->values + count * types, values, types * sizeof(*values));
	}
	profile->samples[count] = entry;
	profile->sample_count++;
	index->samples_have_times |= entry.time_ns != 0;
	return 0;
}
