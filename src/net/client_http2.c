/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC calls over HTTP/2, with prior knowledge or as agreed in the TLS handshake: one call at a time on a connection that is
 * kept. Messages are framed (and compressed) when the window has room for them, one at a time.
 *
 * A call is sent again, once and on a new connection, only if the server has said that it did not touch it: REFUSED_STREAM, or
 * GOAWAY with a lower last stream. Before a kept connection is used again, what the server sent meanwhile is read, so that an
 * end of file or a GOAWAY is noticed in time.
 */
#include "net/client_int.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "codec/compress.h"
#include "net/http2_int.h"

struct call {
	struct net_client *client;
	struct net_client_response *response;
	const struct bytes *messages;
	size_t count, next;
	struct buffer framed; /* of the message being sent */
	size_t sent;
	enum net_gzip gzip;
	void (*on_message)(void *context, struct bytes message);
	void *context;
	struct grpc_reader reader;
	struct buffer partial;
	int32_t stream_id;
	uint32_t close_code;
	size_t received;
	bool closed, answer_gzip;
	int fault;
	struct error *err;
};

struct client_http2 {
	nghttp2_session *session;
	struct client_channel channel;
	struct buffer out;
	struct call *call; /* NULL between calls */
};

/* ---- callbacks ---- */

static struct call *call_of(void *context, int32_t stream_id)
{
	struct client_http2 *http = context;
	return http->call && http->call->stream_id == stream_id ? http->call : NULL;
}

static void set_text(char *out, size_t size, struct bytes value)
{
	size_t len = value.len < size ? value.len : size - 1;
	memcpy(out, value.data, len);
	out[len] = '\0';
}

static void take_status(struct call *call, struct bytes value, int *ret)
{
	char text[16];
	uint64_t number;
	set_text(text, sizeof(text), value);
	if (text_parse_u64(text, &number, NULL) == 0 && number <= 999)
		*ret = (int)number;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
		     const uint8_t *value, size_t value_len, uint8_t flags, void *context)
{
	struct call *call = call_of(context, frame->hd.stream_id);
	struct bytes n = {name, name_len}, v = {value, value_len};
	if (!call)
		return 0;
	struct net_client_response *response = call->response;
	if (bytes_equal_string(n, ":status"))
		take_status(call, v, &response->status);
	else if (bytes_equal_string(n, "grpc-status"))
		take_status(call, v, &response->grpc_status);
	else if (bytes_equal_string(n, "grpc-message"))
		grpc_decode_status_message(v, response->message, sizeof(response->message));
	else if (bytes_equal_string(n, "content-type"))
		set_text(response->content_type, sizeof(response->content_type), v);
	else if (bytes_equal_string(n, "grpc-encoding"))
		call->answer_gzip = value_len == 4 && !strncasecmp((const char *)value, "gzip", 4);
	else
		client_take_retry(response, n, v);
	return 0;
}

static int deliver(struct call *call, struct bytes message)
{
	if (call->on_message)
		call->on_message(call->context, message);
	else if (call->received == 0 && buffer_append(&call->response->body, message.data, message.len) < 0)
		return error_nomem(call->err);
	call->received++;
	return 0;
}

static int too_large(const struct call *call)
{
	char size[TEXT_NUMBER_MAX];
	return error_set(call->err, -E2BIG, "a message of %s is larger than the limit of %s", call->client->url,
			 text_format_size(call->client->response_max, size));
}

static int take_message(struct call *call, bool compressed)
{
	if (!compressed)
		return deliver(call, buffer_bytes(&call->partial));
	if (!call->answer_gzip)
		return error_set(call->err, -EPROTO, "bad response from %s: compressed, but not with gzip", call->client->url);
	_cleanup_(buffer_release) struct buffer plain = {.max = call->client->response_max};
	int r = gzip_decompress(buffer_bytes(&call->partial), &plain, call->err);
	if (r == -E2BIG)
		return too_large(call);
	return r < 0 ? error_prefix(call->err, r, "bad response from %s", call->client->url)
		     : deliver(call, buffer_bytes(&plain));
}

static int take_data(struct call *call, struct bytes data)
{
	if (!grpc_is_content_type(call->response->content_type))
		return 0; /* not from a gRPC server; the HTTP status has the error */
	while (data.len > 0) {
		struct grpc_head head;
		int r = grpc_read(&call->reader, &data, &call->partial, &head);
		if (r == -E2BIG)
			return too_large(call);
		if (r == -ENOMEM)
			return error_nomem(call->err);
		if (r < 0)
			return error_set(call->err, -EPROTO, "bad response from %s: malformed gRPC message", call->client->url);
		if (r == 0)
			return 0;
		r = take_message(call, head.compressed);
		buffer_clear(&call->partial);
		if (r < 0)
			return r;
	}
	return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data, size_t len,
			 void *context)
{
	struct call *call = call_of(context, stream_id);
	if (call && !call->fault)
		call->fault = take_data(call, (struct bytes){data, len});
	return 0;
}

