/* SPDX-License-Identifier: Apache-2.0 */
/* Which proxy is used, and what it receives; through one in C that reports its requests, and may refuse them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"
#include "net/client_int.h"

static const char *const variables[] = {"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",
					"all_proxy",  "ALL_PROXY",  "no_proxy",	   "NO_PROXY"};

static int setup(void **state)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		unsetenv(variables[i]);
	return 0;
}

static struct net_address target_of(const char *url)
{
	struct net_address address;
	char prefix[64];
	assert_int_equal(address_parse_url(url, &address, prefix, sizeof(prefix), NULL), 0);
	return address;
}

static void test_no_proxy(void **state)
{
	static const struct {
		const char *list, *url;
		bool direct;
	} cases[] = {
		{"*", "http://x", true},
		{"a,b, *", "http://x", true},
		{"", "http://x", false},
		{NULL, "http://x", false},
		{"example.com", "http://example.com", true},
		{"example.com", "http://EXAMPLE.com.", true},
		{"Example.COM.", "http://www.example.com", true},
		{"example.com", "http://notexample.com", false},
		{"example.com", "http://example.com.org", false},
		{".example.com", "http://example.com", true},
		{".example.com", "http://a.b.example.com", true},
		{"*.example.com", "http://a.example.com", true},
		{"*ample.com", "http://example.com", false},
		{"com", "http://example.com", true},
		{".", "http://example.com", false},
		{"x y\texample.com", "http://example.com", true},
		{",,x,,example.com,,", "http://example.com", true},
		{"example.com:8080", "http://example.com:8080", true},
		{"example.com:8080", "http://example.com", false},
		{"example.com:80", "http://example.com", true},
		{"example.com:443", "https://a.example.com", true},
		{"example.com:x", "http://example.com", false},
		{"example.com:", "http://example.com", false},
		{"192.0.2.1", "http://192.0.2.1", true},
		{"192.0.2.1", "http://192.0.2.11", false},
		{"192.0.2.1:81", "http://192.0.2.1:81", true},
		{"192.0.2.1:81", "http://192.0.2.1", false},
		{"2.1", "http://192.0.2.1", false},
		{"192.0.2.0/24", "http://192.0.2.200:9", true},
		{"192.0.2.0/24", "http://192.0.3.1", false},
		{"192.0.2.128/25", "http://192.0.2.127", false},
		{"192.0.2.128/25", "http://192.0.2.129", true},
		{"0.0.0.0/0", "http://192.0.2.1", true},
		{"0.0.0.0/0", "http://[2001:db8::1]", false},
		{"192.0.2.0/33", "http://192.0.2.1", false},
		{"192.0.2.0/", "http://192.0.2.0", false},
		{"192.0.2.0/24", "http://example.com", false},
		{"2001:db8::1", "http://[2001:db8:0::1]", true},
		{"[2001:db8::1]", "http://[2001:db8::1]", true},
		{"[2001:db8::1]:80", "http://[2001:db8::1]", true},
		{"[2001:db8::1]:81", "http://[2001:db8::1]", false},
		{"[2001:db8::1]x", "http://[2001:db8::1]", false},
		{"2001:db8::/33", "http://[2001:db8:7fff::1]", true},
		{"2001:db8::/33", "http://[2001:db8:8000::1]", false},
		{"[", "http://[2001:db8::1]", false},
		/* Loopback, whatever the list says */
		{NULL, "http://127.0.0.1:7070", true},
		{NULL, "http://127.1.2.3", true},
		{NULL, "http://[::1]", true},
		{NULL, "https://LocalHost", true},
		{NULL, "http://localhost.example.com", false},
		{NULL, "http://128.0.0.1", false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct net_address target = target_of(cases[i].url);
		if (proxy_is_bypassed(&target, cases[i].list) != cases[i].direct)
			fail_msg("%s with no_proxy %s: not %d", cases[i].url, cases[i].list ? cases[i].list : "unset",
				 cases[i].direct);
	}
	static char long_list[20000];
	memset(long_list, 'a', sizeof(long_list) - 1);
	memcpy(long_list + sizeof(long_list) - 13, ",example.com", 12);
	struct net_address target = target_of("http://example.com");
	assert_true(proxy_is_bypassed(&target, long_list));
}

