/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a profile to the spools. */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/time.h"
#include "codec/compress.h"
#include "export/export_int.h"
#include "format/otlp/otlp.h"
#include "profile/type.h"

#define PENDING_DEFAULT (8 * MIB)

const char *const export_kind_names[EXPORT_KINDS] = {"wick", "otlp-grpc", "otlp-http", "pyroscope", "parca"};

struct pending {
	struct pending *next;
	struct spool_meta meta;
	uint64_t targets;
	struct buffer body; /* OTLP, not compressed */
};

struct exporter {
	struct exporter_options options;
	struct sender *senders;
	size_t count;
	pthread_t thread;
	bool running;
	pthread_mutex_t lock; /* of the list */
	pthread_cond_t arrived;
	pthread_cond_t gave_up;
	struct pending *first, *last;
	uint64_t pending_bytes;
	bool closed;
	uint64_t overtaken;		/* profiles that were dropped before they reached a spool; told with the next one */
	atomic_int_fast64_t give_up_ns; /* monotonic; 0 = never */
};

void exporter_log(struct exporter *exporter, enum log_level level, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	if (!exporter->options.log)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	exporter->options.log(exporter->options.context, level, text);
}

int exporter_symbolize(struct exporter *exporter, const char *tenant, struct profile *profile, const atomic_bool *cancel,
		       struct error *err)
{
	const struct exporter_options *options = &exporter->options;
	return options->symbolize ? options->symbolize(options->context, tenant, profile, cancel, err) : 0;
}

bool exporter_host_files(const struct exporter *exporter)
{
	return !exporter->options.no_host_files;
}

bool exporter_gave_up(struct exporter *exporter)
{
	int64_t at = atomic_load(&exporter->give_up_ns);
	return at && time_monotonic_ns() >= at;
}

void exporter_wait(struct exporter *exporter, int64_t until_ns)
{
	THREAD_LOCK_SCOPE(&exporter->lock);
	while (time_monotonic_ns() < until_ns && !exporter_gave_up(exporter))
		thread_wait_until(&exporter->gave_up, &exporter->lock, until_ns);
}

/* ---- into the spools ---- */

static void lose(struct exporter *exporter, const struct spool_meta *meta, uint64_t targets)
{
	for (size_t i = 0; i < exporter->count; i++)
		if (targets & 1ull << i)
			spool_lose(exporter->senders[i].spool, meta);
}

/* Compressed once, written once, linked into the others. */
static int spread(struct exporter *exporter, const struct spool_meta *meta, uint64_t targets, struct bytes body,
		  struct error *err)
{
	char path[SPOOL_PATH_MAX] = "", written[SPOOL_PATH_MAX];
	_cleanup_(buffer_release) struct buffer packed = {.max = SPOOL_RECORD_MAX};
	int r = gzip_compress(body, EXPORT_COMPRESS_LEVEL, &packed, err), failed = 0;
	if (r < 0) {
		lose(exporter, meta, targets);
		return r;
	}
	for (size_t i = 0; i < exporter->count; i++) {
		if (!(targets & 1ull << i))
			continue;
		int code = spool_push(exporter->senders[i].spool, meta, buffer_bytes(&packed), path, written, err);
		failed = code < 0 ? code : failed;
		if (!path[0])
			memcpy(path, written, sizeof(path));
	}
	return failed;
}

static void lose_pending(struct exporter *exporter, struct pending *pending)
{
	lose(exporter, &pending->meta, pending->targets);
	exporter->overtaken += pending->meta.profiles;
	buffer_release(&pending->body);
	mem_free(pending);
}

static struct pending *take_pending(struct exporter *exporter)
{
	struct pending *pending = exporter->first;
	exporter->first = pending->next;
	if (!exporter->first)
		exporter->last = NULL;
	exporter->pending_bytes -= pending->body.len;
	return pending;
}

/* The thread between memory and disk: a disk that hangs holds up this one only. */
static void *run_writer(void *context)
{
	struct exporter *exporter = context;
	pthread_mutex_lock(&exporter->lock);
	for (;;) {
		while (!exporter->first && !exporter->closed)
			pthread_cond_wait(&exporter->arrived, &exporter->lock);
		if (!exporter->first)
			break;
		struct pending *pending = take_pending(exporter);
		uint64_t overtaken = exporter->overtaken;
		exporter->overtaken = 0;
		pthread_mutex_unlock(&exporter->lock);
		struct error err = {0};
		if (overtaken)
			exporter_log(exporter, LOG_WARN, "%llu profiles were dropped: the disk of the spool is too slow",
				     (unsigned long long)overtaken);
		if (spread(exporter, &pending->meta, pending->targets, buffer_bytes(&pending->body), &err) < 0)
			exporter_log(exporter, LOG_WARN, "%s", err.message);
		buffer_release(&pending->body);
		mem_free(pending);
		pthread_mutex_lock(&exporter->lock);
	}
	pthread_mutex_unlock(&exporter->lock);
	return NULL;
}

