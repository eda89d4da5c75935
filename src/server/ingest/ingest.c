/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in: OTLP over gRPC and HTTP, and any format that src/format knows by POST /api/v1/ingest.
 *
 * The answer is sent when the store has the profile on disk. A client that gets no answer sends again, so a request is
 * identified by the hash of its bytes and parameters: the second copy is acknowledged and not stored. Profiles that carry no
 * time are exempt, since equal bytes may then be two different measurements; unless the client says which it is, by the
 * header Idempotency-Key. A key alone does not make two requests one: with other bytes it is another one, so that a client that
 * uses a key twice loses nothing. An answer that is a failure says how much was stored before it, or that this is not known.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "format/format.h"
#include "server/http/rpc.h"
#include "server/ingest/ingest_int.h"

#define REJECTED_TEXT_MAX 384

static void write_id(const void *key, size_t size, uint8_t id[static 16])
{
	struct hash128 hash = hash128(key, size);
	memcpy(id, &hash, 16);
	id[0] |= 1; /* zero means none */
}

/* What a request says beside its body is part of it: equal profiles of two services are two. Stores that were written before
 * that was so know a profile by body and index alone; what they have is not stored again either. */
static void identify(struct ingest *ingest, const struct profile *profile, const char *name, const struct labels *labels,
		     size_t index, struct store_append_options *ret)
{
	if (profile->time_ns == 0 && !ingest->attempt)
		return;
	/* Once for all profiles of a request: a large one may hold very many. */
	if (!ingest->hash.high && !ingest->hash.low)
		ingest->hash = hash128(ingest->body.data, ingest->body.len);
	struct request_key {
		struct hash128 body;
		uint64_t index, salt, name, labels;
		uint64_t attempt[2]; /* of profiles without a time; other keys are shorter */
	} key = {.body = ingest->hash,
		 .index = index,
		 .salt = ingest->salt,
		 .name = name ? hash64(name, strlen(name)) : 0,
		 .labels = labels ? labels_hash(labels) : 0,
		 .attempt = {ingest->attempt, 1}};
	struct {
		struct hash128 body;
		uint64_t index;
	} older = {.body = ingest->hash, .index = index};
	if (profile->time_ns == 0) {
		write_id(&key, sizeof(key), ret->id);
		return;
	}
	write_id(&key, offsetof(struct request_key, attempt), ret->id);
	write_id(&older, sizeof(older), ret->older_id);
}

/* "3 samples were rejected: 1 from before 2026-10-24T08:00:00Z, 2 of 1 new series, over the limit series of 200000" */
static void describe_rejected(const struct ingest *ingest, char out[static REJECTED_TEXT_MAX])
{
	char before[TIME_TEXT_MAX + 16], series[96];
	const struct {
		uint64_t count;
		const char *text;
	} parts[] = {
		{ingest->late, before},
		{ingest->future, "from more than an hour ahead"},
		{ingest->over_series, series},
		{ingest->rejected_samples - ingest->late - ingest->future - ingest->over_series,
		 "in unknown columns of process_stats"},
	};
	int len = snprintf(out, REJECTED_TEXT_MAX, "%llu samples were rejected", (unsigned long long)ingest->rejected_samples);
	const char *between = ": ";
	char oldest[TIME_TEXT_MAX];
	time_format(ingest->least_ns, oldest);
	snprintf(before, sizeof(before), "from before %s", oldest);
	snprintf(series, sizeof(series), "of %llu new series, over the limit series of %zu",
		 (unsigned long long)ingest->series_refused, ingest->series_max);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		if (!parts[i].count)
			continue;
		len += snprintf(out + len, REJECTED_TEXT_MAX - (size_t)len, "%s%llu %s", between,
				(unsigned long long)parts[i].count, parts[i].text);
		between = ", ";
	}
}

static void add_rejected(struct ingest *ingest, const struct store_append_result *result)
{
	ingest->rejected_samples += result->refused;
	ingest->late += result->late;
	ingest->future += result->future;
	ingest->over_series += result->over_series;
	ingest->series_refused += result->series_refused;
	if (result->late)
		ingest->least_ns = result->least_ns;
	if (result->over_series)
		ingest->series_max = result->series_max;
}

