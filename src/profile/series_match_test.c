/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/test_faults.h"
#include "profile/series_match.h"
#include "profile/type_labels.h"

static const struct profile_type cpu = {.name = "process_cpu",
					.sample_type = "cpu",
					.sample_unit = "nanoseconds",
					.period_type = "cpu",
					.period_unit = "nanoseconds",
					.delta = true},
				 goroutines = {.name = "goroutine", .sample_type = "goroutine", .sample_unit = "count"};

static struct series_matcher *compile(const struct series_conditions *conditions)
{
	struct series_matcher *matcher;
	struct error err = {0};
	if (series_matcher_new(conditions, &matcher, &err) < 0)
		fail_msg("%s", err.message);
	return matcher;
}

static bool type_fits(struct type_condition condition, const struct profile_type *type)
{
	struct series_conditions conditions = {.types = &condition, .type_count = 1};
	_cleanup_(series_matcher_freep) struct series_matcher *matcher = compile(&conditions);
	assert_true(series_matcher_asks_types(matcher));
	return series_matcher_finds_type(matcher, type);
}

static bool label_fits(struct label_condition condition, const struct profile_type *type, const struct labels *labels)
{
	struct series_conditions conditions = {.labels = &condition, .label_count = 1};
	_cleanup_(series_matcher_freep) struct series_matcher *matcher = compile(&conditions);
	return series_matcher_finds(matcher, type, labels);
}

static void test_types(void **state)
{
	struct profile_type other = cpu;
	assert_true(type_fits((struct type_condition){.delta = TYPE_DELTA_ANY}, &cpu));
	assert_true(type_fits((struct type_condition){.parts = {"process_cpu"}}, &cpu));
	assert_true(type_fits((struct type_condition){.parts = {NULL, "cpu"}}, &cpu));
	assert_false(type_fits((struct type_condition){.parts = {NULL, NULL, "bytes"}}, &cpu));
	assert_true(type_fits((struct type_condition){.parts = {NULL, NULL, NULL, ""}}, &goroutines)); /* "" is no "any" */
	assert_false(type_fits((struct type_condition){.parts = {NULL, NULL, NULL, ""}}, &cpu));
	assert_true(type_fits((struct type_condition){.delta = TYPE_DELTA_YES}, &cpu));
	assert_false(type_fits((struct type_condition){.delta = TYPE_DELTA_NO}, &cpu));
	assert_true(type_fits((struct type_condition){.delta = TYPE_DELTA_NO}, &goroutines));
	/* Exactly one type. */
	assert_true(type_fits(type_condition_of(&cpu), &cpu));
	assert_false(type_fits(type_condition_of(&cpu), &goroutines));
	other.delta = false;
	assert_false(type_fits(type_condition_of(&cpu), &other));
	other = goroutines;
	memcpy(other.period_unit, "x", 2);
	assert_false(type_fits(type_condition_of(&goroutines), &other));
}

