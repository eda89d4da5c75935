/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Web Tokens: the first line is a token, the rest a set of keys; and, since no such token gets beyond its signature, the
 * whole once more as the claims of a token that is signed here.
 */
#include <errno.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "codec/base64.h"
#include "server/access/jwt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static EVP_PKEY *own_key;
static struct jwks *own_keys;

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void append_coordinate(struct buffer *out, const char *name)
{
	BIGNUM *number = NULL;
	uint8_t bytes[32];
	must(EVP_PKEY_get_bn_param(own_key, name, &number) == 1 && BN_bn2binpad(number, bytes, sizeof(bytes)) == sizeof(bytes));
	BN_free(number);
	base64_encode((struct bytes){bytes, sizeof(bytes)}, out);
}

static void make_key(void)
{
	_cleanup_(buffer_release) struct buffer text = {.max = 4096};
	own_key = EVP_EC_gen("P-256");
	must(own_key);
	buffer_append_string(&text, "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"");
	append_coordinate(&text, OSSL_PKEY_PARAM_EC_PUB_X);
	buffer_append_string(&text, "\",\"y\":\"");
	append_coordinate(&text, OSSL_PKEY_PARAM_EC_PUB_Y);
	buffer_append_string(&text, "\"}]}");
	must(jwks_read(buffer_bytes(&text), &own_keys, NULL) == 0);
}

static void sign(struct buffer *token)
{
	uint8_t der[256], raw[64];
	size_t len = sizeof(der);
	const uint8_t *at = der;
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	must(EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, own_key) == 1 &&
	     EVP_DigestSign(context, der, &len, token->data, token->len) == 1);
	EVP_MD_CTX_free(context);
	ECDSA_SIG *signature = d2i_ECDSA_SIG(NULL, &at, (long)len);
	BN_bn2binpad(ECDSA_SIG_get0_r(signature), raw, 32);
	BN_bn2binpad(ECDSA_SIG_get0_s(signature), raw + 32, 32);
	ECDSA_SIG_free(signature);
	buffer_append_byte(token, '.');
	base64_encode((struct bytes){raw, sizeof(raw)}, token);
}

static struct oidc_role roles[] = {{"a", ROLE_READ}, {"b", ROLE_ADMIN}};
static const char *audiences[] = {"wick"};
static const struct oidc_settings settings = {.issuer = "i",
					      .audiences = audiences,
					      .audience_count = 1,
					      .name_claim = "sub",
					      .role_claim = "r.s",
					      .tenant_claim = "t",
					      .roles = roles,
					      .role_count = 2};

static void check(const char *token, const struct jwks *keys)
{
	static struct jwt_caller caller;
	struct error err = {0};
	int r = jwt_check(token, &settings, keys, 1000 * NS_PER_S, &caller, &err);
	must(r == 0 || ((r == -EACCES || r == -ENOKEY || r == -EKEYEXPIRED) && err.message[0]));
	if (r < 0)
		return;
	must(keys == own_keys && caller.name[0] && !(caller.roles & ~(unsigned)(ROLE_READ | ROLE_ADMIN)));
	must(caller.tenant_count <= TOKEN_TENANTS_MAX);
	for (size_t i = 0; i < caller.tenant_count; i++)
		must(caller.tenants[i][0] && !strchr(caller.tenants[i], '/'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(buffer_release) struct buffer token = {.max = 1024 * 1024}, signed_one = {.max = 1024 * 1024};
	_cleanup_(jwks_freep) struct jwks *keys = NULL;
	struct bytes rest = {data, size}, line = bytes_take_line(&rest);
	if (!own_key)
		make_key();
	int r = jwks_read(rest, &keys, NULL);
	must((r == 0) == (keys != NULL));
	if (size > JWT_BYTES_MAX || buffer_append(&token, line.data, line.len) < 0)
		return 0;
	/* There may be a key of the input's own for which it has a signature: that is not for us to find. */
	if (buffer_string(&token) && !keys)
		check(buffer_string(&token), NULL);
	else if (buffer_string(&token))
		(void)jwt_check(buffer_string(&token), &settings, keys, 1000 * NS_PER_S, &(struct jwt_caller){0}, NULL);
	buffer_append_string(&signed_one, "eyJhbGciOiJFUzI1NiJ9.");
	base64_encode((struct bytes){data, size}, &signed_one);
	while (signed_one.len && signed_one.data[signed_one.len - 1] == '=')
		signed_one.len--;
	sign(&signed_one);
	check(buffer_string(&signed_one), own_keys);
	return 0;
}
