/* SPDX-License-Identifier: Apache-2.0 */
/* Parca's query service, as a client that speaks JSON has it: what it finds, and what it refuses. */
#include "server/test_server.h"

#define QUERY "POST /parca.query.v1alpha1.QueryService/"
#define JSON  "\nContent-Type: application/json\n\n"

static int setup(void **state)
{
	static struct test_server test;
	test_server_open(&test, NULL);
	test_expect(&test, "POST /api/v1/ingest?format=folded&name=cpu&label=env=prod\n\nmain;a 5\n", 200, "");
	test_expect(&test, "POST /api/v1/ingest?format=folded&name=cpu&label=env=test\n\nmain;b 1\n", 200, "");
	*state = &test;
	return 0;
}

static int teardown(void **state)
{
	test_server_close(*state);
	return 0;
}

#define RANGE "\"start\":\"2020-01-01T00:00:00Z\",\"end\":\"2100-01-01T00:00:00Z\""

static void test_names(void **state)
{
	struct test_server *test = *state;
	test_expect(test, QUERY "ProfileTypes" JSON "{" RANGE "}", 200, "\"name\":\"cpu\",\"sampleType\":\"samples\"");
	test_expect(test, QUERY "ProfileTypes" JSON "{}", 200, "\"name\":\"cpu\"");
	test_expect(test, QUERY "Labels" JSON "{" RANGE "}", 200, "\"env\"");
	test_expect(test, QUERY "Values" JSON "{\"labelName\":\"env\"," RANGE "}", 200, "[\"prod\",\"test\"]");
	test_expect(test, QUERY "Values" JSON "{\"labelName\":\"nothing\"," RANGE "}", 200, "{");
	test_expect(test, QUERY "HasProfileData" JSON "{}", 200, "\"hasData\":true");
}

static void test_refusals(void **state)
{
	static const struct {
		const char *method, *body;
		int status;
	} cases[] = {
		{"ProfileTypes", "{\"start\":\"1969-01-01T00:00:00Z\",\"end\":\"2100-01-01T00:00:00Z\"}", 400},
		{"ProfileTypes", "{\"start\":\"yesterday\"}", 400},
		{"ProfileTypes", "{\"start\":5}", 400},
		{"Labels", "{\"match\":[5]}", 400},
		{"Labels", "{\"match\":[\"{\"]," RANGE "}", 400},
		{"Values", "{\"labelName\":{}}", 400},
		{"QueryRange", "{}", 400},
		{"QueryRange", "{\"query\":\"cpu:samples:count::{}\",\"step\":\"3600s\"," RANGE "}", 400}, /* too many points */
		{"QueryRange", "{\"query\":\"cpu:samples:count::{\"," RANGE "}", 400},
		{"Query", "{}", 400},
		{"Query", "{\"mode\":\"MODE_FLYING\"}", 400},
		{"Query", "{\"mode\":\"MODE_MERGE\"}", 400},
		{"Query", "{\"mode\":\"MODE_DIFF\"}", 400},
		{"Query", "[]", 400},
		{"Query", "", 400},
	};
	struct test_server *test = *state;
	char text[400];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), QUERY "%s" JSON "%s", cases[i].method, cases[i].body);
		test_expect(test, text, cases[i].status, "\"code\":\"invalid_argument\",\"message\":");
	}
}

/* More matchers than a list may have. */
static void test_long_list(void **state)
{
	struct test_server *test = *state;
	_cleanup_(buffer_release) struct buffer text = {0};
	for (size_t more = 0; more < 2; more++) {
		buffer_release(&text);
		buffer_init(&text, MIB);
		buffer_append_string(&text, QUERY "Labels" JSON "{" RANGE ",\"match\":[\"{}\"");
		for (size_t i = 1; i < 64 + more; i++)
			buffer_append_string(&text, ",\"{}\"");
		buffer_append_string(&text, "]}");
		test_expect(test, buffer_string(&text), more ? 400 : 200, more ? "more than 64 items" : "{");
	}
}

static void test_merge(void **state)
{
	struct test_server *test = *state;
	test_expect(test,
		    QUERY "Query" JSON "{\"mode\":\"MODE_MERGE\",\"reportType\":\"REPORT_TYPE_TOP\",\"merge\":{\"query\":"
			  "\"cpu:samples:count::{env=\\\"prod\\\"}\"," RANGE "}}",
		    200, "\"total\":\"5\"");
	assert_non_null(strstr(test->text, "\"main\""));
	assert_null(strstr(test->text, "\"b\""));
	test_expect(test, QUERY "QueryRange" JSON "{\"query\":\"cpu:samples:count::{}\",\"step\":\"1000000s\"," RANGE "}", 200,
		    "\"series\"");
}

