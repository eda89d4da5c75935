/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 on the server (RFC 9113), with prior knowledge, over nghttp2. Plain requests and gRPC share everything up to the shape
 * of the answer:
 *
 *   plain          HEADERS, DATA... END_STREAM
 *   gRPC message   HEADERS, DATA (prefix, message)..., HEADERS (grpc-status) END_STREAM
 *   gRPC error     HEADERS (grpc-status) END_STREAM, called Trailers-Only
 *
 * When the answer is complete before the request is, RST_STREAM(NO_ERROR) tells the client to stop sending (RFC 9113, 8.1), but
 * only after NET_LINGER_NS, in which the rest of the request is read and dropped: curl 7.88, told at once, forgets the answer
 * that it has just received.
 *
 * Flow control is ours, not nghttp2's: the connection's window is given back at once, a stream's when its bytes have found
 * their place, which for gRPC streams means: unless the worker is behind (stream.c).
 *
 * Floods. What costs the peer little and us much is paid from two token buckets: streams that end before they were answered
 * (rapid reset, CVE-2023-44487, whichever side sends the RST_STREAM) and frames that carry nothing (empty DATA, PING, SETTINGS,
 * PRIORITY; CVE-2019-9512 to 9518). An empty bucket ends the connection with ENHANCE_YOUR_CALM. nghttp2 itself bounds
 * acknowledgements that wait (max_outbound_ack), entries in SETTINGS and CONTINUATION frames.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "net/http2_int.h"
#include "net/net_int.h"

#define ACKS_MAX       200
#define SETTINGS_MAX   16
#define NAMES_MAX      128
#define FIELD_OVERHEAD 32 /* SETTINGS_MAX_HEADER_LIST_SIZE counts fields so */

struct bucket {
	double tokens;
	int64_t filled_ns;
};
struct bucket_size {
	double most, per_second;
};
static const struct bucket_size resets_size = {200, 50}, idle_frames_size = {1000, 100};

struct http2 {
	nghttp2_session *session;
	struct buffer out;
	struct bucket resets, idle_frames;
	bool failed;
};

