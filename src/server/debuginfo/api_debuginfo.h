/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two ways in which debug information is asked for and sent: Wick's own API and Parca's. */
#ifndef WICK_SERVER_DEBUGINFO_API_DEBUGINFO_H
#define WICK_SERVER_DEBUGINFO_API_DEBUGINFO_H

#include "server/core/server_int.h"
#include "server/debuginfo/routes.h"
#include "symbol/uploads.h"

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
enum debuginfo_want debuginfo_wants(struct server *server, const struct debuginfo_binary *binary, enum upload_kind kind);
/* Is what is known of the binary in one of these states (1 << enum symbol_state)? */
bool debuginfo_is_state(struct server *server, const char *build_id, uint32_t states);
/* Whose upload it is: the tenant's of the request, if there are tenants; nothing else need be stored for it. -EINVAL a bad
 * name.
 */
int debuginfo_set_tenant(struct server *server, const struct net_request *request, struct upload_begin *begin,
			 struct error *err);
/* uploads_get() for who may use only some tenants: an upload of another is not there. */
int debuginfo_find_upload(struct server *server, const struct net_request *request, const char *id, struct upload_begin *ret,
			  uint64_t *ret_offset, struct error *err);

#endif
