/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The framing of HTTP/1.1 request bodies (RFC 9112, 6 and 7), read strictly.
 *
 *   chunk     = 1*HEXDIG [ ";" extension ] CRLF bytes CRLF        size 0 ends the body
 *   trailers  = *( field-line CRLF ) CRLF                         read and thrown away
 *
 * Why not llhttp's, which reads the head: two programs that disagree on where a body ends is how requests are smuggled past a
 * proxy, so where a body ends is decided here, in a hundred lines that can be read, without leniency and with a limit on what
 * is no data: hex digits only, CRLF only, no control characters in extensions and trailers.
 */
#include <errno.h>

#include "base/text.h"
#include "net/net_int.h"

#define SIZE_DIGITS_MAX 15u /* 2^60: no overflow, and far beyond body_max */
#define OVERHEAD_MAX	(16 * KIB)

enum state {
	SIZE,
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER_START,
	TRAILER,
	TRAILER_LF,
	END_LF,
	DONE,
};

void http1_body_init(struct http1_body *body, bool chunked, uint64_t length)
{
	*body = (struct http1_body){.left = chunked ? 0 : length};
	if (chunked)
		body->framing = HTTP1_BODY_CHUNKED;
	else
		body->framing = length ? HTTP1_BODY_LENGTH : HTTP1_BODY_NONE;
}

static int size_step(struct http1_body *body, uint8_t c)
{
	int digit = text_hex_digit(c);
	if (digit >= 0) {
		if (++body->digits > SIZE_DIGITS_MAX)
			return -EBADMSG;
		body->left = body->left << 4 | (unsigned)digit;
		return 0;
	}
	if (body->digits == 0)
		return -EBADMSG;
	if (c == '\r')
		body->state = SIZE_LF;
	else if (c == ';' || c == ' ' || c == '\t')
		body->state = EXTENSION;
	else
		return -EBADMSG;
	return 0;
}

static bool is_text(uint8_t c)
{
	return (c >= ' ' && c != 0x7f) || c == '\t';
}

static int expect(struct http1_body *body, uint8_t c, uint8_t expected, enum state next)
{
	if (c != expected)
		return -EBADMSG;
	body->state = next;
	return 0;
}

/* A line of text that ends in CR. */
static int text_step(struct http1_body *body, uint8_t c, enum state stay, enum state next)
{
	body->state = c == '\r' ? next : stay;
	return c == '\r' || is_text(c) ? 0 : -EBADMSG;
}

/* One byte outside of chunk data. */
static int step(struct http1_body *body, uint8_t c)
{
	switch ((enum state)body->state) {
	case SIZE: return size_step(body, c);
	case EXTENSION: return text_step(body, c, EXTENSION, SIZE_LF);
	case SIZE_LF: return expect(body, c, '\n', body->left ? DATA : TRAILER_START);
	case DATA_CR: return expect(body, c, '\r', DATA_LF);
	case DATA_LF: body->digits = 0; return expect(body, c, '\n', SIZE);
	case TRAILER_START: return c == ' ' || c == '\t' ? -EBADMSG : text_step(body, c, TRAILER, END_LF);
	case TRAILER: return text_step(body, c, TRAILER, TRAILER_LF);
	case TRAILER_LF: return expect(body, c, '\n', TRAILER_START);
	case END_LF: return expect(body, c, '\n', DONE);
	default: return -EBADMSG;
	}
}

static struct bytes take(struct bytes *data, uint64_t max)
{
	struct bytes piece = {data->data, data->len < max ? data->len : (size_t)max};
	*data = (struct bytes){data->data + piece.len, data->len - piece.len};
	return piece;
}

static int read_chunked(struct http1_body *body, struct bytes *data, struct bytes *ret_piece)
{
	while (data->len > 0) {
		if (body->state == DATA) {
			*ret_piece = take(data, body->left);
			body->left -= ret_piece->len;
			if (body->left == 0)
				body->state = DATA_CR;
			body->overhead = 0;
			return 1;
		}
		int r = step(body, take(data, 1).data[0]);
		if (r == 0 && ++body->overhead > OVERHEAD_MAX)
			r = -EBADMSG;
		if (r < 0 || body->state == DONE)
			return r < 0 ? r : 2;
	}
	return 0;
}

int http1_body_read(struct http1_body *body, struct bytes *data, struct bytes *ret_piece)
{
	if (body->framing == HTTP1_BODY_CHUNKED)
		return read_chunked(body, data, ret_piece);
	if (body->left == 0)
		return 2;
	if (data->len == 0)
		return 0;
	*ret_piece = take(data, body->left);
	body->left -= ret_piece->len;
	return 1;
}
