/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and handlers: binaries, and their debug information. The context of a handler is the struct server. */
#ifndef WICK_SERVER_DEBUGINFO_ROUTES_H
#define WICK_SERVER_DEBUGINFO_ROUTES_H

#include "net/net.h"

#define DEBUGINFO_PIECE_MAX (4ull * 1024 * 1024)

extern const struct net_route debuginfo_routes[]; /* ends with a row without a path */

extern net_handler_function api_binaries, api_binary_retry, api_debuginfo_wanted, api_upload_begin, api_upload_write,
	api_upload_finish, api_upload_abort;

#endif
