/* SPDX-License-Identifier: Apache-2.0 */
/* Remote procedure calls: one method in each protocol, and what each says of failures. */
#include "server/test_server.h"

#include "codec/base64.h"
#include "codec/compress.h"
#include "codec/protobuf.h"
#include "server/http/rpc.h"

#define NAMES "/querier.v1.QuerierService/LabelNames"
#define STATS "/querier.v1.QuerierService/GetProfileStats"

static int setup(void **state)
{
	static struct test_server test;
	test_server_open(&test, NULL);
	test_expect(&test, "POST /api/v1/ingest?format=folded&label=env=prod\n\nmain;a 5\n", 200, "");
	*state = &test;
	return 0;
}

static int teardown(void **state)
{
	test_server_close(*state);
	return 0;
}

/* LabelNames of the last and the next hour, in protobuf. */
static struct buffer question(void)
{
	struct buffer out;
	int64_t now_ms = time_now_ns() / NS_PER_MS;
	buffer_init(&out, KIB);
	assert_int_equal(pb_write_varint(&out, 2, (uint64_t)(now_ms - 3600000)), 0);
	assert_int_equal(pb_write_varint(&out, 3, (uint64_t)(now_ms + 3600000)), 0);
	return out;
}

static struct buffer frame(uint8_t flags, struct bytes message)
{
	struct buffer out;
	uint8_t head[5] = {flags, 0, 0, (uint8_t)(message.len >> 8), (uint8_t)message.len};
	buffer_init(&out, MIB);
	assert_int_equal(buffer_append(&out, head, sizeof(head)), 0);
	assert_int_equal(buffer_append(&out, message.data, message.len), 0);
	return out;
}

static bool contains(struct bytes bytes, const char *text)
{
	return bytes.len && memmem(bytes.data, bytes.len, text, strlen(text));
}

static void test_direct(void **state)
{
	struct test_server *test = *state;
	_cleanup_(buffer_release) struct buffer message = question();
	assert_int_equal(test_ask_bytes(test, "POST " NAMES "\nContent-Type: application/proto", buffer_bytes(&message)), 200);
	assert_string_equal(test->response.content_type, "application/proto");
	assert_true(contains(buffer_bytes(&test->response.body), "env"));
	assert_int_equal(test_ask_bytes(test, "POST " NAMES "\nContent-Type: application/grpc", buffer_bytes(&message)), 200);
	assert_int_equal(test->response.grpc_status, GRPC_OK);
	assert_true(contains(buffer_bytes(&test->response.body), "env"));
}

static void test_json(void **state)
{
	struct test_server *test = *state;
	char text[300];
	int64_t now_ms = time_now_ns() / NS_PER_MS;
	/* int64 is a text in JSON of protobuf, and a number is taken as well. */
	snprintf(text, sizeof(text), "POST " NAMES "\nContent-Type: application/json\n\n{\"start\":\"%lld\",\"end\":%lld}",
		 (long long)now_ms - 3600000, (long long)now_ms + 3600000);
	test_expect(test, text, 200, "\"names\":[");
	assert_string_equal(test->response.content_type, "application/json");
	assert_non_null(strstr(test->text, "\"env\""));
	static const char *const bad[] = {
		"", "{", "[]", "{\"start\":\"x\"}", "{\"start\":1.5}", "{\"nothing\":1", "{\"matchers\":5}", "nul"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "POST " NAMES "\nContent-Type: application/json\n\n%s", bad[i]);
		test_expect(test, text, 400, "\"code\":\"invalid_argument\",\"message\":");
	}
}

/* The one message, then the trailers. */
static void check_frames(struct bytes body)
{
	assert_true(body.len > 5 && body.data[0] == 0);
	size_t len = (size_t)body.data[3] << 8 | body.data[4];
	assert_true(contains((struct bytes){body.data + 5, len}, "env"));
	assert_int_equal(body.data[5 + len], 0x80);
	assert_true(contains((struct bytes){body.data + 10 + len, body.len - 10 - len}, "grpc-status: 0\r\n"));
}

