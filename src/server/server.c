/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/log.h"
#include "base/time.h"
#include "control/heap_sampler.h"
#include "server/api/routes.h"
#include "server/core/server_int.h"
#include "server/debuginfo/routes.h"
#include "server/http/access.h"
#include "server/http/routes.h"
#include "server/http/rpc.h"
#include "server/ingest/ingest_int.h"
#include "server/metrics.h"
#include "server/parca/routes.h"
#include "server/pyroscope/routes.h"
#include "server/recordings/routes.h"
#include "server/saved/routes.h"
#include "server/scrape/routes.h"
#include "server/scrape/scrape.h"
#include "server/viewer/routes.h"

/* Uploads mostly wait for the disk, together; one client has all but one of them. */
#define INGEST_WORKERS 8

/* The areas; each has its routes. */
static const struct net_route root_routes[] = {
	NET_ROUTE("GET", "/metrics", PERMIT_READ_SERVER, metrics_show, .always_answered = true),
	NET_ROUTE("GET", "/healthz", PERMIT_OPEN, health_show, .on_loop = true, .body_max = 4096),
	NET_ROUTE("GET", "/readyz", PERMIT_OPEN, ready_show, .body_max = 4096),
	{0},
};
static const struct net_route *const route_tables[] = {
	ingest_routes,	   otlp_routes,	  api_routes,	 pyroscope_routes, parca_routes, debuginfo_routes,
	recordings_routes, viewer_routes, scrape_routes, saved_routes,	   http_routes,	 root_routes,
};
#define ROUTE_TABLES (sizeof(route_tables) / sizeof(*route_tables))
const struct rpc_method *const rpc_services[] = {
	rpc_parca_profiles,  rpc_pyroscope_push,   rpc_pyroscope_query, rpc_pyroscope_settings,
	rpc_pyroscope_rules, rpc_pyroscope_status, rpc_pyroscope_adhoc, rpc_pyroscope_vcs,
	rpc_parca_query,     rpc_parca_share,	   rpc_parca_targets,	NULL,
};

/* The agent of this machine sends to the tenant without a name. */
static void take_binary(struct server *server, const struct link_binary *binary, int fd)
{
	atomic_fetch_add(&server->counters.binaries_offered, 1);
	if (fd >= 0 &&
	    symbolizer_offer(server->default_tenant->symbolizer, binary->build_id, binary->content, binary->path, fd, NULL) < 0)
		atomic_fetch_add(&server->counters.binaries_refused, 1);
}

/* Reads what the agent of this machine says until it goes away; its end is the server's end. */
static void *link_thread_run(void *context)
{
	struct server *server = context;
	struct link_message message;
	struct error err = {0};
	int r, fd;
	while (fd = -1, (r = link_receive(server->link_fd, &message, &fd, &err)) > 0) {
		if (message.kind == LINK_BINARY) {
			take_binary(server, &message.binary, fd);
		} else {
			pthread_mutex_lock(&server->agent_lock);
			server->agent_stats = message.stats;
			server->agent_seen = true;
			pthread_mutex_unlock(&server->agent_lock);
		}
		io_close(fd);
	}
	if (r < 0)
		log_error("%s", err.message);
	server_stop(server);
	return NULL;
}

static int link_thread_start(struct server *server, struct error *err)
{
	if (server->link_fd < 0)
		return 0;
	int r = thread_start(&server->link_thread, "wick-link", link_thread_run, server, err);
	server->link_running = r == 0;
	return r;
}

static void link_thread_stop(struct server *server)
{
	if (!server->link_running)
		return;
	shutdown(server->link_fd, SHUT_RDWR); /* wakes the thread */
	pthread_join(server->link_thread, NULL);
	server->link_running = false;
}

void server_options_init(struct server_options *options)
{
	*options = (struct server_options){.listen = "127.0.0.1:7070", .link_fd = -1};
}

static int make_rules(struct server *server, struct error *err)
{
	size_t count = server->options.rule_count;
	server->rules = mem_zalloc_array(count, sizeof(*server->rules));
	server->rule_selectors = mem_zalloc_array(count, sizeof(*server->rule_selectors));
	if (!server->rules || !server->rule_selectors)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++) {
		struct selector *selector;
		int r = selector_parse(server->options.rules[i].selector, &selector, err);
		if (r < 0)
			return error_prefix(err, r, "retention.rules: rule %zu", i + 1);
		server->rule_selectors[i] = selector;
		server->rules[i] = (struct store_retention_rule){.series = *selector_series(selector),
								 .age_ns = server->options.rules[i].age_ns};
	}
	return 0;
}

