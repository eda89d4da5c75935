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

#define REFUSED_SAMPLES_TEXT "%llu samples were left out: too old, too far ahead, or of unknown columns of process_stats"

/* One request on its way in. */
struct ingest {
	struct server *server;
	struct tenant *tenant; /* NULL until known */
	struct bytes body;
	uint64_t profiles, samples, series, duplicates;
	uint64_t rejected;	     /* profiles of it that were not stored, and never will be */
	uint64_t rejected_samples;   /* of profiles of which the rest was stored */
	bool counted;		     /* all profiles were rejected: the failure is in the counts already */
	struct refusal_note note;    /* of the failure, or of the first that was rejected */
	char why[ERROR_MESSAGE_MAX]; /* of the first that was rejected */
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

static int ingest_store(struct ingest *ingest, const struct profile *profile, const char *name, const struct labels *labels,
			size_t index, struct error *err)
{
	struct store_append_options options = {.name = name, .labels = labels, .received_ns = time_now_ns()};
	struct store_append_result result = {0};
	ingest->note = (struct refusal_note){.reason = REFUSALS};
	identify(profile, ingest->body, index, options.id);
	int r = limits_check_profile(ingest->tenant, profile, labels, &ingest->note, err);
	if (!r)
		r = store_append(ingest->tenant->store, profile, &options, &result, err);
	if (r && ingest->note.reason == REFUSALS)
		ingest->note.reason = refusal_of(r);
	if (r)
		return r;
	limits_pay_samples(ingest->tenant, result.samples);
	if (!result.duplicate)
		symbols_note(ingest->server, profile);
	ingest->profiles++;
	ingest->samples += result.samples;
	ingest->rejected_samples += result.refused;
	ingest->series += result.series;
	ingest->duplicates += result.duplicate;
	return 0;
}

static void count_in(struct server_counters *counters, const struct ingest *ingest, int r)
{
	atomic_fetch_add(&counters->ingest_requests, 1);
	atomic_fetch_add(&counters->ingest_refused, r != 0);
	atomic_fetch_add(&counters->ingest_partial, !r && (ingest->rejected || ingest->rejected_samples));
	atomic_fetch_add(&counters->ingest_samples_refused, ingest->rejected_samples);
	atomic_fetch_add(&counters->ingest_profiles, ingest->profiles);
	atomic_fetch_add(&counters->ingest_samples, ingest->samples);
	atomic_fetch_add(&counters->ingest_duplicates, ingest->duplicates);
	atomic_fetch_add(&counters->ingest_bytes, ingest->body.len);
	if (r && !ingest->counted)
		atomic_fetch_add(&counters->refusals[ingest->note.reason], 1);
}

static void count(struct ingest *ingest, int r)
{
	count_in(&ingest->server->counters, ingest, r);
	if (ingest->tenant)
		count_in(&ingest->tenant->counters, ingest, r);
}

/* Finds the tenant, and asks its limits. */
static int ingest_begin(struct ingest *ingest, struct server *server, const struct net_request *request, struct error *err)
{
	*ingest = (struct ingest){.server = server, .body = net_request_body(request), .note.reason = REFUSALS};
	int r = tenant_of_request(server, request, true, &ingest->tenant, err);
	if (r == -EDQUOT)
		ingest->note.reason = REFUSED_TENANTS;
	if (!r)
		r = limits_admit(ingest->tenant, ingest->body.len, &ingest->note, err);
	if (r && ingest->note.reason == REFUSALS)
		ingest->note.reason = refusal_of(r);
	return r;
}

/* A profile that can never be stored must not keep those beside it from being stored, nor have them sent again. */
static void reject(struct ingest *ingest, const struct error *err)
{
	atomic_fetch_add(&ingest->server->counters.refusals[ingest->note.reason], 1);
	atomic_fetch_add(&ingest->tenant->counters.refusals[ingest->note.reason], 1);
	if (ingest->rejected++ == 0)
		snprintf(ingest->why, sizeof(ingest->why), "%s", err->message);
}

static int ingest_otlp(struct ingest *ingest, struct error *err)
{
	_cleanup_(otlp_request_release) struct otlp_request request;
	otlp_request_init(&request);
	int r = otlp_decode(ingest->body, NULL, &request, err);
	if (r)
		ingest->note.reason = refusal_of(r);
	struct refusal_note first = {0};
	for (size_t i = 0; i < request.count && !r; i++) {
		struct error problem = {0};
		r = ingest_store(ingest, request.profiles[i], NULL, NULL, i, &problem);
		if (r == -EINVAL && !ingest->rejected)
			first = ingest->note;
		if (r == -EINVAL)
			reject(ingest, &problem);
		else if (r)
			error_set(err, r, "%s", problem.message);
		r = r == -EINVAL ? 0 : r;
	}
	if (r || !ingest->rejected || ingest->profiles)
		return r ? error_prefix(err, r, "OTLP request") : 0;
	/* Nothing was stored: an error, not a partial success. */
	ingest->note = first;
	ingest->counted = true;
	return error_set(err, -EINVAL, "OTLP request: %.500s", ingest->why);
}

static int handle_otlp(struct server *server, const struct net_request *request, struct net_response *response,
		       struct error *err)
{
	struct ingest ingest;
	int r = ingest_begin(&ingest, server, request, err);
	if (!r)
		r = ingest_otlp(&ingest, err);
	count(&ingest, r);
	if (r) {
		refusal_headers(response, r, &ingest.note);
		return r;
	}
	/* Rejected samples alone are a warning: 0 profiles and a message. */
	if (!ingest.rejected && ingest.rejected_samples)
		snprintf(ingest.why, sizeof(ingest.why), REFUSED_SAMPLES_TEXT, (unsigned long long)ingest.rejected_samples);
	return otlp_encode_response(ingest.rejected, ingest.why[0] ? ingest.why : NULL, &response->body, err);
}

void ingest_otlp_grpc(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	int r = handle_otlp(context, request, response, &err);
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
	struct server *server = context;
	const char *path = net_request_path(request);
	bool otlp = strcmp(path, INGEST_OTLP_HTTP_PATH) == 0;
	if (response->status == 413 && (otlp || strcmp(path, INGEST_PATH) == 0 || strcmp(path, INGEST_OTLP_GRPC_PATH) == 0)) {
		atomic_fetch_add(&server->counters.ingest_requests, 1);
		atomic_fetch_add(&server->counters.ingest_refused, 1);
		atomic_fetch_add(&server->counters.refusals[REFUSED_BODY], 1);
		refusal_headers(response, -E2BIG, &(struct refusal_note){.reason = REFUSED_BODY});
	}
	if (!otlp || net_request_is_grpc(request))
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
	struct error err = {0};
	response->content_type = "application/x-protobuf";
	int r = handle_otlp(context, request, response, &err);
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

static int ingest_any(struct ingest *ingest, const struct net_request *request, struct error *err)
{
	const char *format_name = net_request_query(request, "format");
	const struct format *format = format_name ? format_by_name(format_name) : NULL;
	ingest->note.reason = REFUSED_INVALID;
	if (format_name && !format)
		return error_set(err, -EINVAL, "format '%.40s' is unknown; leave it out to have it detected", format_name);
	_cleanup_(labels_release) struct labels labels;
	labels_init(&labels);
	int r = request_labels(request, &labels, err);
	if (r)
		return r;
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct format_options options = {.input_name = "profile"};
	r = format_decode(format, ingest->body, &options, &profile, err);
	ingest->note.reason = r ? refusal_of(r) : REFUSALS;
	return r ? r : ingest_store(ingest, profile, net_request_query(request, "name"), &labels, 0, err);
}

void ingest_profile(void *context, const struct net_request *request, struct net_response *response)
{
	struct ingest ingest;
	struct error err = {0};
	int r = ingest_begin(&ingest, context, request, &err);
	if (!r)
		r = ingest_any(&ingest, request, &err);
	count(&ingest, r);
	if (r) {
		refusal_headers(response, r, &ingest.note);
		respond_error(response, http_status_of(r), err.message);
		return;
	}
	struct json_writer json;
	json_init(&json, &response->body);
	json_begin_object(&json);
	json_key(&json, "samples");
	json_uint(&json, ingest.samples);
	json_key(&json, "series");
	json_uint(&json, ingest.series);
	json_key(&json, "duplicate");
	json_bool(&json, ingest.duplicates > 0);
	if (ingest.rejected_samples) {
		char why[160];
		snprintf(why, sizeof(why), REFUSED_SAMPLES_TEXT, (unsigned long long)ingest.rejected_samples);
		json_key(&json, "refused");
		json_uint(&json, ingest.rejected_samples);
		json_key(&json, "why");
		json_string(&json, why);
	}
	json_end_object(&json);
	if (json_finish(&json, &err))
		respond_error(response, 500, err.message);
}
