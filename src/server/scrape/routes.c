/* SPDX-License-Identifier: Apache-2.0 */
#include "server/scrape/routes.h"

const struct net_route scrape_routes[] = {
	{.method = "GET", .path = "/api/v1/targets", .handler = api_targets},
	{.method = "POST", .path = "/api/v1/reload", .handler = api_reload, .body_max = 65536, .slow = true},
	{0},
};
