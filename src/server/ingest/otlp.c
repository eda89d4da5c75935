/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenTelemetry profiles in: gRPC, and HTTP with protobuf or JSON (opentelemetry.io/docs/specs/otlp).
 *
 * What could not be stored beside what could is a partial success: 200, with how many profiles and why. A failure is a
 * google.rpc.Status { 1 code  2 message  3 details } in the form that the request had. Exporters come back for UNAVAILABLE, and
 * for RESOURCE_EXHAUSTED only if a detail says when, which is a google.rpc.RetryInfo { 1 retry_delay } in gRPC's trailer
 * "grpc-status-details-bin"; over HTTP for 429, 502, 503 and 504, after the seconds of Retry-After. So a full disk is 503 here.
 *
 * Ports. Exporters send to 4317 (gRPC) and 4318 (HTTP) unless told otherwise; a server that is asked to listens there, too.
 * Each such port serves both, since one stack does, and nothing but OTLP and health checks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "codec/base64.h"
#include "codec/protobuf.h"
#include "export/export.h"
#include "format/otlp/otlp.h"
#include "profile/cpu_time.h"
#include "server/http/access.h"
#include "server/ingest/ingest_int.h"
#include "server/metrics.h"

#define DETAILS_MAX 1024

static bool is_json(const struct net_request *request)
{
	const char *type = net_request_header(request, "content-type");
	return type && text_starts_with(type, "application/json");
}

static int decode_json(struct bytes json, struct otlp_request *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer message = {.max = json.len + KIB};
	int r = otlp_json_to_binary(json, &message, err);
	return r < 0 ? r : otlp_decode(buffer_bytes(&message), NULL, ret, err);
}

/* Senders that fill entries that are reserved: counted, and in the log once. */
static void note_odd_tables(struct ingest *ingest, const struct otlp_request *request)
{
	char tables[OTLP_TABLES_TEXT_MAX];
	if (!request->odd_tables)
		return;
	atomic_fetch_add(&ingest->server->counters.ingest_nonzero_entries, 1);
	atomic_fetch_add(&ingest->tenant->counters.ingest_nonzero_entries, 1);
	if (!atomic_exchange(&ingest->server->odd_tables_logged, true))
		log_warn("OTLP: a sender fills entry 0 of %s, which is reserved for the zero value; accepted, and not logged "
			 "again (wick_ingest_otlp_nonzero_entries_total)",
			 otlp_table_list(request->odd_tables, tables));
}

/* Of a profiler that counts samples, and does not send their CPU time beside it: see ingest_agents.c. */
static bool counts_samples(const struct otlp_request *request)
{
	bool counts = false, has_time = false;
	for (size_t i = 0; i < request->count; i++) {
		counts |= profile_counts_cpu_samples(request->profiles[i]);
		has_time |= profile_has_cpu_time(request->profiles[i]);
	}
	return counts && !has_time;
}

static int store_counted(struct ingest *ingest, struct profile *profile, size_t index, struct error *err)
{
	const char *name = forward_take_name(profile);
	int r = ingest_place_executable(profile, err);
	if (r == 0)
		r = ingest_name_services(profile, err);
	return r < 0 ? r : ingest_store_counted(ingest, profile, name, NULL, index, err);
}

static int store_all(struct ingest *ingest, bool json, struct error *err)
{
	_cleanup_(otlp_request_release) struct otlp_request request = {0};
	int r = json ? decode_json(ingest->body, &request, err) : otlp_decode(ingest->body, NULL, &request, err);
	if (!r)
		note_odd_tables(ingest, &request);
	bool counts = !r && counts_samples(&request);
	for (size_t i = 0; i < request.count && !r; i++) {
		struct profile *profile = request.profiles[i];
		r = ingest_take_host(ingest, profile, err);
		if (r == 0)
			r = counts ? store_counted(ingest, profile, i, err)
				   : ingest_store_next(ingest, profile, forward_take_name(profile), NULL, i, err);
	}
	/* Samples that are too old are no mistake of the request: it was taken, and says how many profiles are not stored.
	 * Where the limit of series left nothing, it may come again. */
	if (!r && ingest->rejected && ingest->rejected == ingest->rejected_part && !ingest->any_over_series)
		return 0;
	return ingest_finish_all(ingest, r, "OTLP request", err);
}

