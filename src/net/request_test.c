/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "net/net_int.h"

static struct net_request request;

static int setup(void **state)
{
	request_init(&request, 4096);
	return 0;
}

static int teardown(void **state)
{
	request_release(&request);
	return 0;
}

static int parse(const char *target)
{
	request_release(&request);
	request_init(&request, 4096);
	return request_parse_target(&request, bytes_of_string(target), NULL);
}

static void test_target(void **state)
{
	assert_int_equal(parse("/a%20b/c+d?x=1&y=a+b%26&x=2&flag&=e&&z="), 0);
	assert_string_equal(net_request_path(&request), "/a b/c+d");
	assert_string_equal(net_request_query(&request, "x"), "1");
	assert_string_equal(net_request_query_nth(&request, "x", 1), "2");
	assert_null(net_request_query_nth(&request, "x", 2));
	assert_string_equal(net_request_query(&request, "y"), "a b&");
	assert_string_equal(net_request_query(&request, "flag"), "");
	assert_string_equal(net_request_query(&request, ""), "e");
	assert_string_equal(net_request_query(&request, "z"), "");
	assert_null(net_request_query(&request, "X"));
	assert_int_equal(parse("HTTP://h:80?q=%7B%7D"), -EINVAL);
	assert_int_equal(parse("http://h:80/?q=%7B%7D"), 0);
	assert_string_equal(net_request_query(&request, "q"), "{}");
	assert_int_equal(parse("http://h"), 0);
	assert_string_equal(net_request_path(&request), "/");
	static const char *const bad[] = {"",	   "*",	      "a",    "?q",   "/%",    "/%4",	    "/%zz", "/%00",
					  "/?a=%", "/?%00=1", "/a b", "/a#b", "/\x7f", "/\xc3\xa4", "//\n"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse(bad[i]), -EINVAL);
	/* A refused request still has a path to show. */
	assert_string_equal(net_request_path(&request), "");
}

static void add(const char *name, const char *value)
{
	assert_int_equal(request_add_header(&request, bytes_of_string(name), bytes_of_string(value)), 0);
}

static void test_headers(void **state)
{
	add("Accept-Encoding", "deflate , GZip ; q=0.5,br;q=0, zstd; q=0.000,");
	add("X", "1");
	add("x", "2");
	assert_string_equal(net_request_header(&request, "X"), "1");
	assert_null(net_request_header(&request, "Y"));
	assert_int_equal(request_count_header(&request, "x"), 2);
	assert_true(request_header_lists(&request, "accept-encoding", "gzip"));
	assert_true(request_header_lists(&request, "accept-encoding", "deflate"));
	assert_false(request_header_lists(&request, "accept-encoding", "br"));
	assert_false(request_header_lists(&request, "accept-encoding", "zstd"));
	assert_false(request_header_lists(&request, "accept-encoding", "gzi"));
	assert_false(request_header_lists(&request, "accept-encoding", ""));
	for (size_t i = request.headers.count; i < NET_HEADERS_MAX; i++)
		add("a", "");
	assert_int_equal(request_add_header(&request, bytes_of_string("a"), bytes_of_string("b")), -E2BIG);
}

static void nop(void *context, const struct net_request *r, struct net_response *response)
{
}

static void test_routes(void **state)
{
	static const struct net_route routes[] = {
		{"GET", "/*", nop},	 {"GET", "/api/*", nop}, {"GET", "/api/x", nop},   {"POST", "/api/x", nop},
		{"POST", "/api/y", nop}, {NULL, "/any", nop},	 {"GET", "/exact/*", nop}, {NULL, NULL, NULL},
	};
	const struct net_route *route = NULL;
	char allow[32];
#define FIND(method, path) route_find(routes, method, path, &route, allow, sizeof(allow))
	assert_int_equal(FIND("GET", "/"), 0);
	assert_ptr_equal(route, &routes[0]);
	assert_int_equal(FIND("GET", "/api/z"), 0);
	assert_ptr_equal(route, &routes[1]);
	assert_int_equal(FIND("POST", "/api/x"), 0);
	assert_ptr_equal(route, &routes[3]);
	assert_int_equal(FIND("HEAD", "/api/x"), 0);
	assert_ptr_equal(route, &routes[2]);
	assert_int_equal(FIND("PATCH", "/any"), 0);
	assert_int_equal(FIND("GET", "/exact/"), 0);
	assert_ptr_equal(route, &routes[6]);
	assert_int_equal(FIND("DELETE", "/api/x"), 405);
	assert_string_equal(allow, "GET, POST");
	/* Not the page */
	assert_int_equal(FIND("GET", "/api/y"), 405);
	assert_string_equal(allow, "POST");
	assert_int_equal(FIND("GET", "x"), 404);
	assert_int_equal(route_find(routes, "DELETE", "/api/x", &route, allow, 6), 405);
	assert_string_equal(allow, "GET");
}

