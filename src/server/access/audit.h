/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log: who did what, when, with what result, as lines of JSON in a file. Essay at the top of audit.c.
 */
#ifndef WICK_SERVER_ACCESS_AUDIT_H
#define WICK_SERVER_ACCESS_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

#define AUDIT_BYTES_DEFAULT ((uint64_t)64 * 1024 * 1024)

enum audit_event {
	AUDIT_CALL,    /* that changes something, whatever came of it */
	AUDIT_LOGIN,   /* the first request of a token from an address within an hour */
	AUDIT_REFUSAL, /* 401, 403, 429 of access control */
	AUDIT_TOKENS,  /* the file of tokens is another */
};
struct audit_entry {
	enum audit_event event;
	const char *name, *kind; /* who, and as what: token, certificate, jwt; NULL or "" = nobody has proved anything */
	const char *address, *method, *target, *tenant, *reason; /* NULL or "" = left out */
	int status;						 /* 0 = left out, but for a call: the client has gone */
};

struct audit;
struct audit_options {
	const char *path;
	uint64_t bytes_max; /* then it becomes PATH.1; 0 = AUDIT_BYTES_DEFAULT */
	void (*on_problem)(void *context, const char *message);
	void *context;
};
/* Opens the file, mode 0600 if it is new, and starts the thread that writes it. */
int audit_open(const struct audit_options *options, struct audit **ret, struct error *err);
/* Never waits; any thread. NULL: nothing is written. */
void audit_add(struct audit *audit, const struct audit_entry *entry);
struct audit_stats {
	uint64_t written, dropped; /* dropped: the file could not be written, or not as fast; refusals also beyond a rate */
};
void audit_get_stats(struct audit *audit, struct audit_stats *ret);
struct audit *audit_close(struct audit *audit); /* writes what is left */
DEFINE_CLEANUP_POINTER(audit_close, struct audit);

#endif
