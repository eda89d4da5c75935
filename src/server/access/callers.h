/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a caller is: the tokens that a server knows now, kept up to date while it runs. Essay at the top of callers.c.
 */
#ifndef WICK_SERVER_ACCESS_CALLERS_H
#define WICK_SERVER_ACCESS_CALLERS_H

#include "base/cleanup.h"
#include "server/access/attempts.h"
#include "server/access/audit.h"
#include "server/access/jwt.h"
#include "server/access/tokens.h"

struct callers_options {
	const char *token;	 /* the one of the configuration, admin of all tenants; NULL = none */
	const char *tokens_file; /* NULL = none */
	bool tenants;		 /* the server has some */
	struct audit *audit;	 /* borrowed; NULL = none */
};
struct callers;
/* Reads the files, and starts the thread that looks at them. */
int callers_open(const struct callers_options *options, struct callers **ret, struct error *err);
struct callers *callers_close(struct callers *callers);

enum callers_result {
	CALLERS_FOUND,
	CALLERS_ANONYMOUS, /* it brings nothing */
	CALLERS_UNKNOWN,   /* what it brings is not known here */
	CALLERS_EXPIRED,
	CALLERS_WAIT, /* it has to: identity.wait_s */
	CALLERS_NOT_PERMITTED,
	CALLERS_NO_TENANT, /* not this one */
	CALLERS_RESULTS,
};
extern const char *const callers_result_names[CALLERS_RESULTS]; /* of metrics */
struct token_set;
struct identity {
	char name[CALLER_NAME_MAX + 1];
	const char *kind;
	unsigned roles;
	struct token_tenants tenants;
	bool is_login;
	bool is_guess; /* unknown, and not for want of a key that is yet to be fetched */
	unsigned wait_s;
	char reason[160]; /* why not, for the client; "" = nothing to add */
	/* what the tenants point into */
	struct token_set *set;
	struct jwt_caller jwt;
	const char *jwt_tenants[TOKEN_TENANTS_MAX];
};
/* credential: a token as it came, NULL = none. The names of a certificate are the request's; to be called by authorize. The
 * identity is to be released, whatever came of it. */
enum callers_result callers_identify(struct callers *callers, const struct net_request *request, const char *credential,
				     struct identity *ret);
void identity_release(struct identity *identity);

struct callers_stats {
	uint64_t results[CALLERS_RESULTS], logins;
	uint64_t tokens, keys; /* that there are now; keys of JSON Web Tokens */
	uint64_t reloads, reload_failures;
	bool is_current; /* the file as it is is in use */
};
void callers_count(struct callers *callers, enum callers_result result);
void callers_get_stats(struct callers *callers, struct callers_stats *ret);

#endif
