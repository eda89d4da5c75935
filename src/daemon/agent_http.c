/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/agent_http.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time.h"
#include "control/agent_metrics.h"
#include "control/metric_text.h"
#include "control/self_profile.h"
#include "net/net.h"

#define ROUTES_MAX 7
struct agent_http {
	struct net_route routes[ROUTES_MAX + 1];
	struct net_server *server;
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock;
	/* Under the lock. */
	struct link_stats stats;
	int64_t updated_ns; /* CLOCK_MONOTONIC; at first when it started */
};

static void show_metrics(void *context, const struct net_request *request, struct net_response *response)
{
	struct agent_http *http = context;
	struct buffer *m = &response->body;

	pthread_mutex_lock(&http->lock);
	struct link_stats stats = http->stats;
	pthread_mutex_unlock(&http->lock);
	response->content_type = "text/plain; version=0.0.4; charset=utf-8";
	metric_head(m, "wick_build_info", "gauge", "Version of the agent.");
	metric_of(m, "wick_build_info", "version", WICK_VERSION, 1);
	agent_metrics_write(m, &stats);
	if (buffer_status(m) < 0)
		response->status = 500;
}

static void show_health(void *context, const struct net_request *request, struct net_response *response)
{
	struct agent_http *http = context;

	pthread_mutex_lock(&http->lock);
	int64_t silent_s = (time_monotonic_ns() - http->updated_ns) / NS_PER_S;
	pthread_mutex_unlock(&http->lock);
	response->content_type = "text/plain; charset=utf-8";
	if (silent_s <= AGENT_HTTP_SILENT_SECONDS) {
		buffer_append_string(&response->body, "ok\n");
		return;
	}
	response->status = 503;
	buffer_printf(&response->body, "nothing has been sampled for %lld s\n", (long long)silent_s);
}

static void *serve(void *context)
{
	struct agent_http *http = context;
	struct error err = {0};

	if (net_server_run(http->server, &err) < 0)
		log_warn("metrics are no longer served: %s", err.message);
	return NULL;
}

static const struct net_route routes[] = {
	NET_ROUTE("GET", "/metrics", 0, show_metrics),
	NET_ROUTE("GET", "/healthz", 0, show_health),
	SELF_PROFILE_ROUTES(0),
};
#define ROUTES (sizeof(routes) / sizeof(*routes))
_Static_assert(ROUTES == ROUTES_MAX, "the agent's routes have no room");

bool agent_http_is_off(const char *listen)
{
	const char *port = strrchr(listen, ':');
	port = port ? port + 1 : listen;
	return *port && strspn(port, "0") == strlen(port);
}

int agent_http_new(const char *listen, struct agent_http **ret, struct error *err)
{
	_cleanup_(agent_http_freep) struct agent_http *http = mem_zalloc(sizeof(*http));
	if (!http)
		return error_nomem(err);
	pthread_mutex_init(&http->lock, NULL);
	http->updated_ns = time_monotonic_ns();
	for (size_t i = 0; i < ROUTES; i++) {
		http->routes[i] = routes[i];
		http->routes[i].context = http;
	}
	struct net_server_options options = {.listen = listen,
					     .routes = http->routes,
					     .body_max = 4096,
					     .connections_max = 16,
					     .workers = 1,
					     .slow_workers = 1,
					     .request_seconds_max = 10};
	int r = net_server_new(&options, &http->server, err);
	if (r == 0)
		r = thread_start(&http->thread, "wick-metrics", serve, http, err);
	if (r < 0)
		return r;
	http->runs = true;
	*ret = TAKE(http);
	return 0;
}

struct agent_http *agent_http_free(struct agent_http *http)
{
	if (!http)
		return NULL;
	if (http->runs) {
		net_server_stop(http->server);
		pthread_join(http->thread, NULL);
	}
	net_server_free(http->server);
	pthread_mutex_destroy(&http->lock);
	return mem_free(http);
}

const char *agent_http_address(const struct agent_http *http)
{
	return net_server_address(http->server);
}

void agent_http_update(struct agent_http *http, const struct link_stats *stats)
{
	THREAD_LOCK_SCOPE(&http->lock);
	http->stats = *stats;
	http->updated_ns = time_monotonic_ns();
}
