/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http/routes.h"

#include "control/self_profile.h"

const struct net_route http_routes[] = {
	NET_ROUTE("GET", "/api/v1/status/buildinfo", buildinfo_show),
	NET_ROUTE("GET", "/api/v1/openapi.json", openapi_show),
	NET_ROUTE("GET", "/api/v1/openapi.yaml", openapi_show),
	SELF_PROFILE_ROUTES,
	NET_ROUTE("GET", "/*", assets_show),
	{0},
};
