/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 and gRPC from memory, against an nghttp2 client: answers, refusals, streams, floods, time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <nghttp2/nghttp2.h>
#include <stdlib.h>

#include "base/fault.h"
#include "codec/compress.h"
#include "net/memory_test.h"
#include "net/routes_test.h"

#define STREAMS 400

static struct net_server server;
static struct memory_peer peer;

struct result {
	int status, grpc;
	char message[600], encoding[32], allow[64];
	struct buffer body;
	bool closed;
	uint32_t code;
	unsigned header_frames;
};
struct upload {
	struct bytes data;
	size_t at;
	bool open; /* more will come */
};

static nghttp2_session *client;
static struct result results[STREAMS];
static struct upload uploads[STREAMS];
static size_t read_at; /* of peer.out */
static int goaway_code;

static size_t slot(int32_t stream_id)
{
	assert_true(stream_id > 0 && stream_id / 2 < STREAMS);
	return (size_t)stream_id / 2;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
		     const uint8_t *value, size_t value_len, uint8_t flags, void *context)
{
	struct result *result = &results[slot(frame->hd.stream_id)];
	const char *n = (const char *)name, *v = (const char *)value;
	if (!strcmp(n, ":status"))
		result->status = (int)strtol(v, NULL, 10);
	else if (!strcmp(n, "grpc-status"))
		result->grpc = (int)strtol(v, NULL, 10);
	else if (!strcmp(n, "grpc-message"))
		snprintf(result->message, sizeof(result->message), "%s", v);
	else if (!strcmp(n, "grpc-encoding") || !strcmp(n, "content-encoding"))
		snprintf(result->encoding, sizeof(result->encoding), "%s", v);
	else if (!strcmp(n, "allow"))
		snprintf(result->allow, sizeof(result->allow), "%s", v);
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	if (frame->hd.type == NGHTTP2_HEADERS)
		results[slot(frame->hd.stream_id)].header_frames++;
	if (frame->hd.type == NGHTTP2_GOAWAY)
		goaway_code = (int)frame->goaway.error_code;
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data, size_t len, void *context)
{
	return buffer_append(&results[slot(stream_id)].body, data, len);
}

static int on_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *context)
{
	results[slot(stream_id)].closed = true;
	results[slot(stream_id)].code = code;
	return 0;
}

static ssize_t read_upload(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t size, uint32_t *flags,
			   nghttp2_data_source *source, void *context)
{
	struct upload *upload = &uploads[slot(stream_id)];
	size_t left = upload->data.len - upload->at, take = left < size ? left : size;
	if (take > 0)
		memcpy(out, upload->data.data + upload->at, take);
	upload->at += take;
	if (upload->at == upload->data.len && !upload->open)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	else if (take == 0)
		return NGHTTP2_ERR_DEFERRED;
	return (ssize_t)take;
}

static int setup(void **state)
{
	struct net_server_options options = {
		.routes = test_routes, .authorize = test_authorize, .body_max = 4 * MIB, .header_max = 4096};
	if (memory_server_start(&server, &options) < 0)
		return -1;
	memory_connect(&peer, &server);
	nghttp2_session_callbacks *callbacks;
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	nghttp2_session_client_new(&client, callbacks, NULL);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(client, 0, NULL, 0);
	for (size_t i = 0; i < STREAMS; i++) {
		results[i] = (struct result){.grpc = -1};
		buffer_init(&results[i].body, GIB);
		uploads[i] = (struct upload){0};
	}
	read_at = 0;
	goaway_code = -1;
	test_closed_count = 0;
	return 0;
}

static int teardown(void **state)
{
	nghttp2_session_del(client);
	memory_disconnect(&peer);
	memory_server_end(&server);
	for (size_t i = 0; i < STREAMS; i++)
		buffer_release(&results[i].body);
	return server.requests_open || server.body_bytes || server.answer_bytes ? -1 : 0;
}

/* What the client wants to say goes to the server, unprocessed by workers. */
static void send_pending(void)
{
	const uint8_t *data;
	ssize_t len;
	while ((len = nghttp2_session_mem_send(client, &data)) > 0)
		connection_input(&peer.connection, (struct bytes){data, (size_t)len});
}

static void receive_pending(void)
{
	if (peer.out.len > read_at)
		nghttp2_session_mem_recv(client, peer.out.data + read_at, peer.out.len - read_at);
	read_at = peer.out.len;
}

