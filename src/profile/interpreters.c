/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a frame is depends on the frames that it calls: `main` of the interpreter is left out of the stacks that go on to a
 * Python function, and stays in those that end in it. So a stack does not become one other stack, as with most filters, but one
 * for each set of interpreters of the stacks that it is part of. There are few of those sets, mostly none and one, and they
 * grow along a stack: a set is an interpreter added to another set, and has a number. The first pass finds which binaries are
 * called by functions of which runtime. The second gives each stack the set of its own frames, callers first. The third goes
 * from the stack of each sample up to the root, and remembers at each caller what it last became with which set; so the stacks
 * of one program are gone through once.
 */
#include "profile/interpreters.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "profile/profile_int.h"

#define INTERPRETERS_MAX 16 /* of one stack; further ones stay in it */

/* Sets of binaries; 0 is the empty one. */
struct set {
	uint32_t rest; /* the set without `binary` */
	uint32_t binary, count;
};

struct hiding {
	struct profile *profile;
	uint32_t *binaries; /* by mapping: the first mapping of the same binary, 0 = not known */
	bool *ends_samples; /* by binary: samples end in interpreted functions of it */
	struct set *sets;
	size_t set_count, set_capacity;
	struct map64 set_ids;	    /* of rest and binary */
	struct map64 loops;	    /* by the binaries of an interpreted function and of a native frame that it calls */
	uint32_t *set_of;	    /* by stack */
	uint32_t *became_with;	    /* by stack: the set that `became` was made with; 0 = none yet */
	uint32_t *became, *pending; /* by stack; callers on the way, at most as many as there are stacks */
};

static void hiding_release(struct hiding *hiding)
{
	mem_free(hiding->binaries);
	mem_free(hiding->ends_samples);
	mem_free(hiding->sets);
	map64_release(&hiding->set_ids);
	map64_release(&hiding->loops);
	mem_free(hiding->set_of);
	mem_free(hiding->became_with);
	mem_free(hiding->became);
	mem_free(hiding->pending);
}

static bool has_interpreted_frames(const struct profile *profile)
{
	for (size_t i = 1; i < profile->location_count; i++)
		if (profile->locations[i].frame_type == PROFILE_FRAME_INTERPRETED)
			return true;
	return false;
}

/* Mappings of a binary differ by process and by where they lie in it. */
static int find_binaries(struct hiding *hiding, struct error *err)
{
	const struct profile *profile = hiding->profile;
	_cleanup_(mem_freep) uint32_t *first = mem_zalloc_array(profile->strings.count, sizeof(*first));
	hiding->binaries = mem_zalloc_array(profile->mapping_count, sizeof(*hiding->binaries));
	if (!first || !hiding->binaries)
		return error_nomem(err);
	for (uint32_t i = 1; i < profile->mapping_count; i++) {
		const struct profile_mapping *mapping = &profile->mappings[i];
		uint32_t name = mapping->build_id ? mapping->build_id : mapping->file_name;
		if (name && !first[name])
			first[name] = i;
		hiding->binaries[i] = name ? first[name] : 0;
	}
	return 0;
}

static int find_ends(struct hiding *hiding, struct error *err)
{
	const struct profile *profile = hiding->profile;
	hiding->ends_samples = mem_zalloc_array(profile->mapping_count, sizeof(bool));
	if (!hiding->ends_samples)
		return error_nomem(err);
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_location *leaf = &profile->locations[profile->stacks[profile->samples[i].stack].location];
		if (leaf->frame_type == PROFILE_FRAME_INTERPRETED)
			hiding->ends_samples[hiding->binaries[leaf->mapping]] = true;
	}
	return 0;
}

static int hiding_init(struct hiding *hiding, struct error *err)
{
	size_t count = hiding->profile->stack_count;
	map64_init_guarded(&hiding->set_ids);
	map64_init_guarded(&hiding->loops);
	hiding->set_of = mem_zalloc_array(count, sizeof(*hiding->set_of));
	hiding->became_with = mem_zalloc_array(count, sizeof(*hiding->became_with));
	hiding->became = mem_zalloc_array(count, sizeof(*hiding->became));
	hiding->pending = mem_alloc_array(count, sizeof(*hiding->pending));
	if (!hiding->set_of || !hiding->became_with || !hiding->became || !hiding->pending ||
	    array_push(&hiding->sets, &hiding->set_count, &hiding->set_capacity, UINT32_MAX, (struct set){0}) < 0)
		return error_nomem(err);
	int r = find_binaries(hiding, err);
	return r < 0 ? r : find_ends(hiding, err);
}

/* ---- sets of interpreters ---- */

static bool set_has(const struct hiding *hiding, uint32_t set, uint32_t binary)
{
	for (; set; set = hiding->sets[set].rest)
		if (hiding->sets[set].binary == binary)
			return true;
	return false;
}

static int set_add(struct hiding *hiding, uint32_t *set, uint32_t binary, struct error *err)
{
	struct set more = {.rest = *set, .binary = binary, .count = hiding->sets[*set].count + 1};
	uint64_t id, key = (uint64_t)*set << 32 | binary;
	if (more.count > INTERPRETERS_MAX || set_has(hiding, *set, binary))
		return 0;
	if (!map64_get(&hiding->set_ids, key, &id)) {
		id = hiding->set_count;
		if (array_push(&hiding->sets, &hiding->set_count, &hiding->set_capacity, UINT32_MAX, more) < 0 ||
		    map64_put(&hiding->set_ids, key, id) < 0)
			return error_nomem(err);
	}
	*set = (uint32_t)id;
	return 0;
}

