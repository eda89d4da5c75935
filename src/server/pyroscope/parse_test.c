/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of Pyroscope's query service: fields by name, lists, hostile messages, and what they select. */
#include "server/test_server.h"

#include "codec/protobuf.h"
#include "server/pyroscope/messages.h"
#include "server/pyroscope/pyroscope_int.h"

struct world {
	struct test_server test;
	struct net_request request;
	struct pyroscope p;
	struct pyroscope_request in;
	struct buffer message;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	test_server_open(&world->test, NULL);
	test_request_make(&world->request, "POST /x", (struct bytes){0});
	assert_int_equal(pyroscope_init(&world->p, world->test.server, &world->request, &world->test.response, 0, NULL), 0);
	buffer_init(&world->message, GIB);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	pyroscope_finish(&world->p, 0, NULL);
	buffer_release(&world->message);
	request_release(&world->request);
	test_server_close(&world->test);
	free(world);
	return 0;
}

static int parse(struct world *world, struct error *err)
{
	return pyroscope_parse(&world->p, buffer_bytes(&world->message), &pyroscope_stacktraces_request, &world->in, err);
}

/* As a client that speaks JSON has it: SelectMergeStacktraces. */
static int parse_json(struct world *world, const char *json, struct error *err)
{
	buffer_clear(&world->message);
	int r = pb_json_to_binary(bytes_of_string(json), &pyroscope_stacktraces_request, &world->message, err);
	return r < 0 ? r : parse(world, err);
}

static void test_fields(void **state)
{
	struct world *world = *state;
	assert_int_equal(
		parse_json(world,
			   "{\"profileTypeID\":\"cpu:a:b:c:d\",\"labelSelector\":\"{x=\\\"y\\\"}\",\"start\":\"1000\",\"end\":"
			   "2000,"
			   "\"maxNodes\":\"16\",\"format\":\"PROFILE_FORMAT_TREE\",\"stackTraceSelector\":{\"callSite\":"
			   "[{\"name\":\"main\"},{\"name\":\"run\"}]},\"spanSelector\":[\"0123456789abcdef\"]}",
			   NULL),
		0);
	const struct pyroscope_request *in = &world->in;
	assert_string_equal(in->type, "cpu:a:b:c:d");
	assert_string_equal(in->selector, "{x=\"y\"}");
	assert_int_equal(in->start, 1000);
	assert_int_equal(in->end, 2000);
	assert_int_equal(in->max_nodes, 16);
	assert_int_equal(in->format, PYROSCOPE_TREE);
	assert_int_equal(in->call_site.count, 2);
	assert_string_equal(in->call_site.items[1], "run");
	assert_int_equal(in->spans.count, 1);
	assert_false(in->pgo);
	assert_int_equal(parse_json(world, "{\"stackTraceSelector\":{\"goPgo\":{}}}", NULL), 0);
	assert_true(world->in.pgo);
	assert_string_equal(world->in.type, ""); /* nothing is left of the one before */
	assert_int_equal(world->in.call_site.count, 0);
}

/* Fields of other numbers and kinds are passed over. */
static void test_unknown_fields(void **state)
{
	struct world *world = *state;
	pb_put_varint(&world->message, 3, 5);
	pb_put_varint(&world->message, 99, 5);
	pb_put_varint(&world->message, 536870911, 5);
	pb_put_string(&world->message, 3, "not a number");
	pb_put_varint(&world->message, 1, 7); /* not a text */
	pb_write_fixed64(&world->message, 4, 9);
	pb_put_string(&world->message, 98, "x");
	assert_int_equal(parse(world, NULL), 0);
	assert_int_equal(world->in.start, 5);
	assert_int_equal(world->in.end, 0);
	assert_string_equal(world->in.type, "");
}

static void test_hostile_messages(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		int code;
	} cases[] = {
		{"", 0, 0},
		{"\x0a", 1, -EBADMSG}, /* a field without a length */
		{"\x0a\x05"
		 "ab",
		 4, -EBADMSG}, /* cut */
		{"\x0a\xff\xff\xff\xff\x0f", 6, -EBADMSG},
		{"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, -EBADMSG}, /* a number that is too long */
		{"\x00\x01", 2, -EBADMSG},					    /* field 0 */
		{"\x0b\x0c", 2, -EBADMSG},					    /* groups */
		{"\x0a\x03"
		 "a\0b",
		 5, -EINVAL},				   /* a NUL */
		{"\x3a\x04\x0a\x05\x0a\x01", 6, -EBADMSG}, /* a call site that is longer than what it is in */
	};
	struct world *world = *state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error err = {0};
		buffer_clear(&world->message);
		buffer_append(&world->message, cases[i].bytes, cases[i].len);
		int r = parse(world, &err);
		if (r != cases[i].code)
			fail_msg("case %zu: %d %s", i, r, err.message);
	}
}