static void run(void)
{
	size_t before;
	do {
		before = peer.out.len;
		send_pending();
		memory_run(&peer);
		receive_pending();
	} while (peer.out.len > before || nghttp2_session_want_write(client));
}

static nghttp2_nv field(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0};
}

/* extra: name, value, name, value, NULL */
static struct result *start(const char *method, const char *path, const char *const *extra, struct bytes body, bool open)
{
	nghttp2_nv fields[200];
	size_t n = 0;
	fields[n++] = field(":method", method);
	fields[n++] = field(":scheme", "http");
	fields[n++] = field(":authority", "x");
	fields[n++] = field(":path", path);
	for (; extra && *extra; extra += 2)
		fields[n++] = field(extra[0], extra[1]);
	nghttp2_data_provider provider = {.read_callback = read_upload};
	bool has_body = body.len > 0 || open;
	int32_t id = nghttp2_submit_request(client, NULL, fields, n, has_body ? &provider : NULL, NULL);
	uploads[slot(id)] = (struct upload){body, 0, open};
	return &results[slot(id)];
}

static int32_t id_of(const struct result *result)
{
	return (int32_t)(result - results) * 2 + 1;
}

static const char *const grpc_fields[] = {"content-type", "application/grpc", "te", "trailers", NULL};
static const char *const grpc_gzip[] = {
	"content-type", "application/grpc+proto", "grpc-encoding", "gzip", "grpc-accept-encoding", "identity,gzip", NULL};
static const struct bytes nothing;

static struct result *get(const char *path)
{
	struct result *result = start("GET", path, NULL, nothing, false);
	run();
	return result;
}

static struct result *grpc(const char *path, const char *const *fields, struct bytes framed)
{
	struct result *result = start("POST", path, fields, framed, framed.len == 0);
	if (framed.len == 0) { /* an empty body still ends with DATA */
		uploads[result - results].open = false;
		nghttp2_session_resume_data(client, id_of(result));
	}
	run();
	return result;
}

static void assert_body(const struct result *result, const char *text)
{
	struct bytes body = buffer_bytes(&result->body);
	if (!bytes_equal_string(body, text))
		fail_msg("expected \"%s\", got \"%.*s\"", text, (int)body.len, (const char *)body.data);
}

static void assert_grpc(const struct result *result, int code, const char *message)
{
	if (result->grpc != code || !strstr(result->message, message) || result->status != 200)
		fail_msg("expected %d \"%s\", got %d \"%s\" (HTTP %d)", code, message, result->grpc, result->message,
			 result->status);
}

/* ---- plain HTTP/2 ---- */

static void test_plain(void **state)
{
	struct result *a = start("GET", "/show?a=1&a=%32", NULL, nothing, false);
	struct result *b = start("POST", "/any", NULL, bytes_of_string("12345"), false);
	struct result *c = start("HEAD", "/big?n=5000", NULL, nothing, false);
	run();
	assert_int_equal(a->status, 200);
	assert_body(a, "GET /show a=1 a2=2 body=0");
	assert_body(b, "POST /any a=- a2=- body=5");
	assert_int_equal(c->status, 200);
	assert_int_equal(c->body.len, 0);
	assert_true(a->closed && b->closed && c->closed);
	assert_int_equal(a->code, 0);
	assert_int_equal(get("/none")->status, 204);
	assert_int_equal(get("/headers")->status, 201);
	static const char *const gzip[] = {"accept-encoding", "gzip, deflate", NULL};
	a = start("GET", "/big?n=500000", gzip, nothing, false);
	run();
	assert_string_equal(a->encoding, "gzip");
	struct buffer plain;
	buffer_init(&plain, MIB);
	assert_int_equal(gzip_decompress(buffer_bytes(&a->body), &plain, NULL), 0);
	assert_int_equal(plain.len, 500000);
	buffer_release(&plain);
	a = get("/big?n=3000000");
	assert_int_equal(a->body.len, 3000000);
}

