/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target's thread: sends the oldest record until the target has it, refuses it for good, or time is over.
 *
 * Pauses between tries double from half a second to the target's maximum, each between a half and the whole of it by chance, so
 * that agents that lost their server together do not come back together. A server that says how long to wait is given that
 * long. What a server answers to one record for reasons of its own (internal errors; exhausted resources without a time) is
 * tried a bounded number of times: it may be that very record that it cannot take, and then the others must not wait behind it.
 * An absent server, and one that refuses who is asking, cannot tell one record from another, and are tried for as long as the
 * spool lasts.
 */
#include <string.h>

#include "base/hash.h"
#include "base/time.h"
#include "export/export_int.h"

#define PAUSE_MIN_NS	   (NS_PER_S / 2)
#define PAUSE_MAX_NS	   (10 * NS_PER_S)
#define LIMITED_TRIES	   6
#define LOSSES_INTERVAL_NS (60 * NS_PER_S)

static int64_t next_pause(struct sender *sender, int64_t pause_ns)
{
	int64_t most_ns = sender->target->retry_max_ns ? sender->target->retry_max_ns : PAUSE_MAX_NS;
	pause_ns = pause_ns ? pause_ns * 2 : PAUSE_MIN_NS;
	return pause_ns < most_ns ? pause_ns : most_ns;
}

static void rest(struct sender *sender, int64_t pause_ns, int64_t asked_ns)
{
	sender->random = hash64_mix(sender->random + 0x9e3779b97f4a7c15ull);
	int64_t spread_ns = pause_ns / 2 + (int64_t)(sender->random % (uint64_t)(pause_ns / 2 + 1));
	int64_t until_ns = time_monotonic_ns() + (asked_ns > spread_ns ? asked_ns : spread_ns);
	exporter_wait(sender->exporter, until_ns);
}

/* ---- log messages ---- */

/* The same reason with other numbers in it is the same reason. */
static bool is_new_reason(struct sender *sender, const char *why)
{
	char text[512];
	size_t len = 0;
	for (; *why && len < sizeof(text); why++)
		if (*why < '0' || *why > '9')
			text[len++] = *why;
	uint64_t hash = hash64(text, len);
	for (size_t i = 0; i < sender->reason_count; i++)
		if (sender->reasons[i] == hash)
			return false;
	if (sender->reason_count < EXPORT_REASONS_KEPT)
		sender->reasons[sender->reason_count++] = hash;
	else
		sender->reasons[hash % EXPORT_REASONS_KEPT] = hash;
	return true;
}

static void log_rejection(struct sender *sender, const char *why)
{
	if (is_new_reason(sender, why))
		exporter_log(sender->exporter, LOG_ERROR,
			     "%s rejected a profile, which is dropped (further ones for this reason are only counted): %s",
			     sender->name, why);
}

static void log_outage(struct sender *sender, const char *why)
{
	if (!sender->away)
		exporter_log(sender->exporter, LOG_WARN, "cannot send to %s; profiles are kept and retried: %s", sender->name,
			     why);
	sender->away = true;
}

static void log_recovery(struct sender *sender)
{
	struct spool_stats stats;
	if (!sender->away)
		return;
	spool_get_stats(sender->spool, &stats);
	exporter_log(sender->exporter, LOG_INFO, "%s is reachable again; %llu profiles with %llu samples are queued",
		     sender->name, (unsigned long long)stats.profiles, (unsigned long long)stats.samples);
	sender->away = false;
}

static void log_losses(struct sender *sender, bool last)
{
	static const char *const why[SPOOL_LOSSES] = {"because the spool was full", "because they were too old",
						      "because they were damaged",
						      "at shutdown, because there is no spool on disk"};
	struct spool_stats now, *logged = &sender->logged;
	if (!last && time_monotonic_ns() - sender->losses_logged_ns < LOSSES_INTERVAL_NS && sender->losses_logged_ns)
		return;
	spool_get_stats(sender->spool, &now);
	for (size_t i = 0; i < SPOOL_LOSSES; i++) {
		uint64_t profiles = now.lost[i].profiles - logged->lost[i].profiles;
		if (now.lost[i].records == logged->lost[i].records)
			continue;
		sender->losses_logged_ns = time_monotonic_ns();
		exporter_log(sender->exporter, LOG_WARN, "%s: %llu profiles with %llu samples were dropped %s%s%s",
			     sender->name, (unsigned long long)profiles,
			     (unsigned long long)(now.lost[i].samples - logged->lost[i].samples), why[i],
			     i == SPOOL_LOST_DAMAGED ? ": " : "", i == SPOOL_LOST_DAMAGED ? now.damage : "");
	}
	if (strcmp(now.problem, logged->problem) != 0 && now.problem[0])
		exporter_log(sender->exporter, LOG_WARN, "profiles for %s are kept in memory, not on disk: %s", sender->name,
			     now.problem);
	*logged = now;
}

