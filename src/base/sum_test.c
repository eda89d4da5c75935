// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/sum.h"

static const int64_t edges[] = {INT64_MIN,     INT64_MIN + 1,	  INT64_MIN / 2 - 1, INT64_MIN / 2, -2,	      -1, 0, 1, 2,
				INT64_MAX / 2, INT64_MAX / 2 + 1, INT64_MAX / 2 + 2, INT64_MAX - 1, INT64_MAX};
#define EDGES (sizeof(edges) / sizeof(*edges))

static int64_t random_value(void)
{
	uint64_t bits = (uint64_t)mrand48() << 32 ^ (uint64_t)mrand48();
	return (int64_t)bits >> (mrand48() & 63);
}

static int64_t clamped(__int128 value)
{
	return value > INT64_MAX ? INT64_MAX : value < INT64_MIN ? INT64_MIN : (int64_t)value;
}

static void check_two(int64_t a, int64_t b)
{
	__int128 x = a, y = b;
	int64_t sum = sum_add(a, b);
	if (a != INT64_MAX && a != INT64_MIN && b != INT64_MAX && b != INT64_MIN)
		assert_int_equal(sum, clamped(x + y));
	else
		assert_true(sum == INT64_MAX || sum == INT64_MIN);
	assert_int_equal(sum_is_full(a), a == INT64_MAX || a == INT64_MIN);
	assert_int_equal(sum_difference(a, b), clamped(x - y));
	assert_int_equal(sum_negate(a), clamped(-x));
	assert_int_equal(sum_product(a, b), clamped(x * y));
	assert_int_equal(sum_of_wide(x + y), clamped(x + y));
	assert_int_equal(sum_difference(a, a), 0);
}

static void test_two(void **state)
{
	for (size_t i = 0; i < EDGES; i++)
		for (size_t k = 0; k < EDGES; k++)
			check_two(edges[i], edges[k]);
	for (int i = 0; i < 200000; i++)
		check_two(random_value(), i % 3 ? random_value() : edges[(size_t)i % EDGES]);
}

/* Values of one sign come to the same in every order and every grouping; a guard says when they may not have fitted. */
static void test_many(void **state)
{
	for (int round = 0; round < 20000; round++) {
		int64_t values[8], forward = 0, backward = 0, halves[2] = {0};
		struct sum_guard guard = {0};
		bool mixed = round % 4 == 0;
		__int128 exact = 0, positive = 0, negative = 0;
		for (int i = 0; i < 8; i++) {
			values[i] = random_value() / 2;
			if (!mixed && values[i] < 0)
				values[i] = -values[i];
			exact += values[i];
			*(values[i] > 0 ? &positive : &negative) += values[i];
		}
		for (int i = 0; i < 8; i++) {
			sum_to(&forward, values[i]);
			sum_to(&backward, values[7 - i]);
			sum_to(&halves[i & 1], values[i]);
			sum_guard_add(&guard, values[i]);
		}
		bool full = positive >= INT64_MAX || negative <= INT64_MIN;
		assert_int_equal(sum_guard_is_full(&guard), full);
		if (mixed && full)
			continue;
		assert_int_equal(forward, clamped(exact));
		assert_int_equal(backward, forward);
		assert_int_equal(sum_add(halves[0], halves[1]), forward);
	}
}

static void test_stays(void **state)
{
	int64_t sum = 5;
	sum_to(&sum, INT64_MAX - 4);
	assert_int_equal(sum, INT64_MAX);
	sum_to(&sum, -100);
	assert_int_equal(sum, INT64_MAX);
	assert_int_equal(sum_add(-100, sum), INT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
