/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads. One checks the recorder each second and makes marker batches; the other takes them from a spool
 * (export/spool.h), the oldest first, and sends each until the server has it, refuses it, or it must make room. Between batches
 * there is no gap: marker_recorder_take() ends one and begins the next.
 *
 * A record of the spool is the query string that the server wants, with the time range of the batch and the offset of the
 * clock, a line feed, and the gzip file. So a batch that was queued for a day has the clock of its time.
 *
 * A collector that failed, as when memory ran out, is begun anew a minute later; what it had is lost, and that is said.
 */
#include "daemon/agent_markers.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "agent/markers/marker_recorder.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"
#include "codec/compress.h"
#include "control/link.h"
#include "control/protocol.h"
#include "daemon/control_client.h"
#include "export/spool.h"
#include "format/format.h"
#include "net/net.h"
#include "profile/hosts.h"

#define BATCH_INTERVAL_NS  (60 * NS_PER_S)
#define CHECK_INTERVAL_NS  NS_PER_S
#define AGAIN_NS	   (60 * NS_PER_S) /* after a failure of the collector */
#define PAUSE_MIN_NS	   NS_PER_S
#define PAUSE_MAX_NS	   (30 * NS_PER_S)
#define PAUSE_ELSEWHERE_NS (300 * NS_PER_S) /* the server does not support marker batches */
#define SEND_TIMEOUT_NS	   (60 * NS_PER_S)
#define ANSWER_BYTES_MAX   (64u * 1024)
#define QUERY_BYTES_MAX	   1024
#define BATCH_BYTES_MAX	   (60u * 1024 * 1024)
#define GZIP_LEVEL	   1

/* The losses of one batch, for its comments. */
struct losses {
	uint64_t lost, left_out, malformed, refused;
};

struct agent_markers {
	struct agent_markers_options options;
	char *host;
	struct spool *spool;
	pthread_t taker, sender;
	bool has_taker, has_sender;
	pthread_mutex_t lock; /* of what both threads and others see: stop, stats */
	pthread_cond_t wake;
	bool stop;			   /* of the taker */
	atomic_bool cancel;		   /* of the sender: its client polls it */
	_Atomic int64_t give_up_ns;	   /* of the sender, monotonic; 0 = never */
	struct marker_recorder_stats sums; /* of collectors that came before this one */
	struct link_markers stats;

	/* of the taker */
	struct marker_recorder *recorder; /* NULL = it failed; made, freed and asked for numbers under the lock */
	int64_t batch_from_ns;		  /* monotonic */
	int64_t again_ns;		  /* monotonic */
	bool yielding_is_logged;
	struct losses reported;

	/* of the sender */
	struct net_client *net;
	bool outage_is_logged, rejection_is_logged;
};

/* ---- numbers ---- */

/* With the lock: of this collector and those before. */
static struct marker_recorder_stats sum_stats(struct agent_markers *markers)
{
	struct marker_recorder_stats sum = markers->sums, now = {0};
	if (markers->recorder)
		marker_recorder_get_stats(markers->recorder, &now);
	sum.markers += now.markers;
	sum.rows += now.rows;
	sum.processes += now.processes;
	sum.lost += now.lost;
	sum.left_out += now.left_out;
	sum.malformed += now.malformed;
	sum.refused += now.refused;
	sum.yielded = now.yielded;
	sum.waiting = now.waiting;
	sum.is_full = now.is_full;
	return sum;
}

void agent_markers_get_stats(struct agent_markers *markers, struct link_markers *ret)
{
	struct spool_stats spool;
	spool_get_stats(markers->spool, &spool);
	pthread_mutex_lock(&markers->lock);
	struct marker_recorder_stats recorder = sum_stats(markers);
	*ret = markers->stats;
	pthread_mutex_unlock(&markers->lock);
	ret->is_on = 1;
	ret->collected = recorder.markers + recorder.rows;
	ret->lost = recorder.lost;
	ret->left_out = recorder.left_out;
	ret->malformed = recorder.malformed;
	ret->processes = recorder.processes;
	ret->refused = recorder.refused;
	ret->yielded = recorder.yielded;
	ret->batches_queued = spool.records;
	ret->markers_waiting = spool.samples + recorder.waiting;
	ret->bytes_waiting = spool.bytes;
	for (size_t i = 0; i < SPOOL_LOSSES; i++) {
		ret->batches_dropped += spool.lost[i].records;
		ret->markers_dropped += spool.lost[i].samples;
	}
}

