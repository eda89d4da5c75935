/* SPDX-License-Identifier: Apache-2.0 */
#include "server/scrape/aws_sign.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/text.h"

#define ALGORITHM  "AWS4-HMAC-SHA256"
#define HASH_BYTES 32
#define DAY_LENGTH 8
#define TEXT_MAX   (256 * KIB)

void aws_format_date(time_t at, char out[static AWS_DATE_MAX])
{
	struct tm parts;
	gmtime_r(&at, &parts);
	if (strftime(out, AWS_DATE_MAX, "%Y%m%dT%H%M%SZ", &parts) == 0)
		out[0] = '\0';
}

static int append_sha256(struct buffer *out, struct bytes data)
{
	uint8_t hash[HASH_BYTES];
	unsigned len = 0;
	if (EVP_Digest(data.data, data.len, hash, &len, EVP_sha256(), NULL) != 1 || len != HASH_BYTES)
		return buffer_fail(out, -ENOMEM);
	return text_append_hex(out, (struct bytes){hash, HASH_BYTES});
}

/* Without blanks around it, and one for each row of them within. */
static void append_value(struct buffer *out, const char *value)
{
	while (*value == ' ')
		value++;
	for (; *value; value++)
		if (*value != ' ' || (value[1] != ' ' && value[1]))
			buffer_append_byte(out, (uint8_t)*value);
}

static void append_names(struct buffer *out, const struct aws_request *request)
{
	for (size_t i = 0; i < request->header_count; i++)
		buffer_printf(out, "%s%s", i ? ";" : "", request->headers[i].name);
}

static void append_canonical(struct buffer *out, const struct aws_request *request)
{
	buffer_printf(out, "%s\n%s\n%s\n", request->method, request->path, request->query);
	for (size_t i = 0; i < request->header_count; i++) {
		buffer_printf(out, "%s:", request->headers[i].name);
		append_value(out, request->headers[i].value);
		buffer_append_byte(out, '\n');
	}
	buffer_append_byte(out, '\n');
	append_names(out, request);
	buffer_append_byte(out, '\n');
	append_sha256(out, request->body);
}

static bool hmac(const void *key, size_t key_len, struct bytes data, uint8_t out[static HASH_BYTES])
{
	unsigned len = 0;
	return HMAC(EVP_sha256(), key, (int)key_len, data.data, data.len, out, &len) && len == HASH_BYTES;
}

static int sign_text(const struct aws_keys *keys, const struct aws_request *request, struct bytes text,
		     uint8_t out[static HASH_BYTES])
{
	_cleanup_(buffer_release) struct buffer secret = {.max = TEXT_MAX};
	const struct bytes parts[] = {{(const uint8_t *)request->date, DAY_LENGTH},
				      bytes_of_string(request->region),
				      bytes_of_string(request->service),
				      bytes_of_string("aws4_request")};
	uint8_t key[HASH_BYTES];
	if (buffer_printf(&secret, "AWS4%s", keys->secret_key) < 0)
		return -ENOMEM;
	bool done = hmac(secret.data, secret.len, parts[0], key);
	for (size_t i = 1; i < sizeof(parts) / sizeof(*parts) && done; i++)
		done = hmac(key, HASH_BYTES, parts[i], key);
	done = done && hmac(key, HASH_BYTES, text, out);
	OPENSSL_cleanse(key, sizeof(key));
	OPENSSL_cleanse(secret.data, secret.len);
	return done ? 0 : -ENOMEM;
}

int aws_sign(const struct aws_keys *keys, const struct aws_request *request, struct buffer *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer canonical = {.max = TEXT_MAX}, text = {.max = TEXT_MAX};
	uint8_t signature[HASH_BYTES];
	char scope[256];
	if (strlen(request->date) != AWS_DATE_MAX - 1 ||
	    snprintf(scope, sizeof(scope), "%.8s/%s/%s/aws4_request", request->date, request->region, request->service) >=
		    (int)sizeof(scope))
		return error_set(err, -EINVAL, "cannot sign the request: bad date or region");
	append_canonical(&canonical, request);
	buffer_printf(&text, ALGORITHM "\n%s\n%s\n", request->date, scope);
	append_sha256(&text, buffer_bytes(&canonical));
	int r = buffer_status(&canonical) < 0 ? buffer_status(&canonical) : buffer_status(&text);
	if (r == 0)
		r = sign_text(keys, request, buffer_bytes(&text), signature);
	buffer_printf(ret, ALGORITHM " Credential=%s/%s, SignedHeaders=", keys->access_key, scope);
	append_names(ret, request);
	buffer_append_string(ret, ", Signature=");
	if (r == 0)
		r = text_append_hex(ret, (struct bytes){signature, HASH_BYTES});
	return r < 0 ? error_set_errno(err, r, "cannot sign the request") : 0;
}