/* Whether it is an interpreted function, and the loop that runs it is in the stacks. */
static bool has_loop(const struct hiding *hiding, uint32_t location)
{
	const struct profile_location *entry = &hiding->profile->locations[location];
	return entry->frame_type == PROFILE_FRAME_INTERPRETED && !hiding->ends_samples[hiding->binaries[entry->mapping]];
}

/* The binary of a native frame; 0 = it is none, or in none that is known. */
static uint32_t native_binary(const struct hiding *hiding, uint32_t location)
{
	const struct profile_location *entry = &hiding->profile->locations[location];
	return entry->frame_type == PROFILE_FRAME_NATIVE ? hiding->binaries[entry->mapping] : 0;
}

/* What stands in a stack for callers that are missing. */
static bool is_mark(const struct hiding *hiding, uint32_t location)
{
	const struct profile_location *entry = &hiding->profile->locations[location];
	return entry->frame_type == PROFILE_FRAME_UNKNOWN && !entry->mapping;
}

static uint64_t loop_key(const struct hiding *hiding, uint32_t location, uint32_t binary)
{
	return (uint64_t)hiding->binaries[hiding->profile->locations[location].mapping] << 32 | binary;
}

static int find_loops(struct hiding *hiding, struct error *err)
{
	const struct profile *profile = hiding->profile;
	for (uint32_t i = 1; i < profile->stack_count; i++) {
		uint32_t caller = profile->stacks[profile->stacks[i].parent].location;
		uint32_t binary = native_binary(hiding, profile->stacks[i].location);
		if (binary && has_loop(hiding, caller) && map64_put(&hiding->loops, loop_key(hiding, caller, binary), 1) < 0)
			return error_nomem(err);
	}
	return 0;
}

/* Whether a native frame of the binary, called by the stack, is one of an interpreter. Where callers are missing it is, if
 * other stacks have it as the interpreter of the functions before them. */
static bool is_loop(const struct hiding *hiding, const struct profile_stack *caller, uint32_t binary)
{
	uint64_t unused;
	if (has_loop(hiding, caller->location))
		return true;
	if (!is_mark(hiding, caller->location))
		return false;
	uint32_t before = hiding->profile->stacks[caller->parent].location;
	return has_loop(hiding, before) && map64_get(&hiding->loops, loop_key(hiding, before, binary), &unused);
}

static int find_sets(struct hiding *hiding, struct error *err)
{
	const struct profile *profile = hiding->profile;
	int r = find_loops(hiding, err);
	for (uint32_t i = 1; r == 0 && i < profile->stack_count; i++) {
		const struct profile_stack *stack = &profile->stacks[i];
		uint32_t binary = native_binary(hiding, stack->location);
		hiding->set_of[i] = hiding->set_of[stack->parent];
		if (binary && is_loop(hiding, &profile->stacks[stack->parent], binary))
			r = set_add(hiding, &hiding->set_of[i], binary, err);
	}
	return r;
}

/* ---- stacks ---- */

/* A stack without the native frames of a set of binaries. */
static int hide_from(struct hiding *hiding, uint32_t stack, uint32_t set, uint32_t *ret, struct error *err)
{
	struct profile *profile = hiding->profile;
	size_t depth = 0;
	uint32_t at = stack;
	for (; at && hiding->became_with[at] != set; at = profile->stacks[at].parent)
		hiding->pending[depth++] = at;
	uint32_t made = at ? hiding->became[at] : 0;
	while (depth-- > 0) {
		at = hiding->pending[depth];
		struct profile_stack entry = profile->stacks[at];
		uint32_t binary = native_binary(hiding, entry.location);
		int r = 0;
		if (!binary || !set_has(hiding, set, binary))
			r = profile_add_stack(profile, made, entry.location, &made, err);
		if (r < 0)
			return r;
		hiding->became_with[at] = set;
		hiding->became[at] = made;
	}
	*ret = made;
	return 0;
}

int profile_hide_interpreters(struct profile *profile, bool *ret_changed, struct error *err)
{
	_cleanup_(hiding_release) struct hiding hiding = {.profile = profile};
	*ret_changed = false;
	if (!has_interpreted_frames(profile))
		return 0;
	_cleanup_(mem_freep) uint32_t *to = mem_alloc_array(profile->sample_count, sizeof(*to));
	int r = to || profile->sample_count == 0 ? hiding_init(&hiding, err) : error_nomem(err);
	if (r == 0)
		r = find_sets(&hiding, err);
	for (size_t i = 0; r == 0 && i < profile->sample_count; i++) {
		uint32_t stack = profile->samples[i].stack, set = hiding.set_of[stack];
		to[i] = stack;
		if (set)
			r = hide_from(&hiding, stack, set, &to[i], err);
		*ret_changed |= to[i] != stack;
	}
	if (r < 0 || !*ret_changed) {
		*ret_changed = false;
		return r;
	}
	for (size_t i = 0; i < profile->sample_count; i++)
		profile->samples[i].stack = to[i];
	profile_forget_sample_index(profile);
	return 0;
}
