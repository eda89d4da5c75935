/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the server's areas: a whole server with a store in a directory of its own, of which the event loop does not run.
 * Requests are made of text and go through access control and routes to their handlers, as the loop would have it, but on the
 * caller's thread:
 *
 *   struct test_server test;
 *   test_server_open(&test, NULL);
 *   test_expect(&test, "POST /api/v1/ingest?format=folded\nX-Scope-OrgID: a\n\nmain;b 5\n", 200, "\"samples\":1");
 *   test_server_close(&test);
 */
#ifndef WICK_SERVER_TEST_SERVER_H
#define WICK_SERVER_TEST_SERVER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "net/net_int.h"
#include "server/core/server_int.h"
#include "server/http/access.h"
#include "server/ingest/ingest_int.h"
#include "symbol/worker.h"

#define TEST_UNUSED __attribute__((unused))

/* The server runs its own program to read files of others, which is this test. */
static __attribute__((constructor)) void test_become_worker(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], SYMBOL_WORKER_VERB) == 0)
		_exit(symbol_worker_main());
}

/* ---- requests ---- */

/* head: "METHOD /target" and lines of headers, each "Name: value", with '\n' between them. A Host of the loopback is added. */
static inline void test_request_make(struct net_request *request, const char *head, struct bytes body)
{
	char copy[16 * 1024], *rest = copy, *line;
	struct error err = {0};
	if ((size_t)snprintf(copy, sizeof(copy), "%s", head) >= sizeof(copy))
		fail_msg("the head of the request is too long");
	request_init(request, 64 * 1024);
	buffer_init(&request->body, GIB);
	char *target = strsep(&rest, "\n"), *method = strsep(&target, " ");
	request->method = arena_strndup(&request->arena, method, strlen(method));
	static struct net_user root = {.fd = -1, .is_known = true};
	request->loopback = true;
	request->user = &root;
	if (request_parse_target(request, bytes_of_string(target), &err) < 0)
		fail_msg("%s: %s", target, err.message);
	while ((line = strsep(&rest, "\n"))) {
		char *value = strstr(line, ": ");
		if (!value)
			continue;
		assert_int_equal(request_add_header(request, (struct bytes){(uint8_t *)line, (size_t)(value - line)},
						    bytes_of_string(value + 2)),
				 0);
	}
	if (!net_request_header(request, "host"))
		request_add_header(request, bytes_of_string("Host"), bytes_of_string("127.0.0.1:7070"));
	const char *type = net_request_header(request, "content-type");
	request->grpc = type && (strcmp(type, "application/grpc") == 0 || text_starts_with(type, "application/grpc+"));
	assert_int_equal(buffer_append(&request->body, body.data, body.len), 0);
}

/* ---- a server ---- */

struct test_server {
	char directory[64];
	struct server *server;
	/* of the last request: */
	struct net_response response;
	const char *text; /* the body, NUL-terminated */
	bool is_remote;	  /* requests come from another machine */
};

/* What the network layer would answer by itself. */
static inline void test_refuse(struct test_server *test, const struct net_request *request, int status, const char *text)
{
	test->response.status = status;
	snprintf(test->response.message, sizeof(test->response.message), "%s", text);
	response_body_error(&test->response, text);
	ingest_on_refusal(test->server, request, &test->response);
}

/* The status of the answer to a request with any bytes as its body. */
static inline int test_ask_bytes(struct test_server *test, const char *head, struct bytes body)
{
	struct net_request request;
	const struct net_route *route;
	char allow[64];
	test_request_make(&request, head, body);
	request.loopback = !test->is_remote;
	net_response_release(&test->response);
	net_response_init(&test->response);
	int status = route_find(test->server->routes, request.method, request.path, &route, allow, sizeof(allow));
	request.permission = status ? 0 : route->permission;
	if (access_authorize(test->server, &request, &test->response)) {
		size_t max = status ? 0 : route->body_max ? route->body_max : server_body_max(test->server);
		if (status)
			test_refuse(test, &request, status, status == 404 ? "no such path" : "no such method");
		else if (body.len > max)
			test_refuse(test, &request, 413, "the body is too large");
		else
			route->handler(route->context, &request, &test->response);
	}
	net_response_unlimit(&test->response);
	test->text = buffer_string(&test->response.body);
	request_release(&request);
	return test->response.status;
}

/* The same with all in one text; the body follows an empty line. */
static inline int test_ask(struct test_server *test, const char *text)
{
	const char *body = strstr(text, "\n\n");
	_cleanup_(buffer_release) struct buffer head = {0};
	buffer_init(&head, MIB);
	assert_int_equal(buffer_append(&head, text, body ? (size_t)(body - text) : strlen(text)), 0);
	return test_ask_bytes(test, buffer_string(&head), bytes_of_string(body ? body + 2 : ""));
}

/* The status, and a text that must be in the body. */
static inline TEST_UNUSED void test_expect(struct test_server *test, const char *text, int status, const char *part)
{
	int got = test_ask(test, text);
	if (got != status || !strstr(test->text, part))
		fail_msg("%.200s\n: %d %.500s\n, not %d with %s", text, got, test->text, status, part);
}

/* Whether the answer has this header, "Name: value". */
static inline TEST_UNUSED bool test_has_header(struct test_server *test, const char *line)
{
	const char *headers = buffer_string(&test->response.headers);
	return headers && strstr(headers, line);
}

/* options: NULL = the defaults; the directory, the port and what would leave this machine are set here. */
static inline void test_server_reopen(struct test_server *test, const struct server_options *options)
{
	struct server_options own;
	struct error err = {0};
	server_options_init(&own);
	if (options)
		own = *options;
	own.data_directory = test->directory;
	own.listen = "127.0.0.1:0";
	own.link_fd = -1;
	own.no_host_files = true;
	own.symbols.debuginfod_urls = "";
	net_response_release(&test->response);
	net_response_init(&test->response);
	test->server = server_free(test->server);
	if (server_new(&own, &test->server, &err) < 0)
		fail_msg("%s", err.message);
}

static inline TEST_UNUSED void test_server_open(struct test_server *test, const struct server_options *options)
{
	/* In memory where that is possible: nothing here pulls the plug. */
	char in_memory[] = "/dev/shm/wick-server-XXXXXX", on_disk[] = "/tmp/wick-server-XXXXXX";
	*test = (struct test_server){.text = ""};
	snprintf(test->directory, sizeof(test->directory), "%s", mkdtemp(in_memory) ? in_memory : mkdtemp(on_disk));
	test_server_reopen(test, options);
}

static inline TEST_UNUSED void test_server_close(struct test_server *test)
{
	net_response_release(&test->response);
	server_free(test->server);
	io_remove_tree(test->directory, NULL);
}

#endif
