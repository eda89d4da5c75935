/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http/routes.h"

const struct net_route http_routes[] = {
	{.method = "GET", .path = "/api/v1/status/buildinfo", .handler = buildinfo_show},
	{.method = "GET", .path = "/api/v1/openapi.json", .handler = openapi_show},
	{.method = "GET", .path = "/api/v1/openapi.yaml", .handler = openapi_show},
	{.method = "GET", .path = "/*", .handler = assets_show},
	{0},
};
