/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One scrape: request, decode, compare with the last one, label, store, note how it went.
 *
 * Memory. Hundreds of workers may be waiting for answers; what they have received counts against one budget. Only
 * SCRAPE_DECODERS of them decode and store at a time.
 *
 * Times are the server's own: a target's clock may be wrong, and one whose clock is ahead would be refused by the store.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/time.h"
#include "format/format.h"
#include "server/ingest/ingest_int.h"
#include "server/scrape/scrape_int.h"

/* ---- what came ---- */

/* A page of a login, or of Go's index of profiles, comes with status 200. It is reported as such if it is no profile: some
 * servers call everything HTML. */
static bool is_html(const struct net_client_response *response, struct bytes body)
{
	static const char *const starts[] = {"<!doctype html", "<html", "<head", "<body", "<script", "<!--"};
	size_t at = bytes_start_with(body, "\xef\xbb\xbf") ? 3 : 0;
	if (!strncasecmp(response->content_type, "text/html", 9) ||
	    !strncasecmp(response->content_type, "application/xhtml", 17))
		return true;
	while (at < body.len && (body.data[at] == ' ' || (body.data[at] >= '\t' && body.data[at] <= '\r')))
		at++;
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
		size_t len = strlen(starts[i]);
		if (body.len - at >= len && !strncasecmp((const char *)body.data + at, starts[i], len))
			return true;
	}
	return false;
}

static int not_profile(const struct net_client_response *response, struct error *err)
{
	char type[64];
	snprintf(type, sizeof(type), "%.*s", (int)strcspn(response->content_type, "; "), response->content_type);
	for (char *at = type; *at; at++)
		if (*at < ' ' || *at >= 0x7f)
			*at = '?';
	return error_set(err, -EBADMSG, "the target returned an HTML page (%s), not a profile",
			 *type ? type : "no Content-Type");
}

static int decode(struct net_client_response *response, size_t body_max, struct buffer *plain, struct profile **ret,
		  struct error *err)
{
	struct format_options options = {.input_name = "the response", .decompressed_max = body_max};
	int r = scrape_http_body(response, body_max, plain, err);
	if (r < 0)
		return error_prefix(err, r, "the response");
	struct bytes body = buffer_bytes(plain);
	r = format_decode(format_by_name("pprof"), body, &options, ret, err);
	return r < 0 && r != -ENOMEM && is_html(response, body) ? not_profile(response, err) : r;
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

static int store(struct scrape *scrape, struct scrape_target *target, struct profile *profile, const struct labels *labels,
		 struct bytes body, uint64_t *ret_samples, struct error *err)
{
	struct ingest ingest = {.server = scrape->server, .body = body, .note.reason = REFUSALS};
	/* Equal bodies of two scrapes are two measurements. */
	uint64_t number = atomic_fetch_add_explicit(&scrape->sequence, 1, memory_order_relaxed) + 1;
	int r = tenant_by_name(scrape->server, target->job->tenant, true, &ingest.tenant, err);
	if (r == 0)
		r = limits_admit(ingest.tenant, body.len, &ingest.note, err);
	if (r < 0 && ingest.note.reason == REFUSALS)
		ingest.note.reason = refusal_of(r);
	if (r == 0)
		r = ingest_store(&ingest, profile, name_of(target), labels, number, err);
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

static int store_labelled(struct scrape *scrape, struct scrape_target *target, struct profile *profile, struct bytes body,
			  struct outcome *outcome, struct error *err)
{
	_cleanup_(labels_release) struct labels labels = {0};
	int r = scrape_label_samples(target, profile, &labels, err);
	if (r == 0 && (profile->sample_count > 0 || profile_has_gauge(profile, name_of(target))))
		r = store(scrape, target, profile, &labels, body, &outcome->samples, err);
	return r < 0 ? r : 0;
}

static int keep(struct scrape *scrape, struct scrape_target *target, struct net_client_response *response,
		struct outcome *outcome, struct error *err)
{
	_cleanup_(buffer_release) struct buffer body = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct scrape_delta next = {0};
	int r = decode(response, target->job->body_max, &body, &profile, err);
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
	r = ingest_take_pprof(profile, name_of(target), err);
	if (r == 0)
		r = sum_samples(scrape, target, profile, &next, &outcome->restarted, err);
	if (r == 0)
		r = store_labelled(scrape, target, profile, buffer_bytes(&body), outcome, err);
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
	_cleanup_(scrape_session_release) struct scrape_session session = {0};
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	_cleanup_(buffer_release) struct buffer url = {.max = SCRAPE_URL_BYTES_MAX};
	const struct scrape_job *job = target->job;
	int64_t extra_ns = target->profile->delta ? measured_ns(target) : 0;
	if (buffer_printf(&url, "%s%s", target->origin, target->path) < 0 || !buffer_string(&url))
		return error_set(err, -E2BIG, "the address is too long");
	struct scrape_request request = {.url = (const char *)url.data,
					 .timeout_ns = job->timeout_ns + extra_ns,
					 .body_max = job->body_max,
					 .cancel = &target->cancel,
					 .budget = &scrape->budget};
	int r = scrape_http_request(&session, &job->http, &request, &response, err);
	if (r < 0)
		return r;
	outcome->bytes = response.body.len;
	outcome->scraped_ns = time_monotonic_ns();
	if (response.status != 200)
		return scrape_http_status(&response, response.encoding[0] ? (struct bytes){0} : buffer_bytes(&response.body),
					  err);
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
