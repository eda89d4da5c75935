/* SPDX-License-Identifier: Apache-2.0 */
#include "server/viewer/routes.h"

#include "server/core/permission.h"

const struct net_route viewer_routes[] = {
	NET_ROUTE("POST", "/api/v1/view", PERMIT_READ, api_view, .slow = true),
	NET_ROUTE("POST", "/api/v1/convert", PERMIT_READ, api_convert, .slow = true),
	NET_ROUTE("POST", SNAPSHOTS_PATH, PERMIT_RECORD, api_snapshot_create, .slow = true),
	NET_ROUTE("GET", SNAPSHOTS_PATH, PERMIT_READ, api_snapshots),
	NET_ROUTE("GET", SNAPSHOTS_PATH "/*", PERMIT_READ, api_snapshot_show),
	NET_ROUTE("DELETE", SNAPSHOTS_PATH "/*", PERMIT_ADMIN, api_snapshot_remove, .slow = true),
	{0},
};