/* What an agent says that it has lost: see export.h. */
static void count_lost(struct server *server, const char *text)
{
	char *end;
	if (!text || *text < '0' || *text > '9')
		return;
	atomic_fetch_add(&server->counters.lost_profiles, strtoull(text, &end, 10));
	if (*end == ' ' && end[1] >= '0' && end[1] <= '9')
		atomic_fetch_add(&server->counters.lost_samples, strtoull(end + 1, NULL, 10));
}

static int handle(struct server *server, const struct net_request *request, bool json, struct net_response *response,
		  struct error *err)
{
	struct ingest ingest;
	int r = ingest_begin(&ingest, server, request, net_request_body(request), err);
	if (!r)
		r = store_all(&ingest, json, err);
	ingest_count(&ingest, r);
	if (r < 0) {
		refusal_headers(response, r, &ingest.note);
		return r;
	}
	if (!ingest.duplicates)
		count_lost(server, net_request_header(request, EXPORT_LOST_HEADER));
	_cleanup_(buffer_release) struct buffer message = {.max = 4 * KIB};
	r = otlp_encode_response(ingest.rejected, ingest_warning(&ingest), json ? &message : &response->body, err);
	return r < 0 || !json ? r : otlp_json_from_response(buffer_bytes(&message), &response->body, err);
}

/* ---- failures ---- */

/* Field 3 of a Status: google.protobuf.Any { 1 type_url  2 value } with when to come back. */
static int write_retry_info(struct buffer *out, unsigned seconds)
{
	size_t detail, value, delay;
	pb_begin(out, 3, &detail);
	pb_write_string(out, 1, "type.googleapis.com/google.rpc.RetryInfo");
	pb_begin(out, 2, &value);
	pb_begin(out, 1, &delay);
	pb_write_varint(out, 1, seconds);
	pb_end(out, delay);
	pb_end(out, value);
	return pb_end(out, detail);
}

static int write_status(struct buffer *out, enum grpc_code code, const char *text, unsigned retry_seconds)
{
	pb_write_varint(out, 1, (uint64_t)code);
	pb_write_string(out, 2, text);
	return retry_seconds ? write_retry_info(out, retry_seconds) : buffer_status(out);
}

static void write_status_json(struct net_response *response, enum grpc_code code, const char *text)
{
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	json_member_int(&json, "code", code);
	json_member_cstring(&json, "message", text);
	json_end_object(&json);
	json_finish(&json, NULL); /* without memory for the text the HTTP status still says it */
}

/* What refusal_headers() told HTTP clients. */
static unsigned retry_seconds_of(const struct net_response *response)
{
	static const char name[] = "Retry-After: ";
	struct bytes headers = buffer_bytes(&response->headers);
	const char *at = headers.len ? memmem(headers.data, headers.len, name, sizeof(name) - 1) : NULL;
	return at ? (unsigned)strtoul(at + sizeof(name) - 1, NULL, 10) : 0; /* a line ends with CR LF */
}

static void add_details(struct net_response *response, enum grpc_code code, const char *text)
{
	_cleanup_(buffer_release) struct buffer status = {.max = DETAILS_MAX}, encoded = {.max = 2 * DETAILS_MAX};
	unsigned seconds = retry_seconds_of(response);
	if (!seconds || write_status(&status, code, text, seconds) < 0 || base64_encode(buffer_bytes(&status), &encoded) < 0)
		return;
	/* gRPC's binary headers have no padding. */
	while (encoded.len && encoded.data[encoded.len - 1] == '=')
		encoded.len--;
	const char *value = buffer_string(&encoded);
	if (value)
		net_response_header(response, "grpc-status-details-bin", value);
}

void ingest_otlp_grpc(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	int r = handle(context, request, false, response, &err);
	if (!r)
		return;
	add_details(response, respond_grpc(response, grpc_code_of(r), err.message), err.message);
}

static void respond_status(struct net_response *response, bool json, int status, enum grpc_code code, const char *text)
{
	response->status = status;
	response->content_type = json ? "application/json" : "application/x-protobuf";
	buffer_clear(&response->body);
	if (json)
		write_status_json(response, code, text);
	else if (write_status(&response->body, code, text, 0) < 0)
		buffer_clear(&response->body);
}

void ingest_otlp_http(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	bool json = is_json(request);
	response->content_type = json ? "application/json" : "application/x-protobuf";
	int r = handle(context, request, json, response, &err);
	if (r < 0)
		respond_status(response, json, r == -ENOSPC ? 503 : http_status_of(r), grpc_code_of(r), err.message);
}

