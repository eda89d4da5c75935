/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange: one request and its answer, whichever protocol carries them.
 *
 *   begin  head complete: authorize, route, refuse what can be refused before a byte of the body is read
 *   data   body bytes, counted against the route's maximum and against all bodies of the server
 *   end    body complete: a worker decompresses it, calls the handler, compresses the answer
 *   answer back on the loop: the protocol sends it
 *
 * A request is refused at the first of these steps that can tell, and every refusal names the limit. When time runs out while a
 * worker is busy, the worker cannot be stopped and its response is not ours to touch. So a second exchange, the stand-in, takes
 * over the place in the connection and answers, and the first one is freed when the worker hands it back.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "codec/compress.h"
#include "net/net_int.h"

static void run_job(struct net_job *job);
static void job_done(struct net_job *job);

struct net_exchange *exchange_new(struct net_connection *connection, int64_t now_ns)
{
	struct net_server *server = connection->server;
	struct net_exchange *exchange = mem_zalloc(sizeof(*exchange));
	if (!exchange)
		return NULL;
	request_init(&exchange->request, server->options.header_max);
	exchange->request.loopback = connection->loopback;
	exchange->request.peer = connection->peer;
	memcpy(exchange->request.peer_address, connection->peer_address, sizeof(connection->peer_address));
	net_response_init(&exchange->response);
	exchange->server = server;
	exchange->connection = connection;
	exchange->job = (struct net_job){.run = run_job, .done = job_done, .key = connection->peer};
	exchange->started_ns = exchange->active_ns = now_ns;
	exchange->deadline_ns = INT64_MAX;
	exchange->next = connection->exchanges;
	if (exchange->next)
		exchange->next->previous = exchange;
	connection->exchanges = exchange;
	connection->exchange_count++;
	connection->check_ns = 0;
	exchange->peer = peers_hold(connection);
	server->requests_open++;
	server_count(server, requests_open, 1);
	return exchange;
}

/* What came of a request, as HTTP has it. */
static int outcome_of(const struct net_exchange *exchange)
{
	int status = exchange_head(exchange)->status;
	if (status >= 400)
		return status;
	switch (exchange->response.grpc_status) {
	case GRPC_OK: return status;
	case GRPC_UNAUTHENTICATED: return 401;
	case GRPC_PERMISSION_DENIED: return 403;
	case GRPC_NOT_FOUND: return 404;
	case GRPC_ALREADY_EXISTS: return 409;
	case GRPC_RESOURCE_EXHAUSTED: return 429;
	case GRPC_UNIMPLEMENTED: return 501;
	case GRPC_UNKNOWN:
	case GRPC_INTERNAL: return 500;
	case GRPC_UNAVAILABLE: return 503;
	case GRPC_DEADLINE_EXCEEDED: return 504;
	default: return 400;
	}
}

static void note_answer(struct net_exchange *exchange, int status)
{
	const struct net_server_options *options = &exchange->server->options;
	if (exchange->answer_due && options->on_answer)
		options->on_answer(options->context, &exchange->request, status);
	exchange->answer_due = false;
}

static void destroy(struct net_exchange *exchange)
{
	struct net_server *server = exchange->server;
	note_answer(exchange, 0);
	exchange_unaccount(exchange, exchange->body_bytes);
	peers_unhold(&server->peers, exchange->peer);
	server->requests_open--;
	server_count(server, requests_open, -1);
	stream_free(exchange->stream);
	flow_free(exchange->making);
	exchange_credit_answer(exchange);
	net_response_release(&exchange->response);
	request_release(&exchange->request);
	mem_free(exchange);
}

/* Nobody waits for its answer any more. */
static void discard(struct net_exchange *exchange)
{
	if (!exchange->stream || !stream_needs_close(exchange->stream)) {
		destroy(exchange);
		return;
	}
	exchange->stream->closing = true;
	exchange->job_out = true;
	workers_submit(&exchange->server->workers, &exchange->job, true);
}

void exchange_abandon(struct net_exchange *exchange)
{
	struct net_connection *connection = exchange->connection;
	if (exchange->next)
		exchange->next->previous = exchange->previous;
	if (exchange->previous)
		exchange->previous->next = exchange->next;
	else
		connection->exchanges = exchange->next;
	connection->exchange_count--;
	exchange->next = exchange->previous = NULL;
	exchange->connection = NULL;
	cancel_request(&exchange->request.cancelled);
	if (exchange->stream)
		stream_close(exchange->stream);
	if (exchange->flow)
		flow_close(exchange->flow);
	if (!exchange->job_out)
		discard(exchange);
}