/* ---- counting ---- */

static void count(struct sender *sender, const struct spool_meta *meta, size_t bytes, const struct attempt *attempt)
{
	bool delivered = attempt->verdict == DELIVERED;
	uint64_t rejected = attempt->rejected < meta->profiles ? attempt->rejected : meta->profiles;
	THREAD_LOCK_SCOPE(&sender->lock);
	struct export_stats *stats = &sender->stats;
	stats->failures += !delivered;
	stats->away = attempt->verdict == TRY_AGAIN;
	memset(stats->problem, 0, sizeof(stats->problem));
	if (!delivered)
		memcpy(stats->problem, attempt->why, strnlen(attempt->why, sizeof(stats->problem) - 1));
	if (delivered) {
		stats->sent_profiles += meta->profiles - rejected;
		stats->sent_samples += rejected == meta->profiles && rejected ? 0 : meta->samples;
		stats->sent_bytes += bytes;
		stats->refused_profiles += rejected;
		stats->refused_samples += rejected == meta->profiles && rejected ? meta->samples : 0;
	} else if (attempt->verdict == REFUSED) {
		stats->refused_profiles += meta->profiles;
		stats->refused_samples += meta->samples;
	}
}

/* ---- the thread ---- */

static void log_credentials(struct sender *sender, int r, const struct error *err)
{
	if (r < 0 && is_new_reason(sender, err->message))
		exporter_log(sender->exporter, LOG_WARN, "%s: %s", sender->name, err->message);
}

/* Whether the front is done with. */
static bool classify_attempt(struct sender *sender, struct attempt *attempt)
{
	sender->tries = attempt->limited ? sender->tries + 1 : 0;
	if (attempt->verdict == TRY_AGAIN && sender->tries >= LIMITED_TRIES)
		attempt->verdict = REFUSED;
	if (attempt->verdict == TRY_AGAIN) {
		log_outage(sender, attempt->why);
		/* What the file holds now may be better. */
		struct error err = {0};
		log_credentials(sender, attempt->unauthorized ? sender_connect(sender, &err) : 0, &err);
		return false;
	}
	sender->tries = 0;
	if (attempt->verdict == REFUSED || attempt->rejected)
		log_rejection(sender, attempt->why);
	log_recovery(sender);
	return true;
}

/* False when there is nothing more to do. */
static bool send_next(struct sender *sender, int64_t *pause_ns)
{
	struct spool_meta meta;
	struct attempt attempt = {.verdict = TRY_AGAIN};
	_cleanup_(buffer_release) struct buffer record = {.max = SPOOL_RECORD_MAX};
	int r = spool_front(sender->spool, NS_PER_S, &meta, &record, NULL);
	if (r == 0)
		return !spool_is_over(sender->spool);
	if (r < 0) {
		rest(sender, NS_PER_S, 0);
		return true;
	}
	struct error err = {0};
	log_credentials(sender, sender_renew(sender, &err), &err);
	sender_attempt(sender, &meta, buffer_bytes(&record), &attempt);
	if (exporter_gave_up(sender->exporter) && attempt.verdict != DELIVERED) {
		spool_done(sender->spool, false);
		return false;
	}
	bool done = classify_attempt(sender, &attempt);
	if (attempt.verdict == DELIVERED && sender->report_made)
		sender->reported = sender->report;
	if (done)
		sender->report_made = false;
	count(sender, &meta, record.len, &attempt);
	spool_done(sender->spool, done);
	if (done)
		*pause_ns = 0;
	else
		*pause_ns = next_pause(sender, *pause_ns);
	buffer_release(&record);
	if (!done)
		rest(sender, *pause_ns, attempt.wait_ns);
	return true;
}

void *sender_run(void *context)
{
	struct sender *sender = context;
	int64_t pause_ns = 0;
	while (!exporter_gave_up(sender->exporter) && send_next(sender, &pause_ns))
		log_losses(sender, false);
	spool_drop_memory(sender->spool); /* nobody takes it from here any more */
	log_losses(sender, true);
	return NULL;
}
