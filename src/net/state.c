/* SPDX-License-Identifier: Apache-2.0 */
/* What a server is apart from its sockets: options with their defaults, the clock, counters, the walk over its connections. */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "net/net_int.h"

#define ANSWER_BYTES_DEFAULT  (256 * MIB)
#define STALL_SECONDS_DEFAULT 30

atomic_size_t net_connections_open;

static int set_defaults(struct net_server_options *options, struct error *err)
{
	if (!options->routes)
		return error_set(err, -EINVAL, "a server needs a table of routes");
	for (const struct net_route *route = options->routes; route->path; route++)
		if (!route->handler == !route->stream)
			return error_set(err, -EINVAL, "route %s needs a handler or a stream handler, not both", route->path);
	if (options->header_max == 0)
		options->header_max = LIMIT_HTTP_HEADER_BYTES;
	if (options->header_max > NET_HEADER_BYTES_CEILING)
		return error_set(err, -EINVAL, "header_max may be at most %llu bytes", NET_HEADER_BYTES_CEILING);
	options->body_max = options->body_max ? options->body_max : LIMIT_PROFILE_INPUT_BYTES;
	options->connections_max = options->connections_max ? options->connections_max : LIMIT_CONNECTIONS;
	if (!options->connections_per_address_max)
		options->connections_per_address_max = options->connections_max / 4 > 64 ? options->connections_max / 4 : 64;
	options->workers = options->workers ? options->workers : 4;
	options->slow_workers = options->slow_workers ? options->slow_workers : 4;
	options->slow_queue_max = options->slow_queue_max ? options->slow_queue_max : 64;
	if (options->workers > NET_FAST_WORKERS_MAX)
		return error_set(err, -EINVAL, "at most %d requests can run at a time", NET_FAST_WORKERS_MAX);
	if (options->slow_workers > NET_SLOW_WORKERS_MAX)
		return error_set(err, -EINVAL, "at most %d requests of slow routes can run at a time", NET_SLOW_WORKERS_MAX);
	options->answer_bytes_max = options->answer_bytes_max ? options->answer_bytes_max : ANSWER_BYTES_DEFAULT;
	options->stall_seconds_max = options->stall_seconds_max ? options->stall_seconds_max : STALL_SECONDS_DEFAULT;
	options->request_seconds_max = options->request_seconds_max ? options->request_seconds_max : LIMIT_REQUEST_SECONDS;
	options->idle_seconds_max = options->idle_seconds_max ? options->idle_seconds_max : 120;
	return 0;
}

/* All bodies together must leave room for a few of the largest. */
static size_t bodies_max(const struct net_server_options *options)
{
	size_t largest = options->body_max, total;
	for (const struct net_route *route = options->routes; route->path; route++)
		largest = route->body_max > largest ? route->body_max : largest;
	return __builtin_mul_overflow(largest, (size_t)NET_BODIES_FACTOR, &total) ? SIZE_MAX / 2 : total;
}

/* TLS handshakes at a time: they compute and wait for nothing. */
static unsigned handshakes_max(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	return cpus < 2 ? 2 : cpus > 4 ? 4 : (unsigned)cpus;
}

int server_init(struct net_server *server, const struct net_server_options *options, unsigned threads,
		void (*notify)(void *context), void *context, struct error *err)
{
	*server = (struct net_server){.options = *options};
	int r = set_defaults(&server->options, err);
	if (r < 0)
		return r;
	server->body_bytes_max = bodies_max(&server->options);
	if (peers_init(&server->peers, server->options.connections_max) < 0)
		return error_nomem(err);
	unsigned handshakes = options->tls ? handshakes_max() : 0;
	r = workers_init(&server->workers, threads ? threads + server->options.slow_workers + handshakes : 0, notify, context,
			 err);
	if (r < 0) {
		peers_release(&server->peers);
		return r;
	}
	THREAD_LOCK_SCOPE(&server->workers.lock);
	server->workers.slots[NET_JOB_SLOW] = server->options.slow_workers;
	server->workers.slots[NET_JOB_HANDSHAKE] = handshakes;
	server->workers.queue_max[NET_JOB_SLOW] = server->options.slow_queue_max;
	return 0;
}

void server_release(struct net_server *server)
{
	workers_release(&server->workers);
	peers_release(&server->peers);
}