/* ---- marker batches ---- */

static int add_loss(struct profile *profile, const char *what, uint64_t now, uint64_t reported, struct error *err)
{
	char text[160];
	if (now <= reported)
		return 0;
	snprintf(text, sizeof(text), "wick agent: %s: %llu", what, (unsigned long long)(now - reported));
	return profile_add_comment_text(profile, text, err);
}

static int add_losses(struct agent_markers *markers, struct profile *profile, const struct losses *now, struct error *err)
{
	const struct losses *reported = &markers->reported;
	int r = add_loss(profile, "markers lost: ring buffers were full", now->lost, reported->lost, err);
	if (r == 0)
		r = add_loss(profile, "markers dropped across the batch: too many", now->left_out, reported->left_out, err);
	if (r == 0)
		r = add_loss(profile, "malformed markers dropped", now->malformed, reported->malformed, err);
	if (r == 0)
		r = add_loss(profile, "processes whose markers could not be read", now->refused, reported->refused, err);
	return r;
}

/* The host, how its clock stands, and a type of samples, which every profile has. */
static int complete(const struct agent_markers *markers, struct profile *profile, const struct host_clock *clock,
		    struct error *err)
{
	int r = profile_complete_hosts(profile, markers->host, err);
	if (r == 0)
		r = profile_add_named_type(profile, "cpu", "nanoseconds", err);
	return r < 0 ? r : control_add_host_clock(profile, markers->host, clock, err);
}

/* The earliest time that something in it has: spans are in the batch in which they end. */
static int64_t first_time(const struct profile *profile, int64_t from_ns)
{
	int64_t first_ns = from_ns;
	for (size_t i = 0; i < profile_marker_count(profile); i++) {
		const struct profile_marker *marker = &profile->markers->markers[i];
		if (marker->phase != PROFILE_MARKER_END && marker->start_ns < first_ns)
			first_ns = marker->start_ns;
	}
	return first_ns;
}

struct packing {
	struct gzip_stream *gzip;
	struct buffer *out;
};
static int pack(void *context, struct bytes bytes, struct error *err)
{
	const struct packing *packing = context;
	return gzip_stream_write(packing->gzip, bytes, false, packing->out, err);
}

/* As text it would be ten times as long: it is packed as it comes. */
static int write_record(const struct profile *profile, const struct host_clock *clock, int64_t from_ns, int64_t to_ns,
			struct buffer *out, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = 4 * FORMAT_SINK_BYTES};
	_cleanup_(gzip_stream_freep) struct gzip_stream *gzip = NULL;
	buffer_printf(out, "from_ns=%lld&to_ns=%lld&first_ns=%lld", (long long)from_ns, (long long)to_ns,
		      (long long)first_time(profile, from_ns));
	control_client_put_clock(out, clock, '&');
	if (buffer_append_byte(out, '\n') < 0)
		return error_nomem(err);
	int r = gzip_stream_new(GZIP_LEVEL, &gzip, err);
	struct packing packing = {gzip, out};
	struct format_sink sink = {.out = &text, .flush = pack, .context = &packing};
	if (r == 0)
		r = format_write(format_by_name("firefox"), profile, NULL, &sink, err);
	return r < 0 ? r : gzip_stream_write(gzip, (struct bytes){0}, true, out, err);
}

static int spool_batch(struct agent_markers *markers, struct profile *profile, const struct losses *losses, int64_t from_ns,
		       int64_t to_ns, struct error *err)
{
	_cleanup_(buffer_release) struct buffer record = {.max = BATCH_BYTES_MAX};
	const struct profile_markers *table = profile->markers;
	struct host_clock clock = control_client_clock(markers->options.control_client, from_ns, to_ns);
	struct spool_meta meta = {
		.created_ns = to_ns, .samples = table ? table->marker_count + table->row_count : 0, .profiles = 1};
	int r = add_losses(markers, profile, losses, err);
	if (r == 0)
		r = complete(markers, profile, &clock, err);
	profile->time_ns = from_ns;
	profile->duration_ns = to_ns - from_ns;
	if (r == 0)
		r = write_record(profile, &clock, from_ns, to_ns, &record, err);
	if (r < 0) {
		spool_lose(markers->spool, &meta);
		return r;
	}
	return spool_push(markers->spool, &meta, buffer_bytes(&record), NULL, NULL, err);
}

