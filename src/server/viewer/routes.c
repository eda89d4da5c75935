/* SPDX-License-Identifier: Apache-2.0 */
#include "server/viewer/routes.h"

const struct net_route viewer_routes[] = {
	{.method = "POST", .path = "/api/v1/view", .handler = api_view, .slow = true},
	{.method = "POST", .path = "/api/v1/convert", .handler = api_convert, .slow = true},
	{.method = "POST", .path = SNAPSHOTS_PATH, .handler = api_snapshot_create, .slow = true},
	{.method = "GET", .path = SNAPSHOTS_PATH, .handler = api_snapshots},
	{.method = "GET", .path = SNAPSHOTS_PATH "/*", .handler = api_snapshot_show},
	{.method = "DELETE", .path = SNAPSHOTS_PATH "/*", .handler = api_snapshot_remove, .slow = true},
	{0},
};