static void test_parse(void **state)
{
	static const struct {
		const char *text, *name, *authorization;
	} good[] = {
		{"http://proxy:3128", "http://proxy:3128 (v)", ""},
		{"HTTP://proxy:3128/", "http://proxy:3128 (v)", ""},
		{"proxy:3128", "http://proxy:3128 (v)", ""},
		{"proxy", "http://proxy:80 (v)", ""},
		{"http://[2001:db8::1]:3128", "http://[2001:db8::1]:3128 (v)", ""},
		{"http://user:secret@proxy:3128", "http://proxy:3128 (v)", "Basic dXNlcjpzZWNyZXQ="},
		{"user@proxy", "http://proxy:80 (v)", "Basic dXNlcjo="},
		{"http://us%20er:p%40:s+%2f@proxy:1", "http://proxy:1 (v)", "Basic dXMgZXI6cEA6cysv"},
		{"http://user:p@ss@proxy:1", "http://proxy:1 (v)", "Basic dXNlcjpwQHNz"},
	};
	static const char *const bad[] = {
		"https://user:secret@proxy:3128",
		"socks5://user:secret@proxy:1080",
		"http://",
		"http://user:secret@",
		"http://user:secret@proxy:port",
		"http://user:secret@proxy:0",
		"http://user:secret@proxy:99999",
		"http://user:secret@proxy/path",
		"http://user:secret%@proxy",
		"http://user:secret%00@proxy",
		"http://user:secret%0d%0aX:y@proxy",
		"http://us%3aer:secret@proxy",
		"http://pro xy",
		"http://user:secret@proxy?x",
		":",
	};
	struct net_proxy proxy;
	struct error error;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (proxy_parse("v", good[i].text, &proxy, &error) < 0)
			fail_msg("%s: %s", good[i].text, error.message);
		assert_string_equal(proxy.name, good[i].name);
		assert_string_equal(proxy.authorization, good[i].authorization);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (proxy_parse("v", bad[i], &proxy, &error) != -EINVAL)
			fail_msg("%s was taken", bad[i]);
		assert_non_null(strstr(error.message, "bad proxy in the environment's v: "));
		assert_null(strstr(error.message, "secret"));
	}
	static char text[3000];
	memset(text, 'a', sizeof(text) - 1);
	assert_int_equal(proxy_parse("v", text, &proxy, &error), -EINVAL);
	memcpy(text + sizeof(text) - 7, "@proxy", 6);
	assert_int_equal(proxy_parse("v", text, &proxy, &error), -EINVAL);
}

static void expect_way(const char *url, const char *name)
{
	struct net_proxy proxy;
	struct net_address target = target_of(url);
	assert_int_equal(proxy_from_environment(&target, &proxy, NULL), name ? 1 : 0);
	if (name)
		assert_string_equal(proxy.name, name);
}

static void expect_with(const char *variable, const char *value, const char *url, const char *name)
{
	setenv(variable, value, 1);
	expect_way(url, name);
}

static void test_environment(void **state)
{
	expect_way("http://x", NULL);
	expect_with("HTTP_PROXY", "cgi:1", "http://x", NULL);
	expect_with("ALL_PROXY", "all:1", "http://x", "http://all:1 (ALL_PROXY)");
	expect_with("all_proxy", "small:1", "http://x", "http://small:1 (all_proxy)");
	expect_with("http_proxy", "plain:1", "http://x", "http://plain:1 (http_proxy)");
	expect_way("https://x", "http://small:1 (all_proxy)");
	expect_with("HTTPS_PROXY", "secure:1", "https://x", "http://secure:1 (HTTPS_PROXY)");
	expect_with("https_proxy", "", "https://x", "http://secure:1 (HTTPS_PROXY)");
	expect_with("https_proxy", "first:1", "https://x", "http://first:1 (https_proxy)");
	expect_way("https://localhost", NULL);
	expect_with("NO_PROXY", "x", "https://x", NULL);
	expect_with("no_proxy", "y", "https://x", "http://first:1 (https_proxy)");
	/* A bad one matters only where it would be the way. */
	expect_with("https_proxy", "socks5://secret@x", "https://y", NULL);
	struct net_proxy proxy;
	struct net_address target = target_of("https://x");
	assert_int_equal(proxy_from_environment(&target, &proxy, NULL), -EINVAL);
	struct net_client *client;
	struct net_client_options options = {.url = "https://x"};
	struct error error;
	assert_int_equal(net_client_new(&options, &client, &error), -EINVAL);
	assert_string_equal(error.message, "bad proxy in the environment's https_proxy: only http proxies are supported; use "
					   "http://[USER:PASSWORD@]HOST:PORT");
	options.direct = true;
	assert_int_equal(net_client_new(&options, &client, &error), 0);
	net_client_free(client);
}

/* An option instead of the environment: it is for loopback, too, unless there is a list. */
static void expect_option(const char *url, const char *no_proxy, const char *name)
{
	struct net_client *client;
	struct net_client_options options = {
		.url = url, .direct = true, .proxy_url = "http://u:secret@option:1", .no_proxy = no_proxy};
	assert_int_equal(net_client_new(&options, &client, NULL), 0);
	assert_int_equal(client->has_proxy, name != NULL);
	if (name)
		assert_string_equal(client->proxy.name, name);
	net_client_free(client);
}

