/* SPDX-License-Identifier: Apache-2.0 */
/* The account of queries, the list of slow ones, and the statuses of failures. */
#include "server/test_server.h"

#define LIMIT_NS (5 * NS_PER_S)

static void account(struct test_server *test, const char *head, struct tenant *tenant, int64_t took_ns, int r)
{
	struct query_stats stats = {.read = {.rows = 10, .blocks = 2}};
	struct net_request request;
	struct error err = {0};
	test_request_make(&request, head, (struct bytes){0});
	if (r < 0)
		error_set(&err, r, "it failed");
	query_account(test->server, tenant, &request, &stats, took_ns, r, &err);
	request_release(&request);
}

static void test_counts(void **state)
{
	struct test_server test;
	(void)state;
	test_server_open(&test, NULL);
	struct tenant *tenant = test.server->default_tenant;
	account(&test, "GET /a", tenant, 100, 0);
	account(&test, "GET /a", tenant, 300, -EINVAL);
	account(&test, "GET /a", tenant, 200, -ECANCELED);
	account(&test, "GET /a", NULL, LIMIT_NS, -ENOENT); /* of no tenant */
	const struct server_counters *counters[] = {&test.server->counters, &tenant->counters};
	for (int i = 0; i < 2; i++) {
		assert_int_equal(atomic_load(&counters[i]->queries), 4 - i);
		assert_int_equal(atomic_load(&counters[i]->query_failures), 2 - i);
		assert_int_equal(atomic_load(&counters[i]->query_cancelled), 1);
		assert_int_equal(atomic_load(&counters[i]->query_slow), 1 - i);
		assert_int_equal(atomic_load(&counters[i]->query_rows), 40 - 10 * i);
	}
	assert_int_equal(atomic_load(&tenant->counters.query_ns_max), 300);
	assert_int_equal(atomic_load(&tenant->counters.query_ns_total), 600);
	assert_int_equal(atomic_load(&test.server->counters.query_ns_max), LIMIT_NS);
	test_server_close(&test);
}

/* From the threshold on, the newest first, a tenant's own only, and no more than there is room for. */
static void test_list(void **state)
{
	struct server_options options;
	struct test_server test;
	struct tenant *a;
	(void)state;
	server_options_init(&options);
	options.tenants = true;
	test_server_open(&test, &options);
	test_expect(&test, "GET /api/v1/slow", 200, "{\"threshold_ms\":5000,\"queries\":[]}");
	assert_int_equal(tenant_by_name(test.server, "a", true, &a, NULL), 0);
	account(&test, "GET /fast", test.server->default_tenant, LIMIT_NS - 1, 0);
	account(&test, "GET /first?query=x&from=now-1h&nothing=1", test.server->default_tenant, LIMIT_NS, 0);
	account(&test, "GET /second", test.server->default_tenant, LIMIT_NS, -EINVAL);
	account(&test, "GET /other", a, LIMIT_NS, 0);
	test_expect(&test, "GET /api/v1/slow", 200, "\"path\":\"/first\",\"text\":\"query=x from=now-1h\"");
	assert_null(strstr(test.text, "/fast"));
	assert_null(strstr(test.text, "/other"));
	assert_non_null(strstr(test.text, "\"error\":\"it failed\""));
	assert_true(strstr(test.text, "/second") < strstr(test.text, "/first"));
	test_expect(&test, "GET /api/v1/slow\nX-Scope-OrgID: a", 200, "\"path\":\"/other\"");
	assert_null(strstr(test.text, "/first"));
	test_expect(&test, "GET /api/v1/slow\nX-Scope-OrgID: b", 404, "no tenant 'b'");
	for (size_t i = 0; i < SLOW_KEPT; i++)
		account(&test, "GET /many", test.server->default_tenant, LIMIT_NS, 0);
	test_expect(&test, "GET /api/v1/slow", 200, "/many");
	assert_null(strstr(test.text, "/first"));
	size_t count = 0;
	for (const char *at = test.text; (at = strstr(at, "/many")); at++)
		count++;
	assert_int_equal(count, SLOW_KEPT);
	test_server_close(&test);
}

static void test_long_text(void **state)
{
	struct test_server test;
	char head[4000] = "GET /long?from=now-2h&query=";
	(void)state;
	test_server_open(&test, NULL);
	memset(head + strlen(head), 'q', 3000);
	account(&test, head, test.server->default_tenant, LIMIT_NS, 0);
	assert_int_equal(strlen(test.server->slow[0].text), SLOW_TEXT_BYTES - 1);
	test_expect(&test, "GET /api/v1/slow", 200, "\"text\":\"query=qqqq");
	test_server_close(&test);
}

static void test_off(void **state)
{
	struct server_options options;
	struct test_server test;
	(void)state;
	server_options_init(&options);
	options.slow_query_ns = -1;
	test_server_open(&test, &options);
	account(&test, "GET /a", test.server->default_tenant, 1000 * LIMIT_NS, 0);
	assert_int_equal(atomic_load(&test.server->counters.query_slow), 0);
	test_expect(&test, "GET /api/v1/slow", 200, "\"queries\":[]");
	test_server_close(&test);
}

static void test_statuses(void **state)
{
	static const struct {
		int code, http;
		enum grpc_code grpc;
	} cases[] = {{-EBADMSG, 400, GRPC_INVALID_ARGUMENT},
		     {-EINVAL, 422, GRPC_INVALID_ARGUMENT},
		     {-ENOENT, 404, GRPC_NOT_FOUND},
		     {-EACCES, 403, GRPC_PERMISSION_DENIED},
		     {-E2BIG, 413, GRPC_RESOURCE_EXHAUSTED},
		     {-EDQUOT, 429, GRPC_RESOURCE_EXHAUSTED},
		     {-ENOSPC, 507, GRPC_RESOURCE_EXHAUSTED},
		     {-ENOMEM, 503, GRPC_UNAVAILABLE},
		     {-ECANCELED, 499, GRPC_CANCELLED},
		     {-ETIME, 504, GRPC_DEADLINE_EXCEEDED},
		     {-ENOSYS, 501, GRPC_UNIMPLEMENTED},
		     {-EPERM, 500, GRPC_INTERNAL},
		     {0, 500, GRPC_INTERNAL}};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(http_status_of(cases[i].code), cases[i].http);
		assert_int_equal(grpc_code_of(cases[i].code), cases[i].grpc);
	}
}

/* What there was of an answer is gone, and texts from outside are JSON. */
static void test_respond(void **state)
{
	struct net_response response;
	(void)state;
	net_response_init(&response);
	buffer_append_string(&response.body, "half of an ");
	response.content_type = "text/plain";
	response.no_compress = true;
	respond_error(&response, 418, "a \"teapot\"\n\001");
	assert_int_equal(response.status, 418);
	assert_string_equal(response.content_type, "application/json");
	assert_false(response.no_compress);
	assert_string_equal(buffer_string(&response.body), "{\"error\":\"a \\\"teapot\\\"\\n\\u0001\"}");
	respond_code(&response, 404, "not_found", "\xff");
	assert_non_null(strstr(buffer_string(&response.body), "{\"code\":\"not_found\",\"message\":\""));
	assert_true(text_is_utf8(buffer_bytes(&response.body)));
	net_response_release(&response);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts), cmocka_unit_test(test_list),	cmocka_unit_test(test_long_text),
		cmocka_unit_test(test_off),    cmocka_unit_test(test_statuses), cmocka_unit_test(test_respond),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
