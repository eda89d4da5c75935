/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON API: parameters that are wrong, forms of answers, and what may change the store. */
#include <jansson.h>

#include "server/test_server.h"

#define QUERY "GET /api/v1/query"

static int setup(void **state)
{
	static struct test_server test;
	test_server_open(&test, NULL);
	test_expect(&test, "POST /api/v1/ingest?format=folded&name=cpu&label=env=prod\n\nmain;a 5\nmain;b 7\n", 200, "");
	test_expect(&test, "POST /api/v1/ingest?format=folded&name=cpu&label=env=test\n\nmain;c 1\n", 200, "");
	*state = &test;
	return 0;
}

static int teardown(void **state)
{
	test_server_close(*state);
	return 0;
}

/* Parameters that all calls of queries have. */
static void test_common_parameters(void **state)
{
	static const struct {
		const char *query;
		int status;
		const char *part;
	} cases[] = {
		{"from=now-2h&to=now", 200, ""},
		{"from=", 200, ""}, /* empty is as if it were not there */
		{"from=yesterday", 400, "parameter 'from': \\\"yesterday\\\" is not a time"},
		{"to=1h", 400, "parameter 'to'"},
		{"timeout=5s", 200, ""},
		{"timeout=120s", 200, ""},
		{"timeout=121s", 400, "parameter 'timeout': '121s' is not between 1ns and 2 min"},
		{"timeout=0s", 400, "parameter 'timeout'"},
		{"timeout=9223372036s", 400, "parameter 'timeout'"}, /* too long to be added to any time */
		{"timeout=-1s", 400, "parameter 'timeout'"},
		{"timeout=soon", 400, "parameter 'timeout'"},
		{"symbols_wait=0s", 200, ""},
		{"symbols_wait=31s", 400, "parameter 'symbols_wait': '31s' is not between 0s and 30 s"},
		{"names=short", 200, ""},
		{"names=long", 400, "parameter 'names': 'long' must be full or short"},
		{"explain=1", 200, "\"explain\""},
		{"explain=false", 200, ""},
		{"explain=yes", 400, "parameter 'explain': 'yes' must be 1 or 0"},
		{"exact=2", 400, "parameter 'exact'"},
		{"limit=-1", 400, "parameter 'limit'"},
		{"max_nodes=x", 400, "parameter 'max_nodes'"},
		{"max_nodes=99999999999999999999", 400, "out of range"},
		{"format=xml", 400, "parameter 'format': 'xml' is not one of flame, columns"},
		{"format=folded&explain=1", 400, "format folded does not support it"},
		{"query=%7Benv%3D%22prod%22%7D&where=%7B", 400, ""},
		{"query=%7B", 400, ""},
		{"query=%7Benv%3D%7E%22(%22%7D", 400, ""},
		{"query=%7B%7D%20%7C%20explode", 400, "explode"},
		{"query=%7B%7D%20%7C%20top%205", 400, "not a profile; use /api/v1/pipeline"},
	};
	struct test_server *test = *state;
	char text[300];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), QUERY "?%s", cases[i].query);
		test_expect(test, text, cases[i].status, cases[i].part);
		if (cases[i].status != 200)
			assert_memory_equal(test->text, "{\"error\":\"", 10);
	}
}

static void test_long_query(void **state)
{
	struct test_server *test = *state;
	static char text[15000] = QUERY "?where=a%3D%22";
	memset(text + strlen(text), 'x', 14000);
	snprintf(text + strlen(text), 20, "%%22");
	test_expect(test, text, 200, "");
	/* The same five times is more than a pipeline may have. */
	_cleanup_(buffer_release) struct buffer five = {0};
	buffer_init(&five, MIB);
	static char long_query[4000] = "";
	memset(long_query, 'y', sizeof(long_query) - 1);
	buffer_append_string(&five, QUERY "?x=1");
	for (size_t i = 0; i < 3; i++)
		buffer_printf(&five, "&where=%s", long_query);
	test_expect(test, buffer_string(&five), 400, "error");
}