static void test_limits(void **state)
{
	struct world *world = *state;
	struct error err = {0};
	for (size_t i = 0; i < PYROSCOPE_LIST_MAX; i++)
		assert_int_equal(pb_write_string(&world->message, 11, "s"), 0);
	assert_int_equal(parse(world, &err), 0);
	assert_int_equal(world->in.spans.count, PYROSCOPE_LIST_MAX);
	assert_int_equal(pb_write_string(&world->message, 11, "s"), 0);
	assert_int_equal(parse(world, &err), -EINVAL);
	assert_string_equal(err.message, "a list of the request has more than 1000 items");
	/* What does not fit the memory of a call. */
	buffer_clear(&world->message);
	char *large = calloc(1, 5 * MIB);
	memset(large, 'x', 5 * MIB - 1);
	assert_int_equal(pb_write_string(&world->message, 1, large), 0);
	free(large);
	assert_int_equal(parse(world, &err), -EINVAL);
	assert_string_equal(err.message, "the request is too large");
}

static void test_select(void **state)
{
	static const struct {
		const char *json, *why; /* NULL = it is taken */
	} cases[] = {
		{"{\"profileTypeID\":\"cpu:a:b:c:d\",\"start\":1,\"end\":1}", NULL},
		{"{\"profileTypeID\":\"cpu:a:b:c:d:delta\",\"start\":1,\"end\":2}", NULL},
		{"{\"profileTypeID\":\"cpu:a:b:c:d\",\"end\":2}", "missing time range"},
		{"{\"profileTypeID\":\"cpu:a:b:c:d\",\"start\":1}", "missing time range"},
		{"{\"profileTypeID\":\"cpu:a:b:c:d\",\"start\":2,\"end\":1}", "the start is after the end"},
		{"{\"profileTypeID\":\"cpu:a:b:c:d\",\"start\":-2,\"end\":1}", "milliseconds since 1970"},
		{"{\"profileTypeID\":\"cpu:a:b:c:d\",\"start\":1,\"end\":9223372036854775807}", "milliseconds since 1970"},
		{"{\"profileTypeID\":\"cpu:a:b:c:d\",\"start\":1,\"end\":9223372036854}", "milliseconds since 1970"},
		{"{\"start\":1,\"end\":2}", "got(1): \"\""},
		{"{\"profileTypeID\":\"cpu\",\"start\":1,\"end\":2}", "got(1): \"cpu\""},
		{"{\"profileTypeID\":\"cpu:a:b:c\",\"start\":1,\"end\":2}", "got(4)"},
		{"{\"profileTypeID\":\"cpu:a:b:c:d:e:f\",\"start\":1,\"end\":2}", "got(7)"},
		{"{\"profileTypeID\":\"cpu:a:b:c:d\",\"start\":1,\"end\":2,\"spanSelector\":[\"0123456789abcde\"]}",
		 "span_selector: \"0123456789abcde\" does not have 16"},
		{"{\"profileTypeID\":\"cpu:a:b:c:d\",\"start\":1,\"end\":2,\"profileIdSelector\":[\"x\"]}",
		 "\"x\" is not a UUID"},
	};
	struct world *world = *state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error err = {0};
		world->p.unimplemented = false;
		int r = parse_json(world, cases[i].json, &err);
		if (r == 0)
			r = pyroscope_select(&world->p, &world->in, &err);
		if (r != (cases[i].why ? -EINVAL : 0) || (cases[i].why && !strstr(err.message, cases[i].why)))
			fail_msg("%s: %d %s", cases[i].json, r, err.message);
		assert_false(world->p.unimplemented);
	}
}