static void test_option(void **state)
{
	struct error error = {0};
	setenv("ALL_PROXY", "environment:1", 1);
	expect_option("http://x", NULL, "http://option:1 (proxy_url)");
	expect_option("http://127.0.0.1", NULL, "http://option:1 (proxy_url)");
	expect_option("https://x", "y", "http://option:1 (proxy_url)");
	expect_option("https://x", "y, x", NULL);
	expect_option("http://127.0.0.1", "y", NULL);
	assert_int_equal(net_proxy_check("http://u:secret@p:1", &error), 0);
	assert_int_equal(net_proxy_check("socks5://u:secret@p:1", &error), -EINVAL);
	assert_string_equal(error.message,
			    "bad proxy_url: only http proxies are supported; use http://[USER:PASSWORD@]HOST:PORT");
}

/* ---- a proxy with configured responses ---- */

static struct {
	int listener;
	const char *answer;
	size_t piece; /* bytes at a time; 0 = all at once */
	char request[4096];
} fake;

static void *run_fake(void *context)
{
	int fd = accept(fake.listener, NULL, NULL);
	ssize_t n = recv(fd, fake.request, sizeof(fake.request) - 1, 0);
	fake.request[n > 0 ? n : 0] = '\0';
	size_t len = strlen(fake.answer), piece = fake.piece ? fake.piece : len;
	for (size_t at = 0; at < len; at += piece) {
		send(fd, fake.answer + at, len - at < piece ? len - at : piece, MSG_NOSIGNAL);
		if (fake.piece)
			time_sleep_ns(NS_PER_MS);
	}
	/* What the client makes of it comes to an end by itself; a reset would take the answer away from it. */
	shutdown(fd, SHUT_WR);
	char rest[1000];
	while (recv(fd, rest, sizeof(rest), 0) > 0)
		;
	close(fd);
	return NULL;
}

static struct net_client_response response;
static struct error call_error;

/* A call to `url` by way of the fake; its result. */
static int call(const char *url, const char *user, const char *answer, bool grpc)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(own);
	struct net_client *client;
	pthread_t thread;
	char proxy[100];
	fake.answer = answer;
	fake.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bind(fake.listener, (struct sockaddr *)&own, len);
	listen(fake.listener, 5);
	getsockname(fake.listener, (struct sockaddr *)&own, &len);
	snprintf(proxy, sizeof(proxy), "http://%s127.0.0.1:%u", user, ntohs(own.sin_port));
	setenv("ALL_PROXY", proxy, 1);
	struct net_client_options options = {.url = url, .token = "token"};
	call_error = (struct error){0};
	assert_int_equal(net_client_new(&options, &client, NULL), 0);
	assert_int_equal(thread_start(&thread, "proxy", run_fake, NULL, NULL), 0);
	response = (struct net_client_response){0};
	int r = grpc ? net_client_grpc(client, "/x", NULL, 0, false, NULL, NULL, &response, &call_error)
		     : net_client_request(client, "GET", "/path?a=b", NULL, (struct bytes){0}, false, &response, &call_error);
	net_client_response_release(&response);
	net_client_free(client);
	pthread_join(thread, NULL);
	close(fake.listener);
	assert_null(strstr(call_error.message, "secret"));
	return r;
}

static void assert_request(const char *beginning)
{
	if (strncmp(fake.request, beginning, strlen(beginning)) != 0)
		fail_msg("not \"%s\" but: %s", beginning, fake.request);
}

static void assert_message(const char *text)
{
	if (!strstr(call_error.message, text))
		fail_msg("no \"%s\" in: %s", text, call_error.message);
}

static void test_plain(void **state)
{
	static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	assert_int_equal(call("http://server.invalid:81/prefix", "", ok, false), 0);
	assert_request("GET http://server.invalid:81/prefix/path?a=b HTTP/1.1\r\nHost: server.invalid:81\r\n");
	assert_non_null(strstr(fake.request, "Authorization: Bearer token\r\n"));
	assert_null(strstr(fake.request, "Proxy-"));
	assert_int_equal(call("http://[2001:db8::1]", "user:secret@", ok, false), 0);
	assert_request("GET http://[2001:db8::1]/path?a=b HTTP/1.1\r\nHost: [2001:db8::1]\r\n");
	assert_non_null(strstr(fake.request, "\r\nProxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"));
	static const char wants[] = "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n";
	assert_int_equal(call("http://server.invalid", "", wants, false), -EACCES);
	assert_message("(ALL_PROXY) requires a user and password");
	assert_int_equal(call("http://server.invalid", "user:secret@", wants, false), -EACCES);
	assert_message("rejects the given user and password for the connection for http://server.invalid");
}

