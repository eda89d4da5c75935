/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One scrape: ask, decode, compare with the last one, store, note how it went.
 *
 * Memory. Hundreds of workers may be waiting for answers; what they have received counts against one budget. Only
 * SCRAPE_DECODERS of them decode and store at a time.
 *
 * Times are the server's own: a target's clock may be wrong, and one whose clock is ahead would be refused by the store.
 *
 * Credentials go to the host they were configured for, not to another one that it redirects to.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"
#include "codec/compress.h"
#include "format/format.h"
#include "server/ingest/ingest_int.h"
#include "server/scrape/scrape_int.h"

#define REDIRECTS_MAX 10
#define CANCEL_MS     1000
#define URL_BYTES_MAX 8192

/* ---- how to ask ---- */

/* A secret from the configuration, or from its file as it is now: they change. */
static int read_secret(const char *text, const char *path, struct buffer *file, const char **ret, struct error *err)
{
	*ret = text ? text : "";
	if (!path)
		return 0;
	int r = io_read_secret(path, file, err);
	if (r < 0)
		return r;
	*ret = buffer_string(file);
	return *ret ? 0 : error_nomem(err);
}

static int set_authorization(const struct scrape_http *http, struct net_client *client, struct error *err)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	const char *secret;
	if (!http->user && !http->credentials && !http->credentials_file)
		return 0;
	int r = http->user ? read_secret(http->password, http->password_file, &file, &secret, err)
			   : read_secret(http->credentials, http->credentials_file, &file, &secret, err);
	if (r < 0)
		return r;
	if (http->user)
		return net_client_set_basic_auth(client, http->user, secret, err);
	return net_client_set_authorization(client, http->auth_type ? http->auth_type : "Bearer", secret, err);
}

/* "https://host:port" of an address, without its path; its length. */
static size_t origin_length(const char *url)
{
	const char *host = strstr(url, "://");
	return host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : 0;
}

static int open_client(const struct scrape_http *http, const char *url, bool trusted, const struct net_client_options *base,
		       struct net_client **ret, struct error *err)
{
	char origin[URL_BYTES_MAX];
	struct net_client_options options = *base;
	size_t len = origin_length(url);
	if (len == 0 || len >= sizeof(origin))
		return error_set(err, -EINVAL, "bad address %.200s", url);
	memcpy(origin, url, len);
	origin[len] = '\0';
	options.url = origin;
	options.tls = http->tls;
	options.direct = true; /* as Prometheus: the configuration has the targets' addresses, and they are near */
	int r = net_client_new(&options, ret, err);
	if (r == 0 && trusted)
		r = set_authorization(http, *ret, err);
	return r;
}

/* Where a redirect leads; the place that it is relative to is `url`. */
static int resolve(char *url, size_t size, const char *location, struct error *err)
{
	char next[URL_BYTES_MAX];
	size_t origin = origin_length(url);
	int len;
	if (!strncasecmp(location, "http://", 7) || !strncasecmp(location, "https://", 8))
		len = snprintf(next, sizeof(next), "%s", location);
	else if (location[0] == '/' && location[1] != '/')
		len = snprintf(next, sizeof(next), "%.*s%s", (int)origin, url, location);
	else
		return error_set(err, -EPROTO, "redirected to an invalid address: %.100s", location);
	if (len >= (int)sizeof(next) || (size_t)len >= size)
		return error_set(err, -E2BIG, "redirected to an address that is too long");
	memcpy(url, next, (size_t)len + 1);
	return 0;
}

int scrape_http_get(const struct scrape_http *http, const char *url, const char *accept, int64_t timeout_ns, size_t body_max,
		    const atomic_bool *cancel, struct net_budget *budget, struct net_client **ret_client,
		    struct net_client_response *response, struct error *err)
{
	char at[URL_BYTES_MAX];
	size_t home = origin_length(url);
	int64_t deadline_ns = time_monotonic_ns() + timeout_ns;
	*ret_client = NULL;
	if (snprintf(at, sizeof(at), "%s", url) >= (int)sizeof(at))
		return error_set(err, -E2BIG, "the address is too long");
	for (unsigned i = 0; i <= REDIRECTS_MAX; i++) {
		struct net_client_options options = {.timeout_ns = deadline_ns - time_monotonic_ns(),
						     .response_max = body_max,
						     .cancel = cancel,
						     .cancel_ms = CANCEL_MS,
						     .budget = budget,
						     .keep_encoded = true};
		if (options.timeout_ns <= 0)
			return error_set(err, -ETIMEDOUT, "timeout after %u redirects", i);
		size_t origin = origin_length(at);
		bool trusted = origin == home && !strncmp(at, url, home);
		*ret_client = net_client_free(*ret_client);
		int r = open_client(http, at, trusted, &options, ret_client, err);
		if (r == 0 && accept)
			r = net_client_set_header(*ret_client, "Accept", accept, err);
		if (r == 0)
			r = net_client_request(*ret_client, "GET", at[origin] == '/' ? at + origin : "/", NULL,
					       (struct bytes){0}, NET_PLAIN, response, err);
		if (r < 0)
			return r;
		int status = response->status;
		bool moved = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
		if (!moved || http->no_redirects || !response->location[0])
			return 0;
		r = resolve(at, sizeof(at), response->location, err);
		if (r < 0)
			return r;
	}
	return error_set(err, -ELOOP, "more than %d redirects", REDIRECTS_MAX);
}

