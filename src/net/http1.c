/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 on the server (RFC 9112). One request at a time: pipelined ones wait in the connection until the answer before them
 * is out, which keeps the order without a queue of answers.
 *
 *   HEAD ──> BODY ──> WAIT (a worker has it) ──> SEND ──> HEAD | close
 *     └────────┴──── refused ────────────────────┘
 *
 * llhttp reads the head only, with all its leniency off; the body is http1_body.c's. Where a request ends must not depend on
 * one parser alone, so every byte of the head is also looked at here: lines end in CRLF, no folded lines, no control
 * characters, names are tokens, and what frames the body is said once. After a refusal whose request was not read to its end
 * the connection closes: nobody can know where the next request would start.
 *
 * gRPC is specified for HTTP/2, but clients of connect-go whose HTTP library negotiated HTTP/1.1 send unary calls over it, and
 * its servers take them (connectrpc.com/connect, handler.go). The body is the same run of frames, and the status comes in the
 * trailers of a chunked body:
 *
 *   HTTP/1.1 200 OK, Content-Type, Trailer: Grpc-Status, Grpc-Message, Transfer-Encoding: chunked
 *   one chunk: prefix, message     (none after a failure)
 *   last chunk, Grpc-Status: N, Grpc-Message: TEXT
 *
 * A stream needs both directions at a time and therefore HTTP/2.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "net/http1_int.h"
#include "net/net_int.h"

static const char continue_line[] = "HTTP/1.1 100 Continue\r\n\r\n";

struct http1 {
	llhttp_t parser;
	enum { HTTP1_HEAD, HTTP1_BODY, HTTP1_WAIT, HTTP1_SEND } state;
	struct net_exchange *exchange; /* from the first byte of its head */
	struct http1_body body;
	struct buffer name, value; /* of the header field being read; name also collects the target */
	struct buffer head;	   /* of the answer */
	size_t head_bytes;
	int64_t head_started_ns;
	int fault; /* of a parser callback */
	uint8_t last;
	bool head_complete, keep_alive, has_length, continue_due, continue_out;
	/* Of an answer that is sent while it is made: */
	bool chunk_open; /* its CRLF is due */
	bool last_out;	 /* nothing comes after the write that is under way */
	size_t piece;	 /* bytes of the flow in that write */
};

/* ---- the head ---- */

/* Callbacks of the parser: 0, or -1 and http->fault. */
static int append(struct http1 *http, struct buffer *buffer, const char *data, size_t len)
{
	http->fault = buffer_append(buffer, data, len);
	return http->fault < 0 ? -1 : 0;
}

/* Of the request's target, and of a field. */
static int on_name(llhttp_t *parser, const char *data, size_t len)
{
	struct http1 *http = parser->data;
	return append(http, &http->name, data, len);
}

static int on_url_complete(llhttp_t *parser)
{
	struct http1 *http = parser->data;
	struct net_request *request = &http->exchange->request;
	const char *target = arena_strndup(&request->arena, (const char *)http->name.data, http->name.len);
	buffer_clear(&http->name);
	if (target)
		request->target = target;
	http->fault = target ? 0 : -ENOMEM;
	return http->fault < 0 ? -1 : 0;
}

static int on_header_value(llhttp_t *parser, const char *data, size_t len)
{
	struct http1 *http = parser->data;
	return append(http, &http->value, data, len);
}

static int on_header_value_complete(llhttp_t *parser)
{
	struct http1 *http = parser->data;
	struct bytes value = buffer_bytes(&http->value);
	while (value.len > 0 && (value.data[value.len - 1] == ' ' || value.data[value.len - 1] == '\t'))
		value.len--;
	http->fault = request_add_header(&http->exchange->request, buffer_bytes(&http->name), value);
	buffer_clear(&http->name);
	buffer_clear(&http->value);
	return http->fault < 0 ? -1 : 0;
}

/* The parser is not asked to go on: the next request has one of its own. */
static int on_headers_complete(llhttp_t *parser)
{
	struct http1 *http = parser->data;
	http->head_complete = true;
	/* HTTP/1.0 keeps connections only by an extension that nobody needs any more. */
	http->keep_alive = parser->http_minor > 0 && llhttp_should_keep_alive(parser);
	http->has_length = parser->flags & F_CONTENT_LENGTH;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_protocol = http1_on_protocol,
	.on_url = on_name,
	.on_url_complete = on_url_complete,
	.on_header_field = on_name,
	.on_header_value = on_header_value,
	.on_header_value_complete = on_header_value_complete,
	.on_headers_complete = on_headers_complete,
};

