/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server does with few file descriptors, and with many connections. The store opens files for as long as it reads or
 * writes them, and must never fail to do so for the sake of a client: so connections leave it some, which is what a merge of
 * blocks takes (their number follows from the limit, too: compact.c) and the queries that run beside it. Within a small limit
 * that is half of them.
 */
#include "base/descriptors.h"
#include "base/limits.h"
#include "base/log.h"
#include "server/core/server_int.h"

#define RESERVED_LEAST 24
#define RESERVED_MOST  512
#define FEW	       512 /* what is less is worth a line at the start */

static unsigned descriptors_reserved(void)
{
	uint64_t part = descriptors_max() / 4;
	return part < RESERVED_LEAST ? RESERVED_LEAST : part > RESERVED_MOST ? RESERVED_MOST : (unsigned)part;
}

static void note_few(void *context)
{
	struct server *server = context;
	if (atomic_exchange(&server->descriptors_logged, true))
		return;
	log_warn("the limit of %llu file descriptors, of which %llu are open, leaves room for few connections: idle ones are "
		 "closed for others; raise it (ulimit -n, LimitNOFILE= in a unit of systemd)",
		 (unsigned long long)descriptors_max(), (unsigned long long)descriptors_open());
}

/* A line a minute of each kind, however many come. */
static void note_crowd(void *context, enum net_limit limit, bool refused, const char *address)
{
	struct server *server = context;
	uint64_t count;
	if (!log_limit_add(&server->crowd_logs[refused], 1, &count))
		return;
	log_warn("too many connections (limit: %s): %llu %s, the last one for one from %s; see connections.max in "
		 "wick-server(1)",
		 net_limit_names[limit], (unsigned long long)count,
		 refused ? "rejected, since all others are at work" : "idle ones closed for others", *address ? address : "?");
}

void connections_set_limits(struct server *server, struct net_server_options *options)
{
	const struct server_options *own = &server->options;
	unsigned most = own->connections_max ? own->connections_max : LIMIT_CONNECTIONS;
	options->connections_max = most;
	options->connections_per_address_max = own->connections_per_address;
	if (server_is_restricted(server) || own->tls_client_ca_file)
		options->connections_unknown_max = own->connections_unauthenticated ? own->connections_unauthenticated
						   : most / 4 > 4		    ? most / 4
										    : 4;
	options->descriptors_reserved = descriptors_reserved();
	options->on_few_descriptors = note_few;
	options->on_crowd = note_crowd;
}

void descriptors_check(struct server *server)
{
	if (descriptors_max() < FEW)
		note_few(server);
}
