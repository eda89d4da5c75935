/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "base/time.h"
#include "control/self_profile.h"
#include "control/self_sampler.h"
#include "format/format.h"
#include "profile/profile.h"

#define TRIES 60 /* of a second each, until there is a sample */

static atomic_bool ends;
static volatile uint64_t sink;

/* ---- what is sampled: our code below a library's, which has no frame pointers ---- */

__attribute__((noinline)) static int compare_in_test(const void *a, const void *b)
{
	for (uint64_t i = 0; i < 20000; i++)
		sink += i * i;
	return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

__attribute__((noinline)) static void sort_in_test(void)
{
	int numbers[64];
	for (int i = 0; i < 64; i++)
		numbers[i] = i * 37 % 64;
	qsort(numbers, 64, sizeof(numbers[0]), compare_in_test);
	sink += (uint64_t)numbers[0];
}

static void *work(void *context)
{
	while (!atomic_load(&ends))
		sort_in_test();
	return context;
}

static bool has_function(const struct profile *profile, uint32_t stack, const char *name)
{
	for (; stack; stack = profile->stacks[stack].parent) {
		const struct profile_location *location = &profile->locations[profile->stacks[stack].location];
		for (uint32_t i = 0; i < location->line_count; i++) {
			const struct profile_line *line = &profile->lines[location->line_first + i];
			if (strcmp(profile_string(profile, profile->functions[line->function].name), name) == 0)
				return true;
		}
	}
	return false;
}

/* The samples in `leaf` below `caller`. */
static int64_t count_below(const struct profile *profile, const char *leaf, const char *caller)
{
	int64_t sum = 0;
	for (size_t i = 0; i < profile->sample_count; i++)
		if (has_function(profile, profile->samples[i].stack, leaf) &&
		    has_function(profile, profile->samples[i].stack, caller))
			sum += profile->values[i * profile->sample_type_count];
	return sum;
}

static struct profile *make(int64_t duration_ns)
{
	struct buffer out = {.max = SIZE_MAX};
	struct profile *profile;
	struct error err = {0};
	int r = self_profile_make(duration_ns, NULL, NULL, &out, &err);
	if (r < 0)
		fail_msg("%d: %s", r, err.message);
	assert_true(out.len > 2 && out.data[0] == 0x1f && out.data[1] == 0x8b);
	assert_int_equal(format_decode(NULL, buffer_bytes(&out), NULL, &profile, &err), 0);
	buffer_release(&out);
	return profile;
}

static void test_names_and_callers(void **state)
{
	pthread_t thread;
	int64_t below = 0;
	atomic_store(&ends, false);
	assert_int_equal(thread_start(&thread, "worker", work, NULL, NULL), 0);
	for (int i = 0; i < TRIES && !below; i++) {
		struct profile *profile = make(NS_PER_S);
		assert_int_equal(profile->sample_type_count, 2);
		assert_string_equal(profile_string(profile, profile->sample_types[1].type), "cpu");
		assert_int_equal(profile->period, NS_PER_S / SELF_HZ);
		assert_non_null(strstr(profile_string(profile, profile->mappings[1].file_name), "self_profile_test"));
		assert_int_equal(profile_total(profile, 1), profile_total(profile, 0) * profile->period);
		below = count_below(profile, "compare_in_test", "sort_in_test");
		profile_free(profile);
	}
	atomic_store(&ends, true);
	pthread_join(thread, NULL);
	assert_true(below > 0);
}

/* A thread that comes while it goes on. */
static void *start_late(void *context)
{
	time_sleep_ns(200 * NS_PER_MS);
	return work(context);
}
static void *start_later(void *context)
{
	pthread_t *thread = context;
	time_sleep_ns(200 * NS_PER_MS);
	assert_int_equal(thread_start(thread, "late", start_late, NULL, NULL), 0);
	return NULL;
}

static void test_new_threads(void **state)
{
	int64_t below = 0;
	for (int i = 0; i < TRIES && !below; i++) {
		pthread_t starter, late;
		atomic_store(&ends, false);
		assert_int_equal(thread_start(&starter, "starter", start_later, &late, NULL), 0);
		struct profile *profile = make(2 * NS_PER_S);
		atomic_store(&ends, true);
		pthread_join(starter, NULL);
		pthread_join(late, NULL);
		below = count_below(profile, "compare_in_test", "start_late");
		profile_free(profile);
	}
	assert_true(below > 0);
}

/* ---- one at a time ---- */

static void test_one_at_a_time(void **state)
{
	struct buffer out = {.max = SIZE_MAX};
	const atomic_bool cancelled = true;
	struct error err = {0};
	assert_int_equal(self_sampler_start(&err), 0);
	assert_int_equal(self_profile_make(NS_PER_S, NULL, NULL, &out, &err), -EBUSY);
	assert_non_null(strstr(err.message, "another CPU profile"));
	assert_int_equal(self_sampler_start(&err), -EBUSY);
	self_sampler_stop();
	/* Nobody waits: it ends at once, and the next one may begin. */
	assert_int_equal(self_profile_make(3600 * NS_PER_S, &cancelled, NULL, &out, &err), -ECANCELED);
	assert_int_equal(out.len, 0);
	assert_int_equal(self_profile_make(10 * NS_PER_MS, NULL, NULL, &out, &err), 0);
	buffer_release(&out);
}

/* Signals that come afterwards, from whomever, end nothing. */
static void test_signals_afterwards(void **state)
{
	profile_free(make(10 * NS_PER_MS));
	for (int i = 0; i < 100; i++)
		raise(SIGPROF);
}

/* What a register holds that is no frame pointer is not followed, whatever it leads to. */
static void test_wrong_frame_pointers(void **state)
{
#ifdef __x86_64__
	struct self_sample sample;
	struct error err = {0};
	uint64_t values[] = {
		0, 1, 8, UINT64_MAX, UINT64_MAX - 7, 0x7fffffffffff, 0xffff800000000000, (uint64_t)(uintptr_t)&sample};
	size_t seen = 0;
	for (int tries = 0; tries < TRIES * 20 && seen == 0; tries++) {
		assert_int_equal(self_sampler_start(&err), 0);
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
			__asm__ volatile("push %%rbp\n"
					 "mov %0, %%rbp\n"
					 "mov $30000000, %%rcx\n"
					 "1: dec %%rcx\n"
					 "jnz 1b\n"
					 "pop %%rbp\n"
					 :
					 : "r"(values[i])
					 : "rcx", "memory");
		while (self_sampler_take(&sample)) {
			assert_in_range(sample.frame_count, 0, SELF_FRAMES_MAX);
			seen++;
		}
		self_sampler_stop();
	}
	assert_true(seen > 0);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_and_callers),    cmocka_unit_test(test_new_threads),
		cmocka_unit_test(test_one_at_a_time),	     cmocka_unit_test(test_signals_afterwards),
		cmocka_unit_test(test_wrong_frame_pointers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