/* Notes what was rejected of a profile. If that is all of it, saying that it was stored would be a lie: -EDQUOT if the limit of
 * series left some of it out, since there may be room later, else -EINVAL. */
static int take_rejected(struct ingest *ingest, const struct store_append_result *result, struct error *err)
{
	struct ingest own = {0};
	char text[REJECTED_TEXT_MAX];
	add_rejected(ingest, result);
	if (result->samples || !result->refused || result->duplicate)
		return 0;
	add_rejected(&own, result);
	ingest->rejected_part++;
	ingest->note.reason = own.over_series ? REFUSED_SERIES : REFUSED_AGE;
	describe_rejected(&own, text);
	return error_set(err, own.over_series ? -EDQUOT : -EINVAL, "nothing was stored: %s", text);
}

int ingest_store_derived(struct ingest *ingest, const struct profile *profile, const char *name, const struct labels *labels,
			 size_t index, struct error *err)
{
	struct store_append_options options = {.name = name, .labels = labels, .received_ns = time_now_ns()};
	struct store_append_result result = {0};
	identify(ingest, profile, name, labels, index, &options);
	memset(options.older_id, 0, sizeof(options.older_id));
	int r = store_append(ingest->tenant->store, profile, &options, &result, err);
	/* What is too old was counted with the profile that this was made of; its series were others. */
	if (r == 0) {
		ingest->rejected_samples += result.over_series;
		ingest->over_series += result.over_series;
		ingest->series_refused += result.series_refused;
		ingest->series_max = result.over_series ? result.series_max : ingest->series_max;
	}
	return r;
}

int ingest_store(struct ingest *ingest, const struct profile *profile, const char *name, const struct labels *labels,
		 size_t index, struct error *err)
{
	struct store_append_options options = {.name = name, .labels = labels, .received_ns = time_now_ns()};
	struct store_append_result result = {0};
	/* The client is gone; a retry is deduplicated. */
	if (cancel_requested(ingest->cancelled)) {
		ingest->note = (struct refusal_note){.reason = REFUSED_OTHER};
		return error_set(err, -ECANCELED, "client disconnected or timed out");
	}
	ingest->note = (struct refusal_note){.reason = REFUSALS};
	identify(ingest, profile, name, labels, index, &options);
	int r = limits_check_profile(ingest->tenant, profile, labels, &ingest->note, err);
	if (!r)
		r = store_append(ingest->tenant->store, profile, &options, &result, err);
	if (!r)
		r = take_rejected(ingest, &result, err);
	if (r < 0)
		return r;
	limits_pay_samples(ingest->tenant, result.samples);
	if (!result.duplicate) {
		symbols_note(ingest->tenant, profile);
		forward_profile(ingest->server->forward, profile, ingest->tenant->is_default ? "" : ingest->tenant->name, name,
				labels);
	}
	ingest->profiles++;
	ingest->samples += result.samples;
	ingest->series += result.series;
	ingest->numbers_dropped += result.numbers_dropped;
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
	atomic_fetch_add(&counters->ingest_numbers_dropped, ingest->numbers_dropped);
	atomic_fetch_add(&counters->ingest_bytes, ingest->body.len);
	if (r < 0 && !ingest->counted)
		atomic_fetch_add(&counters->refusals[ingest->note.reason], 1);
}

/* Limit checks set the reason; otherwise derive it from the error code. */
static void find_reason(struct ingest *ingest, int r)
{
	if (r < 0 && ingest->note.reason == REFUSALS)
		ingest->note.reason = refusal_of(r);
}

static void log_rejected(const struct ingest *ingest)
{
	struct server *server = ingest->server;
	uint64_t all;
	if (!ingest->rejected_samples || !log_limit_add(&server->rejected_log, ingest->rejected_samples, &all))
		return;
	char text[REJECTED_TEXT_MAX];
	describe_rejected(ingest, text);
	bool named = ingest->tenant && !ingest->tenant->is_default;
	log_warn("ingest%s%s: %s (%llu since the last such line)", named ? " of tenant " : "",
		 named ? ingest->tenant->name : "", text, (unsigned long long)all);
}

