/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "query/parameters.h"
#include "query/pipeline.h"

static const struct query_parameter parameters[] = {
	{"service", PARAMETER_TEXT, "a \"b\"\\\n| drop"}, {"n", PARAMETER_NUMBER, "20"}, {"step", PARAMETER_DURATION, "1h30m"},
	{"label", PARAMETER_LABEL, "host.name"},	  {"empty", PARAMETER_TEXT, ""},
};
#define COUNT (sizeof(parameters) / sizeof(*parameters))

static void expect(const char *text, const char *want)
{
	_cleanup_(buffer_release) struct buffer out = {.max = 4096};
	struct error err = {0};
	if (query_expand(text, parameters, COUNT, &out, &err) < 0)
		fail_msg("%s: %s", text, err.message);
	assert_string_equal(buffer_string(&out), want);
}

static void test_values(void **state)
{
	(void)state;
	expect("", "");
	expect("process_cpu", "process_cpu");
	expect("a{b=$service}", "a{b=\"a \\\"b\\\"\\\\\\n| drop\"}");
	expect("a | top $n by label $label", "a | top 20 by label host_name");
	expect("a | bin $step|rate", "a | bin 1h30m|rate");
	expect("$n$n", "2020");
	expect("a{b=$empty}", "a{b=\"\"}");
	expect("a{b=~\"^x$\", c=$n}", "a{b=~\"^x$\", c=20}");
	expect("\"\\\"$n\" $n", "\"\\\"$n\" 20");
}

/* Whatever the value, the query has the stages that it was written with. */
static void test_no_escape(void **state)
{
	static const char *const values[] = {"\"} | drop frames \"x", "\\", "\\\"", "\"", "\n", "a\\", "$n", "x\" | limit 1"};
	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		const struct query_parameter one = {"v", PARAMETER_TEXT, values[i]};
		_cleanup_(buffer_release) struct buffer out = {.max = 4096}, canonical = {.max = 4096}, again = {.max = 4096};
		_cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
		assert_int_equal(query_expand("a{b=$v} | top 3", &one, 1, &out, NULL), 0);
		assert_int_equal(pipeline_parse(buffer_string(&out), &pipeline, NULL), 0);
		assert_int_equal(pipeline_format(pipeline, &canonical), 0);
		assert_int_equal(query_expand("a:*{b=$v} | top 3", &one, 1, &again, NULL), 0);
		assert_non_null(strstr(buffer_string(&canonical), "} | top 3"));
		assert_non_null(strstr(buffer_string(&canonical), strchr(buffer_string(&again), '{')));
	}
}

static void expect_refusal(const char *text, enum parameter_kind kind, const char *value, const char *want)
{
	const struct query_parameter one = {"v", kind, value};
	_cleanup_(buffer_release) struct buffer out = {.max = 100};
	struct error err = {0};
	assert_int_equal(query_expand(text, &one, 1, &out, &err), -EINVAL);
	if (!strstr(err.message, want))
		fail_msg("'%s' has no '%s'", err.message, want);
}

static void test_refusals(void **state)
{
	(void)state;
	expect_refusal("top $v", PARAMETER_NUMBER, "20 | limit 1", "parameter 'v'");
	expect_refusal("top $v", PARAMETER_NUMBER, "-1", "parameter 'v'");
	expect_refusal("top $v", PARAMETER_NUMBER, "", "parameter 'v'");
	expect_refusal("bin $v", PARAMETER_DURATION, "5 m | rate", "parameter 'v'");
	expect_refusal("bin $v", PARAMETER_DURATION, "", "parameter 'v'");
	expect_refusal("group by $v", PARAMETER_LABEL, "a, b", "'a, b' is not a label name");
	expect_refusal("group by $v", PARAMETER_LABEL, "", "'' is not a label name");
	expect_refusal("a | top $w", PARAMETER_NUMBER, "1", "no parameter '$w' at column 9");
	expect_refusal("a | top $", PARAMETER_NUMBER, "1", "'$' without a name at column 9");
	expect_refusal("top $vv", PARAMETER_NUMBER, "1", "no parameter '$vv'");
	char longer[200];
	snprintf(longer, sizeof(longer), "%0150d", 1);
	expect_refusal("a{b=$v}", PARAMETER_TEXT, longer, "longer than 100 bytes");
}

static void test_names(void **state)
{
	(void)state;
	char name[PARAMETER_NAME_MAX + 1], longest[PARAMETER_NAME_MAX + 2];
	size_t at = 0;
	memset(longest, 'a', sizeof(longest));
	longest[PARAMETER_NAME_MAX + 1] = 0;
	assert_false(parameter_name_is_valid(longest));
	longest[PARAMETER_NAME_MAX] = 0;
	assert_true(parameter_name_is_valid(longest));
	assert_true(parameter_name_is_valid("service_2"));
	assert_false(parameter_name_is_valid("2nd"));
	assert_false(parameter_name_is_valid("Service"));
	assert_false(parameter_name_is_valid(""));
	assert_true(query_next_parameter("a $x \"$y\" $z", &at, name));
	assert_string_equal(name, "x");
	assert_true(query_next_parameter("a $x \"$y\" $z", &at, name));
	assert_string_equal(name, "z");
	assert_false(query_next_parameter("a $x \"$y\" $z", &at, name));
}

static void test_without_memory(void **state)
{
	(void)state;
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		_cleanup_(buffer_release) struct buffer out = {.max = 4096};
		fault_arm(FAULT_ALLOC, n, 0);
		int r = query_expand("a{b=$service} | top $n by label $label", parameters, COUNT, &out, NULL);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values), cmocka_unit_test(test_no_escape),      cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_names),  cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
