/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agents that a tenant has, and how each said it is (control/health.h), for as long as a day after it fell silent. One
 * struct a tenant, in memory only: agents say it again when the server was started anew. It knows nothing of HTTP, and of time
 * only what it is told, by one clock that only goes forward. Thread-safe.
 *
 * An agent is one run of it: what is started anew on the same host is another one, which takes the place of those of that host
 * that are silent.
 */
#ifndef WICK_SERVER_STORES_AGENTS_H
#define WICK_SERVER_STORES_AGENTS_H

#include "base/cleanup.h"
#include "base/error.h"
#include "control/orders.h"

/* LIMITs. Those that were silent for the longest make room; without any, the newest has none. */
#define AGENTS_MAX	 4096
#define AGENTS_BYTES_MAX (8ull << 20) /* of all that they say of themselves */
#define AGENTS_STALE_NS	 (30 * 1000000000ll)
#define AGENTS_KEPT_NS	 (24 * 3600 * 1000000000ll) /* after they were heard last */

struct agents;
struct agents *agents_new(void); /* NULL without memory */
struct agents *agents_free(struct agents *agents);

/* One that asked just now; health NULL = it said nothing new of itself. -ENOMEM, -EDQUOT: it is not kept, or not its health. */
int agents_note(struct agents *agents, const struct orders_question *question, const struct health *health, int64_t now_ns,
		struct error *err);

struct agent_seen {
	char agent[ORDERS_ID_SIZE], host[ORDERS_HOST_SIZE], wick[ORDERS_CLOCK_SIZE];
	int64_t heard_ns;
	bool is_silent;	   /* for more than AGENTS_STALE_NS, and no other one of its host was heard of since */
	char *health;	   /* a JSON object; NULL = it said none */
	int64_t health_ns; /* when */
};
/* A copy, by host; of each host those that are heard of, or else those that are silent. *ret_list from mem_alloc(), for
 * agents_list_free(). */
int agents_list(struct agents *agents, int64_t now_ns, struct agent_seen **ret_list, size_t *ret_count, struct error *err);
void agents_list_free(struct agent_seen *list, size_t count);

#endif
