/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings over HTTP: an agent asks, somebody orders, the agent sends; and what hosts may not send. */
#include <jansson.h>

#include "server/test_server.h"

#include "codec/compress.h"
#include "control/protocol.h"
#include "server/recordings/api_recordings.h"

/* ---- what hosts send ---- */

static struct buffer pack(const char *text)
{
	struct buffer out;
	buffer_init(&out, MIB);
	assert_int_equal(gzip_compress(bytes_of_string(text), 1, &out, NULL), 0);
	return out;
}

static void test_check(void **state)
{
	static const struct {
		const char *text, *why; /* NULL = it is taken */
	} cases[] = {
		{"{\"meta\":{}}", NULL},
		{"{\"libs\":[1,{\"a\":[]}],\"meta\":{\"wick\":{\"hosts\":[{}]}},\"threads\":[]}", NULL},
		{" {\"meta\" : {\"wick\":{\"hosts\":[]}}} \n", NULL},
		{"{\"meta\":{\"hosts\":[1,2]}}", NULL}, /* not those */
		{"", "not a valid profile"},
		{"[]", "not a JSON object"},
		{"5", "not a JSON object"},
		{"{}", "no object 'meta'"},
		{"{\"meta\":5}", "no object 'meta'"},
		{"{\"Meta\":{}}", "no object 'meta'"},
		{"{\"meta\":{}", "not a valid profile"},
		{"{\"meta\":{}} x", "not a valid profile"},
		{"{\"meta\":{}}{}", "not a valid profile"},
		{"{\"meta\":{},}", "not a valid profile"},
		{"{\"meta\":{\"wick\":{\"hosts\":[{},{}]}}}", "it has 2 hosts instead of one"},
		/* Whichever of them a reader takes. */
		{"{\"meta\":{\"wick\":{\"hosts\":[1]},\"wick\":{\"hosts\":[2]}}}", "it has 2 hosts instead of one"},
		{"{\"meta\":{\"wick\":{\"hosts\":[1],\"hosts\":[2]}}}", "it has 2 hosts"},
		{"{\"meta\":{\"wick\":{\"hosts\":[1]}},\"meta\":{\"wick\":{\"hosts\":[2]}}}", "it has 2 hosts"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(buffer_release) struct buffer gzip = pack(cases[i].text);
		struct error err = {0};
		int r = api_recording_check(buffer_bytes(&gzip), &err);
		if (r != (cases[i].why ? -EBADMSG : 0) || (cases[i].why && !strstr(err.message, cases[i].why)))
			fail_msg("%s: %d %s", cases[i].text, r, err.message);
	}
	assert_int_equal(api_recording_check(bytes_of_string("{\"meta\":{}}"), NULL), -EBADMSG); /* not compressed */
	assert_int_equal(api_recording_check((struct bytes){0}, NULL), -EBADMSG);
	_cleanup_(buffer_release) struct buffer cut = pack("{\"meta\":{}}");
	cut.len -= 5;
	assert_int_equal(api_recording_check(buffer_bytes(&cut), NULL), -EBADMSG);
	/* Nesting without an end. */
	static char deep[200000];
	memset(deep, '[', sizeof(deep) - 1);
	memcpy(deep, "{\"a\":", 5);
	_cleanup_(buffer_release) struct buffer nested = pack(deep);
	assert_int_equal(api_recording_check(buffer_bytes(&nested), NULL), -EBADMSG);
}

static void test_clock(void **state)
{
	static const struct {
		const char *query;
		bool taken;
	} cases[] = {
		{"", true},
		{"?reference=", true},
		{"?reference=server-1a-2&at_ns=5&offset_ns=-7&bound_ns=9&skew=1e-5", true},
		{"?reference=r&at_ns=5&offset_ns=7&bound_ns=9&skew=-0.01", true},
		{"?reference=r&at_ns=5&offset_ns=7&bound_ns=9&skew=0.011", false},
		{"?reference=r&at_ns=5&offset_ns=7&bound_ns=9&skew=nan", false},
		{"?reference=r&at_ns=5&offset_ns=7&bound_ns=9&skew=", false},
		{"?reference=r&at_ns=5&offset_ns=7&bound_ns=9", false},
		{"?reference=r&at_ns=5&offset_ns=7&bound_ns=-9&skew=0", false},
		{"?reference=r&at_ns=-5&offset_ns=7&bound_ns=9&skew=0", false},
		{"?reference=r&at_ns=5&offset_ns=--7&bound_ns=9&skew=0", false},
		{"?reference=r&at_ns=9223372036854775807&offset_ns=7&bound_ns=9&skew=0", false},
		{"?reference=r&offset_ns=7&bound_ns=9&skew=0", false},
		{"?reference=a%22b&at_ns=5&offset_ns=7&bound_ns=9&skew=0", false},
		{"?reference=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct net_request request;
		struct host_clock clock;
		char head[200];
		snprintf(head, sizeof(head), "POST /x%s", cases[i].query);
		test_request_make(&request, head, (struct bytes){0});
		int r = api_read_clock(&request, &clock, NULL);
		if (r != (cases[i].taken ? 0 : -EINVAL))
			fail_msg("%s: %d", cases[i].query, r);
		if (i == 2) {
			assert_string_equal(clock.reference, "server-1a-2");
			assert_int_equal(clock.offset_ns, -7);
			assert_int_equal(clock.bound_ns, 9);
		}
		request_release(&request);
	}
}

/* ---- from an order to its end ---- */

#define POLL                                                                                                                   \
	"POST /api/v1/agents/poll\n\n{\"version\":1,\"agent\":\"a1a1a1a1a1a1\",\"host\":\"h "                                  \
	"1\",\"wick\":\"0.1\",\"refusal\":\"\""

/* A text of the last answer, by its path of members; the caller frees it. */
static char *member(struct test_server *test, const char *array, const char *name)
{
	json_t *root = json_loads(test->text, 0, NULL);
	json_t *object = array ? json_array_get(json_object_get(root, array), 0) : root;
	const char *text = json_string_value(json_object_get(object, name));
	char *copy = text ? strdup(text) : NULL;
	json_decref(root);
	return copy;
}

static void test_course(void **state)
{
	struct test_server test;
	char head[400], path[200];
	_cleanup_(buffer_release) struct buffer good = pack("{\"meta\":{}}"), bad = pack("{}");
	(void)state;
	test_server_open(&test, NULL);
	test_expect(&test, "POST /api/v1/recordings\n\n{\"seconds\":5}", 404, "");
	test_expect(&test, POLL "}", 200, "\"poll_ms\":");
	test_expect(&test, "GET /api/v1/agents", 200, "\"host\":\"h 1\"");
	/* Who knows all of its number can speak for it. */
	assert_non_null(strstr(test.text, "\"agent\":\"a1a1a1a1\""));
	assert_null(strstr(test.text, "a1a1a1a1a1"));
	test_expect(&test, "POST /api/v1/recordings\n\n{\"seconds\":5,\"frequency_hz\":49}", 201, "\"frequency_hz\":49");
	char *id = member(&test, NULL, "id");
	assert_null(strstr(test.text, "key"));
	test_expect(&test, POLL "}", 200, id);
	char *key = member(&test, "orders", "key");
	assert_non_null(key);
	snprintf(path, sizeof(path), "/api/v1/recordings/%s", id);
	snprintf(head, sizeof(head), "GET %s", path);
	test_expect(&test, head, 200, "\"state\":\"running\"");
	assert_null(strstr(test.text, key));
	/* Without the key, with another's, for another host, and what is no profile. */
	snprintf(head, sizeof(head), "POST %s/hosts/h%%201", path);
	assert_int_equal(test_ask_bytes(&test, head, buffer_bytes(&good)), 403);
	snprintf(head, sizeof(head), "POST %s/hosts/h%%201\nX-Wick-Upload-Key: 00000000000000000000000000000000", path);
	assert_int_equal(test_ask_bytes(&test, head, buffer_bytes(&good)), 403);
	snprintf(head, sizeof(head), "POST %s/hosts/h2\nX-Wick-Upload-Key: %s", path, key);
	assert_int_equal(test_ask_bytes(&test, head, buffer_bytes(&good)), 404);
	snprintf(head, sizeof(head), "POST %s/hosts/h%%201?reference=A\nX-Wick-Upload-Key: %s", path, key);
	assert_int_equal(test_ask_bytes(&test, head, buffer_bytes(&good)), 400);
	snprintf(head, sizeof(head), "POST %s/hosts/h%%201\nX-Wick-Upload-Key: %s", path, key);
	assert_int_equal(test_ask_bytes(&test, head, buffer_bytes(&bad)), 400);
	assert_int_equal(test_ask_bytes(&test, head, bytes_of_string("x")), 400);
	assert_int_equal(test_ask_bytes(&test, head, buffer_bytes(&good)), 200);
	assert_int_equal(test_ask_bytes(&test, head, buffer_bytes(&good)), 409);
	snprintf(head, sizeof(head), "GET %s", path);
	test_expect(&test, head, 200, "\"state\":\"over\"");
	assert_non_null(strstr(test.text, "\"state\":\"done\""));
	test_expect(&test, "GET /api/v1/recordings", 200, id);
	snprintf(head, sizeof(head), "DELETE %s", path);
	test_expect(&test, head, 200, "{}");
	test_expect(&test, head, 404, "");
	test_expect(&test, "GET /api/v1/recordings", 200, "\"recordings\":[]");
	free(id);
	free(key);
	test_server_close(&test);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *request;
		int status;
	} cases[] = {
		{"POST /api/v1/agents/poll\n\n", 400},
		{"POST /api/v1/agents/poll\n\n{}", 400},
		{"POST /api/v1/agents/poll\n\n[]", 400},
		{"POST /api/v1/agents/poll\n\n{\"version\":1,\"agent\":\"XYZ\",\"host\":\"h\"}", 400},
		{"POST /api/v1/agents/poll\n\n{\"version\":1,\"agent\":\"aa\",\"host\":\"../h\"}", 400},
		{POLL ",\"health\":5}", 400},
		{POLL ",\"report\":{\"id\":\"aa\",\"state\":\"flying\"}}", 400},
		{"GET /api/v1/agents/poll", 405},
		{"POST /api/v1/recordings\n\n", 400},
		{"POST /api/v1/recordings\n\n{\"seconds\":0}", 400},
		{"POST /api/v1/recordings\n\n{\"seconds\":601}", 400},
		{"POST /api/v1/recordings\n\n{\"seconds\":5,\"frequency_hz\":1001}", 400},
		{"POST /api/v1/recordings\n\n{\"seconds\":5,\"hosts\":[\"a/b\"]}", 400},
		{"GET /api/v1/recordings/XYZ", 404},
		{"GET /api/v1/recordings/../x", 404},
		{"GET /api/v1/recordings/aa", 404},
		{"GET /api/v1/recordings/aa/nothing", 404},
		{"GET /api/v1/recordings/aa/profile", 404},
		{"GET /api/v1/recordings/", 404},
		{"POST /api/v1/recordings/aa", 404},
		{"POST /api/v1/recordings/aa/hosts/", 404},
		{"POST /api/v1/recordings/0123456789abcdef0123456789abcdef0/hosts/h", 404},
		{"DELETE /api/v1/recordings/aa/profile", 404},
		{"DELETE /api/v1/recordings/aa", 404},
	};
	struct test_server test;
	(void)state;
	test_server_open(&test, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		test_expect(&test, cases[i].request, cases[i].status, cases[i].status == 405 ? "" : "\"error\":");
	test_server_close(&test);
}

/* An agent that cannot record says why, and a recording of it has failed at once. */
static void test_tenants(void **state)
{
	struct server_options options;
	struct test_server test;
	(void)state;
	server_options_init(&options);
	options.tenants = true;
	test_server_open(&test, &options);
	test_expect(&test,
		    "POST /api/v1/agents/poll\nX-Scope-OrgID: a\n\n{\"version\":1,\"agent\":\"a1\",\"host\":\"h1\","
		    "\"wick\":\"0\",\"refusal\":\"no\"}",
		    200, "");
	test_expect(&test, "GET /api/v1/agents\nX-Scope-OrgID: a", 200, "\"refusal\":\"no\"");
	test_expect(&test, "GET /api/v1/agents", 200, "\"agents\":[]");
	test_expect(&test, "GET /api/v1/agents\nX-Scope-OrgID: b", 404, "no tenant 'b'");
	test_expect(&test, "POST /api/v1/recordings\nX-Scope-OrgID: b\n\n{\"seconds\":5}", 404, "no tenant 'b'");
	test_server_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check),	 cmocka_unit_test(test_clock),	 cmocka_unit_test(test_course),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_tenants),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