static void reset(struct http1 *http)
{
	llhttp_init(&http->parser, HTTP_REQUEST, &settings);
	http->parser.data = http;
	http->state = HTTP1_HEAD;
	http->head_bytes = 0;
	http->last = 0;
	http->fault = 0;
	http->head_complete = http->continue_due = http->chunk_open = http->last_out = false;
	http->keep_alive = true;
	buffer_clear(&http->name);
	buffer_clear(&http->value);
	buffer_clear(&http->head);
}

int http1_start(struct net_connection *connection)
{
	struct http1 *http = mem_zalloc(sizeof(*http));
	if (!http)
		return -ENOMEM;
	buffer_init(&http->name, NET_HEADER_BYTES_CEILING);
	buffer_init(&http->value, NET_HEADER_BYTES_CEILING);
	buffer_init(&http->head, 2 * NET_RESPONSE_HEADERS_MAX);
	reset(http);
	connection->state = http;
	connection->protocol = &http1_protocol;
	return 0;
}

static void refuse_head(struct net_connection *connection, int status, const char *why)
{
	struct http1 *http = connection->state;
	http->keep_alive = false;
	http->exchange->head_done = true;
	exchange_refuse(http->exchange, status, -1, "%s", why);
}

/* See the top. */
static const char *find_leniency(struct http1 *http, struct bytes head)
{
	for (size_t i = 0; i < head.len; i++) {
		uint8_t c = head.data[i], last = http->last;
		http->last = c;
		if ((c == '\n') != (last == '\r'))
			return "malformed request: lines must end in CRLF";
		if ((c == ' ' || c == '\t') && last == '\n')
			return "malformed request: folded header lines are not allowed";
		if ((c < ' ' && c != '\t' && c != '\r' && c != '\n') || c == 0x7f)
			return "malformed request: control character in the header";
	}
	return NULL;
}

#define ONLY_HTTP "only HTTP/1.0, HTTP/1.1 and HTTP/2 are supported"

/* Rules over the whole head. Returns the status to refuse with and why, or 0. */
static int check_head(const struct http1 *http, const char **ret_why)
{
	const struct net_request *request = &http->exchange->request;
	const char *coding = net_request_header(request, "transfer-encoding");
	const char *expect = net_request_header(request, "expect");
	size_t hosts = request_count_header(request, "host");
	bool minor = http->parser.http_minor;
	for (size_t i = 0; i < request->headers.count; i++)
		if (!http_is_token(request->headers.items[i].name))
			return *ret_why = "malformed request: bad header name", 400;
	if (http->parser.http_major != 1 || http->parser.http_minor > 1)
		return *ret_why = ONLY_HTTP, 505;
	if (hosts > 1 || (minor && hosts == 0))
		return *ret_why = "malformed request: exactly one Host header is required", 400;
	if (coding && (http->has_length || !minor || request_count_header(request, "transfer-encoding") > 1))
		return *ret_why = "malformed request: Transfer-Encoding beside Content-Length, twice, or in HTTP/1.0", 400;
	if (coding && strcasecmp(coding, "chunked"))
		return *ret_why = "the only supported Transfer-Encoding is chunked", 501;
	if (expect && strcasecmp(expect, "100-continue"))
		return *ret_why = "the only supported Expect is 100-continue", 417;
	if (!minor && grpc_is_content_type(net_request_header(request, "content-type")))
		return *ret_why = "gRPC needs HTTP/1.1 or HTTP/2", 505;
	return 0;
}