static void test_refusals(void **state)
{
	assert_int_equal(get("/nothing")->status, 404);
	assert_int_equal(get("/%zz")->status, 400);
	struct result *result = get("/echo");
	assert_int_equal(result->status, 405);
	assert_string_equal(result->allow, "POST, PUT");
	static const char *const refuse[] = {"x-refuse", "403", NULL};
	result = start("GET", "/show", refuse, nothing, false);
	run();
	assert_int_equal(result->status, 403);
	assert_body(result, "{\"error\":\"you asked for it\"}\n");
	static const char *const brotli[] = {"content-encoding", "br", NULL};
	result = start("POST", "/echo", brotli, bytes_of_string("x"), false);
	run();
	assert_int_equal(result->status, 415);
	static const char *const long_body[] = {"content-length", "4194305", NULL};
	result = start("POST", "/echo", long_body, bytes_of_string("x"), true);
	run();
	assert_int_equal(result->status, 413);
	/* Told to stop, after a while, and without an error. */
	assert_false(result->closed);
	memory_wait(&peer, 3);
	receive_pending();
	assert_true(result->closed);
	assert_int_equal(result->code, NGHTTP2_NO_ERROR);
	result = start("POST", "/test.Echo/Stream", NULL, bytes_of_string("x"), false);
	run();
	assert_int_equal(result->status, 415);
	assert_int_equal(goaway_code, -1);
}

static void test_large_bodies(void **state)
{
	size_t len = 4 * MIB + 1;
	uint8_t *data = calloc(1, len);
	struct result *result = start("POST", "/any", NULL, (struct bytes){data, len - 1}, false);
	run();
	assert_body(result, "POST /any a=- a2=- body=4194304");
	result = start("POST", "/any", NULL, (struct bytes){data, len}, false);
	run();
	assert_int_equal(result->status, 413);
	assert_non_null(memmem(result->body.data, result->body.len, "limit of 4", 10));
	/* The connection's window was given back: the next one works. */
	result = start("POST", "/any", NULL, (struct bytes){data, len - 1}, false);
	run();
	assert_int_equal(result->status, 200);
	free(data);
}

static void test_header_limits(void **state)
{
	char value[3000];
	memset(value, 'a', sizeof(value));
	value[sizeof(value) - 1] = '\0';
	const char *const fields[] = {"a", value, "b", value, NULL};
	struct result *result = start("GET", "/show", fields, nothing, false);
	run();
	assert_int_equal(result->status, 431);
	const char *many[2 * 130 + 1] = {NULL};
	for (int i = 0; i < 130; i++) {
		many[2 * i] = "a";
		many[2 * i + 1] = "";
	}
	result = start("GET", "/show", many, nothing, false);
	run();
	assert_int_equal(result->status, 431);
	/* Far beyond: the stream is reset, the connection lives. */
	const char *const far[] = {"a", value, "a", value, "a", value, "a", value, "a", value, "a", value, "a", value, NULL};
	result = start("GET", "/show", far, nothing, false);
	run();
	assert_true(result->closed);
	assert_int_equal(result->status, 0);
	assert_int_equal(get("/show")->status, 200);
}

static void test_concurrent_streams(void **state)
{
	struct result *all[NET_STREAMS_MAX];
	run(); /* the settings are known from here on */
	for (size_t i = 0; i < NET_STREAMS_MAX; i++)
		all[i] = start("GET", "/show", NULL, nothing, false);
	send_pending();
	assert_int_equal(server.workers.fast.count, NET_STREAMS_MAX);
	run();
	for (size_t i = 0; i < NET_STREAMS_MAX; i++)
		assert_int_equal(all[i]->status, 200);
}

/* ---- gRPC ---- */

static struct buffer framed;
static struct bytes frame(const char *text, bool gzip)
{
	buffer_release(&framed);
	buffer_init(&framed, 64 * MIB);
	assert_int_equal(grpc_append_message(&framed, bytes_of_string(text), gzip), 0);
	return buffer_bytes(&framed);
}

static struct bytes more(const char *text)
{
	assert_int_equal(grpc_append_message(&framed, bytes_of_string(text), false), 0);
	return buffer_bytes(&framed);
}

static void test_grpc_unary(void **state)
{
	struct result *result = grpc("/test.Echo/Unary", grpc_fields, frame("hello", false));
	assert_grpc(result, GRPC_OK, "");
	assert_int_equal(result->header_frames, 2);
	struct bytes expected = frame("hello", false);
	assert_true(bytes_equal(buffer_bytes(&result->body), expected));
	assert_int_equal(result->code, NGHTTP2_NO_ERROR);
	result = grpc("/test.Echo/Unary", grpc_fields, frame("", false));
	assert_grpc(result, GRPC_OK, "");
	assert_int_equal(result->body.len, 5);
	result = grpc("/test.Echo/Fail", grpc_fields, frame("x", false));
	assert_grpc(result, GRPC_INVALID_ARGUMENT, "bad profile: \"x\" is 100%25 wrong %C3%A4");
	assert_int_equal(result->header_frames, 1); /* Trailers-Only */
	assert_int_equal(result->body.len, 0);
	buffer_release(&framed);
}

