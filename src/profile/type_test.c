/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>

#include "profile/test_profile.h"
#include "profile/type.h"

static void test_parse(void **state)
{
	struct profile_type type;
	char text[PROFILE_TYPE_TEXT_MAX];
	assert_int_equal(profile_type_parse("process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", &type, NULL), 0);
	assert_string_equal(type.name, "process_cpu");
	assert_string_equal(type.sample_type, "cpu");
	assert_string_equal(type.sample_unit, "nanoseconds");
	assert_string_equal(type.period_type, "cpu");
	assert_string_equal(type.period_unit, "nanoseconds");
	assert_true(type.delta);
	assert_int_equal(profile_type_parse("a:b:::", &type, NULL), 0);
	assert_false(type.delta);
	assert_string_equal(profile_type_format(&type, text), "a:b:::");
}

static void test_refuses(void **state)
{
	static const char *const bad[][2] = {
		{"", "name"},
		{"a", "1 parts"},
		{"a:b:c:d", "4 parts"},
		{":b:c:d:e", "name is empty"},
		{"a::c:d:e", "sample type is empty"},
		{"a:b:c:d:e:", "after the period unit"},
		{"a:b:c:d:e:Delta", "after the period unit"},
		{"a:b:c:d:e:delta:x", "after the period unit"},
		{"a:b c:c:d:e", "sample type may hold"},
		{"a:b:c:d:\xc3\xa4", "period unit may hold"},
		{"a:b:c:d:e\n", "period unit may hold"},
		{"0123456789012345678901234567890123456789012345678:b:c:d:e", "longer than 47"},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct profile_type type = {.name = "untouched"};
		struct error err = {0};
		assert_int_equal(profile_type_parse(bad[i][0], &type, &err), -EINVAL);
		if (!strstr(err.message, bad[i][1]))
			fail_msg("'%s' lacks '%s'", err.message, bad[i][1]);
		assert_string_equal(type.name, "untouched");
	}
}

static void random_part(struct test_random *random, char *out, size_t size, size_t min)
{
	static const char chars[] = "abcXYZ019_./-";
	size_t len = min + test_random_below(random, size - min);
	for (size_t i = 0; i < len; i++)
		out[i] = chars[test_random_below(random, sizeof(chars) - 1)];
	out[len] = '\0';
}

static void test_round_trip(void **state)
{
	struct test_random random = {.state = 2};
	for (unsigned round = 0; round < 2000; round++) {
		struct profile_type type = {.delta = test_random_below(&random, 2)}, parsed;
		random_part(&random, type.name, sizeof(type.name), 1);
		random_part(&random, type.sample_type, sizeof(type.sample_type), 1);
		random_part(&random, type.sample_unit, sizeof(type.sample_unit), 0);
		random_part(&random, type.period_type, sizeof(type.period_type), 0);
		random_part(&random, type.period_unit, sizeof(type.period_unit), 0);
		char text[PROFILE_TYPE_TEXT_MAX], again[PROFILE_TYPE_TEXT_MAX];
		profile_type_format(&type, text);
		assert_int_equal(profile_type_parse(text, &parsed, NULL), 0);
		assert_true(profile_type_equal(&type, &parsed));
		assert_string_equal(profile_type_format(&parsed, again), text);
		parsed.delta = !parsed.delta;
		assert_false(profile_type_equal(&type, &parsed));
	}
}

static void assert_type_of(const char *name, const char *sample, const char *unit, const char *period, const char *expected)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct profile_type type, parsed;
	char text[PROFILE_TYPE_TEXT_MAX];
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, test_string(profile, sample), test_string(profile, unit), NULL), 0);
	profile->period_type.type = test_string(profile, period);
	profile_type_of(profile, 0, name, &type);
	assert_string_equal(profile_type_format(&type, text), expected);
	assert_int_equal(profile_type_parse(text, &parsed, NULL), 0);
	profile->duration_ns = 1;
	profile_type_of(profile, 0, name, &type);
	assert_true(type.delta);
}

