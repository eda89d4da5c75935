/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/keys.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"
#include "profile/profile_int.h"

/*
 * What is hashed here is only compared within one process.
 *
 * Texts are hashed by XXH3. All else is a few words, most of them hashes already, of which a profile has thousands; calling
 * XXH3 for each takes most of the time that keys take. So words are multiplied in pairs, each with a secret of its place added,
 * and the products are folded and summed; twice, with other secrets, for the two halves of a key. It is what XXH3 does with 32
 * bytes, without the mixing at its end, which no table here needs. Who does not know the secrets cannot make two keys equal:
 * they never leave the process, and neither do keys. A pair is of words of two hashes where there are two.
 */
#define WORDS_MAX 8

struct maker {
	const struct profile *profile;
	uint64_t seed;
	uint64_t secrets[2][WORDS_MAX]; /* made of the seed */
	struct hash128 *strings, *mappings, *functions, *locations;
};

static void make_secrets(struct maker *m)
{
	for (size_t half = 0; half < 2; half++)
		for (size_t i = 0; i < WORDS_MAX; i++)
			m->secrets[half][i] = hash64_mix(m->seed + (half * WORDS_MAX + i) * 0x9e3779b97f4a7c15ull);
}

/* count: even, and known when this is compiled. */
static inline __attribute__((always_inline)) struct hash128 hash_words(const struct maker *m, const uint64_t *words,
								       size_t count)
{
	struct hash128 hash = {0};
	for (size_t i = 0; i < count; i += 2) {
		hash.low += profile_hash_fold(words[i] + m->secrets[0][i], words[i + 1] + m->secrets[0][i + 1]);
		hash.high += profile_hash_fold(words[i] + m->secrets[1][i], words[i + 1] + m->secrets[1][i + 1]);
	}
	return hash;
}
#define HASH_WORDS(m, ...)                                                                                                     \
	hash_words((m), (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static struct hash128 hash_text(const struct maker *m, const void *text, size_t len)
{
	return hash128_seed(text, len, m->seed);
}

static void hash_strings(struct maker *m)
{
	const struct intern *strings = &m->profile->strings;
	for (size_t i = 0; i < strings->count; i++)
		m->strings[i] = hash_text(m, strings->strings[i].data, strings->strings[i].len);
}

static void hash_mappings(struct maker *m)
{
	for (size_t i = 0; i < m->profile->mapping_count; i++) {
		const struct profile_mapping *mapping = &m->profile->mappings[i];
		struct hash128 name = m->strings[mapping->file_name], id = m->strings[mapping->build_id],
			       content = m->strings[mapping->content];
		/* Not where it was loaded. */
		m->mappings[i] = HASH_WORDS(m, name.low, id.low, name.high, content.low, id.high, content.high, mapping->offset,
					    mapping->limit - mapping->start);
	}
}

static void hash_functions(struct maker *m)
{
	for (size_t i = 0; i < m->profile->function_count; i++) {
		const struct profile_function *function = &m->profile->functions[i];
		struct hash128 name = m->strings[function->name], system = m->strings[function->system_name],
			       file = m->strings[function->file_name];
		m->functions[i] = HASH_WORDS(m, name.low, file.low, name.high, system.low, system.high, file.high,
					     (uint64_t)function->start_line, 0);
	}
}

static struct hash128 hash_lines(const struct maker *m, const struct profile_location *location)
{
	struct hash128 before = {0};
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct profile_line *line = &m->profile->lines[location->line_first + i];
		struct hash128 function = m->functions[line->function];
		before = HASH_WORDS(m, before.low, function.low, before.high, function.high, (uint64_t)line->line,
				    (uint64_t)line->column);
	}
	return before;
}

static void hash_locations(struct maker *m)
{
	const struct profile *profile = m->profile;
	for (size_t i = 0; i < profile->location_count; i++) {
		const struct profile_location *location = &profile->locations[i];
		struct hash128 mapping = m->mappings[location->mapping], lines = hash_lines(m, location);
		uint64_t address = location->address - profile->mappings[location->mapping].start;
		m->locations[i] = HASH_WORDS(m, mapping.low, lines.low, mapping.high, lines.high, address,
					     (uint64_t)location->frame_type << 1 | location->folded);
	}
}

static void hash_stacks(const struct maker *m, struct hash128 *ret)
{
	const struct profile *profile = m->profile;
	ret[0] = (struct hash128){0};
	for (size_t i = 1; i < profile->stack_count; i++) {
		struct hash128 parent = ret[profile->stacks[i].parent], location = m->locations[profile->stacks[i].location];
		ret[i] = HASH_WORDS(m, parent.low, location.low, parent.high, location.high);
	}
}

/* `before`, and one label more. */
static struct hash128 add_label(const struct maker *m, struct hash128 before, struct hash128 key, struct hash128 value)
{
	return HASH_WORDS(m, before.low, key.low, before.high, value.low, key.high, value.high);
}

static struct hash128 add_number(const struct maker *m, struct hash128 before, int64_t number, struct hash128 unit)
{
	return HASH_WORDS(m, before.low, unit.low, before.high, unit.high, (uint64_t)number, 1);
}

static struct hash128 add_label_set(const struct maker *m, uint32_t set, struct hash128 before)
{
	const struct profile *profile = m->profile;
	for (uint32_t i = 0; i < profile->label_sets[set].count; i++) {
		const struct profile_label *label = &profile->labels[profile->label_sets[set].first + i];
		before = add_label(m, before, m->strings[label->key], m->strings[label->value]);
		before = add_number(m, before, label->number, m->strings[label->unit]);
	}
	/* Between the sets, so that a label does not move from one to the other unseen. */
	return HASH_WORDS(m, before.low, before.high);
}

static void hash_label_sets(const struct maker *m, const struct labels *base, struct hash128 *ret)
{
	struct hash128 common = {0};
	for (size_t i = 0; base && i < base->count; i++) {
		const struct label *label = &base->items[i];
		common = add_label(m, common, hash_text(m, label->name, strlen(label->name)),
				   hash_text(m, label->value, strlen(label->value)));
	}
	common = add_label_set(m, m->profile->resource_labels, HASH_WORDS(m, common.low, common.high));
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
	struct maker m = {.profile = profile,
			  .seed = seed,
			  .strings = strings,
			  .mappings = mappings,
			  .functions = functions,
			  .locations = ret->locations};
	make_secrets(&m);
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
