/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of what talks to a server: one that answers as the test says and keeps what it was asked; and a clock that stands
 * still until the test moves it, for tests that include the source that they test after test_clock.
 */
#ifndef WICK_DAEMON_TEST_DAEMON_H
#define WICK_DAEMON_TEST_DAEMON_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/thread.h"
#include "base/time.h"
#include "net/net.h"

/* ---- a clock ---- */

struct test_clock {
	int64_t monotonic_ns, now_ns;
	int64_t waited_ns; /* by test_wait_until(), in all */
};
static struct test_clock test_clock = {.monotonic_ns = 1000 * NS_PER_S, .now_ns = 1763790000ll * NS_PER_S};

static inline __attribute__((unused)) int64_t test_monotonic_ns(void)
{
	return test_clock.monotonic_ns;
}

static inline __attribute__((unused)) int64_t test_now_ns(void)
{
	return test_clock.now_ns;
}

static inline void test_pass(int64_t duration_ns)
{
	test_clock.monotonic_ns += duration_ns;
	test_clock.now_ns += duration_ns;
}

/* In place of thread_wait_until(): the time is over at once. */
static inline __attribute__((unused)) bool test_wait_until(int64_t until_ns)
{
	if (until_ns > test_clock.monotonic_ns) {
		test_clock.waited_ns += until_ns - test_clock.monotonic_ns;
		test_pass(until_ns - test_clock.monotonic_ns);
	}
	return false;
}

/* ---- a server ---- */

#define TEST_ASKED_MAX	 64
#define TEST_ANSWERS_MAX 16
struct test_answer {
	int status;
	const char *body;
};
struct test_asked {
	char method[8], target[600], token[64], tenant[64], key[64], body[8192];
	size_t len; /* of the whole body */
};
struct test_peer {
	struct net_server *net;
	struct net_route routes[2];
	pthread_t thread;
	char url[64];
	pthread_mutex_t lock;
	struct test_answer answers[TEST_ANSWERS_MAX]; /* by turns; the last one again and again */
	size_t answer_count, next;
	struct test_asked asked[TEST_ASKED_MAX];
	size_t asked_count; /* the oldest are kept */
};

static inline void test_copy(char *out, size_t size, const char *text)
{
	snprintf(out, size, "%s", text ? text : "");
}

static inline void test_peer_handle(void *context, const struct net_request *request, struct net_response *response)
{
	struct test_peer *peer = context;
	struct bytes body = net_request_body(request);
	pthread_mutex_lock(&peer->lock);
	if (peer->asked_count < TEST_ASKED_MAX) {
		struct test_asked *asked = &peer->asked[peer->asked_count++];
		test_copy(asked->method, sizeof(asked->method), net_request_method(request));
		test_copy(asked->target, sizeof(asked->target), net_request_target(request));
		test_copy(asked->token, sizeof(asked->token), net_request_header(request, "authorization"));
		test_copy(asked->tenant, sizeof(asked->tenant), net_request_header(request, "x-scope-orgid"));
		test_copy(asked->key, sizeof(asked->key), net_request_header(request, "x-wick-upload-key"));
		snprintf(asked->body, sizeof(asked->body), "%.*s", (int)body.len, body.len ? (const char *)body.data : "");
		asked->len = body.len;
	}
	struct test_answer answer = {.status = 500, .body = ""};
	if (peer->answer_count)
		answer = peer->answers[peer->next < peer->answer_count ? peer->next++ : peer->answer_count - 1];
	response->status = answer.status;
	buffer_append_string(&response->body, answer.body ? answer.body : "");
	pthread_mutex_unlock(&peer->lock);
}

static inline void *test_peer_run(void *context)
{
	net_server_run(((struct test_peer *)context)->net, NULL);
	return NULL;
}

static inline void test_peer_open(struct test_peer *peer)
{
	memset(peer, 0, sizeof(*peer));
	pthread_mutex_init(&peer->lock, NULL);
	peer->routes[0] = (struct net_route){.path = "/*", .handler = test_peer_handle, .context = peer};
	struct net_server_options options = {.listen = "127.0.0.1:0", .routes = peer->routes, .workers = 1};
	if (net_server_new(&options, &peer->net, NULL) < 0 ||
	    thread_start(&peer->thread, "peer", test_peer_run, peer, NULL) < 0)
		abort();
	snprintf(peer->url, sizeof(peer->url), "http://%s", net_server_address(peer->net));
}

static inline void test_peer_close(struct test_peer *peer)
{
	net_server_stop(peer->net);
	pthread_join(peer->thread, NULL);
	net_server_free(peer->net);
	pthread_mutex_destroy(&peer->lock);
}

/* What it says from now on, and forgets what it was asked. */
static inline void test_peer_answer(struct test_peer *peer, const struct test_answer *answers, size_t count)
{
	pthread_mutex_lock(&peer->lock);
	memcpy(peer->answers, answers, count * sizeof(*answers));
	peer->answer_count = count;
	peer->next = peer->asked_count = 0;
	pthread_mutex_unlock(&peer->lock);
}
#define TEST_ANSWERS(peer, ...)                                                                                                \
	test_peer_answer(peer, (const struct test_answer[]){__VA_ARGS__},                                                      \
			 sizeof((const struct test_answer[]){__VA_ARGS__}) / sizeof(struct test_answer))

#endif
