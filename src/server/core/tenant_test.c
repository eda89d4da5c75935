/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: names, whose data a request sees, how many there may be, and what a restart finds. */
#include "server/test_server.h"

#include <sys/stat.h>

#define INGEST "POST /api/v1/ingest?format=folded"

static struct server_options with_tenants(unsigned max)
{
	struct server_options options;
	server_options_init(&options);
	options.tenants = true;
	options.tenants_max = max;
	return options;
}

static void test_names(void **state)
{
	static const char *const good[] = {"a", "A-Z_09", "!-_.*'()", "...", "a.", "anonymous"};
	static const char *const bad[] = {"", ".", "..", "a/b", "../a", "a b", "a\\b", "a\nb", "\xc3\xa4", "a:b", "a%2fb", "~"};
	char name[TENANT_NAME_MAX + 2];
	struct error err = {0};
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(tenant_name_check(good[i], &err), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (tenant_name_check(bad[i], &err) != -EBADMSG)
			fail_msg("'%s' is taken", bad[i]);
		assert_memory_equal(err.message, "X-Scope-OrgID: ", 15);
	}
	memset(name, 'a', sizeof(name));
	name[TENANT_NAME_MAX] = 0;
	assert_int_equal(tenant_name_check(name, &err), 0);
	name[TENANT_NAME_MAX] = 'a', name[TENANT_NAME_MAX + 1] = 0;
	assert_int_equal(tenant_name_check(name, &err), -EBADMSG);
}

/* Each sees its own, and one that has nothing is not made by a question. */
static void test_apart(void **state)
{
	struct server_options options = with_tenants(0);
	struct test_server test;
	(void)state;
	test_server_open(&test, &options);
	test_expect(&test, INGEST "&label=who=a\nX-Scope-OrgID: a\n\nmain 1\n", 200, "");
	test_expect(&test, INGEST "&label=who=b\nX-Scope-OrgID: b\n\nmain 2\n", 200, "");
	test_expect(&test, INGEST "&label=who=nobody\n\nmain 3\n", 200, "");
	test_expect(&test, "GET /api/v1/label-values?label=who\nX-Scope-OrgID: a", 200, "\"a\"");
	assert_null(strstr(test.text, "\"b\""));
	test_expect(&test, "GET /api/v1/query?format=folded\nX-Scope-OrgID: b", 200, "main 2\n");
	test_expect(&test, "GET /api/v1/query?format=folded", 200, "main 3\n");
	test_expect(&test, "GET /api/v1/query?format=folded\nX-Scope-OrgID: anonymous", 200, "main 3\n");
	test_expect(&test, "GET /api/v1/labels\nX-Scope-OrgID: c", 404, "no tenant 'c': nothing was stored for it yet");
	test_expect(&test, "GET /api/v1/labels\nX-Scope-OrgID: ../a", 400, "letters, digits");
	test_expect(&test, INGEST "\nX-Scope-OrgID: a/b\n\nmain 1\n", 400, "letters, digits");
	test_expect(&test, INGEST "\nX-Scope-OrgID: \n\nmain 1\n", 400, "must have 1 to 150 characters");
	struct tenant **tenants;
	assert_int_equal(tenants_snapshot(test.server, &tenants), 3);
	mem_free(tenants);
	/* They are found again. */
	test_server_reopen(&test, &options);
	test_expect(&test, "GET /api/v1/query?format=folded\nX-Scope-OrgID: b", 200, "main 2\n");
	assert_int_equal(tenants_snapshot(test.server, &tenants), 3);
	mem_free(tenants);
	/* And a server without tenants ignores the header. */
	test_server_reopen(&test, NULL);
	test_expect(&test, "GET /api/v1/query?format=folded\nX-Scope-OrgID: b", 200, "main 3\n");
	test_expect(&test, "GET /api/v1/query?format=folded\nX-Scope-OrgID: ../..", 200, "main 3\n");
	test_server_close(&test);
}

static void test_too_many(void **state)
{
	struct server_options options = with_tenants(3);
	struct test_server test;
	(void)state;
	test_server_open(&test, &options);
	test_expect(&test, INGEST "\nX-Scope-OrgID: a\n\nmain 1\n", 200, "");
	test_expect(&test, INGEST "\nX-Scope-OrgID: b\n\nmain 1\n", 200, "");
	test_expect(&test, INGEST "\nX-Scope-OrgID: c\n\nmain 1\n", 429, "limit tenants_max: there are 3 tenants already");
	assert_true(test_has_header(&test, "X-Wick-Limit: tenants_max"));
	assert_int_equal(atomic_load(&test.server->counters.refusals[REFUSED_TENANTS]), 1);
	test_expect(&test, INGEST "\nX-Scope-OrgID: b\n\nmain 1\n", 200, "");
	test_server_close(&test);
}