static void test_forms(void **state)
{
	static const struct {
		const char *format, *type, *part;
	} cases[] = {
		{"flame", "application/json", "\"flame\":"},
		{"json", "application/json", "\"functions\":"},
		{"top", "text/plain; charset=utf-8", "main"},
		{"folded", "text/plain; charset=utf-8", "main;b 7\n"},
		{"speedscope", "application/json", "\"$schema\""},
		{"firefox", "application/json", "\"meta\""},
		{"svg", "image/svg+xml", "<svg"},
	};
	struct test_server *test = *state;
	char text[300];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), QUERY "?format=%s", cases[i].format);
		test_expect(test, text, 200, cases[i].part);
		assert_string_equal(test->response.content_type, cases[i].type);
	}
	assert_int_equal(test_ask(test, QUERY "?format=pprof"), 200);
	assert_memory_equal(test->response.body.data, "\x1f\x8b", 2);
	assert_true(test->response.no_compress);
	assert_true(test_has_header(test, "Content-Disposition: attachment; filename=\"wick.pb.gz\""));
	assert_int_equal(test_ask(test, QUERY "?format=columns"), 200);
	assert_memory_equal(test->response.body.data, "wickflm\1", 8);
	uint32_t len;
	memcpy(&len, test->response.body.data + 8, 4);
	json_t *head = json_loadb((const char *)test->response.body.data + 12, len, 0, NULL);
	assert_non_null(head);
	assert_int_equal(json_integer_value(json_object_get(head, "total")), 13);
	json_decref(head);
	/* Of nothing, each form is an answer as well, but for those of other viewers, which cannot have none. */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), QUERY "?format=%s&query=%%7Benv%%3D%%22none%%22%%7D", cases[i].format);
		bool is_foreign = strcmp(cases[i].format, "speedscope") == 0 || strcmp(cases[i].format, "firefox") == 0;
		test_expect(test, text, is_foreign ? 400 : 200, is_foreign ? "the profile has no values" : "");
	}
}

static void test_stages(void **state)
{
	static const struct {
		const char *query, *want;
	} cases[] = {
		{"query=%7Benv%3D%22test%22%7D", "main;c 1\n"},
		{"where=env%3D%22test%22", "main;c 1\n"},
		{"focus=%22b%22", "b 7\n"}, /* what it is called by is not looked at */
		{"hide=%22main%22&where=env%3D%22test%22", "c 1\n"},
		{"type=cpu:samples:count::", "main;a 5\nmain;b 7\nmain;c 1\n"},
		{"where=env%3D%22prod%22&where=env%3D%22test%22", ""},
		{"from=now-3h&to=now-2h", ""},
	};
	struct test_server *test = *state;
	char text[300];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), QUERY "?format=folded&%s", cases[i].query);
		int status = test_ask(test, text);
		if (status != 200 || strcmp(test->text, cases[i].want) != 0)
			fail_msg("%s: %d %s", cases[i].query, status, test->text);
	}
}

static void test_names(void **state)
{
	struct test_server *test = *state;
	test_expect(test, "GET /api/v1/types", 200, "\"cpu:samples:count");
	test_expect(test, "GET /api/v1/labels", 200, "\"env\"");
	test_expect(test, "GET /api/v1/label-values?label=env", 200, "\"prod\"");
	test_expect(test, "GET /api/v1/label/env/values", 200, "\"test\"");
	test_expect(test, "GET /api/v1/label-values", 400, "label");
	test_expect(test, "GET /api/v1/label-values?label=nothing", 200, "[]");
	test_expect(test, "GET /api/v1/label/env", 404, "");
	test_expect(test, "GET /api/v1/services", 200, "");
	test_expect(test, "GET /api/v1/cardinality", 200, "env");
	test_expect(test, "GET /api/v1/series?group_by=env", 200, "\"env\":\"prod\"");
	test_expect(test, "GET /api/v1/series?step=0s", 400, "step");
	test_expect(test, "GET /api/v1/pipeline?q=%7B%7D%20%7C%20top%205", 200, "");
	test_expect(test, "GET /api/v1/pipeline?q=%7B%7D&format=xml", 400, "is not one of json, table, text");
	test_expect(test, "GET /api/v1/status", 200, "\"storage\":{\"head_bytes\"");
	test_expect(test, "GET /api/v1/blocks", 200, "\"blocks\":[]");
	test_expect(test, "GET /api/v1/nothing", 404, "");
	test_expect(test, "POST /api/v1/types", 405, "");
}

