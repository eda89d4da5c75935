/* SPDX-License-Identifier: Apache-2.0 */
#include "server/ingest/routes.h"

#include "server/core/permission.h"
#include "server/ingest/ingest_int.h"

const struct net_route otlp_routes[OTLP_ROUTES + 1] = {
	NET_ROUTE("POST", INGEST_OTLP_GRPC_PATH, PERMIT_WRITE, ingest_otlp_grpc),
	NET_ROUTE("POST", INGEST_OTLP_HTTP_PATH, PERMIT_WRITE, ingest_otlp_http),
	NET_ROUTE("POST", OTLP_LOGS_PATH, PERMIT_WRITE, ingest_drop_signal),
	NET_ROUTE("POST", OTLP_TRACES_PATH, PERMIT_WRITE, ingest_drop_signal),
	NET_ROUTE("POST", OTLP_METRICS_PATH, PERMIT_WRITE, ingest_drop_signal),
	NET_ROUTE("POST", OTLP_HTTP_LOGS_PATH, PERMIT_WRITE, ingest_drop_signal),
	NET_ROUTE("POST", OTLP_HTTP_TRACES_PATH, PERMIT_WRITE, ingest_drop_signal),
	NET_ROUTE("POST", OTLP_HTTP_METRICS_PATH, PERMIT_WRITE, ingest_drop_signal),
	{0},
};

const struct net_route ingest_routes[] = {
	NET_ROUTE("POST", INGEST_PATH, PERMIT_WRITE, ingest_profile),
	{0},
};
