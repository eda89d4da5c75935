/* SPDX-License-Identifier: Apache-2.0 */
#include "server/api/routes.h"

#include "server/core/slow.h"

const struct net_route api_routes[] = {
	{.method = "GET", .path = "/api/v1/types", .handler = api_types, .slow = true},
	{.method = "GET", .path = "/api/v1/labels", .handler = api_labels, .slow = true},
	{.method = "GET", .path = "/api/v1/label-values", .handler = api_label_values, .slow = true},
	{.method = "GET", .path = "/api/v1/label/*", .handler = api_label_values, .slow = true},
	{.method = "GET", .path = "/api/v1/services", .handler = api_services, .slow = true},
	{.method = "GET", .path = "/api/v1/cardinality", .handler = api_cardinality, .slow = true},
	{.method = "GET", .path = "/api/v1/diff", .handler = api_diff, .slow = true},
	{.method = "GET", .path = "/api/v1/compare", .handler = api_compare, .slow = true},
	{.method = "GET", .path = "/api/v1/source", .handler = api_source, .slow = true},
	{.method = "GET", .path = "/api/v1/asm", .handler = api_asm, .slow = true},
	{.method = "GET", .path = "/api/v1/pipeline", .handler = api_pipeline, .slow = true},
	{.method = "POST", .path = "/api/v1/pipeline", .handler = api_pipeline, .slow = true, .body_max = 65536},
	{.method = "GET", .path = "/api/v1/blocks", .handler = api_blocks},
	{.method = "POST",
	 .path = "/api/v1/delete",
	 .handler = api_delete,
	 .slow = true,
	 .seconds_max = 3600,
	 .body_max = 65536},
	{.method = "POST",
	 .path = "/api/v1/compact",
	 .handler = api_compact,
	 .slow = true,
	 .seconds_max = 3600,
	 .body_max = 65536},
	{.method = "GET", .path = "/api/v1/series", .handler = api_series, .slow = true},
	{.method = "GET", .path = "/api/v1/query", .handler = api_query, .slow = true},
	{.method = "GET", .path = "/api/v1/pprof", .handler = api_pprof, .slow = true},
	{.method = "GET", .path = "/api/v1/slow", .handler = api_slow},
	{.method = "GET", .path = "/api/v1/status", .handler = api_status},
	{0},
};
