/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/time.h"
#include "control/self_heap.h"
#include "format/format.h"
#include "profile/profile.h"

#define RATE  4096u
#define COUNT 100u
#define LARGE 100000u /* each is sampled, but for one in 10^10, and stands for itself */

enum value { ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE };

static void require_sampler(void)
{
	if (!heap_sampler_is_built_in())
		skip();
}

static struct profile *make(enum self_heap_default shown, int64_t duration_ns)
{
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	struct profile *profile;
	struct error err = {0};
	int r = self_heap_make(shown, duration_ns, NULL, NULL, &out, &err);
	if (r < 0)
		fail_msg("%d: %s", r, err.message);
	assert_true(out.len > 2 && out.data[0] == 0x1f && out.data[1] == 0x8b);
	assert_int_equal(format_decode(NULL, buffer_bytes(&out), NULL, &profile, &err), 0);
	return profile;
}

/* ---- what allocates ---- */

static void *kept[COUNT];

__attribute__((noinline)) static void allocate_in_test(void)
{
	for (size_t i = 0; i < COUNT; i++)
		kept[i] = mem_zalloc_array(LARGE / 10, 10);
}

__attribute__((noinline)) static void free_in_test(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		kept[i] = mem_free(kept[i]);
}

/* ---- what is in the profile ---- */

static bool is_named(const struct profile *profile, uint32_t stack, const char *name)
{
	const struct profile_location *location = &profile->locations[profile->stacks[stack].location];
	for (uint32_t i = 0; i < location->line_count; i++)
		if (strcmp(profile_string(profile, profile->functions[profile->lines[location->line_first + i].function].name),
			   name) == 0)
			return true;
	return false;
}

/* The sum over stacks whose leaf has that name. */
static int64_t sum_in(const struct profile *profile, enum value value, const char *leaf)
{
	int64_t sum = 0;
	for (size_t i = 0; i < profile->sample_count; i++)
		if (is_named(profile, profile->samples[i].stack, leaf))
			sum += profile->values[i * profile->sample_type_count + value];
	return sum;
}

static bool is_below(const struct profile *profile, const char *leaf, const char *caller)
{
	for (size_t i = 0; i < profile->sample_count; i++) {
		uint32_t stack = profile->samples[i].stack;
		if (!is_named(profile, stack, leaf))
			continue;
		while (stack && !is_named(profile, stack, caller))
			stack = profile->stacks[stack].parent;
		return stack > 0;
	}
	return false;
}

static void assert_type(const struct profile *profile, size_t index, const char *type, const char *unit)
{
	assert_string_equal(profile_string(profile, profile->sample_types[index].type), type);
	assert_string_equal(profile_string(profile, profile->sample_types[index].unit), unit);
}

/* ---- tests ---- */

/* Until then it is an error, with a reason. */
static void test_not_started(void **state)
{
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	struct error err = {0};
	assert_int_equal(self_heap_make(SELF_HEAP_IN_USE, 0, NULL, NULL, &out, &err), -ENOTSUP);
	assert_non_null(strstr(err.message, "there is no heap profile"));
	assert_int_equal(out.len, 0);
	if (!heap_sampler_start(RATE)) {
		assert_int_equal(self_heap_make(SELF_HEAP_IN_USE, 0, NULL, NULL, &out, &err), -ENOTSUP);
		assert_non_null(strstr(err.message, "AddressSanitizer"));
	}
}

static void test_types(void **state)
{
	require_sampler();
	for (int i = 0; i < 2; i++) {
		struct profile *profile = make(i == 0 ? SELF_HEAP_IN_USE : SELF_HEAP_ALLOCATED, 0);
		assert_int_equal(profile->sample_type_count, 4);
		assert_type(profile, ALLOC_OBJECTS, "alloc_objects", "count");
		assert_type(profile, ALLOC_SPACE, "alloc_space", "bytes");
		assert_type(profile, INUSE_OBJECTS, "inuse_objects", "count");
		assert_type(profile, INUSE_SPACE, "inuse_space", "bytes");
		assert_int_equal(profile_default_sample_type(profile), i == 0 ? INUSE_SPACE : ALLOC_SPACE);
		assert_string_equal(profile_string(profile, profile->period_type.type), "space");
		assert_string_equal(profile_string(profile, profile->period_type.unit), "bytes");
		assert_int_equal(profile->period, RATE);
		assert_non_null(strstr(profile_string(profile, profile->mappings[1].file_name), "self_heap_test"));
		assert_true(profile->time_ns > 0);
		profile_free(profile);
	}
}

/* The leaf is who asked for memory, not what is asked. */
static void test_names_and_values(void **state)
{
	require_sampler();
	allocate_in_test();
	struct profile *profile = make(SELF_HEAP_IN_USE, 0);
	assert_int_equal(sum_in(profile, ALLOC_OBJECTS, "allocate_in_test"), COUNT);
	assert_in_range(sum_in(profile, ALLOC_SPACE, "allocate_in_test"), COUNT * LARGE, COUNT * LARGE + COUNT);
	assert_int_equal(sum_in(profile, INUSE_OBJECTS, "allocate_in_test"), COUNT);
	assert_int_equal(sum_in(profile, INUSE_SPACE, "allocate_in_test"), sum_in(profile, ALLOC_SPACE, "allocate_in_test"));
	assert_true(is_below(profile, "allocate_in_test", "test_names_and_values"));
	assert_true(is_below(profile, "allocate_in_test", "main"));
	assert_int_equal(sum_in(profile, ALLOC_OBJECTS, "mem_zalloc_array"), 0);
	assert_int_equal(sum_in(profile, ALLOC_OBJECTS, "mem_zalloc"), 0);
	assert_int_equal(profile->comment_count, 0);
	profile_free(profile);
	free_in_test(0, COUNT / 2);
	profile = make(SELF_HEAP_IN_USE, 0);
	assert_int_equal(sum_in(profile, ALLOC_OBJECTS, "allocate_in_test"), COUNT);
	assert_int_equal(sum_in(profile, INUSE_OBJECTS, "allocate_in_test"), COUNT / 2);
	profile_free(profile);
	free_in_test(COUNT / 2, COUNT);
	profile = make(SELF_HEAP_IN_USE, 0);
	assert_int_equal(sum_in(profile, INUSE_OBJECTS, "allocate_in_test"), 0);
	assert_int_equal(sum_in(profile, INUSE_SPACE, "allocate_in_test"), 0);
	profile_free(profile);
}

