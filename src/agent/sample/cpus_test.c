// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/sample/cpus.h"

static void test_lists_are_read(void **state)
{
	struct cpu_set set;

	assert_int_equal(cpu_set_parse("0-3,5,64-65,8191\n", &set, NULL), 0);
	assert_int_equal(cpu_set_count(&set), 8);
	assert_int_equal(cpu_set_limit(&set), 8192);
	assert_true(cpu_set_has(&set, 0) && cpu_set_has(&set, 3) && cpu_set_has(&set, 5) && cpu_set_has(&set, 65));
	assert_false(cpu_set_has(&set, 4) || cpu_set_has(&set, 63) || cpu_set_has(&set, 66));
	assert_int_equal(cpu_set_parse("\n", &set, NULL), 0);
	assert_int_equal(cpu_set_limit(&set), 0);
	assert_int_equal(cpu_set_parse("0", &set, NULL), 0);
	assert_int_equal(cpu_set_limit(&set), 1);
}

static void test_bad_lists_are_refused(void **state)
{
	static const char *const bad[] = {"a", "1-", "-1", "3-1", "1,,2", "1 2", "0-0x4", "99999999999"};
	struct cpu_set set = {{7}};
	struct error error;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(cpu_set_parse(bad[i], &set, &error), -EINVAL);
		assert_non_null(strstr(error.message, bad[i]));
		assert_int_equal(set.words[0], 7);
	}
	assert_int_equal(cpu_set_parse("0-8192", &set, &error), -ERANGE);
}

static void test_this_machine(void **state)
{
	struct cpu_set online, possible;

	assert_int_equal(cpu_set_read("online", &online, NULL), 0);
	assert_int_equal(cpu_set_read("possible", &possible, NULL), 0);
	assert_int_equal(cpu_set_count(&online), sysconf(_SC_NPROCESSORS_ONLN));
	for (size_t i = 0; i < CPUS_MAX / 64; i++)
		assert_int_equal(online.words[i] & ~possible.words[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists_are_read),
		cmocka_unit_test(test_bad_lists_are_refused),
		cmocka_unit_test(test_this_machine),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