/* A type without ":delta" is that of absolute and of delta values; spans become one condition. */
static void test_meaning(void **state)
{
	struct world *world = *state;
	assert_int_equal(parse_json(world,
				    "{\"profileTypeID\":\"cpu:a:b:c:d\",\"start\":1000,\"end\":2000,\"spanSelector\":"
				    "[\"0123456789abcdef\",\"fedcba9876543210\"]}",
				    NULL),
			 0);
	assert_int_equal(pyroscope_select(&world->p, &world->in, NULL), 0);
	const struct query *query = &world->p.query;
	assert_string_equal(query->type, "cpu:a:b:c:d:*");
	assert_true(query->from_ns <= 1000 * NS_PER_MS && query->to_ns > 2000 * NS_PER_MS);
	assert_int_equal(query->where_count, 1);
	assert_string_equal(query->where[0].label, "__span_id__");
	assert_string_equal(query->where[0].value, "0123456789abcdef|fedcba9876543210");
	size_t nodes;
	assert_int_equal(pyroscope_nodes(0, &nodes, NULL), 0);
	assert_int_equal(nodes, PYROSCOPE_NODES_DEFAULT);
	assert_int_equal(pyroscope_nodes(-5, &nodes, NULL), 0);
	assert_int_equal(nodes, PYROSCOPE_NODES_DEFAULT);
	assert_int_equal(pyroscope_nodes(PYROSCOPE_NODES_MAX, &nodes, NULL), 0);
	assert_int_equal(nodes, PYROSCOPE_NODES_MAX);
	assert_int_equal(pyroscope_nodes(PYROSCOPE_NODES_MAX + 1ll, &nodes, NULL), -EINVAL);
}

/* The client's time is taken if it is shorter than the server's. */
static void test_deadline(void **state)
{
	static const int64_t asked_s[] = {0, 1, 30, 31, 100000, -1}, got_s[] = {30, 1, 30, 30, 30, 30};
	struct world *world = *state;
	for (size_t i = 0; i < 6; i++) {
		struct pyroscope p;
		assert_int_equal(pyroscope_init(&p, world->test.server, &world->request, &world->test.response,
						asked_s[i] * NS_PER_S, NULL),
				 0);
		assert_int_equal(p.query.deadline_ns - p.started_ns, got_s[i] * NS_PER_S);
		pyroscope_finish(&p, 0, NULL);
	}
}

/* ---- profiles in: /ingest ---- */

static void test_ingest(void **state)
{
	static const struct {
		const char *request;
		int status;
		const char *part;
	} cases[] = {
		{"POST /ingest?name=app.cpu%7Benv%3Dprod%7D&sampleRate=10\n\nmain;a 3\n", 200, ""},
		{"POST /pyroscope/ingest?name=app&from=now-1m&until=now\n\nmain;a 3\n", 200, ""},
		{"POST /pyroscope/ingest?name=app&from=1&until=2\n\nmain;a 3\n", 422, "nothing was stored"},
		{"POST /ingest\n\nmain;a 3\n", 400, "\"code\":"},
		{"POST /ingest?name=\n\nmain;a 3\n", 400, ""},
		{"POST /ingest?name=app%7Benv\n\nmain;a 3\n", 400, ""},
		{"POST /ingest?name=app&from=yesterday\n\nmain;a 3\n", 400, "from: 'yesterday' is not a time"},
		{"POST /ingest?name=app&until=99999999999999999999\n\nmain;a 3\n", 400, "until"},
		{"POST /ingest?name=app\n\nmain;a three\n", 422, ""},
		{"POST /ingest?name=app&format=pprof\n\nnonsense", 422, ""},
		{"POST /ingest?name=app&format=jfr\n\nnonsense", 422, ""},
		{"POST /ingest?name=app&format=trie\n\n\377\377\377", 422, ""},
		{"POST /ingest?name=app\nContent-Type: multipart/form-data\n\nx", 422, ""},
		{"GET /ingest", 405, ""},
	};
	struct world *world = *state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		test_expect(&world->test, cases[i].request, cases[i].status, cases[i].part);
	/* Ten samples a second: each is 100 ms. */
	test_expect(&world->test, "GET /api/v1/query?query=%7Benv%3D%22prod%22%7D&format=folded", 200, "main;a 300000000\n");
	test_expect(&world->test, "GET /api/v1/label-values?label=service_name", 200, "\"app\"");
	test_expect(&world->test, "GET /api/v1/types", 200, "process_cpu:cpu:nanoseconds:cpu:nanoseconds");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_fields), TEST(test_unknown_fields), TEST(test_hostile_messages), TEST(test_limits),
		TEST(test_select), TEST(test_meaning),	      TEST(test_deadline),	   TEST(test_ingest),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
