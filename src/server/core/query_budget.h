/* SPDX-License-Identifier: Apache-2.0 */
/* What the answer to a query may take of memory and time (query_budget.c). */
#ifndef WICK_SERVER_CORE_QUERY_BUDGET_H
#define WICK_SERVER_CORE_QUERY_BUDGET_H

#include "net/net.h"
#include "query/query.h"
#include "server/core/tenant.h"

struct server;

/* What the query, whose deadline and cancellation are known, may use. It refers to query->cancel. */
void query_budget_make(struct server *server, const struct tenant *tenant, const struct query *query, struct budget *ret);
/* From here on until the answer is complete the thread is held to it. -ENOMEM. */
int query_budget_begin(struct server *server, const struct tenant *tenant, const struct query *query,
		       struct net_response *response, struct error *err);
/*
 * r of the work, or why it was ended: -E2BIG, -EDQUOT, -ECANCELED or -ETIME with the text in err, counted, and the answer's
 * headers say which limit it was. Then the thread is not held to it any more, and the text can be written. tenant, budget and
 * response: NULL = none. More work may follow while r is 0, and be asked about again.
 */
int query_budget_end(struct server *server, struct tenant *tenant, struct budget *budget, struct net_response *response, int r,
		     struct error *err);

#endif
