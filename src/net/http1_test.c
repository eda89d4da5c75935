/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 from memory: every refusal, every way to cut the input, every limit of time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/fault.h"
#include "codec/compress.h"
#include "codec/test_compress.h"
#include "net/memory_test.h"
#include "net/routes_test.h"

static struct net_server server;
static struct memory_peer peer;

static int setup(void **state)
{
	struct net_server_options options = {
		.routes = test_routes, .authorize = test_authorize, .header_max = 2048, .body_max = 100000};
	return memory_server_start(&server, &options);
}

static int teardown(void **state)
{
	memory_server_end(&server);
	return 0;
}

static const char *talk_bytes(const void *data, size_t len)
{
	memory_connect(&peer, &server);
	memory_send(&peer, data, len);
	return buffer_string(&peer.out);
}

static const char *talk(const char *text)
{
	return talk_bytes(text, strlen(text));
}

static void hang_up(void)
{
	memory_disconnect(&peer);
}

static unsigned count(const char *text, const char *word)
{
	unsigned n = 0;
	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}

static void assert_has(const char *text, const char *word)
{
	if (!strstr(text, word))
		fail_msg("no \"%s\" in:\n%s", word, text);
}

static void expect(const char *request, const char *status, const char *text, bool closes)
{
	const char *answer = talk(request);
	char line[64];
	snprintf(line, sizeof(line), "HTTP/1.1 %s", status);
	if (strncmp(answer, line, strlen(line)))
		fail_msg("expected %s for:\n%s\ngot:\n%s", line, request, answer);
	assert_has(answer, text);
	assert_int_equal(peer.shut, closes);
	assert_int_equal(strstr(answer, "Connection: close\r\n") != NULL, closes);
	hang_up();
}

#define HEAD "Host: x\r\n"

static void test_answers(void **state)
{
	expect("GET /show?a=1%202&a=+b&c HTTP/1.1\r\n" HEAD "\r\n", "200 OK", "GET /show a=1 2 a2= b body=0", false);
	expect("GET http://x.example/show?a=q HTTP/1.1\r\n" HEAD "\r\n", "200 OK", "GET /show a=q", false);
	expect("GET /files/a%2Fb HTTP/1.1\r\n" HEAD "\r\n", "200 OK", "GET /files/a/b a=-", false);
	expect("GET /files/exact HTTP/1.1\r\n" HEAD "\r\n", "204 No Content", "", false);
	expect("POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 5\r\n\r\nhello", "200 OK", "\r\n\r\nhello", false);
	expect("POST /any HTTP/1.1\r\n" HEAD
	       "Transfer-Encoding: Chunked\r\n\r\n5;x=y\r\nhello\r\nA \r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
	       "200 OK", "POST /any a=- a2=- body=15", false);
	expect("GET /show HTTP/1.0\r\n\r\n", "200 OK", "GET /show", true);
	expect("GET /show HTTP/1.1\r\n" HEAD "Connection: close\r\n\r\n", "200 OK", "GET /show", true);
	expect("\r\n\r\nGET /show HTTP/1.1\r\n" HEAD "\r\n", "200 OK", "GET /show", false);
	expect("GET /fail HTTP/1.1\r\n" HEAD "\r\n", "422 Unprocessable Content",
	       "{\"error\":\"bad profile: \\\"x\\\" is 100% wrong \xc3\xa4\"}", false);
	expect("POST /echo HTTP/1.1\r\n" HEAD "X-Status: 42\r\nContent-Length: 0\r\n\r\n", "500 ", "Internal Server Error",
	       false);
}

static void test_head_and_headers(void **state)
{
	const char *answer = talk("HEAD /big?n=5000 HTTP/1.1\r\n" HEAD "\r\n");
	assert_has(answer, "Content-Length: 5000\r\n");
	assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
	hang_up();
	answer = talk("GET /headers HTTP/1.1\r\n" HEAD "\r\n");
	assert_has(answer, "HTTP/1.1 201 Created\r\n");
	assert_has(answer, "X-Test: one\r\n");
	assert_has(answer, "X-Content-Type-Options: nosniff\r\n");
	assert_has(answer, "Date: ");
	assert_null(strstr(answer, "Injected"));
	hang_up();
	answer = talk("GET /none HTTP/1.1\r\n" HEAD "\r\n");
	assert_null(strstr(answer, "Content-Length"));
	hang_up();
}

static void test_refusals(void **state)
{
	expect("GET /nothing HTTP/1.1\r\n" HEAD "\r\n", "404 Not Found", "{\"error\":\"no such path: /nothing\"}", false);
	expect("DELETE /echo HTTP/1.1\r\n" HEAD "\r\n", "405 Method Not Allowed", "Allow: POST, PUT\r\n", false);
	expect("POST /nothing HTTP/1.1\r\n" HEAD "Content-Length: 5\r\n\r\n", "404 Not Found", "{\"error\":", true);
	expect("GET /show HTTP/1.1\r\n" HEAD "X-Refuse: 401\r\n\r\n", "401 Unauthorized", "{\"error\":\"you asked for it\"}",
	       false);
	expect("GET /test.Echo/Stream HTTP/1.1\r\n" HEAD "\r\n", "405", "Allow: POST", false);
	expect("POST /test.Echo/Stream HTTP/1.1\r\n" HEAD "Content-Length: 1\r\n\r\n", "415", "gRPC only", true);
	expect("POST /test.Echo/Unary HTTP/1.0\r\nContent-Type: application/grpc\r\nContent-Length: 1\r\n\r\n", "505",
	       "gRPC needs HTTP/1.1 or HTTP/2", true);
	expect("POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 100001\r\n\r\n", "413 Content Too Large",
	       "the body has 100001 bytes", true);
	expect("POST /small HTTP/1.1\r\n" HEAD "Content-Length: 101\r\n\r\n", "413", "the limit is 100 B", true);
	expect("POST /small HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n65\r\n"
	       "12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901\r\n0\r\n"
	       "\r\n",
	       "413", "larger than the limit of 100 B", true);
	expect("POST /echo HTTP/1.1\r\n" HEAD "Content-Encoding: br\r\nContent-Length: 3\r\n\r\nabc", "415",
	       "use gzip, zstd or none", true);
	expect("POST /echo HTTP/1.1\r\n" HEAD "Content-Encoding: gzip, gzip\r\nContent-Length: 3\r\n\r\nabc", "415",
	       "Accept-Encoding: gzip, zstd", true);
	expect("POST /echo HTTP/1.1\r\n" HEAD "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "400",
	       "cannot decompress the body", false);
	expect("POST /echo HTTP/1.1\r\n" HEAD "Expect: a-miracle\r\nContent-Length: 3\r\n\r\n", "417", "100-continue", true);
}