static void test_tunnel_refused(void **state)
{
	static char large[40000] = "HTTP/1.1 200 OK\r\nA: ";
	memset(large + strlen(large), 'a', sizeof(large) - 1 - strlen(large));
	static char endless[40000];
	for (size_t at = 0; at + 26 < sizeof(endless); at += 25)
		snprintf(endless + at, 26, "HTTP/1.1 100 Continue\r\n\r\n");
	static const struct {
		const char *answer, *text;
		int r;
	} cases[] = {
		{"HTTP/1.1 407 No\r\n\r\n", "rejects the given user and password", -EACCES},
		{"HTTP/1.1 403 For\033bidden\r\n\r\n", "(ALL_PROXY) does not connect to ", -EACCES},
		{"HTTP/1.1 403 For\033bidden\r\n\r\n", ": 403 For?bidden", -EACCES},
		{"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\n\r\nhello", ": 502 Bad Gateway", -EHOSTUNREACH},
		{"HTTP/1.1 301 Moved\r\nLocation: http://x/\r\n\r\n", ": 301 Moved", -EHOSTUNREACH},
		{"HTTP/1.1 101 Switching\r\n\r\n", "", -ECONNRESET},
		{"SSH-2.0-x\r\n", "(ALL_PROXY): bad response: ", -EPROTO},
		{"HTTP/1.1 200 OK\n\n", "(ALL_PROXY): bad response: ", -EPROTO},
		{"HTTP/1.1 200 OK\r\nA", "(ALL_PROXY): it closed the connection", -ECONNRESET},
		{"", "(ALL_PROXY): it closed the connection", -ECONNRESET},
		{large, "its header is larger than 16 KiB", -EPROTO},
		{endless, "its header is larger than 16 KiB", -EPROTO},
	};
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		int r = call(i % 2 ? "https://server.invalid" : "http://server.invalid:7070", "user:secret@",
			     cases[i / 2].answer, i % 2 == 0);
		if (r != cases[i / 2].r && cases[i / 2].r != -ECONNRESET)
			fail_msg("case %zu: %d %s", i / 2, r, call_error.message);
		assert_true(r < 0);
		assert_message(cases[i / 2].text);
		assert_request(i % 2 ? "CONNECT server.invalid:443 HTTP/1.1\r\nHost: server.invalid:443\r\n"
				     : "CONNECT server.invalid:7070 HTTP/1.1\r\nHost: server.invalid:7070\r\n");
		assert_non_null(strstr(fake.request, "\r\nProxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"));
		/* The server's token is not for the proxy. */
		assert_null(strstr(fake.request, "token"));
	}
}

/* What follows the head is the server's, also when all comes byte by byte. */
static void test_tunnel_leaves_the_rest(void **state)
{
	static const char answer[] =
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Connection established\r\nContent-Length: 3\r\n\r\n"
		"this is no TLS at all";
	for (fake.piece = 0; fake.piece < 2; fake.piece++) {
		assert_int_equal(call("https://server.invalid", "", answer, false), -EPROTO);
		assert_message("TLS handshake with https://server.invalid failed: wrong version number");
		assert_null(strstr(fake.request, "Proxy-"));
	}
	fake.piece = 0;
}

static void test_proxy_away(void **state)
{
	struct net_client *client;
	struct net_client_options options = {.url = "http://server.invalid"};
	setenv("http_proxy", "http://user:secret@127.0.0.1:1", 1);
	assert_int_equal(net_client_new(&options, &client, NULL), 0);
	response = (struct net_client_response){0};
	assert_int_equal(net_client_request(client, "GET", "/", NULL, (struct bytes){0}, false, &response, &call_error),
			 -ECONNREFUSED);
	assert_message("cannot connect to the proxy http://127.0.0.1:1 (http_proxy), for http://server.invalid: ");
	net_client_free(client);
	setenv("http_proxy", "http://user:secret@proxy.invalid:1", 1);
	assert_int_equal(net_client_new(&options, &client, NULL), 0);
	assert_int_equal(net_client_request(client, "GET", "/", NULL, (struct bytes){0}, false, &response, &call_error),
			 -EHOSTUNREACH);
	assert_message("cannot connect to the proxy http://proxy.invalid:1 (http_proxy), for http://server.invalid: ");
	net_client_free(client);
	net_client_response_release(&response);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		TEST(test_no_proxy),
		TEST(test_parse),
		TEST(test_environment),
		TEST(test_option),
		TEST(test_plain),
		TEST(test_tunnel_refused),
		TEST(test_tunnel_leaves_the_rest),
		TEST(test_proxy_away),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