static void free_rules(struct server *server)
{
	for (size_t i = 0; server->rule_selectors && i < server->options.rule_count; i++)
		selector_free(server->rule_selectors[i]);
	mem_free(server->rule_selectors);
	mem_free(server->rules);
}

static int open_net(struct server *server, struct error *err)
{
	size_t count = 0;
	for (size_t i = 0; i < ROUTE_TABLES; i++)
		for (const struct net_route *route = route_tables[i]; route->path; route++)
			count++;
	server->routes = mem_zalloc_array(count + rpc_route_count() + 1, sizeof(*server->routes));
	if (!server->routes)
		return error_nomem(err);
	count = 0;
	for (size_t i = 0; i < ROUTE_TABLES; i++)
		for (const struct net_route *route = route_tables[i]; route->path; route++)
			server->routes[count++] = *route;
	rpc_add_routes(server->routes + count);
	count += rpc_route_count();
	for (size_t i = 0; i < count; i++) {
		/* The compiler asks for one in NET_ROUTE(); this is for rows that are written otherwise. */
		if (!permission_roles(server->routes[i].permission))
			return error_set(err, -EINVAL, "the route %s has no permission", server->routes[i].path);
		server->routes[i].context = server;
		/* Past the longest deadline there is symbolizing and drawing to do, and before it there may have been a queue.
		 */
		if (server->routes[i].slow && !server->routes[i].seconds_max)
			server->routes[i].seconds_max = (unsigned)(server->options.query_timeout_max_ns / NS_PER_S) + 60;
	}
	struct net_server_options options = {
		.listen = server->options.listen,
		.tls = server->tls,
		.routes = server->routes,
		.path_prefix = server->options.path_prefix,
		.trusted_proxies = server->trusted_proxies,
		.body_max = server->options.body_bytes_max,
		.authorize = access_authorize,
		.on_answer = access_on_answer,
		.on_refusal = ingest_on_refusal,
		.answer_bytes_max = server->options.responses_bytes,
		.stall_seconds_max = (unsigned)((server->options.responses_stall_ns + NS_PER_S - 1) / NS_PER_S),
		.slow_workers = server->options.queries_max,
		.slow_queue_max = server->options.queries_queued_max,
		.workers = INGEST_WORKERS,
		.fair_key = tenant_fair_key,
		.fair_group = tenant_fair_group,
		.context = server,
	};
	connections_set_limits(server, &options);
	return net_server_new(&options, &server->net, err);
}

/* "" is none, as in other settings. */
static int open_proxies(struct server *server, struct error *err)
{
	struct server_options *options = &server->options;
	if (options->path_prefix && !*options->path_prefix)
		options->path_prefix = NULL;
	if (options->path_prefix && !net_path_prefix_is_valid(options->path_prefix))
		return error_set(
			err, -EINVAL,
			"path_prefix: '%.80s' must begin with '/', not end with it, and have letters, digits and -_.~ only",
			options->path_prefix);
	if (!options->trusted_proxies || !*options->trusted_proxies)
		return 0;
	int r = net_networks_parse(options->trusted_proxies, &server->trusted_proxies, err);
	return r < 0 ? error_prefix(err, r, "trusted_proxies") : 0;
}

static int open_tls(struct server *server, struct error *err)
{
	struct net_tls_options options = {.cert_file = server->options.tls_cert_file,
					  .key_file = server->options.tls_key_file,
					  .ca_file = server->options.tls_client_ca_file,
					  .peer_optional = server->options.tls_client_optional,
					  .no_resumption = server->options.no_tls_resumption};
	if (!options.cert_file && !options.key_file && !options.ca_file)
		return 0;
	if (!options.cert_file)
		return error_set(err, -EINVAL, "TLS needs a certificate: give --tls-cert FILE, or tls.cert_file");
	return net_tls_new_server(&options, &server->tls, err);
}

static void set_defaults(struct server_options *options)
{
	if (options->query_timeout_max_ns <= 0)
		options->query_timeout_max_ns = 120 * NS_PER_S;
	if (options->query_timeout_ns <= 0)
		options->query_timeout_ns = 30 * NS_PER_S;
	if (options->query_timeout_ns > options->query_timeout_max_ns)
		options->query_timeout_ns = options->query_timeout_max_ns;
	if (options->query_memory_bytes == 0)
		options->query_memory_bytes = 256 * MIB;
	if (options->slow_query_ns == 0)
		options->slow_query_ns = 5 * NS_PER_S;
	if (options->view_bytes == 0)
		options->view_bytes = 128 * MIB;
}

