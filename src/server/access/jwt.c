/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Web Tokens: for people who have logged in elsewhere, at an OpenID provider, be it through a proxy or directly. A request
 * brings `Authorization: Bearer HEADER.CLAIMS.SIGNATURE`; what the issuer signed is believed until it expires.
 *
 * What is checked, in this order, and nothing is believed before the signature is:
 *
 *   form       three parts of base64url, the first two JSON objects without repeated members, 16 KiB in all
 *   alg        RS256 or ES256, nothing else: neither "none" nor HS*, with which whoever knows the public key could sign
 *   crit       not there: it names extensions that must be understood (RFC 7515, 4.1.11)
 *   key        of the set, by `kid`; without `kid` the only key of that kind. A key is for the algorithm that its kind allows,
 *              so a token cannot choose another (RFC 8725, 3.1)
 *   signature  over the text as it came
 *   iss, aud   the issuer exactly; one of our audiences. A token for another program of the same issuer is not for us
 *   exp, nbf   exp must be there; a minute of difference between clocks
 *
 * The roles are in a claim, whose values the file maps to roles: a value that it does not list gives nothing. A claim is found
 * by its name, or by the path that the name is, "realm_access.roles". Tenants are in a claim likewise, by their names.
 *
 * There is no list of tokens that were taken back: issuers make them for minutes, and a key can be taken out of the set.
 */
#include "server/access/jwt.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "server/server.h"

#define KEY_PART_MAX	1024 /* of a modulus of 8,192 bits */
#define RSA_BYTES_MIN	256  /* 2,048 bits (RFC 7518, 3.3) */
#define ES256_SIGNATURE 64
#define COORDINATE	32
#define KID_MAX		256
#define PATH_DEPTH	8

enum jwt_algorithm { JWT_RS256 = 1, JWT_ES256 };
struct jwks_key {
	char kid[KID_MAX + 1]; /* "" = none */
	enum jwt_algorithm algorithm;
	EVP_PKEY *key;
};
struct jwks {
	atomic_uint users;
	struct jwks_key keys[JWKS_KEYS_MAX];
	size_t count;
};

/* ---- keys ---- */

static bool read_part(const json_t *jwk, const char *name, uint8_t *out, size_t max, size_t *ret_len)
{
	_cleanup_(buffer_release) struct buffer part = {.max = max};
	const char *text = json_string_value(json_object_get(jwk, name));
	if (!text || base64_decode(bytes_of_string(text), &part) < 0 || !part.len)
		return false;
	memcpy(out, part.data, part.len);
	*ret_len = part.len;
	return true;
}

static EVP_PKEY *make_key(const char *kind, OSSL_PARAM_BLD *build)
{
	EVP_PKEY *key = NULL;
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, kind, NULL);
	OSSL_PARAM *parameters = OSSL_PARAM_BLD_to_param(build);
	if (context && parameters && EVP_PKEY_fromdata_init(context) == 1 &&
	    EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters) != 1)
		key = NULL;
	EVP_PKEY_CTX_free(context);
	OSSL_PARAM_free(parameters);
	return key;
}

static EVP_PKEY *make_rsa(const json_t *jwk)
{
	uint8_t n[KEY_PART_MAX], e[KEY_PART_MAX];
	size_t n_len, e_len;
	EVP_PKEY *key = NULL;
	if (!read_part(jwk, "n", n, sizeof(n), &n_len) || !read_part(jwk, "e", e, 8, &e_len) || n_len < RSA_BYTES_MIN)
		return NULL;
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	BIGNUM *modulus = BN_bin2bn(n, (int)n_len, NULL), *exponent = BN_bin2bn(e, (int)e_len, NULL);
	if (build && modulus && exponent && BN_num_bits(modulus) >= 8 * RSA_BYTES_MIN && BN_is_odd(exponent) &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, exponent) == 1)
		key = make_key("RSA", build);
	BN_free(modulus);
	BN_free(exponent);
	OSSL_PARAM_BLD_free(build);
	return key;
}

