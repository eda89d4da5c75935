/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and handlers: profiles that come in. The context of a handler is the struct server. */
#ifndef WICK_SERVER_INGEST_ROUTES_H
#define WICK_SERVER_INGEST_ROUTES_H

#include "net/net.h"

/* Each ends with a row without a path. Those of OTLP have ports of their own as well. */
#define OTLP_ROUTES 8
extern const struct net_route ingest_routes[], otlp_routes[OTLP_ROUTES + 1];

extern net_handler_function ingest_otlp_grpc, ingest_otlp_http, ingest_drop_signal, ingest_profile;

#endif
