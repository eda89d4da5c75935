/* SPDX-License-Identifier: Apache-2.0 */
/* The account of queries, and the list of those that took long (slow.c). */
#ifndef WICK_SERVER_CORE_SLOW_H
#define WICK_SERVER_CORE_SLOW_H

#include "query/query.h"
#include "server/core/tenant.h"

#define SLOW_KEPT	32
#define SLOW_TEXT_BYTES 1024
struct slow_query {
	int64_t at_ns, took_ns; /* when it ended */
	char tenant[TENANT_NAME_MAX + 1], path[80], text[SLOW_TEXT_BYTES], problem[ERROR_MESSAGE_MAX];
	bool partial;
	struct query_stats stats;
};

/* Adds to a query's account: counters of server and tenant, the log and the list of slow ones. tenant, request (of what runs in
 * the background) and err may be NULL. */
void query_account(struct server *server, struct tenant *tenant, const struct net_request *request,
		   const struct query_stats *stats, int64_t took_ns, int r, const struct error *err);

extern net_handler_function api_slow;

#endif
