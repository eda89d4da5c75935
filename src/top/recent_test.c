/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/test_faults.h"
#include "top/recent.h"
#include "top/test_top.h"

static struct top_interval second(int64_t number)
{
	return (struct top_interval){.from_ns = number * NS_PER_S,
				     .to_ns = (number + 1) * NS_PER_S,
				     .taken = 10,
				     .stacks = 8,
				     .incomplete = 1,
				     .lost = 2};
}

static void add(struct top_recent *recent, int64_t number, const char *frames, int64_t value)
{
	const struct test_sample sample = {frames, "shop", 1, 1, value};
	_cleanup_(profile_freep) struct profile *profile = test_top_profile(&sample, 1);
	struct top_interval interval = second(number);
	assert_int_equal(top_recent_add(recent, profile, &interval, NULL), 0);
}

static int64_t total(const struct top_recent *recent, struct top_interval *ret_sum)
{
	top_recent_sum(recent, ret_sum);
	return recent->profile->sample_type_count ? profile_total(recent->profile, 0) : 0;
}

/* What is shown is the sum of whole intervals of the last seconds. */
static void test_sliding(void **state)
{
	_cleanup_(top_recent_release) struct top_recent recent = {0};
	struct top_interval sum;
	assert_int_equal(top_recent_init(&recent, 3 * NS_PER_S, NULL), 0);
	assert_int_equal(total(&recent, &sum), 0);
	for (int64_t i = 0; i < 3; i++)
		add(&recent, i, "main;a", 1 << i);
	assert_int_equal(total(&recent, &sum), 1 + 2 + 4);
	assert_int_equal(sum.from_ns, 0);
	assert_int_equal(sum.to_ns, 3 * NS_PER_S);
	add(&recent, 3, "main;b", 8);
	assert_int_equal(total(&recent, &sum), 2 + 4 + 8);
	assert_int_equal(sum.from_ns, NS_PER_S);
	assert_int_equal(sum.taken, 30);
	assert_int_equal(sum.lost, 6);
	assert_int_equal(sum.stacks, 24);
	assert_int_equal(sum.incomplete, 3);
	/* One without samples pushes others out, too; a long one all. */
	struct top_interval interval = second(4);
	assert_int_equal(top_recent_add(&recent, NULL, &interval, NULL), 0);
	assert_int_equal(total(&recent, &sum), 4 + 8);
	/* What was missed is no part of the sum. */
	interval = (struct top_interval){.from_ns = 6 * NS_PER_S, .to_ns = 7 * NS_PER_S};
	assert_int_equal(top_recent_add(&recent, NULL, &interval, NULL), 0);
	assert_int_equal(total(&recent, &sum), 0);
	assert_int_equal(sum.to_ns - sum.from_ns, 2 * NS_PER_S);
	interval = (struct top_interval){.from_ns = 7 * NS_PER_S, .to_ns = 50 * NS_PER_S};
	assert_int_equal(top_recent_add(&recent, NULL, &interval, NULL), 0);
	assert_int_equal(sum.to_ns, 7 * NS_PER_S);
	top_recent_sum(&recent, &sum);
	assert_int_equal(sum.from_ns, 7 * NS_PER_S);
}

static void test_clearing(void **state)
{
	_cleanup_(top_recent_release) struct top_recent recent = {0};
	struct top_interval sum;
	assert_int_equal(top_recent_init(&recent, 3 * NS_PER_S, NULL), 0);
	add(&recent, 0, "main;a", 1);
	assert_int_equal(top_recent_clear(&recent, NULL), 0);
	assert_int_equal(total(&recent, &sum), 0);
	add(&recent, 0, "main;a", 2);
	assert_int_equal(total(&recent, &sum), 2);
}

/* Equal stacks of one interval are one sample, and names that are not used any more do not pile up. */
static void test_bounded(void **state)
{
	_cleanup_(top_recent_release) struct top_recent recent = {0};
	struct top_interval sum;
	size_t most = 0;
	assert_int_equal(top_recent_init(&recent, 2 * NS_PER_S, NULL), 0);
	for (int64_t i = 0; i < 300; i++) {
		_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "nanoseconds");
		struct top_interval interval = second(i);
		char frames[64];
		for (int k = 0; k < 200; k++) {
			snprintf(frames, sizeof(frames), "main;f%lld;g%d", (long long)i, k);
			test_top_add(profile, &(struct test_sample){frames, "shop", 1, 1, 1});
		}
		assert_int_equal(top_recent_add(&recent, profile, &interval, NULL), 0);
		assert_int_equal(recent.profile->sample_count, i ? 400 : 200);
		most = recent.profile->stack_count > most ? recent.profile->stack_count : most;
	}
	assert_true(most < 20000); /* of 60,000 that there were */
	assert_int_equal(total(&recent, &sum), 400);
	assert_true(recent.count == 2);
}

static int add_twice(void *context)
{
	_cleanup_(top_recent_release) struct top_recent recent = {0};
	struct top_interval interval = second(0);
	int r = top_recent_init(&recent, NS_PER_S, NULL);
	if (r == 0)
		r = top_recent_add(&recent, context, &interval, NULL);
	interval = second(1);
	if (r == 0)
		r = top_recent_add(&recent, context, &interval, NULL);
	return r;
}

static void test_memory(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_top_profile(test_samples, TEST_SAMPLES);
	assert_true(test_each_allocation(add_twice, profile) > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sliding),
		cmocka_unit_test(test_clearing),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