bool exchange_account(struct net_exchange *exchange, size_t bytes)
{
	struct net_server *server = exchange->server;
	if (bytes > server->body_bytes_max - server->body_bytes)
		return false;
	/* No address has all of it. */
	if (exchange->peer && exchange->peer->body_bytes + bytes > server->body_bytes_max / 2)
		return false;
	server->body_bytes += bytes;
	exchange->body_bytes += bytes;
	if (exchange->peer)
		exchange->peer->body_bytes += bytes;
	return true;
}

void exchange_unaccount(struct net_exchange *exchange, size_t bytes)
{
	exchange->server->body_bytes -= bytes;
	exchange->body_bytes -= bytes;
	if (exchange->peer)
		exchange->peer->body_bytes -= bytes;
}

/* ---- answers of our own ---- */

static void set_refusal(struct net_exchange *exchange, int status, int grpc, const char *format, va_list args)
	__attribute__((format(printf, 4, 0)));
static void set_refusal(struct net_exchange *exchange, int status, int grpc, const char *format, va_list args)
{
	struct net_response *response = &exchange->response;
	const struct net_server_options *options = &exchange->server->options;
	response->status = status;
	response->grpc_status = grpc < 0 ? grpc_code_of_http(status) : (enum grpc_code)grpc;
	response->no_compress = true;
	vsnprintf(response->message, sizeof(response->message), format, args);
	buffer_release(&exchange->request.body);
	exchange->refused = true;
	if (exchange->request.grpc)
		buffer_clear(&response->body);
	else
		response_body_error(response, response->message);
	if (options->on_refusal)
		options->on_refusal(options->context, &exchange->request, response);
}

void exchange_fail(struct net_exchange *exchange, int status, int grpc, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	set_refusal(exchange, status, grpc, format, args);
	va_end(args);
}

/* The head is copied for on_refusal, which may look at it. NULL when memory is short. */
static struct net_exchange *stand_in(struct net_exchange *busy)
{
	struct net_exchange *fresh = exchange_new(busy->connection, busy->started_ns);
	if (!fresh)
		return NULL;
	struct net_request *from = &busy->request, *to = &fresh->request;
	for (size_t i = 0; i < from->headers.count; i++) {
		const struct net_pair *header = &from->headers.items[i];
		request_add_header(to, bytes_of_string(header->name), bytes_of_string(header->value));
	}
	request_parse_target(to, bytes_of_string(from->target), NULL);
	const char *method = arena_strndup(&to->arena, from->method, strlen(from->method));
	to->method = method ? method : "";
	to->grpc = from->grpc;
	to->was_started = true;
	fresh->stream_id = busy->stream_id;
	fresh->head_done = true;
	fresh->body_done = busy->body_done;
	fresh->headers_sent = busy->headers_sent;
	busy->connection->protocol->adopt(fresh);
	exchange_abandon(busy);
	return fresh;
}

void exchange_refuse(struct net_exchange *exchange, int status, int grpc, const char *format, ...)
{
	if (exchange->answered || !exchange->connection)
		return;
	struct net_connection *connection = exchange->connection;
	if (exchange->job_out)
		note_answer(exchange, status); /* the stand-in has nothing that authorize attached */
	struct net_exchange *target = exchange->job_out ? stand_in(exchange) : exchange;
	if (!target) {
		connection->protocol->abort(exchange);
		return;
	}
	va_list args;
	va_start(args, format);
	set_refusal(target, status, grpc, format, args);
	va_end(args);
	exchange_answer(target);
}

static void count_answer(struct net_exchange *exchange)
{
	struct net_server *server = exchange->server;
	int status = exchange_head(exchange)->status;
	if (exchange->request.grpc) {
		enum grpc_code code = exchange->response.grpc_status;
		bool ours = code == GRPC_UNKNOWN || code == GRPC_INTERNAL || code == GRPC_UNAVAILABLE;
		status = code == GRPC_OK ? 200 : ours ? 500 : 400;
	}
	if (status >= 500)
		server_count(server, errors_5xx, 1);
	else if (status >= 400)
		server_count(server, errors_4xx, 1);
}

