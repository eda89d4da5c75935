/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in: OTLP over gRPC and HTTP, and any format that src/format knows by POST /api/v1/ingest.
 *
 * The answer is sent when the store has the profile on disk. A client that gets no answer sends again, so a request is
 * identified by the hash of its bytes: the second copy is acknowledged and not stored. Profiles that carry no time are exempt,
 * since equal bytes may then be two different measurements.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/protobuf.h"
#include "format/otlp.h"
#include "server/server_int.h"

struct ingest_totals {
	uint64_t profiles, samples, series, duplicates;
};

static void identify(const struct profile *profile, struct bytes body, size_t index, uint8_t id[16])
{
	memset(id, 0, 16);
	if (profile->time_ns == 0)
		return;
	struct {
		struct hash128 body;
		uint64_t index;
	} key = {.body = hash128(body.data, body.len), .index = index};
	struct hash128 hash = hash128(&key, sizeof(key));
	memcpy(id, &hash, 16);
	id[0] |= 1; /* zero means none */
}

static int ingest_store(struct server *server, const struct profile *profile, const char *name, const struct labels *labels,
			struct bytes body, size_t index, struct ingest_totals *totals, struct error *err)
{
	struct store_append_options options = {.name = name, .labels = labels, .received_ns = time_now_ns()};
	struct store_append_result result = {0};
	identify(profile, body, index, options.id);
	int r = store_append(server->store, profile, &options, &result, err);
	if (r)
		return r;
	totals->profiles++;
	totals->samples += result.samples;
	totals->series += result.series;
	totals->duplicates += result.duplicate;
	return 0;
}

static void count(struct server *server, struct bytes body, const struct ingest_totals *totals, int r)
{
	struct server_counters *counters = &server->counters;
	atomic_fetch_add(&counters->ingest_requests, 1);
	atomic_fetch_add(&counters->ingest_refused, r != 0);
	atomic_fetch_add(&counters->ingest_profiles, totals->profiles);
	atomic_fetch_add(&counters->ingest_samples, totals->samples);
	atomic_fetch_add(&counters->ingest_duplicates, totals->duplicates);
	atomic_fetch_add(&counters->ingest_bytes, body.len);
}

static int ingest_otlp(struct server *server, struct bytes body, struct ingest_totals *totals, struct error *err)
{
	_cleanup_(otlp_request_release) struct otlp_request request;
	otlp_request_init(&request);
	int r = otlp_decode(body, NULL, &request, err);
	for (size_t i = 0; i < request.count && !r; i++)
		r = ingest_store(server, request.profiles[i], NULL, NULL, body, i, totals, err);
	count(server, body, totals, r);
	return r ? error_prefix(err, r, "OTLP request") : 0;
}

void ingest_otlp_grpc(void *context, const struct net_request *request, struct net_response *response)
{
	struct ingest_totals totals = {0};
	struct error err = {0};
	int r = ingest_otlp(context, net_request_body(request), &totals, &err);
	if (!r)
		r = otlp_encode_response(0, NULL, &response->body, &err);
	if (!r)
		return;
	response->grpc_status = grpc_code_of(r);
	snprintf(response->message, sizeof(response->message), "%s", err.message);
}

/* OTLP over HTTP answers errors with a google.rpc.Status { 1 code, 2 message }. */
static void respond_otlp_error(struct net_response *response, int code, const char *text)
{
	response->status = http_status_of(code);
	buffer_clear(&response->body);
	if (pb_write_varint(&response->body, 1, (uint64_t)grpc_code_of(code)) || pb_write_string(&response->body, 2, text))
		buffer_clear(&response->body);
}

void ingest_on_refusal(void *context, const struct net_request *request, struct net_response *response)
{
	(void)context;
	if (strcmp(net_request_path(request), INGEST_OTLP_HTTP_PATH) != 0 || net_request_is_grpc(request))
		return;
	char text[ERROR_MESSAGE_MAX];
	snprintf(text, sizeof(text), "%.*s", (int)response->body.len,
		 response->body.len ? (const char *)response->body.data : "");
	int status = response->status;
	respond_otlp_error(response, status == 413 ? -E2BIG : -EBADMSG, text);
	response->status = status;
	response->content_type = "application/x-protobuf";
}

void ingest_otlp_http(void *context, const struct net_request *request, struct net_response *response)
{
	const char *type = net_request_header(request, "content-type");
	if (type && text_starts_with(type, "application/json")) {
		respond_error(response, 415, "OTLP profiles are taken as application/x-protobuf; JSON is not supported yet");
		return;
	}
	struct ingest_totals totals = {0};
	struct error err = {0};
	response->content_type = "application/x-protobuf";
	int r = ingest_otlp(context, net_request_body(request), &totals, &err);
	if (!r)
		r = otlp_encode_response(0, NULL, &response->body, &err);
	if (r)
		respond_otlp_error(response, r, err.message);
}

static int request_labels(const struct net_request *request, struct labels *labels, struct error *err)
{
	const char *text;
	for (size_t i = 0; (text = net_request_query_nth(request, "label", i)); i++) {
		int r = labels_parse_pair(labels, text, err);
		if (r)
			return r;
	}
	return 0;
}

static int ingest_any(struct server *server, const struct net_request *request, struct ingest_totals *totals, struct error *err)
{
	const char *format_name = net_request_query(request, "format");
	const struct format *format = format_name ? format_by_name(format_name) : NULL;
	if (format_name && !format)
		return error_set(err, -EINVAL, "format '%.40s' is unknown; leave it out to have it detected", format_name);
	_cleanup_(labels_release) struct labels labels;
	labels_init(&labels);
	int r = request_labels(request, &labels, err);
	if (r)
		return r;
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct format_options options = {.input_name = "profile"};
	r = format_decode(format, net_request_body(request), &options, &profile, err);
	if (r)
		return r;
	return ingest_store(server, profile, net_request_query(request, "name"), &labels, net_request_body(request), 0, totals,
			    err);
}

void ingest_profile(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct ingest_totals totals = {0};
	struct error err = {0};
	int r = ingest_any(server, request, &totals, &err);
	count(server, net_request_body(request), &totals, r);
	if (r) {
		respond_error(response, http_status_of(r), err.message);
		return;
	}
	struct json_writer json;
	json_init(&json, &response->body);
	json_begin_object(&json);
	json_key(&json, "samples");
	json_uint(&json, totals.samples);
	json_key(&json, "series");
	json_uint(&json, totals.series);
	json_key(&json, "duplicate");
	json_bool(&json, totals.duplicates > 0);
	json_end_object(&json);
	if (json_finish(&json, &err))
		respond_error(response, 500, err.message);
}
