/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are sent while they are made, over HTTP/1 from memory; over HTTP/2 in http2_test.c, with threads in net_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fault.h"
#include "codec/compress.h"
#include "net/memory_test.h"
#include "net/routes_test.h"

#define HEAD  "Host: x\r\n"
#define LARGE 1000000

static struct net_server server;
static struct memory_peer peer;

static int setup(void **state)
{
	struct net_server_options options = {
		.routes = test_routes, .authorize = test_authorize, .answer_bytes_max = 2 * LARGE, .stall_seconds_max = 20};
	test_released_count = 0;
	return memory_server_start(&server, &options);
}

static int teardown(void **state)
{
	memory_server_end(&server);
	return server.requests_open || server.answer_bytes ? -1 : 0;
}

static void ask(struct memory_peer *to, const char *method, const char *target, const char *version, const char *more)
{
	char request[300];
	snprintf(request, sizeof(request), "%s %s HTTP/1.%s\r\n" HEAD "%s\r\n", method, target, version, more);
	connection_input(&to->connection, bytes_of_string(request));
}

static const char *talk(const char *method, const char *target, const char *version, const char *more)
{
	memory_connect(&peer, &server);
	ask(&peer, method, target, version, more);
	memory_run(&peer);
	return buffer_string(&peer.out);
}

static const char *get(const char *target)
{
	return talk("GET", target, "1", "");
}

static void hang_up(void)
{
	memory_disconnect(&peer);
}

static void assert_has(const char *text, const char *word)
{
	if (!strstr(text, word))
		fail_msg("no \"%s\" in:\n%.500s", word, text);
}

static struct net_server_stats stats(void)
{
	struct net_server_stats ret;
	net_server_get_stats(&server, &ret);
	return ret;
}

/* Takes chunks apart; how many bytes they were with their frames, 0 = they do not come to an end. */
static size_t read_chunks(struct bytes from, struct buffer *out)
{
	size_t begin = from.len;
	for (;;) {
		char *rest;
		size_t len = from.len > 2 ? strtoul((const char *)from.data, &rest, 16) : 0, head;
		if (from.len <= 2)
			return 0;
		head = (size_t)(rest - (const char *)from.data) + 2;
		if (from.len < head + len + 2)
			return 0;
		assert_memory_equal(rest, "\r\n", 2);
		assert_memory_equal(from.data + head + len, "\r\n", 2);
		buffer_append(out, from.data + head, len);
		from = bytes_skip(from, head + len + 2);
		if (len == 0)
			return begin - from.len;
	}
}

static struct bytes body(void)
{
	const uint8_t *end = memmem(peer.out.data, peer.out.len, "\r\n\r\n", 4);
	assert_non_null(end);
	return (struct bytes){end + 4, peer.out.len - (size_t)(end + 4 - peer.out.data)};
}

static void assert_text(struct bytes text, size_t len)
{
	assert_int_equal(text.len, len);
	for (size_t i = 0; i < len; i++)
		if (text.data[i] != test_byte(i))
			fail_msg("another byte at %zu", i);
}

static void test_short_ones_are_whole(void **state)
{
	const char *answer = get("/flow?n=100000");
	assert_has(answer, "Content-Length: 100000\r\n");
	assert_null(strstr(answer, "chunked"));
	assert_text(body(), 100000);
	hang_up();
	answer = get("/flow?n=100000&fail=90000");
	assert_has(answer, "HTTP/1.1 500 ");
	assert_has(answer, "{\"error\":\"failed\"}");
	assert_false(peer.shut);
	hang_up();
	assert_int_equal(stats().answers_streamed, 0);
}

