/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and handlers: files that are shown, and snapshots. The context of a handler is the struct server. */
#ifndef WICK_SERVER_VIEWER_ROUTES_H
#define WICK_SERVER_VIEWER_ROUTES_H

#include "net/net.h"

#define SNAPSHOTS_PATH "/api/v1/snapshots"

extern const struct net_route viewer_routes[]; /* ends with a row without a path */

extern net_handler_function api_view, api_convert, api_snapshot_create, api_snapshots, api_snapshot_show, api_snapshot_remove;

#endif
