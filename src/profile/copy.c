/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying parts of one profile into another.
 *
 * Each kind of entry has an array "id in the source -> id in the destination", zero where nothing was copied yet (entry 0 is
 * always entry 0, so zero is free for that). The arrays come zeroed from the kernel and cost memory only where they are
 * touched, so copying a few stacks out of a large profile is cheap.
 *
 * Mappings. A binary is loaded at other addresses in each process, so a mapping is looked up by what it maps: build-id or file
 * name, offset, and size rounded up to 4 KiB (link editors and tools disagree about the last page). Mappings with neither name
 * are compared by offset and size alone, as google/pprof does. The first mapping with a key is kept, and locations of the
 * others are moved to where they would be in it. The index over the destination's mappings lives in the destination and is
 * extended when needed, so several copies into one profile, and mappings added between, all see the same.
 *
 * Stacks. A parent's id is smaller than its child's, so a copy walks up to the first ancestor that was copied before, and comes
 * down again adding one frame at a time. No recursion: depth comes from outside.
 */
#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "profile/merge.h"
#include "profile/profile_int.h"

struct profile_copy {
	struct profile *to;
	const struct profile *from;
	uint32_t *strings, *mappings, *functions, *locations, *stacks, *label_sets, *links;
	/* Scratch */
	struct profile_line *lines;
	size_t line_capacity;
	struct profile_label *labels;
	size_t label_capacity;
	uint32_t *path;
};

static uint32_t *new_ids(size_t count)
{
	return mem_zalloc_array(count, sizeof(uint32_t));
}

int profile_copy_new(struct profile *to, const struct profile *from, struct profile_copy **ret, struct error *err)
{
	assert(to != from);
	_cleanup_(profile_copy_freep) struct profile_copy *copy = mem_zalloc(sizeof(*copy));
	if (!copy)
		return error_nomem(err);
	copy->to = to;
	copy->from = from;
	copy->strings = new_ids(from->strings.count);
	copy->mappings = new_ids(from->mapping_count);
	copy->functions = new_ids(from->function_count);
	copy->locations = new_ids(from->location_count);
	copy->stacks = new_ids(from->stack_count);
	copy->label_sets = new_ids(from->label_set_count);
	copy->links = new_ids(from->link_count);
	copy->path = mem_alloc_array(LIMIT_STACK_DEPTH, sizeof(*copy->path));
	if (!copy->strings || !copy->mappings || !copy->functions || !copy->locations || !copy->stacks || !copy->label_sets ||
	    !copy->links || !copy->path)
		return error_nomem(err);
	*ret = TAKE(copy);
	return 0;
}

struct profile_copy *profile_copy_free(struct profile_copy *copy)
{
	if (!copy)
		return NULL;
	mem_free(copy->strings);
	mem_free(copy->mappings);
	mem_free(copy->functions);
	mem_free(copy->locations);
	mem_free(copy->stacks);
	mem_free(copy->label_sets);
	mem_free(copy->links);
	mem_free(copy->lines);
	mem_free(copy->labels);
	mem_free(copy->path);
	return mem_free(copy);
}

/* What `ids` has for `id`, by copy_new() if that is nothing yet. */
static inline __attribute__((always_inline)) int copy_once(struct profile_copy *copy, uint32_t *ids, uint32_t id,
							   int (*copy_new)(struct profile_copy *copy, uint32_t id,
									   uint32_t *ret, struct error *err),
							   uint32_t *ret, struct error *err)
{
	if (id != 0 && ids[id] == 0) {
		int r = copy_new(copy, id, &ids[id], err);
		if (r < 0)
			return r;
	}
	*ret = ids[id];
	return 0;
}

static int copy_new_string(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err)
{
	struct bytes text = profile_string_bytes(copy->from, id);
	return profile_add_bytes(copy->to, text, ret, err);
}