static void test_type_of(void **state)
{
	assert_type_of(NULL, "cpu", "nanoseconds", "cpu", "process_cpu:cpu:nanoseconds:cpu:");
	assert_type_of("", "samples", "count", "", "process_cpu:samples:count::");
	assert_type_of(NULL, "wall", "ns", "", "wall:wall:ns::");
	assert_type_of(NULL, "wall", "nanoseconds", "wall", "wall:wall:nanoseconds:wall:");
	assert_type_of(NULL, "sample", "count", "wall", "wall:sample:count:wall:");
	assert_type_of(NULL, "samples", "count", "wall", "wall:samples:count:wall:");
	assert_type_of("wall", "cpu", "nanoseconds", "wall", "process_cpu:cpu:nanoseconds:wall:");
	assert_type_of("wall", "wall", "nanoseconds", "wall", "wall:wall:nanoseconds:wall:");
	assert_type_of("walls", "cpu", "nanoseconds", "wall", "walls:cpu:nanoseconds:wall:");
	assert_type_of(NULL, "alloc_space", "bytes", "space", "memory:alloc_space:bytes:space:");
	assert_type_of(NULL, "inuse_objects", "count", "space", "memory:inuse_objects:count:space:");
	assert_type_of(NULL, "contentions", "count", "contentions", "mutex:contentions:count:contentions:");
	assert_type_of(NULL, "delay", "nanoseconds", "block", "block:delay:nanoseconds:block:");
	assert_type_of(NULL, "cpu", "nanoseconds", "process_stats", "process_stats:cpu:nanoseconds:process_stats:");
	assert_type_of(NULL, "goroutine", "count", "", "goroutine:goroutine:count::");
	assert_type_of(NULL, "goroutines", "count", "", "goroutine:goroutines:count::");
	assert_type_of(NULL, "my thing", "a:b", "", "my_thing:my_thing:a_b::");
	assert_type_of("my name", "cpu", "", "", "my_name:cpu:::");
	assert_type_of(NULL, "", "", "", "unknown:unknown:::");
	assert_type_of(NULL, "0123456789012345678901234567890123456789012345678901234567890", "", "",
		       "01234567890123456789012345678901234567890123456:01234567890123456789012345678901234567890123456:::");
}

static void test_gauges(void **state)
{
	const struct {
		const char *type;
		bool gauge;
	} cases[] = {
		{"memory:inuse_space:bytes:space:bytes", true},
		{"goroutine:goroutine:count:goroutine:count", true},
		{"queue:depth:count::", true},
		{"memory:alloc_space:bytes:space:bytes:delta", false},
		{"memory:inuse_space:bytes:space:bytes:delta", false},
		{"process_cpu:cpu:nanoseconds:cpu:nanoseconds", false},
		{"perf:samples:count::", false},
		{"java:wall:nanoseconds:wall:nanoseconds", false},
		{"process_stats:cpu:nanoseconds:process_stats:", false},
		{"memory:alloc_space:bytes:space:bytes", false},
		{"memory:alloc_in_new_tlab_objects:count:space:bytes", false},
		{"mutex:contentions:count:contentions:count", false},
		{"block:delay:nanoseconds:contentions:count", false},
		{"exceptions:exception:count::", false},
		{"alloc:alloc:count::", true},
		{"queue:delays:count::", true},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct profile_type type;
		assert_int_equal(profile_type_parse(cases[i].type, &type, NULL), 0);
		if (profile_type_is_gauge(&type) != cases[i].gauge)
			fail_msg("%s", cases[i].type);
	}
}

static void test_describe(void **state)
{
	struct profile_type type;
	assert_int_equal(profile_type_parse("memory:inuse_space:bytes:space:bytes", &type, NULL), 0);
	assert_non_null(strstr(profile_type_describe(&type), "not freed"));
	assert_int_equal(profile_type_parse("goroutine:goroutine:count::", &type, NULL), 0);
	assert_non_null(strstr(profile_type_describe(&type), "Goroutines"));
	assert_int_equal(profile_type_parse("queue:depth:count::", &type, NULL), 0);
	assert_null(profile_type_describe(&type));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),	cmocka_unit_test(test_refuses), cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_type_of), cmocka_unit_test(test_gauges),	cmocka_unit_test(test_describe),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
