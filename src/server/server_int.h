/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside src/server. */
#ifndef WICK_SERVER_SERVER_INT_H
#define WICK_SERVER_SERVER_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "codec/json.h"
#include "net/net.h"
#include "query/query.h"
#include "server/link.h"
#include "server/server.h"
#include "store/store.h"
#include "symbol/symbol.h"

/* Counters of the server's own, shown by /metrics. */
struct server_counters {
	atomic_uint_fast64_t ingest_requests, ingest_refused, ingest_profiles, ingest_samples, ingest_bytes, ingest_duplicates;
	atomic_uint_fast64_t queries, query_failures, query_ns_total, query_ns_max, query_rows;
	atomic_uint_fast64_t binaries_offered, binaries_refused;
};

struct server {
	struct server_options options; /* strings copied below */
	char *data_directory, *token;
	char listen_host[256];
	bool loopback_only;
	struct store *store;
	struct symbolizer *symbolizer;
	struct net_server *net;
	struct net_route *routes;
	int64_t started_ns; /* monotonic */
	struct server_counters counters;

	int link_fd;
	pthread_t link_thread;
	bool link_running;
	pthread_mutex_t agent_lock;
	bool agent_seen; /* agent_stats below are valid */
	struct link_stats agent_stats;
};

/* Each area's handlers; context is the struct server. */
#define INGEST_OTLP_HTTP_PATH "/v1development/profiles"
/* For struct net_server_options: what the network layer refuses on OTLP's path is answered in OTLP's form. */
void ingest_on_refusal(void *context, const struct net_request *request, struct net_response *response);
void ingest_otlp_http(void *context, const struct net_request *request, struct net_response *response);
void ingest_otlp_grpc(void *context, const struct net_request *request, struct net_response *response);
void ingest_profile(void *context, const struct net_request *request, struct net_response *response);
void api_types(void *context, const struct net_request *request, struct net_response *response);
void api_labels(void *context, const struct net_request *request, struct net_response *response);
void api_label_values(void *context, const struct net_request *request, struct net_response *response);
void api_series(void *context, const struct net_request *request, struct net_response *response);
void api_query(void *context, const struct net_request *request, struct net_response *response);
void api_status(void *context, const struct net_request *request, struct net_response *response);
void metrics_show(void *context, const struct net_request *request, struct net_response *response);
void health_show(void *context, const struct net_request *request, struct net_response *response);
void assets_show(void *context, const struct net_request *request, struct net_response *response);
bool access_authorize(void *context, const struct net_request *request, struct net_response *response);

/* Checks the listen address against token and insecure; fills listen_host and loopback_only. */
int access_check_options(struct server *server, struct error *err);
int link_thread_start(struct server *server, struct error *err);
void link_thread_stop(struct server *server);

/* Answers with {"error": text} and a status. */
void respond_error(struct net_response *response, int status, const char *text);
/* The HTTP status for a negative errno of ingest or query. */
int http_status_of(int code);
enum grpc_code grpc_code_of(int code);

#endif