/* What lies among the tenants' directories and is none is left alone. */
static void test_strange_directories(void **state)
{
	static const char *const strange[] = {"anonymous", "a b", "..x y", ".hidden~"};
	struct server_options options = with_tenants(0);
	struct test_server test;
	struct tenant **tenants;
	char path[200];
	(void)state;
	test_server_open(&test, &options);
	test_expect(&test, INGEST "\nX-Scope-OrgID: a\n\nmain 1\n", 200, "");
	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		snprintf(path, sizeof(path), "%s/tenants/%s", test.directory, strange[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	test_server_reopen(&test, &options);
	assert_int_equal(tenants_snapshot(test.server, &tenants), 2);
	mem_free(tenants);
	test_expect(&test, "GET /api/v1/query?format=folded\nX-Scope-OrgID: a", 200, "main 1\n");
	test_server_close(&test);
}

static void test_own_limits(void **state)
{
	struct server_tenant_settings settings = {.name = "small", .limits = {.stacks_per_profile = 2}};
	struct server_options options = with_tenants(0);
	struct test_server test;
	(void)state;
	options.tenant_settings = &settings;
	options.tenant_settings_count = 1;
	test_server_open(&test, &options);
	test_expect(&test, INGEST "\nX-Scope-OrgID: small\n\na 1\nb 1\nc 1\n", 422, "stacks_per_profile");
	test_expect(&test, INGEST "\nX-Scope-OrgID: other\n\na 1\nb 1\nc 1\n", 200, "");
	struct tenant *small, *other;
	assert_int_equal(tenant_by_name(test.server, "small", false, &small, NULL), 0);
	assert_int_equal(tenant_by_name(test.server, "other", false, &other, NULL), 0);
	assert_int_equal(atomic_load(&small->counters.refusals[REFUSED_STACKS]), 1);
	assert_int_equal(atomic_load(&other->counters.refusals[REFUSED_STACKS]), 0);
	char out[200];
	assert_int_equal(tenant_path(test.server, small, "x", out, sizeof(out), NULL), 0);
	assert_non_null(strstr(out, "/tenants/small/x"));
	assert_int_equal(tenant_path(test.server, test.server->default_tenant, "x", out, sizeof(out), NULL), 0);
	assert_null(strstr(out, "tenants"));
	assert_int_equal(tenant_path(test.server, small, "x", out, 20, NULL), -ENAMETOOLONG);
	test_server_close(&test);
}

/* Whose a thing is that carries a tenant's name, and who takes turns with whom. */
/* The budget of indexes is the configuration's, or follows from the machine. */
static void test_index_budget(void **state)
{
	struct server_options options = with_tenants(0);
	struct test_server test;
	char line[100];
	options.index_cache_bytes = 3 * MIB;
	test_server_open(&test, &options);
	test_expect(&test, INGEST "\nX-Scope-OrgID: a\n\nmain 1\n", 200, "");
	snprintf(line, sizeof(line), "wick_store_index_cache_limit_bytes %llu\n", 3 * MIB);
	test_expect(&test, "GET /metrics", 200, line);
	test_expect(&test, "GET /metrics", 200, "wick_store_index_cache_bytes 0\n");
	test_server_close(&test);
	server_options_init(&options);
	test_server_open(&test, &options);
	uint64_t most = test.server->index_cache_bytes;
	assert_true(most >= 32 * MIB && most <= 256 * MIB);
	test_server_close(&test);
}

static void test_owns(void **state)
{
	static const struct {
		const char *head, *name;
		bool owns;
	} cases[] = {
		{"GET /", NULL, true},
		{"GET /", "anonymous", true},
		{"GET /", "a", false},
		{"GET /\nX-Scope-OrgID: a", "a", true},
		{"GET /\nX-Scope-OrgID: a", "b", false},
		{"GET /\nX-Scope-OrgID: a", NULL, false},
		{"GET /\nX-Scope-OrgID: anonymous", NULL, true},
	};
	struct server server = {.options.tenants = true};
	uint64_t keys[sizeof(cases) / sizeof(cases[0])];
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct net_request request;
		test_request_make(&request, cases[i].head, (struct bytes){0});
		request.peer = 7;
		server.options.tenants = true;
		assert_int_equal(tenant_owns(&server, &request, cases[i].name), cases[i].owns);
		keys[i] = tenant_fair_key(&server, &request);
		server.options.tenants = false;
		assert_true(tenant_owns(&server, &request, cases[i].name));
		assert_int_equal(tenant_fair_key(&server, &request), 7);
		request_release(&request);
	}
	assert_int_equal(keys[0], 7);
	assert_int_equal(keys[3], keys[4]);
	assert_int_not_equal(keys[3], keys[0]);
	assert_int_not_equal(keys[3], keys[6]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	     cmocka_unit_test(test_apart),
		cmocka_unit_test(test_too_many),     cmocka_unit_test(test_strange_directories),
		cmocka_unit_test(test_own_limits),   cmocka_unit_test(test_owns),
		cmocka_unit_test(test_index_budget),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