static void begin(struct net_connection *connection, int64_t now_ns)
{
	struct http1 *http = connection->state;
	struct net_exchange *exchange = http->exchange;
	const char *why;
	exchange->request.method = llhttp_method_name(http->parser.method);
	int status = check_head(http, &why);
	if (status) {
		server_count(connection->server, protocol_errors, 1);
		refuse_head(connection, status, why);
		return;
	}
	/* By now the only coding there can be is chunked. */
	bool chunked = net_request_header(&exchange->request, "transfer-encoding");
	exchange->may_flow = http->parser.http_minor > 0;
	http1_body_init(&http->body, chunked, http->has_length ? http->parser.content_length : 0);
	http->state = HTTP1_BODY;
	uint64_t length = http->body.left < INT64_MAX ? http->body.left : INT64_MAX;
	exchange_begin(exchange, http->has_length ? (int64_t)length : -1, now_ns);
	if (exchange->answered)
		return;
	if (http->body.framing == HTTP1_BODY_NONE) {
		http->state = HTTP1_WAIT;
		exchange_end(exchange);
	} else {
		http->continue_due = http->parser.http_minor && net_request_header(&exchange->request, "expect");
	}
}

static size_t head_failed(struct net_connection *connection, size_t len, const char *leniency)
{
	struct http1 *http = connection->state;
	char why[160];
	server_count(connection->server, protocol_errors, 1);
	if (leniency) {
		refuse_head(connection, 400, leniency);
	} else if (llhttp_get_errno(&http->parser) == HPE_INVALID_VERSION &&
		   (http->parser.http_major > 1 || http->parser.http_minor > 1)) {
		refuse_head(connection, 505, ONLY_HTTP);
	} else if (!http->fault) {
		snprintf(why, sizeof(why), "malformed request: %s", llhttp_get_error_reason(&http->parser));
		refuse_head(connection, 400, why);
	} else if (http->fault == -E2BIG) {
		snprintf(why, sizeof(why), "the header has more than %d fields", NET_HEADERS_MAX);
		refuse_head(connection, 431, why);
	} else {
		refuse_head(connection, 503, "out of memory");
	}
	return len;
}

static size_t head_input(struct net_connection *connection, struct bytes data)
{
	struct http1 *http = connection->state;
	size_t max = connection->server->options.header_max;
	int64_t now_ns = server_now_ns(connection->server);
	if (!http->exchange) {
		http->exchange = exchange_new(connection, now_ns);
		if (!http->exchange) {
			connection_close(connection);
			return data.len;
		}
		http->head_started_ns = now_ns;
	}
	size_t len = data.len < max + 1 - http->head_bytes ? data.len : max + 1 - http->head_bytes;
	llhttp_errno_t code = llhttp_execute(&http->parser, (const char *)data.data, len);
	size_t taken = http1_taken(&http->parser, code, data.data, len);
	const char *leniency = find_leniency(http, (struct bytes){data.data, taken});
	if (leniency || (code != HPE_OK && !http->head_complete))
		return head_failed(connection, data.len, leniency);
	http->head_bytes += taken;
	if (http->head_bytes > max) {
		char why[80];
		snprintf(why, sizeof(why), "the header is larger than the limit of %zu bytes", max);
		refuse_head(connection, 431, why);
	} else if (http->head_complete) {
		begin(connection, now_ns);
	}
	return taken;
}

/* ---- the body ---- */

static size_t body_input(struct net_connection *connection, struct bytes data)
{
	struct http1 *http = connection->state;
	struct bytes rest = data, piece;
	/* The client did not wait for it. */
	http->continue_due = false;
	int r = http1_body_read(&http->body, &rest, &piece);
	if (r == 1) {
		exchange_data(http->exchange, piece);
		if (http->state == HTTP1_BODY && http->body.framing == HTTP1_BODY_LENGTH && http->body.left == 0)
			r = 2;
	}
	if (r == 2 && http->state == HTTP1_BODY) {
		http->state = HTTP1_WAIT;
		exchange_end(http->exchange);
	} else if (r < 0) {
		server_count(connection->server, protocol_errors, 1);
		refuse_head(connection, 400, "malformed request: bad chunked body");
		return data.len;
	}
	return data.len - rest.len;
}

static size_t input(struct net_connection *connection, struct bytes data)
{
	struct http1 *http = connection->state;
	switch (http->state) {
	case HTTP1_HEAD: return head_input(connection, data);
	case HTTP1_BODY: return body_input(connection, data);
	default: return 0;
	}
}

/* ---- the answer ---- */

