/* SPDX-License-Identifier: Apache-2.0 */
/* What the API makes of it is tested in tests/api/saved.mjs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/io.h"
#include "server/saved/saved.h"

static const char whole[] = "title: Slower\n"
			    "description: a\n"
			    "range: 6h\n"
			    "parameters:\n"
			    "  service: {type: value, label: service_name, title: Service}\n"
			    "  n: {type: number, default: 30}\n"
			    "  by: {type: choice, choices: [self, total], default: total}\n"
			    "query: process_cpu{service_name=$service, by=$by} | diff (shift $range) relative | top $n\n";

static const char *value_of(void *context, const char *name)
{
	const char *const(*values)[2] = context;
	for (; values && (*values)[0]; values++)
		if (strcmp((*values)[0], name) == 0)
			return (*values)[1];
	return NULL;
}

static int expand(const char *const (*values)[2], struct buffer *out, struct error *err)
{
	_cleanup_(saved_query_freep) struct saved_query *query = NULL;
	int r = saved_query_read(bytes_of_string(whole), "whole.yaml", &query, err);
	return r < 0 ? r : saved_query_expand(query, value_of, (void *)values, 5400ll * 1000000000, out, err);
}

static void test_read(void **state)
{
	(void)state;
	_cleanup_(saved_query_freep) struct saved_query *query = NULL;
	assert_int_equal(saved_query_read(bytes_of_string(whole), "whole.yaml", &query, NULL), 0);
	assert_string_equal(query->title, "Slower");
	assert_string_equal(query->range, "6h");
	assert_int_equal(query->parameter_count, 3);
	assert_string_equal(query->parameters[0].label, "service_name");
	assert_null(query->parameters[0].fallback);
	assert_int_equal(query->parameters[1].type, SAVED_NUMBER);
	assert_string_equal(query->parameters[2].choices[1], "total");
}

static void test_expand(void **state)
{
	(void)state;
	static const char *const values[][2] = {{"service", "sh\"op"}, {"n", ""}, {NULL, NULL}};
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	assert_int_equal(expand(values, &out, NULL), 0);
	assert_string_equal(buffer_string(&out),
			    "process_cpu{service_name=\"sh\\\"op\", by=\"total\"} | diff (shift 5400s) relative "
			    "| top 30");
}

static void test_values_that_do_not_fit(void **state)
{
	(void)state;
	static const struct {
		const char *const values[4][2];
		const char *want;
	} cases[] = {
		{{{NULL, NULL}}, "parameter 'service' is missing: it is of the type value"},
		{{{"service", "a"}, {"n", "x"}}, "parameter 'n'"},
		{{{"service", "a"}, {"by", "other"}}, "parameter 'by': 'other' is none of its choices"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
		struct error err = {0};
		assert_int_equal(expand(cases[i].values, &out, &err), -EINVAL);
		if (!strstr(err.message, cases[i].want))
			fail_msg("'%s' has no '%s'", err.message, cases[i].want);
	}
}

/* A reader that runs out of memory says so, wherever that is, and frees what it had. */
static void test_without_memory(void **state)
{
	(void)state;
	static const char *const values[][2] = {{"service", "shop"}, {NULL, NULL}};
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
		fault_arm(FAULT_ALLOC, n, 0);
		int r = expand(values, &out, NULL);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
	}
}

static void test_names(void **state)
{
	(void)state;
	char longest[SAVED_NAME_MAX + 2];
	memset(longest, 'a', sizeof(longest));
	longest[SAVED_NAME_MAX + 1] = 0;
	assert_false(saved_name_is_valid(longest));
	longest[SAVED_NAME_MAX] = 0;
	assert_true(saved_name_is_valid(longest));
	static const char *const bad[] = {"", ".", "..", "a/b", "A", "-a", "_a", "a.yaml", "a b", "\xc3\xa4"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(saved_name_is_valid(bad[i]));
}

struct names {
	char text[4096];
};
static int add_name(void *context, const char *name)
{
	struct names *names = context;
	size_t len = strlen(names->text);
	snprintf(names->text + len, sizeof(names->text) - len, "%s ", name);
	return 0;
}

/* A disk that fails leaves what was there. */
static void test_disk_that_fails(void **state)
{
	(void)state;
	char own[] = "/tmp/wick-saved-XXXXXX", path[100];
	assert_non_null(mkdtemp(own));
	snprintf(path, sizeof(path), "%s/queries", own);
	const struct saved_places places = {.own = path};
	struct names names = {0};
	enum saved_origin origin;
	_cleanup_(buffer_release) struct buffer text = {0};
	const char *first = "title: First\nquery: process_cpu\n", *second = "title: Second\nquery: process_cpu\n";
	assert_int_equal(saved_put(&places, "mine", bytes_of_string(first), NULL), 0);
	static const enum fault_kind points[] = {FAULT_WRITE, FAULT_SYNC, FAULT_RENAME};
	for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++) {
		fault_arm(points[i], 1, 0);
		assert_true(saved_put(&places, "mine", bytes_of_string(second), NULL) < 0);
		fault_disarm(points[i]);
		assert_int_equal(saved_find(&places, "mine", &text, &origin, NULL), 0);
		assert_true(bytes_equal_string(buffer_bytes(&text), first));
	}
	assert_int_equal(saved_list(&places, add_name, &names, NULL), 0);
	assert_non_null(strstr(names.text, " mine "));
	assert_non_null(strstr(names.text, " top-functions "));
	assert_int_equal(saved_remove(&places, "mine", NULL), 0);
	assert_int_equal(saved_find(&places, "mine", &text, &origin, NULL), -ENOENT);
	assert_int_equal(io_remove_tree(own, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_expand),
		cmocka_unit_test(test_values_that_do_not_fit),
		cmocka_unit_test(test_without_memory),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_disk_that_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