static void take_batch(struct agent_markers *markers, int64_t now_ns, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct error why = {0};
	int r = marker_recorder_take(markers->recorder, &profile, err);
	int64_t to_ns = time_now_ns(), from_ns = to_ns - (now_ns - markers->batch_from_ns);
	if (r < 0)
		return;
	pthread_mutex_lock(&markers->lock);
	struct marker_recorder_stats stats = sum_stats(markers);
	pthread_mutex_unlock(&markers->lock);
	struct losses losses = {stats.lost, stats.left_out, stats.malformed, stats.refused};
	markers->batch_from_ns = now_ns;
	if (!profile->markers && memcmp(&losses, &markers->reported, sizeof(losses)) == 0)
		return;
	if (spool_batch(markers, profile, &losses, from_ns, to_ns, &why) < 0)
		log_warn("markers of %lld s were dropped: %s", (long long)((to_ns - from_ns) / NS_PER_S), why.message);
	markers->reported = losses;
}

/* ---- the collector ---- */

static int begin_collector(struct agent_markers *markers, struct error *err)
{
	_cleanup_(marker_recorder_freep) struct marker_recorder *recorder = NULL;
	int r = marker_recorder_new(true, &recorder, err);
	if (r < 0)
		return r;
	marker_recorder_continuous(recorder);
	r = marker_recorder_start(recorder, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&markers->lock);
	markers->recorder = recorder;
	markers->batch_from_ns = time_monotonic_ns();
	pthread_mutex_unlock(&markers->lock);
	recorder = NULL;
	return 0;
}

static void end_collector(struct agent_markers *markers)
{
	pthread_mutex_lock(&markers->lock);
	struct marker_recorder *recorder = markers->recorder;
	markers->sums = sum_stats(markers);
	markers->recorder = NULL;
	pthread_mutex_unlock(&markers->lock);
	marker_recorder_free(recorder);
}

/* Once for each time, not for each second of it. */
static void log_yielded(struct agent_markers *markers, uint64_t yielded)
{
	if (yielded && !markers->yielding_is_logged)
		log_info("a recorder collects the markers of %llu processes; the agent resumes when it has ended",
			 (unsigned long long)yielded);
	else if (!yielded && markers->yielding_is_logged)
		log_info("the agent collects markers again");
	markers->yielding_is_logged = yielded > 0;
}

static void check_recorder(struct agent_markers *markers, bool is_end)
{
	struct error err = {0};
	int64_t now_ns = time_monotonic_ns();
	if (!markers->recorder) {
		if (is_end || now_ns < markers->again_ns || begin_collector(markers, &err) == 0)
			return;
		markers->again_ns = now_ns + AGAIN_NS;
		log_warn("markers cannot be collected: %s", err.message);
		return;
	}
	pthread_mutex_lock(&markers->lock);
	struct marker_recorder_stats stats = sum_stats(markers);
	pthread_mutex_unlock(&markers->lock);
	log_yielded(markers, stats.yielded);
	if (!is_end && !stats.is_full && now_ns - markers->batch_from_ns < BATCH_INTERVAL_NS)
		return;
	take_batch(markers, now_ns, &err);
	if (!err.code)
		return;
	log_warn("collecting markers failed and is restarted; up to %llu markers are lost: %s",
		 (unsigned long long)stats.waiting, err.message);
	markers->again_ns = now_ns + AGAIN_NS;
	end_collector(markers);
}

static void *take_batches(void *context)
{
	struct agent_markers *markers = context;
	bool stop = false;
	while (!stop) {
		int64_t until_ns = time_monotonic_ns() + CHECK_INTERVAL_NS;
		pthread_mutex_lock(&markers->lock);
		while (!markers->stop && thread_wait_until(&markers->wake, &markers->lock, until_ns))
			;
		stop = markers->stop;
		pthread_mutex_unlock(&markers->lock);
		check_recorder(markers, stop);
	}
	return NULL;
}

/* ---- sending ---- */

static bool gave_up(const struct agent_markers *markers)
{
	int64_t at_ns = atomic_load_explicit(&markers->give_up_ns, memory_order_relaxed);
	return cancel_requested(&markers->cancel) || (at_ns && time_monotonic_ns() >= at_ns);
}

