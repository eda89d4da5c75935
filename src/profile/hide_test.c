/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of addresses for who may not know where code lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "profile/profile.h"

static uint32_t text(struct profile *profile, const char *value)
{
	uint32_t id;
	assert_int_equal(profile_add_cstring(profile, value, &id, NULL), 0);
	return id;
}

static uint32_t location(struct profile *profile, const char *file, const char *build_id, uint64_t start, uint64_t limit,
			 uint64_t offset, uint64_t address)
{
	struct profile_mapping mapping = {.start = start, .limit = limit, .offset = offset};
	struct profile_location one = {.address = address};
	uint32_t id;
	mapping.file_name = text(profile, file);
	mapping.build_id = text(profile, build_id);
	assert_int_equal(profile_add_mapping(profile, &mapping, &one.mapping, NULL), 0);
	assert_int_equal(profile_add_location(profile, &one, NULL, 0, &id, NULL), 0);
	return id;
}

static void test_addresses(void **state)
{
	static const struct {
		const char *file, *build_id;
		uint64_t start, limit, offset, address, result;
	} cases[] = {
		{"/bin/a", "abcd", 0x1000, 0x2000, 0x1000, 0x1234, 0x1234},			    /* of an agent */
		{"/bin/b", "abcd", 0x7f0000001000, 0x7f0000002000, 0x1000, 0x7f0000001234, 0x1234}, /* where it lay */
		{"/bin/c", "abcd", 0, UINT64_MAX, 0, 0x401234, 0x401234},			    /* as linked */
		{"/bin/d", "", 0x1000, 0x2000, 0x1000, 0x1234, 0x1234},
		{"/bin/e", "", 0x7f0000001000, 0x7f0000002000, 0x1000, 0x7f0000001234, 0},
		{"/bin/f", "", 0, 0, 0, 0x7f0000001234, 0},
		{"[anon]", "", 0, UINT64_MAX, 0, 0x7f0000001234, 0},
		{"[kernel.kallsyms]", "", 0, UINT64_MAX, 0, 0xffffffff81001234, 0},
		{"[vdso]", "", 0x1000, 0x2000, 0x1000, 0x1234, 0},
	};
	enum { COUNT = sizeof(cases) / sizeof(cases[0]) };
	struct profile *profile;
	uint32_t ids[COUNT], bare, id;
	assert_int_equal(profile_new(&profile, NULL), 0);
	for (size_t i = 0; i < COUNT; i++)
		ids[i] = location(profile, cases[i].file, cases[i].build_id, cases[i].start, cases[i].limit, cases[i].offset,
				  cases[i].address);
	assert_int_equal(profile_add_location(profile, &(struct profile_location){.address = 0x7fff0000}, NULL, 0, &bare, NULL),
			 0);
	static const char *const names[] = {"0x7f0000001234", "0xFFFFFFFF81001234", "0x", "0xyz", "main", "a+0x12"};
	for (size_t i = 0; i < 6; i++) {
		const struct profile_function function = {.name = text(profile, names[i]),
							  .system_name = text(profile, names[i])};
		assert_int_equal(profile_add_function(profile, &function, &id, NULL), 0);
	}
	assert_int_equal(profile_hide_addresses(profile, NULL), 0);
	for (size_t i = 0; i < COUNT; i++) {
		const struct profile_mapping *mapping = &profile->mappings[profile->locations[ids[i]].mapping];
		assert_true(profile->locations[ids[i]].address == cases[i].result);
		assert_true(mapping->start == mapping->offset);
		assert_true(mapping->limit < 0x100000000 || mapping->limit == UINT64_MAX);
		/* What is symbolized by its offset in the file still is. */
		if (cases[i].result)
			assert_true(profile_location_file_offset(profile, ids[i]) ==
				    cases[i].address - cases[i].start + cases[i].offset);
	}
	assert_int_equal(profile->locations[bare].address, 0);
	for (size_t i = 1; i < profile->function_count; i++) {
		assert_string_equal(profile_string(profile, profile->functions[i].name), i <= 2 ? "0x0" : names[i - 1]);
		assert_string_equal(profile_string(profile, profile->functions[i].system_name), i <= 2 ? "0x0" : names[i - 1]);
	}
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_addresses)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
