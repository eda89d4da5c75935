/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote procedure calls over the protocols that their clients speak:
 *
 *   gRPC       HTTP/2, also HTTP/1.1, "application/grpc[+proto]". src/net does the framing, so the body is the message.
 *   gRPC-Web   (github.com/grpc/grpc, doc/PROTOCOL-WEB.md) any HTTP, "application/grpc-web[+proto]". The body of request and
 *              answer is a run of frames: a byte of flags (1 = compressed by grpc-encoding, 0x80 = trailers), four bytes of
 *              length, that many bytes. Trailers are a frame of header lines, since browsers do not show real ones.
 *              "-text" is the same in base64, which may be padded after each piece that was encoded.
 *   Connect    (connectrpc.com/docs/protocol) any HTTP, POST of "application/proto" or "application/json": the body is the
 *              message, compressed by Content-Encoding as any body. Or GET ?encoding=E&message=M[&base64=1] for methods that
 *              change nothing. Failures have an HTTP status and {"code": "invalid_argument", "message": "..."}.
 *
 * All carry the same protobuf messages; JSON is converted on the way in and out by the tables of the row, so a handler has one
 * form to read and to write. The path is the same in all, and names the method. One that is not known is UNIMPLEMENTED in all
 * of them, and 404 over Connect, as a server that does not know the path at all would answer.
 *
 * Pages. A browser asks before it sends such a request to another site (OPTIONS, "preflight"). The answer is yes where a token
 * is used: then the page must give the token itself, which no page gets to know by accident. Without a token pages of other
 * sites are refused as everywhere (access.c).
 */
#include "server/http/rpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "base/text.h"
#include "codec/base64.h"
#include "codec/compress.h"

#define FRAME_BYTES	 5
#define FRAME_COMPRESSED 1
#define FRAME_TRAILERS	 0x80
#define COMPRESS_MIN	 1024
#define COMPRESS_LEVEL	 4
#define ANSWER_MAX	 (256 * MIB)

enum protocol { PROTOCOL_GRPC, PROTOCOL_WEB, PROTOCOL_WEB_TEXT, PROTOCOL_PROTO, PROTOCOL_JSON, PROTOCOL_UNKNOWN };

