/* SPDX-License-Identifier: Apache-2.0 */
/* For tests and the fuzzer: handlers that show what a handler sees. */
#ifndef WICK_NET_ROUTES_TEST_H
#define WICK_NET_ROUTES_TEST_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/text.h"
#include "base/time.h"
#include "net/net.h"

/* "METHOD path?a=1,b=.. body-length" */
static inline void test_show(void *context, const struct net_request *request, struct net_response *response)
{
	const char *a = net_request_query(request, "a"), *again = net_request_query_nth(request, "a", 1);
	response->content_type = "text/plain";
	buffer_printf(&response->body, "%s %s a=%s a2=%s body=%zu", net_request_method(request), net_request_path(request),
		      a ? a : "-", again ? again : "-", net_request_body(request).len);
}

static inline void test_echo(void *context, const struct net_request *request, struct net_response *response)
{
	struct bytes body = net_request_body(request);
	response->content_type = "application/octet-stream";
	buffer_append(&response->body, body.data, body.len);
	const char *status = net_request_header(request, "x-status");
	if (status)
		response->status = (int)strtol(status, NULL, 10);
}

/* ?n=BYTES of text that compresses well */
static inline void test_big(void *context, const struct net_request *request, struct net_response *response)
{
	uint64_t n = 0;
	const char *text = net_request_query(request, "n");
	if (text)
		text_parse_u64(text, &n, NULL);
	response->no_compress = net_request_query(request, "raw");
	response->content_type = "text/plain";
	if (n > 64 * 1024 * 1024 || buffer_reserve(&response->body, n) < 0)
		return;
	for (uint64_t i = 0; i < n; i++)
		response->body.data[i] = (uint8_t)("abcdefghijklmnopqrstuvwxyz\n"[i % 27]);
	response->body.len = n;
}

static int test_slow_count; /* of calls that have begun */
/* Works until cancelled, 20 s at most; ?ms=N: that long at most. */
static inline void test_slow(void *context, const struct net_request *request, struct net_response *response)
{
	const char *text = net_request_query(request, "ms");
	int64_t end_ns = time_monotonic_ns() + (text ? (int)strtol(text, NULL, 10) : 20000) * NS_PER_MS;
	const atomic_bool *flag = net_request_cancelled(request);
	__atomic_fetch_add(&test_slow_count, 1, __ATOMIC_SEQ_CST);
	while (!cancel_requested(flag) && time_monotonic_ns() < end_ns)
		time_sleep_ns(5 * NS_PER_MS);
	bool cancelled = cancel_requested(flag);
	if (context && cancelled)
		__atomic_fetch_add((int *)context, 1, __ATOMIC_SEQ_CST);
	buffer_append_string(&response->body, cancelled ? "{\"cancelled\":true}" : "{\"cancelled\":false}");
}

static inline uint64_t test_number(const struct net_request *request, const char *name, uint64_t fallback)
{
	const char *text = net_request_query(request, name);
	uint64_t n = fallback;
	if (text)
		text_parse_u64(text, &n, NULL);
	return n;
}

#ifndef TEST_LONGEST
#define TEST_LONGEST 100000000
#endif

static inline uint8_t test_byte(uint64_t at)
{
	return (uint8_t)("abcdefghijklmnopqrstuvwxyz\n"[at % 27]);
}

/* ?n=BYTES of what /big has, sent while it is made; &fail=AT: it fails there; &noise=1: text that does not compress. */
static inline void test_flow(void *context, const struct net_request *request, struct net_response *response)
{
	uint64_t n = test_number(request, "n", 0), fail = test_number(request, "fail", UINT64_MAX), x = 1;
	bool noise = net_request_query(request, "noise");
	int r = n > TEST_LONGEST ? -E2BIG : 0;
	response->content_type = "text/plain";
	response->no_compress = net_request_query(request, "raw");
	for (uint64_t i = 0; i < n && r == 0; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		r = i == fail ? -EIO : buffer_append_byte(&response->body, noise ? (uint8_t)(x >> 56) : test_byte(i));
		if (r == 0 && i % 10000 == 9999)
			r = net_response_flush(response);
	}
	if (context)
		__atomic_store_n((int *)context, r, __ATOMIC_SEQ_CST);
	if (r == 0)
		return;
	response->status = 500;
	buffer_clear(&response->body);
	buffer_append_string(&response->body, "{\"error\":\"failed\"}");
}