int profile_copy_string(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err)
{
	assert(id < copy->from->strings.count);
	return copy_once(copy, copy->strings, id, copy_new_string, ret, err);
}

int profile_copy_strings(struct profile_copy *copy, uint32_t *const *ids, size_t count, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = profile_copy_string(copy, *ids[i], ids[i], err);
	return r;
}

int profile_copy_sample_type(struct profile_copy *copy, size_t which, struct error *err)
{
	assert(which < copy->from->sample_type_count);
	struct profile_value_type type = copy->from->sample_types[which];
	int r = PROFILE_COPY_STRINGS(copy, err, &type.type, &type.unit);
	return r < 0 ? r : profile_add_sample_type(copy->to, type.type, type.unit, err);
}

int profile_copy_sample_types(struct profile_copy *copy, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < copy->from->sample_type_count; i++)
		r = profile_copy_sample_type(copy, i, err);
	return r;
}

int profile_copy_times(struct profile_copy *copy, struct error *err)
{
	struct profile_value_type period = copy->from->period_type;
	int r = PROFILE_COPY_STRINGS(copy, err, &period.type, &period.unit);
	if (r < 0)
		return r;
	copy->to->period_type = period;
	copy->to->period = copy->from->period;
	copy->to->time_ns = copy->from->time_ns;
	copy->to->duration_ns = copy->from->duration_ns;
	return 0;
}

/* ---- mappings ---- */

struct mapping_key {
	uint64_t size, offset;
	uint32_t name, content;
};

static struct mapping_key mapping_key_of(const struct profile_mapping *mapping)
{
	uint64_t size = mapping->limit - mapping->start;
	return (struct mapping_key){
		.size = (size + 0xfff) & ~0xfffull,
		.offset = mapping->offset,
		.name = mapping->build_id ? mapping->build_id : mapping->file_name,
		.content = mapping->content,
	};
}

static uint64_t hash_mapping_key(const struct profile *profile, struct mapping_key key)
{
	uint64_t hash = profile_hash_add(profile->index->seed, key.size);
	return profile_hash_add(profile_hash_add(hash, key.offset), (uint64_t)key.content << 32 | key.name);
}

static bool find_mapping(const struct profile *profile, uint64_t hash, struct mapping_key key, uint32_t *ret_id)
{
	const struct index32 *index = &profile->index->merge_mappings;
	uint32_t id;
	for (size_t at = index32_first(index, hash); index32_at(index, hash, &at, &id); at++) {
		struct mapping_key have = mapping_key_of(&profile->mappings[id]);
		if (have.size == key.size && have.offset == key.offset && have.name == key.name &&
		    have.content == key.content) {
			*ret_id = id;
			return true;
		}
	}
	return false;
}

static int update_mapping_index(struct profile *profile, struct error *err)
{
	struct profile_index *index = profile->index;
	for (; index->merge_mappings_seen < profile->mapping_count; index->merge_mappings_seen++) {
		uint32_t kept, id = (uint32_t)index->merge_mappings_seen;
		struct mapping_key key = mapping_key_of(&profile->mappings[id]);
		uint64_t hash = hash_mapping_key(profile, key);
		if (find_mapping(profile, hash, key, &kept))
			continue;
		if (index32_add(&index->merge_mappings, hash, id) < 0)
			return error_nomem(err);
	}
	return 0;
}

int profile_merge_mapping(struct profile *profile, const struct profile_mapping *mapping, uint32_t *ret, struct error *err)
{
	int r = update_mapping_index(profile, err);
	if (r < 0)
		return r;
	struct mapping_key key = mapping_key_of(mapping);
	if (find_mapping(profile, hash_mapping_key(profile, key), key, ret))
		return 0;
	return profile_add_mapping(profile, mapping, ret, err);
}