static void test_labels(void **state)
{
	static const char *const two[] = {"a", "b"}, *const empty[] = {""};
	_cleanup_(labels_release) struct labels labels = {0};
	assert_int_equal(labels_set(&labels, "x", "b", NULL), 0);
	assert_true(label_fits((struct label_condition){"x", PATTERN_EQUAL, .text = "b"}, &cpu, &labels));
	assert_false(label_fits((struct label_condition){"x", PATTERN_NOT_EQUAL, .text = "b"}, &cpu, &labels));
	assert_true(label_fits((struct label_condition){"x", PATTERN_REGEX, .text = "[ab]"}, &cpu, &labels));
	assert_false(label_fits((struct label_condition){"x", PATTERN_NOT_REGEX, .text = "[ab]"}, &cpu, &labels));
	assert_true(label_fits((struct label_condition){"x", .texts = two, .text_count = 2}, &cpu, &labels));
	assert_false(label_fits((struct label_condition){"x", .texts = two, .text_count = 1}, &cpu, &labels));
	assert_false(label_fits((struct label_condition){"x", .texts = two, .text_count = 0}, &cpu, &labels));
	assert_false(
		label_fits((struct label_condition){"x", PATTERN_NOT_EQUAL, .texts = two, .text_count = 2}, &cpu, &labels));
	/* An absent label is "". */
	assert_true(label_fits((struct label_condition){"y", .texts = empty, .text_count = 1}, &cpu, &labels));
	assert_false(label_fits((struct label_condition){"y", PATTERN_NOT_EQUAL, .text = ""}, &cpu, &labels));
	/* Labels of the type, in all their spellings. */
	assert_true(label_fits((struct label_condition){"__name__", .text = "process_cpu"}, &cpu, &labels));
	assert_true(label_fits((struct label_condition){"__name__", .text = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"},
			       &cpu, &labels));
	assert_false(label_fits((struct label_condition){"__name__", PATTERN_NOT_REGEX, .text = ".*:delta"}, &cpu, &labels));
	assert_true(label_fits((struct label_condition){"__type__", .text = "goroutine"}, &goroutines, &labels));
	assert_true(label_fits(
		(struct label_condition){"__unit__", .texts = (const char *const[]){"bytes", "count"}, .text_count = 2},
		&goroutines, &labels));
	struct label_condition wrong = {"x", PATTERN_REGEX, .texts = two, .text_count = 2};
	struct series_conditions conditions = {.labels = &wrong, .label_count = 1};
	struct series_matcher *matcher = NULL;
	assert_int_equal(series_matcher_new(&conditions, &matcher, NULL), -EINVAL);
	assert_null(matcher);
}

static void test_keys(void **state)
{
	_cleanup_(labels_release) struct labels labels = {0};
	uint64_t keys[2] = {1};
	assert_int_equal(labels_set(&labels, "x", "b", NULL), 0);
	assert_int_equal(series_key(&cpu, &labels, &keys[1], NULL), 0);
	struct series_conditions conditions = {.keys = keys, .key_count = 2};
	_cleanup_(series_matcher_freep) struct series_matcher *both = compile(&conditions);
	conditions.key_count = 1;
	_cleanup_(series_matcher_freep) struct series_matcher *first = compile(&conditions);
	assert_true(series_matcher_finds(both, &cpu, &labels));
	assert_false(series_matcher_finds(both, &goroutines, &labels));
	assert_false(series_matcher_finds(first, &cpu, &labels));
	assert_true(series_matcher_asks_keys(first) && !series_matcher_asks_types(first));
}

/* A pattern that backtracks for ever ends at the limit of steps, and that is no answer. */
static void test_failure(void **state)
{
	_cleanup_(labels_release) struct labels labels = {0};
	struct label_condition condition = {"a", PATTERN_NOT_REGEX, .text = "(x+x+)+[yz]"};
	struct series_conditions conditions = {.labels = &condition, .label_count = 1};
	_cleanup_(series_matcher_freep) struct series_matcher *matcher = compile(&conditions);
	struct error err = {0};
	assert_int_equal(labels_set(&labels, "a", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", NULL), 0);
	assert_int_equal(series_matcher_failure(matcher, &err), 0);
	series_matcher_finds(matcher, &cpu, &labels);
	assert_int_equal(series_matcher_failure(matcher, &err), -EINVAL);
	assert_non_null(strstr(err.message, "took too long"));
}

/* A label that is absent gives way to another one, whose value is one of a list, or none of it. */
static void test_fallback(void **state)
{
	static const char *const hosts[] = {"web-2", "", "web-1"};
	struct label_fallback fallback = {.label = "host", .texts = hosts, .text_count = 3};
	struct label_condition condition = {"zone", PATTERN_EQUAL, .text = "a", .fallback = &fallback};
	const struct {
		const char *zone, *host;
		bool fits, fits_negated;
	} cases[] = {
		{"a", "db-1", true, true}, {"b", "web-1", false, false}, {"", "web-1", true, false},
		{"", "db-1", false, true}, {"", "", true, false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_(labels_release) struct labels labels = {0};
		labels_set(&labels, "zone", cases[i].zone, NULL);
		labels_set(&labels, "host", cases[i].host, NULL);
		fallback.negate = false;
		assert_int_equal(label_fits(condition, &cpu, &labels), cases[i].fits);
		fallback.negate = true;
		assert_int_equal(label_fits(condition, &cpu, &labels), cases[i].fits_negated);
	}
}

static int compile_all(void *context)
{
	static const uint64_t keys[] = {1, 2};
	const struct label_fallback other = {.label = "z", .texts = (const char *const[]){"c"}, .text_count = 1};
	struct type_condition type = type_condition_of(&cpu);
	const struct label_condition labels[] = {{"x", PATTERN_REGEX, .text = "a|b", .fallback = &other},
						 {"y", .texts = (const char *const[]){"a", "b"}, .text_count = 2},
						 {"__name__", .text = "a"}};
	struct series_conditions conditions = {
		.types = &type, .type_count = 1, .labels = labels, .label_count = 3, .keys = keys, .key_count = 2};
	_cleanup_(series_matcher_freep) struct series_matcher *matcher = NULL;
	return series_matcher_new(&conditions, &matcher, NULL);
}

static void test_out_of_memory(void **state)
{
	assert_true(test_each_allocation(compile_all, NULL) > 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),	cmocka_unit_test(test_labels),	      cmocka_unit_test(test_keys),
		cmocka_unit_test(test_failure), cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_fallback),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
