/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "profile/downsample.h"

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
	double share = 1.0 / (double)(1u << shift);
	return 5 * sqrt(n * share * (1 - share));
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
	profile_downsample_samples(profile, 0, 0);
	assert_int_equal(profile->sample_count, SAMPLES + 1);
	for (unsigned shift = 1; shift <= 5; shift++) {
		profile_downsample_samples(profile, shift - 1, shift);
		check(profile, shift);
	}
	profile_free(profile);
}

static void test_one_step_keeps_what_many_keep(void **state)
{
	struct profile *steps = make(), *once = make();
	(void)state;
	for (unsigned shift = 0; shift < 4; shift++)
		profile_downsample_samples(steps, shift, shift + 1);
	profile_downsample_samples(once, 0, 4);
	assert_int_equal(steps->sample_count, once->sample_count);
	for (size_t i = 0; i < once->sample_count; i++) {
		assert_int_equal(steps->samples[i].time_ns, once->samples[i].time_ns);
		assert_int_equal(steps->values[2 * i], once->values[2 * i]);
	}
	profile_free(steps);
	profile_free(once);
}

/* Seven rows each: 1, 2, 4 ... of two counters of a kind, one after the other; then what stays of two rows, or of four. */
static void check_rows(enum profile_counter_kind kind, unsigned shift, const double *expected, size_t count)
{
	struct profile *profile = make();
	struct profile_counter counter = {.kind = kind};
	uint32_t ids[2];
	for (size_t k = 0; k < 2; k++) {
		assert_int_equal(profile_add_cstring(profile, k ? "a" : "b", &counter.name, NULL), 0);
		assert_int_equal(profile_add_counter(profile, &counter, &ids[k], NULL), 0);
	}
	for (int64_t i = 0; i < 7; i++)
		for (size_t k = 0; k < 2; k++) {
			double value = (double)(1 << i) * (k ? 100 : 1);
			assert_int_equal(profile_add_counter_row(profile, ids[k], START + i, value, NULL), 0);
		}
	assert_int_equal(profile_downsample_rows(profile, shift, NULL), 0);
	const struct profile_markers *markers = profile->markers;
	assert_int_equal(markers->row_count, 2 * count);
	for (size_t i = 0; i < 2 * count; i++) {
		const struct profile_counter_row *row = &markers->rows[i];
		int64_t number = i / 2 == count - 1 ? 6 : (int64_t)((i / 2 + 1) << shift) - 1;
		assert_int_equal(row->counter, ids[i % 2]);
		assert_int_equal(row->time_ns, START + number);
		assert_true(fabs(row->value - expected[i / 2] * (i % 2 ? 100 : 1)) < 1e-9);
	}
	profile_free(profile);
}

static void test_rows(void **state)
{
	(void)state;
	check_rows(PROFILE_COUNTER_LEVEL, 1, (const double[]){2, 8, 32, 64}, 4);
	check_rows(PROFILE_COUNTER_EVENTS, 1, (const double[]){3, 12, 48, 64}, 4);
	check_rows(PROFILE_COUNTER_SHARE, 1, (const double[]){1.5, 6, 24, 64}, 4);
	check_rows(PROFILE_COUNTER_EVENTS, 2, (const double[]){15, 112}, 2);
	check_rows(PROFILE_COUNTER_SHARE, 2, (const double[]){3.75, 112.0 / 3}, 2);
	assert_true(isfinite(profile_add_events(DBL_MAX, DBL_MAX)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples_become_sparser_all_over_the_time),
		cmocka_unit_test(test_one_step_keeps_what_many_keep),
		cmocka_unit_test(test_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
