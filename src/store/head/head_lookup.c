/* SPDX-License-Identifier: Apache-2.0 */
#include "store/head/head_lookup.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/limits.h"

int head_lookup_make(const struct profile *profile, const struct labels *base, struct head_lookup *ret, struct error *err)
{
	*ret = (struct head_lookup){
		.label_sets = mem_zalloc_array(profile->label_set_count, sizeof(*ret->label_sets)),
		.samples = mem_zalloc_array(profile->sample_count, sizeof(*ret->samples)),
	};
	int r = ret->label_sets && ret->samples ? 0 : error_nomem(err);
	if (r == 0)
		r = profile_keys_make(profile, base, hash64_secret(), &ret->keys, err);
	if (r < 0)
		head_lookup_release(ret);
	return r;
}

void head_lookup_release(struct head_lookup *lookup)
{
	profile_keys_release(&lookup->keys);
	mem_free(lookup->label_sets);
	mem_free(lookup->samples);
	mem_free(lookup->stacks);
	mem_free(lookup->locations);
	mem_free(lookup->path);
	*lookup = (struct head_lookup){0};
}

int head_lookup_need_frames(const struct profile *profile, struct head_lookup *lookup, struct error *err)
{
	if (!lookup->stacks)
		lookup->stacks = mem_zalloc_array(profile->stack_count, sizeof(*lookup->stacks));
	if (!lookup->locations)
		lookup->locations = mem_zalloc_array(profile->location_count, sizeof(*lookup->locations));
	if (!lookup->path)
		lookup->path = mem_alloc_array(LIMIT_STACK_DEPTH, sizeof(*lookup->path));
	return lookup->stacks && lookup->locations && lookup->path ? 0 : error_nomem(err);
}

void head_lookup_forget(const struct profile *profile, struct head_lookup *lookup)
{
	lookup->head = 0;
	memset(lookup->label_sets, 0, profile->label_set_count * sizeof(*lookup->label_sets));
	memset(lookup->samples, 0, profile->sample_count * sizeof(*lookup->samples));
	if (lookup->stacks)
		memset(lookup->stacks, 0, profile->stack_count * sizeof(*lookup->stacks));
	if (lookup->locations)
		memset(lookup->locations, 0, profile->location_count * sizeof(*lookup->locations));
}

/* Stacks of later samples on their way into the cache. */
static void fetch_stacks(const struct known *known, const struct profile *profile, const struct hash128 *keys, size_t at)
{
	if (at + 8 < profile->sample_count)
		known_fetch_index(known, keys[profile->samples[at + 8].stack]);
	if (at + 4 < profile->sample_count)
		known_fetch_entry(known, keys[profile->samples[at + 4].stack]);
}

/* Returns how many stacks are not known. */
static size_t find_samples(const struct head *head, const struct profile *profile, struct head_lookup *lookup)
{
	const struct profile_keys *keys = &lookup->keys;
	size_t missing = 0;
	for (size_t i = 0; i < profile->sample_count; i++) {
		uint32_t stack = profile->samples[i].stack, set = profile->samples[i].labels, id;
		fetch_stacks(&head->known_stacks, profile, keys->stacks, i);
		if (stack && !known_find(&head->known_stacks, keys->stacks[stack], &lookup->samples[i]))
			missing++;
		if (!lookup->label_sets[set] && known_find(&head->known_labels, keys->label_sets[set], &id))
			lookup->label_sets[set] = id + 1;
	}
	return missing;
}

/* From the first frame that this profile had before on: as many as the head has, one below the other, and the locations of all.
 */
static void find_frames(const struct head *head, const struct profile *profile, struct head_lookup *lookup, uint32_t stack)
{
	const struct known *known = &head->known_locations;
	const struct hash128 *keys = lookup->keys.locations;
	uint32_t at = stack, id = 0;
	size_t depth = 0;
	for (; at && !lookup->stacks[at]; at = profile->stacks[at].parent) {
		known_fetch_index(known, keys[profile->stacks[at].location]);
		lookup->path[depth++] = at;
	}
	for (size_t i = depth; i-- > 0;)
		known_fetch_entry(known, keys[profile->stacks[lookup->path[i]].location]);
	bool found = true;
	id = at ? lookup->stacks[at] : 0;
	while (depth > 0) {
		at = lookup->path[--depth];
		uint32_t location = profile->stacks[at].location, *own = &lookup->locations[location];
		if (location && !*own && !known_find(known, keys[location], own))
			found = false;
		if (found)
			id = profile_find_stack(head->pool, id, *own);
		found = found && id;
		if (found)
			lookup->stacks[at] = id;
	}
}

int head_lookup_find(struct head *head, const struct profile *profile, struct head_lookup *lookup, struct error *err)
{
	int r = 0;
	lookup->head = head->number;
	pthread_rwlock_rdlock(&head->lock);
	size_t missing = find_samples(head, profile, lookup);
	if (missing)
		r = head_lookup_need_frames(profile, lookup, err);
	for (size_t i = 0; r == 0 && missing && i < profile->sample_count; i++)
		if (!lookup->samples[i])
			find_frames(head, profile, lookup, profile->samples[i].stack);
	pthread_rwlock_unlock(&head->lock);
	return r;
}
