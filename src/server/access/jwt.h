/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Web Tokens (RFC 7519) of an issuer that the file of tokens names: whose they are, and what they permit. Essay at the top
 * of jwt.c.
 */
#ifndef WICK_SERVER_ACCESS_JWT_H
#define WICK_SERVER_ACCESS_JWT_H

#include "server/access/tokens.h"

#define JWT_BYTES_MAX  ((size_t)16 * 1024)
#define JWT_SKEW_S     60 /* between the issuer's clock and ours */
#define JWKS_BYTES_MAX ((size_t)512 * 1024)
#define JWKS_KEYS_MAX  100

/* The keys of an issuer (RFC 7517). Keys of kinds that are not used here, or that are not for signatures, are left out; a set
 * without any is -EINVAL, as is one that is no set. */
struct jwks;
int jwks_read(struct bytes json, struct jwks **ret, struct error *err);
struct jwks *jwks_share(struct jwks *keys); /* one user more; NULL allowed */
struct jwks *jwks_free(struct jwks *keys);  /* one less; NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(jwks_free, struct jwks);
size_t jwks_count(const struct jwks *keys);

struct jwt_caller {
	char name[CALLER_NAME_MAX + 1];
	unsigned roles; /* may be 0: it is somebody, but may do nothing */
	bool all_tenants;
	size_t tenant_count; /* 0 and not all: as oidc->tenants says */
	char tenants[TOKEN_TENANTS_MAX][CALLER_TENANT_MAX + 1];
};
bool jwt_looks_like(const char *token);
/* -ENOKEY: signed by a key that is not among these, which may be a new one; -EKEYEXPIRED: of the issuer, but no longer valid;
 * -EACCES: not valid. The message is for the client, who is nobody yet. keys: NULL = there are none yet. */
int jwt_check(const char *token, const struct oidc_settings *oidc, const struct jwks *keys, int64_t now_ns,
	      struct jwt_caller *ret, struct error *err);

#endif
