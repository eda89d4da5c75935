/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http/routes.h"

#include "control/self_profile.h"

const struct net_route http_routes[] = {
	{.method = "GET", .path = "/api/v1/status/buildinfo", .handler = buildinfo_show},
	{.method = "GET", .path = "/api/v1/openapi.json", .handler = openapi_show},
	{.method = "GET", .path = "/api/v1/openapi.yaml", .handler = openapi_show},
	{.method = "GET", .path = SELF_PROFILE_INDEX, .handler = self_profile_show_index},
	{.method = "GET", .path = SELF_PROFILE_INDEX "/", .handler = self_profile_show_index},
	{.method = "GET",
	 .path = SELF_PROFILE_PATH,
	 .handler = self_profile_show,
	 .slow = true,
	 .seconds_max = SELF_PROFILE_REQUEST_SECONDS_MAX},
	{.method = "GET",
	 .path = SELF_PROFILE_HEAP_PATH,
	 .handler = self_profile_show_heap,
	 .slow = true,
	 .seconds_max = SELF_PROFILE_REQUEST_SECONDS_MAX},
	{.method = "GET",
	 .path = SELF_PROFILE_ALLOCS_PATH,
	 .handler = self_profile_show_allocs,
	 .slow = true,
	 .seconds_max = SELF_PROFILE_REQUEST_SECONDS_MAX},
	{.method = "GET", .path = "/*", .handler = assets_show},
	{0},
};
