/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside src/server: the server's state, and the headers that all areas need. */
#ifndef WICK_SERVER_CORE_SERVER_INT_H
#define WICK_SERVER_CORE_SERVER_INT_H

#include <stdatomic.h>

#include "base/budget.h"
#include "base/clock_steps.h"
#include "base/log.h"
#include "base/thread.h"
#include "codec/json.h"
#include "control/link.h"
#include "net/net.h"
#include "server/core/counters.h"
#include "server/core/forward.h"
#include "server/core/limits.h"
#include "server/core/local.h"
#include "server/core/permission.h"
#include "server/core/query_budget.h"
#include "server/core/respond.h"
#include "server/core/slow.h"
#include "server/core/symbols.h"
#include "server/core/tenant.h"
#include "server/server.h"
#include "store/store.h"
#include "symbol/debuginfod.h"
#include "symbol/symbol.h"
#include "symbol/uploads.h"
#include "symbol/worker.h"

#define PATH_BYTES_MAX		4096
#define SYMBOLS_WAIT_DEFAULT_NS (250 * NS_PER_MS) /* how long an answer is held up by names that are being looked up */

#define OTLP_PORTS 2
struct server {
	struct server_options options; /* strings copied below */
	char *data_directory, *token;
	char listen_host[256];
	bool loopback_only;
	struct net_networks *trusted_proxies; /* NULL = none */
	struct local_access local;	      /* counts where loopback_only, without tokens and certificates */
	struct callers *callers;	      /* access/callers.h; NULL in tests only: `token` alone counts */
	struct audit *audit;		      /* NULL = none */
	struct uploads *uploads;	      /* of all tenants: what each may see is in its symbols_scope */
	struct build_turns *build_turns;
	const char *shared[SYMBOLS_SHARED_MAX]; /* tenants whose uploads all may use, as uploads.h has them */
	size_t shared_count;
	struct debuginfod *debuginfod; /* NULL = no servers */
	char debuginfod_problem[ERROR_MESSAGE_MAX];
	struct symbol_worker_options symbol_worker;
	struct store_retention_rule *rules;
	struct selector **rule_selectors; /* what they point into, owned */
	pthread_mutex_t tenants_lock;
	struct tenant *default_tenant; /* needs no lock */
	struct tenant **tenants;       /* entries stay until the end, the array moves */
	size_t tenant_count, tenant_capacity;
	pthread_mutex_t compact_turn; /* one store compacts at a time */
	uint64_t index_cache_bytes;   /* of all stores */
	pthread_t watch_thread;
	pthread_cond_t watch_wake; /* tenants_lock */
	bool watch_running, watch_stop;
	pthread_mutex_t slow_lock;
	struct slow_query *slow;       /* a ring of SLOW_KEPT */
	size_t slow_count;	       /* ever */
	struct net_tls *tls;	       /* NULL = none */
	struct scrape *_Atomic scrape; /* NULL = there is nothing to scrape, nor a file that could change */
	struct net_server *net;
	struct otlp_port *otlp_ports[OTLP_PORTS]; /* NULL = none */
	struct net_route *routes;
	int64_t started_ns; /* monotonic */
	struct server_counters counters;
	struct log_limit rejected_log;	/* of samples */
	struct log_limit hosts_log;	/* of labels of hosts */
	atomic_bool descriptors_logged; /* core/descriptors.c */
	struct log_limit crowd_logs[2]; /* likewise: closed, refused */
	struct readiness *readiness;	/* core/ready.c */
	struct log_limit panics_log;	/* of Parca Agents */
	atomic_bool odd_tables_logged;	/* ingest/otlp.c */
	struct forward *forward;	/* NULL = nothing is forwarded */
	atomic_size_t write_held;	/* bytes that streams of Parca's Write wait with */

	struct budget_pool query_memory; /* of all queries */
	struct async_queries *async;	 /* pyroscope/async.c */

	pthread_mutex_t recordings_turn; /* one profile of several hosts is made at a time */
	pthread_mutex_t view_turn;	 /* one file that somebody brings is read at a time */
	int link_fd;
	pthread_t link_thread;
	bool link_running;
	pthread_mutex_t agent_lock;
	bool agent_seen; /* agent_stats below are valid */
	struct link_stats agent_stats;
	/* Of the wall clock here, which agents compare theirs with; agent_lock. */
	uint64_t clock_number;
	struct clock_steps clock_steps;
	unsigned clock_step_count;
};

/* Callers have to be somebody: there are tokens. */
static inline bool server_is_restricted(const struct server *server)
{
	return server->token || server->options.tokens_file;
}

/* ---- descriptors.c ---- */
/* For struct net_server_options: how many connections there may be, and how many file descriptors they leave to the rest of the
 * server; what happens when there are no more is in the log: few descriptors once in the life of a server, closed and
 * refused connections once a minute. */
void connections_set_limits(struct server *server, struct net_server_options *options);
/* The same at the start, if the limit of descriptors is small. */
void descriptors_check(struct server *server);

/* ---- ready.c ---- */
int readiness_open(struct server *server, struct error *err);
void readiness_close(struct server *server);
/* Whether what comes can be stored: -EIO, -ENOSPC, -EROFS ..., with a reason that can be told to anybody. Tries it by writing,
 * once a second at most. */
int readiness_check(struct server *server, struct error *err);

#endif