static void test_grpc_gzip(void **state)
{
	static char text[100001];
	memset(text, 'z', sizeof(text) - 1);
	struct result *result = grpc("/test.Echo/Unary", grpc_gzip, frame(text, true));
	assert_grpc(result, GRPC_OK, "");
	assert_string_equal(result->encoding, "gzip");
	assert_int_equal(result->body.data[0], 1);
	struct buffer plain;
	buffer_init(&plain, MIB);
	assert_int_equal(gzip_decompress((struct bytes){result->body.data + 5, result->body.len - 5}, &plain, NULL), 0);
	assert_int_equal(plain.len, 100000);
	buffer_release(&plain);
	/* 100,000 bytes out of a hundred: over the limit of this method */
	result = grpc("/test.Echo/Small", grpc_gzip, frame(text, true));
	assert_grpc(result, GRPC_RESOURCE_EXHAUSTED, "limit of 100 B");
	buffer_release(&framed);
}

static void test_grpc_refusals(void **state)
{
	assert_grpc(grpc("/test.Echo/Nothing", grpc_fields, frame("x", false)), GRPC_UNIMPLEMENTED,
		    "no such path: /test.Echo/Nothing");
	assert_grpc(grpc("/show", grpc_fields, frame("x", false)), GRPC_UNIMPLEMENTED, "does not allow POST");
	assert_grpc(grpc("/test.Echo/Unary", grpc_fields, nothing), GRPC_INTERNAL, "without a message");
	struct bytes two = (frame("one", false), more("two"));
	assert_grpc(grpc("/test.Echo/Unary", grpc_fields, two), GRPC_INTERNAL, "takes one message");
	assert_grpc(grpc("/test.Echo/Unary", grpc_fields, (struct bytes){(const uint8_t *)"\0\0\0\0\5hel", 8}), GRPC_INTERNAL,
		    "in the middle of a message");
	assert_grpc(grpc("/test.Echo/Unary", grpc_fields, (struct bytes){(const uint8_t *)"\0\0\0", 3}), GRPC_INTERNAL,
		    "in the middle of a message");
	assert_grpc(grpc("/test.Echo/Unary", grpc_fields, (struct bytes){(const uint8_t *)"\2\0\0\0\1x", 6}), GRPC_INTERNAL,
		    "flag");
	assert_grpc(grpc("/test.Echo/Unary", grpc_fields, (struct bytes){(const uint8_t *)"\1\0\0\0\1x", 6}), GRPC_INTERNAL,
		    "grpc-encoding is missing");
	assert_grpc(grpc("/test.Echo/Unary", grpc_gzip, (struct bytes){(const uint8_t *)"\1\0\0\0\1x", 6}),
		    GRPC_INVALID_ARGUMENT, "cannot decompress");
	assert_grpc(grpc("/test.Echo/Small", grpc_fields, (struct bytes){(const uint8_t *)"\0\0\0\0\145", 5}),
		    GRPC_RESOURCE_EXHAUSTED, "limit of 100 B");
	assert_grpc(grpc("/test.Echo/Unary", grpc_fields, (struct bytes){(const uint8_t *)"\0\377\377\377\377", 5}),
		    GRPC_RESOURCE_EXHAUSTED, "limit of 4");
	static const char *const snappy[] = {"content-type", "application/grpc", "grpc-encoding", "snappy", NULL};
	assert_grpc(grpc("/test.Echo/Unary", snappy, frame("x", false)), GRPC_UNIMPLEMENTED, "snappy");
	static const char *const timeout[] = {"content-type", "application/grpc", "grpc-timeout", "soon", NULL};
	assert_grpc(grpc("/test.Echo/Unary", timeout, frame("x", false)), GRPC_INVALID_ARGUMENT, "grpc-timeout");
	static const char *const denied[] = {"content-type", "application/grpc", "x-refuse", "401", NULL};
	assert_grpc(grpc("/test.Echo/Unary", denied, frame("x", false)), GRPC_UNAUTHENTICATED, "you asked for it");
	buffer_release(&framed);
}

