/* SPDX-License-Identifier: Apache-2.0 */
/* The file of tokens: what is in it, what is refused, and what editing leaves alone. */
#include "server/access/tokens.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/test_faults.h"
#include "base/time.h"

/* Of the token "wick_test". */
#define HASH  "sha256:0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"
#define HASH2 "sha256:1f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"

static int try_read(const char *text, struct tokens **ret, struct error *err)
{
	*ret = NULL;
	return tokens_read(bytes_of_string(text), "tokens.yaml", ret, err);
}

static void test_read(void **state)
{
	static const char text[] = "tokens:\n"
				   "  - name: agents-eu\n"
				   "    role: agent\n"
				   "    tenants: [team-a, team-b]\n"
				   "    hash: " HASH "\n"
				   "    expires: 2027-03-01T00:00:00Z\n"
				   "  - {name: ops, role: [read, record], tenants: \"*\", hash: \"" HASH2 "\"}\n"
				   "  - {name: host-7, role: write, certificate: host7.example.org}\n"
				   "oidc:\n"
				   "  issuer: https://login.example\n"
				   "  audience: wick\n"
				   "  jwks_file: /etc/wick/jwks.json\n"
				   "  tenants: team-a\n"
				   "  roles: {viewers: read, operators: admin}\n";
	struct tokens *tokens;
	struct error err = {0};
	(void)state;
	if (try_read(text, &tokens, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(tokens->count, 3);
	const struct token_entry *agents = tokens_find_name(tokens, "agents-eu"), *ops = tokens_find_name(tokens, "ops");
	assert_int_equal(agents->roles, ROLE_AGENT);
	assert_int_equal(agents->expires_ns, 1803859200ll * NS_PER_S);
	assert_true(token_tenants_have(&agents->tenants, "team-b"));
	assert_false(token_tenants_have(&agents->tenants, "team-c"));
	assert_false(token_tenants_have(&agents->tenants, NULL));
	assert_false(token_tenants_have(&agents->tenants, "*"));
	assert_int_equal(ops->roles, ROLE_READ | ROLE_RECORD);
	assert_true(token_tenants_have(&ops->tenants, "whatever"));
	assert_ptr_equal(tokens_find(tokens, ops->hash), ops);
	assert_ptr_equal(tokens_find(tokens, agents->hash), agents);
	uint8_t other[TOKEN_HASH_BYTES] = {0};
	assert_null(tokens_find(tokens, other)); /* also what an entry for a certificate has */
	const struct token_entry *host = tokens_find_certificate(tokens, "host7.example.org");
	assert_string_equal(host->name, "host-7");
	assert_true(token_tenants_have(&host->tenants, NULL));
	assert_true(token_tenants_have(&host->tenants, "anonymous"));
	assert_false(token_tenants_have(&host->tenants, "team-a"));
	assert_null(tokens_find_certificate(tokens, "host7.example.or"));
	assert_string_equal(tokens->oidc->role_claim, "roles");
	assert_int_equal(tokens->oidc->role_count, 2);
	assert_true(token_tenants_have(&tokens->oidc->tenants, "team-a"));
	tokens_free(tokens);
	assert_int_equal(try_read("tokens: []\n", &tokens, &err), 0);
	assert_int_equal(tokens->count, 0);
	tokens_free(tokens);
}

#define ENTRY(more) "tokens: [{name: a, role: read, hash: \"" HASH "\"" more "}]\n"
#define OIDC(text)  "tokens: []\noidc: {" text "}\n"

static void test_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"", "empty"},
		{"# nothing\n", "empty"},
		{"tokens:\n", "must be a list"},
		{"tokens: {}\n", "must be a list"},
		{"tokens: text\n", "must be a list"},
		{"oidc: {}\n", "needs an issuer"},
		{"[]\n", "name: value"},
		{"tokens: [\n", "line"},
		{"\x01", "control characters"},
		{"tokens: []\ntoken: []\n", "did you mean 'tokens'"},
		{"tokens: []\ntokens: []\n", "set twice"},
		{"tokens: [a]\n", "name: value"},
		{"tokens: [{}]\n", "without a name"},
		{"tokens: [{name: a}]\n", "needs a role"},
		{"tokens: [{name: a, role: []}]\n", "needs a role"},
		{"tokens: [{name: a, role: root}]\n", "must be agent, write"},
		{"tokens: [{name: a, role: [read, read, read, read, read, read]}]\n", "too many"},
		{"tokens: [{name: a, role: read}]\n", "needs a hash or a certificate"},
		{ENTRY(", certificate: x"), "one of them"},
		{"tokens: [{name: \"a b\", role: read, hash: \"" HASH "\"}]\n", "letters, digits"},
		{"tokens: [{name: \"a\\nb\", role: read, hash: \"" HASH "\"}]\n", "letters, digits"},
		{"tokens: [{name: \"\", role: read, hash: \"" HASH "\"}]\n", "letters, digits"},
		{"tokens: [{name: a, role: read, hash: secret}]\n", "must be sha256:"},
		{"tokens: [{name: a, role: read, hash: \"sha256:00\"}]\n", "must be sha256:"},
		{"tokens: [{name: a, role: read, hash: \"" HASH "00\"}]\n", "must be sha256:"},
		{ENTRY(", tenants: []"), "is empty"},
		{ENTRY(", tenants: [..]"), "is no name of a tenant"},
		{ENTRY(", tenants: [a/b]"), "is no name of a tenant"},
		{ENTRY(", expires: now-1h"), "must be a time"},
		{ENTRY(", expires: 90d"), "must be a time"},
		{ENTRY(", expires: 2027-99-01"), "must be a time"},
		{ENTRY(", expires: 1"), "must be a time"},
		{ENTRY(", colour: red"), "is not a setting"},
		{ENTRY(", role: admin"), "set twice"},
		{"tokens:\n- &a {name: a, role: read, hash: \"" HASH "\"}\n- *a\n", "is there twice"},
		{"tokens:\n- {name: a, role: read, hash: \"" HASH "\"}\n- {name: b, role: read, hash: \"" HASH "\"}\n",
		 "the same token"},
		{"tokens:\n- {name: a, role: read, certificate: x}\n- {name: b, role: read, certificate: x}\n",
		 "the certificate 'x' is there twice"},
		{"tokens: [{name: a, role: read, certificate: \"\"}]\n", "1 to 250"},
		{OIDC("issuer: i, audience: a, roles: {a: read}"), "jwks_file or jwks_url"},
		{OIDC("issuer: i, audience: a, roles: {a: read}, jwks_file: f, jwks_url: \"https://x/\""), "one of them"},
		{OIDC("issuer: i, audience: a, roles: {a: read}, jwks_url: \"http://x/\""), "must begin with https://"},
		{OIDC("issuer: i, audience: a, roles: {a: read}, jwks_url: \"http://localhost.evil/\""), "https://"},
		{OIDC("issuer: i, audience: a, roles: {a: read}, jwks_url: \"https://u:p@x/\""), "must begin with https://"},
		{OIDC("issuer: i, audience: a, roles: {a: read}, jwks_file: f, ca_file: c"), "is for jwks_url"},
		{OIDC("issuer: i, audience: a, roles: {a: root}, jwks_file: f"), "must be agent"},
		{OIDC("issuer: i, audience: [], roles: {a: read}, jwks_file: f"), "needs an issuer"},
		{OIDC("issuer: i, audience: [\"\"], roles: {a: read}, jwks_file: f"), "has no value"},
	};
	struct tokens *tokens;
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error err = {0};
		int r = try_read(cases[i].text, &tokens, &err);
		if (r != -EINVAL || !strstr(err.message, cases[i].why))
			fail_msg("%s\n: %d %s, not: %s", cases[i].text, r, err.message, cases[i].why);
		assert_null(tokens);
	}
}