/* Names and HTTP statuses of Connect's errors, by gRPC's code. */
static const struct {
	const char *name;
	int status;
} connect_codes[] = {
	[GRPC_OK] = {"unknown", 500},
	[GRPC_CANCELLED] = {"canceled", 499},
	[GRPC_UNKNOWN] = {"unknown", 500},
	[GRPC_INVALID_ARGUMENT] = {"invalid_argument", 400},
	[GRPC_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
	[GRPC_NOT_FOUND] = {"not_found", 404},
	[GRPC_ALREADY_EXISTS] = {"already_exists", 409},
	[GRPC_PERMISSION_DENIED] = {"permission_denied", 403},
	[GRPC_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
	[GRPC_FAILED_PRECONDITION] = {"failed_precondition", 400},
	[10] = {"aborted", 409},
	[11] = {"out_of_range", 400},
	[GRPC_UNIMPLEMENTED] = {"unimplemented", 501},
	[GRPC_INTERNAL] = {"internal", 500},
	[GRPC_UNAVAILABLE] = {"unavailable", 503},
	[15] = {"data_loss", 500},
	[GRPC_UNAUTHENTICATED] = {"unauthenticated", 401},
};

static const struct rpc_method *find_method(const char *path)
{
	for (size_t i = 0; rpc_services[i]; i++)
		for (const struct rpc_method *method = rpc_services[i]; method->path; method++)
			if (strcmp(method->path, path) == 0)
				return method;
	return NULL;
}

bool rpc_is_for_pages(const char *path)
{
	return find_method(path) != NULL;
}

int rpc_too_large(int r, struct error *err)
{
	return r == -E2BIG ? error_set(err, r, "the response is too large") : r < 0 ? error_nomem(err) : 0;
}

/* ---- requests ---- */

/* The media type without its parameters. */
static bool type_is(const char *header, const char *type)
{
	size_t len = strlen(type);
	return strncasecmp(header, type, len) == 0 && (!header[len] || header[len] == ';' || header[len] == ' ');
}

static enum protocol protocol_of(const struct net_request *request)
{
	const char *type = net_request_header(request, "content-type");
	if (net_request_is_grpc(request))
		return PROTOCOL_GRPC;
	if (strcmp(net_request_method(request), "POST") != 0) {
		const char *encoding = net_request_query(request, "encoding");
		return encoding && strcmp(encoding, "json") == 0    ? PROTOCOL_JSON
		       : encoding && strcmp(encoding, "proto") == 0 ? PROTOCOL_PROTO
								    : PROTOCOL_UNKNOWN;
	}
	if (!type)
		return PROTOCOL_UNKNOWN;
	if (type_is(type, "application/json"))
		return PROTOCOL_JSON;
	if (type_is(type, "application/proto"))
		return PROTOCOL_PROTO;
	if (type_is(type, "application/grpc-web") || type_is(type, "application/grpc-web+proto"))
		return PROTOCOL_WEB;
	if (type_is(type, "application/grpc-web-text") || type_is(type, "application/grpc-web-text+proto"))
		return PROTOCOL_WEB_TEXT;
	return PROTOCOL_UNKNOWN;
}

static int unpack(const struct rpc_call *call, const char *encoding, struct bytes packed, struct buffer *out, struct error *err)
{
	char size[TEXT_NUMBER_MAX];
	buffer_init(out, server_body_max(call->server));
	if (!encoding || strcasecmp(encoding, "gzip") != 0)
		return error_set(err, -EBADMSG, "a message is compressed by '%.40s': use gzip or none",
				 encoding ? encoding : "");
	int r = gzip_decompress(packed, out, err);
	if (r == -E2BIG)
		return error_set(err, r, "the message is larger than the limit of %s after decompression",
				 text_format_size(out->max, size));
	return r < 0 ? error_prefix(err, r, "cannot decompress the message") : 0;
}

/* What was encoded in pieces has padding after each: four characters at a time stand for themselves. */
static int decode_text(struct bytes text, struct buffer *out, struct error *err)
{
	buffer_init(out, text.len);
	for (size_t at = 0; at < text.len;) {
		const uint8_t *pad = memchr(text.data + at, '=', text.len - at);
		size_t end = pad ? (size_t)(pad - text.data) + 4 - (size_t)(pad - text.data - at) % 4 : text.len;
		end = end < text.len ? end : text.len;
		int r = base64_decode((struct bytes){text.data + at, end - at}, out);
		if (r < 0)
			return error_set(err, r, r == -EBADMSG ? "the body is not base64" : "out of memory");
		at = end;
	}
	return 0;
}

/* The one message of a gRPC-Web body. */
static int read_frames(const struct rpc_call *call, struct bytes body, struct buffer *room, struct bytes *ret,
		       struct error *err)
{
	bool seen = false;
	uint8_t flags = 0;
	while (body.len > 0) {
		if (body.len < FRAME_BYTES)
			return error_set(err, -EBADMSG, "the body ends within a frame header");
		const uint8_t *head = body.data;
		size_t len = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
		body = (struct bytes){body.data + FRAME_BYTES, body.len - FRAME_BYTES};
		if (len > body.len)
			return error_set(err, -EBADMSG, "the body ends within a frame");
		bool trailers = head[0] & FRAME_TRAILERS;
		if (!trailers && (seen || head[0] > FRAME_COMPRESSED))
			return error_set(err, -EBADMSG, seen ? "more than one message" : "a frame has unknown flags");
		if (!trailers) {
			*ret = (struct bytes){body.data, len};
			flags = head[0];
			seen = true;
		}
		body = (struct bytes){body.data + len, body.len - len};
	}
	if (!seen)
		return error_set(err, -EBADMSG, "no message");
	if (!(flags & FRAME_COMPRESSED))
		return 0;
	int r = unpack(call, net_request_header(call->request, "grpc-encoding"), *ret, room, err);
	*ret = buffer_bytes(room);
	return r;
}

static int read_query(const struct rpc_call *call, struct buffer *room, struct bytes *ret, struct error *err)
{
	const char *message = net_request_query(call->request, "message");
	const char *base64 = net_request_query(call->request, "base64");
	const char *compression = net_request_query(call->request, "compression");
	*ret = bytes_of_string(message ? message : "");
	if (base64 && strcmp(base64, "1") == 0) {
		buffer_init(room, ret->len + 4);
		if (base64_decode(*ret, room) < 0)
			return error_set(err, -EBADMSG, "the parameter 'message' is not base64");
		*ret = buffer_bytes(room);
	}
	if (!compression || strcmp(compression, "identity") == 0)
		return 0;
	_cleanup_(buffer_release) struct buffer packed = *room;
	int r = unpack(call, compression, *ret, room, err);
	*ret = buffer_bytes(room);
	return r;
}

static int read_timeout(struct rpc_call *call, struct error *err)
{
	const char *version = net_request_header(call->request, "connect-protocol-version");
	const char *timeout = net_request_header(call->request, "connect-timeout-ms");
	uint64_t ms = 0;
	if (version && strcmp(version, "1") != 0)
		return error_set(err, -EINVAL, "connect-protocol-version '%.40s' is unknown: it must be 1", version);
	if (timeout && (strlen(timeout) > 10 || text_parse_u64(timeout, &ms, NULL) < 0))
		return error_set(err, -EINVAL, "connect-timeout-ms '%.40s' is not a number of at most 10 digits", timeout);
	call->timeout_ns = (int64_t)ms * 1000000;
	return 0;
}

/* What a message is unpacked into on the way: out of base64, then out of gzip or JSON. */
struct rooms {
	struct buffer first, second;
};

static void rooms_release(struct rooms *rooms)
{
	buffer_release(&rooms->first);
	buffer_release(&rooms->second);
}

/* The message in protobuf. */
static int read_message(struct rpc_call *call, enum protocol protocol, struct rooms *rooms, struct bytes *ret,
			struct error *err)
{
	int r = 0;
	*ret = net_request_body(call->request);
	if (protocol == PROTOCOL_PROTO || protocol == PROTOCOL_JSON)
		r = read_timeout(call, err);
	if (!r && strcmp(net_request_method(call->request), "POST") != 0)
		r = read_query(call, &rooms->first, ret, err);
	if (!r && protocol == PROTOCOL_WEB_TEXT) {
		r = decode_text(*ret, &rooms->first, err);
		*ret = buffer_bytes(&rooms->first);
	}
	if (!r && (protocol == PROTOCOL_WEB || protocol == PROTOCOL_WEB_TEXT))
		r = read_frames(call, *ret, &rooms->second, ret, err);
	if (!r && protocol == PROTOCOL_JSON) {
		/* What it means in protobuf is never longer than twice the text. */
		buffer_init(&rooms->second, 2 * server_body_max(call->server));
		r = pb_json_to_binary(*ret, call->method->request, &rooms->second, err);
		*ret = buffer_bytes(&rooms->second);
	}
	return r;
}

/* ---- answers ---- */

static int append_frame(struct buffer *out, uint8_t flags, struct bytes data)
{
	uint8_t head[FRAME_BYTES] = {flags, (uint8_t)(data.len >> 24), (uint8_t)(data.len >> 16), (uint8_t)(data.len >> 8),
				     (uint8_t)data.len};
	if (data.len > UINT32_MAX)
		return buffer_fail(out, -E2BIG);
	buffer_append(out, head, sizeof(head));
	return buffer_append(out, data.data, data.len);
}

/* The message as a frame, compressed if the client can read that. */
static int append_message(const struct net_request *request, struct net_response *response, struct bytes message,
			  struct buffer *out)
{
	const char *accepted = net_request_header(request, "grpc-accept-encoding");
	_cleanup_(buffer_release) struct buffer packed = {.max = message.len};
	if (!accepted || !strstr(accepted, "gzip") || message.len < COMPRESS_MIN ||
	    gzip_compress(message, COMPRESS_LEVEL, &packed, NULL) < 0)
		return append_frame(out, 0, message);
	int r = net_response_header(response, "Grpc-Encoding", "gzip");
	return r < 0 ? r : append_frame(out, FRAME_COMPRESSED, buffer_bytes(&packed));
}

/* Turns response->body, the message, into frames; message NULL: there is none. */
static int frame_answer(enum protocol protocol, const struct net_request *request, struct net_response *response,
			const struct bytes *message, enum grpc_code code, const char *text)
{
	_cleanup_(buffer_release) struct buffer trailers = {.max = 4 * ERROR_MESSAGE_MAX}, frames = {.max = ANSWER_MAX};
	buffer_printf(&trailers, "grpc-status: %d\r\n", (int)code);
	if (code != GRPC_OK) {
		buffer_append_string(&trailers, "grpc-message: ");
		text_url_encode(&trailers, bytes_of_string(text));
		buffer_append_string(&trailers, "\r\n");
	}
	int r = buffer_status(&trailers);
	if (!r && message)
		r = append_message(request, response, *message, &frames);
	if (!r)
		r = append_frame(&frames, FRAME_TRAILERS, buffer_bytes(&trailers));
	buffer_clear(&response->body);
	if (!r && protocol == PROTOCOL_WEB_TEXT)
		r = base64_encode(buffer_bytes(&frames), &response->body);
	else if (!r)
		r = buffer_append(&response->body, frames.data, frames.len);
	response->status = 200;
	response->content_type =
		protocol == PROTOCOL_WEB_TEXT ? "application/grpc-web-text+proto" : "application/grpc-web+proto";
	return r;
}

static void answer_failure(enum protocol protocol, const struct net_request *request, struct net_response *response,
			   enum grpc_code code, const char *text)
{
	respond_grpc(response, code, text);
	if (protocol == PROTOCOL_GRPC)
		return;
	if (protocol == PROTOCOL_WEB || protocol == PROTOCOL_WEB_TEXT) {
		if (frame_answer(protocol, request, response, NULL, code, text) < 0) {
			buffer_clear(&response->body);
			response->status = 503;
		}
		return;
	}
	respond_code(response, connect_codes[code].status, connect_codes[code].name, text);
}

/* out: the answer in protobuf, which may be response->body itself. */
static int answer(struct rpc_call *call, enum protocol protocol, struct buffer *out, struct error *err)
{
	struct net_response *response = call->response;
	struct bytes message = buffer_bytes(out);
	switch (protocol) {
	case PROTOCOL_JSON:
		response->content_type = "application/json";
		return pb_json_from_binary(message, call->method->answer, &response->body, err);
	case PROTOCOL_WEB:
	case PROTOCOL_WEB_TEXT:
		if (frame_answer(protocol, call->request, response, &message, GRPC_OK, "") < 0)
			return error_set(err, -E2BIG, "the response is too large; narrow the request");
		return 0;
	default: response->content_type = "application/proto"; return 0;
	}
}

static void rpc_handle(void *context, const struct net_request *request, struct net_response *response)
{
	struct rpc_call call = {.server = context, .request = request, .response = response};
	struct error err = {0};
	struct bytes message;
	_cleanup_(rooms_release) struct rooms rooms = {0};
	_cleanup_(buffer_release) struct buffer converted = {.max = ANSWER_MAX};
	enum protocol protocol = protocol_of(request);
	bool direct = protocol == PROTOCOL_GRPC || protocol == PROTOCOL_PROTO;
	call.method = find_method(net_request_path(request));
	if (protocol == PROTOCOL_UNKNOWN || !call.method) {
		net_response_header(response, "Accept-Post",
				    "application/json, application/proto, application/grpc-web, application/grpc-web-text");
		respond_code(response, 415, connect_codes[GRPC_UNKNOWN].name,
			     "unknown content type: use application/json, application/proto, application/grpc-web or "
			     "application/grpc");
		return;
	}
	int r = read_message(&call, protocol, &rooms, &message, &err);
	struct buffer *out = direct ? &response->body : &converted;
	if (!r)
		r = call.method->handler(&call, message, out, &err);
	if (!r)
		r = answer(&call, protocol, out, &err);
	r = query_budget_end(call.server, NULL, response->budget, response, r, &err);
	if (r < 0)
		answer_failure(protocol, request, response, call.code ? call.code : grpc_code_of(r), err.message);
}

/* "/package.v1.Service/Method", and called as one: its clients want to hear of it in their form. */
static bool is_procedure(const struct net_request *request)
{
	const char *path = net_request_path(request) + 1, *slash = strchr(path, '/'), *dot = strchr(path, '.');
	return slash && dot && dot < slash && slash[1] && !strchr(slash + 1, '/') && protocol_of(request) != PROTOCOL_UNKNOWN;
}

bool rpc_on_refusal(const struct net_request *request, struct net_response *response)
{
	char text[sizeof(response->message)];
	if (!find_method(net_request_path(request))) {
		/* The page is at all paths for GET, so an unknown one is not allowed to be posted to. */
		if ((response->status != 404 && response->status != 405) || !is_procedure(request))
			return false;
		response->status = 404;
		response->grpc_status = GRPC_UNIMPLEMENTED;
		snprintf(response->message, sizeof(response->message), "unknown procedure %.200s", net_request_path(request));
	}
	if (net_request_is_grpc(request))
		return false;
	int status = response->status;
	snprintf(text, sizeof(text), "%s", response->message);
	enum grpc_code code = status == 413 ? GRPC_RESOURCE_EXHAUSTED : response->grpc_status;
	answer_failure(protocol_of(request), request, response, code ? code : GRPC_UNKNOWN, text);
	if (response->status != 200)
		response->status = status; /* says more than the code's */
	return true;
}

/* ---- routes ---- */

/* A browser asks what it may send; access.c has added who may, or has refused. */
static void rpc_preflight(void *context, const struct net_request *request, struct net_response *response)
{
	response->status = 204;
	net_response_header(response, "Access-Control-Allow-Methods", "GET, POST");
	net_response_header(response, "Access-Control-Allow-Headers",
			    "Authorization, Content-Type, Content-Encoding, Connect-Protocol-Version, Connect-Timeout-Ms, "
			    "Grpc-Timeout, X-Grpc-Web, X-User-Agent, X-Scope-OrgID");
	net_response_header(response, "Access-Control-Max-Age", "7200");
}

size_t rpc_route_count(void)
{
	size_t count = 0;
	for (size_t i = 0; rpc_services[i]; i++)
		for (const struct rpc_method *method = rpc_services[i]; method->path; method++)
			count += method->flags & RPC_READ_ONLY ? 3 : 2;
	return count;
}

void rpc_add_routes(struct net_route *routes)
{
	for (size_t i = 0; rpc_services[i]; i++)
		for (const struct rpc_method *method = rpc_services[i]; method->path; method++) {
			struct net_route route = {.method = "POST",
						  .path = method->path,
						  .permission = method->permission,
						  .handler = rpc_handle,
						  .slow = method->flags & RPC_SLOW};
			*routes++ = route;
			route.method = "GET";
			if (method->flags & RPC_READ_ONLY)
				*routes++ = route;
			*routes++ = (struct net_route)NET_ROUTE("OPTIONS", method->path, method->permission, rpc_preflight);
		}
}
