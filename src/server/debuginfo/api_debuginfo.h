/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two ways in which debug information is asked for and sent: Wick's own API and Parca's. */
#ifndef WICK_SERVER_DEBUGINFO_API_DEBUGINFO_H
#define WICK_SERVER_DEBUGINFO_API_DEBUGINFO_H

#include "server/core/server_int.h"
#include "server/debuginfo/routes.h"

enum debuginfo_want {
	DEBUGINFO_NOT_WANTED, /* it is there, or known from elsewhere, or of no use */
	DEBUGINFO_WANTED,
	DEBUGINFO_LATER, /* somebody is sending it, or it is being looked for: ask again */
};
/* path: of the binary on the host that asks, "" = unknown. The build-id has been checked. */
enum debuginfo_want debuginfo_wants(struct server *server, const char *build_id, const char *path, enum upload_kind kind);
/* Is what is known of the binary in one of these states (1 << enum symbol_state)? */
bool debuginfo_is_state(struct server *server, const char *build_id, uint32_t states);

#endif