/* What changes the store: from this machine only, when there is no token, and never by accident. */
static void test_changes(void **state)
{
	static const char *const incomplete[] = {
		"POST /api/v1/delete",
		"POST /api/v1/delete?query=%7B%7D",
		"POST /api/v1/delete?query=%7B%7D&from=now-1h",
		"POST /api/v1/delete?query=%7B%7D&to=now",
		"POST /api/v1/delete?from=now-1h&to=now",
		"POST /api/v1/delete?query=&from=now-1h&to=now",
		"POST /api/v1/delete?query=%7B&from=now-1h&to=now",
		"POST /api/v1/delete?query=%7B%7D&from=now&to=now-1h",
	};
	struct test_server *test = *state;
	for (size_t i = 0; i < sizeof(incomplete) / sizeof(incomplete[0]); i++)
		test_expect(test, incomplete[i], 400, "error");
	test_expect(test, "GET /api/v1/delete?query=%7B%7D&from=now-1h&to=now", 405, "");
	/* As of a server with --insecure. */
	test->is_remote = true;
	test->server->loopback_only = false;
	test_expect(test, "POST /api/v1/delete?query=%7B%7D&from=now-1h&to=now", 403, "from the same machine only");
	test_expect(test, "POST /api/v1/compact", 403, "from the same machine only");
	test->is_remote = false;
	test->server->loopback_only = true;
	test_expect(test, QUERY "?format=folded", 200, "main;a 5\nmain;b 7\nmain;c 1\n");
	test_expect(test, "POST /api/v1/compact", 200, "\"blocks\":1");
	test_expect(test, "GET /api/v1/blocks", 200, "\"blocks\":[{");
	test_expect(test, "POST /api/v1/delete?query=%7Benv%3D%22prod%22%7D&from=now-1h&to=now%2B1h", 200, "\"samples\":2");
	test_expect(test, QUERY "?format=folded", 200, "main;c 1\n");
	assert_null(strstr(test->text, "main;a"));
}

/* Failures and answers are in the account. */
static void test_account(void **state)
{
	struct test_server *test = *state;
	const struct server_counters *counters = &test->server->default_tenant->counters;
	uint64_t queries = atomic_load(&counters->queries), failures = atomic_load(&counters->query_failures);
	test_ask(test, QUERY);
	test_ask(test, QUERY "?from=x");
	assert_int_equal(atomic_load(&counters->queries), queries + 2);
	assert_int_equal(atomic_load(&counters->query_failures), failures + 1);
}

/* Samples that an agent keeps with less of their stack are not lost. */
static void test_lost_samples(void **state)
{
	struct test_server *test = *state;
	struct server *server = test->server;
	static const struct link_loss losses[] = {
		{"counts_full", 10}, {"no_user_stack", 4000}, {"off_cpu_full", 5}, {"events", 70}};
	pthread_mutex_lock(&server->agent_lock);
	server->agent_stats = (struct link_stats){.samples_taken = 990, .samples_dropped = 20, .loss_count = 4};
	memcpy(server->agent_stats.losses, losses, sizeof(losses));
	server->agent_seen = true;
	pthread_mutex_unlock(&server->agent_lock);
	test_expect(test, "GET /api/v1/status", 200, "\"samples_lost\":35,\"samples_dropped\":20");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_common_parameters),
		TEST(test_long_query),
		TEST(test_forms),
		TEST(test_stages),
		TEST(test_names),
		TEST(test_changes),
		TEST(test_account),
		TEST(test_lost_samples),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