void exchange_answer(struct net_exchange *exchange)
{
	if (exchange->answered || !exchange->connection)
		return;
	exchange->answered = true;
	exchange->answer_ns = exchange->active_ns = server_now_ns(exchange->server);
	count_answer(exchange);
	note_answer(exchange, outcome_of(exchange));
	exchange->connection->protocol->answer(exchange);
}

/* ---- begin ---- */

static bool content_encoding_is_known(const struct net_request *request)
{
	const char *encoding = net_request_header(request, "content-encoding");
	if (!encoding || request->grpc)
		return true;
	static const char *const known[] = {"gzip", "x-gzip", "zstd", "identity"};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcasecmp(encoding, known[i]))
			return request_count_header(request, "content-encoding") == 1;
	return false;
}

static void refuse_encoding(struct net_exchange *exchange, const char *encoding)
{
	net_response_header(&exchange->response, exchange->request.grpc ? "grpc-accept-encoding" : "Accept-Encoding",
			    exchange->request.grpc ? "identity,gzip" : "gzip, zstd");
	exchange_refuse(exchange, 415, GRPC_UNIMPLEMENTED, "unsupported encoding \"%.60s\": use %s or none", encoding,
			exchange->request.grpc ? "gzip" : "gzip, zstd");
}

static void begin_grpc(struct net_exchange *exchange, int64_t now_ns)
{
	struct net_request *request = &exchange->request;
	const char *timeout = net_request_header(request, "grpc-timeout");
	const char *encoding = net_request_header(request, "grpc-encoding");
	int64_t timeout_ns;
	exchange->accepts_gzip = request_header_lists(request, "grpc-accept-encoding", "gzip");
	exchange->grpc_gzip = encoding && !strcasecmp(encoding, "gzip");
	if (encoding && !exchange->grpc_gzip && strcasecmp(encoding, "identity"))
		refuse_encoding(exchange, encoding);
	else if (timeout && !grpc_parse_timeout(timeout, &timeout_ns))
		exchange_refuse(exchange, 400, -1, "bad grpc-timeout \"%.60s\"", timeout);
	else if (timeout)
		exchange->deadline_ns = now_ns + timeout_ns;
	if (exchange->answered || !exchange->route->stream)
		return;
	exchange->stream = stream_new(exchange);
	if (!exchange->stream)
		exchange_refuse(exchange, 503, -1, "out of memory");
}

/* status, allow: of route_find(). */
static void begin_route(struct net_exchange *exchange, int status, const char *allow, int64_t content_length, int64_t now_ns)
{
	struct net_request *request = &exchange->request;
	const struct net_server_options *options = &exchange->server->options;
	char size[TEXT_NUMBER_MAX];
	if (status == 405) {
		net_response_header(&exchange->response, "Allow", allow);
		exchange_refuse(exchange, 405, -1, "%s does not allow %s: use %s", request->path, request->method, allow);
	} else if (status) {
		exchange_refuse(exchange, 404, -1, "no such path: %s", request->path);
	} else if (exchange->route->stream && !request->grpc) {
		exchange_refuse(exchange, 415, -1, "%s speaks gRPC only (HTTP/2, content-type application/grpc)",
				request->path);
	} else if (exchange->route->stream && exchange->connection->protocol != &http2_protocol) {
		exchange_refuse(exchange, 505, GRPC_UNIMPLEMENTED, "%s is a stream, which needs HTTP/2", request->path);
	}
	if (exchange->answered)
		return;
	exchange->body_max = exchange->route->body_max ? exchange->route->body_max : options->body_max;
	exchange->request.body.max = exchange->body_max;
	if (content_length > 0 && !request->grpc && (uint64_t)content_length > exchange->body_max)
		exchange_refuse(exchange, 413, -1, "the body has %lld bytes, the limit is %s", (long long)content_length,
				text_format_size(exchange->body_max, size));
	else if (!content_encoding_is_known(request))
		refuse_encoding(exchange, net_request_header(request, "content-encoding"));
	else if (request->grpc)
		begin_grpc(exchange, now_ns);
}