static void test_web(void **state)
{
	struct test_server *test = *state;
	_cleanup_(buffer_release) struct buffer message = question(), framed = frame(0, buffer_bytes(&message)), text = {0},
						packed = {0}, squeezed = {0}, answer = {0};
	const char *head = "POST " NAMES "\nContent-Type: application/grpc-web+proto\ngrpc-encoding: gzip";
	buffer_init(&text, KIB);
	buffer_init(&packed, KIB);
	buffer_init(&answer, MIB);
	assert_int_equal(test_ask_bytes(test, head, buffer_bytes(&framed)), 200);
	check_frames(buffer_bytes(&test->response.body));
	assert_int_equal(gzip_compress(buffer_bytes(&message), 1, &packed, NULL), 0);
	squeezed = frame(1, buffer_bytes(&packed));
	assert_int_equal(test_ask_bytes(test, head, buffer_bytes(&squeezed)), 200);
	check_frames(buffer_bytes(&test->response.body));
	/* As text, encoded in two pieces, each with its padding. */
	assert_int_equal(base64_encode((struct bytes){framed.data, 4}, &text), 0);
	assert_int_equal(base64_encode((struct bytes){framed.data + 4, framed.len - 4}, &text), 0);
	assert_int_equal(test_ask_bytes(test, "POST " NAMES "\nContent-Type: application/grpc-web-text", buffer_bytes(&text)),
			 200);
	assert_string_equal(test->response.content_type, "application/grpc-web-text+proto");
	assert_int_equal(base64_decode(buffer_bytes(&test->response.body), &answer), 0);
	check_frames(buffer_bytes(&answer));
}

static void test_web_failures(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *why;
	} cases[] = {
		{"", 0, "no%20message"},
		{"\0\0\0\0", 4, "ends%20within%20a%20frame%20header"},
		{"\0\0\0\0\5ab", 7, "ends%20within%20a%20frame"},
		{"\0\0\0\0\3ab", 7, "ends%20within%20a%20frame"},
		{"\0\377\377\377\377", 5, "ends%20within%20a%20frame"},
		{"\0\0\0\0\0\0\0\0\0\0", 10, "more%20than%20one%20message"},
		{"\2\0\0\0\0", 5, "unknown%20flags"},
		{"\200\0\0\0\0", 5, "no%20message"},
		{"\1\0\0\0\2ab", 7, "cannot%20decompress"},
	};
	struct test_server *test = *state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* The status of HTTP is that of the framing, which is well. */
		assert_int_equal(test_ask_bytes(test, "POST " NAMES "\nContent-Type: application/grpc-web\ngrpc-encoding: gzip",
						(struct bytes){(const uint8_t *)cases[i].bytes, cases[i].len}),
				 200);
		struct bytes body = buffer_bytes(&test->response.body);
		assert_int_equal(body.data[0], 0x80);
		if (!contains(body, cases[i].why) || !contains(body, "grpc-status: 3\r\n"))
			fail_msg("case %zu: %.*s", i, (int)body.len - 5, (const char *)body.data + 5);
	}
	assert_int_equal(test_ask(test, "POST " NAMES "\nContent-Type: application/grpc-web-text\n\n!!!!"), 200);
	assert_int_equal(test_ask_bytes(test, "POST " NAMES "\nContent-Type: application/grpc-web",
					(struct bytes){(const uint8_t *)"\1\0\0\0\2ab", 7}),
			 200);
	assert_true(contains(buffer_bytes(&test->response.body), "use%20gzip%20or%20none"));
}

/* GET is for what changes nothing. */
static void test_get(void **state)
{
	struct test_server *test = *state;
	char text[600];
	_cleanup_(buffer_release) struct buffer message = question(), encoded = {0};
	buffer_init(&encoded, KIB);
	assert_int_equal(base64_encode(buffer_bytes(&message), &encoded), 0);
	test_expect(test, "GET " STATS "?encoding=json&message=%7B%7D", 200, "\"dataIngested\":true");
	_cleanup_(buffer_release) struct buffer url = {0};
	buffer_init(&url, KIB);
	assert_int_equal(text_url_encode(&url, buffer_bytes(&encoded)), 0);
	snprintf(text, sizeof(text), "GET " NAMES "?encoding=proto&base64=1&message=%s", buffer_string(&url));
	test_expect(test, text, 200, "env");
	test_expect(test, "GET " NAMES "?encoding=proto&base64=1&message=!!", 400, "is not base64");
	test_expect(test, "GET " NAMES "?encoding=json&compression=br&message=x", 400, "use gzip or none");
	test_expect(test, "GET " NAMES "?encoding=xml&message=x", 415, "unknown content type");
	test_expect(test, "GET " NAMES, 415, "unknown content type");
	test_expect(test, "GET /push.v1.PusherService/Push?encoding=json&message=%7B%7D", 405, "");
}

