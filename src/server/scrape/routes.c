/* SPDX-License-Identifier: Apache-2.0 */
#include "server/scrape/routes.h"

#include "server/core/permission.h"

const struct net_route scrape_routes[] = {
	NET_ROUTE("GET", "/api/v1/targets", PERMIT_READ, api_targets),
	NET_ROUTE("POST", "/api/v1/reload", PERMIT_ADMIN_SERVER, api_reload, .body_max = 65536, .slow = true),
	{0},
};
