/* SPDX-License-Identifier: Apache-2.0 */
#include "server/api/routes.h"

#include "server/core/slow.h"

const struct net_route api_routes[] = {
	NET_ROUTE("GET", "/api/v1/types", api_types, .slow = true),
	NET_ROUTE("GET", "/api/v1/labels", api_labels, .slow = true),
	NET_ROUTE("GET", "/api/v1/label-values", api_label_values, .slow = true),
	NET_ROUTE("GET", "/api/v1/label/*", api_label_values, .slow = true),
	NET_ROUTE("GET", "/api/v1/services", api_services, .slow = true),
	NET_ROUTE("GET", "/api/v1/cardinality", api_cardinality, .slow = true),
	NET_ROUTE("GET", "/api/v1/diff", api_diff, .slow = true),
	NET_ROUTE("GET", "/api/v1/compare", api_compare, .slow = true),
	NET_ROUTE("GET", "/api/v1/source", api_source, .slow = true),
	NET_ROUTE("GET", "/api/v1/asm", api_asm, .slow = true),
	NET_ROUTE("GET", "/api/v1/pipeline", api_pipeline, .slow = true),
	NET_ROUTE("POST", "/api/v1/pipeline", api_pipeline, .slow = true, .body_max = 65536),
	NET_ROUTE("GET", "/api/v1/blocks", api_blocks),
	NET_ROUTE("POST", "/api/v1/delete", api_delete, .slow = true, .seconds_max = 3600, .body_max = 65536),
	NET_ROUTE("POST", "/api/v1/compact", api_compact, .slow = true, .seconds_max = 3600, .body_max = 65536),
	NET_ROUTE("POST", "/api/v1/backup", api_backup, .slow = true, .seconds_max = 3600, .body_max = 65536),
	NET_ROUTE("GET", "/api/v1/backup/*", api_backup_file),
	NET_ROUTE("GET", "/api/v1/series", api_series, .slow = true),
	NET_ROUTE("GET", "/api/v1/query", api_query, .slow = true),
	NET_ROUTE("GET", "/api/v1/pprof", api_pprof, .slow = true),
	NET_ROUTE("GET", "/api/v1/slow", api_slow),
	NET_ROUTE("GET", "/api/v1/status", api_status),
	{0},
};
