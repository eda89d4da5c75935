/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of a query: what its stacks, trees and answer may take of memory, and how long it may be made.
 *
 * Memory: `query_memory` of the tenant for one query, `queries.memory` for all of them together. Reading stops at a part of
 * it, and the answer is of what was read, marked as partial (store/read). What is made of that, and does not fit either,
 * fails as a whole: a tree or a table that lacks some of its nodes would be wrong. A query that fails by its own limit would
 * fail again: 413. One that fails because others have the memory may be repeated: 429.
 *
 * Time: reading ends by the deadline. A partial answer is made of what was read, so what comes after reading has ANSWER_NS
 * more. Whatever it is at when the client leaves ends at its next allocation or poll.
 */
#include "server/core/query_budget.h"

#include <errno.h>

#include "base/text.h"
#include "base/time.h"
#include "server/core/server_int.h"

#define ANSWER_NS     (10 * NS_PER_S)
#define RETRY_AFTER_S "2"

void query_budget_make(struct server *server, const struct tenant *tenant, const struct query *query, struct budget *ret)
{
	uint64_t max = tenant->limits.query_memory ? tenant->limits.query_memory : SERVER_QUERY_MEMORY_DEFAULT;
	size_t all = server->query_memory.max_bytes;
	/* Who asks alone for more than there is for all would be told for ever to come again. */
	*ret = (struct budget){.pool = &server->query_memory,
			       .max_bytes = all && max > all ? all : (size_t)max,
			       .cancel = query->cancel,
			       .deadline_ns = query->deadline_ns ? query->deadline_ns + ANSWER_NS : 0};
}

int query_budget_begin(struct server *server, const struct tenant *tenant, const struct query *query,
		       struct net_response *response, struct error *err)
{
	struct budget like;
	query_budget_make(server, tenant, query, &like);
	return net_response_limit(response, &like) < 0 ? error_nomem(err) : 0;
}

static void name_limit(struct net_response *response, const char *limit, const char *retry_after)
{
	if (!response)
		return;
	net_response_header(response, "X-Wick-Limit", limit);
	if (retry_after)
		net_response_header(response, "Retry-After", retry_after);
}

static int explain(const struct server *server, const struct budget *budget, enum budget_end end, struct net_response *response,
		   struct error *err)
{
	char size[TEXT_NUMBER_MAX];
	switch (end) {
	case BUDGET_SPENT:
		name_limit(response, "query_memory", NULL);
		return error_set(
			err, -E2BIG,
			"limit query_memory: the answer needs more than %s of memory; narrow the selector or the range, "
			"or raise limits.query_memory",
			text_format_size(budget->max_bytes, size));
	case BUDGET_POOL_SPENT:
		name_limit(response, "queries.memory", RETRY_AFTER_S);
		return error_set(err, -EDQUOT,
				 "limit queries.memory: all queries together need more than %s of memory; try again in %s s",
				 text_format_size(server->query_memory.max_bytes, size), RETRY_AFTER_S);
	case BUDGET_LATE: return error_set(err, -ETIME, "the deadline passed before the result was complete");
	case BUDGET_CANCELLED:
	case BUDGET_OPEN: break;
	}
	return error_set(err, -ECANCELED, "the query was cancelled");
}

static void count(struct server_counters *counters, enum budget_end end)
{
	atomic_fetch_add(&counters->query_memory_refused, end == BUDGET_SPENT);
	atomic_fetch_add(&counters->query_memory_total_refused, end == BUDGET_POOL_SPENT);
}

int query_budget_end(struct server *server, struct tenant *tenant, struct budget *budget, struct net_response *response, int r,
		     struct error *err)
{
	enum budget_end end = budget ? budget->end : BUDGET_OPEN;
	if (budget_current() != budget || !budget)
		return r; /* it has been asked about */
	if (r == 0 && end == BUDGET_OPEN)
		return 0;
	if (response)
		net_response_unlimit(response);
	else
		budget_leave(NULL);
	/* Also when it seems to have succeeded: something may have done without what it could not have. And what fails for a
	 * reason of its own keeps that. */
	if (end == BUDGET_OPEN || (r < 0 && r != -ENOMEM))
		return r;
	count(&server->counters, end);
	if (tenant)
		count(&tenant->counters, end);
	return explain(server, budget, end, response, err);
}