static int post(struct agent_markers *markers, struct bytes record, int *ret_status, char *ret_body, size_t body_size,
		struct error *err)
{
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	_cleanup_(buffer_release) struct buffer path = {.max = QUERY_BYTES_MAX + 4 * CONTROL_HOST_SIZE};
	const uint8_t *end = memchr(record.data, '\n', record.len < QUERY_BYTES_MAX ? record.len : QUERY_BYTES_MAX);
	if (!end) { /* nothing of ours; the server would say so, too */
		*ret_status = 400;
		snprintf(ret_body, body_size, "the spool record is not a marker batch");
		return 0;
	}
	buffer_append_string(&path, CONTROL_CONTINUOUS_PATH "/hosts/");
	text_url_encode(&path, bytes_of_string(markers->host));
	buffer_append_byte(&path, '?');
	buffer_append(&path, record.data, (size_t)(end - record.data));
	const char *text = buffer_string(&path);
	if (!text)
		return error_nomem(err);
	int r = net_client_request(markers->net, "POST", text, "application/gzip",
				   bytes_skip(record, (size_t)(end - record.data) + 1), NET_PLAIN, &response, err);
	*ret_status = response.status;
	snprintf(ret_body, body_size, "%.*s", (int)(response.body.len < 300 ? response.body.len : 300),
		 response.body.len ? (const char *)response.body.data : "");
	return r;
}

static void count_sent(struct agent_markers *markers, const struct spool_meta *meta, size_t bytes, bool is_sent)
{
	THREAD_LOCK_SCOPE(&markers->lock);
	struct link_markers *stats = &markers->stats;
	if (is_sent) {
		stats->batches_sent++;
		stats->markers_sent += meta->samples;
		stats->bytes_sent += bytes;
	} else {
		stats->batches_dropped++;
		stats->markers_dropped += meta->samples;
	}
}

/* 0: it is done with. Else how long to wait. */
static int64_t handle_response(struct agent_markers *markers, const struct spool_meta *meta, size_t bytes, int status,
			       const char *why)
{
	if (status == 200 || status == 409) { /* 409: only the answer of the last time did not arrive */
		if (markers->outage_is_logged)
			log_info("the server accepts markers again");
		markers->outage_is_logged = false;
		count_sent(markers, meta, bytes, true);
		return 0;
	}
	bool is_elsewhere = status == 404 || status == 405;
	if (status >= 400 && status < 500 && !is_elsewhere && status != 401 && status != 403 && status != 408 &&
	    status != 429) {
		if (!markers->rejection_is_logged)
			log_error(
				"the server rejected a marker batch, which is dropped (further ones are only counted): %d: %s",
				status, why);
		markers->rejection_is_logged = true;
		count_sent(markers, meta, bytes, false);
		return 0;
	}
	pthread_mutex_lock(&markers->lock);
	markers->stats.failures++;
	pthread_mutex_unlock(&markers->lock);
	if (!markers->outage_is_logged)
		log_warn("cannot send markers; they are kept and retried: %s%s",
			 is_elsewhere ? "not a wick server, or an older one: " : "", why);
	markers->outage_is_logged = true;
	return is_elsewhere ? PAUSE_ELSEWHERE_NS : PAUSE_MIN_NS;
}

static void rest(const struct agent_markers *markers, int64_t pause_ns)
{
	int64_t until_ns = time_monotonic_ns() + pause_ns;
	while (time_monotonic_ns() < until_ns && !gave_up(markers))
		time_sleep_ns(100 * NS_PER_MS);
}

static void *send_batches(void *context)
{
	struct agent_markers *markers = context;
	int64_t pause_ns = 0;
	while (!gave_up(markers) && !spool_is_over(markers->spool)) {
		_cleanup_(buffer_release) struct buffer record = {.max = SPOOL_RECORD_MAX};
		struct spool_meta meta;
		struct error err = {0};
		char body[400] = "";
		int status = 0;
		int r = spool_front(markers->spool, NS_PER_S, &meta, &record, NULL);
		if (r == 0)
			continue;
		if (r > 0)
			r = post(markers, buffer_bytes(&record), &status, body, sizeof(body), &err);
		else
			snprintf(err.message, sizeof(err.message), "out of memory");
		int64_t wait_ns = handle_response(markers, &meta, record.len, r < 0 ? 0 : status, r < 0 ? err.message : body);
		spool_done(markers->spool, wait_ns == 0);
		buffer_release(&record);
		pause_ns = wait_ns == 0 ? 0 : pause_ns < wait_ns ? wait_ns : 2 * pause_ns;
		if (wait_ns < PAUSE_MAX_NS && pause_ns > PAUSE_MAX_NS)
			pause_ns = PAUSE_MAX_NS;
		rest(markers, pause_ns);
	}
	spool_drop_memory(markers->spool);
	return NULL;
}

