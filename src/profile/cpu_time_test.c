/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/fault.h"
#include "profile/cpu_time.h"

static uint32_t string(struct profile *profile, const char *text)
{
	uint32_t id;
	assert_int_equal(profile_add_cstring(profile, text, &id, NULL), 0);
	return id;
}

static struct profile *make(const char *type, const char *unit, const char *period_unit, int64_t period)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, string(profile, type), string(profile, unit), NULL), 0);
	profile->period_type = (struct profile_value_type){string(profile, "cpu"), string(profile, period_unit)};
	profile->period = period;
	const int64_t values[] = {1, 3, INT64_MAX / 2, INT64_MIN};
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(profile_add_sample(profile, &(struct profile_sample){.time_ns = 7}, &values[i], NULL), 0);
	return profile;
}

static void test_which(void **state)
{
	static const struct {
		const char *type, *unit, *period_unit;
		int64_t period;
		bool counts, has_time;
	} cases[] = {
		{"samples", "count", "nanoseconds", 50, true, false},
		{"samples", "count", "nanoseconds", 0, false, false},
		{"samples", "count", "nanoseconds", -1, false, false},
		{"samples", "count", "count", 50, false, false},
		{"samples", "bytes", "nanoseconds", 50, false, false},
		{"wallclock", "nanoseconds", "nanoseconds", 50, false, false},
		{"cpu", "nanoseconds", "nanoseconds", 50, false, true},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct profile *profile = make(cases[i].type, cases[i].unit, cases[i].period_unit, cases[i].period);
		assert_int_equal(profile_counts_cpu_samples(profile), cases[i].counts);
		assert_int_equal(profile_has_cpu_time(profile), cases[i].has_time);
		profile_free(profile);
	}
}

static void test_beside(void **state)
{
	struct profile *profile = make("samples", "count", "nanoseconds", 1000);
	assert_int_equal(profile_add_cpu_time(profile, NULL), 0);
	assert_int_equal(profile->sample_type_count, 2);
	assert_string_equal(profile_string(profile, profile->sample_types[1].type), "cpu");
	assert_string_equal(profile_string(profile, profile->sample_types[1].unit), "nanoseconds");
	const int64_t expected[] = {1, 1000, 3, 3000, INT64_MAX / 2, INT64_MAX, INT64_MIN, INT64_MIN};
	assert_memory_equal(profile->values, expected, sizeof(expected));
	assert_false(profile_counts_cpu_samples(profile));
	/* It goes on as any other. */
	for (int64_t i = 0; i < 100; i++)
		assert_int_equal(profile_add_sample(profile, &(struct profile_sample){0}, (int64_t[]){i, 2 * i}, NULL), 0);
	assert_int_equal(profile->values[2 * 103 + 1], 198);
	profile_free(profile);
}

static void test_in_place(void **state)
{
	struct profile *profile = make("samples", "count", "nanoseconds", 1000);
	assert_int_equal(profile_convert_to_cpu_time(profile, NULL), 0);
	assert_true(profile_has_cpu_time(profile));
	const int64_t expected[] = {1000, 3000, INT64_MAX, INT64_MIN};
	assert_memory_equal(profile->values, expected, sizeof(expected));
	profile_free(profile);
}

static void test_no_samples(void **state)
{
	struct profile *profile = make("samples", "count", "nanoseconds", 1000);
	profile->sample_count = 0;
	assert_int_equal(profile_add_cpu_time(profile, NULL), 0);
	assert_int_equal(profile->sample_type_count, 2);
	profile_free(profile);
}

static void test_without_memory(void **state)
{
	for (uint64_t n = 1;; n++) {
		struct profile *profile = make("samples", "count", "nanoseconds", 1000);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = profile_add_cpu_time(profile, NULL);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		assert_int_equal(profile->sample_type_count, reached ? 1 : 2);
		assert_int_equal(profile->values[0], 1);
		profile_free(profile);
		if (!reached)
			break;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which),	   cmocka_unit_test(test_beside),	  cmocka_unit_test(test_in_place),
		cmocka_unit_test(test_no_samples), cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
