/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of memory for queries: every one that a query may meet, and what is said of each end. */
#include "server/test_server.h"

#define STACKS 3000

struct world {
	struct test_server test;
	struct buffer body;
};

static void push(struct world *world, const char *side, unsigned seed)
{
	char head[200];
	buffer_clear(&world->body);
	for (unsigned i = 0; i < STACKS; i++) {
		unsigned x = i * 2654435761u + seed * 40503u;
		buffer_printf(&world->body, "main;a%u;b%u;c%u;d%u %u\n", x % 97, x / 97 % 89, x / 8633 % 83, i, 1 + i % 9);
	}
	snprintf(head, sizeof(head), "POST /api/v1/ingest?format=folded&name=cpu&label=side=%s", side);
	assert_int_equal(test_ask_bytes(&world->test, head, buffer_bytes(&world->body)), 200);
}

static int setup(void **state)
{
	static struct world world;
	test_server_open(&world.test, NULL);
	buffer_init(&world.body, 16 * MIB);
	push(&world, "a", 1);
	test_expect(&world.test, "POST /api/v1/compact", 200, "\"blocks\":1"); /* one side in a block, one in memory */
	push(&world, "b", 2);
	push(&world, "a", 3);
	*state = &world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	buffer_release(&world->body);
	test_server_close(&world->test);
	return 0;
}

#define TYPE   "cpu:samples:count::"
#define SIDE_A "%7Bside%3D%22a%22%7D"
#define SIDE_B "%7Bside%3D%22b%22%7D"
static const char *const questions[] = {
	"GET /api/v1/query?query=" SIDE_A,
	"GET /api/v1/query?query=" SIDE_A "&max_nodes=100",
	"GET /api/v1/query?query=" SIDE_A "&format=columns",
	"GET /api/v1/query?query=" SIDE_A "&format=json",
	"GET /api/v1/query?query=" SIDE_A "&format=folded",
	"GET /api/v1/query?query=" SIDE_A "&format=pprof",
	"GET /api/v1/query?query=" SIDE_A "&format=svg",
	"GET /api/v1/query?query=" SIDE_A "&format=firefox&names=short",
	"GET /api/v1/query?query=" SIDE_A "&group_by=side&hide=%22a1%22",
	"GET /api/v1/query?query=" SIDE_A "&frames=%22a1%22",
	"GET /api/v1/diff?query=" SIDE_A "&base=" SIDE_B,
	"GET /api/v1/diff?query=" SIDE_A "&base=" SIDE_B "&format=table",
	"GET /api/v1/compare?label=side",
	"GET /api/v1/series?group_by=side",
	"GET /api/v1/pipeline?q=" SIDE_A "%20%7C%20top%205&format=text",
	"GET /api/v1/label-values?label=side",
	"GET /pyroscope/render?query=" TYPE SIDE_A "&from=now-1h&until=now%2B1h",
	"GET /pyroscope/render-diff?leftQuery=" TYPE SIDE_A "&leftFrom=now-1h&leftUntil=now&rightQuery=" TYPE SIDE_B
	"&rightFrom=now-1h&rightUntil=now",
};

static uint64_t count_problems(struct test_server *test)
{
	struct store_stats stats;
	store_get_stats(test->server->default_tenant->store, &stats);
	return stats.problems;
}

/* Wherever memory ends, the answer is whole, a part that says so, or says which limit it was; nothing is taken for damaged. */
static void test_every_limit(void **state)
{
	struct world *world = *state;
	struct test_server *test = &world->test;
	uint64_t *limit = &test->server->default_tenant->limits.query_memory;
	for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++) {
		unsigned whole = 0, part = 0, refused = 0;
		*limit = 0;
		if (test_ask(test, questions[i]) != 200)
			fail_msg("%s: %.300s", questions[i], test->text);
		size_t len = test->response.body.len;
		for (uint64_t bytes = 512; bytes < 16 * MIB; bytes += bytes / 16 + 64) {
			*limit = bytes;
			int status = test_ask(test, questions[i]);
			bool is_part = test_has_header(test, "X-Wick-Partial: the limit query_memory was reached");
			whole += status == 200 && !is_part;
			part += status == 200 && is_part;
			refused += status == 413;
			if (status != 200 && (status != 413 || !test_has_header(test, "X-Wick-Limit: query_memory")))
				fail_msg("%s with %llu bytes: %d %.300s", questions[i], (unsigned long long)bytes, status,
					 test->text);
		}
		assert_true(whole > 0 && refused > 0);
		*limit = 0;
		assert_int_equal(test_ask(test, questions[i]), 200);
		/* Times and statistics differ a little in length. */
		assert_in_range(test->response.body.len, len - len / 10 - 30, len + len / 10 + 30);
		net_response_release(&test->response);
		assert_int_equal(test->server->query_memory.used, 0);
	}
	assert_int_equal(count_problems(test), 0);
}

