/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Web Tokens, signed here by OpenSSL with keys of their own, and those of RFC 7515: what is valid, and what must not be.
 */
#include "server/access/jwt.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "codec/base64.h"

#define NOW_S	 1800000000
#define TEXT_MAX 40000

struct signer {
	EVP_PKEY *rsa, *other_rsa, *small_rsa, *ec;
	struct jwks *keys;
};
static struct signer signer;

/* Appends in base64url without padding. */
static void encode(char *out, const void *data, size_t len)
{
	_cleanup_(buffer_release) struct buffer text = {.max = TEXT_MAX};
	assert_int_equal(base64_encode((struct bytes){data, len}, &text), 0);
	size_t at = strlen(out);
	for (const char *c = buffer_string(&text); *c && *c != '='; c++) {
		assert_true(at + 1 < TEXT_MAX);
		out[at++] = *c == '+' ? '-' : *c == '/' ? '_' : *c;
	}
	out[at] = '\0';
}

static void encode_number(char *out, EVP_PKEY *key, const char *name)
{
	BIGNUM *number = NULL;
	uint8_t bytes[1024];
	assert_int_equal(EVP_PKEY_get_bn_param(key, name, &number), 1);
	int len = BN_bn2bin(number, bytes);
	encode(out, bytes, (size_t)len);
	BN_free(number);
}

static void encode_coordinate(char *out, EVP_PKEY *key, const char *name)
{
	BIGNUM *number = NULL;
	uint8_t bytes[32];
	assert_int_equal(EVP_PKEY_get_bn_param(key, name, &number), 1);
	assert_int_equal(BN_bn2binpad(number, bytes, sizeof(bytes)), sizeof(bytes));
	encode(out, bytes, sizeof(bytes));
	BN_free(number);
}

static void describe_rsa(char *out, EVP_PKEY *key, const char *rest)
{
	snprintf(out + strlen(out), 4000, "{\"kty\":\"RSA\",%s,\"n\":\"", rest);
	encode_number(out, key, OSSL_PKEY_PARAM_RSA_N);
	snprintf(out + strlen(out), 100, "\",\"e\":\"");
	encode_number(out, key, OSSL_PKEY_PARAM_RSA_E);
	snprintf(out + strlen(out), 100, "\"}");
}

static void describe_ec(char *out, EVP_PKEY *key, const char *rest)
{
	snprintf(out + strlen(out), 100, "{\"kty\":\"EC\",\"crv\":\"P-256\",%s,\"x\":\"", rest);
	encode_coordinate(out, key, OSSL_PKEY_PARAM_EC_PUB_X);
	snprintf(out + strlen(out), 100, "\",\"y\":\"");
	encode_coordinate(out, key, OSSL_PKEY_PARAM_EC_PUB_Y);
	snprintf(out + strlen(out), 100, "\"}");
}

