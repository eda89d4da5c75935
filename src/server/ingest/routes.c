/* SPDX-License-Identifier: Apache-2.0 */
#include "server/ingest/routes.h"

#include "server/ingest/ingest_int.h"

const struct net_route ingest_routes[] = {
	{.method = "POST", .path = INGEST_OTLP_GRPC_PATH, .handler = ingest_otlp_grpc},
	{.method = "POST", .path = INGEST_OTLP_HTTP_PATH, .handler = ingest_otlp_http},
	{.method = "POST", .path = INGEST_PATH, .handler = ingest_profile},
	{0},
};