void ingest_count(struct ingest *ingest, int r)
{
	find_reason(ingest, r);
	ingest->note.stored = r < 0 ? ingest->profiles : 0;
	log_rejected(ingest);
	count_in(&ingest->server->counters, ingest, r);
	if (ingest->tenant)
		count_in(&ingest->tenant->counters, ingest, r);
}

static int take_key(struct ingest *ingest, const struct net_request *request, struct error *err)
{
	const char *key = net_request_header(request, INGEST_KEY_HEADER);
	if (!key || !*key)
		return 0;
	if (strlen(key) > INGEST_KEY_BYTES_MAX)
		return error_set(err, -EBADMSG, INGEST_KEY_HEADER ": at most %d bytes", INGEST_KEY_BYTES_MAX);
	ingest->attempt = hash64(key, strlen(key)) | 1;
	return 0;
}

int ingest_begin(struct ingest *ingest, struct server *server, const struct net_request *request, struct bytes body,
		 struct error *err)
{
	*ingest = (struct ingest){
		.server = server, .cancelled = net_request_cancelled(request), .body = body, .note.reason = REFUSALS};
	int r = tenant_of_request(server, request, true, &ingest->tenant, err);
	if (r == -EDQUOT)
		ingest->note.reason = REFUSED_TENANTS;
	if (!r)
		r = limits_admit(ingest->tenant, ingest->body.len, &ingest->note, err);
	return r < 0 ? r : take_key(ingest, request, err);
}

void ingest_reject(struct ingest *ingest, const struct error *err)
{
	struct refusal_note note;
	find_reason(ingest, -EINVAL);
	note = ingest->note;
	ingest->any_over_series |= note.reason == REFUSED_SERIES;
	ingest->note = (struct refusal_note){.reason = REFUSALS}; /* what comes next has its own */
	atomic_fetch_add(&ingest->server->counters.refusals[note.reason], 1);
	atomic_fetch_add(&ingest->tenant->counters.refusals[note.reason], 1);
	if (ingest->rejected++ > 0)
		return;
	ingest->first = note;
	snprintf(ingest->why, sizeof(ingest->why), "%s", err->message);
}

int ingest_store_next(struct ingest *ingest, const struct profile *profile, const char *name, const struct labels *labels,
		      size_t index, struct error *err)
{
	struct error problem = {0};
	int r = ingest_store(ingest, profile, name, labels, index, &problem);
	if (r == -EINVAL || (r == -EDQUOT && ingest->note.reason == REFUSED_SERIES)) {
		ingest_reject(ingest, &problem);
		return 0;
	}
	return r < 0 ? error_set(err, r, "%s", problem.message) : 0;
}

int ingest_finish_all(struct ingest *ingest, int r, const char *what, struct error *err)
{
	if (r < 0 || !ingest->rejected || ingest->profiles)
		return r < 0 ? error_prefix(err, r, "%s", what) : 0;
	/* Nothing was stored: an error, not a partial success. */
	ingest->note = ingest->first;
	if (ingest->any_over_series)
		ingest->note = (struct refusal_note){.reason = REFUSED_SERIES};
	ingest->counted = true;
	return error_set(err, ingest->any_over_series ? -EDQUOT : -EINVAL, "%s: %.460s", what, ingest->why);
}

const char *ingest_warning(struct ingest *ingest)
{
	/* Rejected samples alone are a warning: 0 profiles and a message. */
	if (ingest->rejected == ingest->rejected_part && ingest->rejected_samples)
		describe_rejected(ingest, ingest->why);
	return ingest->why[0] ? ingest->why : NULL;
}

