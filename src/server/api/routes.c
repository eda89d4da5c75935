/* SPDX-License-Identifier: Apache-2.0 */
#include "server/api/routes.h"

#include "server/core/permission.h"
#include "server/core/slow.h"

const struct net_route api_routes[] = {
	NET_ROUTE("GET", "/api/v1/types", PERMIT_READ, api_types, .slow = true),
	NET_ROUTE("GET", "/api/v1/labels", PERMIT_READ, api_labels, .slow = true),
	NET_ROUTE("GET", "/api/v1/label-values", PERMIT_READ, api_label_values, .slow = true),
	NET_ROUTE("GET", "/api/v1/label/*", PERMIT_READ, api_label_values, .slow = true),
	NET_ROUTE("GET", "/api/v1/services", PERMIT_READ, api_services, .slow = true),
	NET_ROUTE("GET", "/api/v1/cardinality", PERMIT_READ, api_cardinality, .slow = true),
	NET_ROUTE("GET", "/api/v1/diff", PERMIT_READ, api_diff, .slow = true),
	NET_ROUTE("GET", "/api/v1/compare", PERMIT_READ, api_compare, .slow = true),
	NET_ROUTE("GET", "/api/v1/source", PERMIT_READ, api_source, .slow = true),
	NET_ROUTE("GET", "/api/v1/asm", PERMIT_READ, api_asm, .slow = true),
	NET_ROUTE("GET", "/api/v1/pipeline", PERMIT_READ, api_pipeline, .slow = true),
	NET_ROUTE("POST", "/api/v1/pipeline", PERMIT_READ, api_pipeline, .slow = true, .body_max = 65536),
	NET_ROUTE("GET", "/api/v1/blocks", PERMIT_READ, api_blocks),
	NET_ROUTE("POST", "/api/v1/delete", PERMIT_ADMIN, api_delete, .slow = true, .seconds_max = 3600, .body_max = 65536),
	NET_ROUTE("POST", "/api/v1/compact", PERMIT_ADMIN, api_compact, .slow = true, .seconds_max = 3600, .body_max = 65536),
	NET_ROUTE("POST", "/api/v1/backup", PERMIT_ADMIN, api_backup, .slow = true, .seconds_max = 3600, .body_max = 65536),
	NET_ROUTE("GET", "/api/v1/backup/*", PERMIT_ADMIN, api_backup_file),
	NET_ROUTE("GET", "/api/v1/series", PERMIT_READ, api_series, .slow = true),
	NET_ROUTE("GET", "/api/v1/query", PERMIT_READ, api_query, .slow = true),
	NET_ROUTE("GET", "/api/v1/pprof", PERMIT_READ, api_pprof, .slow = true),
	NET_ROUTE("GET", "/api/v1/slow", PERMIT_READ, api_slow),
	NET_ROUTE("GET", "/api/v1/status", PERMIT_READ, api_status),
	{0},
};