static void test_chunks(void **state)
{
	_cleanup_(buffer_release) struct buffer text = {.max = GIB};
	memory_connect(&peer, &server);
	ask(&peer, "GET", "/flow?n=1000000", "1", "");
	ask(&peer, "GET", "/show?a=next", "1", "");
	memory_run(&peer);
	const char *answer = buffer_string(&peer.out);
	assert_has(answer, "HTTP/1.1 200 OK\r\n");
	assert_has(answer, "Content-Type: text/plain\r\n");
	assert_has(answer, "Transfer-Encoding: chunked\r\n");
	assert_has(answer, "Vary: Accept-Encoding\r\n");
	assert_has(answer, "X-Content-Type-Options: nosniff\r\n");
	assert_null(strstr(answer, "Content-Length: 1000000"));
	size_t len = read_chunks(body(), &text);
	assert_text(buffer_bytes(&text), LARGE);
	/* The next answer begins where this one ends. */
	assert_has((const char *)body().data + len, "HTTP/1.1 200 OK\r\n");
	assert_has((const char *)body().data + len, "GET /show a=next");
	assert_int_equal(test_flow_result, 0);
	assert_int_equal(stats().answers_streamed, 1);
	assert_int_equal(stats().answers_broken, 0);
	hang_up();
}

static void test_compressed(void **state)
{
	_cleanup_(buffer_release) struct buffer packed = {.max = GIB}, text = {.max = GIB};
	const char *answer = talk("GET", "/flow?n=1000000", "1", "Accept-Encoding: gzip\r\n");
	assert_has(answer, "Content-Encoding: gzip\r\n");
	assert_has(answer, "Vary: Accept-Encoding\r\n");
	assert_true(read_chunks(body(), &packed) > 0);
	assert_true(packed.len < LARGE / 10);
	assert_int_equal(gzip_decompress(buffer_bytes(&packed), &text, NULL), 0);
	assert_text(buffer_bytes(&text), LARGE);
	hang_up();
	answer = talk("GET", "/flow?n=1000000&raw=1", "1", "Accept-Encoding: gzip\r\n");
	assert_null(strstr(answer, "Content-Encoding"));
	assert_null(strstr(answer, "Vary"));
	hang_up();
}

/* Where the end of the connection would be the end of the body, nobody could see that it is too early. */
static void test_http_1_0(void **state)
{
	const char *answer = talk("GET", "/flow?n=1000000", "0", "");
	assert_has(answer, "Content-Length: 1000000\r\n");
	assert_text(body(), LARGE);
	hang_up();
	answer = talk("GET", "/flow?n=1000000&fail=900000", "0", "");
	assert_has(answer, "HTTP/1.1 500 ");
	hang_up();
	answer = talk("GET", "/pull?n=1000000", "0", "");
	assert_has(answer, "Content-Length: 1000000\r\n");
	assert_text(body(), LARGE);
	hang_up();
}

static void test_head(void **state)
{
	const char *answer = talk("HEAD", "/flow?n=1000000", "1", "");
	assert_has(answer, "HTTP/1.1 200 OK\r\n");
	assert_has(answer, "Transfer-Encoding: chunked\r\n");
	assert_null(strstr(answer, "Content-Length"));
	assert_int_equal(body().len, 0);
	assert_false(peer.shut);
	hang_up();
	answer = talk("HEAD", "/pull?n=1000000", "1", "");
	assert_has(answer, "Content-Length: 1000000\r\n");
	assert_int_equal(body().len, 0);
	assert_false(peer.shut);
	hang_up();
	assert_int_equal(test_released_count, 1);
}

/* No last chunk, and the end of the connection: not to be taken for an answer. */
static void test_broken(void **state)
{
	_cleanup_(buffer_release) struct buffer text = {.max = GIB};
	const char *answer = get("/flow?n=1000000&fail=900000");
	assert_has(answer, "HTTP/1.1 200 OK\r\n");
	assert_int_equal(read_chunks(body(), &text), 0);
	assert_null(strstr((const char *)body().data, "failed"));
	assert_true(peer.closed);
	hang_up();
	answer = talk("GET", "/flow?n=1000000&fail=900000", "1", "Accept-Encoding: gzip\r\n");
	buffer_clear(&text);
	/* Nothing of the compressed answer may be out yet; then it is not too late for a status. */
	assert_true(strstr(answer, "HTTP/1.1 500 ") || (peer.closed && read_chunks(body(), &text) == 0));
	hang_up();
	get("/pull?n=1000000&fail=500000");
	assert_true(peer.closed);
	assert_true(body().len <= 500000);
	hang_up();
	assert_int_equal(test_released_count, 1);
	assert_true(stats().answers_broken >= 2);
}