/* ---- what came ---- */

/* A line of the body is more specific than the status alone; the body is the target's to choose. */
static int bad_status(const struct net_client_response *response, struct error *err)
{
	char line[120] = "";
	size_t len = 0;
	for (size_t i = 0; i < response->body.len && len + 1 < sizeof(line) && !response->encoding[0]; i++) {
		uint8_t byte = response->body.data[i];
		if (byte == '\n' || byte == '\r')
			break;
		line[len++] = byte >= ' ' && byte < 0x7f ? (char)byte : '?';
	}
	return error_set(err, -EPROTO, "status %d %.60s%s%s", response->status, response->message, *line ? ": " : "", line);
}

static int decode(const struct net_client_response *response, size_t body_max, struct profile **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer plain = {.max = body_max};
	struct bytes body = buffer_bytes(&response->body);
	struct format_options options = {.input_name = "the response", .decompressed_max = body_max};
	if (!strcasecmp(response->encoding, "gzip")) {
		int r = gzip_decompress(body, &plain, err);
		if (r < 0)
			return error_prefix(err, r, "the response");
		body = buffer_bytes(&plain);
	} else if (response->encoding[0] && strcasecmp(response->encoding, "identity")) {
		return error_set(err, -EPROTO, "unknown Content-Encoding %.31s", response->encoding);
	}
	return format_decode(format_by_name("pprof"), body, &options, ret, err);
}

/* Marks the label sets that samples have. */
static void mark_sets(const struct profile *profile, bool *sets)
{
	for (size_t i = 0; i < profile->sample_count; i++)
		sets[profile->samples[i].labels] = true;
}

/* The first part of its profile types. */
static const char *name_of(const struct scrape_target *target)
{
	return ingest_pprof_name(target->profile->name);
}

/* Sums equal samples and takes differences, which leaves out samples that are zero. Of label sets that lost all of theirs one
 * is put back: for gauges, zero is a value. */
static int sum_samples(struct scrape *scrape, struct scrape_target *target, struct profile *profile, struct scrape_delta *next,
		       bool *ret_restarted, struct error *err)
{
	size_t count = profile->label_set_count;
	_cleanup_(mem_freep) bool *before = mem_zalloc_array(count, sizeof(*before));
	_cleanup_(mem_freep) bool *after = mem_zalloc_array(count, sizeof(*after));
	static const int64_t zeros[LIMIT_SAMPLE_TYPES];
	if (!before || !after)
		return error_nomem(err);
	mark_sets(profile, before);
	int r = profile_aggregate(profile, err);
	if (r == 0 && target->profile->cumulative)
		r = scrape_delta_apply(&target->delta, profile, &scrape->delta_bytes, next, ret_restarted, err);
	mark_sets(profile, after);
	if (profile->sample_type_count > LIMIT_SAMPLE_TYPES || !profile_has_gauge(profile, name_of(target)))
		return r;
	for (uint32_t i = 0; r == 0 && i < count; i++)
		if (before[i] && !after[i])
			r = profile_add_sample(profile, &(struct profile_sample){.labels = i}, zeros, err);
	return r;
}

static int store(struct scrape *scrape, struct scrape_target *target, struct profile *profile, struct bytes body,
		 uint64_t numbers_dropped, uint64_t *ret_samples, struct error *err)
{
	struct ingest ingest = {
		.server = scrape->server, .body = body, .note.reason = REFUSALS, .numbers_dropped = numbers_dropped};
	/* Equal bodies of two scrapes are two measurements. */
	uint64_t number = atomic_fetch_add_explicit(&scrape->sequence, 1, memory_order_relaxed) + 1;
	int r = tenant_by_name(scrape->server, target->job->tenant, true, &ingest.tenant, err);
	if (r == 0)
		r = limits_admit(ingest.tenant, body.len, &ingest.note, err);
	if (r < 0 && ingest.note.reason == REFUSALS)
		ingest.note.reason = refusal_of(r);
	if (r == 0)
		r = ingest_store(&ingest, profile, name_of(target), &target->labels, number, err);
	ingest_count(&ingest, r);
	*ret_samples = ingest.samples;
	return r;
}

struct outcome {
	int64_t started_ns, scraped_ns; /* realtime, monotonic */
	uint64_t samples, bytes;
	bool restarted;
};