static void test_grpc_deadline(void **state)
{
	static const char *const timeout[] = {"content-type", "application/grpc", "grpc-timeout", "1500m", NULL};
	struct result *result = start("POST", "/test.Echo/Unary", timeout, frame("x", false), false);
	send_pending();
	server.fake_now_ns += 1400 * NS_PER_MS;
	server_check_time(&server);
	receive_pending();
	assert_int_equal(result->grpc, -1);
	const struct net_exchange *exchange = peer.connection.exchanges;
	server.fake_now_ns += 200 * NS_PER_MS;
	server_check_time(&server);
	assert_true(exchange->request.cancelled); /* still the worker's */
	receive_pending();
	assert_grpc(result, GRPC_DEADLINE_EXCEEDED, "the request took longer than 1.5 s");
	run();
	/* Before the message is there */
	result = start("POST", "/test.Echo/Unary", timeout, nothing, true);
	run();
	memory_wait(&peer, 2);
	receive_pending();
	assert_grpc(result, GRPC_DEADLINE_EXCEEDED, "1.5 s");
	buffer_release(&framed);
}

static void test_grpc_streams(void **state)
{
	struct bytes three = (frame("one", false), more(""), more("three"));
	struct result *result = grpc("/test.Echo/Stream", grpc_fields, three);
	assert_grpc(result, GRPC_OK, "");
	assert_true(bytes_equal(buffer_bytes(&result->body), three));
	result = grpc("/test.Echo/Sum", grpc_fields, three);
	assert_grpc(result, GRPC_OK, "");
	assert_memory_equal(result->body.data + 5, "3 messages, 8 bytes", 19);
	result = grpc("/test.Echo/Sum", grpc_fields, nothing);
	assert_memory_equal(result->body.data + 5, "0 messages, 0 bytes", 19);
	assert_int_equal(test_closed_count, 3);
	/* The handler ends it early. */
	struct bytes failing = (frame("one", false), more("fail"), more("three"));
	result = grpc("/test.Echo/Stream", grpc_fields, failing);
	assert_grpc(result, GRPC_FAILED_PRECONDITION, "told to fail");
	assert_int_equal(result->body.len, 8);
	assert_int_equal(test_closed_count, 4);
	/* Cut in the middle */
	result = grpc("/test.Echo/Stream", grpc_fields, (struct bytes){framed.data, 10});
	assert_grpc(result, GRPC_INTERNAL, "in the middle of a message");
	buffer_release(&framed);
}

/* Answers come while the client still talks. */
static void test_grpc_bidi(void **state)
{
	struct bytes two = (frame("one", false), more("two"));
	struct result *result = start("POST", "/test.Echo/Stream", grpc_fields, (struct bytes){two.data, 8}, true);
	run();
	assert_int_equal(result->status, 200);
	assert_int_equal(result->body.len, 8);
	assert_false(result->closed);
	uploads[result - results] = (struct upload){two, 8, true};
	nghttp2_session_resume_data(client, id_of(result));
	run();
	assert_int_equal(result->body.len, 16);
	uploads[result - results].open = false;
	nghttp2_session_resume_data(client, id_of(result));
	run();
	assert_grpc(result, GRPC_OK, "");
	assert_true(result->closed);
	/* Ended by the handler while the client could still talk. */
	int before = test_closed_count;
	struct bytes done = (frame("done", false), more("more"));
	result = start("POST", "/test.Echo/Stream", grpc_fields, (struct bytes){done.data, 9}, true);
	run();
	assert_grpc(result, GRPC_OK, "");
	assert_int_equal(result->body.len, 9);
	assert_int_equal(test_closed_count, before + 1);
	uploads[result - results].open = false;
	nghttp2_session_resume_data(client, id_of(result));
	run();
	assert_true(result->closed);
	assert_int_equal(test_closed_count, before + 1);
	/* Reset by the client: the handler is notified. */
	two = (frame("one", false), more("two"));
	before = test_closed_count;
	result = start("POST", "/test.Echo/Stream", grpc_fields, (struct bytes){two.data, 8}, true);
	run();
	nghttp2_submit_rst_stream(client, 0, id_of(result), NGHTTP2_CANCEL);
	run();
	assert_int_equal(test_closed_count, before + 1);
	/* Idle */
	result = start("POST", "/test.Echo/Stream", grpc_fields, (struct bytes){two.data, 8}, true);
	run();
	memory_wait(&peer, 121);
	receive_pending();
	run();
	assert_grpc(result, GRPC_DEADLINE_EXCEEDED, "the next message took longer than 2 min");
	memory_wait(&peer, 3);
	assert_int_equal(test_closed_count, before + 2);
	buffer_release(&framed);
}

