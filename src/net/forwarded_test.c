/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net/net_int.h"

static struct net_request request;

static void begin(const char *peer, const char *target)
{
	request_release(&request);
	request_init(&request, 8192);
	snprintf(request.peer_address, sizeof(request.peer_address), "%s", peer);
	request.peer = 42;
	request.loopback = strncmp(peer, "127.", 4) == 0;
	assert_int_equal(request_parse_target(&request, bytes_of_string(target), NULL), 0);
}

static void add(const char *name, const char *value)
{
	assert_int_equal(request_add_header(&request, bytes_of_string(name), bytes_of_string(value)), 0);
}

/* Who asks, when `peer` sends these lists. */
static const char *client(const char *trusted, const char *peer, const char *first, const char *second)
{
	struct net_networks *networks = NULL;
	assert_int_equal(net_networks_parse(trusted, &networks, NULL), 0);
	const struct net_server_options options = {.trusted_proxies = networks};
	begin(peer, "/");
	if (first)
		add("X-Forwarded-For", first);
	add("Accept", "*/*");
	if (second)
		add("x-forwarded-for", second);
	request_apply_proxy(&request, &options);
	net_networks_free(networks);
	return net_request_peer_address(&request);
}

static void test_client(void **state)
{
	static const char trusted[] = "10.0.0.0/8 127.0.0.1, fd00::/8";
	/* Of somebody who is not trusted nothing is believed. */
	assert_string_equal(client(trusted, "192.0.2.1", "198.51.100.7", NULL), "192.0.2.1");
	assert_false(net_request_is_by_proxy(&request));
	assert_int_equal(net_request_peer(&request), 42);
	assert_string_equal(client(trusted, "11.0.0.1", "198.51.100.7", NULL), "11.0.0.1");
	assert_string_equal(client(trusted, "127.0.0.2", "198.51.100.7", NULL), "127.0.0.2");
	/* The last that is not trusted is the client; what it claims itself does not count. */
	assert_string_equal(client(trusted, "10.1.2.3", "198.51.100.7", NULL), "198.51.100.7");
	assert_true(net_request_is_by_proxy(&request));
	assert_true(net_request_peer(&request) != 42);
	assert_string_equal(client(trusted, "127.0.0.1", "203.0.113.9, 198.51.100.7", NULL), "198.51.100.7");
	assert_false(net_request_is_loopback(&request));
	assert_string_equal(client(trusted, "127.0.0.1", "203.0.113.9, 198.51.100.7 ,10.9.9.9,\t10.8.8.8", NULL),
			    "198.51.100.7");
	assert_string_equal(client(trusted, "fd12::1", "2001:db8::5, fd00::2", NULL), "2001:db8::5");
	/* Several headers are one list. */
	assert_string_equal(client(trusted, "10.1.2.3", "203.0.113.9", "198.51.100.7"), "198.51.100.7");
	assert_string_equal(client(trusted, "10.1.2.3", "198.51.100.7", "10.5.5.5"), "198.51.100.7");
	/* All are trusted: the first of them. */
	assert_string_equal(client(trusted, "10.1.2.3", "10.4.4.4, 10.5.5.5", NULL), "10.4.4.4");
	assert_string_equal(client(trusted, "10.1.2.3", NULL, NULL), "10.1.2.3");
	/* Ports, brackets, IPv4 in IPv6. */
	assert_string_equal(client(trusted, "10.1.2.3", "198.51.100.7:4567", NULL), "198.51.100.7");
	assert_string_equal(client(trusted, "10.1.2.3", "[2001:db8::5]:4567", NULL), "2001:db8::5");
	assert_string_equal(client(trusted, "10.1.2.3", "[2001:db8::5]", NULL), "2001:db8::5");
	assert_string_equal(client(trusted, "10.1.2.3", "198.51.100.7, ::ffff:10.7.7.7", NULL), "198.51.100.7");
	assert_string_equal(client("0.0.0.0/0 ::/0", "10.1.2.3", "1.1.1.1, 2.2.2.2", NULL), "1.1.1.1");
}