/* How long a target is told to measure, as far as that is known. */
static int64_t measured_ns(const struct scrape_target *target)
{
	return target->profile->duration_ns ? target->profile->duration_ns : target->job->interval_ns;
}

static int keep(struct scrape *scrape, struct scrape_target *target, const struct net_client_response *response,
		struct outcome *outcome, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct scrape_delta next = {0};
	uint64_t numbers_dropped = 0;
	int r = decode(response, target->job->body_max, &profile, err);
	if (r < 0)
		return r;
	profile->time_ns = outcome->started_ns;
	/* Others than Go may not say how long they measured. */
	if (!target->profile->delta)
		profile->duration_ns = 0;
	else if (profile->duration_ns == 0)
		profile->duration_ns = measured_ns(target);
	for (size_t i = 0; i < profile->sample_count; i++)
		profile->samples[i].time_ns = 0;
	r = ingest_take_pprof(profile, name_of(target), &numbers_dropped, err);
	if (r == 0)
		r = sum_samples(scrape, target, profile, &next, &outcome->restarted, err);
	if (r == 0 && (profile->sample_count > 0 || profile_has_gauge(profile, name_of(target))))
		r = store(scrape, target, profile, buffer_bytes(&response->body), numbers_dropped, &outcome->samples, err);
	if (!target->profile->cumulative)
		return r;
	/* What was not stored is in the next difference. */
	if (r == 0) {
		scrape_delta_release(&target->delta, &scrape->delta_bytes);
		target->delta = next;
	} else {
		scrape_delta_release(&next, &scrape->delta_bytes);
	}
	return r;
}

static int wait_for_slot(struct scrape *scrape, struct scrape_target *target, struct error *err)
{
	THREAD_LOCK_SCOPE(&scrape->lock);
	while (scrape->decoding >= SCRAPE_DECODERS && !scrape->workers_stop)
		pthread_cond_wait(&scrape->slot, &scrape->lock);
	bool go = !scrape->workers_stop && !target->gone;
	scrape->decoding += go;
	if (!go)
		pthread_cond_signal(&scrape->slot); /* the place that woke it is another's */
	return go ? 0 : error_set(err, -ECANCELED, "cancelled");
}

static void leave_slot(struct scrape *scrape)
{
	THREAD_LOCK_SCOPE(&scrape->lock);
	scrape->decoding--;
	pthread_cond_signal(&scrape->slot);
}

static int fetch(struct scrape *scrape, struct scrape_target *target, struct outcome *outcome, struct error *err)
{
	_cleanup_(net_client_freep) struct net_client *client = NULL;
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	_cleanup_(buffer_release) struct buffer url = {.max = URL_BYTES_MAX};
	const struct scrape_job *job = target->job;
	int64_t extra_ns = target->profile->delta ? measured_ns(target) : 0;
	if (buffer_printf(&url, "%s%s", target->origin, target->path) < 0 || !buffer_string(&url))
		return error_set(err, -E2BIG, "the address is too long");
	int r = scrape_http_get(&job->http, (const char *)url.data, NULL, job->timeout_ns + extra_ns, job->body_max,
				&target->cancel, &scrape->budget, &client, &response, err);
	if (r < 0)
		return r;
	outcome->bytes = response.body.len;
	outcome->scraped_ns = time_monotonic_ns();
	if (response.status != 200)
		return bad_status(&response, err);
	r = wait_for_slot(scrape, target, err);
	if (r < 0)
		return r;
	r = keep(scrape, target, &response, outcome, err);
	leave_slot(scrape);
	return r;
}

void scrape_fetch(struct scrape *scrape, struct scrape_target *target)
{
	struct error err = {0};
	struct outcome outcome = {.started_ns = time_now_ns()};
	int64_t began_ns = time_monotonic_ns();
	int r = fetch(scrape, target, &outcome, &err);
	int64_t ended_ns = outcome.scraped_ns ? outcome.scraped_ns : time_monotonic_ns();
	pthread_mutex_lock(&scrape->lock);
	if (r != -ECANCELED) {
		target->health = r < 0 ? SCRAPE_DOWN : SCRAPE_UP;
		target->last_ns = outcome.started_ns;
		target->took_ns = ended_ns - began_ns;
		target->samples = outcome.samples;
		target->bytes = outcome.bytes;
		target->scrapes++;
		target->failures += r < 0;
		target->restarts += outcome.restarted;
		snprintf(target->error, sizeof(target->error), "%.255s", r < 0 ? err.message : "");
		scrape->stats.scrapes++;
		scrape->stats.failures += r < 0;
		scrape->stats.samples += outcome.samples;
		scrape->stats.bytes += outcome.bytes;
		scrape->stats.restarts += outcome.restarted;
	}
	pthread_mutex_unlock(&scrape->lock);
}
