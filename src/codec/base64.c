/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/base64.h"

#include <errno.h>

static int base64_digit(uint8_t c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

int base64_decode(struct bytes text, struct buffer *out)
{
	size_t len = text.len;
	while (len > 0 && text.len - len < 2 && text.data[len - 1] == '=')
		len--;
	if (len % 4 == 1 || (len < text.len && text.len % 4 != 0))
		return -EBADMSG;
	int r = buffer_reserve(out, len / 4 * 3 + 2);
	if (r < 0)
		return r;
	uint32_t bits = 0;
	uint8_t *to = out->data + out->len;
	for (size_t i = 0; i < len; i++) {
		int digit = base64_digit(text.data[i]);
		if (digit < 0)
			return -EBADMSG;
		bits = bits << 6 | (uint32_t)digit;
		if (i % 4 > 0)
			*to++ = (uint8_t)(bits >> (6 - 2 * (i % 4)));
	}
	out->len = (size_t)(to - out->data);
	return 0;
}

int base64_encode(struct bytes data, struct buffer *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	int r = buffer_reserve(out, data.len / 3 * 4 + 4);
	if (r < 0)
		return r;
	uint8_t *to = out->data + out->len;
	for (size_t i = 0; i < data.len; i += 3) {
		size_t left = data.len - i;
		uint32_t bits = (uint32_t)data.data[i] << 16 | (left > 1 ? (uint32_t)data.data[i + 1] << 8 : 0) |
				(left > 2 ? data.data[i + 2] : 0u);
		*to++ = (uint8_t)digits[bits >> 18];
		*to++ = (uint8_t)digits[bits >> 12 & 63];
		*to++ = left > 1 ? (uint8_t)digits[bits >> 6 & 63] : '=';
		*to++ = left > 2 ? (uint8_t)digits[bits & 63] : '=';
	}
	out->len = (size_t)(to - out->data);
	return 0;
}