struct test_source {
	struct net_source source;
	uint64_t at, fail;
	int *released;
};

static inline ssize_t test_source_read(struct net_source *source, uint8_t *out, size_t size)
{
	struct test_source *s = (struct test_source *)source;
	size = size < 50000 ? size : 50000;
	for (size_t i = 0; i < size; i++)
		out[i] = test_byte(s->at + i);
	s->at += size;
	return s->at > s->fail ? -EIO : (ssize_t)size;
}

static inline void test_source_release(struct net_source *source)
{
	struct test_source *s = (struct test_source *)source;
	__atomic_fetch_add(s->released, 1, __ATOMIC_SEQ_CST);
	mem_free(s);
}

/* The same from a source. */
static inline void test_pull(void *context, const struct net_request *request, struct net_response *response)
{
	struct test_source *s = mem_zalloc(sizeof(*s));
	uint64_t n = test_number(request, "n", 0);
	if (!s || n > TEST_LONGEST) {
		mem_free(s);
		response->status = 503;
		return;
	}
	*s = (struct test_source){
		{test_source_read, test_source_release}, 0, test_number(request, "fail", UINT64_MAX), context};
	response->content_type = "text/plain";
	if (net_response_source(response, &s->source, n) < 0)
		response->status = 503;
}

static inline void test_headers(void *context, const struct net_request *request, struct net_response *response)
{
	net_response_header(response, "X-Test", "one");
	net_response_header(response, "X-Bad", "a\r\nInjected: yes");
	response->status = 201;
	buffer_append_string(&response->body, "{}");
}

static inline void test_no_content(void *context, const struct net_request *request, struct net_response *response)
{
	response->status = 204;
}

static inline void test_fail(void *context, const struct net_request *request, struct net_response *response)
{
	response->status = 422;
	response->grpc_status = GRPC_INVALID_ARGUMENT;
	snprintf(response->message, sizeof(response->message), "bad profile: \"x\" is 100%% wrong \xc3\xa4");
}

/* Each message goes back as it came; "fail" ends the stream, as does "done" when it has gone back. */
static inline enum grpc_code test_stream_message(void *context, const struct net_request *request, struct net_stream *stream,
						 struct bytes message, struct net_response *response)
{
	if (bytes_equal_string(message, "fail")) {
		snprintf(response->message, sizeof(response->message), "told to fail");
		return GRPC_FAILED_PRECONDITION;
	}
	if (bytes_equal_string(message, "done"))
		net_stream_end(stream);
	return net_stream_send(stream, message) < 0 ? GRPC_CANCELLED : GRPC_OK;
}
static inline enum grpc_code test_stream_end(void *context, const struct net_request *request, struct net_stream *stream,
					     struct net_response *response)
{
	return GRPC_OK;
}
static inline void test_stream_close(void *context, struct net_stream *stream)
{
	if (context)
		__atomic_fetch_add((int *)context, 1, __ATOMIC_SEQ_CST);
}

/* Counts messages and bytes, answers once at the end. */
struct test_sum {
	uint64_t messages, bytes;
};
static inline enum grpc_code test_sum_message(void *context, const struct net_request *request, struct net_stream *stream,
					      struct bytes message, struct net_response *response)
{
	struct test_sum **sum = (struct test_sum **)net_stream_slot(stream);
	if (!*sum)
		*sum = mem_zalloc(sizeof(**sum));
	if (!*sum)
		return GRPC_RESOURCE_EXHAUSTED;
	(*sum)->messages++;
	(*sum)->bytes += message.len;
	return GRPC_OK;
}
static inline enum grpc_code test_sum_end(void *context, const struct net_request *request, struct net_stream *stream,
					  struct net_response *response)
{
	struct test_sum **sum = (struct test_sum **)net_stream_slot(stream);
	char text[64];
	snprintf(text, sizeof(text), "%llu messages, %llu bytes", *sum ? (unsigned long long)(*sum)->messages : 0,
		 *sum ? (unsigned long long)(*sum)->bytes : 0);
	return net_stream_send(stream, bytes_of_string(text)) < 0 ? GRPC_CANCELLED : GRPC_OK;
}
static inline void test_sum_close(void *context, struct net_stream *stream)
{
	*net_stream_slot(stream) = mem_free(*net_stream_slot(stream));
	test_stream_close(context, stream);
}