static void reshape(void *context, const struct net_request *request, struct net_response *response)
{
	buffer_clear(&response->body);
	buffer_printf(&response->body, "%s|%d|%s", net_request_path(request), response->status, response->message);
	response->content_type = "text/x-refusal";
}

/* A unary call with this body; what comes back. */
static const char *call(const char *path, const char *headers, const char *body, size_t len)
{
	static char request[1024];
	int n = snprintf(request, sizeof(request),
			 "POST %s HTTP/1.1\r\n" HEAD
			 "Content-Type: application/grpc\r\nTE: trailers\r\n%sContent-Length: %zu\r\n\r\n",
			 path, headers, len);
	memcpy(request + n, body, len);
	return talk_bytes(request, (size_t)n + len);
}

static void assert_ends(const char *text, const char *end)
{
	size_t n = strlen(end);
	if (peer.out.len < n || memcmp(peer.out.data + peer.out.len - n, end, n))
		fail_msg("no \"%s\" at the end of:\n%s", end, text);
}

static void test_grpc(void **state)
{
	static const char good[] = "\0\0\0\0\3abc", two[] = "\0\0\0\0\1a\0\0\0\0\1b", cut[] = "\0\0\0\0\3ab";
	const char *answer = call("/test.Echo/Unary", "", good, sizeof(good) - 1);
	assert_has(answer, "HTTP/1.1 200 OK\r\n");
	assert_has(answer, "Content-Type: application/grpc\r\n");
	assert_has(answer, "Transfer-Encoding: chunked\r\n");
	assert_null(strstr(answer, "Content-Length"));
	static const char end[] = "\r\n\r\n8\r\n\0\0\0\0\3abc\r\n0\r\nGrpc-Status: 0\r\nGrpc-Message: \r\n\r\n";
	assert_true(peer.out.len > sizeof(end));
	assert_memory_equal(peer.out.data + peer.out.len - (sizeof(end) - 1), end, sizeof(end) - 1);
	assert_false(peer.shut); /* the connection is kept */
	hang_up();
	answer = call("/test.Echo/Unary", "", good, 0);
	assert_ends(answer, "\r\n\r\n0\r\nGrpc-Status: 13\r\nGrpc-Message: the stream ended without a message\r\n\r\n");
	hang_up();
	assert_has(call("/test.Echo/Unary", "", cut, sizeof(cut) - 1), "Grpc-Status: 13\r\n");
	hang_up();
	assert_has(call("/test.Echo/Unary", "", two, sizeof(two) - 1), "Grpc-Status: 13\r\n");
	hang_up();
	assert_has(call("/test.Echo/Nothing", "", good, sizeof(good) - 1), "Grpc-Status: 12\r\n");
	hang_up();
	assert_has(call("/test.Echo/Stream", "", good, sizeof(good) - 1), "a stream, which needs HTTP/2");
	hang_up();
	assert_has(call("/test.Echo/Unary", "X-Refuse: 401\r\n", good, sizeof(good) - 1), "Grpc-Status: 16\r\n");
	hang_up();
	assert_has(call("/test.Echo/Unary", "Grpc-Encoding: br\r\n", good, sizeof(good) - 1), "Grpc-Status: 12\r\n");
	hang_up();
}

/* A message that compression makes a little smaller: what follows it needs more than that. */
static void test_grpc_compressed(void **state)
{
	static uint8_t request[8192], message[4096];
	_cleanup_(buffer_release) struct buffer packed = {.max = sizeof(message)};
	size_t len = 2000;
	uint32_t random = 1;
	for (size_t i = 0; i < len; i++)
		message[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
	while (packed.len == 0 || packed.len + 20 > len) {
		len++; /* of zeros */
		buffer_clear(&packed);
		assert_int_equal(gzip_compress((struct bytes){message, len}, NET_COMPRESS_LEVEL, &packed, NULL), 0);
	}
	assert_in_range(packed.len, len - 30, len - 20);
	int n = snprintf((char *)request, sizeof(request),
			 "POST /test.Echo/Unary HTTP/1.1\r\n" HEAD
			 "Content-Type: application/grpc\r\nGrpc-Accept-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n",
			 len + GRPC_PREFIX_BYTES);
	grpc_write_prefix(request + n, false, (uint32_t)len);
	memcpy(request + n + GRPC_PREFIX_BYTES, message, len);
	const char *answer = talk_bytes(request, (size_t)n + GRPC_PREFIX_BYTES + len);
	assert_has(answer, "Grpc-Encoding: gzip\r\n");
	static const char end[] = "\r\n0\r\nGrpc-Status: 0\r\nGrpc-Message: \r\n\r\n";
	assert_ends(answer, end);
	assert_memory_equal(peer.out.data + peer.out.len - strlen(end) - packed.len, packed.data, packed.len);
	hang_up();
}

static void test_refusals_reshaped(void **state)
{
	server.options.on_refusal = reshape;
	expect("GET /nothing HTTP/1.1\r\n" HEAD "\r\n", "404", "/nothing|404|no such path: /nothing", false);
	expect("rubbish\r\n", "400", "text/x-refusal", true);
	expect("POST /small HTTP/1.1\r\n" HEAD "Content-Length: 101\r\n\r\n", "413", "\r\n\r\n/small|413|", true);
	/* A handler's own errors stay as they are. */
	expect("GET /fail HTTP/1.1\r\n" HEAD "\r\n", "422", "{\"error\":", false);
}

static void refuse_all(const char *const *requests, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *answer = talk(requests[i]);
		if (strncmp(answer, "HTTP/1.1 400 ", 13) && strncmp(answer, "HTTP/1.1 505 ", 13))
			fail_msg("expected 400 for:\n%s\ngot:\n%s", requests[i], answer);
		assert_has(answer, "{\"error\":\"");
		assert_int_equal(count(answer, "Date: "), 1);
		hang_up();
	}
}