static void spend(struct net_connection *connection, struct bucket *bucket, const struct bucket_size *size)
{
	struct http2 *http = connection->state;
	int64_t now_ns = server_now_ns(connection->server);
	double seconds = (double)(now_ns - bucket->filled_ns) / (double)NS_PER_S;
	bucket->tokens += seconds * size->per_second;
	bucket->filled_ns = now_ns;
	if (bucket->tokens > size->most)
		bucket->tokens = size->most;
	if (--bucket->tokens >= 0 || http->failed)
		return;
	http->failed = true;
	server_count(connection->server, protocol_errors, 1);
	nghttp2_session_terminate_session(http->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

static struct net_exchange *exchange_of(nghttp2_session *session, int32_t stream_id)
{
	return nghttp2_session_get_stream_user_data(session, stream_id);
}

/* ---- frames in ---- */

static bool is_request(const nghttp2_frame *frame)
{
	return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct net_connection *connection = context;
	if (!is_request(frame))
		return 0;
	struct net_exchange *exchange = NULL;
	if (connection->server->requests_open < NET_REQUESTS_MAX && connection->exchange_count < NET_STREAMS_MAX)
		exchange = exchange_new(connection, server_now_ns(connection->server));
	if (!exchange) {
		nghttp2_submit_rst_stream(session, 0, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
		return 0;
	}
	exchange->stream_id = frame->hd.stream_id;
	exchange->may_flow = true;
	nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, exchange);
	return 0;
}

static int add_pseudo_header(struct net_request *request, struct bytes name, struct bytes value)
{
	if (bytes_equal_string(name, ":authority"))
		return request_add_header(request, bytes_of_string("host"), value);
	const char **field = bytes_equal_string(name, ":method") ? &request->method
			     : bytes_equal_string(name, ":path") ? &request->target
								 : NULL;
	if (!field)
		return 0;
	const char *kept = arena_strndup(&request->arena, (const char *)value.data, value.len);
	if (kept)
		*field = kept;
	return kept ? 0 : -ENOMEM;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
		     const uint8_t *value, size_t value_len, uint8_t flags, void *context)
{
	struct net_connection *connection = context;
	struct net_exchange *exchange = exchange_of(session, frame->hd.stream_id);
	if (!exchange || !is_request(frame) || exchange->head_done)
		return 0; /* trailers say nothing that we need */
	struct net_request *request = &exchange->request;
	size_t cost = name_len + value_len + FIELD_OVERHEAD, max = connection->server->options.header_max;
	if (exchange->too_large || request->header_bytes + cost > max) {
		exchange->too_large = true;
		request->header_bytes += cost;
		/* A small block can decompress to a large one. What is a little over gets its 431, what goes on is cut off. */
		return request->header_bytes > 4 * max ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
	}
	struct bytes n = {name, name_len}, v = {value, value_len};
	size_t before = request->header_bytes;
	int r = name[0] == ':' ? add_pseudo_header(request, n, v) : request_add_header(request, n, v);
	request->header_bytes = before + cost;
	if (r == -E2BIG)
		exchange->too_large = true;
	return r == -ENOMEM ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

static void begin(struct net_exchange *exchange, bool ended)
{
	/* nghttp2 has checked that it is a number and equals what comes. */
	const char *length = net_request_header(&exchange->request, "content-length");
	int64_t content_length = ended ? 0 : length ? strtoll(length, NULL, 10) : -1;
	exchange_begin(exchange, content_length, server_now_ns(exchange->server));
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct net_connection *connection = context;
	struct http2 *http = connection->state;
	bool ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	struct net_exchange *exchange;
	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		if (frame->hd.type == NGHTTP2_DATA && frame->hd.length == 0 && !ended)
			spend(connection, &http->idle_frames, &idle_frames_size);
		exchange = exchange_of(session, frame->hd.stream_id);
		if (exchange && is_request(frame) && !exchange->head_done)
			begin(exchange, ended);
		exchange = exchange_of(session, frame->hd.stream_id);
		if (exchange && ended)
			exchange_end(exchange);
		return 0;
	case NGHTTP2_PRIORITY:
	case NGHTTP2_SETTINGS:
	case NGHTTP2_PING: spend(connection, &http->idle_frames, &idle_frames_size); return 0;
	default: return 0;
	}
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data, size_t len,
			 void *context)
{
	struct net_exchange *exchange = exchange_of(session, stream_id);
	nghttp2_session_consume_connection(session, len);
	if (exchange)
		exchange_data(exchange, (struct bytes){data, len});
	if (exchange && exchange->connection && exchange->stream && stream_is_full(exchange->stream))
		exchange->stream->withheld += len;
	else
		nghttp2_session_consume_stream(session, stream_id, len);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *context)
{
	struct net_connection *connection = context;
	struct http2 *http = connection->state;
	struct net_exchange *exchange = exchange_of(session, stream_id);
	if (!exchange || !exchange->sent)
		spend(connection, &http->resets, &resets_size);
	connection->active_ns = server_now_ns(connection->server);
	if (!exchange)
		return 0;
	nghttp2_session_set_stream_user_data(session, stream_id, NULL);
	exchange_abandon(exchange);
	return 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int code, void *context)
{
	struct net_connection *connection = context;
	server_count(connection->server, protocol_errors, 1);
	return 0;
}

/* ---- frames out ---- */

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
	    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	struct net_exchange *exchange = exchange_of(session, frame->hd.stream_id);
	if (!exchange)
		return 0;
	exchange->sent = true;
	exchange->active_ns = server_now_ns(exchange->server);
	if (!exchange->flow)
		buffer_release(&exchange->response.body);
	exchange_credit_answer(exchange);
	return 0;
}

struct fields {
	nghttp2_nv items[NAMES_MAX];
	size_t count;
	char status[16], length[24], grpc_status[16], message[3 * sizeof(((struct net_response *)0)->message)];
};

static void add(struct fields *fields, const char *name, const char *value)
{
	if (fields->count < NAMES_MAX)
		fields->items[fields->count++] = http2_field(name, value);
}

static void add_custom(struct fields *fields, const struct net_response *response)
{
	struct bytes name, value;
	for (size_t at = 0; fields->count < NAMES_MAX && response_next_header(response, &at, &name, &value);)
		fields->items[fields->count++] =
			(nghttp2_nv){(uint8_t *)name.data, (uint8_t *)value.data, name.len, value.len, NGHTTP2_NV_FLAG_NONE};
}

static void add_status(struct fields *fields, const struct net_response *response)
{
	snprintf(fields->grpc_status, sizeof(fields->grpc_status), "%d", (int)response->grpc_status);
	add(fields, "grpc-status", fields->grpc_status);
	if (!response->message[0] || response->grpc_status == GRPC_OK)
		return;
	grpc_encode_status_message(response->message, fields->message, sizeof(fields->message));
	add(fields, "grpc-message", fields->message);
}

static void add_http_head(struct fields *fields, struct net_exchange *exchange)
{
	const struct net_response *response = exchange_head(exchange);
	bool bodyless = response->status == 204 || response->status == 304;
	uint64_t length = exchange_length(exchange);
	snprintf(fields->status, sizeof(fields->status), "%d", response->status);
	snprintf(fields->length, sizeof(fields->length), "%llu", (unsigned long long)length);
	add(fields, ":status", fields->status);
	add(fields, "date", server_date(exchange->server));
	if (!bodyless && response->content_type)
		add(fields, "content-type", response->content_type);
	if (!bodyless && length != UINT64_MAX)
		add(fields, "content-length", fields->length);
	add_custom(fields, response);
}

static void add_grpc_head(struct fields *fields, struct net_exchange *exchange, bool compressed)
{
	const char *content_type = net_request_header(&exchange->request, "content-type");
	add(fields, ":status", "200");
	add(fields, "content-type", content_type ? content_type : "application/grpc");
	add(fields, "grpc-accept-encoding", "identity,gzip");
	if (compressed)
		add(fields, "grpc-encoding", "gzip");
	add_custom(fields, &exchange->response);
}

/* The end of a gRPC answer: DATA without END_STREAM, then the trailers. */
static int end_data(nghttp2_session *session, struct net_exchange *exchange, uint32_t *flags)
{
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (!exchange->request.grpc)
		return 0;
	*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	struct fields fields = {.count = 0};
	add_status(&fields, &exchange->response);
	return nghttp2_submit_trailer(session, exchange->stream_id, fields.items, fields.count);
}

static ssize_t read_flow(struct net_exchange *exchange, uint8_t *out, size_t size, uint32_t *flags)
{
	struct net_flow *flow = exchange->flow;
	size_t done = 0;
	struct bytes front;
	if (flow->broken && !exchange->job_out)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	while (done < size && (front = flow_front(flow)).len > 0) {
		size_t len = front.len < size - done ? front.len : size - done;
		memcpy(out + done, front.data, len);
		flow_take(flow, len);
		done += len;
	}
	exchange->sent_bytes += done;
	if (done > 0)
		exchange->active_ns = server_now_ns(exchange->server);
	if (flow_is_complete(flow))
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	else
		flow_pull(exchange);
	return done > 0 || flow->ended ? (ssize_t)done : NGHTTP2_ERR_DEFERRED;
}

static ssize_t read_data(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t size, uint32_t *flags,
			 nghttp2_data_source *source, void *context)
{
	struct net_exchange *exchange = exchange_of(session, stream_id);
	if (!exchange)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (exchange->flow)
		return read_flow(exchange, out, size, flags);
	size_t n;
	if (exchange->stream) {
		n = stream_read_output(exchange->stream, out, size);
		if (stream_has_output(exchange->stream))
			return (ssize_t)n;
		if (!exchange->answered)
			return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
	} else {
		n = exchange->headers_sent ? 0 : exchange_read_output(exchange, out, size);
		if (!exchange->headers_sent && exchange_output_left(exchange) > 0)
			return (ssize_t)n;
	}
	if (end_data(session, exchange, flags) < 0)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	return (ssize_t)n;
}

static void submit(struct net_exchange *exchange, struct fields *fields, bool has_data)
{
	struct http2 *http = exchange->connection->state;
	nghttp2_data_provider provider = {.read_callback = read_data};
	if (nghttp2_submit_response(http->session, exchange->stream_id, fields->items, fields->count,
				    has_data ? &provider : NULL) < 0)
		nghttp2_submit_rst_stream(http->session, 0, exchange->stream_id, NGHTTP2_INTERNAL_ERROR);
}

static void answer_grpc(struct net_exchange *exchange)
{
	struct fields fields = {.count = 0};
	bool stream_data = exchange->stream && stream_has_output(exchange->stream);
	bool has_data = exchange->stream ? stream_data : exchange->response.grpc_status == GRPC_OK;
	add_grpc_head(&fields, exchange, exchange->stream ? exchange->stream->gzip : exchange->message_compressed);
	if (!has_data)
		add_status(&fields, &exchange->response);
	submit(exchange, &fields, has_data);
}

static void answer(struct net_exchange *exchange)
{
	struct net_connection *connection = exchange->connection;
	struct http2 *http = connection->state;
	if (exchange->headers_sent) {
		nghttp2_session_resume_data(http->session, exchange->stream_id);
	} else if (exchange->request.grpc) {
		answer_grpc(exchange);
	} else {
		struct fields fields = {.count = 0};
		bool has_body = exchange->flow ? exchange->flow->length > 0 && !exchange_is_bodyless(exchange)
					       : exchange_output_left(exchange) > 0;
		add_http_head(&fields, exchange);
		submit(exchange, &fields, has_body);
	}
	connection_run(connection);
}

static void resume(struct net_exchange *exchange)
{
	struct net_connection *connection = exchange->connection;
	struct http2 *http = connection->state;
	struct net_stream *stream = exchange->stream;
	if (exchange->flow) {
		nghttp2_session_resume_data(http->session, exchange->stream_id);
		connection_run(connection);
		return;
	}
	if (stream->withheld > 0 && !stream_is_full(stream)) {
		nghttp2_session_consume_stream(http->session, exchange->stream_id, stream->withheld);
		stream->withheld = 0;
	}
	if (!exchange->answered && stream_has_output(stream)) {
		if (exchange->headers_sent) {
			nghttp2_session_resume_data(http->session, exchange->stream_id);
		} else {
			struct fields fields = {.count = 0};
			exchange->headers_sent = true;
			add_grpc_head(&fields, exchange, stream->gzip);
			submit(exchange, &fields, true);
		}
	}
	connection_run(connection);
}

int http2_gather(nghttp2_session *session, struct buffer *out)
{
	while (out->len < NET_OUTPUT_BYTES) {
		const uint8_t *data;
		ssize_t len = nghttp2_session_mem_send(session, &data);
		if (len < 0 || (len > 0 && buffer_append(out, data, (size_t)len) < 0))
			return -ENOMEM;
		if (len == 0)
			break;
	}
	return 0;
}

static size_t output(struct net_connection *connection, struct bytes parts[2])
{
	struct http2 *http = connection->state;
	if (http2_gather(http->session, &http->out) < 0) {
		connection_close(connection);
		return 0;
	}
	if (http->out.len > 0) {
		parts[0] = buffer_bytes(&http->out);
		return 1;
	}
	if (!nghttp2_session_want_read(http->session) && !nghttp2_session_want_write(http->session))
		connection_finish(connection);
	return 0;
}

static void written(struct net_connection *connection)
{
	struct http2 *http = connection->state;
	buffer_clear(&http->out);
}

/* ---- the connection ---- */

static size_t input(struct net_connection *connection, struct bytes data)
{
	struct http2 *http = connection->state;
	if (http->failed)
		return data.len;
	ssize_t taken = nghttp2_session_mem_recv(http->session, data.data, data.len);
	if (taken >= 0)
		return data.len;
	http->failed = true;
	server_count(connection->server, protocol_errors, 1);
	if (nghttp2_session_terminate_session(http->session, taken == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM
											  : NGHTTP2_INTERNAL_ERROR) < 0)
		connection_close(connection);
	return data.len;
}

static void adopt(struct net_exchange *stand_in)
{
	struct http2 *http = stand_in->connection->state;
	nghttp2_session_set_stream_user_data(http->session, stand_in->stream_id, stand_in);
}

static void abort_exchange(struct net_exchange *exchange)
{
	struct net_connection *connection = exchange->connection;
	struct http2 *http = connection->state;
	/* Of an answer that has begun: there are clients, such as node's, to whom CANCEL is an end like any other. */
	nghttp2_submit_rst_stream(http->session, 0, exchange->stream_id,
				  exchange->answered ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_CANCEL);
	connection_run(connection);
}

static bool has_work(const struct net_connection *connection)
{
	return false; /* HTTP/2 has no half-closed connections */
}

static void eof(struct net_connection *connection)
{
}

static void terminate(struct net_connection *connection, uint32_t code)
{
	struct http2 *http = connection->state;
	http->failed = true;
	nghttp2_session_terminate_session(http->session, code);
}

static void check_time(struct net_connection *connection, int64_t now_ns)
{
	struct http2 *http = connection->state;
	struct net_exchange *exchange = connection->exchanges, *next;
	if (http->failed)
		return;
	if (!exchange && now_ns - connection->active_ns > connection->server->options.idle_seconds_max * NS_PER_S)
		terminate(connection, NGHTTP2_NO_ERROR);
	for (; exchange; exchange = next) {
		next = exchange->next;
		if (exchange->sent) {
			if (now_ns - exchange->active_ns > NET_LINGER_NS)
				nghttp2_submit_rst_stream(http->session, 0, exchange->stream_id, NGHTTP2_NO_ERROR);
		} else if (exchange->head_done) {
			exchange_check_time(exchange, now_ns);
		} else if (now_ns - exchange->started_ns > NET_HEADER_SECONDS * NS_PER_S) {
			/* Until its header block is complete no other frame may come: the connection is stuck. */
			server_count(connection->server, timeouts, 1);
			terminate(connection, NGHTTP2_PROTOCOL_ERROR);
			return;
		}
	}
}

static void stop(struct net_connection *connection)
{
	struct http2 *http = connection->state;
	nghttp2_submit_goaway(http->session, 0, nghttp2_session_get_last_proc_stream_id(http->session), NGHTTP2_NO_ERROR, NULL,
			      0);
}

static void release(struct net_connection *connection)
{
	struct http2 *http = connection->state;
	nghttp2_session_del(http->session);
	buffer_release(&http->out);
	connection->state = mem_free(http);
}

/* ---- setting up ---- */

static void *session_malloc(size_t size, void *context)
{
	return mem_alloc(size);
}

static void session_free(void *pointer, void *context)
{
	mem_free(pointer);
}

static void *session_calloc(size_t count, size_t size, void *context)
{
	return mem_zalloc_array(count, size);
}

static void *session_realloc(void *pointer, size_t size, void *context)
{
	return mem_realloc_array(pointer, size, 1);
}

nghttp2_mem http2_memory = {NULL, session_malloc, session_free, session_calloc, session_realloc};

static int make_session(struct net_connection *connection, struct http2 *http)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	if (nghttp2_session_callbacks_new(&callbacks))
		return -ENOMEM;
	if (nghttp2_option_new(&option)) {
		nghttp2_session_callbacks_del(callbacks);
		return -ENOMEM;
	}
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
	nghttp2_option_set_max_settings(option, SETTINGS_MAX);
	nghttp2_option_set_no_closed_streams(option, 1);
	int r = nghttp2_session_server_new3(&http->session, callbacks, connection, option, &http2_memory);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	return r < 0 ? -ENOMEM : 0;
}

int http2_start(struct net_connection *connection)
{
	struct http2 *http = mem_zalloc(sizeof(*http));
	if (!http)
		return -ENOMEM;
	buffer_init(&http->out, 2 * NET_OUTPUT_BYTES);
	http->resets = (struct bucket){resets_size.most, server_now_ns(connection->server)};
	http->idle_frames = (struct bucket){idle_frames_size.most, server_now_ns(connection->server)};
	nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, NET_STREAMS_MAX},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP2_WINDOW_STREAM},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)connection->server->options.header_max},
	};
	if (make_session(connection, http) < 0 ||
	    nghttp2_submit_settings(http->session, 0, settings, sizeof(settings) / sizeof(settings[0])) < 0 ||
	    nghttp2_session_set_local_window_size(http->session, 0, 0, HTTP2_WINDOW_CONNECTION) < 0) {
		nghttp2_session_del(http->session);
		mem_free(http);
		return -ENOMEM;
	}
	connection->state = http;
	connection->protocol = &http2_protocol;
	return 0;
}

const struct net_protocol http2_protocol = {
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
