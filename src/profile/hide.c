/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "profile/profile.h"

#define HIDDEN "0x0"

/* Addresses in its mapping are file offsets, and say nothing of a process: a mapping of all memory, or of unknown bounds, or
 * one without a file, does not say so. */
static bool is_of_file(const struct profile *profile, const struct profile_mapping *mapping)
{
	if (mapping->build_id)
		return true;
	return mapping->start == mapping->offset && mapping->limit > mapping->start && mapping->limit != UINT64_MAX &&
	       *profile_string(profile, mapping->file_name) == '/';
}

/* What its addresses are less by, so that they are file offsets; the linked ones of a file stay. */
static uint64_t shift_of(const struct profile_mapping *mapping)
{
	return mapping->start - mapping->offset;
}

/* "0x7f0123456789" */
static bool is_address(const char *name)
{
	return strncmp(name, "0x", 2) == 0 && name[2] && strspn(name + 2, "0123456789abcdefABCDEF") == strlen(name + 2);
}

static int rename_functions(struct profile *profile, struct error *err)
{
	uint32_t hidden = 0;
	int r = 0;
	for (size_t i = 1; i < profile->function_count && r == 0; i++) {
		struct profile_function *function = &profile->functions[i];
		bool is_named = !is_address(profile_string(profile, function->name));
		bool is_system = !is_address(profile_string(profile, function->system_name));
		if (is_named && is_system)
			continue;
		r = hidden ? 0 : profile_add_cstring(profile, HIDDEN, &hidden, err);
		function->name = is_named ? function->name : hidden;
		function->system_name = is_system ? function->system_name : hidden;
	}
	return r;
}

int profile_hide_addresses(struct profile *profile, struct error *err)
{
	for (size_t i = 1; i < profile->location_count; i++) {
		struct profile_location *location = &profile->locations[i];
		const struct profile_mapping *mapping = &profile->mappings[location->mapping];
		if (!location->mapping || !is_of_file(profile, mapping))
			location->address = 0;
		else
			location->address -= shift_of(mapping);
	}
	for (size_t i = 1; i < profile->mapping_count; i++) {
		struct profile_mapping *mapping = &profile->mappings[i];
		uint64_t shift = shift_of(mapping);
		if (!is_of_file(profile, mapping)) {
			mapping->start = mapping->limit = mapping->offset = 0;
			continue;
		}
		mapping->limit = mapping->limit == UINT64_MAX ? UINT64_MAX : mapping->limit - shift;
		mapping->start = mapping->offset;
	}
	return rename_functions(profile, err);
}