/* False: refused with what authorize put into the response. */
static bool authorize(struct net_exchange *exchange)
{
	const struct net_server_options *options = &exchange->server->options;
	struct net_response *response = &exchange->response;
	exchange->request.permission = exchange->route ? exchange->route->permission : 0;
	exchange->request.certificate = exchange->connection->certificate;
	exchange->request.user = &exchange->connection->user;
	exchange->answer_due = options->authorize;
	bool allowed = !options->authorize || options->authorize(options->context, &exchange->request, response);
	exchange->request.certificate = NULL; /* the request may outlive the connection */
	exchange->request.user = NULL;
	if (exchange->request.known)
		peers_set_known(&exchange->server->peers, exchange->connection);
	if (allowed && options->fair_group)
		exchange->job.group = options->fair_group(options->context, &exchange->request);
	exchange->headers_before = response->headers.len;
	if (allowed)
		return true;
	if (response->grpc_status == GRPC_OK)
		response->grpc_status = grpc_code_of_http(response->status);
	if (response->body.len == 0 && !exchange->request.grpc)
		response_body_error(response, response->message[0] ? response->message : net_status_text(response->status));
	exchange->refused = true;
	exchange_answer(exchange);
	return false;
}

void exchange_begin(struct net_exchange *exchange, int64_t content_length, int64_t now_ns)
{
	struct net_server *server = exchange->server;
	struct net_request *request = &exchange->request;
	struct error error = {0};
	char allow[128];
	server_count(server, requests, 1);
	exchange->head_done = true;
	exchange->started_ns = exchange->active_ns = now_ns;
	request->grpc = !strcmp(request->method, "POST") && grpc_is_content_type(net_request_header(request, "content-type"));
	if (exchange->too_large)
		exchange_refuse(exchange, 431, -1, "the header has more than %zu bytes or %d fields",
				server->options.header_max, NET_HEADERS_MAX);
	else if (request_parse_target(request, bytes_of_string(request->target), &error) < 0)
		exchange_refuse(exchange, 400, -1, "%s", error.message);
	else if (server->requests_open > NET_REQUESTS_MAX)
		exchange_refuse(exchange, 503, -1, "busy: %d requests are open already; try again later", NET_REQUESTS_MAX);
	else if (exchange->peer && exchange->peer->request_count > NET_REQUESTS_MAX / 2)
		exchange_refuse(exchange, 503, -1, "busy: %d requests of this address are open already; try again later",
				NET_REQUESTS_MAX / 2);
	if (exchange->answered)
		return;
	request_apply_proxy(request, &server->options);
	int status = route_find(server->options.routes, request->method, request->path, &exchange->route, allow, sizeof(allow));
	if (authorize(exchange))
		begin_route(exchange, status, allow, content_length, now_ns);
}

/* ---- data ---- */

void exchange_refuse_data(struct net_exchange *exchange, int code, const char *what)
{
	char size[TEXT_NUMBER_MAX];
	if (code == -E2BIG)
		exchange_refuse(exchange, 413, -1, "%s is larger than the limit of %s", what,
				text_format_size(exchange->body_max, size));
	else if (code == -EBADMSG)
		exchange_refuse(exchange, 400, GRPC_INTERNAL, "malformed gRPC message: the compressed flag is neither 0 nor 1");
	else
		exchange_refuse(exchange, 503, -1, "out of memory");
}

static void message_data(struct net_exchange *exchange, struct bytes data)
{
	while (data.len > 0) {
		if (exchange->message_seen) {
			exchange_refuse(exchange, 400, GRPC_INTERNAL, "%s takes one message, got more", exchange->request.path);
			return;
		}
		int r = grpc_read(&exchange->reader, &data, &exchange->request.body, &exchange->message_head);
		if (r < 0) {
			exchange_refuse_data(exchange, r, "the message");
			return;
		}
		exchange->message_seen = r > 0;
	}
}

void exchange_data(struct net_exchange *exchange, struct bytes data)
{
	if (exchange->answered || exchange->body_done || !exchange->connection)
		return;
	exchange->received_bytes += data.len;
	exchange->active_ns = server_now_ns(exchange->server);
	if (!exchange_account(exchange, data.len)) {
		char size[TEXT_NUMBER_MAX];
		net_response_header(&exchange->response, "Retry-After", "1");
		exchange_refuse(exchange, 503, -1, "busy: %s of request bodies are in progress; try again later",
				text_format_size(exchange->server->body_bytes_max, size));
	} else if (exchange->stream) {
		stream_data(exchange, data);
	} else if (exchange->request.grpc) {
		message_data(exchange, data);
	} else {
		int r = buffer_append(&exchange->request.body, data.data, data.len);
		if (r < 0)
			exchange_refuse_data(exchange, r, "the body");
	}
}

/* ---- end, and the worker's part ---- */

