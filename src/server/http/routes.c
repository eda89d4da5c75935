/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http/routes.h"

#include "control/self_profile.h"
#include "server/core/permission.h"

const struct net_route http_routes[] = {
	NET_ROUTE("GET", "/api/v1/status/buildinfo", PERMIT_READ, buildinfo_show),
	NET_ROUTE("GET", "/api/v1/openapi.json", PERMIT_READ, openapi_show),
	NET_ROUTE("GET", "/api/v1/openapi.yaml", PERMIT_READ, openapi_show),
	SELF_PROFILE_ROUTES(PERMIT_READ_SERVER),
	NET_ROUTE("GET", "/*", PERMIT_READ, assets_show),
	{0},
};