static void test_malformed(void **state)
{
	static const char *const requests[] = {
		"hello\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"GET /show\r\n\r\n",
		"GET  HTTP/1.1\r\n" HEAD "\r\n",
		"GET show HTTP/1.1\r\n" HEAD "\r\n",
		"GET * HTTP/1.1\r\n" HEAD "\r\n",
		"CONNECT x:80 HTTP/1.1\r\n" HEAD "\r\n",
		"GET /%zz HTTP/1.1\r\n" HEAD "\r\n",
		"GET /%00 HTTP/1.1\r\n" HEAD "\r\n",
		"GET /show?a=%4 HTTP/1.1\r\n" HEAD "\r\n",
		"GET /show#x HTTP/1.1\r\n" HEAD "\r\n",
		"GET /show HTTP/1.1\r\n\r\n",
		"GET /show HTTP/1.1\r\n" HEAD HEAD "\r\n",
		"GET /show HTTP/1.1\n" HEAD "\r\n",
		"GET /show HTTP/1.1\rX" HEAD "\r\n",
		"GET /show HTTP/1.1 \r\n" HEAD "\r\n",
		"GET /show HTTP/01.1\r\n" HEAD "\r\n",
		"GET /show HTTP/1x1\r\n" HEAD "\r\n",
		"GET /show HTTP/x\r\n" HEAD "\r\n",
		"GET /show http/1.1\r\n" HEAD "\r\n",
		"OPTIONS /show RTSP/1.0\r\n" HEAD "\r\n",
		"SOURCE /show ICE/1.0\r\n" HEAD "\r\n",
		"get /show HTTP/1.1\r\n" HEAD "\r\n",
		"GETS /show HTTP/1.1\r\n" HEAD "\r\n",
		"GET\t/show HTTP/1.1\r\n" HEAD "\r\n",
		"GET /sh\x01ow HTTP/1.1\r\n" HEAD "\r\n",
		"GET /show HTTP/1.1\r\n " HEAD "\r\n",
		"GET /show HTTP/1.1\r\n" HEAD "A\r\n\r\n",
		"GET /show HTTP/1.1\r\n" HEAD "\xc3\xa4: c\r\n\r\n",
		"GET /show HTTP/1.1\r\n" HEAD "A(b): c\r\n\r\n",
		"GET /show HTTP/1.1\r\nHost: x\n\r\n",
		"GET /show HTTP/1.1\r\n" HEAD "\r\r",
		"GET /show HTTP/1.1\r\n" HEAD "A: b\r\n c\r\n\r\n",
		"GET /show HTTP/1.1\r\n" HEAD "A b: c\r\n\r\n",
		"GET /show HTTP/1.1\r\n" HEAD "A : c\r\n\r\n",
		"GET /show HTTP/1.1\r\n" HEAD ": c\r\n\r\n",
		"GET /show HTTP/1.1\r\n" HEAD "A: \x01\r\n\r\n",
		"GET /show HTTP/1.1\r\n" HEAD "A: x\rB: y\r\n\r\n",
	};
	refuse_all(requests, sizeof(requests) / sizeof(requests[0]));
	expect("GET /show HTTP/0.9\r\n" HEAD "\r\n", "505", "HTTP/1.1", true);
	expect("GET /show HTTP/3.0\r\n" HEAD "\r\n", "505", "HTTP/1.1", true);
	expect("GET /show HTTP/1.9\r\n" HEAD "\r\n", "505", "HTTP/1.1", true);
	expect("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "", "error", true);
}

static void test_malformed_framing(void **state)
{
	static const char *const requests[] = {
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 5, 5\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length: -5\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 0x5\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 99999999999999999999999\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"POST /echo HTTP/1.0\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length:\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length: +5\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 1 2\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length : 5\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 18446744073709551616\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding:\v chunked\r\n\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "A: b\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n1000000000000005\r\nhello\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\n folded\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\n\rX",
	};
	refuse_all(requests, sizeof(requests) / sizeof(requests[0]));
	expect("POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501", "chunked", true);
	expect("POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "501", "chunked", true);
}

static void test_header_limits(void **state)
{
	char request[70000];
	/* One header line too long, whole and byte by byte. */
	memset(request, 'a', sizeof(request));
	memcpy(request, "GET /show HTTP/1.1\r\nA: ", 23);
	const char *answer = talk_bytes(request, 3000);
	assert_has(answer, "HTTP/1.1 431 ");
	assert_has(answer, "limit of 2048 bytes");
	hang_up();
	memory_connect(&peer, &server);
	for (size_t i = 0; i < 3000 && !peer.shut; i++)
		memory_send(&peer, request + i, 1);
	assert_has(buffer_string(&peer.out), "HTTP/1.1 431 ");
	hang_up();
	answer = talk_bytes(request, sizeof(request));
	assert_has(answer, "HTTP/1.1 431 ");
	hang_up();
	/* Too many fields. */
	size_t len = (size_t)snprintf(request, sizeof(request), "GET /show HTTP/1.1\r\n" HEAD);
	for (int i = 0; i < NET_HEADERS_MAX; i++)
		len += (size_t)snprintf(request + len, sizeof(request) - len, "A%d: 1\r\n", i);
	snprintf(request + len, sizeof(request) - len, "\r\n");
	expect(request, "431", "more than 100 fields", true);
	/* Too many parameters. */
	len = (size_t)snprintf(request, sizeof(request), "GET /show?");
	for (int i = 0; i <= NET_QUERY_MAX; i++)
		len += (size_t)snprintf(request + len, sizeof(request) - len, "a&");
	snprintf(request + len, sizeof(request) - len, " HTTP/1.1\r\n" HEAD "\r\n");
	expect(request, "400", "more than 256 parameters", false);
	/* Exactly at the limit is fine. */
	len = (size_t)snprintf(request, sizeof(request), "GET /show HTTP/1.1\r\n" HEAD "A: ");
	memset(request + len, 'a', 2048 - len - 4);
	memcpy(request + 2044, "\r\n\r\n", 5);
	expect(request, "200", "GET /show", false);
}

static const char three[] =
	"GET /show?a=1 HTTP/1.1\r\n" HEAD "\r\n"
	"POST /echo HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;e=1\r\n world\r\n0\r\n"
	"Trailer: x\r\n\r\n"
	"POST /any HTTP/1.1\r\n" HEAD "Content-Length: 3\r\nX: y\r\n\r\nabc"
	"GET /nothing HTTP/1.1\r\n" HEAD "\r\n";

static void check_three(void)
{
	const char *answer = buffer_string(&peer.out);
	assert_int_equal(count(answer, "HTTP/1.1 200 OK"), 3);
	assert_int_equal(count(answer, "HTTP/1.1 404 "), 1);
	const char *first = strstr(answer, "a=1 a2=-"), *second = strstr(answer, "hello world"),
		   *third = strstr(answer, "POST /any");
	assert_true(first && second && third && first < second && second < third);
	assert_has(third, "body=3");
	assert_false(peer.shut);
}

static void test_pipelining(void **state)
{
	talk(three);
	check_three();
	hang_up();
	/* The peer that only takes answers slowly still gets them in order. */
	memory_connect(&peer, &server);
	peer.slow = true;
	memory_send(&peer, three, sizeof(three) - 1);
	assert_int_equal(count(buffer_string(&peer.out), "HTTP/1.1 "), 1);
	for (int i = 0; i < 4; i++) {
		memory_write_done(&peer);
		memory_run(&peer);
	}
	check_three();
	hang_up();
}

/* What is refused is refused in whatever pieces it comes, and nothing that follows is answered. */
static void test_malformed_in_pieces(void **state)
{
	static const char *const requests[] = {
		"GET /show RTSP/1.0\r\n" HEAD "\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"GET /show HTTP/1.1\r\n" HEAD "A: b\r\n c\r\n\r\n",
		"GET /show HTTP/1.1\r\n" HEAD "A: b\n\r\n",
	};
	static const char next[] = "GET /show HTTP/1.1\r\n" HEAD "\r\n";
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		memory_connect(&peer, &server);
		for (const char *at = requests[i]; *at && !peer.shut; at++)
			memory_send(&peer, at, 1);
		memory_send(&peer, next, strlen(next));
		assert_int_equal(count(buffer_string(&peer.out), "HTTP/1.1 "), 1);
		assert_has(buffer_string(&peer.out), "HTTP/1.1 400 ");
		assert_true(peer.shut);
		hang_up();
	}
}

/* At every position, and byte by byte: the same answers. */
static void test_split_everywhere(void **state)
{
	for (size_t at = 1; at < sizeof(three) - 1; at++) {
		memory_connect(&peer, &server);
		memory_send(&peer, three, at);
		memory_send(&peer, three + at, sizeof(three) - 1 - at);
		check_three();
		hang_up();
	}
	memory_connect(&peer, &server);
	for (size_t i = 0; i < sizeof(three) - 1; i++)
		memory_send(&peer, three + i, 1);
	check_three();
	hang_up();
}

static void test_many_pipelined_pause_reading(void **state)
{
	static const char one[] = "GET /show HTTP/1.1\r\n" HEAD "\r\n";
	size_t len = sizeof(one) - 1, n = 1000;
	char *all = malloc(len * n);
	for (size_t i = 0; i < n; i++)
		memcpy(all + i * len, one, len);
	memory_connect(&peer, &server);
	peer.slow = true;
	memory_send(&peer, all, len * n);
	assert_true(peer.paused);
	for (size_t i = 0; i < n; i++) {
		memory_write_done(&peer);
		memory_run(&peer);
	}
	assert_false(peer.paused);
	assert_int_equal(count(buffer_string(&peer.out), "HTTP/1.1 200 OK"), n);
	hang_up();
	free(all);
}

static void test_expect_continue(void **state)
{
	memory_connect(&peer, &server);
	const char *head = "POST /echo HTTP/1.1\r\n" HEAD "Expect: 100-Continue\r\nContent-Length: 5\r\n\r\n";
	memory_send(&peer, head, strlen(head));
	assert_string_equal(buffer_string(&peer.out), "HTTP/1.1 100 Continue\r\n\r\n");
	memory_send(&peer, "hello", 5);
	assert_has(buffer_string(&peer.out), "\r\n\r\nhello");
	assert_false(peer.shut);
	hang_up();
	/* Refused before the body is sent. */
	const char *answer = talk("POST /small HTTP/1.1\r\n" HEAD "Expect: 100-continue\r\nContent-Length: 500\r\n\r\n");
	assert_int_equal(strncmp(answer, "HTTP/1.1 413 ", 13), 0);
	hang_up();
	/* Not waiting for it: then it is not said. */
	answer = talk("POST /echo HTTP/1.1\r\n" HEAD "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello");
	assert_null(strstr(answer, "100 Continue"));
	assert_has(answer, "\r\n\r\nhello");
	hang_up();
}

static void test_times(void **state)
{
	/* A header that does not come to its end */
	talk("GET /show HTTP/1.1\r\nHost");
	memory_wait(&peer, 9);
	assert_int_equal(peer.out.len, 0);
	memory_wait(&peer, 2);
	assert_has(buffer_string(&peer.out), "HTTP/1.1 408 ");
	assert_has(buffer_string(&peer.out), "the header took longer than 10 seconds");
	assert_true(peer.shut);
	memory_wait(&peer, 3);
	assert_true(peer.closed);
	hang_up();
	/* A beginning that could be HTTP/2 as well */
	talk("P");
	memory_wait(&peer, 11);
	memory_wait(&peer, 11);
	assert_has(buffer_string(&peer.out), "HTTP/1.1 408 ");
	hang_up();
	/* A body that trickles: 60 s and one more for each 64 KiB */
	talk("POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 90000\r\n\r\n");
	for (int i = 0; i < 59; i++) {
		memory_send(&peer, "x", 1);
		memory_wait(&peer, 1);
	}
	assert_int_equal(peer.out.len, 0);
	memory_wait(&peer, 2);
	assert_has(buffer_string(&peer.out), "HTTP/1.1 408 ");
	assert_has(buffer_string(&peer.out), "the body took longer than");
	hang_up();
	/* Idle */
	talk("");
	memory_wait(&peer, 119);
	assert_false(peer.closed);
	memory_wait(&peer, 2);
	assert_true(peer.closed);
	hang_up();
	talk("GET /show HTTP/1.1\r\n" HEAD "\r\n");
	memory_wait(&peer, 121);
	assert_true(peer.closed);
	hang_up();
	struct net_server_stats stats;
	net_server_get_stats(&server, &stats);
	assert_int_equal(stats.timeouts, 3);
}

static void test_slow_reader(void **state)
{
	memory_connect(&peer, &server);
	peer.slow = true;
	const char *request = "GET /big?n=1000000 HTTP/1.1\r\n" HEAD "\r\n";
	memory_send(&peer, request, strlen(request));
	memory_wait(&peer, 29);
	assert_false(peer.closed);
	memory_wait(&peer, 2);
	assert_true(peer.closed);
	assert_int_equal(server.stats.answers_stalled, 1);
	hang_up();
	assert_int_equal(server.answer_bytes, 0);
}

/* The worker has the request when time runs out: the answer comes without it, and its own is thrown away. */
static void test_handler_too_slow(void **state)
{
	memory_connect(&peer, &server);
	const char *request = "GET /show HTTP/1.1\r\n" HEAD "\r\n";
	connection_input(&peer.connection, bytes_of_string(request));
	assert_int_equal(server.workers.out, 1);
	server.fake_now_ns += 61 * NS_PER_S;
	server_check_time(&server);
	assert_has(buffer_string(&peer.out), "HTTP/1.1 503 ");
	assert_has(buffer_string(&peer.out), "the request took longer than 1 min");
	assert_true(peer.shut);
	size_t len = peer.out.len;
	memory_run(&peer);
	assert_int_equal(peer.out.len, len);
	hang_up();
	struct net_server_stats stats;
	net_server_get_stats(&server, &stats);
	assert_int_equal(stats.requests_open, 0);
}

static void test_peer_goes_away(void **state)
{
	const char *request = "GET /show HTTP/1.1\r\n" HEAD "\r\n";
	/* In the middle of a head */
	talk("GET /sh");
	connection_eof(&peer.connection);
	assert_true(peer.closed);
	hang_up();
	/* While a worker has it: told, and answered if it still reads */
	memory_connect(&peer, &server);
	connection_input(&peer.connection, bytes_of_string(request));
	connection_eof(&peer.connection);
	assert_true(peer.connection.exchanges->request.cancelled);
	assert_false(peer.closed);
	peer.connection.exchanges->request.cancelled = false;
	memory_run(&peer);
	assert_has(buffer_string(&peer.out), "200 OK");
	assert_true(peer.closed);
	hang_up();
	/* Gone altogether: the job comes back to nobody */
	memory_connect(&peer, &server);
	connection_input(&peer.connection, bytes_of_string(request));
	hang_up();
	workers_run_here(&server.workers);
	struct net_server_stats stats;
	net_server_get_stats(&server, &stats);
	assert_int_equal(stats.requests_open, 0);
	assert_int_equal(stats.connections_open, 0);
	/* Half-closed with requests waiting: all are answered */
	memory_connect(&peer, &server);
	connection_input(&peer.connection, bytes_of_string(three));
	connection_eof(&peer.connection);
	memory_run(&peer);
	assert_int_equal(count(buffer_string(&peer.out), "HTTP/1.1 200 OK"), 3);
	assert_true(peer.closed);
	hang_up();
}

static void send_encoded(const char *encoding, struct bytes body)
{
	char head[200];
	snprintf(head, sizeof(head), "POST /echo HTTP/1.1\r\n" HEAD "Content-Encoding: %s\r\nContent-Length: %zu\r\n\r\n",
		 encoding, body.len);
	memory_connect(&peer, &server);
	memory_send(&peer, head, strlen(head));
	memory_send(&peer, body.data, body.len);
}

static void test_compressed_bodies(void **state)
{
	struct buffer plain, packed;
	buffer_init(&plain, MIB);
	buffer_init(&packed, MIB);
	for (int i = 0; i < 90000; i++)
		buffer_append_byte(&plain, (uint8_t)('a' + i % 7));
	assert_int_equal(gzip_compress(buffer_bytes(&plain), 6, &packed, NULL), 0);
	send_encoded("gzip", buffer_bytes(&packed));
	assert_has(buffer_string(&peer.out), "Content-Length: 90000\r\n");
	hang_up();
	buffer_clear(&packed);
	assert_int_equal(test_zstd_compress(buffer_bytes(&plain), 3, &packed, NULL), 0);
	send_encoded("ZSTD", buffer_bytes(&packed));
	assert_has(buffer_string(&peer.out), "Content-Length: 90000\r\n");
	hang_up();
	/* A bomb: small on the wire, over the limit when unpacked */
	for (int i = 0; i < 20000; i++)
		buffer_append_byte(&plain, 'a');
	buffer_clear(&packed);
	assert_int_equal(gzip_compress(buffer_bytes(&plain), 6, &packed, NULL), 0);
	send_encoded("gzip", buffer_bytes(&packed));
	assert_has(buffer_string(&peer.out), "HTTP/1.1 413 ");
	assert_has(buffer_string(&peer.out), "after decompression");
	assert_false(peer.shut);
	hang_up();
	buffer_release(&plain);
	buffer_release(&packed);
}

static size_t body_of(struct bytes *ret)
{
	const uint8_t *end = memmem(peer.out.data, peer.out.len, "\r\n\r\n", 4);
	assert_non_null(end);
	*ret = (struct bytes){end + 4, peer.out.len - (size_t)(end + 4 - peer.out.data)};
	return ret->len;
}

static void test_compressed_answers(void **state)
{
	struct bytes body;
	struct buffer plain;
	buffer_init(&plain, MIB);
	const char *answer = talk("GET /big?n=50000 HTTP/1.1\r\n" HEAD "Accept-Encoding: br, GZIP;q=0.5\r\n\r\n");
	assert_has(answer, "Content-Encoding: gzip\r\n");
	assert_has(answer, "Vary: Accept-Encoding\r\n");
	assert_true(body_of(&body) < 5000);
	assert_int_equal(gzip_decompress(body, &plain, NULL), 0);
	assert_int_equal(plain.len, 50000);
	buffer_release(&plain);
	hang_up();
	static const char *const plain_requests[] = {
		"GET /big?n=50000 HTTP/1.1\r\n" HEAD "\r\n",
		"GET /big?n=50000 HTTP/1.1\r\n" HEAD "Accept-Encoding: gzip;q=0, deflate\r\n\r\n",
		"GET /big?n=50000&raw=1 HTTP/1.1\r\n" HEAD "Accept-Encoding: gzip\r\n\r\n",
		"GET /big?n=1000 HTTP/1.1\r\n" HEAD "Accept-Encoding: gzip\r\n\r\n",
	};
	for (size_t i = 0; i < 4; i++) {
		answer = talk(plain_requests[i]);
		assert_null(strstr(answer, "Content-Encoding"));
		assert_int_equal(body_of(&body), i < 3 ? 50000 : 1000);
		hang_up();
	}
}

/* All bodies under way together are limited, not only each; and of one address to half of that. */
static void test_bodies_together(void **state)
{
	static struct memory_peer peers[6];
	static char data[90000];
	const char *head = "POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 95000\r\n\r\n";
	int refused = 0;
	bool was_refused[6];
	for (int i = 0; i < 6; i++) {
		memory_address = i < 3 ? 1 : 2;
		memory_connect(&peers[i], &server);
		memory_send(&peers[i], head, strlen(head));
		memory_send(&peers[i], data, sizeof(data));
		was_refused[i] = peers[i].out.len && strstr(buffer_string(&peers[i].out), "HTTP/1.1 503 ");
		refused += was_refused[i];
	}
	assert_int_equal(refused, 2); /* 4 * 100,000 bytes hold four */
	assert_true(was_refused[2] && was_refused[5]);
	/* Whose are left: a third address finds no room, since together they are too many. */
	memory_address = 3;
	memory_disconnect(&peers[2]);
	memory_connect(&peers[2], &server);
	memory_send(&peers[2], head, strlen(head));
	memory_send(&peers[2], data, sizeof(data));
	assert_has(buffer_string(&peers[2].out), "HTTP/1.1 503 ");
	memory_address = 0;
	for (int i = 0; i < 6; i++)
		memory_disconnect(&peers[i]);
	assert_int_equal(server.body_bytes, 0);
	assert_int_equal(server.peers.addresses, 0);
}

static void test_stop(void **state)
{
	static struct memory_peer idle, partial;
	memory_connect(&idle, &server);
	memory_send(&idle, "GET /show HTTP/1.1\r\n" HEAD "\r\n", 31);
	memory_connect(&partial, &server);
	memory_send(&partial, "GET /show HTTP/1.1\r\n", 20);
	memory_connect(&peer, &server);
	connection_input(&peer.connection, bytes_of_string("GET /show HTTP/1.1\r\n" HEAD "\r\n"));
	server_stop_connections(&server);
	assert_true(idle.closed);
	assert_false(partial.closed || peer.closed);
	memory_run(&peer);
	assert_has(buffer_string(&peer.out), "200 OK");
	assert_has(buffer_string(&peer.out), "Connection: close\r\n");
	assert_true(peer.shut);
	memory_send(&partial, HEAD "\r\n", 11);
	assert_has(buffer_string(&partial.out), "200 OK");
	assert_true(partial.shut);
	memory_disconnect(&idle);
	memory_disconnect(&partial);
	hang_up();
}

static unsigned few_descriptors;

static void on_few_descriptors(void *context)
{
	few_descriptors++;
}

/* Past what is reserved for others, who was idle for longest goes; who is at work stays, and if all are, a new one cannot come.
 */
static void test_few_descriptors(void **state)
{
	enum { ROOM = 6 };
	static struct memory_peer peers[ROOM + 3];
	int others[ROOM];
	struct rlimit before, few;
	struct net_server_stats now;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	server.options.descriptors_reserved = 10;
	server.options.on_few_descriptors = on_few_descriptors;
	server.fake_now_ns = 1000 * NS_PER_S;
	few = before;
	few_descriptors = 0;
	/* Peers from memory have no descriptors: those of this process are all of others, but as many as there are peers. There
	 * must be more of them than peers, whatever this program was started with. */
	for (size_t i = 0; i < ROOM; i++)
		assert_true((others[i] = dup(STDERR_FILENO)) >= 0);
	few.rlim_cur = descriptors_open() - 4 + 10 + ROOM;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (size_t i = 0; i < ROOM; i++) {
		assert_true(server_make_room(&server, 0, ""));
		memory_connect(&peers[i], &server);
		server.fake_now_ns += NS_PER_MS;
	}
	assert_int_equal(few_descriptors, 0);
	/* The first is idle after a request; the second has begun one, but half a head is no request; the others say nothing,
	 * which is longer ago.
	 */
	memory_send(&peers[0], "GET /show HTTP/1.1\r\n" HEAD "\r\n", 31);
	memory_send(&peers[1], "GET /show HTTP/1.1\r\n", 20);
	assert_true(server_make_room(&server, 0, ""));
	assert_true(peers[2].closed);
	memory_connect(&peers[ROOM], &server);
	server.fake_now_ns += NS_PER_MS;
	assert_true(server_make_room(&server, 0, ""));
	assert_true(peers[3].closed);
	memory_connect(&peers[ROOM + 1], &server);
	memory_send(&peers[1], HEAD "\r\n", strlen(HEAD "\r\n"));
	/* With a body under way it is not idle. */
	for (size_t i = 0; i <= ROOM + 1; i++)
		if (!peers[i].closed)
			memory_send(&peers[i], "POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 3\r\n\r\n1", 52);
	assert_false(server_make_room(&server, 0, ""));
	net_server_get_stats(&server, &now);
	assert_int_equal(now.connections_evicted, 2);
	assert_int_equal(few_descriptors, 1);
	for (size_t i = 2; i <= 4; i++)
		memory_disconnect(&peers[i]);
	assert_true(server_make_room(&server, 0, ""));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	/* Those that are at work come to their end. */
	memory_send(&peers[0], "23", 2);
	assert_has(buffer_string(&peers[0].out), "123");
	for (size_t i = 0; i <= ROOM + 1; i++)
		if (i < 2 || i > 4)
			memory_disconnect(&peers[i]);
	for (size_t i = 0; i < ROOM; i++)
		close(others[i]);
}

static int was_started = -1;

static void note_started(void *context, const struct net_request *request, struct net_response *response)
{
	was_started = net_request_was_started(request);
}

/* A refusal knows whether a worker may have done what the request is for; and one whose place in the queue another has got is
 * told to come again, its handler never ran. */
static void test_started(void **state)
{
	static const char request[] = "POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 3\r\n\r\n123";
	static struct memory_peer second;
	server.options.on_refusal = note_started;
	expect("GET /nothing HTTP/1.1\r\n" HEAD "\r\n", "404", "no such path", false);
	assert_int_equal(was_started, 0);
	memory_connect(&peer, &server);
	connection_input(&peer.connection, bytes_of_string(request)); /* no worker takes it */
	memory_wait(&peer, LIMIT_REQUEST_SECONDS + 1);
	assert_has(buffer_string(&peer.out), "HTTP/1.1 503 ");
	assert_int_equal(was_started, 1);
	workers_run_here(&server.workers);
	hang_up();
	/* Displaced: room for one, and somebody else has none yet. */
	server.workers.queue_max[NET_JOB_FAST] = 2;
	memory_address = 1;
	memory_connect(&peer, &server);
	memory_connect(&second, &server);
	connection_input(&peer.connection, bytes_of_string(request));
	connection_input(&second.connection, bytes_of_string(request));
	assert_int_equal(server.workers.fast.count, 2);
	static struct memory_peer other;
	memory_address = 2;
	memory_connect(&other, &server);
	connection_input(&other.connection, bytes_of_string(request));
	assert_int_equal(server.workers.fast.count, 2);
	memory_run(&other);
	assert_has(buffer_string(&peer.out), "HTTP/1.1 200 ");
	assert_has(buffer_string(&second.out), "HTTP/1.1 503 ");
	assert_has(buffer_string(&second.out), "Retry-After: 1");
	assert_has(buffer_string(&other.out), "HTTP/1.1 200 ");
	memory_address = 0;
	memory_disconnect(&peer);
	memory_disconnect(&second);
	memory_disconnect(&other);
	server.workers.queue_max[NET_JOB_FAST] = NET_QUEUE_MAX;
	server.options.on_refusal = NULL;
}

static uint64_t crowded[NET_LIMITS][2];

static void on_crowd(void *context, enum net_limit limit, bool refused, const char *address)
{
	crowded[limit][refused]++;
}

static bool come(struct memory_peer *who, uint64_t address)
{
	memory_address = address;
	server.fake_now_ns += NS_PER_MS;
	if (!server_make_room(&server, address, ""))
		return false;
	memory_connect(who, &server);
	return true;
}

/* One address cannot have all connections; those that have not said who they are go before those that have; of many idle ones
 * that of the most crowded address goes; and who is at work stays, unless he does not go on. */
static void test_crowds(void **state)
{
	static struct memory_peer peers[16];
	memset(crowded, 0, sizeof(crowded));
	server.options.connections_max = 6;
	server.options.connections_per_address_max = 4;
	server.options.on_crowd = on_crowd;
	server.fake_now_ns = 1000 * NS_PER_S;
	for (int i = 0; i < 2; i++)
		assert_true(come(&peers[i], 1 + (uint64_t)i)); /* the idlest, each of its own address */
	for (int i = 2; i < 6; i++)
		assert_true(come(&peers[i], 9));
	assert_true(come(&peers[6], 9)); /* its fifth: its own oldest goes */
	assert_true(peers[2].closed);
	assert_int_equal(crowded[NET_LIMIT_ADDRESS][0], 1);
	assert_true(come(&peers[7], 3)); /* full: the crowd's oldest goes, not the idlest of all */
	assert_true(peers[3].closed);
	assert_int_equal(crowded[NET_LIMIT_TOTAL][0], 1);
	/* Who has more than each of the others cannot push out one of theirs. */
	server.options.connections_per_address_max = 100;
	for (int i = 4; i <= 6; i++)
		memory_send(&peers[i], "POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 3\r\n\r\n1", 52);
	assert_false(come(&peers[15], 9));
	for (int i = 4; i <= 6; i++)
		memory_send(&peers[i], "23", 2);
	server.options.connections_per_address_max = 4;
	memset(crowded, 0, sizeof(crowded));
	/* Among strangers only, whoever is known stays. */
	server.options.connections_unknown_max = 3;
	for (int i = 4; i <= 6; i++)
		peers_set_known(&server.peers, &peers[i].connection);
	assert_true(come(&peers[8], 4));
	assert_true(peers[0].closed);
	assert_int_equal(crowded[NET_LIMIT_UNKNOWN][0], 1);
	server.options.connections_unknown_max = 0;
	/* With a request under way all stay, until one has not moved for long. */
	for (int i = 1; i <= 8; i++)
		if (!peers[i].closed)
			memory_send(&peers[i], "POST /echo HTTP/1.1\r\n" HEAD "Content-Length: 3\r\n\r\n1", 52);
	assert_false(come(&peers[9], 5));
	assert_int_equal(crowded[NET_LIMIT_TOTAL][1], 1);
	server.fake_now_ns += NET_STUCK_NS / 2;
	memory_send(&peers[1], "2", 1);
	server.fake_now_ns += NET_STUCK_NS / 2 + 1;
	assert_true(come(&peers[9], 5));
	assert_false(peers[1].closed);
	assert_true(peers[4].closed);
	memory_send(&peers[1], "3", 1);
	assert_has(buffer_string(&peers[1].out), "123");
	for (int i = 0; i < 10; i++)
		memory_disconnect(&peers[i]);
	memory_address = 0;
	assert_int_equal(server.peers.count, 0);
	assert_int_equal(server.peers.unknown_count, 0);
	assert_int_equal(server.peers.addresses, 0);
}

/* The n-th allocation fails, for every n: an error answer or a closed connection, no leak, and the server serves on. */
static void test_short_of_memory(void **state)
{
	const char *request = "POST /echo?a=%41 HTTP/1.1\r\n" HEAD "Accept-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
			      "5\r\nhello\r\n0\r\n\r\n";
	bool reached = true;
	uint64_t n;
	for (n = 1; reached && n < 500; n++) {
		memory_connect(&peer, &server);
		fault_arm(FAULT_ALLOC, n, 0);
		connection_input(&peer.connection, bytes_of_string(request));
		workers_run_here(&server.workers);
		reached = fault_disarm(FAULT_ALLOC);
		memory_run(&peer);
		assert_true(peer.closed || peer.out.len > 0);
		hang_up();
		assert_int_equal(server.requests_open, 0);
	}
	assert_true(n > 5 && n < 500);
	expect("GET /show HTTP/1.1\r\n" HEAD "\r\n", "200 OK", "GET /show", false);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_answers),
		TEST(test_head_and_headers),
		TEST(test_refusals),
		TEST(test_grpc),
		TEST(test_grpc_compressed),
		TEST(test_refusals_reshaped),
		TEST(test_malformed),
		TEST(test_malformed_framing),
		TEST(test_malformed_in_pieces),
		TEST(test_header_limits),
		TEST(test_pipelining),
		TEST(test_split_everywhere),
		TEST(test_many_pipelined_pause_reading),
		TEST(test_expect_continue),
		TEST(test_times),
		TEST(test_slow_reader),
		TEST(test_handler_too_slow),
		TEST(test_peer_goes_away),
		TEST(test_compressed_bodies),
		TEST(test_compressed_answers),
		TEST(test_bodies_together),
		TEST(test_stop),
		TEST(test_few_descriptors),
		TEST(test_started),
		TEST(test_crowds),
		TEST(test_short_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
