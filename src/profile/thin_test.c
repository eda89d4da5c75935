/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"
#include "profile/thin.h"

#define SAMPLES 64000
#define PERIOD	10000000 /* ns */
#define START	1700000000000000000ll

/* Samples of two values, one and one ns, at the ticks of a timer; the last one without a time. */
static struct profile *make(void)
{
	struct profile *profile;
	uint32_t type;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "samples", &type, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, type, type, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "cpu", &type, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, type, type, NULL), 0);
	for (int64_t i = 0; i <= SAMPLES; i++) {
		struct profile_sample sample = {.time_ns = i < SAMPLES ? START + i * PERIOD : 0};
		int64_t values[2] = {1, PERIOD};
		assert_int_equal(profile_add_sample(profile, &sample, values, NULL), 0);
	}
	return profile;
}

/* Five standard deviations of how many of n stay, if one of 2^shift does by chance. */
static double tolerance(double n, unsigned shift)
{
	double share = 1.0 / (double)(1u << shift), variance = n * share * (1 - share), root = variance;
	for (int i = 0; i < 60 && root > 0; i++)
		root = (root + variance / root) / 2;
	return 5 * root;
}

static void check(const struct profile *profile, unsigned shift)
{
	int64_t tenths[10] = {0}, weight = 1ll << shift;
	size_t timed = 0;
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		int64_t expected = sample->time_ns ? weight : 1;
		assert_int_equal(profile->values[2 * i], expected);
		assert_int_equal(profile->values[2 * i + 1], expected * PERIOD);
		if (!sample->time_ns)
			continue;
		timed++;
		tenths[(sample->time_ns - START) / PERIOD * 10 / SAMPLES]++;
	}
	assert_int_equal(timed + 1, profile->sample_count);
	for (int i = 0; i < 10; i++)
		assert_true(llabs(tenths[i] - SAMPLES / 10 / weight) <= (int64_t)tolerance(SAMPLES / 10, shift));
}

static void test_samples_become_sparser_all_over_the_time(void **state)
{
	struct profile *profile = make();
	(void)state;
	assert_int_equal(profile_thin_samples(profile, 0, 0, NULL), 0);
	assert_int_equal(profile->sample_count, SAMPLES + 1);
	for (unsigned shift = 1; shift <= 5; shift++) {
		assert_int_equal(profile_thin_samples(profile, shift - 1, shift, NULL), 0);
		check(profile, shift);
	}
	profile_free(profile);
}

static void test_one_step_keeps_what_many_keep(void **state)
{
	struct profile *steps = make(), *once = make();
	(void)state;
	for (unsigned shift = 0; shift < 4; shift++)
		assert_int_equal(profile_thin_samples(steps, shift, shift + 1, NULL), 0);
	assert_int_equal(profile_thin_samples(once, 0, 4, NULL), 0);
	assert_int_equal(steps->sample_count, once->sample_count);
	for (size_t i = 0; i < once->sample_count; i++) {
		assert_int_equal(steps->samples[i].time_ns, once->samples[i].time_ns);
		assert_int_equal(steps->values[2 * i], once->values[2 * i]);
	}
	profile_free(steps);
	profile_free(once);
}

static void test_without_memory_all_stay(void **state)
{
	struct profile *profile = make();
	(void)state;
	fault_arm(FAULT_ALLOC, 1, 0);
	assert_int_equal(profile_thin_samples(profile, 0, 1, NULL), -ENOMEM);
	assert_true(fault_disarm(FAULT_ALLOC));
	check(profile, 0);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples_become_sparser_all_over_the_time),
		cmocka_unit_test(test_one_step_keeps_what_many_keep),
		cmocka_unit_test(test_without_memory_all_stay),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
