/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC over HTTP/2 (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md), the parts that are not HTTP/2:
 *
 *   message   0x00 or 0x01 (compressed by grpc-encoding), length (4 bytes, big endian), bytes
 *   status    trailers "grpc-status: N" and "grpc-message: TEXT", TEXT percent-encoded UTF-8. An answer without a message
 *             carries them in its only HEADERS frame ("Trailers-Only").
 *   timeout   "grpc-timeout: 1 to 8 digits and one of H M S m u n"
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "codec/compress.h"
#include "net/net_int.h"

bool grpc_reader_is_between(const struct grpc_reader *reader)
{
	return reader->prefix_len == 0 && reader->left == 0;
}

static int read_prefix(struct grpc_reader *reader, struct bytes *data)
{
	while (reader->prefix_len < GRPC_PREFIX_BYTES && data->len > 0) {
		reader->prefix[reader->prefix_len++] = data->data[0];
		*data = (struct bytes){data->data + 1, data->len - 1};
		if (reader->prefix_len == 1 && reader->prefix[0] > 1)
			return -EBADMSG;
	}
	return 0;
}

static uint32_t prefix_length(const uint8_t *prefix)
{
	return (uint32_t)prefix[1] << 24 | (uint32_t)prefix[2] << 16 | (uint32_t)prefix[3] << 8 | prefix[4];
}

int grpc_read(struct grpc_reader *reader, struct bytes *data, struct buffer *message, struct grpc_head *ret_head)
{
	if (reader->prefix_len < GRPC_PREFIX_BYTES) {
		int r = read_prefix(reader, data);
		if (r < 0)
			return r;
		if (reader->prefix_len < GRPC_PREFIX_BYTES)
			return 0;
		reader->left = prefix_length(reader->prefix);
		if (reader->left > message->max)
			return -E2BIG;
	}
	size_t take = data->len < reader->left ? data->len : reader->left;
	int r = buffer_append(message, data->data, take);
	if (r < 0)
		return r;
	*data = (struct bytes){data->data + take, data->len - take};
	reader->left -= (uint32_t)take;
	if (reader->left > 0)
		return 0;
	*ret_head = (struct grpc_head){reader->prefix[0] == 1, prefix_length(reader->prefix)};
	reader->prefix_len = 0;
	return 1;
}

void grpc_write_prefix(uint8_t out[static GRPC_PREFIX_BYTES], bool compressed, uint32_t len)
{
	out[0] = compressed;
	for (int i = 0; i < 4; i++)
		out[1 + i] = (uint8_t)(len >> (24 - 8 * i));
}

static int append_gzipped(struct buffer *out, struct bytes message)
{
	size_t before = out->len;
	int r = buffer_reserve(out, GRPC_PREFIX_BYTES);
	if (r < 0)
		return r;
	out->len += GRPC_PREFIX_BYTES;
	r = gzip_compress(message, NET_COMPRESS_LEVEL, out, NULL);
	size_t len = out->len - before - GRPC_PREFIX_BYTES;
	if (r < 0 || len >= message.len) {
		buffer_truncate(out, before);
		return r < 0 ? r : -E2BIG;
	}
	grpc_write_prefix(out->data + before, true, (uint32_t)len);
	return 0;
}

int grpc_append_message(struct buffer *out, struct bytes message, enum net_gzip gzip)
{
	if (message.len > UINT32_MAX)
		return -E2BIG;
	if (gzip == NET_GZIP && message.len >= NET_COMPRESS_MIN && append_gzipped(out, message) == 0)
		return 0;
	uint8_t prefix[GRPC_PREFIX_BYTES];
	grpc_write_prefix(prefix, gzip == NET_GZIPPED, (uint32_t)message.len);
	buffer_reserve(out, sizeof(prefix) + message.len);
	buffer_append(out, prefix, sizeof(prefix));
	return buffer_append(out, message.data, message.len);
}

void grpc_encode_status_message(const char *message, char *out, size_t size)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t used = 0;
	for (; *message; message++) {
		uint8_t c = (uint8_t)*message;
		bool plain = c >= ' ' && c <= '~' && c != '%';
		if (used + (plain ? 1 : 3) >= size)
			break;
		if (plain) {
			out[used++] = (char)c;
		} else {
			out[used++] = '%';
			out[used++] = digits[c >> 4];
			out[used++] = digits[c & 15];
		}
	}
	out[used] = '\0';
}

/* Lenient, as the protocol asks: what is not an escape stays as it is. */
void grpc_decode_status_message(struct bytes text, char *out, size_t size)
{
	size_t used = 0;
	for (size_t i = 0; i < text.len && used + 1 < size; i++) {
		uint8_t c = text.data[i];
		int escaped = c == '%' && i + 2 < text.len ? text_hex_byte(text.data + i + 1) : -1;
		if (escaped >= 0) {
			c = (uint8_t)escaped;
			i += 2;
		}
		out[used++] = c ? (char)c : ' ';
	}
	out[used] = '\0';
}

bool grpc_parse_timeout(const char *text, int64_t *ret_ns)
{
	static const char units[] = "HMSmun";
	static const int64_t unit_ns[] = {3600 * NS_PER_S, 60 * NS_PER_S, NS_PER_S, NS_PER_MS, 1000, 1};
	int64_t value = 0;
	size_t digits = 0;
	for (; *text >= '0' && *text <= '9' && digits <= 8; text++, digits++)
		value = value * 10 + (*text - '0');
	const char *unit = *text ? strchr(units, *text) : NULL;
	if (digits == 0 || digits > 8 || !unit || text[1])
		return false;
	int64_t scale = unit_ns[unit - units];
	*ret_ns = value > INT64_MAX / 4 / scale ? INT64_MAX / 4 : value * scale;
	return true;
}

/* "application/grpc", "application/grpc+proto", "application/grpc;..."; not "application/grpc-web". */
bool grpc_is_content_type(const char *content_type)
{
	static const char name[] = "application/grpc";
	size_t len = sizeof(name) - 1;
	if (!content_type || strncasecmp(content_type, name, len))
		return false;
	return content_type[len] == '\0' || content_type[len] == '+' || content_type[len] == ';';
}

enum grpc_code grpc_code_of_http(int status)
{
	switch (status) {
	case 400: return GRPC_INVALID_ARGUMENT;
	case 401: return GRPC_UNAUTHENTICATED;
	case 403: return GRPC_PERMISSION_DENIED;
	case 404:
	case 405:
	case 415:
	case 501: return GRPC_UNIMPLEMENTED;
	case 408:
	case 504: return GRPC_DEADLINE_EXCEEDED;
	case 413:
	case 431: return GRPC_RESOURCE_EXHAUSTED;
	case 429:
	case 502:
	case 503: return GRPC_UNAVAILABLE;
	case 500: return GRPC_INTERNAL;
	default: return GRPC_UNKNOWN;
	}
}