static void test_too_many(void **state)
{
	_cleanup_(buffer_release) struct buffer text = {.max = 2 * TOKENS_FILE_MAX};
	struct tokens *tokens = NULL;
	struct error err = {0};
	(void)state;
	buffer_append_string(&text, "tokens:\n");
	for (unsigned i = 0; i <= TOKENS_MAX; i++)
		buffer_printf(&text, "- {name: t%u, role: read, certificate: c%u}\n", i, i);
	assert_int_equal(tokens_read(buffer_bytes(&text), "f", &tokens, &err), -EINVAL);
	assert_non_null(strstr(err.message, "more than 10000"));
	while (text.len <= TOKENS_FILE_MAX)
		buffer_append_string(&text, "# filler                                                        \n");
	assert_int_equal(tokens_read(buffer_bytes(&text), "f", &tokens, &err), -E2BIG);
}

/* ---- editing ---- */

static void add(const char *before, const struct token_entry *entry, int wanted, const char *after)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	struct error err = {0};
	int r = tokens_add(bytes_of_string(before), "f", entry, &out, &err);
	if (r != wanted || (r == 0 && strcmp(buffer_string(&out), after) != 0))
		fail_msg("%s\n: %d %s\n%s\nnot\n%s", before, r, err.message, buffer_string(&out), after);
}

