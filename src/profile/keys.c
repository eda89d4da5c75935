/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/keys.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"

/* What is hashed here is only compared within one process, so structs are hashed as they are in memory. None has padding. */
struct maker {
	const struct profile *profile;
	uint64_t seed;
	struct hash128 *strings, *mappings, *functions, *locations;
};

struct mapping_content {
	struct hash128 file_name, build_id, content;
	uint64_t offset, size; /* not where it was loaded */
};

struct function_content {
	struct hash128 name, system_name, file_name;
	int64_t start_line;
};

struct line_content {
	struct hash128 before, function;
	int64_t line, column;
};

struct location_content {
	struct hash128 mapping, lines;
	uint64_t address, frame_type, folded, line_count;
};

struct label_content {
	struct hash128 before, key, value, unit;
	int64_t number;
};

static struct hash128 hash(const struct maker *m, const void *content, size_t size)
{
	return hash128_seed(content, size, m->seed);
}

static void hash_strings(struct maker *m)
{
	const struct intern *strings = &m->profile->strings;
	for (size_t i = 0; i < strings->count; i++)
		m->strings[i] = hash(m, strings->strings[i].data, strings->strings[i].len);
}

static void hash_mappings(struct maker *m)
{
	for (size_t i = 0; i < m->profile->mapping_count; i++) {
		const struct profile_mapping *mapping = &m->profile->mappings[i];
		struct mapping_content content = {
			.file_name = m->strings[mapping->file_name],
			.build_id = m->strings[mapping->build_id],
			.content = m->strings[mapping->content],
			.offset = mapping->offset,
			.size = mapping->limit - mapping->start,
		};
		m->mappings[i] = hash(m, &content, sizeof(content));
	}
}

static void hash_functions(struct maker *m)
{
	for (size_t i = 0; i < m->profile->function_count; i++) {
		const struct profile_function *function = &m->profile->functions[i];
		struct function_content content = {.name = m->strings[function->name],
						   .system_name = m->strings[function->system_name],
						   .file_name = m->strings[function->file_name],
						   .start_line = function->start_line};
		m->functions[i] = hash(m, &content, sizeof(content));
	}
}

static void hash_locations(struct maker *m)
{
	const struct profile *profile = m->profile;
	for (size_t i = 0; i < profile->location_count; i++) {
		const struct profile_location *location = &profile->locations[i];
		struct location_content content = {.mapping = m->mappings[location->mapping],
						   .frame_type = location->frame_type,
						   .folded = location->folded,
						   .line_count = location->line_count};
		for (uint32_t l = 0; l < location->line_count; l++) {
			const struct profile_line *line = &profile->lines[location->line_first + l];
			struct line_content part = {.before = content.lines,
						    .function = m->functions[line->function],
						    .line = line->line,
						    .column = line->column};
			content.lines = hash(m, &part, sizeof(part));
		}
		content.address = location->address - profile->mappings[location->mapping].start;
		m->locations[i] = hash(m, &content, sizeof(content));
	}
}

static void hash_stacks(const struct maker *m, struct hash128 *ret)
{
	const struct profile *profile = m->profile;
	ret[0] = (struct hash128){0};
	for (size_t i = 1; i < profile->stack_count; i++) {
		struct hash128 content[2] = {ret[profile->stacks[i].parent], m->locations[profile->stacks[i].location]};
		ret[i] = hash(m, content, sizeof(content));
	}
}

static struct hash128 add_label_set(const struct maker *m, uint32_t set, struct hash128 before)
{
	const struct profile *profile = m->profile;
	for (uint32_t i = 0; i < profile->label_sets[set].count; i++) {
		const struct profile_label *label = &profile->labels[profile->label_sets[set].first + i];
		struct label_content content = {.before = before,
						.key = m->strings[label->key],
						.value = m->strings[label->value],
						.unit = m->strings[label->unit],
						.number = label->number};
		before = hash(m, &content, sizeof(content));
	}
	/* Between the sets, so that a label does not move from one to the other unseen. */
	return hash(m, &before, sizeof(before));
}

static void hash_label_sets(const struct maker *m, const struct labels *base, struct hash128 *ret)
{
	struct hash128 common = {0};
	for (size_t i = 0; base && i < base->count; i++) {
		struct label_content content = {.before = common,
						.key = hash(m, base->items[i].name, strlen(base->items[i].name)),
						.value = hash(m, base->items[i].value, strlen(base->items[i].value))};
		common = hash(m, &content, sizeof(content));
	}
	common = add_label_set(m, m->profile->resource_labels, hash(m, &common, sizeof(common)));
	for (size_t i = 0; i < m->profile->label_set_count; i++)
		ret[i] = add_label_set(m, (uint32_t)i, common);
}

int profile_keys_make(const struct profile *profile, const struct labels *base, uint64_t seed, struct profile_keys *ret,
		      struct error *err)
{
	_cleanup_(mem_freep) struct hash128 *strings = mem_alloc_array(profile->strings.count, sizeof(*strings));
	_cleanup_(mem_freep) struct hash128 *mappings = mem_alloc_array(profile->mapping_count, sizeof(*mappings));
	_cleanup_(mem_freep) struct hash128 *functions = mem_alloc_array(profile->function_count, sizeof(*functions));
	*ret = (struct profile_keys){
		.stacks = mem_alloc_array(profile->stack_count, sizeof(*ret->stacks)),
		.locations = mem_alloc_array(profile->location_count, sizeof(*ret->locations)),
		.label_sets = mem_alloc_array(profile->label_set_count, sizeof(*ret->label_sets)),
	};
	if (!strings || !mappings || !functions || !ret->locations || !ret->stacks || !ret->label_sets) {
		profile_keys_release(ret);
		return error_nomem(err);
	}
	struct maker m = {profile, seed, strings, mappings, functions, ret->locations};
	hash_strings(&m);
	hash_mappings(&m);
	hash_functions(&m);
	hash_locations(&m);
	hash_stacks(&m, ret->stacks);
	hash_label_sets(&m, base, ret->label_sets);
	return 0;
}

void profile_keys_release(struct profile_keys *keys)
{
	mem_free(keys->stacks);
	mem_free(keys->locations);
	mem_free(keys->label_sets);
	*keys = (struct profile_keys){0};
}
