/* SPDX-License-Identifier: Apache-2.0 */
/* Responses: headers that handlers add, error bodies, compression, and the head of an HTTP/1.1 response. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "codec/compress.h"
#include "codec/json.h"
#include "net/net_int.h"

void net_response_init(struct net_response *response)
{
	*response = (struct net_response){.status = 200, .content_type = "application/json"};
	buffer_init(&response->body, NET_RESPONSE_MAX);
	buffer_init(&response->headers, NET_RESPONSE_HEADERS_MAX);
}

void net_response_release(struct net_response *response)
{
	net_response_unlimit(response);
	buffer_release(&response->body);
	buffer_release(&response->headers);
	if (response->budget)
		budget_release(response->budget);
	response->budget = mem_free(response->budget);
}

int net_response_limit(struct net_response *response, const struct budget *like)
{
	if (!response->budget && !(response->budget = mem_zalloc(sizeof(*response->budget))))
		return -ENOMEM;
	budget_release(response->budget);
	*response->budget = *like;
	budget_enter(response->budget);
	return 0;
}

void net_response_unlimit(struct net_response *response)
{
	if (!response->budget)
		return;
	if (budget_current() == response->budget)
		budget_leave(NULL);
	budget_keep(response->budget, response->body.capacity);
}

/* The two protocols frame messages in their own way; a handler must not contradict them. */
static bool is_framing(const char *name)
{
	static const char *const names[] = {"content-length", "transfer-encoding", "connection", "keep-alive", "upgrade"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcasecmp(name, names[i]))
			return true;
	return false;
}

int net_response_header(struct net_response *response, const char *name, const char *value)
{
	if (!http_is_token(name) || !http_is_field_value(value) || is_framing(name))
		return -EINVAL;
	int r = buffer_printf(&response->headers, "%s: %s\r\n", name, value);
	if (r < 0) /* a shorter one may follow */
		buffer_truncate(&response->headers, response->headers.len);
	return r;
}

bool response_next_header(const struct net_response *response, size_t *at, struct bytes *ret_name, struct bytes *ret_value)
{
	if (*at >= response->headers.len)
		return false;
	const uint8_t *name = response->headers.data + *at;
	const uint8_t *colon = memchr(name, ':', response->headers.len - *at);
	const uint8_t *end = memchr(name, '\r', response->headers.len - *at);
	*ret_name = (struct bytes){name, (size_t)(colon - name)};
	*ret_value = (struct bytes){colon + 2, (size_t)(end - colon - 2)};
	*at += (size_t)(end - name) + 2;
	return true;
}

int response_body_error(struct net_response *response, const char *message)
{
	buffer_clear(&response->body);
	response->content_type = "application/json";
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	json_member_cstring(&json, "error", message);
	json_end_object(&json);
	int r = json_finish(&json, NULL);
	return r < 0 ? r : buffer_append_byte(&response->body, '\n');
}

void response_compress(const struct net_request *request, struct net_response *response)
{
	if (response->no_compress || response->body.len < NET_COMPRESS_MIN)
		return;
	if (net_response_header(response, "Vary", "Accept-Encoding") < 0 ||
	    !request_header_lists(request, "accept-encoding", "gzip"))
		return;
	struct buffer packed = {.max = response->body.len};
	if (gzip_compress(buffer_bytes(&response->body), NET_COMPRESS_LEVEL, &packed, NULL) < 0 ||
	    net_response_header(response, "Content-Encoding", "gzip") < 0) {
		buffer_release(&packed); /* it would grow, or memory is short: send it plain */
		return;
	}
	buffer_release(&response->body);
	response->body = packed;
}

const char *net_status_text(int status)
{
	static const struct {
		int status;
		const char *text;
	} texts[] = {
		{200, "OK"},
		{201, "Created"},
		{202, "Accepted"},
		{204, "No Content"},
		{301, "Moved Permanently"},
		{302, "Found"},
		{303, "See Other"},
		{304, "Not Modified"},
		{307, "Temporary Redirect"},
		{308, "Permanent Redirect"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{406, "Not Acceptable"},
		{408, "Request Timeout"},
		{409, "Conflict"},
		{410, "Gone"},
		{412, "Precondition Failed"},
		{413, "Content Too Large"},
		{415, "Unsupported Media Type"},
		{417, "Expectation Failed"},
		{421, "Misdirected Request"},
		{422, "Unprocessable Content"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{502, "Bad Gateway"},
		{503, "Service Unavailable"},
		{504, "Gateway Timeout"},
		{505, "HTTP Version Not Supported"},
		{507, "Insufficient Storage"},
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].status == status)
			return texts[i].text;
	return status < 400 ? "OK" : "Error";
}

int response_write_head(const struct net_response *response, uint64_t body_len, const char *date, bool keep_alive,
			struct buffer *out)
{
	buffer_printf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", response->status, net_status_text(response->status), date);
	/* Such an answer has no body, and a length would be taken for one (RFC 9110, 8.6). */
	bool bodyless = response->status == 204 || response->status == 304;
	if (!bodyless && response->content_type)
		buffer_printf(out, "Content-Type: %s\r\n", response->content_type);
	if (!bodyless && body_len == UINT64_MAX)
		buffer_append_string(out, "Transfer-Encoding: chunked\r\n");
	else if (!bodyless)
		buffer_printf(out, "Content-Length: %llu\r\n", (unsigned long long)body_len);
	buffer_append(out, response->headers.data, response->headers.len);
	return buffer_append_string(out, keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
}
