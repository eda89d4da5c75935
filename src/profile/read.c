/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a profile. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/sum.h"
#include "profile/profile_int.h"

const char *profile_string(const struct profile *profile, uint32_t id)
{
	return intern_string(&profile->strings, id);
}

struct bytes profile_string_bytes(const struct profile *profile, uint32_t id)
{
	return intern_get(&profile->strings, id);
}

uint64_t profile_location_file_offset(const struct profile *profile, uint32_t location)
{
	assert(location < profile->location_count);
	const struct profile_location *entry = &profile->locations[location];
	if (entry->mapping == 0)
		return entry->address;
	const struct profile_mapping *mapping = &profile->mappings[entry->mapping];
	return entry->address - mapping->start + mapping->offset;
}

size_t profile_stack_depth(const struct profile *profile, uint32_t stack)
{
	assert(stack < profile->stack_count);
	if (profile->index->stack_depths)
		return profile->index->stack_depths[stack];
	size_t depth = 0; /* after profile_shrink_stacks() */
	for (; stack != 0; stack = profile->stacks[stack].parent)
		depth++;
	return depth;
}

size_t profile_stack_locations(const struct profile *profile, uint32_t stack, uint32_t *ret_locations, size_t max)
{
	size_t depth = profile_stack_depth(profile, stack);
	for (size_t i = 0; i < depth && i < max; i++) {
		ret_locations[i] = profile->stacks[stack].location;
		stack = profile->stacks[stack].parent;
	}
	return depth;
}

int64_t profile_total(const struct profile *profile, size_t sample_type)
{
	assert(sample_type < profile->sample_type_count);
	int64_t sum = 0;
	for (size_t i = 0; i < profile->sample_count; i++)
		sum_to(&sum, profile->values[i * profile->sample_type_count + sample_type]);
	return sum;
}

bool profile_sums_fit(const struct profile *profile)
{
	for (size_t type = 0; type < profile->sample_type_count; type++) {
		struct sum_guard guard = {0};
		for (size_t i = 0; i < profile->sample_count; i++)
			sum_guard_add(&guard, profile->values[i * profile->sample_type_count + type]);
		if (sum_guard_is_full(&guard))
			return false;
	}
	return true;
}

const char *profile_label_value(const struct profile *profile, uint32_t label_set, const char *key)
{
	assert(label_set < profile->label_set_count);
	const struct profile_label_set *set = &profile->label_sets[label_set];
	for (uint32_t i = set->first; i < set->first + set->count; i++) {
		const struct profile_label *label = &profile->labels[i];
		bool is_number = label->number != 0 || label->unit != 0;
		if (!is_number && strcmp(profile_string(profile, label->key), key) == 0)
			return profile_string(profile, label->value);
	}
	return NULL;
}

static bool find_type(const struct profile *profile, const char *name, size_t *ret)
{
	for (size_t i = 0; i < profile->sample_type_count; i++) {
		if (strcmp(profile_string(profile, profile->sample_types[i].type), name) == 0) {
			*ret = i;
			return true;
		}
	}
	return false;
}

size_t profile_default_sample_type(const struct profile *profile)
{
	size_t found;
	if (profile->default_sample_type && find_type(profile, profile_string(profile, profile->default_sample_type), &found))
		return found;
	return profile->sample_type_count > 0 ? profile->sample_type_count - 1 : 0;
}

int profile_find_sample_type(const struct profile *profile, const char *name, size_t *ret, struct error *err)
{
	if (profile->sample_type_count == 0)
		return error_set(err, -EINVAL, "the profile has no sample types, so it has no values");
	if (!name) {
		*ret = profile_default_sample_type(profile);
		return 0;
	}
	if (find_type(profile, name, ret))
		return 0;
	char known[256] = "";
	_cleanup_(buffer_release) struct buffer names = {.max = sizeof(known) - 1};
	for (size_t i = 0; i < profile->sample_type_count; i++)
		if (buffer_printf(&names, "%s%s", i ? ", " : "", profile_string(profile, profile->sample_types[i].type)) < 0)
			break;
	if (names.len > 0)
		memcpy(known, names.data, names.len);
	return error_set(err, -EINVAL, "the profile has no sample type '%.64s'; it has: %s", name, known);
}
