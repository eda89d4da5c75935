/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles of callers, and what each call needs. A row of every table of routes and procedures names a permission; the table in
 * permission.c says which roles have it. docs/api.md shows the same table to users; tests/api/roles holds them equal.
 */
#ifndef WICK_SERVER_CORE_PERMISSION_H
#define WICK_SERVER_CORE_PERMISSION_H

#include <stdbool.h>

#include "net/net.h"

/* Roles of a caller: bits, as one may have several. */
enum role {
	ROLE_AGENT = 1,
	ROLE_WRITE = 2,
	ROLE_READ = 4,
	ROLE_RECORD = 8,
	ROLE_ADMIN = 16,
};
#define ROLE_COUNT 5
extern const char *const role_names[ROLE_COUNT]; /* "agent", for 1 << index */
/* "agent, read" */
#define ROLES_TEXT_MAX 64
const char *roles_format(unsigned roles, char out[static ROLES_TEXT_MAX]);
unsigned role_parse(const char *name); /* one of them; 0 = there is no such role */

/* What a call needs. 0 stays free: a route without a permission is a mistake, and refused. */
enum permission {
	PERMIT_OPEN = 1, /* nothing: health checks */
	PERMIT_READ,
	PERMIT_READ_SERVER, /* shows something of all tenants, or of the server itself */
	PERMIT_WRITE,	    /* profiles in */
	PERMIT_UPLOAD,	    /* debug information in */
	PERMIT_AGENT,	    /* what only agents do: poll, send parts of recordings and marker batches */
	PERMIT_RECORD,	    /* recordings, and what users keep: snapshots, saved queries */
	PERMIT_ADMIN,	    /* deletes and changes what a tenant has */
	PERMIT_ADMIN_SERVER,
	PERMIT_COUNT,
};
const char *permission_name(enum permission permission); /* "read" */
/* Roles that have it, as bits. */
unsigned permission_roles(enum permission permission);
/* Whether it is about all tenants: who may use only some does not have it. */
bool permission_is_for_all_tenants(enum permission permission);
/* Whether calls that need it change something; ingest counts as well. */
bool permission_changes(enum permission permission);
/* What it takes of a user of this machine, on a server without tokens (core/local.h). */
enum local_need {
	LOCAL_NEED_NOTHING,
	LOCAL_NEED_READ,
	LOCAL_NEED_WRITE,
	LOCAL_NEED_OWNER,
};
enum local_need permission_local(enum permission permission);

/* Who makes a request, as access control has found out: attached to the request (net_request_attached()) when it knows. */
#define CALLER_NAME_MAX	  64
#define CALLER_TENANT_MAX 150
struct caller {
	char name[CALLER_NAME_MAX + 1];	    /* "" = anybody, on a server without tokens */
	const char *kind;		    /* "token", "certificate", "jwt"; NULL = anybody */
	char tenant[CALLER_TENANT_MAX + 1]; /* that the request is about; "" = as its header says */
	bool is_admitted;		    /* otherwise it was refused: it is known who, but may not */
	bool hides_addresses;		    /* it may not see where code lies in the memory of other users' processes */
};
static inline const struct caller *caller_of(const struct net_request *request)
{
	return net_request_attached(request);
}

#endif
