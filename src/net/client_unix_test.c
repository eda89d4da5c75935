/* SPDX-License-Identifier: Apache-2.0 */
/* Requests over a socket of the file system, and the response's header that is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/time.h"
#include "net/net.h"

struct daemon {
	char directory[64], path[80];
	int fd;
	pthread_t thread;
	char request[2000];
};

static void listen_at(struct daemon *daemon, int backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(daemon->directory, sizeof(daemon->directory), "/tmp/wick-unix-XXXXXX");
	assert_non_null(mkdtemp(daemon->directory));
	snprintf(daemon->path, sizeof(daemon->path), "%s/socket", daemon->directory);
	memcpy(address.sun_path, daemon->path, strlen(daemon->path));
	daemon->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(daemon->fd >= 0);
	assert_int_equal(bind(daemon->fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(daemon->fd, backlog), 0);
}

static void forget(struct daemon *daemon)
{
	close(daemon->fd);
	unlink(daemon->path);
	rmdir(daemon->directory);
}

/* Two requests on one connection. */
static void *serve(void *context)
{
	static const char response[] = "HTTP/1.1 200 OK\r\nX-Index: 17\r\nContent-Length: 2\r\n\r\nok";
	struct daemon *daemon = context;
	int fd = accept(daemon->fd, NULL, NULL);
	for (unsigned i = 0; i < 2; i++) {
		size_t len = 0;
		daemon->request[0] = '\0';
		while (!strstr(daemon->request, "\r\n\r\n")) {
			ssize_t n = read(fd, daemon->request + len, sizeof(daemon->request) - 1 - len);
			if (n <= 0)
				return NULL;
			len += (size_t)n;
			daemon->request[len] = '\0';
		}
		if (send(fd, response, sizeof(response) - 1, MSG_NOSIGNAL) < 0)
			return NULL;
	}
	close(fd);
	return NULL;
}

static void test_requests(void **state)
{
	struct daemon daemon = {0};
	struct net_client *client;
	struct net_client_response response = {0};
	listen_at(&daemon, 4);
	assert_int_equal(thread_start(&daemon.thread, "daemon", serve, &daemon, NULL), 0);
	const struct net_client_options options = {
		.url = "http://docker", .unix_path = daemon.path, .keep_header = "X-Index", .proxy_url = "http://127.0.0.1:1"};
	assert_int_equal(net_client_new(&options, &client, NULL), 0);
	for (unsigned i = 0; i < 2; i++) {
		net_client_clear_headers(client);
		if (i == 0)
			assert_int_equal(net_client_set_header(client, "X-Once", "1", NULL), 0);
		assert_int_equal(
			net_client_request(client, "GET", "/v1/x?a=b", NULL, (struct bytes){0}, NET_PLAIN, &response, NULL), 0);
		assert_int_equal(response.status, 200);
		assert_string_equal(response.kept, "17");
		assert_int_equal(response.body.len, 2);
	}
	pthread_join(daemon.thread, NULL);
	assert_non_null(strstr(daemon.request, "GET /v1/x?a=b HTTP/1.1\r\nHost: docker\r\n"));
	assert_null(strcasestr(daemon.request, "x-once")); /* of the first request only */
	net_client_response_release(&response);
	net_client_free(client);
	forget(&daemon);
}

static int request(const char *path, int64_t timeout_ns, struct error *err)
{
	struct net_client *client;
	struct net_client_response response = {0};
	const struct net_client_options options = {.url = "http://docker", .unix_path = path, .timeout_ns = timeout_ns};
	int r = net_client_new(&options, &client, err);
	if (r < 0)
		return r;
	r = net_client_request(client, "GET", "/", NULL, (struct bytes){0}, NET_PLAIN, &response, err);
	net_client_response_release(&response);
	net_client_free(client);
	return r;
}

static void test_nobody(void **state)
{
	char path[200];
	struct error err = {0};
	assert_int_equal(request("/nowhere/socket", 0, &err), -ENOENT);
	assert_non_null(strstr(err.message, "cannot connect to unix:///nowhere/socket: No such file"));
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(request(path, 0, &err), -EINVAL);
	assert_non_null(strstr(err.message, "bad socket path"));
	assert_int_equal(request("", 0, &err), -EINVAL);
}

/* A daemon that accepts nobody: those who wait have an end. */
static void test_full(void **state)
{
	struct daemon daemon = {0};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct error err = {0};
	int waiting[8];
	size_t count = 0;
	listen_at(&daemon, 0);
	memcpy(address.sun_path, daemon.path, strlen(daemon.path));
	for (; count < 8; count++) {
		waiting[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (connect(waiting[count], (const struct sockaddr *)&address, sizeof(address)) < 0)
			break;
	}
	assert_true(count < 8 && errno == EAGAIN);
	assert_int_equal(request(daemon.path, 200 * NS_PER_MS, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.message, "no response within"));
	for (size_t i = 0; i <= count; i++)
		close(waiting[i]);
	forget(&daemon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_requests), cmocka_unit_test(test_nobody),
					   cmocka_unit_test(test_full)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