/* The head of a gRPC response, with the size of its chunk and the prefix of the message; the body gets the rest. */
static int write_grpc(struct net_exchange *exchange, bool keep_alive, struct buffer *out)
{
	const char *content_type = net_request_header(&exchange->request, "content-type");
	struct net_response *response = &exchange->response;
	char message[3 * sizeof(response->message)];
	bool ok = response->grpc_status == GRPC_OK;
	size_t len = response->body.len;
	if (!ok)
		buffer_clear(&response->body);
	response->body.max = SIZE_MAX; /* a compressed message has room for itself only */
	buffer_printf(out, "HTTP/1.1 200 OK\r\nDate: %s\r\nContent-Type: %s\r\n", server_date(exchange->server),
		      content_type ? content_type : "application/grpc");
	buffer_append_string(out, "Transfer-Encoding: chunked\r\nTrailer: Grpc-Status, Grpc-Message\r\n"
				  "Grpc-Accept-Encoding: identity,gzip\r\n");
	if (ok && exchange->message_compressed)
		buffer_append_string(out, "Grpc-Encoding: gzip\r\n");
	buffer_append(out, response->headers.data, response->headers.len);
	buffer_append_string(out, keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
	if (ok) {
		buffer_printf(out, "%zx\r\n", GRPC_PREFIX_BYTES + len);
		buffer_append(out, exchange->prefix, GRPC_PREFIX_BYTES);
		buffer_append_string(&response->body, "\r\n");
	}
	grpc_encode_status_message(ok ? "" : response->message, message, sizeof(message));
	buffer_printf(&response->body, "0\r\nGrpc-Status: %d\r\nGrpc-Message: %s\r\n\r\n", (int)response->grpc_status, message);
	int r = buffer_status(&response->body);
	return r < 0 ? r : buffer_status(out);
}

static int write_head(struct net_exchange *exchange, bool keep_alive, struct buffer *out)
{
	return exchange->request.grpc ? write_grpc(exchange, keep_alive, out)
				      : response_write_head(exchange_head(exchange), exchange_length(exchange),
							    server_date(exchange->server), keep_alive, out);
}

static void answer(struct net_exchange *exchange)
{
	struct net_connection *connection = exchange->connection;
	struct http1 *http = connection->state;
	bool whole = exchange->body_done || (http->head_complete && http->body.framing == HTTP1_BODY_NONE);
	bool last = connection->eof && connection->pending.len == connection->pending_at;
	bool keep = http->keep_alive && whole && !last && !connection->server->stopping;
	http->keep_alive = keep;
	http->state = HTTP1_SEND;
	http->continue_due = false;
	if (write_head(exchange, keep, &http->head) < 0)
		connection_close(connection);
	connection_run(connection);
}

/* What is next of an answer that is sent while it is made: its head, a piece, its end. A source is asked for more when there is
 * nothing. */
static size_t output_flow(struct net_connection *connection, struct bytes parts[2])
{
	struct http1 *http = connection->state;
	struct net_exchange *exchange = http->exchange;
	struct net_flow *flow = exchange->flow;
	bool chunked = flow->length == UINT64_MAX, bodyless = exchange_is_bodyless(exchange);
	struct bytes front = bodyless ? (struct bytes){0} : flow_front(flow);
	bool ends = bodyless || flow_is_complete(flow);
	if (front.len == 0 && !ends) {
		flow_pull(exchange);
		return 0;
	}
	if (chunked && http->chunk_open)
		buffer_append_string(&http->head, "\r\n");
	if (chunked && front.len > 0)
		buffer_printf(&http->head, "%zx\r\n", front.len);
	else if (chunked && !bodyless)
		buffer_append_string(&http->head, "0\r\n\r\n");
	http->chunk_open = front.len > 0;
	http->piece = front.len;
	http->last_out = ends || (!chunked && flow_is_last(flow));
	if (buffer_status(&http->head) < 0) {
		connection_close(connection);
		return 0;
	}
	size_t count = 0;
	if (http->head.len > 0)
		parts[count++] = buffer_bytes(&http->head);
	/* The last piece of a source may have gone out before its job was back, which is when it is known to be the last: then
	 * an empty write ends the answer. */
	if (front.len > 0 || count == 0)
		parts[count++] = front;
	return count;
}

/* True: all of the answer is out. */
static bool flow_written(struct net_connection *connection)
{
	struct http1 *http = connection->state;
	struct net_exchange *exchange = http->exchange;
	exchange->sent_bytes += http->piece;
	exchange->active_ns = server_now_ns(exchange->server);
	if (http->piece > 0)
		flow_take(exchange->flow, http->piece);
	http->piece = 0;
	buffer_clear(&http->head);
	return http->last_out;
}

static size_t output(struct net_connection *connection, struct bytes parts[2])
{
	struct http1 *http = connection->state;
	if (http->continue_due) {
		http->continue_due = false;
		http->continue_out = true;
		parts[0] = bytes_of_string(continue_line);
		return 1;
	}
	if (http->state != HTTP1_SEND)
		return 0;
	struct net_exchange *exchange = http->exchange;
	if (exchange->flow)
		return output_flow(connection, parts);
	parts[0] = buffer_bytes(&http->head);
	if (!exchange->request.grpc && exchange_output_left(exchange) == 0)
		return 1;
	parts[1] = buffer_bytes(&exchange->response.body);
	return 2;
}

static void written(struct net_connection *connection)
{
	struct http1 *http = connection->state;
	if (http->continue_out) {
		http->continue_out = false;
		return;
	}
	if (http->exchange->flow && !flow_written(connection))
		return;
	exchange_abandon(http->exchange);
	http->exchange = NULL;
	connection->active_ns = server_now_ns(connection->server);
	if (http->keep_alive && !connection->server->stopping)
		reset(http);
	else
		connection_finish(connection);
}

static void resume(struct net_exchange *exchange)
{
	connection_run(exchange->connection);
}

static void adopt(struct net_exchange *stand_in)
{
	struct http1 *http = stand_in->connection->state;
	http->exchange = stand_in;
	http->keep_alive = false;
}

static void abort_exchange(struct net_exchange *exchange)
{
	connection_close(exchange->connection);
}

static bool has_work(const struct net_connection *connection)
{
	const struct http1 *http = connection->state;
	return http->state == HTTP1_WAIT || http->state == HTTP1_SEND;
}

/* It may have closed only its own side and still read. Whoever polls `cancelled` stops early; others are answered. */
static void eof(struct net_connection *connection)
{
	struct http1 *http = connection->state;
	const struct net_flow *flow = http->state == HTTP1_SEND ? http->exchange->flow : NULL;
	if (http->state == HTTP1_WAIT || (flow && !flow->source && http->exchange->job_out))
		cancel_request(&http->exchange->request.cancelled);
}

static void check_time(struct net_connection *connection, int64_t now_ns)
{
	struct http1 *http = connection->state;
	const struct net_server_options *options = &connection->server->options;
	int64_t header_seconds =
		options->request_seconds_max < NET_HEADER_SECONDS ? options->request_seconds_max : NET_HEADER_SECONDS;
	if (http->state == HTTP1_SEND && !http->exchange->flow)
		return; /* connection.c watches the write */
	if (http->state != HTTP1_HEAD) {
		exchange_check_time(http->exchange, now_ns);
	} else if (!http->exchange) {
		if (now_ns - connection->active_ns > options->idle_seconds_max * NS_PER_S)
			connection_close(connection);
	} else if (now_ns - http->head_started_ns > header_seconds * NS_PER_S) {
		char why[80];
		snprintf(why, sizeof(why), "the header took longer than %lld seconds", (long long)header_seconds);
		server_count(connection->server, timeouts, 1);
		refuse_head(connection, 408, why);
	}
}

static void stop(struct net_connection *connection)
{
	struct http1 *http = connection->state;
	if (!http->exchange && connection->pending.len == 0)
		connection_close(connection);
}

static void release(struct net_connection *connection)
{
	struct http1 *http = connection->state;
	buffer_release(&http->name);
	buffer_release(&http->value);
	buffer_release(&http->head);
	connection->state = mem_free(http);
}

const struct net_protocol http1_protocol = {
	.input = input,
	.output = output,
	.written = written,
	.answer = answer,
	.resume = resume,
	.adopt = adopt,
	.abort = abort_exchange,
	.has_work = has_work,
	.eof = eof,
	.check_time = check_time,
	.stop = stop,
	.release = release,
};
