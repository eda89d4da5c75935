/* SPDX-License-Identifier: Apache-2.0 */
/* What a server is apart from its sockets: options with their defaults, the clock, counters, the walk over its connections. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/descriptors.h"
#include "net/net_int.h"

#define ANSWER_BYTES_DEFAULT  (256 * MIB)
#define STALL_SECONDS_DEFAULT 30

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
	options->workers = options->workers ? options->workers : 4;
	options->slow_workers = options->slow_workers ? options->slow_workers : 4;
	options->slow_queue_max = options->slow_queue_max ? options->slow_queue_max : 64;
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

int server_init(struct net_server *server, const struct net_server_options *options, unsigned threads,
		void (*notify)(void *context), void *context, struct error *err)
{
	*server = (struct net_server){.options = *options};
	int r = set_defaults(&server->options, err);
	if (r < 0)
		return r;
	server->body_bytes_max = bodies_max(&server->options);
	r = workers_init(&server->workers, threads ? threads + server->options.slow_workers : 0, notify, context, err);
	if (r < 0)
		return r;
	THREAD_LOCK_SCOPE(&server->workers.lock);
	server->workers.slow_slots = server->options.slow_workers;
	server->workers.slow_queue_max = server->options.slow_queue_max;
	return 0;
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

/* A connection stays in the list until the transport releases it, which never happens inside these calls. */
void server_check_time(struct net_server *server)
{
	int64_t now_ns = server_now_ns(server);
	bool over = server->stopping && now_ns > server->stop_deadline_ns;
	for (struct net_connection *connection = server->connections; connection; connection = connection->next) {
		if (over)
			connection_close(connection);
		else
			connection_check_time(connection, now_ns);
	}
}

/* ---- descriptors ---- */

/* So many there may always be: who has no descriptors at all for clients should at least say so. */
#define CONNECTIONS_LEAST 4

/* What is left to others: the least that they ever had, and what is reserved beyond that; and more when they use much of it. */
static uint64_t descriptors_of_others(const struct net_server *server)
{
	uint64_t now = server->other_descriptors, least = server->other_descriptors_least;
	uint64_t reserved = server->options.descriptors_reserved, more = now - least + reserved / 3;
	return least + (more > reserved ? more : reserved);
}

/* What others have is counted once a second, since that may take long; connections are known. Those that are being closed
 * count until they are released: then it is one too few and never one too many. */
static bool has_few_descriptors(struct net_server *server)
{
	uint64_t connections = atomic_load_explicit(&server->stats.connections_open, memory_order_relaxed);
	int64_t now_ns = server_now_ns(server);
	if (!server->options.descriptors_reserved || connections < CONNECTIONS_LEAST)
		return false;
	if (!server->descriptors_counted_ns || now_ns - server->descriptors_counted_ns >= NS_PER_S) {
		uint64_t open = descriptors_open(), own = 0;
		for (const struct net_connection *at = server->connections; at; at = at->next)
			own += !at->closing;
		server->other_descriptors = open > own ? open - own : 0;
		if (!server->descriptors_counted_ns || server->other_descriptors < server->other_descriptors_least)
			server->other_descriptors_least = server->other_descriptors;
		server->descriptors_counted_ns = now_ns;
	}
	return descriptors_of_others(server) + connections >= descriptors_max();
}

/* Whose last byte is the longest ago. */
static struct net_connection *find_idlest(const struct net_server *server)
{
	struct net_connection *idlest = NULL;
	for (struct net_connection *at = server->connections; at; at = at->next)
		if (connection_is_idle(at) && (!idlest || at->active_ns < idlest->active_ns))
			idlest = at;
	return idlest;
}

bool server_make_room(struct net_server *server)
{
	if (!has_few_descriptors(server))
		return true;
	if (!server->had_few_descriptors && server->options.on_few_descriptors)
		server->options.on_few_descriptors(server->options.context);
	server->had_few_descriptors = true;
	struct net_connection *idlest = find_idlest(server);
	if (!idlest)
		return false;
	server_count(server, connections_evicted, 1);
	/* HTTP/2 says goodbye first. Its descriptor is free when this returns. */
	connection_stop(idlest);
	connection_close(idlest);
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
	workers_count_slow(&server->workers, &ret->slow_running, &ret->slow_waiting, &ret->slow_refused);
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
	GET(tls_failures);
#undef GET
	ret->answer_bytes = atomic_load(&server->answer_bytes);
	ret->answer_bytes_max = server->options.answer_bytes_max;
}