/* "2 profiles were rejected, the first because ..." of those that were not left out sample by sample. */
static int describe_dropped(const struct ingest *ingest, char *out, size_t size)
{
	uint64_t count = ingest->rejected - ingest->rejected_part;
	if (!count)
		return 0;
	int len = snprintf(out, size, "%llu profile%s rejected: %.200s%s", (unsigned long long)count,
			   count == 1 ? " was" : "s were", ingest->why, ingest->rejected_samples ? "; " : "");
	/* What a client sent may be in it; a header is one line. */
	for (char *at = out; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	return len;
}

void ingest_warn(const struct ingest *ingest, struct net_response *response)
{
	char text[2 * REJECTED_TEXT_MAX + 64] = "";
	int len = describe_dropped(ingest, text, sizeof(text) - REJECTED_TEXT_MAX);
	if (ingest->rejected_samples)
		describe_rejected(ingest, text + len);
	if (text[0])
		net_response_header(response, "X-Wick-Warning", text);
}

/* Profiles come in by this path. */
static bool is_ingest_path(const char *path)
{
	static const char *const doors[] = {
		INGEST_OTLP_HTTP_PATH, INGEST_OTLP_GRPC_PATH, INGEST_PATH, INGEST_PUSH_PATH,	INGEST_PARCA_PATH,
		INGEST_ARROW_PATH,     INGEST_WRITE_PATH,     "/ingest",   "/pyroscope/ingest",
	};
	return text_find_name(doors, sizeof(doors) / sizeof(doors[0]), path) >= 0;
}

/* The answer is late: the profile may be stored, or may be yet. */
static void say_unknown(const struct net_request *request, struct net_response *response)
{
	const char *key = net_request_header(request, INGEST_KEY_HEADER);
	net_response_header(response, "X-Wick-Stored", "unknown");
	if (key && strlen(key) <= INGEST_KEY_BYTES_MAX)
		net_response_header(response, INGEST_KEY_HEADER, key);
}

void ingest_on_refusal(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	const char *path = net_request_path(request);
	bool otlp = strcmp(path, INGEST_OTLP_HTTP_PATH) == 0;
	if (response->status == 503 && net_request_was_started(request) && is_ingest_path(path))
		say_unknown(request, response);
	if (response->status == 413 && is_ingest_path(path)) {
		atomic_fetch_add(&server->counters.ingest_requests, 1);
		atomic_fetch_add(&server->counters.ingest_refused, 1);
		atomic_fetch_add(&server->counters.refusals[REFUSED_BODY], 1);
		refusal_headers(response, -E2BIG, &(struct refusal_note){.reason = REFUSED_BODY});
	}
	if (rpc_on_refusal(request, response) || net_request_is_grpc(request))
		return;
	if (strcmp(path, "/ingest") == 0 || strcmp(path, "/pyroscope/ingest") == 0)
		pyroscope_respond(response, response->status, response->message);
	if (otlp)
		otlp_on_refusal(request, response);
}

static int request_labels(const struct net_request *request, struct labels *labels, struct error *err)
{
	const char *text;
	for (size_t i = 0; (text = net_request_query_nth(request, "label", i)); i++) {
		int r = labels_parse_pair(labels, text, err);
		if (r < 0)
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
		return error_set(err, -EINVAL, "unknown format '%.40s'; omit it to detect the format", format_name);
	_cleanup_(labels_release) struct labels labels = {0};
	int r = request_labels(request, &labels, err);
	if (r < 0)
		return r;
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct format_options options = {.input_name = "profile", .found = &format};
	ingest->note.reason = REFUSALS;
	r = format_decode(format, ingest->body, &options, &profile, err);
	if (!r && strcmp(format->name, "pprof") == 0)
		r = ingest_take_numbers(profile, err);
	return r < 0 ? r : ingest_store(ingest, profile, net_request_query(request, "name"), &labels, 0, err);
}

void ingest_profile(void *context, const struct net_request *request, struct net_response *response)
{
	struct ingest ingest;
	struct error err = {0};
	int r = ingest_begin(&ingest, context, request, net_request_body(request), &err);
	if (!r)
		r = ingest_any(&ingest, request, &err);
	ingest_count(&ingest, r);
	if (r < 0) {
		refusal_headers(response, r, &ingest.note);
		respond_error(response, http_status_of(r), err.message);
		return;
	}
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	json_member_uint(&json, "samples", ingest.samples);
	json_member_uint(&json, "series", ingest.series);
	json_member_bool(&json, "duplicate", ingest.duplicates > 0);
	if (ingest.rejected_samples) {
		char why[REJECTED_TEXT_MAX];
		describe_rejected(&ingest, why);
		json_member_uint(&json, "refused", ingest.rejected_samples);
		if (ingest.series_refused)
			json_member_uint(&json, "series_refused", ingest.series_refused);
		json_member_cstring(&json, "why", why);
	}
	json_end_object(&json);
	if (json_finish(&json, &err) < 0)
		respond_error(response, 500, err.message);
}