void exchange_job_out(struct net_exchange *exchange)
{
	exchange->job_out = true;
	if (exchange->stream)
		return;
	const struct net_server_options *options = &exchange->server->options;
	unsigned seconds = exchange->route->seconds_max ? exchange->route->seconds_max : options->request_seconds_max;
	int64_t limit = server_now_ns(exchange->server) + seconds * NS_PER_S;
	exchange->deadline_ns = exchange->deadline_ns < limit ? exchange->deadline_ns : limit;
}

/* False: too many wait already. */
static bool hand_out(struct net_exchange *exchange)
{
	const struct net_server_options *options = &exchange->server->options;
	const struct net_request *request = &exchange->request;
	struct net_job *job = &exchange->job;
	job->kind = exchange->route->slow ? NET_JOB_SLOW : NET_JOB_FAST;
	job->key =
		job->kind == NET_JOB_SLOW && options->fair_key ? options->fair_key(options->context, request) : request->peer;
	return workers_submit(&exchange->server->workers, job, false) == 0;
}

static void refuse_busy(struct net_exchange *exchange)
{
	const struct net_workers *workers = &exchange->server->workers;
	net_response_header(&exchange->response, "Retry-After", "1");
	exchange_refuse(exchange, 503, -1, "busy: %zu requests are queued already; try again later",
			workers->queue_max[exchange->job.kind]);
}

static void finish(struct net_exchange *exchange);

/* Without a worker. Whatever came as a body is not looked at. */
static void answer_here(struct net_exchange *exchange)
{
	buffer_release(&exchange->request.body);
	exchange->route->handler(exchange->route->context, &exchange->request, &exchange->response);
	finish(exchange);
	exchange_answer(exchange);
}

void exchange_end(struct net_exchange *exchange)
{
	if (exchange->body_done || !exchange->connection)
		return;
	exchange->body_done = true;
	if (exchange->answered)
		return;
	if (exchange->stream) {
		if (grpc_reader_is_between(&exchange->reader))
			stream_dispatch(exchange);
		else
			exchange_refuse(exchange, 400, GRPC_INTERNAL, "the stream ended in the middle of a message");
	} else if (exchange->request.grpc && !exchange->message_seen) {
		exchange_refuse(exchange, 400, GRPC_INTERNAL, "the stream ended %s",
				grpc_reader_is_between(&exchange->reader) ? "without a message" : "in the middle of a message");
	} else if (exchange->route->on_loop) {
		answer_here(exchange);
	} else if (!hand_out(exchange)) {
		refuse_busy(exchange);
	} else {
		exchange_job_out(exchange);
	}
}

bool exchange_unpack(struct net_exchange *exchange, struct buffer *data, const char *encoding, const char *what)
{
	if (exchange->request.grpc && !exchange->grpc_gzip) {
		exchange_fail(exchange, 400, GRPC_INTERNAL, "a message is marked as compressed, but grpc-encoding is missing");
		return false;
	}
	char size[TEXT_NUMBER_MAX];
	struct error error = {0};
	struct buffer unpacked = {.max = exchange->body_max};
	int r = (!strcasecmp(encoding, "zstd") ? zstd_decompress : gzip_decompress)(buffer_bytes(data), &unpacked, &error);
	buffer_release(data);
	*data = unpacked;
	if (r == -E2BIG)
		exchange_fail(exchange, 413, -1, "%s is larger than the limit of %s after decompression", what,
			      text_format_size(exchange->body_max, size));
	else if (r < 0)
		exchange_fail(exchange, r == -ENOMEM ? 503 : 400, -1, "cannot decompress %s: %s", what, error.message);
	return r == 0;
}

static bool unpack_body(struct net_exchange *exchange)
{
	struct net_request *request = &exchange->request;
	const char *encoding = request->grpc ? "gzip" : net_request_header(request, "content-encoding");
	bool plain = request->grpc ? !exchange->message_head.compressed : !encoding || !strcasecmp(encoding, "identity");
	if (plain || (request->body.len == 0 && !request->grpc))
		return true;
	return exchange_unpack(exchange, &request->body, encoding, "the body");
}