/* The same of what all queries may take. */
static void test_every_total(void **state)
{
	struct world *world = *state;
	struct test_server *test = &world->test;
	struct budget_pool *pool = &test->server->query_memory;
	size_t max = pool->max_bytes;
	for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++) {
		for (size_t left = 0; left <= 8; left++) {
			net_response_release(&test->response);
			pool->used = 0;
			pool->max_bytes = 10 * BUDGET_PIECE;
			pool->used = pool->max_bytes - left * BUDGET_PIECE; /* others have it */
			int status = test_ask(test, questions[i]);
			bool is_part = test_has_header(test, "X-Wick-Partial: the limit queries.memory was reached");
			if (left == 0 && status != 429)
				fail_msg("%s: %d", questions[i], status);
			if (status == 429) {
				assert_true(test_has_header(test, "Retry-After: "));
				assert_true(test_has_header(test, "X-Wick-Limit: queries.memory"));
			} else if (status != 200) {
				fail_msg("%s: %d %.300s", questions[i], status, test->text);
			}
			assert_true(!is_part || status == 200);
		}
	}
	net_response_release(&test->response);
	pool->used = 0;
	pool->max_bytes = max;
	assert_int_equal(count_problems(test), 0);
}

/* What a query is told when it had to end, and that it is told once. */
static void test_ends(void **state)
{
	static const struct {
		enum budget_end end;
		int code, http;
		const char *text;
	} cases[] = {
		{BUDGET_SPENT, -E2BIG, 413, "limit query_memory: the answer needs more than 256.0 MiB"},
		{BUDGET_POOL_SPENT, -EDQUOT, 429, "limit queries.memory: all queries together need more than 256.0 MiB"},
		{BUDGET_LATE, -ETIME, 504, "the deadline passed"},
		{BUDGET_CANCELLED, -ECANCELED, 499, "the query was cancelled"},
	};
	struct world *world = *state;
	struct server *server = world->test.server;
	struct tenant *tenant = server->default_tenant;
	const struct query query = {.deadline_ns = time_monotonic_ns() + 3600 * NS_PER_S};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		for (int seems_well = 0; seems_well < 2; seems_well++) {
			struct net_response response;
			struct error err = {0};
			net_response_init(&response);
			assert_int_equal(query_budget_begin(server, tenant, &query, &response, &err), 0);
			assert_ptr_equal(budget_current(), response.budget);
			response.budget->end = cases[i].end;
			int r = query_budget_end(server, tenant, response.budget, &response, seems_well ? 0 : -ENOMEM, &err);
			assert_int_equal(r, cases[i].code);
			assert_int_equal(http_status_of(r), cases[i].http);
			assert_non_null(strstr(err.message, cases[i].text));
			assert_null(budget_current());
			err.message[0] = '\0';
			assert_int_equal(query_budget_end(server, tenant, response.budget, &response, r, &err), r);
			assert_string_equal(err.message, "");
			net_response_release(&response);
		}
	}
	/* A failure of another kind stays what it is. */
	struct net_response response;
	net_response_init(&response);
	assert_int_equal(query_budget_begin(server, tenant, &query, &response, NULL), 0);
	response.budget->end = BUDGET_SPENT;
	assert_int_equal(query_budget_end(server, tenant, response.budget, &response, -EINVAL, NULL), -EINVAL);
	assert_null(budget_current());
	net_response_release(&response);
}

/* The deadline is for reading, what follows has a while: a query with no time at all has an answer, which is partial. */
static void test_no_time(void **state)
{
	struct world *world = *state;
	struct test_server *test = &world->test;
	assert_int_equal(test_ask(test, "GET /api/v1/query?query=" SIDE_A "&timeout=1ns"), 200);
	assert_true(test_has_header(test, "X-Wick-Partial: the deadline passed"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {TEST(test_every_limit), TEST(test_every_total), TEST(test_ends), TEST(test_no_time)};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
