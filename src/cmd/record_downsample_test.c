/* SPDX-License-Identifier: Apache-2.0 */
/* A recording keeps no more samples than it may, totals stay, and what went is written down. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "cmd/record_downsample.h"
#include "cmd/test_cmd.h"
#include "profile/markers.h"
#include "profile/test_profile.h"

#define MAX 1000

static struct profile *make(unsigned samples, int64_t first_ns)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_named_type(profile, "cpu", "count", NULL), 0);
	for (unsigned i = 0; i < samples; i++) {
		struct profile_sample sample = {.time_ns = first_ns ? first_ns + i : 0};
		struct profile_label label = {.key = test_string(profile, "n"), .number = i + 1};
		assert_int_equal(profile_add_label_set(profile, &label, 1, &sample.labels, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, &(int64_t){1}, NULL), 0);
	}
	return profile;
}

static void merge(struct record_downsample *downsample, struct profile *profile, unsigned samples, int64_t first_ns)
{
	_cleanup_(profile_freep) struct profile *arrived = make(samples, first_ns);
	assert_int_equal(record_downsample_merge(downsample, NULL, profile, arrived, NULL), 0);
}

static void test_fits(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make(0, 0);
	struct record_downsample downsample = {.max = MAX};
	static struct test_capture printed;
	(void)state;
	merge(&downsample, profile, MAX / 2, 1000000);
	merge(&downsample, profile, MAX / 2, 2000000);
	assert_int_equal(profile->sample_count, MAX);
	assert_int_equal(downsample.shift, 0);
	assert_int_equal(downsample.arrived, MAX);
	assert_int_equal(record_downsample_note(&downsample, profile, NULL), 0);
	assert_int_equal(profile->comment_count, 0);
	test_capture_begin(&printed);
	record_downsample_report(&downsample);
	test_capture_end(&printed);
	assert_string_equal(printed.err, "");
}

static void test_overflows(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make(0, 0);
	struct record_downsample downsample = {.max = MAX};
	static struct test_capture printed;
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		merge(&downsample, profile, MAX / 2, 1000000ll * (i + 1));
		assert_true(profile->sample_count <= MAX);
		/* What is kept stands for what it was chosen of. */
		for (size_t k = 0; k < profile->sample_count; k++)
			assert_int_equal(profile->values[k], 1ll << downsample.shift);
	}
	assert_int_equal(downsample.arrived, 20 * MAX / 2);
	assert_true(downsample.shift >= 4 && downsample.shift <= 5);
	/* Totals stay but for chance: five standard deviations. */
	assert_true(profile_total(profile, 0) > 7800 && profile_total(profile, 0) < 12200);
	assert_int_equal(record_downsample_note(&downsample, profile, NULL), 0);
	assert_int_equal(profile->comment_count, 1);
	char want[200];
	snprintf(want, sizeof(want),
		 "wick record: downsampled: 1 of %u samples is kept, with its value scaled: 10,000 exceed the limit",
		 1u << downsample.shift);
	assert_string_equal(profile_string(profile, profile->comments[0]), want);
	test_capture_begin(&printed);
	record_downsample_report(&downsample);
	test_capture_end(&printed);
	assert_memory_equal(printed.err, "  downsampled: 1 of ", 20);
}

/* Samples without a time cannot be chosen among: they stay, and the search for room ends. */
static void test_without_times(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make(0, 0);
	struct record_downsample downsample = {.max = MAX};
	(void)state;
	merge(&downsample, profile, MAX + 1, 0);
	assert_int_equal(profile->sample_count, MAX + 1);
	assert_int_equal(profile_total(profile, 0), MAX + 1);
	assert_int_equal(downsample.shift, 20);
}

static void test_default(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make(0, 0);
	struct record_downsample downsample = {0};
	(void)state;
	merge(&downsample, profile, MAX, 5);
	assert_int_equal(downsample.shift, 0);
	assert_int_equal(profile->sample_count, MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fits),
		cmocka_unit_test(test_overflows),
		cmocka_unit_test(test_without_times),
		cmocka_unit_test(test_default),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
