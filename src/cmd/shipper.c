/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/shipper.h"

#include <errno.h>
#include <stdatomic.h>

#include "agent/spool.h"
#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time.h"
#include "format/otlp.h"
#include "net/net.h"

#define EXPORT_PATH	    "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
#define SPOOL_BYTES_DEFAULT (8 * MIB)
#define PAUSE_MIN_NS	    (NS_PER_S / 2)
#define PAUSE_MAX_NS	    (10 * NS_PER_S)
/* A server whose limit refuses a profile may have room later, or never: then the others must not wait behind it. */
#define LIMIT_TRIES	5
#define SEND_TIMEOUT_NS (15 * NS_PER_S)

struct shipper {
	struct spool *spool;
	struct net_client *client;
	pthread_t thread;
	bool running;
	bool cancel; /* read by the client while it waits */
	char *url;
	atomic_uint_fast64_t sent, refused, bytes_sent, failures;
	atomic_int_fast64_t give_up_ns; /* monotonic; 0 = never */
	bool reported;			/* the current outage has been logged */
	unsigned limit_refusals;	/* of the record at the front, in a row */
};

enum outcome { DELIVERED, REFUSED, TRY_AGAIN };

static enum outcome send_once(struct shipper *shipper, const struct buffer *record)
{
	struct error err = {0};
	struct bytes message = buffer_bytes(record);
	_cleanup_(net_client_response_release) struct net_client_response response;
	net_client_response_init(&response);
	int r = net_client_grpc(shipper->client, EXPORT_PATH, &message, 1, true, NULL, NULL, &response, &err);
	if (!r && response.grpc_status == GRPC_OK) {
		if (shipper->reported)
			log_info("%s answers again", shipper->url);
		shipper->reported = false;
		return DELIVERED;
	}
	atomic_fetch_add(&shipper->failures, 1);
	bool over_limit = !r && response.grpc_status == GRPC_RESOURCE_EXHAUSTED;
	shipper->limit_refusals = over_limit ? shipper->limit_refusals + 1 : 0;
	const char *why = r ? err.message : response.message[0] ? response.message : "no answer";
	if (!r && (response.grpc_status == GRPC_INVALID_ARGUMENT || response.grpc_status == GRPC_UNIMPLEMENTED ||
		   shipper->limit_refusals == LIMIT_TRIES)) {
		shipper->limit_refusals = 0;
		log_error("the server refused a profile: %s", why);
		return REFUSED;
	}
	if (!shipper->reported)
		log_warn("cannot send to %s, profiles are kept and tried again: %s", shipper->url, why);
	shipper->reported = true;
	return TRY_AGAIN;
}

static bool gave_up(struct shipper *shipper)
{
	int64_t at = atomic_load(&shipper->give_up_ns);
	return at && time_monotonic_ns() >= at;
}

/* Sleeps in short pieces, so that the end of the agent is not held up by a pause. */
static void pause_for(struct shipper *shipper, int64_t duration_ns)
{
	int64_t until = time_monotonic_ns() + duration_ns;
	while (time_monotonic_ns() < until && !gave_up(shipper))
		time_sleep_ns(50 * NS_PER_MS);
}

static void *shipper_run(void *context)
{
	struct shipper *shipper = context;
	int64_t pause_ns = PAUSE_MIN_NS;
	while (!gave_up(shipper)) {
		struct buffer record;
		if (spool_pop(shipper->spool, NS_PER_S, &record) <= 0) {
			if (spool_is_closed(shipper->spool))
				break;
			continue;
		}
		size_t len = record.len;
		enum outcome outcome = send_once(shipper, &record);
		spool_done(shipper->spool, &record, outcome != TRY_AGAIN);
		if (outcome == TRY_AGAIN) {
			pause_for(shipper, pause_ns);
			pause_ns = pause_ns * 2 > PAUSE_MAX_NS ? PAUSE_MAX_NS : pause_ns * 2;
			continue;
		}
		pause_ns = PAUSE_MIN_NS;
		atomic_fetch_add(outcome == DELIVERED ? &shipper->sent : &shipper->refused, 1);
		atomic_fetch_add(&shipper->bytes_sent, outcome == DELIVERED ? len : 0);
	}
	return NULL;
}

int shipper_new(const struct shipper_options *options, struct shipper **ret, struct error *err)
{
	_cleanup_(shipper_freep) struct shipper *shipper = mem_zalloc(sizeof(*shipper));
	if (!shipper || !(shipper->url = mem_strdup(options->url)))
		return error_nomem(err);
	struct net_client_options client = {.url = options->url,
					    .timeout_ns = SEND_TIMEOUT_NS,
					    .response_max = MIB,
					    .token = options->token,
					    .cancel = &shipper->cancel};
	int r = net_client_new(&client, &shipper->client, err);
	if (!r)
		r = spool_new(options->spool_bytes_max ? options->spool_bytes_max : SPOOL_BYTES_DEFAULT, &shipper->spool, err);
	if (!r)
		r = thread_start(&shipper->thread, "wick-shipper", shipper_run, shipper, err);
	if (r)
		return r;
	shipper->running = true;
	*ret = shipper;
	shipper = NULL;
	return 0;
}

int shipper_push(struct shipper *shipper, const struct profile *profile, struct error *err)
{
	_cleanup_(buffer_release) struct buffer record;
	buffer_init(&record, LIMIT_PROFILE_INPUT_BYTES);
	int r = otlp_encode(&profile, 1, &record, err);
	return r ? r : spool_push(shipper->spool, &record, err);
}

void shipper_finish(struct shipper *shipper, int64_t timeout_ns)
{
	if (!shipper->running)
		return;
	atomic_store(&shipper->give_up_ns, time_monotonic_ns() + timeout_ns);
	spool_close(shipper->spool);
	/* The thread ends when the spool is empty; a call that hangs is cancelled when the time is up. */
	struct spool_stats stats;
	do {
		time_sleep_ns(10 * NS_PER_MS);
		spool_get_stats(shipper->spool, &stats);
	} while (stats.records && !gave_up(shipper));
	__atomic_store_n(&shipper->cancel, gave_up(shipper), __ATOMIC_RELAXED);
	pthread_join(shipper->thread, NULL);
	shipper->running = false;
}

struct shipper *shipper_free(struct shipper *shipper)
{
	if (!shipper)
		return NULL;
	shipper_finish(shipper, 0);
	net_client_free(shipper->client);
	spool_free(shipper->spool);
	mem_free(shipper->url);
	return mem_free(shipper);
}

void shipper_get_stats(struct shipper *shipper, struct shipper_stats *ret)
{
	struct spool_stats spool;
	spool_get_stats(shipper->spool, &spool);
	*ret = (struct shipper_stats){.sent = atomic_load(&shipper->sent),
				      .dropped = spool.dropped + atomic_load(&shipper->refused),
				      .waiting = spool.records,
				      .bytes_sent = atomic_load(&shipper->bytes_sent),
				      .failures = atomic_load(&shipper->failures)};
}