void otlp_on_refusal(const struct net_request *request, struct net_response *response)
{
	char text[sizeof(response->message)];
	snprintf(text, sizeof(text), "%s", response->message);
	respond_status(response, is_json(request), response->status,
		       response->status == 413 ? GRPC_RESOURCE_EXHAUSTED : response->grpc_status, text);
}

/* ---- what is not stored ---- */

/*
 * Agents that send profiles send their own logs and traces to the same server (Parca Agent's --otlp-logging and probes), and
 * log each failure to do so; so do exporters of a Collector whose pipelines have one endpoint (OTLP/HTTP's /v1/logs ...), and
 * for a partial success, too. They are taken, counted and dropped: an empty message is a success in all of these protocols,
 * in JSON that is an object.
 */
void ingest_drop_signal(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	uint64_t before = atomic_fetch_add(&server->counters.signals_dropped, 1);
	if (!before)
		log_info("ingest: logs, traces and metrics are not stored here; what clients send of them is dropped (%s)",
			 net_request_path(request));
	buffer_clear(&response->body);
	if (text_starts_with(net_request_path(request), "/v1/")) {
		response->content_type = is_json(request) ? "application/json" : "application/x-protobuf";
		if (is_json(request))
			buffer_append_string(&response->body, "{}"); /* without memory the status says it */
	}
}

/* ---- ports of their own ---- */

static const struct net_route health_routes[] = {
	NET_ROUTE("GET", "/healthz", PERMIT_OPEN, health_show, .on_loop = true, .body_max = 4096),
	NET_ROUTE("GET", "/readyz", PERMIT_OPEN, ready_show, .body_max = 4096),
};
#define HEALTH_ROUTES (sizeof(health_routes) / sizeof(*health_routes))
#define PORT_ROUTES   (OTLP_ROUTES + HEALTH_ROUTES)
#define OTLP_WORKERS  4

struct otlp_port {
	struct net_server *net;
	struct net_route routes[PORT_ROUTES + 1];
	pthread_t thread;
	bool running;
};

static void *port_run(void *context)
{
	struct otlp_port *port = context;
	struct error err = {0};
	if (net_server_run(port->net, &err) < 0)
		log_error("%s: %s", net_server_address(port->net), err.message);
	return NULL;
}

static int port_open(struct server *server, const char *listen, struct otlp_port *port, struct error *err)
{
	for (size_t i = 0; i < PORT_ROUTES; i++) {
		port->routes[i] = i < OTLP_ROUTES ? otlp_routes[i] : health_routes[i - OTLP_ROUTES];
		port->routes[i].context = server;
	}
	struct net_server_options options = {
		.listen = listen,
		.routes = port->routes,
		.path_prefix = server->options.path_prefix,
		.trusted_proxies = server->trusted_proxies,
		.body_max = server->options.body_bytes_max,
		.authorize = access_authorize,
		.on_answer = access_on_answer,
		.on_refusal = ingest_on_refusal,
		.workers = OTLP_WORKERS,
		.slow_workers = 1,
		.fair_group = tenant_fair_group,
		.tls = server->tls,
		.context = server,
	};
	connections_set_limits(server, &options);
	int r = access_check_listen(server, listen, err);
	if (!r)
		r = net_server_new(&options, &port->net, err);
	if (!r)
		r = thread_start(&port->thread, "wick-otlp", port_run, port, err);
	port->running = r == 0;
	return r < 0 ? error_prefix(err, r, "OTLP") : 0;
}

int otlp_ports_open(struct server *server, struct error *err)
{
	const char *listens[OTLP_PORTS] = {server->options.otlp_grpc_listen, server->options.otlp_http_listen};
	int r = 0;
	for (size_t i = 0; i < OTLP_PORTS && !r; i++) {
		if (!listens[i])
			continue;
		server->otlp_ports[i] = mem_zalloc(sizeof(*server->otlp_ports[i]));
		r = server->otlp_ports[i] ? port_open(server, listens[i], server->otlp_ports[i], err) : error_nomem(err);
	}
	return r;
}

const char *server_otlp_address(const struct server *server, unsigned index)
{
	return index < OTLP_PORTS && server->otlp_ports[index] ? net_server_address(server->otlp_ports[index]->net) : NULL;
}

void otlp_ports_close(struct server *server)
{
	for (size_t i = 0; i < OTLP_PORTS; i++) {
		struct otlp_port *port = server->otlp_ports[i];
		if (port && port->running) {
			net_server_stop(port->net);
			pthread_join(port->thread, NULL);
		}
		if (port)
			net_server_free(port->net);
		server->otlp_ports[i] = mem_free(port);
	}
}