/* The message is "COUNT SIZE": that many messages of that size. */
static inline enum grpc_code test_many_message(void *context, const struct net_request *request, struct net_stream *stream,
					       struct bytes message, struct net_response *response)
{
	char text[40] = "";
	memcpy(text, message.data, message.len < sizeof(text) - 1 ? message.len : sizeof(text) - 1);
	char *rest;
	unsigned long count = strtoul(text, &rest, 10), size = strtoul(rest, NULL, 10);
	struct buffer chunk;
	buffer_init(&chunk, 1024 * 1024);
	if (count > 100000 || size > 1024 * 1024 || buffer_reserve(&chunk, size) < 0)
		return GRPC_INVALID_ARGUMENT;
	if (size > 0)
		memset(chunk.data, 'x', size);
	int r = 0;
	for (unsigned long i = 0; i < count && r == 0; i++)
		r = net_stream_send(stream, (struct bytes){chunk.data, size});
	buffer_release(&chunk);
	return r < 0 ? GRPC_CANCELLED : GRPC_OK;
}

static const struct net_stream_handler test_stream = {test_stream_message, test_stream_end, test_stream_close};
static const struct net_stream_handler test_sum = {test_sum_message, test_sum_end, test_sum_close};
static const struct net_stream_handler test_many = {test_many_message, test_stream_end, test_stream_close};

static int test_cancelled_count, test_closed_count, test_flow_result, test_released_count;
static const struct net_route test_routes[] = {
	{.method = "GET", .path = "/show", .handler = test_show},
	{.method = "GET", .path = "/files/*", .handler = test_show},
	{.method = "GET", .path = "/files/exact", .handler = test_no_content},
	{.method = "POST", .path = "/echo", .handler = test_echo},
	{.method = "PUT", .path = "/echo", .handler = test_echo},
	{.method = "POST", .path = "/small", .handler = test_echo, .body_max = 100},
	{.method = NULL, .path = "/any", .handler = test_show},
	{.method = "GET", .path = "/big", .handler = test_big},
	{.method = "GET", .path = "/flow", .handler = test_flow, .context = &test_flow_result},
	{.method = "GET", .path = "/slowflow", .handler = test_flow, .context = &test_flow_result, .slow = true},
	{.method = "GET", .path = "/pull", .handler = test_pull, .context = &test_released_count},
	{.method = "GET", .path = "/slow", .handler = test_slow, .context = &test_cancelled_count},
	{.method = "GET", .path = "/headers", .handler = test_headers},
	{.method = "GET", .path = "/none", .handler = test_no_content},
	{.method = NULL, .path = "/fail", .handler = test_fail},
	{.method = "POST", .path = "/test.Echo/Unary", .handler = test_echo},
	{.method = "POST", .path = "/test.Echo/Small", .handler = test_echo, .body_max = 100},
	{.method = "POST", .path = "/test.Echo/Fail", .handler = test_fail},
	{.method = "POST", .path = "/test.Echo/Slow", .handler = test_slow, .context = &test_cancelled_count},
	{.method = "POST", .path = "/test.Echo/Stream", .stream = &test_stream, .context = &test_closed_count},
	{.method = "POST", .path = "/test.Echo/Sum", .stream = &test_sum, .context = &test_closed_count},
	{.method = "POST", .path = "/test.Echo/Many", .stream = &test_many, .context = &test_closed_count},
	{.path = NULL},
};

/* X-Refuse: STATUS asks to be refused. */
static inline bool test_authorize(void *context, struct net_request *request, struct net_response *response)
{
	const char *status = net_request_header(request, "x-refuse");
	net_response_header(response, "X-Content-Type-Options", "nosniff");
	if (!status)
		return true;
	response->status = (int)strtol(status, NULL, 10);
	snprintf(response->message, sizeof(response->message), "you asked for it");
	return false;
}

#endif