static void drop(const char *before, const char *name, int wanted, const char *after)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	struct error err = {0};
	int r = tokens_remove(bytes_of_string(before), "f", name, &out, &err);
	if (r != wanted || (r == 0 && strcmp(buffer_string(&out), after) != 0))
		fail_msg("%s\n: %d %s\n%s\nnot\n%s", before, r, err.message, buffer_string(&out), after);
}

#define OLD(name) "- {name: " name ", role: read, certificate: c-" name "}\n"

static void test_edit(void **state)
{
	const char *tenants[] = {"*", "it's"};
	const struct token_entry plain = {.name = "new", .roles = ROLE_READ, .certificate = "x"};
	const struct token_entry full = {.name = "full",
					 .roles = ROLE_READ | ROLE_WRITE,
					 .tenants = {tenants, 2, true},
					 .has_hash = true,
					 .expires_ns = 1803859200ll * NS_PER_S};
	(void)state;
#define NEW "- name: 'new'\n    role: read\n    certificate: 'x'\n"
	add("", &plain, 0, "tokens:\n  " NEW);
	add("tokens: []\n", &plain, 0, "tokens:\n  " NEW);
	add("# ours\ntokens: [] # none\noidc_is: not\n", &plain, -EINVAL, "");
	add("# ours\ntokens: []\n# end", &plain, 0, "# ours\ntokens:\n  " NEW "# end");
	add("tokens:\n  # old ones\n  " OLD("a"), &plain, 0, "tokens:\n  # old ones\n  " NEW "  " OLD("a"));
	add("tokens:\n" OLD("a"), &plain, 0, "tokens:\n- name: 'new'\n  role: read\n  certificate: 'x'\n" OLD("a"));
	add("tokens:\n" OLD("new"), &plain, -EEXIST, "");
	add("tokens: [{name: a, role: read, certificate: c}]\n", &plain, -EINVAL, "");
	add("tokens: broken\n", &plain, -EINVAL, "");
	add("", &full, 0,
	    "tokens:\n  - name: 'full'\n    role: [write, read]\n    tenants: ['*', 'it''s']\n    hash: sha256:"
	    "0000000000000000000000000000000000000000000000000000000000000000\n    expires: 2027-03-01T00:00:00.000Z\n");
	drop("tokens:\n" OLD("a") "# about b\n" OLD("b"), "a", 0, "tokens:\n# about b\n" OLD("b"));
	drop("tokens:\n" OLD("a") "# about b\n" OLD("b") "# end\n", "b", 0, "tokens:\n" OLD("a") "# about b\n# end\n");
	drop("tokens: # all: of them\n  # first\n  " OLD("a") "# end\n", "a", 0,
	     "tokens: [] # all: of them\n  # first\n# end\n");
	drop("tokens:\n  " NEW "  " OLD("a"), "new", 0, "tokens:\n  " OLD("a"));
	drop("tokens:\n- name: b\n  role:\n  - read\n  - write\n\n  certificate: x\n\n" OLD("a"), "b", 0,
	     "tokens:\n\n" OLD("a"));
	drop("tokens:\n" OLD("a"), "b", -ENOENT, "");
	drop("tokens: [{name: a, role: read, certificate: c}]\n", "a", -EINVAL, "");
	drop("", "a", -EINVAL, "");
}