static void test_response_headers(void **state)
{
	struct net_response response;
	net_response_init(&response);
	assert_int_equal(net_response_header(&response, "A", "b c"), 0);
	assert_int_equal(net_response_header(&response, "Empty", ""), 0);
	static const char *const bad[][2] = {{"", "x"},
					     {"a b", "x"},
					     {"a:", "x"},
					     {"a", "x\ny"},
					     {"a", "x\r"},
					     {"a\n", "x"},
					     {"Content-Length", "1"},
					     {"transfer-encoding", "chunked"},
					     {"CONNECTION", "close"}};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(net_response_header(&response, bad[i][0], bad[i][1]), -EINVAL);
	size_t at = 0;
	struct bytes name, value;
	assert_true(response_next_header(&response, &at, &name, &value));
	assert_true(bytes_equal_string(name, "A") && bytes_equal_string(value, "b c"));
	assert_true(response_next_header(&response, &at, &name, &value));
	assert_true(bytes_equal_string(name, "Empty") && bytes_equal_string(value, ""));
	assert_false(response_next_header(&response, &at, &name, &value));
	char text[2000];
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	int r = 0;
	for (int i = 0; i < 9 && r == 0; i++)
		r = net_response_header(&response, "A", text);
	assert_int_equal(r, -E2BIG);
	net_response_release(&response);
}

static void test_addresses(void **state)
{
	struct net_address address;
	char prefix[32];
	assert_int_equal(address_parse("127.0.0.1:7070", &address, NULL), 0);
	assert_string_equal(address.host, "127.0.0.1");
	assert_int_equal(address.port, 7070);
	assert_int_equal(address_parse("[::1]:0", &address, NULL), 0);
	assert_string_equal(address.host, "::1");
	static const char *const bad[] = {"",	  ":1",	   "a",	     "a:",    "a:b",   "a:65536", "a:-1",
					  "a:1 ", "[::1]", "[::1:1", "::1:1", "a b:1", "a:1/x"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(address_parse(bad[i], &address, NULL), -EINVAL);
	assert_int_equal(address_parse_url("http://h", &address, prefix, sizeof(prefix), NULL), 0);
	assert_int_equal(address.port, 80);
	assert_string_equal(prefix, "");
	assert_int_equal(address_parse_url("HTTP://[::1]:99/a/b//", &address, prefix, sizeof(prefix), NULL), 0);
	assert_string_equal(address.host, "::1");
	assert_int_equal(address.port, 99);
	assert_string_equal(prefix, "/a/b");
	static const char *const bad_urls[] = {"",
					       "h:1",
					       "http://",
					       "http://:1",
					       "http://h:0",
					       "http://h:x",
					       "http://h:1?q",
					       "http://h:1/a b",
					       "http://u@h",
					       "http://h:1/a\r\nb",
					       "ftp://h",
					       "http://h:/",
					       "http://[::1]x",
					       "http://h/0123456789012345678901234567890123456789"};
	for (size_t i = 0; i < sizeof(bad_urls) / sizeof(bad_urls[0]); i++)
		assert_int_equal(address_parse_url(bad_urls[i], &address, prefix, sizeof(prefix), NULL), -EINVAL);
	assert_int_equal(address_parse_url("HTTPS://h/x", &address, prefix, sizeof(prefix), NULL), 0);
	assert_true(address.tls);
	assert_int_equal(address.port, 443);
	assert_string_equal(prefix, "/x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_target, setup, teardown),
		cmocka_unit_test_setup_teardown(test_headers, setup, teardown),
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_response_headers),
		cmocka_unit_test(test_addresses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
