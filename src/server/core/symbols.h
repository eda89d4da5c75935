/* SPDX-License-Identifier: Apache-2.0 */
/* Names for addresses: the symbolizer and what it takes from (symbols.c). */
#ifndef WICK_SERVER_CORE_SYMBOLS_H
#define WICK_SERVER_CORE_SYMBOLS_H

#include "profile/profile.h"

#include "symbol/uploads.h"

struct server;
struct tenant;

/* Whose uploads a tenant may see: its own, then those that are shared. */
#define SYMBOLS_SHARED_MAX 32
struct symbols_scope {
	struct uploads_scope scope; /* of the next */
	const char *tenants[SYMBOLS_SHARED_MAX + 1];
};
/* tenant: as struct upload_begin has it; borrowed, as is the server. */
void symbols_scope_init(const struct server *server, const char *tenant, struct symbols_scope *ret);
/* The tenant's name as struct upload_begin has it: "" for the one without. */
const char *symbols_tenant_name(const struct tenant *tenant);

/* Opens and closes what the tenants' symbolizers take from. The first before threads are started: it sets
 * environment variables, which a library reads. */
int symbols_open_debuginfod(struct server *server, struct error *err);
int symbols_open(struct server *server, struct error *err);
void symbols_close(struct server *server);
/* Opens and closes tenant->symbols and tenant->symbolizer. */
int symbols_open_tenant(struct server *server, struct tenant *tenant, struct error *err);
void symbols_close_tenant(struct tenant *tenant);
/* Of so many tenants, so many of which are asked for names just now, what this one may have: an equal part of the disk, and
 * most of the memory where names are asked for. */
void symbols_share(const struct server *server, const struct tenant *tenant, size_t tenants, size_t active, bool is_active);
/* Tells the symbolizer which binaries a stored profile has no names of. */
void symbols_note(struct tenant *tenant, const struct profile *profile);

/* uploads_options.on_arrival; in debuginfo/. */
void debuginfo_on_arrival(void *context, const char *tenant, const char *build_id, enum upload_kind kind);

#endif