static EVP_PKEY *make_ec(const json_t *jwk)
{
	uint8_t point[1 + 2 * COORDINATE] = {4}; /* not compressed */
	size_t x_len, y_len;
	const char *curve = json_string_value(json_object_get(jwk, "crv"));
	EVP_PKEY *key = NULL;
	if (!curve || strcmp(curve, "P-256") != 0 || !read_part(jwk, "x", point + 1, COORDINATE, &x_len) ||
	    !read_part(jwk, "y", point + 1 + COORDINATE, COORDINATE, &y_len) || x_len != COORDINATE || y_len != COORDINATE)
		return NULL;
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	if (build && OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) == 1 &&
	    OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point)) == 1)
		key = make_key("EC", build);
	OSSL_PARAM_BLD_free(build);
	return key;
}

static bool is_text(const json_t *object, const char *name, const char *wanted)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text && strcmp(text, wanted) == 0;
}

/* False: not one that is used here. */
static bool read_key(const json_t *jwk, struct jwks_key *ret)
{
	const char *kid = json_string_value(json_object_get(jwk, "kid"));
	if ((json_object_get(jwk, "use") && !is_text(jwk, "use", "sig")) || (kid && strlen(kid) > KID_MAX))
		return false;
	ret->algorithm = is_text(jwk, "kty", "RSA") ? JWT_RS256 : JWT_ES256;
	if (json_object_get(jwk, "alg") && !is_text(jwk, "alg", ret->algorithm == JWT_RS256 ? "RS256" : "ES256"))
		return false;
	snprintf(ret->kid, sizeof(ret->kid), "%s", kid ? kid : "");
	if (is_text(jwk, "kty", "RSA"))
		ret->key = make_rsa(jwk);
	else if (is_text(jwk, "kty", "EC"))
		ret->key = make_ec(jwk);
	ERR_clear_error();
	return ret->key;
}

int jwks_read(struct bytes json, struct jwks **ret, struct error *err)
{
	if (json.len > JWKS_BYTES_MAX)
		return error_set(err, -EINVAL, "the key set is larger than 512 KiB");
	_cleanup_(json_decrefp) json_t *root = json_loadb((const char *)json.data, json.len, JSON_REJECT_DUPLICATES, NULL);
	json_t *jwk, *all = json_object_get(root, "keys");
	size_t i;
	if (!json_is_array(all))
		return error_set(err, -EINVAL, "not a key set: a JSON object with a list 'keys'");
	_cleanup_(jwks_freep) struct jwks *keys = mem_zalloc(sizeof(*keys));
	if (!keys)
		return error_nomem(err);
	atomic_init(&keys->users, 1);
	json_array_foreach(all, i, jwk)
	{
		if (keys->count == JWKS_KEYS_MAX)
			return error_set(err, -EINVAL, "the key set has more than 100 keys");
		struct jwks_key *key = &keys->keys[keys->count];
		*key = (struct jwks_key){0};
		keys->count += read_key(jwk, key);
	}
	if (!keys->count)
		return error_set(err, -EINVAL, "the key set has no key for RS256 or ES256");
	*ret = TAKE(keys);
	return 0;
}

size_t jwks_count(const struct jwks *keys)
{
	return keys ? keys->count : 0;
}

struct jwks *jwks_share(struct jwks *keys)
{
	if (keys)
		atomic_fetch_add(&keys->users, 1);
	return keys;
}

struct jwks *jwks_free(struct jwks *keys)
{
	if (!keys || atomic_fetch_sub(&keys->users, 1) > 1)
		return NULL;
	for (size_t i = 0; i < keys->count; i++)
		EVP_PKEY_free(keys->keys[i].key);
	return mem_free(keys);
}

static const struct jwks_key *find_key(const struct jwks *keys, const char *kid, enum jwt_algorithm algorithm)
{
	const struct jwks_key *found = NULL;
	for (size_t i = 0; keys && i < keys->count; i++) {
		const struct jwks_key *key = &keys->keys[i];
		if (key->algorithm != algorithm || (kid && strcmp(key->kid, kid) != 0))
			continue;
		if (found)
			return NULL; /* which one is not said */
		found = key;
	}
	return found;
}

/* ---- the signature ---- */

/* r and s as they are, to what OpenSSL takes. */
static bool to_der(struct bytes raw, struct buffer *out)
{
	ECDSA_SIG *signature = ECDSA_SIG_new();
	BIGNUM *r = BN_bin2bn(raw.data, COORDINATE, NULL), *s = BN_bin2bn(raw.data + COORDINATE, COORDINATE, NULL);
	unsigned char *der = NULL;
	if (!signature || !r || !s || ECDSA_SIG_set0(signature, r, s) != 1) {
		BN_free(r);
		BN_free(s);
		ECDSA_SIG_free(signature);
		return false;
	}
	int len = i2d_ECDSA_SIG(signature, &der);
	bool done = len > 0 && buffer_append(out, der, (size_t)len) == 0;
	OPENSSL_free(der);
	ECDSA_SIG_free(signature);
	return done;
}

