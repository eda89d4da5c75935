/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/fault.h"
#include "profile/profile_int.h"

static struct profile *new_profile(uint32_t *ret_location, uint32_t *ret_function)
{
	struct profile *p;
	struct profile_mapping mapping = {.start = 0x1000, .limit = 0x2000};
	struct profile_location location = {.address = 0x1234};
	struct profile_function function = {0};
	assert_int_equal(profile_new(&p, NULL), 0);
	assert_int_equal(profile_add_cstring(p, "function", &function.name, NULL), 0);
	assert_int_equal(profile_add_function(p, &function, ret_function, NULL), 0);
	assert_int_equal(profile_add_mapping(p, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_location(p, &location, NULL, 0, ret_location, NULL), 0);
	return p;
}

static void test_sets_lines_in_place(void **state)
{
	uint32_t location, function, stack;
	struct profile *p = new_profile(&location, &function);
	assert_int_equal(profile_add_stack(p, 0, location, &stack, NULL), 0);
	struct profile_line lines[] = {{.function = function, .line = 3}, {.function = function, .line = 9, .column = 2}};
	assert_int_equal(profile_set_location_lines(p, location, lines, 2, NULL), 0);
	const struct profile_location *l = &p->locations[location];
	assert_int_equal(l->line_count, 2);
	assert_int_equal(l->address, 0x1234);
	assert_int_equal(p->lines[l->line_first].line, 3);
	assert_int_equal(p->lines[l->line_first + 1].column, 2);
	assert_int_equal(p->stacks[stack].location, location);
	/* The profile's own lines may be passed, also when the table moves. */
	for (unsigned i = 0; i < 1000; i++) {
		l = &p->locations[location];
		assert_int_equal(profile_set_location_lines(p, location, &p->lines[l->line_first + 1], 1, NULL), 0);
		assert_int_equal(p->lines[p->locations[location].line_first].line, 9);
		assert_int_equal(profile_set_location_lines(p, location, lines, 2, NULL), 0);
	}
	assert_int_equal(profile_set_location_lines(p, location, NULL, 0, NULL), 0);
	assert_int_equal(p->locations[location].line_count, 0);
	profile_free(p);
}

static void test_failure_changes_nothing(void **state)
{
	uint32_t location, function;
	struct profile *p = new_profile(&location, &function);
	struct profile_line line = {.function = function};
	struct error err = {0};
	fault_arm(FAULT_ALLOC, 1, 0);
	assert_int_equal(profile_set_location_lines(p, location, &line, 1, &err), -ENOMEM);
	assert_true(fault_disarm(FAULT_ALLOC));
	assert_int_equal(p->locations[location].line_count, 0);
	p->index->entities_max = 2;
	assert_int_equal(profile_set_location_lines(p, location, &line, 1, &err), 0);
	assert_int_equal(profile_set_location_lines(p, location, &line, 1, &err), 0);
	assert_int_equal(profile_set_location_lines(p, location, &line, 1, &err), -E2BIG);
	assert_int_equal(p->locations[location].line_first, 1);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sets_lines_in_place),
		cmocka_unit_test(test_failure_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