static int add_pending(struct exporter *exporter, const struct spool_meta *meta, uint64_t targets, struct buffer *body,
		       struct error *err)
{
	struct pending *pending = mem_zalloc(sizeof(*pending));
	if (!pending) {
		lose(exporter, meta, targets);
		return error_nomem(err);
	}
	pending->meta = *meta;
	pending->targets = targets;
	THREAD_LOCK_SCOPE(&exporter->lock);
	pending->body = *body;
	buffer_init(body, body->max);
	while (exporter->first && exporter->pending_bytes + pending->body.len > exporter->options.pending_max)
		lose_pending(exporter, take_pending(exporter));
	if (exporter->closed) {
		lose_pending(exporter, pending);
		return error_set(err, -EPIPE, "a profile arrived after shutdown");
	}
	exporter->pending_bytes += pending->body.len;
	if (exporter->last)
		exporter->last->next = pending;
	else
		exporter->first = pending;
	exporter->last = pending;
	pthread_cond_signal(&exporter->arrived);
	return 0;
}

static bool is_process_stats(const struct profile *profile)
{
	struct profile_type type;
	profile_type_of(profile, 0, NULL, &type);
	return profile_type_is_process_stats(&type);
}

uint64_t export_sample_count(const struct profile *profile)
{
	if (is_process_stats(profile))
		return 0;
	if (profile->sample_type_count != 1 || profile->period <= 0 ||
	    profile->sample_types[0].type != profile->period_type.type ||
	    profile->sample_types[0].unit != profile->period_type.unit)
		return profile->sample_count;
	int64_t total = profile_total(profile, 0);
	return total > 0 ? (uint64_t)(total / profile->period) : profile->sample_count;
}

/* What processes use is a table without stacks, which only Wick understands. */
static uint64_t who_understands(const struct exporter *exporter, const struct profile *profile)
{
	bool stats = is_process_stats(profile);
	uint64_t targets = 0;
	for (size_t i = 0; i < exporter->count; i++)
		if (exporter->senders[i].target->kind == EXPORT_WICK || !stats)
			targets |= 1ull << i;
	return targets;
}

int exporter_push(struct exporter *exporter, const struct profile *profile, const char *tenant, uint64_t targets,
		  struct error *err)
{
	struct spool_meta meta = {.created_ns = time_now_ns(), .samples = export_sample_count(profile), .profiles = 1};
	snprintf(meta.tenant, sizeof(meta.tenant), "%s", tenant ? tenant : "");
	targets &= who_understands(exporter, profile);
	if (!targets)
		return 0;
	_cleanup_(buffer_release) struct buffer body = {.max = LIMIT_PROFILE_INPUT_BYTES};
	int r = otlp_encode(&profile, 1, &body, err);
	if (r < 0) {
		lose(exporter, &meta, targets);
		return r;
	}
	if (!exporter->options.durable)
		return add_pending(exporter, &meta, targets, &body, err);
	return spread(exporter, &meta, targets, buffer_bytes(&body), err);
}

/* ---- start and end ---- */