static bool is_signed(const struct jwks_key *key, struct bytes text, struct bytes signature)
{
	_cleanup_(buffer_release) struct buffer der = {.max = 2 * ES256_SIGNATURE};
	if (key->algorithm == JWT_ES256) {
		if (signature.len != ES256_SIGNATURE || !to_der(signature, &der))
			return false;
		signature = buffer_bytes(&der);
	}
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool valid = context && EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, key->key) == 1 &&
		     EVP_DigestVerify(context, signature.data, signature.len, text.data, text.len) == 1;
	EVP_MD_CTX_free(context);
	ERR_clear_error();
	return valid;
}

/* ---- claims ---- */

/* A member, or what is at the path "a.b" that is its name. */
static const json_t *find_claim(const json_t *claims, const char *name)
{
	const json_t *at = json_object_get(claims, name);
	char part[128];
	if (at)
		return at;
	at = claims;
	for (unsigned depth = 0; depth < PATH_DEPTH && at; depth++) {
		size_t len = strcspn(name, ".");
		if (len >= sizeof(part))
			return NULL;
		memcpy(part, name, len);
		part[len] = '\0';
		at = json_object_get(at, part);
		if (!name[len])
			return at;
		name += len + 1;
	}
	return NULL;
}

/* The n-th text of a claim that is a text or a list of texts. */
static const char *text_at(const json_t *claim, size_t n)
{
	return json_is_array(claim) ? json_string_value(json_array_get(claim, n)) : n == 0 ? json_string_value(claim) : NULL;
}

static size_t text_count(const json_t *claim)
{
	return json_is_array(claim) ? json_array_size(claim) : json_is_string(claim);
}

static int check_claims(const json_t *claims, const struct oidc_settings *oidc, int64_t now_s, struct error *err)
{
	const json_t *audience = json_object_get(claims, "aud"), *expires = json_object_get(claims, "exp"),
		     *begins = json_object_get(claims, "nbf");
	bool is_for_us = false;
	for (size_t i = 0; i < text_count(audience); i++)
		for (size_t j = 0; j < oidc->audience_count; j++)
			is_for_us |= text_at(audience, i) && strcmp(text_at(audience, i), oidc->audiences[j]) == 0;
	if (!is_text(claims, "iss", oidc->issuer))
		return error_set(err, -EACCES, "the token is of another issuer");
	if (!is_for_us)
		return error_set(err, -EACCES, "the token is for another audience");
	/* In doubles, as there may be fractions; within the first 2^53 s they are exact. */
	if (!json_is_number(expires) || json_number_value(expires) + JWT_SKEW_S <= (double)now_s)
		return error_set(err, -EKEYEXPIRED, "the token has expired");
	if (begins && (!json_is_number(begins) || json_number_value(begins) - JWT_SKEW_S > (double)now_s))
		return error_set(err, -EACCES, "the token is not valid yet");
	return 0;
}

static void read_roles(const json_t *claim, const struct oidc_settings *oidc, struct jwt_caller *caller)
{
	for (size_t i = 0; i < text_count(claim); i++)
		for (size_t j = 0; j < oidc->role_count; j++)
			if (text_at(claim, i) && strcmp(text_at(claim, i), oidc->roles[j].value) == 0)
				caller->roles |= oidc->roles[j].role;
}

static void read_tenants(const json_t *claim, struct jwt_caller *caller)
{
	for (size_t i = 0; i < text_count(claim) && caller->tenant_count < TOKEN_TENANTS_MAX; i++) {
		const char *name = text_at(claim, i);
		if (name && strcmp(name, TOKEN_ALL_TENANTS) == 0)
			caller->all_tenants = true;
		else if (name && tenant_name_check(name, NULL) == 0)
			snprintf(caller->tenants[caller->tenant_count++], CALLER_TENANT_MAX + 1, "%s", name);
	}
}