/* The worker is behind: no more than a window and the backlog is let in. */
static void test_grpc_backpressure(void **state)
{
	size_t len = 3 * MIB;
	struct buffer data;
	buffer_init(&data, 64 * MIB);
	uint8_t *message = calloc(1, 64 * KIB);
	for (size_t i = 0; i < 4 * len / (64 * KIB); i++)
		grpc_append_message(&data, (struct bytes){message, 64 * KIB}, false);
	run();
	struct result *result = start("POST", "/test.Echo/Sum", grpc_fields, buffer_bytes(&data), false);
	for (int i = 0; i < 100; i++) {
		send_pending();
		receive_pending();
	}
	struct net_exchange *exchange = peer.connection.exchanges;
	assert_true(exchange->received_bytes < 4 * MIB);
	assert_true(uploads[result - results].at < data.len);
	run();
	assert_grpc(result, GRPC_OK, "");
	assert_memory_equal(result->body.data + 5, "192 messages, 12582912 bytes", 28);
	free(message);
	buffer_release(&data);
}

/* ---- hostility ---- */

static void test_rapid_reset(void **state)
{
	int resets = 0;
	run();
	for (; resets < STREAMS - 10 && goaway_code < 0; resets++) {
		struct result *result = start("GET", "/show", NULL, nothing, false);
		send_pending();
		nghttp2_submit_rst_stream(client, 0, id_of(result), NGHTTP2_CANCEL);
		send_pending();
		receive_pending();
	}
	assert_int_equal(goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
	assert_in_range(resets, 200, 202);
	run();
	assert_true(peer.shut);
}

static void repeat_frame(const char *bytes, size_t len, int times)
{
	for (int i = 0; i < times && !peer.closed; i++)
		connection_input(&peer.connection, (struct bytes){(const uint8_t *)bytes, len});
	memory_run(&peer);
	receive_pending();
}

static void test_floods(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} floods[] = {
		{"\0\0\10\6\0\0\0\0\0"
		 "12345678",
		 17},			   /* PING */
		{"\0\0\0\4\0\0\0\0\0", 9}, /* SETTINGS */
		{"\0\0\5\2\0\0\0\0\3"
		 "\0\0\0\0\1",
		 14},			   /* PRIORITY */
		{"\0\0\0\0\0\0\0\0\1", 9}, /* empty DATA on stream 1 */
	};
	for (size_t i = 0; i < 4; i++) {
		if (i > 0) {
			teardown(state);
			setup(state);
		}
		start("POST", "/echo", NULL, nothing, true);
		run();
		repeat_frame(floods[i].bytes, floods[i].len, 2000);
		/* Not through the client, which has its own opinion of 1,000 acknowledgements. */
		const uint8_t *last = peer.out.data + peer.out.len - 17;
		if (last[3] != NGHTTP2_GOAWAY || last[16] != NGHTTP2_ENHANCE_YOUR_CALM || !peer.shut)
			fail_msg("flood %zu: no GOAWAY", i);
	}
	/* Nobody reads our acknowledgements */
	teardown(state);
	setup(state);
	run();
	peer.slow = true;
	repeat_frame(floods[0].bytes, floods[0].len, 2000);
	assert_true(peer.out.len < 64 * KIB);
}

static void test_malformed(void **state)
{
	run();
	repeat_frame("\0\100\1\0\0\0\0\0\1", 9, 1); /* a frame over SETTINGS_MAX_FRAME_SIZE */
	assert_int_equal(goaway_code, NGHTTP2_FRAME_SIZE_ERROR);
	assert_true(peer.shut);
	teardown(state);
	setup(state);
	run();
	repeat_frame("\0\0\4\1\5\0\0\0\1\377\377\377\377", 13, 1); /* broken HPACK */
	assert_int_equal(goaway_code, NGHTTP2_COMPRESSION_ERROR);
	/* An unfinished header block blocks the connection: cut off in time */
	teardown(state);
	setup(state);
	run();
	repeat_frame("\0\0\1\1\0\0\0\0\1\202", 10, 1);
	memory_wait(&peer, 9);
	assert_false(peer.shut);
	memory_wait(&peer, 2);
	assert_true(peer.shut);
}

