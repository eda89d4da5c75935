/* SPDX-License-Identifier: Apache-2.0 */
/* What access control sees of a request, what it can leave for handlers, and what it hears of the outcome. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <arpa/inet.h>

#include "net/memory_test.h"
#include "net/routes_test.h"

static struct net_server server;
static struct memory_peer peer;
static char seen[2048], outcomes[512];

static void show_attached(void *context, const struct net_request *request, struct net_response *response)
{
	const unsigned *number = net_request_attached(request);
	response->content_type = "text/plain";
	buffer_printf(&response->body, "attached %u", number ? *number : 0);
}

static void fail_with(void *context, const struct net_request *request, struct net_response *response)
{
	response->status = 409;
	response->grpc_status = GRPC_ALREADY_EXISTS;
}

static const struct net_route routes[] = {
	NET_ROUTE("GET", "/a", 3, show_attached),
	NET_ROUTE("POST", "/a", 4, show_attached),
	NET_ROUTE("GET", "/b/*", 5, fail_with),
	NET_ROUTE("GET", "/slow", 6, test_slow),
	NET_STREAM_ROUTE("POST", "/stream", 7, &test_stream),
	{0},
};

static bool authorize(void *context, struct net_request *request, struct net_response *response)
{
	size_t len = strlen(seen);
	snprintf(seen + len, sizeof(seen) - len, "%s %s %u; ", net_request_method(request), net_request_path(request),
		 net_request_permission(request));
	assert_null(net_request_attached(request));
	assert_null(net_request_certificate_name(request, 0));
	if (net_request_header(request, "x-refuse"))
		return test_authorize(context, request, response);
	unsigned *number = net_request_attach(request, sizeof(*number));
	assert_non_null(number);
	assert_int_equal(*number, 0);
	*number = 42 + net_request_permission(request);
	return true;
}

static void on_answer(void *context, const struct net_request *request, int status)
{
	size_t len = strlen(outcomes);
	snprintf(outcomes + len, sizeof(outcomes) - len, "%s %s %d%s; ", net_request_method(request), net_request_path(request),
		 status, net_request_attached(request) ? "" : " unknown");
}

static int setup(void **state)
{
	const struct net_server_options options = {
		.routes = routes, .authorize = authorize, .on_answer = on_answer, .header_max = 2048, .body_max = 1000};
	seen[0] = outcomes[0] = '\0';
	return memory_server_start(&server, &options);
}

static int teardown(void **state)
{
	memory_server_end(&server);
	return 0;
}

static const char *talk(const char *text)
{
	memory_connect(&peer, &server);
	memory_send(&peer, text, strlen(text));
	return buffer_string(&peer.out);
}

#define HOST " HTTP/1.1\r\nHost: h\r\n"
static void test_calls(void **state)
{
	static const struct {
		const char *text, *answer, *seen, *outcome;
	} cases[] = {
		{"GET /a" HOST "\r\n", "attached 45", "GET /a 3; ", "GET /a 200; "},
		{"HEAD /a" HOST "\r\n", "200", "HEAD /a 3; ", "HEAD /a 200; "},
		{"POST /a" HOST "Content-Length: 0\r\n\r\n", "attached 46", "POST /a 4; ", "POST /a 200; "},
		{"GET /b/x" HOST "\r\n", "409", "GET /b/x 5; ", "GET /b/x 409; "},
		{"DELETE /a" HOST "\r\n", "405", "DELETE /a 0; ", "DELETE /a 405; "},
		{"GET /none" HOST "\r\n", "404", "GET /none 0; ", "GET /none 404; "},
		{"POST /stream" HOST "Content-Length: 0\r\n\r\n", "415", "POST /stream 7; ", "POST /stream 415; "},
		{"POST /a" HOST "Content-Length: 5000\r\n\r\n", "413", "POST /a 4; ", "POST /a 413; "},
		{"GET /a" HOST "X-Refuse: 403\r\n\r\n", "403", "GET /a 3; ", "GET /a 403 unknown; "},
		{"GET /none" HOST "X-Refuse: 401\r\n\r\n", "401", "GET /none 0; ", "GET /none 401 unknown; "},
		/* Nobody is asked about what is no request. */
		{"GET http://" HOST "\r\n", "400", "", ""},
		{"nonsense\r\n\r\n", "400", "", ""},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		seen[0] = outcomes[0] = '\0';
		const char *answer = talk(cases[i].text);
		if (!strstr(answer, cases[i].answer) || strcmp(seen, cases[i].seen) != 0 ||
		    strcmp(outcomes, cases[i].outcome) != 0)
			fail_msg("%s\n: %s\nseen %s, outcome %s", cases[i].text, answer, seen, outcomes);
		memory_disconnect(&peer);
		assert_string_equal(outcomes, cases[i].outcome); /* once */
	}
}

/* The client goes away before the answer; and a handler that takes too long, for which a stand-in answers. */
static void test_without_answer(void **state)
{
	static const char text[] = "GET /a" HOST "\r\n", slow[] = "GET /slow?ms=1" HOST "\r\n";
	(void)state;
	memory_connect(&peer, &server);
	connection_input(&peer.connection, bytes_of_string(text));
	assert_string_equal(outcomes, "");
	memory_disconnect(&peer);
	workers_run_here(&server.workers);
	assert_string_equal(outcomes, "GET /a 0; ");
	outcomes[0] = '\0';
	memory_connect(&peer, &server);
	connection_input(&peer.connection, bytes_of_string(slow));
	server.fake_now_ns += 1000 * NS_PER_S;
	server_check_time(&server);
	assert_non_null(strstr(buffer_string(&peer.out), "503"));
	assert_string_equal(outcomes, "GET /slow 503; ");
	workers_run_here(&server.workers);
	memory_disconnect(&peer);
	assert_string_equal(outcomes, "GET /slow 503; ");
}

static void test_addresses(void **state)
{
	static const char *const cases[][2] = {
		{"10.1.2.3", "10.1.2.3"}, {"::1", "::1"}, {"fe80::1:2", "fe80::1:2"}, {"::ffff:10.1.2.3", "10.1.2.3"}};
	char text[NET_PEER_ADDRESS_SIZE];
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sockaddr_in v4 = {.sin_family = AF_INET};
		struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
		bool is_v4 = inet_pton(AF_INET, cases[i][0], &v4.sin_addr) == 1;
		assert_true(is_v4 || inet_pton(AF_INET6, cases[i][0], &v6.sin6_addr) == 1);
		address_format_host(is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6, text);
		assert_string_equal(text, cases[i][1]);
	}
	address_format_host(&(struct sockaddr){.sa_family = AF_UNIX}, text);
	assert_string_equal(text, "");
}

static void test_certificate_names(void **state)
{
	struct net_request request = {.certificate = "host\0spiffe://x/y\0"};
	(void)state;
	assert_string_equal(net_request_certificate_name(&request, 0), "host");
	assert_string_equal(net_request_certificate_name(&request, 1), "spiffe://x/y");
	assert_null(net_request_certificate_name(&request, 2));
	assert_null(net_request_certificate_name(&request, 3));
	request.certificate = "";
	assert_null(net_request_certificate_name(&request, 0));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {TEST(test_calls), TEST(test_without_answer), cmocka_unit_test(test_addresses),
					   cmocka_unit_test(test_certificate_names)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