static int set_up(void **state)
{
	static char text[TEXT_MAX];
	struct error err = {0};
	signer.rsa = EVP_RSA_gen(2048);
	signer.other_rsa = EVP_RSA_gen(2048);
	signer.small_rsa = EVP_RSA_gen(1024);
	signer.ec = EVP_EC_gen("P-256");
	snprintf(text, sizeof(text), "{\"keys\":[{\"kty\":\"oct\",\"k\":\"c2VjcmV0\",\"kid\":\"hs\"},");
	describe_rsa(text, signer.rsa, "\"kid\":\"r1\",\"use\":\"sig\",\"alg\":\"RS256\"");
	snprintf(text + strlen(text), 10, ",");
	describe_rsa(text, signer.other_rsa, "\"kid\":\"enc\",\"use\":\"enc\"");
	snprintf(text + strlen(text), 10, ",");
	describe_rsa(text, signer.small_rsa, "\"kid\":\"small\"");
	snprintf(text + strlen(text), 10, ",");
	describe_ec(text, signer.ec, "\"kid\":\"e1\"");
	snprintf(text + strlen(text), 10, "]}");
	if (jwks_read(bytes_of_string(text), &signer.keys, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(jwks_count(signer.keys), 2); /* those that are for signatures, and long enough */
	return 0;
}

static int tear_down(void **state)
{
	EVP_PKEY_free(signer.rsa);
	EVP_PKEY_free(signer.other_rsa);
	EVP_PKEY_free(signer.small_rsa);
	EVP_PKEY_free(signer.ec);
	jwks_free(signer.keys);
	return 0;
}

/* ---- making tokens ---- */

static void begin(char *out, const char *header, const char *claims)
{
	out[0] = '\0';
	encode(out, header, strlen(header));
	snprintf(out + strlen(out), 2, ".");
	encode(out, claims, strlen(claims));
}

static void sign(char *out, EVP_PKEY *key)
{
	uint8_t signature[1024], raw[64];
	size_t len = sizeof(signature);
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	assert_int_equal(EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key), 1);
	assert_int_equal(EVP_DigestSign(context, signature, &len, (const uint8_t *)out, strlen(out)), 1);
	EVP_MD_CTX_free(context);
	snprintf(out + strlen(out), 2, ".");
	if (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC) {
		encode(out, signature, len);
		return;
	}
	const uint8_t *at = signature;
	ECDSA_SIG *parts = d2i_ECDSA_SIG(NULL, &at, (long)len);
	BN_bn2binpad(ECDSA_SIG_get0_r(parts), raw, 32);
	BN_bn2binpad(ECDSA_SIG_get0_s(parts), raw + 32, 32);
	ECDSA_SIG_free(parts);
	encode(out, raw, sizeof(raw));
}

static struct oidc_role roles[] = {{"viewers", ROLE_READ}, {"ops", ROLE_RECORD}, {"ops", ROLE_WRITE}};
static const char *audiences[] = {"wick", "wick-2"};
static struct oidc_settings settings = {.issuer = "https://login.example",
					.audiences = audiences,
					.audience_count = 2,
					.name_claim = "sub",
					.role_claim = "realm.roles",
					.tenant_claim = "teams",
					.roles = roles,
					.role_count = 3};

#define RS256  "{\"alg\":\"RS256\",\"kid\":\"r1\"}"
#define ES256  "{\"typ\":\"JWT\",\"alg\":\"ES256\",\"kid\":\"e1\"}"
#define CLAIMS "\"iss\":\"https://login.example\",\"aud\":\"wick\",\"exp\":1800000100,\"sub\":\"ada\""
#define GOOD   "{" CLAIMS ",\"realm\":{\"roles\":[\"other\",\"ops\",7]},\"teams\":[\"team-a\",\"a/b\",\"team-b\"]}"

static int check(const char *header, const char *claims, EVP_PKEY *key, struct jwt_caller *ret, struct error *err)
{
	static char token[TEXT_MAX];
	begin(token, header, claims);
	sign(token, key);
	return jwt_check(token, &settings, signer.keys, NOW_S * NS_PER_S, ret, err);
}

static void test_valid(void **state)
{
	struct jwt_caller caller;
	struct error err = {0};
	(void)state;
	if (check(RS256, GOOD, signer.rsa, &caller, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(caller.name, "ada");
	assert_int_equal(caller.roles, ROLE_RECORD | ROLE_WRITE);
	assert_int_equal(caller.tenant_count, 2);
	assert_string_equal(caller.tenants[1], "team-b");
	assert_false(caller.all_tenants);
	if (check(ES256, GOOD, signer.ec, &caller, &err) < 0)
		fail_msg("%s", err.message);
	/* without kid: the only key of that kind */
	assert_int_equal(check("{\"alg\":\"ES256\"}", GOOD, signer.ec, &caller, &err), 0);
	/* nobody's roles, and no tenants: known, but may do nothing */
	assert_int_equal(check(RS256, "{" CLAIMS "}", signer.rsa, &caller, &err), 0);
	assert_int_equal(caller.roles | caller.tenant_count, 0);
	assert_int_equal(check(RS256, "{" CLAIMS ",\"realm.roles\":\"viewers\",\"teams\":\"*\"}", signer.rsa, &caller, &err),
			 0);
	assert_int_equal(caller.roles, ROLE_READ);
	assert_true(caller.all_tenants);
}

static void test_claims(void **state)
{
#define ISS "\"iss\":\"https://login.example\","
#define AUD "\"aud\":\"wick\","
#define SUB "\"sub\":\"a\","
#define EXP "\"exp\":1800000100"
	static const struct {
		const char *claims, *why;
	} cases[] = {
		{"{" ISS AUD SUB EXP "}", NULL},
		{"{" ISS "\"aud\":[\"x\",\"wick-2\"]," SUB EXP "}", NULL},
		{"{" ISS AUD SUB "\"exp\":1799999941}", NULL}, /* a minute ago */
		{"{" ISS AUD SUB "\"exp\":1799999940}", "expired"},
		{"{" ISS AUD SUB "\"exp\":\"1800000100\"}", "expired"},
		{"{" ISS AUD SUB "\"exp\":null}", "expired"},
		{"{" ISS AUD SUB "\"exp\":-1e300}", "expired"},
		{"{" ISS AUD "\"sub\":\"a\"}", "expired"},
		{"{" ISS AUD SUB EXP ",\"nbf\":1800000060}", NULL},
		{"{" ISS AUD SUB EXP ",\"nbf\":1800000061}", "not valid yet"},
		{"{" ISS AUD SUB EXP ",\"nbf\":\"soon\"}", "not valid yet"},
		{"{" AUD SUB EXP "}", "issuer"},
		{"{\"iss\":\"https://login.example/\"," AUD SUB EXP "}", "issuer"},
		{"{\"iss\":[\"https://login.example\"]," AUD SUB EXP "}", "issuer"},
		{"{" ISS SUB EXP "}", "audience"},
		{"{" ISS "\"aud\":\"wic\"," SUB EXP "}", "audience"},
		{"{" ISS "\"aud\":[]," SUB EXP "}", "audience"},
		{"{" ISS "\"aud\":{\"wick\":1}," SUB EXP "}", "audience"},
		{"{" ISS AUD EXP "}", "whose"},
		{"{" ISS AUD "\"sub\":\"\"," EXP "}", "whose"},
		{"{" ISS AUD "\"sub\":7," EXP "}", "whose"},
		{"{" ISS AUD SUB EXP ",\"teams\":[]}", "names no tenant"},
		{"{" ISS AUD SUB EXP ",\"teams\":\"../x\"}", "names no tenant"},
		{"{" ISS AUD SUB EXP ",\"exp\":1900000000}", "malformed"}, /* twice */
		{"[]", "malformed"},
		{"\"text\"", "malformed"},
		{"{", "malformed"},
	};
	struct jwt_caller caller;
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error err = {0};
		int r = check(RS256, cases[i].claims, signer.rsa, &caller, &err);
		int wanted = !cases[i].why ? 0 : strcmp(cases[i].why, "expired") == 0 ? -EKEYEXPIRED : -EACCES;
		if (r != wanted || (cases[i].why && !strstr(err.message, cases[i].why)))
			fail_msg("%s: %d %s", cases[i].claims, r, err.message);
	}
}

static void test_signatures(void **state)
{
	static const struct {
		const char *header;
		int r;
	} headers[] = {
		{"{\"alg\":\"none\",\"kid\":\"r1\"}", -EACCES},
		{"{\"alg\":\"None\"}", -EACCES},
		{"{\"alg\":\"HS256\",\"kid\":\"hs\"}", -EACCES},
		{"{\"alg\":\"RS512\",\"kid\":\"r1\"}", -EACCES},
		{"{\"alg\":\"PS256\",\"kid\":\"r1\"}", -EACCES},
		{"{\"alg\":\"rs256\",\"kid\":\"r1\"}", -EACCES},
		{"{\"kid\":\"r1\"}", -EACCES},
		{"{\"alg\":[\"RS256\"]}", -EACCES},
		{"{\"alg\":\"RS256\",\"kid\":\"r2\"}", -ENOKEY},
		{"{\"alg\":\"ES256\",\"kid\":\"r1\"}", -ENOKEY},
		{"{\"alg\":\"RS256\",\"kid\":\"enc\"}", -ENOKEY},
		{"{\"alg\":\"RS256\",\"kid\":\"small\"}", -ENOKEY},
		{"{\"alg\":\"RS256\",\"kid\":\"e1\"}", -ENOKEY},
		{"{\"alg\":\"RS256\",\"kid\":7}", -EACCES},
		{"{\"alg\":\"RS256\",\"kid\":\"r1\",\"crit\":[\"exp\"]}", -EACCES},
		{"{\"alg\":\"RS256\",\"alg\":\"none\",\"kid\":\"r1\"}", -EACCES},
		{"[]", -EACCES},
	};
	static char token[TEXT_MAX], broken[TEXT_MAX];
	struct jwt_caller caller;
	struct error err = {0};
	(void)state;
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		int r = check(headers[i].header, GOOD, signer.rsa, &caller, &err);
		if (r != headers[i].r)
			fail_msg("%s: %d %s", headers[i].header, r, err.message);
	}
	assert_int_equal(check(RS256, GOOD, signer.other_rsa, &caller, &err), -EACCES);
	assert_int_equal(check(ES256, GOOD, signer.rsa, &caller, &err), -EACCES);
	assert_int_equal(check(RS256, GOOD, signer.ec, &caller, &err), -EACCES);
	/* no keys yet */
	begin(token, RS256, GOOD);
	sign(token, signer.rsa);
	assert_int_equal(jwt_check(token, &settings, NULL, NOW_S * NS_PER_S, &caller, &err), -ENOKEY);
	/* any character changed, in what is signed or in the signature; the last one of the signature holds unused bits */
	size_t len = strlen(token);
	for (size_t i = 0; i + 1 < len; i += i < 200 ? 1 : 7) {
		memcpy(broken, token, len + 1);
		broken[i] = broken[i] == 'A' ? 'B' : 'A';
		if (strcmp(broken, token) != 0)
			assert_true(jwt_check(broken, &settings, signer.keys, NOW_S * NS_PER_S, &caller, NULL) < 0);
	}
	for (size_t i = 0; i < len; i += 13) { /* and cut anywhere */
		memcpy(broken, token, len);
		broken[i] = '\0';
		assert_true(jwt_check(broken, &settings, signer.keys, NOW_S * NS_PER_S, &caller, NULL) < 0);
	}
}

/* The attack that the algorithms are fixed for: signed with the public key, as if it were a secret. */
static void test_confusion(void **state)
{
	static char token[TEXT_MAX];
	unsigned char *der = NULL;
	uint8_t mac[EVP_MAX_MD_SIZE];
	unsigned mac_len;
	struct jwt_caller caller;
	struct error err = {0};
	(void)state;
	int der_len = i2d_PUBKEY(signer.rsa, &der);
	begin(token, "{\"alg\":\"HS256\",\"kid\":\"r1\"}", GOOD);
	HMAC(EVP_sha256(), der, der_len, (const uint8_t *)token, strlen(token), mac, &mac_len);
	OPENSSL_free(der);
	snprintf(token + strlen(token), 2, ".");
	encode(token, mac, mac_len);
	assert_int_equal(jwt_check(token, &settings, signer.keys, NOW_S * NS_PER_S, &caller, &err), -EACCES);
	begin(token, "{\"alg\":\"none\"}", GOOD);
	snprintf(token + strlen(token), 2, ".");
	assert_int_equal(jwt_check(token, &settings, signer.keys, NOW_S * NS_PER_S, &caller, &err), -EACCES);
}

static void test_forms(void **state)
{
	static char token[TEXT_MAX];
	struct jwt_caller caller;
	(void)state;
	static const char *const bad[] = {"", ".", "..", "a.b", "a.b.c.d", "eyJ", "ey.ey.", "ey..ey", "!!.!!.!!", "e30.e30.AA"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(jwt_check(bad[i], &settings, signer.keys, NOW_S * NS_PER_S, &caller, NULL), -EACCES);
	assert_true(jwt_looks_like("eyJ.eyJ.AA"));
	assert_false(jwt_looks_like("wick_00"));
	assert_false(jwt_looks_like("eyJ.eyJ"));
	begin(token, RS256, GOOD);
	sign(token, signer.rsa);
	assert_true(jwt_looks_like(token));
	/* An r or s of 0, or more than the order. */
	begin(token, ES256, GOOD);
	uint8_t raw[64] = {0};
	size_t len = strlen(token);
	snprintf(token + len, 2, ".");
	encode(token, raw, sizeof(raw));
	assert_int_equal(jwt_check(token, &settings, signer.keys, NOW_S * NS_PER_S, &caller, NULL), -EACCES);
	memset(raw, 0xff, sizeof(raw));
	snprintf(token + len, 2, ".");
	encode(token, raw, sizeof(raw));
	assert_int_equal(jwt_check(token, &settings, signer.keys, NOW_S * NS_PER_S, &caller, NULL), -EACCES);
	/* Too long. */
	memset(token, 'a', JWT_BYTES_MAX + 10);
	token[10] = token[20] = '.';
	token[JWT_BYTES_MAX + 10] = '\0';
	assert_int_equal(jwt_check(token, &settings, signer.keys, NOW_S * NS_PER_S, &caller, NULL), -EACCES);
}

/* RFC 7515, A.2 and A.3: keys and signatures that others have made. */
static void test_rfc(void **state)
{
	static const char jwks[] =
		"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
		"\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";
	static const char token[] =
		"eyJhbGciOiJFUzI1NiJ9."
		"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
		"DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
	const struct oidc_settings joe = {.issuer = "joe", .name_claim = "iss", .role_claim = "roles"};
	struct jwks *keys = NULL;
	struct jwt_caller caller;
	struct error err = {0};
	(void)state;
	assert_int_equal(jwks_read(bytes_of_string(jwks), &keys, &err), 0);
	/* Its signature is right, which is seen by what is wrong with it: it names no audience. */
	assert_int_equal(jwt_check(token, &joe, keys, 1300819000 * NS_PER_S, &caller, &err), -EACCES);
	assert_string_equal(err.message, "the token is for another audience");
	jwks_free(keys);
}

static void test_key_sets(void **state)
{
	static const char *const bad[] = {
		"",
		"{}",
		"[]",
		"{\"keys\":{}}",
		"{\"keys\":[]}",
		"{\"keys\":[],\"keys\":[]}",
		"{\"keys\":[7,null,\"x\",{}]}",
		"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}",
		"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-521\",\"x\":\"AA\",\"y\":\"AA\"}]}",
		/* not on the curve */
		"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
		"\"y\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\"}]}",
	};
	struct jwks *keys = NULL;
	struct error err = {0};
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (jwks_read(bytes_of_string(bad[i]), &keys, &err) != -EINVAL)
			fail_msg("%s was taken", bad[i]);
	assert_null(keys);
	_cleanup_(buffer_release) struct buffer text = {.max = 2 * JWKS_BYTES_MAX};
	buffer_append_string(&text, "{\"keys\":[");
	for (unsigned i = 0; i <= JWKS_KEYS_MAX; i++) {
		static char key[1000];
		key[0] = '\0';
		describe_ec(key, signer.ec, "\"use\":\"sig\"");
		buffer_printf(&text, "%s%s", i ? "," : "", key);
	}
	buffer_append_string(&text, "]}");
	assert_int_equal(jwks_read(buffer_bytes(&text), &keys, &err), -EINVAL);
	assert_non_null(strstr(err.message, "more than 100"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_valid),	  cmocka_unit_test(test_claims), cmocka_unit_test(test_signatures),
		cmocka_unit_test(test_confusion), cmocka_unit_test(test_forms),	 cmocka_unit_test(test_rfc),
		cmocka_unit_test(test_key_sets),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