static void test_times(void **state)
{
	struct result *result = start("POST", "/echo", NULL, bytes_of_string("x"), true);
	run();
	memory_wait(&peer, 61);
	receive_pending();
	assert_int_equal(result->status, 408);
	memory_wait(&peer, 3);
	receive_pending();
	assert_true(result->closed);
	memory_wait(&peer, 119);
	assert_false(peer.shut);
	memory_wait(&peer, 2);
	receive_pending();
	assert_int_equal(goaway_code, NGHTTP2_NO_ERROR);
	assert_true(peer.shut);
}

/* A client that opens no window gets its stream reset. */
static void test_slow_reader(void **state)
{
	nghttp2_settings_entry settings = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10};
	nghttp2_submit_settings(client, 0, &settings, 1);
	struct result *result = start("GET", "/big?n=100000", NULL, nothing, false);
	send_pending();
	memory_run(&peer);
	memory_wait(&peer, 29);
	assert_int_equal(peer.connection.exchange_count, 1);
	memory_wait(&peer, 2);
	assert_int_equal(peer.connection.exchange_count, 0);
	receive_pending();
	assert_int_equal(result->code, NGHTTP2_INTERNAL_ERROR);
	assert_int_equal(server.stats.answers_stalled, 1);
	assert_int_equal(server.answer_bytes, 0);
}

/* ---- answers that are sent while they are made ---- */

static void assert_text(struct bytes text, size_t len)
{
	assert_int_equal(text.len, len);
	for (size_t i = 0; i < len; i++)
		if (text.data[i] != test_byte(i))
			fail_msg("another byte at %zu", i);
}

static void test_flows(void **state)
{
	static const char *const gzip[] = {"accept-encoding", "gzip", NULL};
	_cleanup_(buffer_release) struct buffer plain = {.max = GIB};
	test_released_count = 0;
	struct result *a = start("GET", "/flow?n=1000000", NULL, nothing, false);
	struct result *b = start("GET", "/pull?n=1000000", NULL, nothing, false);
	struct result *c = start("GET", "/flow?n=1000000", gzip, nothing, false);
	struct result *d = start("HEAD", "/flow?n=1000000", NULL, nothing, false);
	struct result *e = start("HEAD", "/pull?n=1000000", NULL, nothing, false);
	struct result *f = start("GET", "/pull?n=0", NULL, nothing, false);
	run();
	assert_text(buffer_bytes(&a->body), 1000000);
	assert_text(buffer_bytes(&b->body), 1000000);
	assert_string_equal(c->encoding, "gzip");
	assert_int_equal(gzip_decompress(buffer_bytes(&c->body), &plain, NULL), 0);
	assert_text(buffer_bytes(&plain), 1000000);
	const struct result *all[] = {a, b, c, d, e, f};
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		assert_int_equal(all[i]->status, 200);
		assert_true(all[i]->closed);
		assert_int_equal(all[i]->code, NGHTTP2_NO_ERROR);
		assert_int_equal(i < 3 ? 0 : all[i]->body.len, 0);
	}
	assert_int_equal(test_released_count, 3);
	assert_int_equal(server.stats.answers_broken, 0);
	assert_int_equal(server.answer_bytes, 0);
}

static void test_broken_flows(void **state)
{
	struct result *a = start("GET", "/flow?n=1000000&fail=900000", NULL, nothing, false);
	struct result *b = start("GET", "/pull?n=1000000&fail=500000", NULL, nothing, false);
	struct result *c = start("GET", "/flow?n=1000000&fail=100000", NULL, nothing, false);
	run();
	assert_int_equal(a->status, 200);
	assert_int_equal(b->status, 200);
	assert_true(a->closed && b->closed);
	assert_int_equal(a->code, NGHTTP2_INTERNAL_ERROR);
	assert_int_equal(b->code, NGHTTP2_INTERNAL_ERROR);
	assert_int_equal(server.stats.answers_broken, 2);
	/* Before its first piece it fails as any other. */
	assert_int_equal(c->status, 500);
	assert_body(c, "{\"error\":\"failed\"}");
	assert_int_equal(get("/show")->status, 200);
}

