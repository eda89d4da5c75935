/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of tokens: who may call a server, in which roles, about which tenants. Essay at the top of tokens.c.
 */
#ifndef WICK_SERVER_ACCESS_TOKENS_H
#define WICK_SERVER_ACCESS_TOKENS_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "server/core/permission.h"

#define TOKEN_PREFIX	      "wick_"
#define TOKEN_SECRET_BYTES    32 /* random ones, which follow the prefix as digits of base 16 */
#define TOKEN_TEXT_SIZE	      (sizeof(TOKEN_PREFIX) + 2 * (size_t)TOKEN_SECRET_BYTES)
#define TOKEN_HASH_BYTES      32 /* SHA-256 */
#define TOKEN_TENANTS_MAX     64
#define TOKEN_CERTIFICATE_MAX 250
#define TOKENS_MAX	      10000
#define TOKENS_FILE_MAX	      ((size_t)4 * 1024 * 1024)
#define TOKEN_ALL_TENANTS     "*"
#define TOKEN_DEFAULT_TENANT  "anonymous"

/* Of which tenants; without any of all it is the one without a name, TOKEN_DEFAULT_TENANT. */
struct token_tenants {
	const char **names;
	size_t count;
	bool all;
};

struct token_entry {
	const char *name; /* of letters, digits and .-_@ */
	unsigned roles;	  /* at least one */
	struct token_tenants tenants;
	bool has_hash; /* otherwise it is for a certificate */
	uint8_t hash[TOKEN_HASH_BYTES];
	const char *certificate; /* a name in it; NULL = it is for a token */
	int64_t expires_ns;	 /* 0 = never */
};

/* JSON Web Tokens of an issuer: jwt.h. */
struct oidc_role {
	const char *value; /* of the claim */
	unsigned role;
};
struct oidc_settings {
	const char *issuer;
	const char **audiences; /* one of them must be the token's */
	size_t audience_count;
	const char *jwks_file, *jwks_url; /* one of them */
	const char *ca_file;		  /* of jwks_url; NULL = the system's authorities */
	const char *name_claim, *role_claim, *tenant_claim;
	struct token_tenants tenants; /* of tokens without the claim */
	struct oidc_role *roles;
	size_t role_count;
};

/* Entries in an order that can be searched. */
struct token_index {
	const struct token_entry **entries;
	size_t count;
};

/* Does not change once it is read; has one user at first. */
struct tokens {
	atomic_uint users;
	struct arena arena;
	struct token_entry *items; /* in the order of the file */
	size_t count;
	struct token_index by_name, by_certificate, by_hash;
	struct oidc_settings *oidc; /* NULL = none */
};
/* A file that is wrong in any way is -EINVAL as a whole, with file and line; also -E2BIG, -ENOMEM. */
int tokens_read(struct bytes text, const char *file, struct tokens **ret, struct error *err);
/* The same from disk; -EACCES when others may write it. */
int tokens_load(const char *path, struct tokens **ret, struct error *err);
struct tokens *tokens_share(struct tokens *tokens); /* one user more; NULL allowed */
struct tokens *tokens_free(struct tokens *tokens);  /* one less, and the last frees it; NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(tokens_free, struct tokens);

void token_hash(struct bytes token, uint8_t out[static TOKEN_HASH_BYTES]);
/* NULL = there is none; whether it has expired is for the caller to look at. */
const struct token_entry *tokens_find(const struct tokens *tokens, const uint8_t hash[static TOKEN_HASH_BYTES]);
const struct token_entry *tokens_find_certificate(const struct tokens *tokens, const char *name);
const struct token_entry *tokens_find_name(const struct tokens *tokens, const char *name);
bool token_name_is_valid(const char *name);
bool token_tenants_have(const struct token_tenants *tenants, const char *name); /* NULL = the default one */

/* ---- tokens_edit.c: for wick token ---- */

/* A new token, and its hash. -EIO without random numbers. */
int token_make(char out[static TOKEN_TEXT_SIZE], uint8_t hash[static TOKEN_HASH_BYTES], struct error *err);
/* The text of a file with one entry more, or without one of that name; what else is in it, comments included, stays as it is.
 * text: empty = there is no file yet. -EEXIST, -ENOENT; -EINVAL where the file is written in a way that cannot be edited, or is
 * wrong already. */
int tokens_add(struct bytes text, const char *file, const struct token_entry *entry, struct buffer *out, struct error *err);
int tokens_remove(struct bytes text, const char *file, const char *name, struct buffer *out, struct error *err);

#endif
