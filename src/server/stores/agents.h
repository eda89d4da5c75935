/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agents of a tenant with the health that each reported last (control/health.h), for a day after the last poll. One
 * struct a tenant, in memory only: agents report it again after a restart of the server. It knows nothing of HTTP, and callers
 * pass the time, of one clock that only goes forward. Thread-safe.
 *
 * An agent is one run of it: what is started anew on the same host is another one, which takes the place of those of that host
 * that are silent.
 */
#ifndef WICK_SERVER_STORES_AGENTS_H
#define WICK_SERVER_STORES_AGENTS_H

#include "base/cleanup.h"
#include "base/error.h"
#include "control/protocol.h"

/* LIMITs. Those that were silent for the longest make room; without any, the newest has none. */
#define AGENTS_MAX	 4096
#define AGENTS_BYTES_MAX (8ull << 20) /* of all that they report */
#define AGENTS_STALE_NS	 (30 * 1000000000ll)
#define AGENTS_KEPT_NS	 (24 * 3600 * 1000000000ll) /* after the last poll */

struct agents;
struct agents *agents_new(void); /* NULL without memory */
struct agents *agents_free(struct agents *agents);

/* One that polled just now; health NULL = it reported none. -ENOMEM, -EDQUOT: it is not kept, or not its health. */
int agents_note(struct agents *agents, const struct control_poll *poll, const struct health *health, int64_t now_ns,
		struct error *err);

struct agent_seen {
	char agent[CONTROL_ID_SIZE], host[CONTROL_HOST_SIZE], wick[CONTROL_CLOCK_SIZE];
	int64_t polled_ns;
	bool is_silent;	   /* for more than AGENTS_STALE_NS, and no other one of its host has polled since */
	char *health;	   /* a JSON object; NULL = none reported */
	int64_t health_ns; /* when */
};
/* A copy, by host; of each host those that poll, or else those that are silent. *ret_list from mem_alloc(), for
 * agents_list_free(). */
int agents_list(struct agents *agents, int64_t now_ns, struct agent_seen **ret_list, size_t *ret_count, struct error *err);
void agents_list_free(struct agent_seen *list, size_t count);

#endif
