/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/test_faults.h"
#include "profile/test_labels.h"
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
	if (selector_parse(text, &selector, &err) < 0)
		fail_msg("%s: %s", text, err.message);
	test_labels_set(&labels, labels_text);
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
	/* A type as a whole, whose empty parts are empty. */
	assert_true(matches("process_cpu:cpu:nanoseconds:*:*:*", "{}"));
	assert_false(matches("process_cpu:cpu:nanoseconds:::*", "{}"));
	assert_false(matches("process_cpu:cpu:nanoseconds:::delta", "{}"));
	assert_false(matches("process_cpu:cpu:nanoseconds:cpu:nanoseconds", "{}"));
	assert_false(matches("process", "{}"));
	assert_false(matches("memory", "{}"));
	assert_false(matches("process_cpu:wall", "{}"));
	assert_true(matches("process_cpu:cpu:nanoseconds:cpu:nanoseconds:*", "{}")); /* absolute or delta */
}

static void test_labels_of_the_type(void **state)
{
	(void)state;
	assert_true(matches("{__profile_type__=\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\"}", "{}"));
	assert_true(matches("{__profile_type__=\"process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta\"}", "{}"));
	assert_false(matches("{__profile_type__!=\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\"}", "{}"));
	assert_true(matches("{__profile_type__=~\"process_cpu:.*\"}", "{}"));
	assert_false(matches("{__profile_type__!~\".*:delta\"}", "{}"));
	assert_true(matches("{__name__=\"process_cpu\", __type__=\"cpu\", __unit__=\"nanoseconds\"}", "{}"));
	assert_true(matches("{__name__=\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\"}", "{}"));
	assert_true(matches("{__period_type__=\"cpu\", __period_unit__!=\"count\"}", "{}"));
	assert_false(matches("{__type__=\"samples\"}", "{}"));
	/* A label of that name is not looked at. */
	assert_false(matches("{__type__=\"samples\"}", "{__type__=\"samples\"}"));
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
	assert_int_equal(series_matcher_failure(selector->compiled, &err), 0);
	assert_false(selector_matches(selector, &cpu, &labels));
	assert_int_equal(series_matcher_failure(selector->compiled, &err), -EINVAL);
	assert_non_null(strstr(err.message, "too long"));
}

static int parse_one(void *context)
{
	_cleanup_(selector_freep) struct selector *selector = NULL;
	return selector_parse("a:b{c=\"d\", e=~\"f\"}", &selector, NULL);
}

static void test_out_of_memory(void **state)
{
	(void)state;
	assert_true(test_each_allocation(parse_one, NULL) > 4);
}

/* The ids of a condition, as hexadecimal digits of those bytes that matter; NULL when it is refused. */
static const char *ids_of(const char *label, enum pattern_operator op, const char *text, bool *ret_negate)
{
	static char out[1024];
	struct link_ids ids;
	struct error err = {0};
	if (link_ids_parse(label, op, text, &ids, &err) < 0) {
		assert_non_null(strstr(err.message, label));
		return NULL;
	}
	size_t len = 0, size = ids.part == STORE_SPAN_ID ? 8 : 16;
	out[0] = '\0';
	for (size_t i = 0; i < ids.count; i++) {
		len += (size_t)snprintf(out + len, sizeof(out) - len, "%s", i ? " " : "");
		for (size_t k = 0; k < 16; k++) {
			if (k < size)
				len += (size_t)snprintf(out + len, sizeof(out) - len, "%02x", ids.ids[i].bytes[k]);
			else
				assert_int_equal(ids.ids[i].bytes[k], 0);
		}
	}
	*ret_negate = ids.negate;
	link_ids_release(&ids);
	return out;
}