static void test_pulled(void **state)
{
	memory_connect(&peer, &server);
	ask(&peer, "GET", "/pull?n=1000000", "1", "Accept-Encoding: gzip\r\n");
	ask(&peer, "GET", "/show?a=next", "1", "");
	memory_run(&peer);
	const char *answer = buffer_string(&peer.out);
	assert_has(answer, "Content-Length: 1000000\r\n");
	assert_null(strstr(answer, "Content-Encoding"));
	assert_text((struct bytes){body().data, LARGE}, LARGE);
	assert_has((const char *)body().data + LARGE, "GET /show a=next");
	hang_up();
	assert_has(get("/pull?n=0"), "Content-Length: 0\r\n");
	assert_false(peer.shut);
	hang_up();
	assert_int_equal(test_released_count, 2);
}

static bool may_run(const void *context, const struct net_job *job)
{
	return true;
}

/* A worker's job, before the loop hears that it is done. */
static struct net_job *run_job(void)
{
	struct net_job *job = fair_pop(&server.workers.fast, may_run, NULL);
	assert_non_null(job);
	assert_int_equal(server.workers.fast.count, 0);
	job->run(job);
	return job;
}

/* The loop may find a piece before it knows that it was the last. */
static void test_pulled_early(void **state)
{
	memory_connect(&peer, &server);
	ask(&peer, "GET", "/pull?n=70000", "1", "");
	ask(&peer, "GET", "/show?a=next", "1", "");
	for (int i = 0; i < 3; i++) { /* the handler, and two pieces */
		struct net_job *job = run_job();
		connection_run(&peer.connection);
		server.workers.out--;
		job->done(job);
	}
	memory_run(&peer);
	assert_has(buffer_string(&peer.out), "Content-Length: 70000\r\n");
	assert_text((struct bytes){body().data, 70000}, 70000);
	assert_has((const char *)body().data + 70000, "GET /show a=next");
	hang_up();
}

/* A reader that takes nothing: of what is pulled one piece waits, and it is cut off in time. */
static void test_stalled(void **state)
{
	memory_connect(&peer, &server);
	peer.slow = true;
	ask(&peer, "GET", "/pull?n=1000000", "1", "");
	memory_run(&peer);
	assert_in_range(peer.out.len, 1, 100000);
	memory_wait(&peer, 15);
	memory_write_done(&peer);
	memory_run(&peer);
	memory_wait(&peer, 15);
	assert_false(peer.closed);
	memory_wait(&peer, 10);
	assert_true(peer.closed);
	assert_int_equal(stats().answers_stalled, 1);
	hang_up();
	assert_int_equal(test_released_count, 1);
	/* A whole answer as well */
	memory_connect(&peer, &server);
	peer.slow = true;
	ask(&peer, "GET", "/big?n=1000000", "1", "");
	memory_run(&peer);
	memory_wait(&peer, 15);
	assert_false(peer.closed);
	memory_wait(&peer, 10);
	assert_true(peer.closed);
	assert_int_equal(stats().answers_stalled, 2);
	hang_up();
}

static void test_gone_in_the_middle(void **state)
{
	static const char *const targets[] = {"/pull?n=1000000", "/flow?n=1000000", "/big?n=1000000"};
	for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++)
		for (int steps = 0; steps < 4; steps++) {
			memory_connect(&peer, &server);
			peer.slow = true;
			ask(&peer, "GET", targets[i], "1", "");
			for (int k = 0; k < steps; k++) {
				workers_run_here(&server.workers);
				memory_write_done(&peer);
			}
			hang_up();
			while (server.workers.out > 0)
				workers_run_here(&server.workers);
			assert_int_equal(server.requests_open, 0);
			assert_int_equal(server.answer_bytes, 0);
		}
	assert_int_equal(test_released_count, 3); /* before the first step there was no source */
}