static void name_target(const struct export_target *target, char out[EXPORT_NAME_MAX])
{
	char text[EXPORT_NAME_MAX];
	const char *url = strstr(target->url, "://");
	url = url ? url + 3 : target->url;
	if (target->name)
		snprintf(text, sizeof(text), "%s", target->name);
	else
		snprintf(text, sizeof(text), "%s-%.40s", export_kind_names[target->kind], url);
	bool lossy = !target->name && strlen(url) > 40;
	for (char *at = text; *at; at++) {
		bool plain = (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
			     *at == '-' || *at == '_' || (*at == '.' && at != text);
		lossy |= !plain && *at != ':';
		if (!plain)
			*at = '-';
	}
	if (lossy)
		snprintf(out, EXPORT_NAME_MAX, "%.50s-%08x", text, (unsigned)hash64(target->url, strlen(target->url)));
	else
		snprintf(out, EXPORT_NAME_MAX, "%s", text);
}

static int open_spool(struct sender *sender, struct error *err)
{
	struct exporter *exporter = sender->exporter;
	char directory[SPOOL_PATH_MAX];
	struct error why = {0};
	struct spool_options options = {.bytes_max = sender->target->spool_bytes,
					.age_max_ns = sender->target->spool_age_ns,
					.disk_free_min = exporter->options.disk_free_min,
					.sync = exporter->options.durable};
	if (!options.disk_free_min)
		options.disk_free_min = UINT64_MAX;
	if (!exporter->options.directory || sender->target->memory_only)
		return spool_new(&options, &sender->spool, err);
	int r = io_join_path(directory, sizeof(directory), exporter->options.directory, sender->name);
	if (r < 0)
		return error_set(err, r, "the path of the spool is too long");
	options.directory = directory;
	r = spool_new(&options, &sender->spool, &why);
	if (r == 0 || r == -ENOMEM)
		return r == 0 ? 0 : error_nomem(err);
	exporter_log(exporter, LOG_WARN, "unsent profiles for %s are kept in memory only: %s", sender->name, why.message);
	options.directory = NULL;
	return spool_new(&options, &sender->spool, err);
}

static int open_sender(struct exporter *exporter, size_t i, struct error *err)
{
	struct sender *sender = &exporter->senders[i];
	struct spool_stats stats;
	sender->exporter = exporter;
	sender->target = &exporter->options.targets[i];
	sender->random = hash64(sender, sizeof(*sender)) ^ (uint64_t)time_monotonic_ns();
	pthread_mutex_init(&sender->lock, NULL);
	name_target(sender->target, sender->name);
	snprintf(sender->stats.name, sizeof(sender->stats.name), "%s", sender->name);
	sender->stats.kind = sender->target->kind;
	exporter->count++;
	for (size_t j = 0; j < i; j++)
		if (strcmp(exporter->senders[j].name, sender->name) == 0)
			return error_set(err, -EINVAL, "two targets have the name %s; give one of them another name",
					 sender->name);
	int r = sender_connect(sender, err);
	if (r == 0)
		r = open_spool(sender, err);
	if (r < 0)
		return r;
	spool_get_stats(sender->spool, &stats);
	if (stats.found)
		exporter_log(exporter, LOG_INFO, "%llu profiles for %s are queued from an earlier run",
			     (unsigned long long)stats.records, sender->name);
	r = thread_start(&sender->thread, "wick-send", sender_run, sender, err);
	sender->running = r == 0;
	return r;
}

static bool is_ours(const struct exporter *exporter, const char *name)
{
	for (size_t i = 0; i < exporter->count; i++)
		if (strcmp(exporter->senders[i].name, name) == 0)
			return true;
	return false;
}

/* What waits for a target that is not there any more is said, and goes when it is too old. */
static void check_orphan(struct exporter *exporter, const char *name)
{
	char path[SPOOL_PATH_MAX], lock[SPOOL_PATH_MAX];
	struct spool *spool;
	struct spool_stats stats;
	if (io_join_path(path, sizeof(path), exporter->options.directory, name) < 0 ||
	    io_join_path(lock, sizeof(lock), path, "lock") < 0 || !spool_directory_is_ours(path))
		return;
	struct spool_options options = {.directory = path, .bytes_max = UINT64_MAX}; /* it may have been given more room */
	if (spool_new(&options, &spool, NULL) < 0)
		return; /* another process has it */
	spool_get_stats(spool, &stats);
	if (stats.records)
		exporter_log(exporter, LOG_WARN,
			     "%llu profiles in %s are for a target that is no longer configured; a later start deletes them "
			     "once they are a day old",
			     (unsigned long long)stats.profiles, path);
	else if (io_unlink(lock, NULL) == 0)
		rmdir(path); /* stays if there are damaged files in it */
	spool_free(spool);
}

static void check_orphans(struct exporter *exporter)
{
	_cleanup_(dir_closep) DIR *directory = exporter->options.directory ? opendir(exporter->options.directory) : NULL;
	for (const struct dirent *entry; directory && (entry = readdir(directory));)
		if (entry->d_name[0] != '.' && entry->d_type == DT_DIR && !is_ours(exporter, entry->d_name))
			check_orphan(exporter, entry->d_name);
}

int exporter_new(const struct exporter_options *options, struct exporter **ret, struct error *err)
{
	_cleanup_(exporter_freep) struct exporter *exporter = mem_zalloc(sizeof(*exporter));
	if (!exporter)
		return error_nomem(err);
	pthread_mutex_init(&exporter->lock, NULL);
	pthread_cond_init(&exporter->arrived, NULL);
	thread_condition_init(&exporter->gave_up);
	exporter->options = *options;
	if (!options->pending_max)
		exporter->options.pending_max = PENDING_DEFAULT;
	if (options->target_count > EXPORT_TARGETS_MAX)
		return error_set(err, -E2BIG, "more than %d targets", EXPORT_TARGETS_MAX);
	exporter->senders = mem_zalloc_array(options->target_count, sizeof(*exporter->senders));
	int r = exporter->senders ? 0 : error_nomem(err);
	for (size_t i = 0; i < options->target_count && r == 0; i++)
		r = open_sender(exporter, i, err);
	if (r == 0 && !options->durable) {
		r = thread_start(&exporter->thread, "wick-export", run_writer, exporter, err);
		exporter->running = r == 0;
	}
	if (r < 0)
		return r;
	check_orphans(exporter);
	*ret = TAKE(exporter);
	return 0;
}

static bool is_all_sent(struct exporter *exporter)
{
	struct spool_stats stats;
	for (size_t i = 0; i < exporter->count; i++) {
		if (!exporter->senders[i].spool)
			continue;
		spool_get_stats(exporter->senders[i].spool, &stats);
		if (stats.records)
			return false;
	}
	return true;
}

void exporter_finish(struct exporter *exporter, int64_t timeout_ns)
{
	int64_t until_ns = time_monotonic_ns() + timeout_ns;
	pthread_mutex_lock(&exporter->lock);
	exporter->closed = true;
	pthread_cond_broadcast(&exporter->arrived);
	pthread_mutex_unlock(&exporter->lock);
	if (exporter->running)
		pthread_join(exporter->thread, NULL);
	exporter->running = false;
	for (size_t i = 0; i < exporter->count; i++)
		if (exporter->senders[i].spool)
			spool_close(exporter->senders[i].spool);
	while (time_monotonic_ns() < until_ns && !is_all_sent(exporter))
		time_sleep_ns(10 * NS_PER_MS);
	pthread_mutex_lock(&exporter->lock);
	atomic_store(&exporter->give_up_ns, time_monotonic_ns());
	pthread_cond_broadcast(&exporter->gave_up);
	pthread_mutex_unlock(&exporter->lock);
	for (size_t i = 0; i < exporter->count; i++) {
		struct sender *sender = &exporter->senders[i];
		cancel_request(&sender->cancel); /* a call that hangs */
		if (sender->running)
			pthread_join(sender->thread, NULL);
		sender->running = false;
	}
}

struct exporter *exporter_free(struct exporter *exporter)
{
	if (!exporter)
		return NULL;
	exporter_finish(exporter, 0);
	for (size_t i = 0; i < exporter->count; i++) {
		sender_disconnect(&exporter->senders[i]);
		load_segments_free(exporter->senders[i].segments);
		spool_free(exporter->senders[i].spool);
		pthread_mutex_destroy(&exporter->senders[i].lock);
	}
	mem_free(exporter->senders);
	pthread_cond_destroy(&exporter->arrived);
	pthread_cond_destroy(&exporter->gave_up);
	pthread_mutex_destroy(&exporter->lock);
	return mem_free(exporter);
}

const char *export_loss_name(size_t reason)
{
	return reason < SPOOL_LOSSES ? spool_loss_names[reason] : "refused";
}

void export_lost(const struct export_stats *stats, size_t reason, uint64_t *ret_profiles, uint64_t *ret_samples)
{
	*ret_profiles = reason < SPOOL_LOSSES ? stats->spool.lost[reason].profiles : stats->refused_profiles;
	*ret_samples = reason < SPOOL_LOSSES ? stats->spool.lost[reason].samples : stats->refused_samples;
}

size_t exporter_get_stats(struct exporter *exporter, struct export_stats *ret, size_t max)
{
	for (size_t i = 0; i < exporter->count && i < max; i++) {
		struct sender *sender = &exporter->senders[i];
		pthread_mutex_lock(&sender->lock);
		ret[i] = sender->stats;
		pthread_mutex_unlock(&sender->lock);
		spool_get_stats(sender->spool, &ret[i].spool);
	}
	return exporter->count;
}
