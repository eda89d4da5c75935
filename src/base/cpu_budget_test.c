// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/cpu_budget.h"
#include "base/time.h"

#define BURST_NS (NS_PER_S / 2)

/* Programs of half a second each that come at an interval: how many are worked on in an hour. */
static unsigned programs_an_hour(struct cpu_budget *budget, int64_t *now_ns, int64_t interval_ns)
{
	unsigned count = 0;
	for (int64_t end_ns = *now_ns + 3600 * NS_PER_S; *now_ns < end_ns; *now_ns += interval_ns) {
		if (cpu_budget_left(budget, *now_ns) <= 0)
			continue;
		cpu_budget_use(budget, NS_PER_S / 2, *now_ns);
		count++;
	}
	return count;
}

static void test_a_few_at_once_then_a_five_hundredth(void **state)
{
	struct cpu_budget budget = {.burst_ns = BURST_NS, .part = 500};
	int64_t now_ns = 5 * NS_PER_S;
	(void)state;

	/* 0.5 s and 3,600 s / 500 = 7.2 s, of half a second; and the last one, which goes over it. */
	unsigned first = programs_an_hour(&budget, &now_ns, NS_PER_S / 10);
	assert_in_range(first, 15, 16);
	unsigned second = programs_an_hour(&budget, &now_ns, NS_PER_S / 10);
	assert_in_range(second, 14, 15);
	now_ns += 2000 * NS_PER_S; /* it fills up again, and no further */
	unsigned third = programs_an_hour(&budget, &now_ns, NS_PER_S / 10);
	assert_in_range(third, 15, 16);
}

static void test_rare_ones_are_all_worked_on(void **state)
{
	struct cpu_budget budget = {.burst_ns = BURST_NS, .part = 500};
	int64_t now_ns = 5 * NS_PER_S;
	(void)state;
	assert_int_equal(programs_an_hour(&budget, &now_ns, 300 * NS_PER_S), 12);
}

static void test_odd_clocks(void **state)
{
	struct cpu_budget budget = {.burst_ns = BURST_NS, .part = 500};
	(void)state;
	assert_true(cpu_budget_left(&budget, 100) > 0);
	cpu_budget_use(&budget, -5, 100);
	cpu_budget_use(&budget, BURST_NS, 100);
	assert_int_equal(cpu_budget_left(&budget, 50), 0);
	assert_true(cpu_budget_left(&budget, 60) <= 0);
	assert_true(cpu_budget_left(&budget, INT64_MAX) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_few_at_once_then_a_five_hundredth),
		cmocka_unit_test(test_rare_ones_are_all_worked_on),
		cmocka_unit_test(test_odd_clocks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