/* What the handler said of its answer does not hold for this one. */
static void refuse_answer(struct net_exchange *exchange, size_t bytes)
{
	struct net_response *response = &exchange->response;
	size_t max = exchange->server->options.answer_bytes_max;
	char size[TEXT_NUMBER_MAX], limit[TEXT_NUMBER_MAX];
	buffer_release(&response->body);
	buffer_truncate(&response->headers, exchange->headers_before);
	response->content_type = "application/json";
	server_count(exchange->server, answers_refused, 1);
	text_format_size(max, limit);
	if (bytes > max) { /* it would be told for ever to come again */
		exchange_fail(exchange, 413, -1, "the response has %s; all that are being sent may have %s together",
			      text_format_size(bytes, size), limit);
		return;
	}
	net_response_header(response, "Retry-After", "1");
	exchange_fail(exchange, 503, -1, "busy: %s of responses are being sent; try again later", limit);
}

/* From here on it is not the work that has the body but the answer. */
static void charge_answer(struct net_exchange *exchange)
{
	size_t bytes = exchange->making ? 0 : exchange_output_left(exchange);
	if ((exchange->over_budget && !exchange->making) ||
	    (bytes > NET_ANSWER_FREE && !exchange_charge_answer(exchange, bytes) && !exchange->route->always_answered))
		refuse_answer(exchange, bytes);
	net_response_unlimit(&exchange->response);
	if (exchange->response.budget)
		budget_release(exchange->response.budget);
}

static void finish_http(struct net_exchange *exchange)
{
	struct net_response *response = &exchange->response;
	if (exchange->making && exchange->making->source)
		flow_finish_source(exchange);
	else if (exchange->making)
		flow_finish(exchange);
	if (exchange->making)
		return;
	if (response->status < 200 || response->status > 599)
		response->status = 500;
	if (response->status >= 400 && response->body.len == 0)
		response_body_error(response, response->message[0] ? response->message : net_status_text(response->status));
	if (!exchange->refused)
		response_compress(&exchange->request, response);
}

static void finish_grpc(struct net_exchange *exchange)
{
	struct net_response *response = &exchange->response;
	struct buffer packed = {.max = response->body.len};
	if (response->grpc_status != GRPC_OK) {
		buffer_release(&response->body);
		return;
	}
	if (exchange->accepts_gzip && !response->no_compress && response->body.len >= NET_COMPRESS_MIN &&
	    gzip_compress(buffer_bytes(&response->body), NET_COMPRESS_LEVEL, &packed, NULL) == 0) {
		buffer_release(&response->body);
		response->body = packed;
		exchange->message_compressed = true;
	} else {
		buffer_release(&packed);
	}
	grpc_write_prefix(exchange->prefix, exchange->message_compressed, (uint32_t)response->body.len);
}

/* When the handler has returned. */
static void finish(struct net_exchange *exchange)
{
	buffer_release(&exchange->request.body);
	if (exchange->request.grpc)
		finish_grpc(exchange);
	else
		finish_http(exchange);
	charge_answer(exchange);
}

static void run_job(struct net_job *job)
{
	struct net_exchange *exchange = container_of(job, struct net_exchange, job);
	if (exchange->stream) {
		stream_run(exchange);
		return;
	}
	if (exchange->answered) {
		flow_run_source(exchange);
		return;
	}
	if (cancel_requested(&exchange->request.cancelled))
		return;
	exchange->response.exchange = exchange->may_flow && !exchange->request.grpc ? exchange : NULL;
	if (unpack_body(exchange))
		exchange->route->handler(exchange->route->context, &exchange->request, &exchange->response);
	finish(exchange);
}

static void job_done(struct net_job *job)
{
	struct net_exchange *exchange = container_of(job, struct net_exchange, job);
	struct net_stream *stream = exchange->stream;
	exchange->job_out = false;
	exchange->active_ns = server_now_ns(exchange->server);
	exchange->flow = exchange->making;
	if (stream)
		exchange_unaccount(exchange, stream->batch_bytes);
	if (stream)
		stream->batch_bytes = 0;
	if (!exchange->connection) {
		discard(exchange);
	} else if (job->displaced) {
		refuse_busy(exchange);
	} else if (exchange->flow) {
		flow_job_done(exchange);
	} else if (!stream || stream->final || exchange->refused) {
		exchange_answer(exchange);
	} else {
		stream_dispatch(exchange);
		exchange->connection->protocol->resume(exchange);
	}
}

/* ---- time ---- */

static int64_t time_for(const struct net_exchange *exchange, size_t bytes)
{
	return (int64_t)(exchange->server->options.request_seconds_max + bytes / NET_RATE_MIN) * NS_PER_S;
}