/* What is no address ends the search at what stands behind it. */
static void test_nonsense(void **state)
{
	static const char *const bad[] = {
		"unknown",   "",	   "1.2.3",
		"1.2.3.4.5", "[::1",	   "[::1]x",
		"_hidden",   "10.0.0.1\"", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"::g"};
	char list[160];
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(list, sizeof(list), "198.51.100.7, %s, 10.5.5.5", bad[i]);
		assert_string_equal(client("10.0.0.0/8", "10.1.2.3", list, NULL), "10.5.5.5");
		assert_string_equal(client("10.0.0.0/8", "10.1.2.3", bad[i], NULL), "10.1.2.3");
	}
	/* A list without end costs no more than one of 32. */
	char many[4000] = "198.51.100.7";
	for (size_t i = 0; i < 300; i++)
		memcpy(many + strlen(many), ",10.0.0.1", sizeof(",10.0.0.1"));
	assert_string_equal(client("10.0.0.0/8", "10.1.2.3", many, NULL), "10.0.0.1");
}

static void test_networks(void **state)
{
	static const char *const bad[] = {"10.0.0.0/33", "10.0.0",	 "::/129",	"10.0.0.0/", "10.0.0.0/-1",
					  "all",	 "10.0.0.0/8 x", "1.2.3.4/8/9", "fd00::zz/8"};
	struct net_networks *networks = NULL;
	struct error err = {0};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(net_networks_parse(bad[i], &networks, &err), -EINVAL);
		assert_non_null(strstr(err.message, "is no network"));
	}
	assert_string_equal(client("10.128.0.0/9", "10.128.0.1", "1.1.1.1", NULL), "1.1.1.1");
	assert_string_equal(client("10.128.0.0/9", "10.127.255.255", "1.1.1.1", NULL), "10.127.255.255");
	assert_string_equal(client("10.128.0.4/31", "10.128.0.5", "1.1.1.1", NULL), "1.1.1.1");
	assert_string_equal(client("10.128.0.4/31", "10.128.0.6", "1.1.1.1", NULL), "10.128.0.6");
	assert_string_equal(client("", "10.128.0.6", "1.1.1.1", NULL), "10.128.0.6");
}

static const char *path(const char *prefix, const char *target)
{
	const struct net_server_options options = {.path_prefix = prefix};
	begin("10.0.0.1", target);
	request_apply_proxy(&request, &options);
	return net_request_path(&request);
}

static void test_prefix(void **state)
{
	assert_string_equal(path("/wick", "/wick/api/v1/query?x=/wick"), "/api/v1/query");
	assert_string_equal(net_request_query(&request, "x"), "/wick");
	assert_string_equal(path("/wick", "/wick/"), "/");
	assert_false(net_request_is_at_prefix(&request));
	assert_string_equal(path("/wick", "/wick?view=x"), "/");
	assert_true(net_request_is_at_prefix(&request));
	assert_string_equal(path("/wick", "/wicked"), "/wicked");
	assert_string_equal(path("/wick", "/healthz"), "/healthz");
	assert_string_equal(path("/a/b", "/a/b/wick/wick"), "/wick/wick");
	assert_string_equal(path("/wick", "/wick/wick/"), "/wick/");
	assert_string_equal(path(NULL, "/wick/"), "/wick/");
	static const char *const good[] = {"/wick", "/a/b-c_d.e~f"}, *const bad[] = {"",    "/",       "wick", "/wick/",
										     "//a", "/a//b",   "/a b", "/a?b",
										     "/..", "/a/../b", "/.a",  "/%41"};
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_true(net_path_prefix_is_valid(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(net_path_prefix_is_valid(bad[i]));
}

static int teardown(void **state)
{
	request_release(&request);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_client),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_networks),
		cmocka_unit_test(test_prefix),
	};
	return cmocka_run_group_tests(tests, NULL, teardown);
}