#define ALL "\"mode\":\"MODE_MERGE\",\"merge\":{\"query\":\"cpu:samples:count::{}\"," RANGE "}"

/* Reports and filters by their names, as clients that speak JSON have them. */
static void test_reports(void **state)
{
	static const struct {
		const char *more, *found;
	} cases[] = {
		{"\"reportType\":\"REPORT_TYPE_CALLGRAPH\"", "\"cumulative\":\"6\""},
		{"\"reportType\":\"REPORT_TYPE_TABLE_ARROW\"", "\"tableArrow\":{\"record\":\""},
		{"\"reportType\":\"REPORT_TYPE_PROFILE_METADATA\"", "\"labels\":[\"env\"]"},
		{"\"reportType\":\"REPORT_TYPE_SOURCE\",\"sourceReference\":{\"filename\":\"a.c\"}",
		 "\"source\":{\"record\":\""},
		{"\"reportType\":\"REPORT_TYPE_TOP\",\"filter\":[{\"stackFilter\":{\"criteria\":{\"functionName\":{\"equal\":"
		 "\"A\"}}}}]",
		 "\"total\":\"5\",\"filtered\":\"1\""},
		{"\"reportType\":\"REPORT_TYPE_TOP\",\"filter\":[{\"frameFilter\":{\"criteria\":{\"functionName\":{"
		 "\"notEqual\":\"main\"}}}}]",
		 "\"reported\":2"},
		{"\"reportType\":\"REPORT_TYPE_FLAMEGRAPH_ARROW\",\"groupBy\":{\"fields\":[\"labels.env\"]}", "\"height\":4"},
	};
	struct test_server *test = *state;
	char text[600];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), QUERY "Query" JSON "{" ALL ",%s}", cases[i].more);
		test_expect(test, text, 200, cases[i].found);
	}
	test_expect(test, QUERY "Query" JSON "{" ALL ",\"reportType\":\"REPORT_TYPE_FLAMECHART\"}", 400, "at most 49 days");
}

/* What is shared is a snapshot, and can be asked as if it were stored. */
static void test_shared(void **state)
{
	struct test_server *test = *state;
	char text[600], id[33];
	test_expect(test,
		    QUERY "ShareProfile" JSON "{\"queryRequest\":{" ALL
			  ",\"groupBy\":{\"fields\":[\"labels.env\"]}},\"description\":\"both\"}",
		    200, "?view=shared&id=");
	snprintf(id, sizeof(id), "%s", strstr(test->text, "&id=") + 4);
	snprintf(text, sizeof(text), "POST /parca.share.v1alpha1.ShareService/ProfileTypes" JSON "{\"id\":\"%s\"}", id);
	test_expect(test, text, 200, "\"description\":\"both\"");
	snprintf(text, sizeof(text),
		 "POST /parca.share.v1alpha1.ShareService/Query" JSON
		 "{\"id\":\"%s\",\"reportType\":\"REPORT_TYPE_TOP\",\"filter\":[{\"stackFilter\":{\"criteria\":"
		 "{\"functionName\":{\"equal\":\"b\"}}}}]}",
		 id);
	test_expect(test, text, 200, "\"total\":\"1\",\"filtered\":\"5\"");
	snprintf(text, sizeof(text),
		 "POST /parca.share.v1alpha1.ShareService/Query" JSON
		 "{\"id\":\"%s\",\"reportType\":\"REPORT_TYPE_PROFILE_METADATA\"}",
		 id);
	test_expect(test, text, 200, "\"labels\":[\"env\"]");
	snprintf(text, sizeof(text), "DELETE /api/v1/snapshots/%s\n\n", id);
	test_expect(test, text, 200, "{");
	snprintf(text, sizeof(text), "POST /parca.share.v1alpha1.ShareService/ProfileTypes" JSON "{\"id\":\"%s\"}", id);
	test_expect(test, text, 404, "\"code\":\"not_found\"");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {TEST(test_names), TEST(test_refusals), TEST(test_long_list),
					   TEST(test_merge), TEST(test_reports),  TEST(test_shared)};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