static int make_directory(struct server *server, struct error *err)
{
	return io_make_dirs(server->data_directory, 0750, err);
}

static int open_forward(struct server *server, struct error *err)
{
	return forward_open(server, &server->forward, err);
}

int server_new(const struct server_options *options, struct server **ret, struct error *err)
{
	static int (*const parts[])(struct server * server, struct error * err) = {access_check_options,
										   open_proxies,
										   open_tls,
										   make_rules,
										   make_directory,
										   symbols_open_debuginfod,
										   symbols_open,
										   tenants_open,
										   open_forward,
										   readiness_open,
										   access_open,
										   pyroscope_async_open,
										   open_net,
										   otlp_ports_open,
										   link_thread_start,
										   scrape_start};
	_cleanup_(server_freep) struct server *server = mem_zalloc(sizeof(*server));
	if (!server) {
		io_close(options->link_fd);
		return error_nomem(err);
	}
	heap_sampler_start(HEAP_RATE_BYTES); /* for /debug/pprof/heap; before there are threads, or much memory */
	server->options = *options;
	set_defaults(&server->options);
	server->query_memory.max_bytes = (size_t)server->options.query_memory_bytes;
	server->link_fd = options->link_fd;
	server->started_ns = time_monotonic_ns();
	pthread_mutex_init(&server->agent_lock, NULL);
	pthread_mutex_init(&server->tenants_lock, NULL);
	pthread_mutex_init(&server->slow_lock, NULL);
	pthread_mutex_init(&server->compact_turn, NULL);
	pthread_mutex_init(&server->recordings_turn, NULL);
	pthread_mutex_init(&server->view_turn, NULL);
	thread_condition_init(&server->watch_wake);
	server->slow = mem_zalloc_array(SLOW_KEPT, sizeof(*server->slow));
	server->data_directory = mem_strdup(options->data_directory);
	server->token = options->token ? mem_strdup(options->token) : NULL;
	if (!server->data_directory || (options->token && !server->token) || !server->slow)
		return error_nomem(err);
	if (getrandom(&server->clock_number, sizeof(server->clock_number), 0) < 0)
		server->clock_number = (uint64_t)time_now_ns();
	int r = 0;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && !r; i++)
		r = parts[i](server, err);
	if (r == 0)
		*ret = TAKE(server);
	return r;
}

const char *server_address(const struct server *server)
{
	return net_server_address(server->net);
}

int server_run(struct server *server, struct error *err)
{
	descriptors_check(server);
	int r = net_server_run(server->net, err);
	otlp_ports_close(server);
	link_thread_stop(server);
	scrape_stop(server);
	return r;
}

void server_stop(struct server *server)
{
	net_server_stop(server->net);
}

void server_reload(struct server *server)
{
	struct scrape *scrape = atomic_load(&server->scrape);
	if (scrape)
		scrape_reload_later(scrape);
}

struct server *server_free(struct server *server)
{
	if (!server)
		return NULL;
	link_thread_stop(server);
	scrape_stop(server);
	otlp_ports_close(server);
	server->net = net_server_free(server->net);
	server->tls = net_tls_free(server->tls);
	server->trusted_proxies = net_networks_free(server->trusted_proxies);
	pyroscope_async_close(server);			  /* they read stores, and ask for names */
	server->forward = forward_close(server->forward); /* it asks for names */
	tenants_close(server);
	readiness_close(server);
	access_close(server);
	free_rules(server);
	symbols_close(server); /* tenants take from it */
	pthread_mutex_destroy(&server->agent_lock);
	pthread_mutex_destroy(&server->tenants_lock);
	pthread_mutex_destroy(&server->slow_lock);
	pthread_mutex_destroy(&server->compact_turn);
	pthread_mutex_destroy(&server->recordings_turn);
	pthread_mutex_destroy(&server->view_turn);
	pthread_cond_destroy(&server->watch_wake);
	mem_free(server->slow);
	io_close(server->link_fd);
	mem_free(server->routes);
	mem_free(server->data_directory);
	mem_free(server->token);
	return mem_free(server);
}
