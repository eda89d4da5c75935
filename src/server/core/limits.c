/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant may do, and what is said and counted when it wants more.
 *
 * Rates are token buckets that may go into debt: a request is let in while there are tokens left, and pays afterwards what it
 * turned out to cost. So a request that is larger than the burst is not refused for ever, nothing needs to be decoded to be
 * refused, and the average is held all the same. What is refused costs nothing.
 *
 * Every refusal names its limit by the name that the configuration uses, is counted under it, and has the status that tells a
 * client what to do: 429 later, 413 smaller, 422 never, 507 when there is room again.
 */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "server/core/server_int.h"

const char *const server_limit_names[SERVER_LIMIT_COUNT] = {
	"ingest_bytes_per_second",
	"ingest_bytes_burst",
	"ingest_samples_per_second",
	"ingest_samples_burst",
	"body_size",
	"series",
	"labels_per_series",
	"label_value_length",
	"stacks_per_profile",
	"stacks_per_block",
	"query_rows",
	"query_stacks",
	"query_memory",
};
_Static_assert(sizeof(struct server_limits) == SERVER_LIMIT_COUNT * sizeof(uint64_t), "a limit without a name");

const char *const refusal_names[REFUSALS] = {
	[REFUSED_BYTES_RATE] = "ingest_bytes_per_second",
	[REFUSED_SAMPLES_RATE] = "ingest_samples_per_second",
	[REFUSED_BODY] = "body_size",
	[REFUSED_SERIES] = "series",
	[REFUSED_LABELS] = "labels_per_series",
	[REFUSED_VALUE] = "label_value_length",
	[REFUSED_STACKS] = "stacks_per_profile",
	[REFUSED_TENANTS] = "tenants_max",
	[REFUSED_PROFILE_SIZE] = "profile_size",
	[REFUSED_DISK] = "disk_full",
	[REFUSED_MALFORMED] = "malformed",
	[REFUSED_INVALID] = "invalid",
	[REFUSED_AGE] = "age",
	[REFUSED_OTHER] = "failure",
};

/* ---- rates ---- */

#define BURST_SECONDS 10

static double bucket_burst(uint64_t rate, uint64_t burst)
{
	return burst ? (double)burst : (double)rate * BURST_SECONDS;
}

static void bucket_fill(struct bucket *bucket, uint64_t rate, uint64_t burst, int64_t now_ns)
{
	double most = bucket_burst(rate, burst);
	double earned = (double)(now_ns - bucket->filled_ns) / NS_PER_S * (double)rate;
	bucket->tokens = !bucket->filled_ns || bucket->tokens + earned > most ? most : bucket->tokens + earned;
	bucket->filled_ns = now_ns;
}

/* 0, or the seconds after which it will do. */
unsigned bucket_check(struct bucket *bucket, uint64_t rate, uint64_t burst, int64_t now_ns)
{
	if (rate == 0)
		return 0;
	bucket_fill(bucket, rate, burst, now_ns);
	if (bucket->tokens > 0)
		return 0;
	double seconds = -bucket->tokens / (double)rate;
	return seconds > 3600 ? 3600 : (unsigned)seconds + 1;
}

void bucket_pay(struct bucket *bucket, uint64_t amount)
{
	bucket->tokens -= (double)amount;
}

static int refuse_rate(struct tenant *tenant, enum refusal reason, uint64_t rate, const char *what, unsigned seconds,
		       struct refusal_note *note, struct error *err)
{
	*note = (struct refusal_note){.reason = reason, .retry_after_s = seconds};
	return error_set(err, -EDQUOT, "limit %s: more than %llu %s a second%s%.160s%s; try again in %u s",
			 refusal_names[reason], (unsigned long long)rate, what, tenant->is_default ? "" : " from tenant '",
			 tenant->is_default ? "" : tenant->name, tenant->is_default ? "" : "'", seconds);
}

size_t server_body_max(const struct server *server)
{
	return server->options.body_bytes_max ? server->options.body_bytes_max : LIMIT_PROFILE_INPUT_BYTES;
}

int limits_admit(struct tenant *tenant, size_t body_bytes, struct refusal_note *note, struct error *err)
{
	const struct server_limits *limits = &tenant->limits;
	int64_t now_ns = time_monotonic_ns();
	char size[TEXT_NUMBER_MAX];
	if (limits->body_size && body_bytes > limits->body_size) {
		note->reason = REFUSED_BODY;
		return error_set(err, -E2BIG, "limit body_size: the body has %zu bytes, the limit is %s", body_bytes,
				 text_format_size(limits->body_size, size));
	}
	pthread_mutex_lock(&tenant->bucket_lock);
	unsigned bytes_wait = bucket_check(&tenant->bytes, limits->ingest_bytes_per_second, limits->ingest_bytes_burst, now_ns);
	unsigned samples_wait =
		bucket_check(&tenant->samples, limits->ingest_samples_per_second, limits->ingest_samples_burst, now_ns);
	if (!bytes_wait && !samples_wait)
		bucket_pay(&tenant->bytes, body_bytes);
	pthread_mutex_unlock(&tenant->bucket_lock);
	if (bytes_wait)
		return refuse_rate(tenant, REFUSED_BYTES_RATE, limits->ingest_bytes_per_second, "bytes", bytes_wait, note, err);
	if (samples_wait)
		return refuse_rate(tenant, REFUSED_SAMPLES_RATE, limits->ingest_samples_per_second, "samples", samples_wait,
				   note, err);
	return 0;
}