/* The answer is complete: what is left of the request is not wanted. */
static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct call *call = call_of(context, frame->hd.stream_id);
	bool ended = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
		     (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
	if (call && ended && (call->sent < call->framed.len || call->next < call->count))
		nghttp2_submit_rst_stream(session, 0, frame->hd.stream_id, NGHTTP2_NO_ERROR);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *context)
{
	struct call *call = call_of(context, stream_id);
	if (call) {
		call->closed = true;
		call->close_code = code;
	}
	return 0;
}

static ssize_t read_data(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t size, uint32_t *flags,
			 nghttp2_data_source *source, void *context)
{
	struct call *call = call_of(context, stream_id);
	size_t done = 0;
	if (!call)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	while (done < size) {
		if (call->sent == call->framed.len) {
			buffer_clear(&call->framed);
			call->sent = 0;
			if (call->next == call->count)
				break;
			int r = grpc_append_message(&call->framed, call->messages[call->next++], call->gzip);
			if (r < 0) {
				call->fault = error_set_errno(call->err, r, "cannot send a message to %s", call->client->url);
				return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
			}
		}
		size_t left = call->framed.len - call->sent, take = left < size - done ? left : size - done;
		memcpy(out + done, call->framed.data + call->sent, take);
		call->sent += take;
		done += take;
	}
	if (call->sent == call->framed.len && call->next == call->count)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)done;
}

/* ---- the connection ---- */

void client_http2_close(struct net_client *client)
{
	struct client_http2 *http = client->http2;
	if (!http)
		return;
	nghttp2_session_del(http->session);
	buffer_release(&http->out);
	channel_close(&http->channel);
	client->http2 = mem_free(http);
}

static int make_session(struct client_http2 *http)
{
	nghttp2_session_callbacks *callbacks;
	if (nghttp2_session_callbacks_new(&callbacks))
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	int r = nghttp2_session_client_new3(&http->session, callbacks, http, NULL, &http2_memory);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP2_WINDOW_STREAM},
	};
	if (r == 0)
		r = nghttp2_submit_settings(http->session, 0, settings, sizeof(settings) / sizeof(settings[0]));
	if (r == 0)
		r = nghttp2_session_set_local_window_size(http->session, 0, 0, HTTP2_WINDOW_CONNECTION);
	return r < 0 ? -ENOMEM : 0;
}

static int open_connection(struct net_client *client, struct error *err)
{
	struct client_http2 *http = mem_zalloc(sizeof(*http));
	if (!http)
		return error_nomem(err);
	http->channel.fd = -1;
	buffer_init(&http->out, 4 * NET_OUTPUT_BYTES);
	client->http2 = http;
	int r = make_session(http) < 0 ? error_nomem(err) : channel_open(client, &http->channel, true, err);
	if (r < 0)
		client_http2_close(client);
	return r;
}

static int flush(struct net_client *client, struct error *err)
{
	struct client_http2 *http = client->http2;
	for (;;) {
		if (http2_gather(http->session, &http->out) < 0)
			return error_nomem(err);
		if (http->out.len == 0)
			return 0;
		ssize_t n = channel_send(client, &http->channel, http->out.data, http->out.len, false, err);
		if (n == -EPROTO)
			return (int)n;
		if (n < 0)
			return client_failed(client, (int)n, "cannot send to", err);
		if (n == 0)
			return 0;
		memmove(http->out.data, http->out.data + n, http->out.len - (size_t)n);
		http->out.len -= (size_t)n;
	}
}

/* Reads what is there; 0 also when there is nothing. */
static int drain(struct net_client *client, struct error *err)
{
	struct client_http2 *http = client->http2;
	ssize_t n = channel_receive(client, &http->channel, err);
	if (n == -EAGAIN)
		return 0;
	if (n == -EPROTO)
		return (int)n;
	if (n < 0)
		return client_failed(client, (int)n, "no response from", err);
	if (nghttp2_session_mem_recv(http->session, client->read_buffer, (size_t)n) < 0)
		return error_set(err, -EPROTO, "%s does not speak HTTP/2%s", client->url,
				 client->address.tls ? "" : " without TLS");
	return 0;
}

static bool is_usable(struct net_client *client)
{
	struct client_http2 *http = client->http2;
	while (channel_has_input(client, &http->channel))
		if (drain(client, NULL) < 0)
			return false;
	return nghttp2_session_check_request_allowed(http->session) && flush(client, NULL) == 0;
}

/* ---- a call ---- */