static void abort_late(struct net_exchange *exchange)
{
	server_count(exchange->server, timeouts, 1);
	exchange->connection->protocol->abort(exchange);
}

static void refuse_late(struct net_exchange *exchange, int status, const char *what, int64_t allowed_ns)
{
	char text[TIME_TEXT_MAX];
	server_count(exchange->server, timeouts, 1);
	exchange_refuse(exchange, status, GRPC_DEADLINE_EXCEEDED, "%s took longer than %s", what,
			time_format_duration(allowed_ns, text));
}

static void check_stream(struct net_exchange *exchange, int64_t now_ns)
{
	const struct net_server_options *options = &exchange->server->options;
	int64_t idle_ns = options->idle_seconds_max * NS_PER_S, stuck_ns = options->request_seconds_max * NS_PER_S;
	if (stream_has_output(exchange->stream) && now_ns - exchange->active_ns > stuck_ns)
		abort_late(exchange);
	else if (!exchange->job_out && now_ns - exchange->active_ns > idle_ns)
		refuse_late(exchange, 408, "the next message", idle_ns);
}

/* Of HTTP/2: the peer gives a stream no window. A connection that takes nothing is connection.c's. */
static bool is_stalled(struct net_exchange *exchange, int64_t now_ns)
{
	bool has_output = exchange->flow ? flow_front(exchange->flow).len > 0 || (exchange->flow->source && !exchange->job_out)
					 : !exchange->stream && exchange_output_left(exchange) > 0;
	return exchange->stream_id && has_output &&
	       now_ns - exchange->active_ns > exchange->server->options.stall_seconds_max * NS_PER_S;
}

static void check_answer(struct net_exchange *exchange, int64_t now_ns)
{
	bool is_made = !exchange->job_out || !exchange->flow || exchange->flow->source;
	if (is_stalled(exchange, now_ns)) {
		server_count(exchange->server, answers_stalled, 1);
		abort_late(exchange);
	} else if (now_ns - exchange->answer_ns > time_for(exchange, exchange->sent_bytes) ||
		   (!is_made && now_ns > exchange->deadline_ns)) {
		abort_late(exchange);
	}
}

void exchange_check_time(struct net_exchange *exchange, int64_t now_ns)
{
	if (exchange->answered) {
		check_answer(exchange, now_ns);
		return;
	}
	int64_t body_ns = time_for(exchange, exchange->received_bytes);
	if (now_ns > exchange->deadline_ns)
		refuse_late(exchange, 503, "the request", exchange->deadline_ns - exchange->started_ns);
	else if (exchange->stream)
		check_stream(exchange, now_ns);
	else if (!exchange->body_done && now_ns - exchange->started_ns > body_ns)
		refuse_late(exchange, 408, "the body", body_ns);
}

/* ---- output ---- */

const struct net_response *exchange_head(const struct net_exchange *exchange)
{
	return exchange->flow ? &exchange->flow->head : &exchange->response;
}

uint64_t exchange_length(const struct net_exchange *exchange)
{
	return exchange->flow ? exchange->flow->length : exchange->unsized ? UINT64_MAX : exchange->response.body.len;
}

bool exchange_is_bodyless(const struct net_exchange *exchange)
{
	int status = exchange_head(exchange)->status;
	return !strcmp(exchange->request.method, "HEAD") || status == 204 || status == 304;
}

size_t exchange_output_left(const struct net_exchange *exchange)
{
	const struct net_exchange *e = exchange;
	if (e->request.grpc)
		return e->response.grpc_status == GRPC_OK ? GRPC_PREFIX_BYTES + e->response.body.len - e->output_at : 0;
	return exchange_is_bodyless(e) ? 0 : e->response.body.len - e->output_at;
}

size_t exchange_read_output(struct net_exchange *exchange, uint8_t *out, size_t size)
{
	size_t left = exchange_output_left(exchange), prefix_len = exchange->request.grpc ? GRPC_PREFIX_BYTES : 0, done = 0;
	size = size < left ? size : left;
	while (done < size && exchange->output_at < prefix_len)
		out[done++] = exchange->prefix[exchange->output_at++];
	if (done < size) {
		memcpy(out + done, exchange->response.body.data + exchange->output_at - prefix_len, size - done);
		exchange->output_at += size - done;
	}
	exchange->sent_bytes += size;
	exchange->active_ns = server_now_ns(exchange->server);
	return size;
}
