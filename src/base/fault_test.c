// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"

static void test_only_the_nth_call_fails(void **state)
{
	fault_arm(FAULT_READ, 3, 0);
	assert_false(fault_reached(FAULT_READ));
	assert_false(fault_reached(FAULT_WRITE));
	assert_false(fault_reached(FAULT_READ));
	assert_true(fault_reached(FAULT_READ));
	assert_false(fault_reached(FAULT_READ));
	assert_true(fault_disarm(FAULT_READ));
	assert_false(fault_armed_any);
}

static void test_sticky_faults_stay(void **state)
{
	fault_arm(FAULT_SYNC, 2, FAULT_STICKY);
	assert_false(fault_reached(FAULT_SYNC));
	for (int i = 0; i < 5; i++)
		assert_true(fault_reached(FAULT_SYNC));
	assert_true(fault_disarm(FAULT_SYNC));
	assert_false(fault_reached(FAULT_SYNC));
}

static void test_disarm_tells_that_it_was_not_reached(void **state)
{
	fault_arm(FAULT_ALLOC, 2, 0);
	fault_arm(FAULT_OPEN, 1, 0);
	assert_false(fault_reached(FAULT_ALLOC));
	assert_false(fault_disarm(FAULT_ALLOC));
	assert_true(fault_armed_any);
	assert_true(fault_reached(FAULT_OPEN));
	assert_true(fault_disarm(FAULT_OPEN));
	assert_false(fault_armed_any);
}

static void test_arming_again_starts_over(void **state)
{
	fault_arm(FAULT_RENAME, 1, 0);
	assert_true(fault_reached(FAULT_RENAME));
	fault_arm(FAULT_RENAME, 2, 0);
	assert_false(fault_reached(FAULT_RENAME));
	assert_false(fault_disarm(FAULT_RENAME));
}

static void test_exit_ends_the_process(void **state)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		fault_arm(FAULT_WRITE, 1, FAULT_EXIT);
		(void)fault_reached(FAULT_WRITE);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 137);
}

static void test_environment(void **state)
{
	unsetenv("WICK_FAULT");
	assert_int_equal(fault_arm_from_environment(NULL), 0);
	assert_false(fault_armed_any);

	setenv("WICK_FAULT", "rename:2:sticky", 1);
	assert_int_equal(fault_arm_from_environment(NULL), 0);
	assert_false(fault_reached(FAULT_RENAME));
	assert_true(fault_reached(FAULT_RENAME));
	assert_true(fault_reached(FAULT_RENAME));
	assert_true(fault_disarm(FAULT_RENAME));

	static const char *const malformed[] = {
		"alloc",
		"alloc:",
		"alloc:0",
		"alloc:-1",
		"alloc:x",
		"disk:1",
		":1",
		"alloc:1:",
		"alloc:1:often",
		"alloc:1:sticky:exit:again",
		"alloc:99999999999999999999",
		"alloc:1:stickystickystickystickystickystickystickystickystickystickysticky",
	};
	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		struct error err = {0};
		setenv("WICK_FAULT", malformed[i], 1);
		assert_int_equal(fault_arm_from_environment(&err), -EINVAL);
		assert_non_null(strstr(err.message, malformed[i]));
		assert_false(fault_armed_any);
	}
	unsetenv("WICK_FAULT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_the_nth_call_fails),
		cmocka_unit_test(test_sticky_faults_stay),
		cmocka_unit_test(test_disarm_tells_that_it_was_not_reached),
		cmocka_unit_test(test_arming_again_starts_over),
		cmocka_unit_test(test_exit_ends_the_process),
		cmocka_unit_test(test_environment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
