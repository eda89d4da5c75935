// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "agent/expected.h"

#define MS NS_PER_MS

/* Soon at first, then half as long again as it is old, and in the end not at all. */
static void test_a_process_is_looked_at_less_and_less_often(void **state)
{
	struct expected expected = {0};
	int64_t now = 1000 * MS, before = 0;
	unsigned looks = 0;
	uint32_t id;
	pid_t pid;

	assert_int_equal(expected_next_ns(&expected), 0);
	assert_true(expected_add(&expected, 42, 7, 1000 * MS, now));
	assert_int_equal(expected_next_ns(&expected), now + EXPECTED_LOOK_NS);
	for (;;) {
		assert_false(expected_take(&expected, expected_next_ns(&expected) - 1, &pid, &id));
		int64_t next = expected_next_ns(&expected);
		assert_true(next - now >= before);
		before = next - now;
		now = next;
		looks++;
		assert_true(expected_take(&expected, now, &pid, &id));
		assert_int_equal(pid, 42);
		assert_int_equal(id, 7);
		assert_false(expected_take(&expected, now + 3600 * NS_PER_S, &pid, &id));
		if (!expected_add(&expected, 42, 7, 1000 * MS, now))
			break;
	}
	assert_true(now - 1000 * MS >= EXPECTED_FOR_NS);
	assert_in_range(looks, 8, 20);
	assert_int_equal(expected.count, 0);
}

/* A process is in the list once, and there is room for so many; the earliest is the next one. */
static void test_the_list_is_bounded(void **state)
{
	struct expected expected = {0};
	uint32_t id;
	pid_t pid;

	for (unsigned i = 0; i < EXPECTED_MAX; i++)
		assert_true(expected_add(&expected, 100 + (pid_t)i, i, 0, (int64_t)(1000 - i) * MS));
	assert_false(expected_add(&expected, 99, 1, 0, 1000 * MS));
	assert_true(expected_add(&expected, 100, 77, 1999 * MS, 1999 * MS));
	assert_int_equal(expected.count, EXPECTED_MAX);
	int64_t first = (int64_t)(1000 - (EXPECTED_MAX - 1)) * MS;
	assert_int_equal(expected_next_ns(&expected), first + first / 2);
	unsigned taken = 0;
	while (expected_take(&expected, 5000 * MS, &pid, &id)) {
		assert_int_equal(id, pid == 100 ? 77 : pid - 100);
		taken++;
	}
	assert_int_equal(taken, EXPECTED_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_process_is_looked_at_less_and_less_often),
		cmocka_unit_test(test_the_list_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