static int read_caller(const json_t *claims, const struct oidc_settings *oidc, struct jwt_caller *ret, struct error *err)
{
	const char *name = json_string_value(find_claim(claims, oidc->name_claim));
	const json_t *tenants = oidc->tenant_claim ? find_claim(claims, oidc->tenant_claim) : NULL;
	if (!name || !*name)
		return error_set(err, -EACCES, "the token does not say whose it is (claim %.60s)", oidc->name_claim);
	*ret = (struct jwt_caller){0};
	snprintf(ret->name, sizeof(ret->name), "%.*s", (int)text_cut(bytes_of_string(name), CALLER_NAME_MAX), name);
	read_roles(find_claim(claims, oidc->role_claim), oidc, ret);
	read_tenants(tenants, ret);
	/* It names tenants, but none that can be: that is not the same as to name none. */
	if (tenants && !ret->tenant_count && !ret->all_tenants)
		return error_set(err, -EACCES, "the token names no tenant (claim %.60s)", oidc->tenant_claim);
	return 0;
}

/* ---- the whole ---- */

struct parts {
	struct bytes header, claims, signature, text; /* text: what is signed */
};

static bool split(const char *token, struct parts *ret)
{
	size_t len = strlen(token);
	const char *dot = strchr(token, '.'), *second = dot ? strchr(dot + 1, '.') : NULL;
	if (!second || strchr(second + 1, '.') || len > JWT_BYTES_MAX)
		return false;
	ret->header = (struct bytes){(const uint8_t *)token, (size_t)(dot - token)};
	ret->claims = (struct bytes){(const uint8_t *)dot + 1, (size_t)(second - dot - 1)};
	ret->signature = bytes_of_string(second + 1);
	ret->text = (struct bytes){(const uint8_t *)token, (size_t)(second - token)};
	return ret->header.len && ret->claims.len && ret->signature.len;
}

bool jwt_looks_like(const char *token)
{
	struct parts parts;
	return text_starts_with(token, "ey") && split(token, &parts); /* "ey": base64 of `{"` */
}

static json_t *decode_object(struct bytes text)
{
	_cleanup_(buffer_release) struct buffer json = {.max = JWT_BYTES_MAX};
	if (base64_decode(text, &json) < 0)
		return NULL;
	json_t *value = json_loadb((const char *)json.data, json.len, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(value))
		return value;
	json_decref(value);
	return NULL;
}

static int check_signature(const json_t *header, const struct parts *parts, const struct jwks *keys, struct error *err)
{
	_cleanup_(buffer_release) struct buffer signature = {.max = KEY_PART_MAX};
	enum jwt_algorithm algorithm = is_text(header, "alg", "RS256") ? JWT_RS256 : JWT_ES256;
	if (algorithm == JWT_ES256 && !is_text(header, "alg", "ES256"))
		return error_set(err, -EACCES, "the token must be signed by RS256 or ES256");
	if (json_object_get(header, "crit"))
		return error_set(err, -EACCES, "the token needs extensions that are not known here");
	const json_t *kid = json_object_get(header, "kid");
	if (kid && !json_is_string(kid))
		return error_set(err, -EACCES, "the token is malformed");
	const struct jwks_key *key = find_key(keys, json_string_value(kid), algorithm);
	if (!key)
		return error_set(err, -ENOKEY, "the token is signed by an unknown key");
	if (base64_decode(parts->signature, &signature) < 0 || !is_signed(key, parts->text, buffer_bytes(&signature)))
		return error_set(err, -EACCES, "the token's signature is wrong");
	return 0;
}

int jwt_check(const char *token, const struct oidc_settings *oidc, const struct jwks *keys, int64_t now_ns,
	      struct jwt_caller *ret, struct error *err)
{
	struct parts parts;
	if (!split(token, &parts))
		return error_set(err, -EACCES, "the token is malformed");
	_cleanup_(json_decrefp) json_t *header = decode_object(parts.header);
	if (!header)
		return error_set(err, -EACCES, "the token is malformed");
	int r = check_signature(header, &parts, keys, err);
	if (r < 0)
		return r;
	_cleanup_(json_decrefp) json_t *claims = decode_object(parts.claims);
	if (!claims)
		return error_set(err, -EACCES, "the token is malformed");
	r = check_claims(claims, oidc, now_ns / NS_PER_S, err);
	return r < 0 ? r : read_caller(claims, oidc, ret, err);
}
