/* SPDX-License-Identifier: Apache-2.0 */
/* The server on a real socket in a thread, our client against it, and raw sockets where a client would be too polite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/limits.h"
#include "base/thread.h"
#include "codec/compress.h"
#include "net/certificates_test.h"
#include "net/dial_test.h"
#include "net/net_int.h"
#include "net/routes_test.h"

static struct net_server *server;
static pthread_t server_thread;
static bool server_joined;
static unsigned stall_seconds;			/* 0 = the default */
static struct net_tls *server_tls, *client_tls; /* of the tests that are run again under TLS */

static void *serve(void *context)
{
	struct error error = {0};
	if (net_server_run(server, &error) < 0)
		fprintf(stderr, "net_server_run: %s\n", error.message);
	return NULL;
}

static int start(unsigned connections_max, unsigned request_seconds_max)
{
	struct net_server_options options = {.listen = "127.0.0.1:0",
					     .routes = test_routes,
					     .authorize = test_authorize,
					     .connections_max = connections_max,
					     .request_seconds_max = request_seconds_max,
					     .stall_seconds_max = stall_seconds,
					     .tls = server_tls};
	struct error error = {0};
	test_cancelled_count = test_closed_count = test_slow_count = 0;
	server_joined = false;
	if (net_server_new(&options, &server, &error) < 0 || thread_start(&server_thread, "server", serve, NULL, &error) < 0) {
		fprintf(stderr, "%s\n", error.message);
		return -1;
	}
	return 0;
}

static int setup(void **state)
{
	return start(0, 0);
}

static void join(void)
{
	if (!server_joined)
		pthread_join(server_thread, NULL);
	server_joined = true;
}

static int teardown(void **state)
{
	net_server_stop(server);
	join();
	server = net_server_free(server);
	return 0;
}

static struct net_server_stats stats(void)
{
	struct net_server_stats ret;
	net_server_get_stats(server, &ret);
	return ret;
}

/* ---- raw sockets ---- */