static int copy_new_mapping(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err)
{
	struct profile_mapping mapping = copy->from->mappings[id];
	int r = PROFILE_COPY_STRINGS(copy, err, &mapping.file_name, &mapping.build_id, &mapping.content, &mapping.go_id);
	return r < 0 ? r : profile_merge_mapping(copy->to, &mapping, ret, err);
}

int profile_copy_mapping(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err)
{
	assert(id < copy->from->mapping_count);
	return copy_once(copy, copy->mappings, id, copy_new_mapping, ret, err);
}

/* ---- functions and locations ---- */

static int copy_new_function(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err)
{
	struct profile_function function = copy->from->functions[id];
	int r = PROFILE_COPY_STRINGS(copy, err, &function.name, &function.system_name, &function.file_name);
	return r < 0 ? r : profile_add_function(copy->to, &function, ret, err);
}

static int copy_new_location(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err)
{
	const struct profile *from = copy->from;
	struct profile_location location = from->locations[id];
	uint32_t old_mapping = location.mapping;
	int r = profile_copy_mapping(copy, old_mapping, &location.mapping, err);
	if (r < 0)
		return r;
	location.address += copy->to->mappings[location.mapping].start - from->mappings[old_mapping].start;
	r = array_reserve(&copy->lines, &copy->line_capacity, location.line_count, SIZE_MAX / sizeof(*copy->lines));
	if (r < 0)
		return error_nomem(err);
	for (uint32_t i = 0; i < location.line_count; i++) {
		struct profile_line *line = &copy->lines[i];
		*line = from->lines[location.line_first + i];
		r = copy_once(copy, copy->functions, line->function, copy_new_function, &line->function, err);
		if (r < 0)
			return r;
	}
	return profile_add_location(copy->to, &location, copy->lines, location.line_count, ret, err);
}

int profile_copy_location(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err)
{
	assert(id < copy->from->location_count);
	return copy_once(copy, copy->locations, id, copy_new_location, ret, err);
}

/* ---- stacks ---- */

int profile_copy_stack(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err)
{
	const struct profile *from = copy->from;
	assert(id < from->stack_count);
	size_t depth = 0;
	uint32_t at = id;
	while (at != 0 && copy->stacks[at] == 0) {
		copy->path[depth++] = at;
		at = from->stacks[at].parent;
	}
	uint32_t parent = copy->stacks[at];
	while (depth > 0) {
		uint32_t location;
		at = copy->path[--depth];
		int r = profile_copy_location(copy, from->stacks[at].location, &location, err);
		if (r < 0)
			return r;
		r = profile_add_stack(copy->to, parent, location, &copy->stacks[at], err);
		if (r < 0)
			return r;
		parent = copy->stacks[at];
	}
	*ret = parent;
	return 0;
}

/* ---- labels and links ---- */

static int copy_new_label_set(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err)
{
	const struct profile_label_set *set = &copy->from->label_sets[id];
	int r = array_reserve(&copy->labels, &copy->label_capacity, set->count, SIZE_MAX / sizeof(*copy->labels));
	if (r < 0)
		return error_nomem(err);
	for (uint32_t i = 0; i < set->count; i++) {
		struct profile_label *label = &copy->labels[i];
		*label = copy->from->labels[set->first + i];
		r = PROFILE_COPY_STRINGS(copy, err, &label->key, &label->value, &label->unit);
		if (r < 0)
			return r;
	}
	return profile_add_label_set(copy->to, copy->labels, set->count, ret, err);
}

int profile_copy_label_set(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err)
{
	assert(id < copy->from->label_set_count);
	return copy_once(copy, copy->label_sets, id, copy_new_label_set, ret, err);
}

static int copy_new_link(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err)
{
	return profile_add_link(copy->to, &copy->from->links[id], ret, err);
}

int profile_copy_link(struct profile_copy *copy, uint32_t id, uint32_t *ret, struct error *err)
{
	assert(id < copy->from->link_count);
	return copy_once(copy, copy->links, id, copy_new_link, ret, err);
}
