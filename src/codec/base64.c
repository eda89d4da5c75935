/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/base64.h"

#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>

/* Not OpenSSL's: it takes one alphabet only, wants padding, gives bytes for it, and skips spaces and what follows a '-'. */
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
	if (data.len > INT_MAX / 4 * 3)
		return buffer_fail(out, -E2BIG);
	int r = buffer_reserve(out, (data.len + 2) / 3 * 4 + 1); /* and a NUL */
	if (r == 0 && data.len > 0)
		out->len += (size_t)EVP_EncodeBlock(out->data + out->len, data.data, (int)data.len);
	return r;
}