static int submit(struct call *call, const char *path)
{
	struct net_client *client = call->client;
	struct client_http2 *http = client->http2;
	_cleanup_(buffer_release) struct buffer token = {.max = 16 * KIB}, whole = {.max = 16 * KIB};
	char timeout[24];
	int64_t left_ms = (client->deadline_ns - time_monotonic_ns()) / NS_PER_MS;
	snprintf(timeout, sizeof(timeout), "%lldm", left_ms > 99999999 ? 99999999ll : left_ms < 1 ? 1ll : (long long)left_ms);
	if (buffer_printf(&whole, "%s%s", client->prefix, path) < 0 ||
	    buffer_printf(&token, "Bearer %s", client->token ? client->token : "") < 0)
		return error_nomem(call->err);
	nghttp2_nv fields[16 + NET_CLIENT_HEADERS_MAX];
	size_t n = 0;
	fields[n++] = http2_field(":method", "POST");
	fields[n++] = http2_field(":scheme", client->address.tls ? "https" : "http");
	fields[n++] = http2_field(":path", (const char *)whole.data);
	fields[n++] = http2_field(":authority", client->authority);
	fields[n++] = http2_field("te", "trailers");
	fields[n++] = http2_field("content-type", "application/grpc+proto");
	fields[n++] = http2_field("user-agent", "wick/" WICK_VERSION);
	fields[n++] = http2_field("grpc-timeout", timeout);
	fields[n++] = http2_field("grpc-accept-encoding", "identity,gzip");
	if (call->gzip != NET_PLAIN)
		fields[n++] = http2_field("grpc-encoding", "gzip");
	if (client->token)
		fields[n++] = http2_field("authorization", (const char *)token.data);
	if (client->tenant)
		fields[n++] = http2_field("x-scope-orgid", client->tenant);
	for (size_t i = 0; i < client->header_count; i++)
		fields[n++] = http2_field(client->headers[i].name, client->headers[i].value);
	nghttp2_data_provider provider = {.read_callback = read_data};
	call->stream_id = nghttp2_submit_request(http->session, NULL, fields, n, &provider, NULL);
	return call->stream_id < 0 ? error_nomem(call->err) : 0;
}

static int exchange_frames(struct call *call)
{
	struct net_client *client = call->client;
	struct client_http2 *http = client->http2;
	while (!call->closed) {
		int r = flush(client, call->err);
		if (call->fault)
			return call->fault;
		if (r < 0)
			return r;
		if (call->closed)
			break;
		short events = http->out.len > 0 ? POLLIN | POLLOUT : POLLIN;
		int ready = channel_wait(client, &http->channel, events, call->err);
		if (ready < 0)
			return ready;
		r = ready & (POLLIN | POLLHUP | POLLERR) ? drain(client, call->err) : 0;
		if (call->fault || r < 0)
			return call->fault ? call->fault : r;
	}
	return 0;
}

static int check_end(const struct call *call)
{
	const struct net_client_response *response = call->response;
	if (response->grpc_status >= 0)
		return 0; /* the answer is whole, whatever came after it */
	if (call->close_code != NGHTTP2_NO_ERROR)
		return error_set(call->err, -EPROTO, "%s ended the call: HTTP/2 %s", call->client->url,
				 nghttp2_http2_strerror(call->close_code));
	if (response->status == 0)
		return error_set(call->err, -EPROTO, "%s sent no response", call->client->url);
	return 0;
}

/* 1 = the server did not touch it: worth another try. */
static int try_once(struct call *call, const char *path)
{
	struct net_client *client = call->client;
	struct net_client_response *response = call->response;
	client_reset_response(response);
	if (client->http2 && !is_usable(client))
		client_http2_close(client);
	int r = client->http2 ? 0 : open_connection(client, call->err);
	if (r < 0)
		return r;
	client->http2->call = call;
	r = submit(call, path);
	if (r == 0)
		r = exchange_frames(call);
	client->http2->call = NULL;
	bool refused = r == 0 && call->closed && call->close_code == NGHTTP2_REFUSED_STREAM && response->grpc_status < 0;
	if (r == 0 && !refused)
		r = check_end(call);
	if (r < 0 || refused)
		client_http2_close(client);
	return refused ? 1 : r;
}

static int refused_again(const struct call *call)
{
	return error_set(call->err, -EBUSY, "%s rejected the call: it is busy or shutting down; try again later",
			 call->client->url);
}

int net_client_grpc(struct net_client *client, const char *path, const struct bytes *messages, size_t count, enum net_gzip gzip,
		    void (*on_message)(void *context, struct bytes message), void *context, struct net_client_response *ret,
		    struct error *err)
{
	if (!client_is_path(path))
		return error_set(err, -EINVAL, "bad path for %s: it must start with '/' and be percent-encoded", client->url);
	client->deadline_ns = time_monotonic_ns() + client->timeout_ns;
	client_token_renew(client);
	ret->body.max = client->response_max;
	int r = 1;
	for (int attempt = 0; attempt < 2 && r == 1; attempt++) {
		struct call call = {.client = client,
				    .response = ret,
				    .messages = messages,
				    .count = count,
				    .gzip = gzip,
				    .on_message = on_message,
				    .context = context,
				    .err = err,
				    .framed.max = (size_t)UINT32_MAX + GRPC_PREFIX_BYTES,
				    .partial.max = client->response_max};
		r = try_once(&call, path);
		if (r == 1 && attempt == 1)
			r = refused_again(&call);
		buffer_release(&call.framed);
		buffer_release(&call.partial);
	}
	return r;
}
