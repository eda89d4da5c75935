/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/limits.h"
#include "query/query_int.h"

static const struct profile_type cpu = {.name = "process_cpu",
					.sample_type = "cpu",
					.sample_unit = "nanoseconds",
					.period_type = "cpu",
					.period_unit = "nanoseconds",
					.delta = true};

static bool matches(const char *text, const char *labels_text)
{
	struct error err = {0};
	_cleanup_(selector_freep) struct selector *selector = NULL;
	_cleanup_(labels_release) struct labels labels = {0};
	if (selector_parse(text, &selector, &err))
		fail_msg("%s: %s", text, err.message);
	assert_int_equal(labels_parse(&labels, labels_text, NULL), 0);
	return selector_matches(selector, &cpu, &labels);
}

static void test_types(void **state)
{
	(void)state;
	assert_true(matches("", "{}"));
	assert_true(matches("{}", "{}"));
	assert_true(matches("process_cpu", "{}"));
	assert_true(matches("process_cpu:cpu", "{}"));
	assert_true(matches("*:cpu:nanoseconds", "{}"));
	assert_true(matches(":cpu", "{}"));
	assert_true(matches("process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "{}"));
	assert_false(matches("process_cpu:cpu:nanoseconds:cpu:nanoseconds", "{}"));
	assert_false(matches("process", "{}"));
	assert_false(matches("memory", "{}"));
	assert_false(matches("process_cpu:wall", "{}"));
}

static void test_matchers(void **state)
{
	(void)state;
	const char *labels = "{comm=\"bash\", pid=\"42\"}";
	assert_true(matches("{comm=\"bash\"}", labels));
	assert_false(matches("{comm=\"bas\"}", labels));
	assert_true(matches("{comm!=\"zsh\", pid=\"42\"}", labels));
	assert_false(matches("{comm!=\"bash\"}", labels));
	assert_true(matches("{comm=~\"ba.*\"}", labels));
	assert_false(matches("{comm=~\"a.*\"}", labels)); /* anchored at the start */
	assert_false(matches("{comm=~\"ba\"}", labels));  /* and at the end */
	assert_true(matches("{comm!~\"z.*|fish\"}", labels));
	assert_true(matches("{pid=~\"\\d+\"}", labels));
	assert_true(matches(" process_cpu { comm = \"bash\" , } ", labels));
}

static void test_absent_label_is_empty(void **state)
{
	(void)state;
	assert_true(matches("{host=\"\"}", "{comm=\"bash\"}"));
	assert_true(matches("{host!=\"a\"}", "{comm=\"bash\"}"));
	assert_true(matches("{host=~\"a?\"}", "{comm=\"bash\"}"));
	assert_false(matches("{host=~\"a+\"}", "{comm=\"bash\"}"));
	assert_false(matches("{comm=\"\"}", "{comm=\"bash\"}"));
}

static void test_escapes(void **state)
{
	(void)state;
	assert_true(matches("{a=\"x\\\"y\\\\z\"}", "{a=\"x\\\"y\\\\z\"}"));
	assert_true(matches("{a=\"line\\nnext\"}", "{a=\"line\\nnext\"}"));
	assert_true(matches("{a=~\"x\\.y\"}", "{a=\"x.y\"}"));
	assert_false(matches("{a=~\"x\\.y\"}", "{a=\"xzy\"}"));
	assert_true(matches("{a=\"é, } {\"}", "{a=\"é, } {\"}"));
}

static void test_faults_are_named(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{"{", "label name"},
		{"{comm", "one of = != =~ !~"},
		{"{comm=", "value in double quotes"},
		{"{comm=bash}", "value in double quotes"},
		{"{comm=\"bash}", "closing double quote"},
		{"{comm=\"bash\"", "',' or '}'"},
		{"{comm=\"bash\" pid=\"1\"}", "',' or '}'"},
		{"{comm==\"bash\"}", "value in double quotes"},
		{"{comm=\"a\"} x", "end of the selector"},
		{"{1a=\"b\"}", "label name"},
		{"a:b:c:d:e:f:g", "six parts"},
		{"a:b:c:d:e:f", "delta"},
		{"{a=~\"(\"}", "bad regular expression for a at character"},
		{"{a=~\"\\C\"}", "bad regular expression"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct selector *selector = NULL;
		struct error err = {0};
		assert_int_equal(selector_parse(cases[i][0], &selector, &err), -EINVAL);
		assert_null(selector);
		if (!strstr(err.message, cases[i][1]))
			fail_msg("'%s' gave '%s', which does not say '%s'", cases[i][0], err.message, cases[i][1]);
	}
}

static void test_too_long(void **state)
{
	(void)state;
	char *text = malloc(LIMIT_SELECTOR_BYTES + 2);
	assert_non_null(text);
	memset(text, 'a', LIMIT_SELECTOR_BYTES + 1);
	text[LIMIT_SELECTOR_BYTES + 1] = 0;
	struct selector *selector = NULL;
	assert_int_equal(selector_parse(text, &selector, NULL), -EINVAL);
	free(text);
}

/* A pattern that backtracks for ever ends at the limit of steps, and says so instead of claiming "no match". */
static void test_runaway_regex_is_an_error(void **state)
{
	(void)state;
	_cleanup_(selector_freep) struct selector *selector = NULL;
	_cleanup_(labels_release) struct labels labels = {0};
	struct error err = {0};
	assert_int_equal(selector_parse("{a=~\"(x+x+)+[yz]\"}", &selector, &err), 0);
	assert_int_equal(labels_set(&labels, "a", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", NULL), 0);
	assert_int_equal(selector_failure(selector, &err), 0);
	assert_false(selector_matches(selector, &cpu, &labels));
	assert_int_equal(selector_failure(selector, &err), -EINVAL);
	assert_non_null(strstr(err.message, "too long"));
}

static void test_out_of_memory(void **state)
{
	(void)state;
	for (uint64_t n = 1;; n++) {
		struct selector *selector = NULL;
		fault_arm(FAULT_ALLOC, n, 0);
		int r = selector_parse("a:b{c=\"d\", e=~\"f\"}", &selector, NULL);
		bool reached = fault_disarm(FAULT_ALLOC);
		selector_free(selector);
		if (!reached) {
			assert_int_equal(r, 0);
			assert_true(n > 5);
			break;
		}
		assert_int_equal(r, -ENOMEM);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_matchers),
		cmocka_unit_test(test_absent_label_is_empty),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_faults_are_named),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_runaway_regex_is_an_error),
		cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
