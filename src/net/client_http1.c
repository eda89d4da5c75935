/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 requests.
 *
 * A kept connection (the client's own, or one that clients share: client_pool.c) may have been closed by the server while it
 * was idle. Before it is used again it is asked whether anything is there to read: an end of file, or bytes nobody asked for,
 * mean a new connection. In the moment between that question and the request it can still close. Then the request is sent again
 * on a new connection, once, if that is harmless: it is idempotent, or the server cannot have seen all of it. A POST that went
 * out whole and got no answer is an error: it may have been carried out.
 */
#include "net/client_int.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "codec/compress.h"
#include "net/http1_int.h"

struct call {
	struct net_client *client;
	struct net_client_response *response;
	llhttp_t parser;
	struct buffer head, packed; /* out; packed: the body when it is compressed */
	size_t body_len;
	size_t bare_len; /* bytes of the answer since its beginning or the last byte of its body */
	char name[32], value[1024], encoding[32];
	bool is_head, keep_alive, complete, begun; /* begun: some of the answer came */
	bool sent;				   /* the request went out whole */
	int fault;
};

/* ---- the answer ---- */

static void append_cut(char *text, size_t size, const char *more, size_t len)
{
	size_t used = strlen(text), room = size - 1 - used;
	memcpy(text + used, more, len < room ? len : room);
	text[used + (len < room ? len : room)] = '\0';
}

static void take_retry(struct call *call)
{
	for (char *at = call->name; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	client_take_retry(call->response, bytes_of_string(call->name), bytes_of_string(call->value));
}

static int on_status(llhttp_t *parser, const char *data, size_t len)
{
	struct call *call = parser->data;
	append_cut(call->response->message, sizeof(call->response->message), data, len);
	return 0;
}

static int on_header_field(llhttp_t *parser, const char *data, size_t len)
{
	struct call *call = parser->data;
	append_cut(call->name, sizeof(call->name), data, len);
	return 0;
}

static int on_header_value(llhttp_t *parser, const char *data, size_t len)
{
	struct call *call = parser->data;
	append_cut(call->value, sizeof(call->value), data, len);
	return 0;
}

static void take_header(struct call *call)
{
	if (!strcasecmp(call->name, "content-type"))
		snprintf(call->response->content_type, sizeof(call->response->content_type), "%.127s", call->value);
	else if (!strcasecmp(call->name, "location") && strlen(call->value) < sizeof(call->value) - 1)
		snprintf(call->response->location, sizeof(call->response->location), "%s", call->value);
	else if (!strcasecmp(call->name, "x-wick-symbols"))
		snprintf(call->response->symbols, sizeof(call->response->symbols), "%.127s", call->value);
	else if (!strcasecmp(call->name, "x-wick-partial"))
		snprintf(call->response->partial, sizeof(call->response->partial), "%.255s", call->value);
	else if (!strcasecmp(call->name, "content-encoding"))
		snprintf(call->encoding, sizeof(call->encoding), "%.31s", call->value);
	else if (call->client->keep_header && !strcasecmp(call->name, call->client->keep_header))
		snprintf(call->response->kept, sizeof(call->response->kept), "%.127s", call->value);
	else
		take_retry(call);
}

/* What follows the body comes too late to say what the body is. */
static int on_header_value_complete(llhttp_t *parser)
{
	struct call *call = parser->data;
	if (!(parser->flags & F_TRAILING))
		take_header(call);
	call->name[0] = call->value[0] = '\0';
	return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
	struct call *call = parser->data;
	call->keep_alive = llhttp_should_keep_alive(parser);
	call->response->status = parser->status_code;
	return call->is_head;
}

static int charge(struct net_client *client, size_t len)
{
	if (!client->budget)
		return 0;
	client->charged += (int64_t)len;
	return atomic_fetch_sub_explicit(&client->budget->left, (int64_t)len, memory_order_relaxed) < (int64_t)len ? -ENOBUFS
														   : 0;
}

static int on_body(llhttp_t *parser, const char *data, size_t len)
{
	struct call *call = parser->data;
	call->fault = charge(call->client, len);
	if (!call->fault)
		call->fault = buffer_append(&call->response->body, data, len);
	call->bare_len = 0;
	return call->fault < 0 ? -1 : 0;
}

/* 100 Continue and the like come before the answer. */
static int on_message_complete(llhttp_t *parser)
{
	struct call *call = parser->data;
	if (parser->status_code / 100 == 1 && parser->status_code != 101) {
		call->response->message[0] = '\0';
		return 0;
	}
	call->complete = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_protocol = http1_on_protocol,
	.on_status = on_status,
	.on_header_field = on_header_field,
	.on_header_value = on_header_value,
	.on_header_value_complete = on_header_value_complete,
	.on_headers_complete = on_headers_complete,
	.on_body = on_body,
	.on_message_complete = on_message_complete,
};

static int too_large(const struct call *call, struct error *err)
{
	char size[TEXT_NUMBER_MAX];
	return error_set(err, -E2BIG, "the response of %s is larger than the limit of %s", call->client->url,
			 text_format_size(call->client->response_max, size));
}

static int parse(struct call *call, const uint8_t *data, size_t len, struct error *err)
{
	call->bare_len += len;
	llhttp_errno_t code = llhttp_execute(&call->parser, (const char *)data, len);
	if (call->fault == -E2BIG)
		return too_large(call, err);
	if (call->fault == -ENOBUFS)
		return error_set(err, -ENOBUFS, "too much memory is in use by responses of all servers to receive that of %s",
				 call->client->url);
	if (call->fault)
		return error_nomem(err);
	if (call->complete && call->response->status == 101)
		return error_set(err, -EPROTO, "bad response from %s: unexpected protocol switch", call->client->url);
	if (call->complete) {
		call->keep_alive = call->keep_alive && http1_taken(&call->parser, code, data, len) == len;
		return 0;
	}
	if (code != HPE_OK)
		return error_set(err, -EPROTO, "bad response from %s: %s", call->client->url,
				 llhttp_get_error_reason(&call->parser));
	if (call->bare_len > NET_HEADER_BYTES_CEILING)
		return error_set(err, -EPROTO, "bad response from %s: its header is larger than %d KiB", call->client->url,
				 (int)(NET_HEADER_BYTES_CEILING / KIB));
	return 0;
}

/* The server has closed: that may be how a body without a length ends, unless TLS should have said so and did not. */
static int parse_end(struct call *call, bool cut, struct error *err)
{
	if (!cut)
		llhttp_finish(&call->parser);
	call->keep_alive = false;
	if (call->complete)
		return 0;
	if (!call->begun)
		return error_set(err, -ECONNRESET, "%s closed the connection without a response%s", call->client->url,
				 call->sent ? "; the request may have been carried out" : "");
	return error_set(err, -EPROTO, "%s closed the connection in the middle of its response", call->client->url);
}

static int receive(struct call *call, struct error *err)
{
	struct net_client *client = call->client;
	while (!call->complete) {
		int ready = channel_wait(client, &client->channel, POLLIN, err);
		if (ready < 0)
			return ready;
		ssize_t n = channel_receive(client, &client->channel, err);
		if (n == -EAGAIN)
			continue;
		if (n == -EPROTO)
			return (int)n;
		int r = n > 0 ? parse(call, client->read_buffer, (size_t)n, err) : parse_end(call, n == -ECONNABORTED, err);
		if (r < 0)
			return r;
		call->begun = call->begun || n > 0;
	}
	return 0;
}

static int decode_body(struct call *call, struct error *err)
{
	struct net_client_response *response = call->response;
	if (call->client->keep_encoded) {
		snprintf(response->encoding, sizeof(response->encoding), "%s", call->encoding);
		return 0;
	}
	if (!call->encoding[0] || !strcasecmp(call->encoding, "identity") || response->body.len == 0)
		return 0;
	if (strcasecmp(call->encoding, "gzip"))
		return error_set(err, -EPROTO, "bad response from %s: unknown Content-Encoding %s", call->client->url,
				 call->encoding);
	struct buffer plain = {.max = call->client->response_max};
	int r = gzip_decompress(buffer_bytes(&response->body), &plain, err);
	if (r == -E2BIG)
		r = too_large(call, err);
	else if (r < 0)
		r = error_prefix(err, r, "bad response from %s", call->client->url);
	buffer_release(&response->body);
	response->body = plain;
	return r;
}

/* ---- the request ---- */

static int make_head(struct call *call, const char *method, const char *path, const char *content_type, bool gzipped,
		     struct error *err)
{
	const struct net_client *client = call->client;
	struct buffer *head = &call->head;
	bool by_proxy = client->has_proxy && !client->address.tls;
	buffer_printf(head, "%s %s%s%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: wick/%s\r\nAccept-Encoding: gzip\r\n", method,
		      by_proxy ? "http://" : "", by_proxy ? client->authority : "", client->prefix, path, client->authority,
		      WICK_VERSION);
	if (by_proxy && client->proxy.authorization[0])
		buffer_printf(head, "Proxy-Authorization: %s\r\n", client->proxy.authorization);
	if (client->token)
		buffer_printf(head, "Authorization: Bearer %s\r\n", client->token);
	if (client->tenant)
		buffer_printf(head, "X-Scope-OrgID: %s\r\n", client->tenant);
	for (size_t i = 0; i < client->header_count; i++)
		buffer_printf(head, "%s: %s\r\n", client->headers[i].name, client->headers[i].value);
	if (content_type)
		buffer_printf(head, "Content-Type: %s\r\n", content_type);
	if (gzipped)
		buffer_append_string(head, "Content-Encoding: gzip\r\n");
	if (call->body_len > 0 || !strcmp(method, "POST") || !strcmp(method, "PUT"))
		buffer_printf(head, "Content-Length: %zu\r\n", call->body_len);
	int r = buffer_append_string(head, "\r\n");
	return r < 0 ? error_set_errno(err, r, "cannot create a request to %s", client->url) : 0;
}

/* 0 = all is out, 1 = the server answers already: what is left is not wanted. more: another part follows. */
static int send_part(struct call *call, struct bytes part, bool more, struct error *err)
{
	struct net_client *client = call->client;
	while (part.len > 0) {
		ssize_t n = channel_send(client, &client->channel, part.data, part.len, more, err);
		if (n == -EPROTO)
			return (int)n;
		if (n < 0)
			return client_failed(client, (int)n, "cannot send to", err);
		part = (struct bytes){part.data + n, part.len - (size_t)n};
		if (part.len == 0)
			break;
		int ready = channel_wait(client, &client->channel, POLLIN | POLLOUT, err);
		if (ready < 0)
			return ready;
		if ((ready & POLLIN) && channel_has_input(client, &client->channel))
			return 1;
	}
	return 0;
}

static int send_request(struct call *call, struct bytes body, struct error *err)
{
	int r = send_part(call, buffer_bytes(&call->head), body.len > 0, err);
	if (r == 0)
		r = send_part(call, body, false, err);
	call->sent = r == 0;
	return r;
}

static int try_once(struct call *call, struct bytes body, bool *ret_reused, struct error *err)
{
	struct net_client *client = call->client;
	llhttp_init(&call->parser, HTTP_RESPONSE, &settings);
	call->parser.data = call;
	call->begun = call->sent = false;
	call->bare_len = 0;
	client_reset_response(call->response);
	struct client_channel *channel = &client->channel;
	client_pool_take(client);
	while (channel->fd >= 0 && channel_has_input(client, channel)) {
		channel_close(channel);
		client_pool_take(client);
	}
	*ret_reused = channel->fd >= 0;
	int r = *ret_reused ? 0 : channel_open(client, channel, false, err);
	if (r < 0)
		return r;
	r = send_request(call, body, err);
	bool whole = r == 0;
	if (r == -EPIPE || r == -ECONNRESET)
		r = 1; /* an answer may have come before */
	if (r >= 0)
		r = receive(call, err);
	if (r < 0 || !call->keep_alive || !whole)
		channel_close(channel);
	return r;
}

static bool may_repeat(const struct call *call, const char *method)
{
	if (call->begun)
		return false;
	return !call->sent || !strcmp(method, "GET") || !strcmp(method, "HEAD") || !strcmp(method, "PUT") ||
	       !strcmp(method, "DELETE");
}

static int check_arguments(const struct net_client *client, const char *method, const char *path, const char *content_type,
			   struct error *err)
{
	if (!http_is_token(method))
		return error_set(err, -EINVAL, "bad method for %s", client->url);
	if (!client_is_path(path))
		return error_set(err, -EINVAL, "bad path for %s: it must start with '/' and be percent-encoded", client->url);
	if (content_type && !http_is_field_value(content_type))
		return error_set(err, -EINVAL, "bad content type for %s", client->url);
	return 0;
}

static int run_call(struct call *call, const char *method, const char *path, const char *content_type, struct bytes body,
		    enum net_gzip gzip, struct error *err)
{
	const struct net_client *client = call->client;
	int r = 0;
	bool gzipped = gzip != NET_PLAIN && body.len > 0, pack = gzip == NET_GZIP && gzipped;
	if (pack)
		r = gzip_compress(body, NET_COMPRESS_LEVEL, &call->packed, err);
	if (r < 0)
		return r;
	if (pack)
		body = buffer_bytes(&call->packed);
	call->body_len = body.len;
	r = make_head(call, method, path, content_type, gzipped, err);
	if (r < 0)
		return r;
	bool reused;
	r = try_once(call, body, &reused, err);
	if (r == -ECONNRESET && reused && may_repeat(call, method))
		r = try_once(call, body, &reused, err);
	if (r == 0 && client->has_proxy && !client->address.tls && call->response->status == 407)
		return client_proxy_unauthorized(client, err);
	return r < 0 ? r : decode_body(call, err);
}

int net_client_request(struct net_client *client, const char *method, const char *path, const char *content_type,
		       struct bytes body, enum net_gzip gzip, struct net_client_response *ret, struct error *err)
{
	int r = check_arguments(client, method, path, content_type, err);
	if (r < 0)
		return r;
	struct call call = {.client = client,
			    .response = ret,
			    .is_head = !strcmp(method, "HEAD"),
			    .head.max = NET_HEADER_BYTES_CEILING,
			    .packed.max = body.len + body.len / 8 + KIB};
	ret->body.max = client->response_max;
	client->deadline_ns = time_monotonic_ns() + client->timeout_ns;
	client_token_renew(client);
	r = run_call(&call, method, path, content_type, body, gzip, err);
	client_pool_put(client);
	buffer_release(&call.head);
	buffer_release(&call.packed);
	return r;
}