static void test_ids_of_spans(void **state)
{
	static const struct {
		enum pattern_operator op;
		const char *text, *ids; /* NULL = refused */
		bool negate;
	} cases[] = {
		{PATTERN_EQUAL, "00000000000000fF", "00000000000000ff", false},
		{PATTERN_NOT_EQUAL, "0123456789abcdef", "0123456789abcdef", true},
		{PATTERN_EQUAL, "", "0000000000000000", false},
		{PATTERN_NOT_EQUAL, "", "0000000000000000", true},
		{PATTERN_REGEX, "f000000000000001|0000000000000001", "0000000000000001 f000000000000001", false},
		{PATTERN_NOT_REGEX, "(f000000000000001)", "f000000000000001", true},
		{PATTERN_REGEX, "", "0000000000000000", false},
		{PATTERN_REGEX, "|f000000000000001", "0000000000000000 f000000000000001", false},
		{PATTERN_REGEX, "f000000000000001|", "0000000000000000 f000000000000001", false},
		{PATTERN_REGEX, ".+", "0000000000000000", true},
		{PATTERN_NOT_REGEX, ".+", "0000000000000000", false},
		{PATTERN_REGEX, ".*", "", true},
		{PATTERN_NOT_REGEX, ".*", "", false},
		{PATTERN_EQUAL, "0000000000000000", NULL, false},
		{PATTERN_EQUAL, "0123456789abcde", NULL, false},
		{PATTERN_EQUAL, "0123456789abcdeg", NULL, false},
		{PATTERN_EQUAL, "0123456789abcdef|0123456789abcdef", NULL, false},
		{PATTERN_EQUAL, "0123456789abcdef0123456789abcdef", NULL, false},
		{PATTERN_REGEX, "0123.*", NULL, false},
		{PATTERN_REGEX, "(0123456789abcdef", NULL, false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool negate = false;
		const char *ids = ids_of("__span_id__", cases[i].op, cases[i].text, &negate);
		if (!cases[i].ids != !ids)
			fail_msg("'%s' gave %s", cases[i].text, ids ? ids : "a refusal");
		if (ids)
			assert_string_equal(ids, cases[i].ids);
		assert_int_equal(negate, cases[i].negate);
	}
	bool negate;
	assert_string_equal(ids_of("__trace_id__", PATTERN_EQUAL, "0123456789abcdef0123456789abcdef", &negate),
			    "0123456789abcdef0123456789abcdef");
	assert_null(ids_of("__trace_id__", PATTERN_EQUAL, "0123456789abcdef", &negate));
}

/* What deletes, keeps or forwards whole series must not take a condition on samples for one that holds for all of them. */
static void test_spans_are_for_queries_only(void **state)
{
	static const char text[] = "process_cpu{__span_id__=\"0123456789abcdef\", a=\"b\"}";
	_cleanup_(selector_freep) struct selector *selector = NULL;
	_cleanup_(buffer_release) struct buffer out = {0};
	struct error err = {0};
	(void)state;
	assert_int_equal(selector_parse(text, &selector, &err), -EINVAL);
	assert_non_null(strstr(err.message, "__span_id__"));
	assert_null(selector);
	assert_int_equal(selector_parse_query(text, &selector, &err), 0);
	assert_string_equal(selector_sample_label(selector), "__span_id__");
	buffer_init(&out, 1024);
	assert_int_equal(selector_format(selector, &out), 0);
	assert_string_equal(buffer_string(&out), text);
	selector = selector_free(selector);
	assert_int_equal(selector_parse("{span_id=\"1\"}", &selector, &err), 0); /* a label like others */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids_of_spans),  cmocka_unit_test(test_spans_are_for_queries_only),
		cmocka_unit_test(test_types),	      cmocka_unit_test(test_labels_of_the_type),
		cmocka_unit_test(test_matchers),      cmocka_unit_test(test_absent_label_is_empty),
		cmocka_unit_test(test_escapes),	      cmocka_unit_test(test_faults_are_named),
		cmocka_unit_test(test_too_long),      cmocka_unit_test(test_runaway_regex_is_an_error),
		cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
