/* SPDX-License-Identifier: Apache-2.0 */
#include "server/saved/routes.h"

#include "server/core/permission.h"

const struct net_route saved_routes[] = {
	NET_ROUTE("GET", SAVED_PATH, PERMIT_READ, api_saved_list, .slow = true),
	NET_ROUTE("GET", SAVED_PATH "/*", PERMIT_READ, api_saved_show, .slow = true),
	NET_ROUTE("PUT", SAVED_PATH "/*", PERMIT_RECORD, api_saved_put, .slow = true, .body_max = SAVED_BYTES_MAX),
	NET_ROUTE("DELETE", SAVED_PATH "/*", PERMIT_RECORD, api_saved_remove, .slow = true),
	{0},
};