static void put(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static int dial_and_put(const char *text)
{
	int fd = test_dial(server);
	put(fd, text);
	return fd;
}

/* Until the server closes, or until text is there. */
static const char *get_until(int fd, const char *text)
{
	static char answer[300000];
	size_t len = 0;
	answer[0] = '\0';
	while (len < sizeof(answer) - 1 && !(text && strstr(answer, text))) {
		struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
		if (poll(&poll_fd, 1, 120000) <= 0) /* only what has failed waits so long */
			fail_msg("no answer; so far: %s", answer);
		ssize_t n = recv(fd, answer + len, sizeof(answer) - 1 - len, 0);
		if (n <= 0)
			break;
		len += (size_t)n;
		answer[len] = '\0';
	}
	return answer;
}

static void test_garbage(void **state)
{
	static const char *const garbage[] = {"\x16\x03\x01\x02", "SSH-2.0-x\r\n", "\n\n\n\n\n",
					      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nrubbish rubbish rubbish"};
	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		int fd = dial_and_put(garbage[i]);
		get_until(fd, NULL);
		close(fd);
	}
	assert_true(stats().protocol_errors >= 3);
}

static void test_raw_http1(void **state)
{
	int fd = dial_and_put(
		"GET /show HTTP/1.1\r\nHost: x\r\n\r\nGET /show?a=2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	const char *answer = get_until(fd, NULL);
	assert_non_null(strstr(answer, "GET /show a=- "));
	assert_non_null(strstr(answer, "GET /show a=2 "));
	close(fd);
	/* Refused with megabytes under way: the answer arrives all the same. */
	fd = dial_and_put("POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n");
	char chunk[30000] = {0};
	for (int i = 0; i < 100; i++)
		if (send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL) < 0)
			break;
	assert_non_null(strstr(get_until(fd, NULL), "HTTP/1.1 413 "));
	close(fd);
}

static void wait_for(const int *count, int value)
{
	for (int i = 0; i < 24000 && __atomic_load_n(count, __ATOMIC_SEQ_CST) != value; i++)
		time_sleep_ns(5 * NS_PER_MS);
	assert_int_equal(__atomic_load_n(count, __ATOMIC_SEQ_CST), value);
}

/* At the limit, whoever has been idle for longest goes; those that are at work stay, and if all are, a new one is refused. */
static void test_connections_max(void **state)
{
	teardown(state);
	assert_int_equal(start(3, 0), 0);
	int fds[5];
	for (int i = 0; i < 3; i++) {
		fds[i] = test_dial(server);
		put(fds[i], "GET /show HTTP/1.1\r\nHost: x\r\n\r\n");
		get_until(fds[i], "body=0");
	}
	fds[3] = test_dial(server);
	assert_string_equal(get_until(fds[0], NULL), ""); /* closed */
	assert_int_equal(stats().connections_evicted, 1);
	assert_int_equal(stats().evicted_for[NET_LIMIT_TOTAL], 1);
	for (int i = 1; i < 4; i++)
		put(fds[i], "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(&test_slow_count, 3);
	fds[4] = test_dial(server);
	assert_non_null(strstr(get_until(fds[4], NULL), "503 Service Unavailable"));
	assert_int_equal(stats().connections_refused, 1);
	assert_int_equal(stats().refused_for[NET_LIMIT_TOTAL], 1);
	assert_int_equal(stats().connections_open, 3);
	for (int i = 0; i < 5; i++)
		close(fds[i]);
	wait_for(&test_cancelled_count, 3);
}

/* Clients that share have one connection as long as their calls do not overlap, also when it was closed in between. */
static void test_shared_connection(void **state)
{
	char url[100];
	struct net_client *clients[3];
	struct net_client_response answer = {0};
	snprintf(url, sizeof(url), "http://%s", net_server_address(server));
	for (size_t i = 0; i < 3; i++) {
		struct net_client_options options = {.url = url, .shared = i < 2};
		assert_int_equal(net_client_new(&options, &clients[i], NULL), 0);
	}
	uint64_t before = stats().connections_accepted;
	for (int round = 0; round < 5; round++)
		for (size_t i = 0; i < 2; i++) {
			assert_int_equal(net_client_request(clients[i], "GET", "/show", NULL, (struct bytes){0}, NET_PLAIN,
							    &answer, NULL),
					 0);
			assert_int_equal(answer.status, 200);
		}
	assert_int_equal(stats().connections_accepted, before + 1);
	/* The third has its own. */
	assert_int_equal(net_client_request(clients[2], "GET", "/show", NULL, (struct bytes){0}, NET_PLAIN, &answer, NULL), 0);
	assert_int_equal(stats().connections_accepted, before + 2);
	/* What one leaves behind outlives it. */
	net_client_free(clients[0]);
	assert_int_equal(net_client_request(clients[1], "GET", "/show", NULL, (struct bytes){0}, NET_PLAIN, &answer, NULL), 0);
	assert_int_equal(stats().connections_accepted, before + 2);
	net_client_free(clients[1]);
	net_client_free(clients[2]);
	net_client_response_release(&answer);
}

static void test_cancelled_when_peer_goes(void **state)
{
	int fd = dial_and_put("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(&test_slow_count, 1);
	close(fd);
	wait_for(&test_cancelled_count, 1);
}

static void test_handler_deadline(void **state)
{
	teardown(state);
	assert_int_equal(start(0, 1), 0);
	int fd = dial_and_put("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
	const char *answer = get_until(fd, NULL);
	assert_non_null(strstr(answer, "HTTP/1.1 503 "));
	assert_non_null(strstr(answer, "took longer than 1 s"));
	close(fd);
	wait_for(&test_cancelled_count, 1);
	/* Slowloris, with the one second given here */
	fd = dial_and_put("GET /sl");
	assert_non_null(strstr(get_until(fd, NULL), "HTTP/1.1 408 "));
	close(fd);
}

/* ---- answers that are sent while they are made ---- */

#define LONG_ANSWER 30000000

static int ask_for_long_answer(void)
{
	__atomic_store_n(&test_flow_result, 1, __ATOMIC_SEQ_CST);
	return dial_and_put("GET /slowflow?n=30000000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

/* Until the end; *ret_last: the last bytes. */
static size_t drain(int fd, char last[static 8])
{
	static char chunk[65536];
	size_t len = 0;
	ssize_t n;
	memset(last, 0, 8);
	while ((n = recv(fd, chunk, sizeof(chunk), 0)) > 0) {
		len += (size_t)n;
		if (n >= 7)
			memcpy(last, chunk + n - 7, 7);
	}
	return len;
}

/* The handler waits for a reader that is slow, in little memory, but not for long: then the rest waits alone. */
static void test_flow_to_slow_reader(void **state)
{
	char last[8];
	int64_t begun_ns = time_monotonic_ns();
	int fd = ask_for_long_answer();
	for (int i = 0; i < 24000 && stats().answer_bytes < NET_FLOW_BYTES; i++)
		time_sleep_ns(5 * NS_PER_MS);
	for (int64_t full_ns = time_monotonic_ns(); time_monotonic_ns() - full_ns < NET_PATIENCE_NS / 2;) {
		uint64_t bytes = stats().answer_bytes;
		if (time_monotonic_ns() - full_ns < NET_PATIENCE_NS / 2)
			assert_true(bytes <= NET_FLOW_BYTES + NET_FLUSH_BYTES);
		time_sleep_ns(5 * NS_PER_MS);
	}
	wait_for(&test_flow_result, 0);
	assert_true(time_monotonic_ns() - begun_ns >= NET_PATIENCE_NS);
	assert_true(stats().answer_bytes > LONG_ANSWER / 2);
	for (int i = 0; i < 24000 && stats().slow_running > 0; i++)
		time_sleep_ns(5 * NS_PER_MS);
	assert_int_equal(stats().slow_running, 0);
	assert_true(drain(fd, last) > LONG_ANSWER);
	assert_string_equal(last, "\r\n0\r\n\r\n");
	close(fd);
	for (int i = 0; i < 24000 && stats().requests_open > 0; i++)
		time_sleep_ns(5 * NS_PER_MS);
	assert_int_equal(stats().answer_bytes, 0);
	assert_int_equal(stats().answers_broken, 0);
}

static void test_flow_whose_reader_goes(void **state)
{
	int fd = ask_for_long_answer();
	get_until(fd, "\r\n\r\n");
	close(fd);
	wait_for(&test_flow_result, -ECANCELED);
	for (int i = 0; i < 24000 && stats().requests_open > 0; i++)
		time_sleep_ns(5 * NS_PER_MS);
	assert_int_equal(stats().answer_bytes, 0);
}

static void test_flow_to_stalled_reader(void **state)
{
	char last[8];
	teardown(state);
	stall_seconds = 1;
	assert_int_equal(start(0, 0), 0);
	stall_seconds = 0;
	int fd = ask_for_long_answer();
	wait_for(&test_flow_result, -ECANCELED);
	assert_int_equal(stats().answers_stalled, 1);
	/* What the kernel had is still there to be read, and then no end of the answer. */
	assert_true(drain(fd, last) < LONG_ANSWER);
	assert_string_not_equal(last, "\r\n0\r\n\r\n");
	close(fd);
}

/* A stop waits for it as for any other, and no longer. */
static void test_stop_during_a_flow(void **state)
{
	char last[8];
	int fd = ask_for_long_answer();
	get_until(fd, "\r\n\r\n");
	net_server_stop(server);
	assert_true(drain(fd, last) > LONG_ANSWER / 2);
	assert_string_equal(last, "\r\n0\r\n\r\n");
	close(fd);
	join();
}

/* ---- stopping ---- */

static void test_stop_during_a_request(void **state)
{
	int busy = test_dial(server), idle = test_dial(server);
	put(idle, "GET /show HTTP/1.1\r\nHost: x\r\n\r\n");
	get_until(idle, "body=0");
	uint64_t before = stats().requests;
	put(busy, "GET /slow?ms=500 HTTP/1.1\r\nHost: x\r\n\r\n");
	for (int i = 0; i < 24000 && stats().requests == before; i++)
		time_sleep_ns(5 * NS_PER_MS);
	net_server_stop(server);
	assert_string_equal(get_until(idle, NULL), "");
	const char *answer = get_until(busy, NULL);
	assert_non_null(strstr(answer, "200 OK"));
	assert_non_null(strstr(answer, "{\"cancelled\":false}"));
	close(busy);
	close(idle);
	join();
}

static void test_address(void **state)
{
	struct net_server_options options = {.routes = test_routes};
	struct net_server *other;
	struct error error;
	options.listen = net_server_address(server);
	assert_int_equal(net_server_new(&options, &other, &error), -EADDRINUSE);
	char expected[200];
	snprintf(
		expected, sizeof(expected),
		"cannot listen on %s: address already in use; stop the other program or choose another with --listen ADDR:PORT",
		options.listen);
	assert_string_equal(error.message, expected);
	options.listen = "localhost:0";
	assert_int_equal(net_server_new(&options, &other, &error), 0);
	assert_int_equal(strncmp(net_server_address(other), "127.0.0.1:", 10), 0);
	assert_string_not_equal(net_server_address(other), "127.0.0.1:0");
	net_server_stop(other);
	assert_int_equal(net_server_run(other, &error), 0);
	assert_int_equal(net_server_run(other, &error), -EINVAL);
	net_server_free(other);
	options.listen = "nowhere";
	assert_int_equal(net_server_new(&options, &other, &error), -EINVAL);
	options.listen = "host.invalid:1";
	assert_int_equal(net_server_new(&options, &other, &error), -EINVAL);
	options.listen = "192.0.2.1:1";
	assert_int_equal(net_server_new(&options, &other, &error), -EADDRNOTAVAIL);
}

static void test_new_short_of_memory(void **state)
{
	struct net_server_options options = {.listen = "127.0.0.1:0", .routes = test_routes};
	int r = -ENOMEM;
	uint64_t n;
	for (n = 1; r == -ENOMEM && n < 100; n++) {
		struct net_server *other = NULL;
		fault_arm(FAULT_ALLOC, n, 0);
		r = net_server_new(&options, &other, NULL);
		fault_disarm(FAULT_ALLOC);
		net_server_free(other);
	}
	assert_int_equal(r, 0);
	assert_true(n > 5);
}

/* ---- our client ---- */

static struct net_client *client;
static struct net_client_response answer;
static struct error client_error;

static void connect_client(const struct net_client_options *more)
{
	char url[100];
	struct net_client_options options = more ? *more : (struct net_client_options){0};
	snprintf(url, sizeof(url), "%s://%s%s", server_tls ? "https" : "http", net_server_address(server),
		 options.url ? options.url : "");
	options.tls = client_tls;
	options.url = url;
	assert_int_equal(net_client_new(&options, &client, &client_error), 0);
	answer = (struct net_client_response){0};
}

static void disconnect_client(void)
{
	net_client_response_release(&answer);
	client = net_client_free(client);
}

static void request(const char *method, const char *path, struct bytes body, enum net_gzip gzip)
{
	int r = net_client_request(client, method, path, "text/plain", body, gzip, &answer, &client_error);
	if (r < 0)
		fail_msg("%s %s: %d %s", method, path, r, client_error.message);
}

static const struct bytes nothing;

static void test_client_http(void **state)
{
	connect_client(NULL);
	request("GET", "/show?a=1", nothing, false);
	assert_int_equal(answer.status, 200);
	assert_string_equal(answer.content_type, "text/plain");
	assert_string_equal(answer.message, "OK");
	assert_true(bytes_equal_string(buffer_bytes(&answer.body), "GET /show a=1 a2=- body=0"));
	size_t len = 20 * MIB;
	uint8_t *data = malloc(len);
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 24);
	request("POST", "/echo", (struct bytes){data, len}, false);
	assert_true(bytes_equal(buffer_bytes(&answer.body), (struct bytes){data, len}));
	request("PUT", "/echo", (struct bytes){data, MIB}, true);
	assert_true(bytes_equal(buffer_bytes(&answer.body), (struct bytes){data, MIB}));
	struct buffer packed;
	buffer_init(&packed, 2 * MIB);
	assert_int_equal(gzip_compress((struct bytes){data, MIB}, 1, &packed, NULL), 0);
	assert_int_equal(net_client_set_header(client, "X-Status", "202", NULL), 0);
	request("PUT", "/echo", buffer_bytes(&packed), NET_GZIPPED);
	assert_int_equal(answer.status, 202);
	assert_int_equal(net_client_set_header(client, "x-status", NULL, NULL), 0);
	buffer_release(&packed);
	assert_true(bytes_equal(buffer_bytes(&answer.body), (struct bytes){data, MIB}));
	request("POST", "/small", (struct bytes){data, len}, false);
	assert_int_equal(answer.status, 413);
	free(data);
	static const char *const made[] = {"/flow?n=3000000", "/pull?n=3000000"}, *const broken[] = {
											  "/flow?n=3000000&fail=2900000",
											  "/pull?n=3000000&fail=2900000"};
	for (size_t i = 0; i < 2; i++) {
		request("GET", made[i], nothing, false);
		assert_int_equal(answer.body.len, 3000000);
		for (size_t k = 0; k < answer.body.len; k++)
			assert_true(answer.body.data[k] == test_byte(k));
		assert_true(net_client_request(client, "GET", broken[i], NULL, nothing, false, &answer, &client_error) < 0);
	}
	request("HEAD", "/big?n=100000", nothing, false);
	assert_int_equal(answer.body.len, 0);
	request("GET", "/big?n=100000", nothing, false); /* comes compressed */
	assert_int_equal(answer.body.len, 100000);
	request("GET", "/none", nothing, false);
	assert_int_equal(answer.status, 204);
	request("GET", "/nothing", nothing, false);
	assert_int_equal(answer.status, 404);
	/* One connection for all; others after the 413 and the two answers that broke off, which closed it. */
	assert_int_equal(stats().connections_accepted, 4);
	disconnect_client();
}

static void test_client_limits(void **state)
{
	static atomic_bool cancel;
	connect_client(&(struct net_client_options){.timeout_ns = 2 * NS_PER_S});
	assert_int_equal(net_client_request(client, "GET", "/slow", NULL, nothing, false, &answer, &client_error), -ETIMEDOUT);
	assert_non_null(strstr(client_error.message, "no response within 2 s"));
	wait_for(&test_cancelled_count, 1);
	disconnect_client();
	connect_client(&(struct net_client_options){.response_max = 1000, .cancel = &cancel});
	assert_int_equal(net_client_request(client, "GET", "/big?n=2000", NULL, nothing, false, &answer, &client_error),
			 -E2BIG);
	assert_int_equal(net_client_request(client, "GET", "/big?n=2000&raw=1", NULL, nothing, false, &answer, &client_error),
			 -E2BIG);
	assert_non_null(strstr(client_error.message, "larger than the limit of 1000 B"));
	cancel = true;
	assert_int_equal(net_client_request(client, "GET", "/show", NULL, nothing, false, &answer, &client_error), -ECANCELED);
	assert_int_equal(net_client_grpc(client, "/test.Echo/Unary", NULL, 0, false, NULL, NULL, &answer, &client_error),
			 -ECANCELED);
	cancel = false;
	request("GET", "/show", nothing, false);
	static const char *const bad_paths[] = {"", "show", "/a b", "/a\r\nX: y", "/\xc3\xa4", NULL};
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(net_client_request(client, "GET", bad_paths[i], NULL, nothing, false, &answer, &client_error),
				 -EINVAL);
	assert_int_equal(net_client_request(client, "G T", "/", NULL, nothing, false, &answer, &client_error), -EINVAL);
	assert_int_equal(net_client_request(client, "GET", "/", "a\nb", nothing, false, &answer, &client_error), -EINVAL);
	disconnect_client();
	struct net_client_options options = (struct net_client_options){.url = "http://x", .token = "a\n"};
	assert_int_equal(net_client_new(&options, &client, &client_error), -EINVAL);
	/* Nobody there */
	options = (struct net_client_options){.url = "http://127.0.0.1:1"};
	assert_int_equal(net_client_new(&options, &client, &client_error), 0);
	answer = (struct net_client_response){0};
	assert_int_equal(net_client_request(client, "GET", "/", NULL, nothing, false, &answer, &client_error), -ECONNREFUSED);
	assert_non_null(strstr(client_error.message, "is the server running there?"));
	disconnect_client();
}

/* A kept connection that the server has closed is remade without a word. */
static void test_client_reconnects(void **state)
{
	connect_client(NULL);
	struct bytes message = bytes_of_string("hello");
	request("GET", "/show", nothing, false);
	assert_int_equal(net_client_grpc(client, "/test.Echo/Unary", &message, 1, false, NULL, NULL, &answer, &client_error),
			 0);
	char listen[64];
	snprintf(listen, sizeof(listen), "%s", net_server_address(server));
	net_server_stop(server);
	join();
	server = net_server_free(server);
	struct net_server_options options = {.listen = listen, .routes = test_routes, .tls = server_tls};
	assert_int_equal(net_server_new(&options, &server, &client_error), 0);
	server_joined = false;
	assert_int_equal(thread_start(&server_thread, "server", serve, NULL, NULL), 0);
	request("POST", "/echo", message, false);
	assert_int_equal(answer.status, 200);
	assert_int_equal(net_client_grpc(client, "/test.Echo/Unary", &message, 1, false, NULL, NULL, &answer, &client_error),
			 0);
	assert_int_equal(answer.grpc_status, GRPC_OK);
	disconnect_client();
}

static unsigned messages_seen;
static size_t message_bytes_seen;
static void count_message(void *context, struct bytes message)
{
	messages_seen++;
	message_bytes_seen += message.len;
}

static void grpc(const char *path, const struct bytes *messages, size_t count, enum net_gzip gzip, bool counting)
{
	messages_seen = 0;
	message_bytes_seen = 0;
	int r = net_client_grpc(client, path, messages, count, gzip, counting ? count_message : NULL, NULL, &answer,
				&client_error);
	if (r < 0)
		fail_msg("%s: %d %s", path, r, client_error.message);
	assert_int_equal(answer.status, 200);
}

static void test_client_grpc(void **state)
{
	connect_client(NULL);
	struct bytes hello = bytes_of_string("hello");
	grpc("/test.Echo/Unary", &hello, 1, false, false);
	assert_int_equal(answer.grpc_status, GRPC_OK);
	assert_true(bytes_equal(buffer_bytes(&answer.body), hello));
	struct buffer packed;
	buffer_init(&packed, KIB);
	assert_int_equal(gzip_compress(hello, 1, &packed, NULL), 0);
	struct bytes gzipped = buffer_bytes(&packed);
	grpc("/test.Echo/Unary", &gzipped, 1, NET_GZIPPED, false);
	assert_true(bytes_equal(buffer_bytes(&answer.body), hello));
	buffer_release(&packed);
	grpc("/test.Echo/Fail", &hello, 1, false, false);
	assert_int_equal(answer.grpc_status, GRPC_INVALID_ARGUMENT);
	assert_string_equal(answer.message, "bad profile: \"x\" is 100% wrong \xc3\xa4");
	grpc("/test.Echo/Nothing", &hello, 1, false, false);
	assert_int_equal(answer.grpc_status, GRPC_UNIMPLEMENTED);
	grpc("/test.Echo/Unary", &hello, 0, false, false);
	assert_int_equal(answer.grpc_status, GRPC_INTERNAL);
	size_t len = 10 * MIB;
	uint8_t *data = malloc(len);
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 26);
	struct bytes large = {data, len};
	for (int gzip = 0; gzip < 2; gzip++) {
		grpc("/test.Echo/Unary", &large, 1, gzip, false);
		assert_int_equal(answer.grpc_status, GRPC_OK);
		assert_true(bytes_equal(buffer_bytes(&answer.body), large));
	}
	grpc("/test.Echo/Small", &large, 1, false, false);
	assert_int_equal(answer.grpc_status, GRPC_RESOURCE_EXHAUSTED);
	free(data);
	assert_int_equal(stats().connections_accepted, 1);
	disconnect_client();
}

static void test_client_grpc_streams(void **state)
{
	connect_client(NULL);
	static struct bytes messages[1000];
	static char text[20000];
	for (size_t i = 0; i < 1000; i++)
		messages[i] = (struct bytes){(const uint8_t *)text, i * 20};
	for (int gzip = 0; gzip < 2; gzip++) {
		grpc("/test.Echo/Sum", messages, 1000, gzip, false);
		assert_true(bytes_equal_string(buffer_bytes(&answer.body), "1000 messages, 9990000 bytes"));
		grpc("/test.Echo/Stream", messages, 1000, gzip, true);
		assert_int_equal(answer.grpc_status, GRPC_OK);
		assert_int_equal(messages_seen, 1000);
		assert_int_equal(message_bytes_seen, 9990000);
	}
	struct bytes many = bytes_of_string("300 100000");
	grpc("/test.Echo/Many", &many, 1, false, true);
	assert_int_equal(messages_seen, 300);
	assert_int_equal(message_bytes_seen, 30000000);
	wait_for(&test_closed_count, 5);
	disconnect_client();
}

/* The client stops in the middle: the worker that waits for room is let go. */
static void test_client_leaves_a_stream(void **state)
{
	static atomic_bool cancel;
	cancel = false;
	connect_client(&(struct net_client_options){.timeout_ns = 200 * NS_PER_MS, .cancel = &cancel});
	int fd = test_dial(server);
	/* A peer that asks for 100 MB and reads nothing, by hand */
	static const char opening[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
				      "\0\0\0\4\0\0\0\0\0";
	send(fd, opening, sizeof(opening) - 1, MSG_NOSIGNAL);
	static const uint8_t headers[] = "\203\206\104\17/test.Echo/Many\101\1x\137\20application/grpc";
	uint8_t head[9] = {0, 0, sizeof(headers) - 1, 1, 4, 0, 0, 0, 1};
	send(fd, head, 9, MSG_NOSIGNAL);
	send(fd, headers, sizeof(headers) - 1, MSG_NOSIGNAL);
	static const char data[] = "\0\0\20\0\1\0\0\0\1"
				   "\0\0\0\0\13"
				   "1000 100000";
	send(fd, data, sizeof(data) - 1, MSG_NOSIGNAL);
	time_sleep_ns(200 * NS_PER_MS);
	assert_int_equal(__atomic_load_n(&test_closed_count, __ATOMIC_SEQ_CST), 0);
	close(fd);
	wait_for(&test_closed_count, 1);
	disconnect_client();
}

static void *hammer(void *context)
{
	struct net_client *own;
	struct net_client_response response = {0};
	char url[100], expected[32];
	snprintf(url, sizeof(url), "%s://%s", server_tls ? "https" : "http", net_server_address(server));
	struct net_client_options options = {.url = url, .tls = client_tls};
	if (net_client_new(&options, &own, NULL) < 0)
		return (void *)1;
	intptr_t failed = 0;
	for (int i = 0; i < 200 && !failed; i++) {
		snprintf(expected, sizeof(expected), "%p %d", context, i);
		struct bytes body = bytes_of_string(expected);
		int r = i % 2 ? net_client_request(own, "POST", "/echo", NULL, body, i % 3 == 0, &response, NULL)
			      : net_client_grpc(own, "/test.Echo/Unary", &body, 1, i % 3 == 0, NULL, NULL, &response, NULL);
		failed = r < 0 || !bytes_equal(buffer_bytes(&response.body), body);
	}
	net_client_response_release(&response);
	net_client_free(own);
	return (void *)failed;
}

static void test_many_clients(void **state)
{
	pthread_t threads[20];
	for (size_t i = 0; i < 20; i++)
		assert_int_equal(thread_start(&threads[i], "client", hammer, &threads[i], NULL), 0);
	for (size_t i = 0; i < 20; i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	assert_int_equal(stats().requests, 4000);
	assert_int_equal(stats().errors_4xx + stats().errors_5xx, 0);
}

/* ---- the client against servers that misbehave ---- */

struct fake {
	int listener;
	uint16_t port;
	const char *answers[3]; /* one a connection; "" = close at once */
};

static void *run_fake(void *context)
{
	struct fake *fake = context;
	for (int i = 0; i < 3 && fake->answers[i]; i++) {
		char buffer[10000];
		int fd = accept(fake->listener, NULL, NULL);
		if (recv(fd, buffer, sizeof(buffer), 0) > 0)
			send(fd, fake->answers[i], strlen(fake->answers[i]), MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

static int ask_fake(const char *reply, const char *method)
{
	struct fake fake = {.answers = {reply, NULL}};
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(own);
	pthread_t thread;
	char url[64];
	fake.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bind(fake.listener, (struct sockaddr *)&own, len);
	listen(fake.listener, 5);
	getsockname(fake.listener, (struct sockaddr *)&own, &len);
	thread_start(&thread, "fake", run_fake, &fake, NULL);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(own.sin_port));
	struct net_client_options options = {.url = url, .response_max = 100000};
	assert_int_equal(net_client_new(&options, &client, NULL), 0);
	answer = (struct net_client_response){0};
	int r = method ? net_client_request(client, method, "/", NULL, nothing, false, &answer, &client_error)
		       : net_client_grpc(client, "/x", NULL, 0, false, NULL, NULL, &answer, &client_error);
	pthread_join(thread, NULL);
	close(fake.listener);
	return r;
}

static void test_client_against_strange_servers(void **state)
{
	static const struct {
		const char *reply, *method, *body;
		int r;
	} cases[] = {
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "GET", "abcde", 0},
		{"HTTP/1.0 200 OK\r\n\r\nuntil the end", "GET", "until the end", 0},
		{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\nHTTP/1.1 200 Fine\r\nContent-Length: "
		 "1\r\n\r\nx",
		 "POST", "x", 0},
		{"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "GET", NULL, -EPROTO},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", "GET", NULL, -EPROTO},
		{"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "GET", NULL, -EBADMSG},
		{"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc", "GET", NULL, -EPROTO},
		{"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc", "GET", NULL, -EPROTO},
		{"HTTP/1.1 101 Switching\r\n\r\nabc", "GET", NULL, -EPROTO},
		{"SSH-2.0-x\r\n", "GET", NULL, -EPROTO},
		{"RTSP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "GET", NULL, -EPROTO},
		{"ICE/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "GET", NULL, -EPROTO},
		{"HTTP/1.1 20 OK\r\nContent-Length: 1\r\n\r\nx", "GET", NULL, -EPROTO},
		{"HTTP/1.1 200 OK\nContent-Length: 1\n\nx", "GET", NULL, -EPROTO},
		{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", "GET", NULL, -EPROTO},
		{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "GET", NULL, -EPROTO},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n", "GET", NULL, -EPROTO},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcXX0\r\n\r\n", "GET", NULL, -EPROTO},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nabc", "GET", NULL, -EPROTO},
		{"", "GET", NULL, -ECONNRESET},
		{"HTTP/1.1 200 OK\r\n\r\n", NULL, NULL, -EPROTO},
		{"", NULL, NULL, -ECONNRESET},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int r = ask_fake(cases[i].reply, cases[i].method);
		/* A reset in place of an end of file is a matter of timing. */
		if (r != cases[i].r && !(cases[i].r < 0 && r == -ECONNRESET))
			fail_msg("case %zu: %d %s", i, r, client_error.message);
		if (r == 0 && !bytes_equal_string(buffer_bytes(&answer.body), cases[i].body))
			fail_msg("case %zu: wrong body", i);
		disconnect_client();
	}
}

/* Heads that do not come to their end, and what comes after the body. */
static void test_client_head_limit(void **state)
{
	static char reply[200000];
	int len = snprintf(reply, sizeof(reply), "HTTP/1.1 200 OK\r\nA: ");
	memset(reply + len, 'a', sizeof(reply) - 1 - (size_t)len);
	assert_int_equal(ask_fake(reply, "GET"), -EPROTO);
	assert_non_null(strstr(client_error.message, "its header is larger than 64 KiB"));
	disconnect_client();
	for (size_t at = 0; at + 26 < sizeof(reply); at += 25)
		snprintf(reply + at, 26, "HTTP/1.1 100 Continue\r\n\r\n");
	assert_int_equal(ask_fake(reply, "GET"), -EPROTO);
	assert_non_null(strstr(client_error.message, "its header is larger than 64 KiB"));
	disconnect_client();
	assert_int_equal(ask_fake("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
				  "Content-Type: c/d\r\nContent-Encoding: gzip\r\n\r\n",
				  "GET"),
			 0);
	assert_string_equal(answer.content_type, "a/b");
	assert_true(bytes_equal_string(buffer_bytes(&answer.body), "x"));
	disconnect_client();
}

/* "net_test --serve": for the tests with other people's clients (tests/net) and for wrk. Prints its address, ends with its
 * standard input. */
static int serve_others(void)
{
	char byte;
	if (start(0, 0) < 0)
		return 1;
	printf("%s\n", net_server_address(server));
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return teardown(NULL);
}

/* ---- the same under TLS ---- */

static int setup_tls(void **state)
{
	struct test_authority authority = test_make_authority("ca", "ca.pem");
	test_issue(&authority, "server", "IP:127.0.0.1", -60, 3600);
	test_free_authority(&authority);
	struct net_tls_options options = {.ca_file = test_path("ca.pem")};
	int r = net_tls_new_client(&options, &client_tls, NULL);
	options = (struct net_tls_options){.cert_file = test_path("server.pem"), .key_file = test_path("server.key")};
	return r < 0 ? r : net_tls_new_server(&options, &server_tls, NULL);
}

static int teardown_tls(void **state)
{
	client_tls = net_tls_free(client_tls);
	server_tls = net_tls_free(server_tls);
	test_remove_directory();
	return 0;
}

static void test_stats_of_tls(void **state)
{
	connect_client(NULL);
	request("GET", "/show", nothing, false);
	request("GET", "/show", nothing, false);
	assert_int_equal(stats().connections_accepted, 1);
	assert_int_equal(stats().tls_handshakes, 1);
	assert_int_equal(stats().tls_failures, 0);
	disconnect_client();
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--serve"))
		return serve_others();
	signal(SIGPIPE, SIG_DFL);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_garbage),
		TEST(test_raw_http1),
		TEST(test_connections_max),
		TEST(test_shared_connection),
		TEST(test_cancelled_when_peer_goes),
		TEST(test_handler_deadline),
		TEST(test_stop_during_a_request),
		TEST(test_flow_to_slow_reader),
		TEST(test_flow_whose_reader_goes),
		TEST(test_flow_to_stalled_reader),
		TEST(test_stop_during_a_flow),
		TEST(test_address),
		TEST(test_new_short_of_memory),
		TEST(test_client_http),
		TEST(test_client_limits),
		TEST(test_client_reconnects),
		TEST(test_client_grpc),
		TEST(test_client_grpc_streams),
		TEST(test_client_leaves_a_stream),
		TEST(test_many_clients),
		TEST(test_client_against_strange_servers),
		TEST(test_client_head_limit),
	};
	const struct CMUnitTest tls_tests[] = {
		TEST(test_stats_of_tls), TEST(test_client_http),	 TEST(test_client_limits), TEST(test_client_reconnects),
		TEST(test_client_grpc),	 TEST(test_client_grpc_streams), TEST(test_many_clients),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	return failed + cmocka_run_group_tests_name("TLS", tls_tests, setup_tls, teardown_tls);
}