/* ---- life ---- */

/* A directory that cannot be had costs what waits at the end, and not the markers. Below a name of its own, and one more, where
 * nobody takes it for the spool of a target. */
static int open_spool(struct agent_markers *markers, struct error *err)
{
	char directory[SPOOL_PATH_MAX];
	struct error why = {0};
	const struct agent_markers_options *from = &markers->options;
	struct spool_options options = {
		.bytes_max = from->spool_bytes, .age_max_ns = from->spool_age_ns, .disk_free_min = UINT64_MAX};
	if (!from->directory || snprintf(directory, sizeof(directory), "%s/markers/spool", from->directory) >= SPOOL_PATH_MAX)
		return spool_new(&options, &markers->spool, err);
	options.directory = directory;
	if (spool_new(&options, &markers->spool, &why) == 0)
		return 0;
	log_warn("unsent markers are kept in memory only: %s", why.message);
	options.directory = NULL;
	return spool_new(&options, &markers->spool, err);
}

int agent_markers_new(const struct agent_markers_options *options, struct agent_markers **ret, struct error *err)
{
	_cleanup_(agent_markers_freep) struct agent_markers *markers = mem_zalloc(sizeof(*markers));
	if (!markers)
		return error_nomem(err);
	pthread_mutex_init(&markers->lock, NULL);
	thread_condition_init(&markers->wake);
	markers->options = *options;
	markers->host = mem_strdup(options->host);
	int r = markers->host ? 0 : error_nomem(err);
	struct net_client_options net = {.url = options->url,
					 .token = options->token,
					 .token_file = options->token_file,
					 .tenant = options->tenant,
					 .timeout_ns = SEND_TIMEOUT_NS,
					 .response_max = ANSWER_BYTES_MAX,
					 .shared = true,
					 .cancel = &markers->cancel};
	if (r == 0)
		r = net_client_new(&net, &markers->net, err);
	if (r == 0)
		r = open_spool(markers, err);
	if (r == 0)
		r = begin_collector(markers, err);
	if (r == 0)
		r = thread_start(&markers->sender, "wick-batches", send_batches, markers, err);
	markers->has_sender = r == 0;
	if (r == 0)
		r = thread_start(&markers->taker, "wick-markers", take_batches, markers, err);
	markers->has_taker = r == 0;
	if (r < 0)
		return r;
	*ret = TAKE(markers);
	return 0;
}

void agent_markers_finish(struct agent_markers *markers, int64_t timeout_ns)
{
	pthread_mutex_lock(&markers->lock);
	markers->stop = true;
	pthread_cond_signal(&markers->wake);
	pthread_mutex_unlock(&markers->lock);
	if (markers->has_taker)
		pthread_join(markers->taker, NULL);
	markers->has_taker = false;
	if (markers->recorder)
		end_collector(markers);
	if (markers->spool)
		spool_close(markers->spool);
	atomic_store_explicit(&markers->give_up_ns, time_monotonic_ns() + timeout_ns, memory_order_relaxed);
	while (markers->has_sender && !gave_up(markers) && !spool_is_over(markers->spool))
		time_sleep_ns(10 * NS_PER_MS);
	cancel_request(&markers->cancel);
	if (markers->has_sender)
		pthread_join(markers->sender, NULL);
	markers->has_sender = false;
}

struct agent_markers *agent_markers_free(struct agent_markers *markers)
{
	if (!markers)
		return NULL;
	agent_markers_finish(markers, 0);
	net_client_free(markers->net);
	spool_free(markers->spool);
	pthread_mutex_destroy(&markers->lock);
	pthread_cond_destroy(&markers->wake);
	mem_free(markers->host);
	return mem_free(markers);
}
