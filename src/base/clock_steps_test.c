/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/clock_steps.h"
#include "base/time.h"

static void test_steps(void **state)
{
	const int64_t wall = 1763790000 * NS_PER_S;
	struct clock_steps steps = {0};
	(void)state;
	assert_false(clock_steps_check(&steps, 0, wall, 100));
	assert_false(clock_steps_check(&steps, NS_PER_S, wall + NS_PER_S + 90000, NS_PER_S + 90000));
	assert_true(clock_steps_check(&steps, 2 * NS_PER_S, wall + 7 * NS_PER_S, 2 * NS_PER_S));
	assert_false(clock_steps_check(&steps, 3 * NS_PER_S, wall + 8 * NS_PER_S, 3 * NS_PER_S));
	assert_true(clock_steps_check(&steps, 4 * NS_PER_S, wall + 9 * NS_PER_S - 300000, 4 * NS_PER_S));
}

static void test_slow_pairs(void **state)
{
	const int64_t wall = 1763790000 * NS_PER_S;
	struct clock_steps steps = {0};
	(void)state;
	assert_false(clock_steps_check(&steps, 0, wall + NS_PER_S, NS_PER_S));
	assert_false(clock_steps_check(&steps, 2 * NS_PER_S, wall, 2 * NS_PER_S)); /* the first that counts */
	assert_false(clock_steps_check(&steps, 3 * NS_PER_S, wall + 3 * NS_PER_S, 3 * NS_PER_S + CLOCK_STEP_LEAST_NS));
}

static void test_creeping(void **state)
{
	struct clock_steps steps = {0};
	int noticed = 0;
	(void)state;
	for (int64_t i = 0; i < 100; i++)
		noticed += clock_steps_check(&steps, i * NS_PER_S, i * NS_PER_S + i * 50000, i * NS_PER_S);
	assert_in_range(noticed, 10, 30);
}

static void test_now(void **state)
{
	struct clock_steps steps = {0};
	(void)state;
	for (int i = 0; i < 100; i++)
		clock_steps_check_now(&steps);
	assert_true(steps.has_looked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_slow_pairs),
					   cmocka_unit_test(test_creeping), cmocka_unit_test(test_now)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