/* Of many streams without a window nothing is held that is pulled, and they are reset in time. */
static void test_flows_without_window(void **state)
{
	nghttp2_settings_entry settings = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
	struct result *all[NET_STREAMS_MAX];
	nghttp2_submit_settings(client, 0, &settings, 1);
	run();
	test_released_count = 0;
	for (size_t i = 0; i < NET_STREAMS_MAX; i++)
		all[i] = start("GET", i % 2 ? "/pull?n=100000000" : "/flow?n=400000", NULL, nothing, false);
	run();
	assert_int_equal(peer.connection.exchange_count, NET_STREAMS_MAX);
	assert_int_equal(server.answer_bytes, NET_STREAMS_MAX / 2 * (400000 + NET_SOURCE_BYTES));
	for (const struct net_exchange *at = peer.connection.exchanges; at; at = at->next)
		assert_true(!at->flow->source || (!at->flow->queue.first && !at->flow->sending.first));
	/* One of them is read. */
	nghttp2_submit_window_update(client, 0, id_of(all[0]), 1000000);
	run();
	assert_text(buffer_bytes(&all[0]->body), 400000);
	memory_wait(&peer, 31);
	run();
	assert_int_equal(peer.connection.exchange_count, 0);
	assert_int_equal(server.stats.answers_stalled, NET_STREAMS_MAX - 1);
	assert_int_equal(all[1]->code, NGHTTP2_INTERNAL_ERROR);
	assert_int_equal(test_released_count, NET_STREAMS_MAX / 2);
	assert_int_equal(server.answer_bytes, 0);
}

static void test_stop(void **state)
{
	struct result *result = start("GET", "/show", NULL, nothing, false);
	send_pending();
	server_stop_connections(&server);
	receive_pending();
	assert_int_equal(goaway_code, NGHTTP2_NO_ERROR);
	assert_false(peer.shut);
	memory_run(&peer);
	receive_pending();
	assert_int_equal(result->status, 200);
	assert_true(peer.shut);
}

static void test_disconnect_with_everything_open(void **state)
{
	struct bytes one = frame("one", false);
	start("POST", "/test.Echo/Stream", grpc_fields, one, true);
	start("POST", "/test.Echo/Stream", grpc_fields, one, true);
	start("GET", "/big?n=1000000", NULL, nothing, false);
	start("GET", "/flow?n=1000000", NULL, nothing, false);
	start("GET", "/pull?n=1000000", NULL, nothing, false);
	start("POST", "/echo", NULL, one, true);
	send_pending();
	workers_run_here(&server.workers);
	start("GET", "/show", NULL, nothing, false);
	send_pending();
	buffer_release(&framed);
	/* teardown() checks that nothing is left */
}

static void talk_short_of_memory(struct bytes message)
{
	static const char *const fields[] = {"content-type", "application/grpc", "grpc-accept-encoding", "gzip", NULL};
	start("POST", "/test.Echo/Unary", fields, message, false);
	start("POST", "/test.Echo/Stream", fields, message, false);
	start("GET", "/show?a=%41", NULL, nothing, false);
	start("GET", "/flow?n=400000", NULL, nothing, false);
	start("GET", "/pull?n=200000", NULL, nothing, false);
	run();
}

static void test_short_of_memory(void **state)
{
	static char text[3000];
	memset(text, 'a', sizeof(text) - 1);
	struct bytes message = frame(text, false);
	bool reached = true;
	uint64_t n;
	for (n = 1; reached && n < 2000; n++) {
		fault_arm(FAULT_ALLOC, n, 0);
		talk_short_of_memory(message);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(teardown(state), 0);
		assert_int_equal(setup(state), 0);
	}
	assert_true(n > 20 && n < 2000);
	assert_int_equal(get("/show")->status, 200);
	buffer_release(&framed);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_plain),
		TEST(test_refusals),
		TEST(test_large_bodies),
		TEST(test_header_limits),
		TEST(test_concurrent_streams),
		TEST(test_grpc_unary),
		TEST(test_grpc_gzip),
		TEST(test_grpc_refusals),
		TEST(test_grpc_deadline),
		TEST(test_grpc_streams),
		TEST(test_grpc_bidi),
		TEST(test_grpc_backpressure),
		TEST(test_rapid_reset),
		TEST(test_floods),
		TEST(test_malformed),
		TEST(test_times),
		TEST(test_slow_reader),
		TEST(test_flows),
		TEST(test_broken_flows),
		TEST(test_flows_without_window),
		TEST(test_stop),
		TEST(test_disconnect_with_everything_open),
		TEST(test_short_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