/* ---- a change ---- */

static atomic_bool is_cancelled;

/* Whether another one is under way is tried by one that ends at once, in whose way this may come. */
static int make_change(int64_t duration_ns, struct buffer *out)
{
	int r;
	do {
		buffer_clear(out);
		r = self_heap_make(SELF_HEAP_IN_USE, duration_ns, &is_cancelled, NULL, out, NULL);
	} while (r == -EBUSY);
	return r;
}

static void *measure(void *context)
{
	return (void *)(intptr_t)make_change(3600 * NS_PER_S, context);
}

static void wait_until_busy(void)
{
	static const atomic_bool cancelled = true;
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	struct error err = {0};
	int r = 0;
	for (int i = 0; i < 60000 && r != -EBUSY; i++) {
		time_sleep_ns(NS_PER_MS);
		r = self_heap_make(SELF_HEAP_IN_USE, NS_PER_S, &cancelled, NULL, &out, &err);
	}
	assert_int_equal(r, -EBUSY);
	assert_non_null(strstr(err.message, "another heap profile"));
}

static void test_one_change_at_a_time(void **state)
{
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	pthread_t thread;
	void *result;
	require_sampler();
	assert_int_equal(thread_start(&thread, "measure", measure, &out, NULL), 0);
	wait_until_busy();
	/* What there is is for everybody. */
	profile_free(make(SELF_HEAP_IN_USE, 0));
	atomic_store(&is_cancelled, true);
	pthread_join(thread, &result);
	assert_int_equal((intptr_t)result, -ECANCELED);
	assert_int_equal(out.len, 0);
	atomic_store(&is_cancelled, false);
	profile_free(make(SELF_HEAP_IN_USE, NS_PER_MS));
}

static void *measure_change(void *context)
{
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	struct profile *profile;
	assert_int_equal(make_change(NS_PER_S, &out), 0);
	assert_int_equal(format_decode(NULL, buffer_bytes(&out), NULL, &profile, NULL), 0);
	return profile;
}

/* Half of what there was goes, and as much comes elsewhere. */
__attribute__((noinline)) static void allocate_meanwhile(void)
{
	for (size_t i = 0; i < COUNT / 2; i++)
		kept[i] = mem_alloc(LARGE);
}

static void test_change(void **state)
{
	pthread_t thread;
	void *profile = NULL;
	require_sampler();
	/* Another try if the machine stood still for that second, or where it had begun and its sums were not taken yet. */
	for (int tries = 0; tries < 60; tries++) {
		allocate_in_test();
		assert_int_equal(thread_start(&thread, "measure", measure_change, NULL, NULL), 0);
		wait_until_busy();
		free_in_test(0, COUNT / 2);
		allocate_meanwhile();
		pthread_join(thread, &profile);
		free_in_test(0, COUNT);
		if (sum_in(profile, ALLOC_OBJECTS, "allocate_meanwhile") == COUNT / 2 &&
		    sum_in(profile, INUSE_OBJECTS, "allocate_in_test") < 0)
			break;
		profile = profile_free(profile);
	}
	assert_non_null(profile);
	assert_int_equal(sum_in(profile, INUSE_OBJECTS, "allocate_meanwhile"), COUNT / 2);
	assert_int_equal(sum_in(profile, INUSE_OBJECTS, "allocate_in_test"), -(int64_t)(COUNT / 2));
	assert_int_equal(sum_in(profile, ALLOC_OBJECTS, "allocate_in_test"), 0);
	assert_true(((struct profile *)profile)->duration_ns >= NS_PER_S);
	profile_free(profile);
}

/* ---- bounds ---- */

/* What the tables have no room for is said. */
static void test_losses(void **state)
{
	static void *live[HEAP_LIVE * 2];
	const char *comment;
	require_sampler();
	for (size_t i = 0; i < HEAP_LIVE * 2; i++)
		live[i] = malloc(LARGE);
	struct profile *profile = make(SELF_HEAP_IN_USE, 0);
	for (size_t i = 0; i < HEAP_LIVE * 2; i++)
		free(live[i]);
	assert_int_equal(profile->comment_count, 1);
	comment = profile_string(profile, profile->comments[0]);
	assert_memory_equal(comment, "lost: ", 6);
	assert_in_range(strtoul(comment + 6, NULL, 10), HEAP_LIVE, HEAP_LIVE * 2);
	assert_non_null(strstr(comment, "they count as freed"));
	assert_true(sum_in(profile, ALLOC_OBJECTS, "test_losses") >= HEAP_LIVE * 2);
	assert_true(sum_in(profile, INUSE_OBJECTS, "test_losses") <= HEAP_LIVE);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_started),	     cmocka_unit_test(test_types),
		cmocka_unit_test(test_names_and_values),     cmocka_unit_test(test_change),
		cmocka_unit_test(test_one_change_at_a_time), cmocka_unit_test(test_losses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