/* All answers together are limited: what comes after is refused until those before have been read. */
static void test_budget(void **state)
{
	static struct memory_peer readers[2];
	static const char *const targets[] = {"/big?n=900000", "/flow?n=900000"};
	for (int i = 0; i < 2; i++) {
		memory_connect(&readers[i], &server);
		readers[i].slow = true;
		ask(&readers[i], "GET", targets[i], "1", "");
		workers_run_here(&server.workers);
	}
	assert_int_equal(stats().answer_bytes, 1800000);
	static const char *const refused[] = {"/big?n=300000", "/flow?n=300000"};
	for (int i = 0; i < 2; i++) {
		const char *answer = get(refused[i]);
		assert_has(answer, "HTTP/1.1 503 ");
		assert_has(answer, "Retry-After: 1\r\n");
		assert_has(answer, "X-Content-Type-Options: nosniff\r\n");
		assert_has(answer, "of responses are being sent");
		assert_false(peer.shut);
		hang_up();
	}
	/* Small ones go out all the same, and so does what begins while there is room for a piece. */
	assert_has(get("/show"), "HTTP/1.1 200 OK\r\n");
	hang_up();
	assert_has(get("/pull?n=300000"), "HTTP/1.1 200 OK\r\n");
	assert_text(body(), 300000);
	hang_up();
	assert_int_equal(stats().answers_refused, 2);
	for (int i = 0; i < 2; i++) {
		readers[i].slow = false;
		memory_write_done(&readers[i]);
		memory_run(&readers[i]);
	}
	assert_int_equal(stats().answer_bytes, 0);
	assert_has(get("/flow?n=1900000"), "HTTP/1.1 200 OK\r\n");
	hang_up();
	/* One that could never go out is not told to come again. */
	const char *large = get("/big?n=2000001");
	assert_has(large, "HTTP/1.1 413 ");
	assert_null(strstr(large, "Retry-After"));
	hang_up();
	/* One that is too much by itself breaks off: without threads nobody reads while it is made. */
	get("/flow?n=5000000");
	assert_true(peer.closed);
	assert_int_equal(test_flow_result, -ENOBUFS);
	hang_up();
	for (int i = 0; i < 2; i++)
		memory_disconnect(&readers[i]);
}

/* The n-th allocation fails, for every n: an error, a whole answer, or one that is seen to be broken. */
static void test_short_of_memory(void **state)
{
	static const char *const requests[] = {"GET /flow?n=600000 HTTP/1.1\r\n" HEAD "Accept-Encoding: gzip\r\n\r\n",
					       "GET /flow?n=600000&noise=1 HTTP/1.1\r\n" HEAD "Accept-Encoding: gzip\r\n\r\n",
					       "GET /flow?n=600000 HTTP/1.1\r\n" HEAD "\r\n",
					       "GET /pull?n=600000 HTTP/1.1\r\n" HEAD "\r\n"};
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		bool reached = true;
		uint64_t n;
		for (n = 1; reached && n < 500; n++) {
			_cleanup_(buffer_release) struct buffer text = {.max = GIB};
			memory_connect(&peer, &server);
			buffer_reserve(&peer.out, 2 * LARGE);
			fault_arm(FAULT_ALLOC, n, 0);
			connection_input(&peer.connection, bytes_of_string(requests[i]));
			memory_run(&peer);
			reached = fault_disarm(FAULT_ALLOC);
			memory_run(&peer);
			const char *answer = buffer_string(&peer.out);
			if (!peer.closed && strstr(answer, "HTTP/1.1 200 ") && strstr(answer, "chunked"))
				assert_true(read_chunks(body(), &text) > 0);
			else if (!peer.closed && strstr(answer, "Content-Length: 600000"))
				assert_int_equal(body().len, 600000);
			else
				assert_true(peer.closed || (answer && !strstr(answer, "HTTP/1.1 200 ")));
			hang_up();
			assert_int_equal(server.requests_open, 0);
			assert_int_equal(server.answer_bytes, 0);
		}
		assert_true(n > 5 && n < 500);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_short_ones_are_whole),
		TEST(test_chunks),
		TEST(test_compressed),
		TEST(test_http_1_0),
		TEST(test_head),
		TEST(test_broken),
		TEST(test_pulled),
		TEST(test_pulled_early),
		TEST(test_stalled),
		TEST(test_gone_in_the_middle),
		TEST(test_budget),
		TEST(test_short_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