static void test_make(void **state)
{
	char token[TOKEN_TEXT_SIZE], other[TOKEN_TEXT_SIZE];
	uint8_t hash[TOKEN_HASH_BYTES], again[TOKEN_HASH_BYTES];
	(void)state;
	assert_int_equal(token_make(token, hash, NULL), 0);
	assert_int_equal(token_make(other, again, NULL), 0);
	assert_memory_equal(token, "wick_", 5);
	assert_int_equal(strlen(token), 5 + 64);
	assert_string_not_equal(token, other);
	assert_memory_not_equal(hash, again, sizeof(hash));
	token_hash(bytes_of_string(token), again);
	assert_memory_equal(hash, again, sizeof(hash));
	/* FIPS 180-2, B.1 */
	static const uint8_t abc[] = {0xba, 0x78, 0x16, 0xbf};
	token_hash(bytes_of_string("abc"), again);
	assert_memory_equal(again, abc, sizeof(abc));
}

static void test_load(void **state)
{
	char path[] = "/tmp/wick-tokens-XXXXXX";
	struct tokens *tokens = NULL;
	struct error err = {0};
	(void)state;
	int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, ENTRY(""), strlen(ENTRY(""))) > 0);
	close(fd);
	assert_int_equal(tokens_load(path, &tokens, &err), 0);
	tokens = tokens_free(tokens);
	assert_int_equal(chmod(path, 0644), 0); /* hashes may be read */
	assert_int_equal(tokens_load(path, &tokens, &err), 0);
	tokens = tokens_free(tokens);
	assert_int_equal(chmod(path, 0620), 0);
	assert_int_equal(tokens_load(path, &tokens, &err), -EACCES);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(tokens_load(path, &tokens, &err), -ENOENT);
}

static void test_roles(void **state)
{
	char text[ROLES_TEXT_MAX];
	(void)state;
	assert_string_equal(roles_format(ROLE_AGENT | ROLE_ADMIN, text), "agent, admin");
	assert_string_equal(roles_format(31, text), "agent, write, read, record, admin");
	assert_int_equal(role_parse("record"), ROLE_RECORD);
	assert_int_equal(role_parse("Read"), 0);
	/* A route without a permission is nobody's. */
	assert_int_equal(permission_roles(0), 0);
	assert_int_equal(permission_roles(PERMIT_COUNT), 0);
	/* An agent's token can do what an agent does, and nothing else. */
	for (unsigned i = PERMIT_OPEN; i < PERMIT_COUNT; i++) {
		bool agent = i == PERMIT_OPEN || i == PERMIT_WRITE || i == PERMIT_UPLOAD || i == PERMIT_AGENT;
		assert_int_equal((permission_roles(i) & ROLE_AGENT) != 0, agent);
		assert_true(permission_roles(i) & ROLE_ADMIN);
		assert_true(permission_name(i)[0]);
	}
	assert_int_equal(permission_roles(PERMIT_READ) & ROLE_WRITE, 0);
	assert_int_equal(permission_roles(PERMIT_RECORD) & ROLE_READ, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),  cmocka_unit_test(test_refused), cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_edit),  cmocka_unit_test(test_make),    cmocka_unit_test(test_load),
		cmocka_unit_test(test_roles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