int64_t server_now_ns(const struct net_server *server)
{
	return server->fake_now_ns ? server->fake_now_ns : time_monotonic_ns();
}

/* "Sun, 06 Nov 1994 08:49:37 GMT"; not strftime(), which speaks the locale's language. */
const char *server_date(struct net_server *server)
{
	static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	time_t now = (time_t)(time_now_ns() / NS_PER_S);
	struct tm tm;
	if ((server->date_s == now && server->date[0]) || !gmtime_r(&now, &tm))
		return server->date;
	server->date_s = now;
	snprintf(server->date, sizeof(server->date), "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * tm.tm_wday,
		 tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
	return server->date;
}

#define QUIET_NS NS_PER_S

/* A connection stays in the list until the transport releases it, which never happens inside these calls. */
void server_check_time(struct net_server *server)
{
	int64_t now_ns = server_now_ns(server);
	bool over = server->stopping && now_ns > server->stop_deadline_ns;
	for (struct net_connection *connection = server->connections; connection; connection = connection->next) {
		if (over) {
			connection_close(connection);
		} else if (now_ns >= connection->check_ns) {
			connection_check_time(connection, now_ns);
			/* Of one that is idle nothing can be due soon, and there may be very many. */
			bool is_quiet = !connection->exchanges && !connection->write_pending && !connection->lingering &&
					connection->protocol;
			connection->check_ns = is_quiet ? now_ns + QUIET_NS : 0;
		}
	}
	atomic_store_explicit(&server->stats.connections_unknown, server->peers.unknown_count, memory_order_relaxed);
	atomic_store_explicit(&server->stats.addresses, server->peers.addresses, memory_order_relaxed);
}

/* ---- room for connections ---- */

/* So many there may always be: who has no descriptors at all for clients should at least say so. */
#define CONNECTIONS_LEAST 4

const char *const net_limit_names[NET_LIMITS] = {
	[NET_LIMIT_DESCRIPTORS] = "descriptors",
	[NET_LIMIT_TOTAL] = "total",
	[NET_LIMIT_ADDRESS] = "address",
	[NET_LIMIT_UNKNOWN] = "unauthenticated",
};

/* What is left to others: the least that they ever had, and what is reserved beyond that; and more when they use much of it. */
static uint64_t descriptors_of_others(const struct net_server *server)
{
	uint64_t now = server->other_descriptors, least = server->other_descriptors_least;
	uint64_t reserved = server->options.descriptors_reserved, more = now - least + reserved / 3;
	return least + (more > reserved ? more : reserved);
}

/* What others have is counted once a second, since that may take long; connections are known, also those of other servers of
 * this process: two that fill up at the same time must not find that out a second too late. */
static bool has_few_descriptors(struct net_server *server)
{
	uint64_t connections = server->peers.count;
	int64_t now_ns = server_now_ns(server);
	if (!server->options.descriptors_reserved || connections < CONNECTIONS_LEAST)
		return false;
	if (!server->descriptors_counted_ns || now_ns - server->descriptors_counted_ns >= NS_PER_S) {
		uint64_t open = descriptors_open(), own = atomic_load(&net_connections_open);
		server->other_descriptors = open > own ? open - own : 0;
		if (!server->descriptors_counted_ns || server->other_descriptors < server->other_descriptors_least)
			server->other_descriptors_least = server->other_descriptors;
		server->descriptors_counted_ns = now_ns;
	}
	return descriptors_of_others(server) + atomic_load(&net_connections_open) >= descriptors_max();
}

/* The limit that leaves no room for one more connection of the address; NET_LIMITS = none. */
static enum net_limit find_limit(struct net_server *server, const struct net_peer *peer)
{
	const struct net_server_options *options = &server->options;
	if (peer && peer->connection_count >= options->connections_per_address_max)
		return NET_LIMIT_ADDRESS;
	if (options->connections_unknown_max && server->peers.unknown_count >= options->connections_unknown_max)
		return NET_LIMIT_UNKNOWN;
	if (server->peers.count >= options->connections_max)
		return NET_LIMIT_TOTAL;
	return has_few_descriptors(server) ? NET_LIMIT_DESCRIPTORS : NET_LIMITS;
}

/* For the limits of all, strangers go first where there are others. Whoever has more connections than the one that would go
 * gets none for it: else a crowd that is at work would take the place of all who are quiet. */
static struct net_connection *find_victim(struct net_server *server, enum net_limit limit, const struct net_peer *peer)
{
	struct net_peers *peers = &server->peers;
	int64_t now_ns = server_now_ns(server);
	struct net_connection *victim = NULL;
	if (limit == NET_LIMIT_ADDRESS)
		return peers_find_victim(peers, NET_LIST_ADDRESS, peer, now_ns);
	if (server->options.connections_unknown_max)
		victim = peers_find_victim(peers, NET_LIST_UNKNOWN, NULL, now_ns);
	if (!victim && limit != NET_LIMIT_UNKNOWN)
		victim = peers_find_victim(peers, NET_LIST_ALL, NULL, now_ns);
	return victim && (!peer || peer->connection_count <= victim->address->connection_count) ? victim : NULL;
}

static void note_few_descriptors(struct net_server *server)
{
	if (!server->had_few_descriptors && server->options.on_few_descriptors)
		server->options.on_few_descriptors(server->options.context);
	server->had_few_descriptors = true;
}

bool server_make_room(struct net_server *server, uint64_t peer_key, const char *peer_address)
{
	const struct net_server_options *options = &server->options;
	/* Making room within one limit makes it within those that come after it, but for that of descriptors. */
	for (unsigned tries = 0; tries < 2; tries++) {
		const struct net_peer *peer = peers_find(&server->peers, peer_key);
		enum net_limit limit = find_limit(server, peer);
		if (limit == NET_LIMITS)
			return true;
		if (limit == NET_LIMIT_DESCRIPTORS)
			note_few_descriptors(server);
		struct net_connection *victim = find_victim(server, limit, peer);
		if (victim)
			server_count(server, connections_evicted, 1);
		server_count(server, refused_for[limit], !victim);
		server_count(server, evicted_for[limit], victim != NULL);
		if (options->on_crowd)
			options->on_crowd(options->context, limit, !victim, peer_address);
		if (!victim)
			return false;
		/* HTTP/2 says goodbye first. Its descriptor is free when this returns. */
		connection_stop(victim);
		connection_close(victim);
	}
	return true;
}

void server_stop_connections(struct net_server *server)
{
	if (server->stopping)
		return;
	server->stopping = true;
	server->stop_deadline_ns = server_now_ns(server) + NET_STOP_NS;
	for (struct net_connection *connection = server->connections; connection; connection = connection->next)
		connection_stop(connection);
}

const char *net_server_address(const struct net_server *server)
{
	return server->address;
}

void net_server_get_stats(struct net_server *server, struct net_server_stats *ret)
{
	const struct net_server_stats *stats = &server->stats;
	struct net_workers *workers = &server->workers;
	workers_count(workers, NET_JOB_SLOW, &ret->slow_running, &ret->slow_waiting, &ret->slow_refused);
	workers_count(workers, NET_JOB_FAST, &ret->fast_running, &ret->fast_waiting, &ret->fast_refused);
	workers_count(workers, NET_JOB_HANDSHAKE, &ret->tls_running, &ret->tls_waiting, &ret->tls_refused);
	ret->connections_max = server->options.connections_max;
	ret->connections_per_address_max = server->options.connections_per_address_max;
	ret->connections_unknown_max = server->options.connections_unknown_max;
#define GET(field) ret->field = atomic_load_explicit(&stats->field, memory_order_relaxed)
	GET(connections_accepted);
	GET(connections_refused);
	GET(connections_open);
	GET(connections_evicted);
	GET(requests);
	GET(requests_open);
	GET(bytes_received);
	GET(bytes_sent);
	GET(errors_4xx);
	GET(errors_5xx);
	GET(protocol_errors);
	GET(timeouts);
	GET(answers_streamed);
	GET(answers_refused);
	GET(answers_broken);
	GET(answers_stalled);
	GET(tls_handshakes);
	GET(tls_resumed);
	GET(tls_failures);
	GET(tls_timeouts);
	GET(connections_unknown);
	GET(addresses);
	for (size_t i = 0; i < NET_LIMITS; i++) {
		GET(evicted_for[i]);
		GET(refused_for[i]);
	}
#undef GET
	ret->answer_bytes = atomic_load(&server->answer_bytes);
	ret->answer_bytes_max = server->options.answer_bytes_max;
}