void limits_pay_samples(struct tenant *tenant, uint64_t samples)
{
	THREAD_LOCK_SCOPE(&tenant->bucket_lock);
	bucket_pay(&tenant->samples, samples);
}

/* ---- what a profile may hold ---- */

static int check_values(const struct profile *profile, const struct profile_label_set *set, uint64_t max,
			struct refusal_note *note, struct error *err)
{
	for (uint32_t i = 0; i < set->count && max; i++) {
		const struct profile_label *label = &profile->labels[set->first + i];
		size_t len = profile_string_bytes(profile, label->value).len;
		if (len <= max)
			continue;
		note->reason = REFUSED_VALUE;
		return error_set(err, -EINVAL,
				 "limit label_value_length: the value of label '%.60s' has %zu bytes, the limit is %llu",
				 profile_string(profile, label->key), len, (unsigned long long)max);
	}
	return 0;
}

static int check_labels(const struct profile *profile, uint32_t set, const struct labels *base,
			const struct server_limits *limits, struct refusal_note *note, struct error *err)
{
	uint64_t max = limits->labels_per_series && limits->labels_per_series < LIMIT_LABELS_PER_SERIES
			       ? limits->labels_per_series
			       : LIMIT_LABELS_PER_SERIES;
	int r = check_values(profile, &profile->label_sets[set], limits->label_value_length, note, err);
	if (r < 0 ||
	    profile->label_sets[set].count + profile->label_sets[profile->resource_labels].count + (base ? base->count : 0) <=
		    max)
		return r;
	_cleanup_(labels_release) struct labels labels = {0};
	struct error inner = {0};
	r = labels_of_sample(profile, set, base, &labels, &inner);
	if (r == -ENOMEM)
		return error_nomem(err);
	if (!r && labels.count <= max)
		return 0;
	note->reason = REFUSED_LABELS;
	if (r < 0)
		return error_set(err, -EINVAL, "limit labels_per_series: %.400s", inner.message);
	return error_set(err, -EINVAL, "limit labels_per_series: a series has %zu labels, the limit is %llu", labels.count,
			 (unsigned long long)max);
}

/* Sets bit i; true if it was not set. */
static bool mark(uint64_t *bits, uint32_t i)
{
	uint64_t bit = 1ull << (i & 63), old = bits[i >> 6];
	bits[i >> 6] = old | bit;
	return !(old & bit);
}

int limits_check_profile(const struct tenant *tenant, const struct profile *profile, const struct labels *base,
			 struct refusal_note *note, struct error *err)
{
	const struct server_limits *limits = &tenant->limits;
	_cleanup_(mem_freep) uint64_t *sets = mem_zalloc_array(profile->label_set_count / 64 + 1, sizeof(*sets));
	_cleanup_(mem_freep) uint64_t *stacks = mem_zalloc_array(profile->stack_count / 64 + 1, sizeof(*stacks));
	size_t stack_count = 0;
	if (!sets || !stacks)
		return error_nomem(err);
	int r = check_values(profile, &profile->label_sets[profile->resource_labels], limits->label_value_length, note, err);
	for (size_t i = 0; i < profile->sample_count && !r; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		stack_count += mark(stacks, sample->stack);
		if (mark(sets, sample->labels))
			r = check_labels(profile, sample->labels, base, limits, note, err);
	}
	if (r < 0 || !limits->stacks_per_profile || stack_count <= limits->stacks_per_profile)
		return r;
	note->reason = REFUSED_STACKS;
	return error_set(err, -EINVAL, "limit stacks_per_profile: the profile has %zu different stacks, the limit is %llu",
			 stack_count, (unsigned long long)limits->stacks_per_profile);
}

void limits_of_query(const struct tenant *tenant, struct query *ret)
{
	ret->rows_max = tenant->limits.query_rows ? tenant->limits.query_rows : SERVER_QUERY_ROWS_DEFAULT;
	ret->stacks_max = tenant->limits.query_stacks;
}

/* ---- what is said ---- */

enum refusal refusal_of(int code)
{
	switch (code) {
	case -EBADMSG: return REFUSED_MALFORMED;
	case -EINVAL: return REFUSED_INVALID;
	case -E2BIG: return REFUSED_PROFILE_SIZE;
	case -EDQUOT: return REFUSED_SERIES;
	case -ENOSPC: return REFUSED_DISK;
	default: return REFUSED_OTHER;
	}
}

void refusal_headers(struct net_response *response, int code, const struct refusal_note *note)
{
	char seconds[TEXT_NUMBER_MAX];
	unsigned wait = note->retry_after_s ? note->retry_after_s : code == -EDQUOT ? 60 : code == -ENOSPC ? 30 : 0;
	snprintf(seconds, sizeof(seconds), "%u", wait);
	if (wait)
		net_response_header(response, "Retry-After", seconds);
	net_response_header(response, "X-Wick-Limit", refusal_names[note->reason]);
	if (!note->stored)
		return;
	snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)note->stored);
	net_response_header(response, "X-Wick-Stored", seconds);
}
