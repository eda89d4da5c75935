/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two ways in which debug information is asked for and sent: Wick's own API and Parca's. */
#ifndef WICK_SERVER_DEBUGINFO_API_DEBUGINFO_H
#define WICK_SERVER_DEBUGINFO_API_DEBUGINFO_H

#include "server/core/server_int.h"
#include "server/debuginfo/routes.h"
#include "symbol/uploads.h"

/* A request about debug information: of whom it is, and what they may see. A tenant need not be there to have uploads: it has
 * no symbolizer then, and what is asked is decided later. */
struct debuginfo_call {
	struct server *server;
	struct symbolizer *symbolizer; /* NULL = nothing was stored for the tenant yet */
	char tenant[UPLOAD_TENANT_MAX + 1];
	struct symbols_scope symbols; /* of the tenant */
};
/* -EINVAL a bad name. *ret must not be moved. */
int debuginfo_call_init(struct server *server, const struct net_request *request, struct debuginfo_call *ret,
			struct error *err);

enum debuginfo_want {
	DEBUGINFO_NOT_WANTED, /* it is there, or known from elsewhere, or of no use */
	DEBUGINFO_WANTED,
	DEBUGINFO_LATER, /* somebody is sending it, or it is being looked for: ask again */
};
/* The id and the content have been checked. */
struct debuginfo_binary {
	const char *build_id;
	const char *content; /* elf/content_key.h; "" = the client does not say */
	const char *path;    /* on the host that asks; "" = unknown */
};
enum debuginfo_want debuginfo_wants(struct debuginfo_call *call, const struct debuginfo_binary *binary, enum upload_kind kind);
/* Is what is known of the binary in one of these states (1 << enum symbol_state)? */
bool debuginfo_is_state(struct debuginfo_call *call, const char *build_id, uint32_t states);
/* symbolizer_wants() of the call's tenant. */
bool debuginfo_symbols_are_wanted(struct debuginfo_call *call, const char *build_id, const char *path, bool *ret_later);
/* uploads_get(): an upload of another tenant is not there. */
int debuginfo_find_upload(struct server *server, const struct net_request *request, const char *id, struct upload_begin *ret,
			  uint64_t *ret_offset, struct error *err);

#endif