static void test_headers(void **state)
{
	static const struct {
		const char *line;
		int status;
		const char *part;
	} cases[] = {
		{"Connect-Protocol-Version: 1", 200, "{"},
		{"Connect-Protocol-Version: 2", 400, "it must be 1"},
		{"Connect-Timeout-Ms: 1000", 200, "{"},
		{"Connect-Timeout-Ms: 9999999999", 200, "{"},
		{"Connect-Timeout-Ms: 99999999999", 400, "at most 10 digits"},
		{"Connect-Timeout-Ms: -1", 400, "at most 10 digits"},
		{"Connect-Timeout-Ms: 1s", 400, "at most 10 digits"},
	};
	struct test_server *test = *state;
	char text[300];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "POST " STATS "\nContent-Type: application/json\n%s\n\n{}", cases[i].line);
		test_expect(test, text, cases[i].status, cases[i].part);
	}
	static const char *const types[] = {"text/plain", "application/jsonx",	"application/grpc-webx",
					    "",		  "application/protox", "multipart/form-data"};
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		snprintf(text, sizeof(text), "POST " STATS "\nContent-Type: %s\n\n{}", types[i]);
		test_expect(test, text, 415, "unknown content type");
		assert_true(test_has_header(test, "Accept-Post: application/json"));
	}
	test_expect(test, "POST " STATS "\n\n{}", 415, "unknown content type");
	test_expect(test, "POST " STATS "\nContent-Type: application/json; charset=utf-8\n\n{}", 200, "{");
	assert_int_equal(test_ask(test, "OPTIONS " STATS), 204);
	assert_true(test_has_header(test, "Access-Control-Allow-Methods: GET, POST"));
}

/* Codes of failures, in the words of Connect and as numbers of gRPC. */
static void test_failures(void **state)
{
	struct test_server *test = *state;
	test_expect(test, "POST " NAMES "x\nContent-Type: application/json\n\n{}", 404,
		    "{\"code\":\"unimplemented\",\"message\":\"unknown procedure " NAMES "x\"}");
	test_expect(test, "POST " NAMES "x\nContent-Type: text/plain\n\n{}", 405, ""); /* no protocol of a procedure */
	test_expect(test, "POST /no/procedure\nContent-Type: application/json\n\n{}", 405, "");
	test_expect(test, "POST /querier.v1.QuerierService/SelectMergeStacktraces\nContent-Type: application/json\n\n{}", 400,
		    "\"code\":\"invalid_argument\",\"message\":\"missing time range in the query\"");
	test_expect(test,
		    "POST /querier.v1.QuerierService/SelectMergeStacktraces\nContent-Type: application/json\n\n"
		    "{\"profileTypeID\":\"a:b:c:d:e\",\"labelSelector\":\"{}\",\"start\":1,\"end\":2,\"format\":9}",
		    501, "\"code\":\"unimplemented\"");
	assert_int_equal(
		test_ask(test, "POST /querier.v1.QuerierService/SelectMergeStacktraces\nContent-Type: application/grpc"), 200);
	assert_int_equal(test->response.grpc_status, GRPC_INVALID_ARGUMENT);
	assert_string_equal(test->response.message, "missing time range in the query");
}

static void test_routes(void **state)
{
	size_t routes = 0;
	(void)state;
	for (size_t i = 0; rpc_services[i]; i++)
		for (const struct rpc_method *method = rpc_services[i]; method->path; method++) {
			assert_true(rpc_is_for_pages(method->path));
			routes += method->flags & RPC_READ_ONLY ? 3 : 2;
		}
	assert_int_equal(rpc_route_count(), routes);
	struct error err = {0};
	assert_int_equal(rpc_too_large(0, &err), 0);
	assert_int_equal(rpc_too_large(-E2BIG, &err), -E2BIG);
	assert_string_equal(err.message, "the response is too large");
	assert_int_equal(rpc_too_large(-ENOMEM, &err), -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_direct),	     cmocka_unit_test(test_json),   cmocka_unit_test(test_web),
		cmocka_unit_test(test_web_failures), cmocka_unit_test(test_get),    cmocka_unit_test(test_headers),
		cmocka_unit_test(test_failures),     cmocka_unit_test(test_routes),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
