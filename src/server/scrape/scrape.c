/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scraper's threads: a manager, which knows when what is due and reads the configuration again; workers, which wait for
 * answers, as many as there are scrapes under way (a CPU profile is an answer that takes 14 s, so a thousand targets are a
 * thousand waiting threads, each with little more than its stack's touched pages); and one thread for each discovery that asks
 * somebody else.
 *
 * Reloading. The file is parsed whole before anything changes. A job whose text is the same goes on untouched. Another is
 * replaced, and its targets that are the same (scrape_targets.c) keep their schedule and what is remembered of them; what the
 * old discoveries had found stands in until the new ones have looked.
 */
#include "server/scrape/scrape.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/descriptors.h"
#include "base/io.h"
#include "base/log.h"
#include "base/time.h"
#include "server/scrape/scrape_int.h"

#define IDLE_NS		 (30 * NS_PER_S)
#define FILE_CHECK_NS	 (2 * NS_PER_S)
#define DISCOVERIES_MAX	 256 /* with a thread */
#define DISCOVERY_NAP_NS (200 * NS_PER_MS)
#define RETRY_NS	 (5 * NS_PER_S)
#define ROUND_NS_MIN	 (10 * NS_PER_MS)

static void wake(struct scrape *scrape)
{
	uint64_t one = 1;
	ssize_t n = write(scrape->wake_fd, &one, sizeof(one));
	(void)n; /* full: it is awake */
}

void scrape_reload_later(struct scrape *scrape)
{
	atomic_store_explicit(&scrape->reload, true, memory_order_relaxed);
	wake(scrape);
}

/* ---- workers ---- */

/* Under the lock. A reload may have come while it ran. */
static void finish(struct scrape *scrape, struct scrape_target *target)
{
	target->running = false;
	if (target->gone) {
		scrape_target_free(scrape, target);
		return;
	}
	if (target->next_job) {
		scrape_job_release(target->job);
		target->job = target->next_job;
		target->profile = target->next_profile;
		target->next_job = NULL;
	}
	if (target->due_ns <= time_monotonic_ns())
		wake(scrape);
}

/* The worker is idle when it comes. */
static struct scrape_target *take(struct scrape *scrape)
{
	while (!scrape->first && !scrape->workers_stop && scrape->surplus == 0)
		pthread_cond_wait(&scrape->work, &scrape->lock);
	scrape->idle--;
	if (scrape->idle < scrape->idle_least)
		scrape->idle_least = scrape->idle;
	struct scrape_target *target = scrape->workers_stop ? NULL : scrape->first;
	if (target) {
		scrape->first = target->next;
		if (!scrape->first)
			scrape->last = &scrape->first;
	} else if (scrape->surplus > 0) {
		scrape->surplus--;
	}
	return target;
}

static void *run_worker(void *context)
{
	struct scrape *scrape = context;
	struct scrape_target *target;
	pthread_mutex_lock(&scrape->lock);
	while ((target = take(scrape))) {
		bool gone = target->gone;
		pthread_mutex_unlock(&scrape->lock);
		if (!gone)
			scrape_fetch(scrape, target);
		pthread_mutex_lock(&scrape->lock);
		finish(scrape, target);
		scrape->idle++;
	}
	scrape->threads--;
	scrape->ended[scrape->ended_count++] = pthread_self();
	pthread_mutex_unlock(&scrape->lock);
	return NULL;
}

/* Under the lock. Threads that have ended have left the lock, or are about to. */
static void join_ended(struct scrape *scrape)
{
	while (scrape->ended_count > 0) {
		pthread_t thread = scrape->ended[--scrape->ended_count];
		pthread_mutex_unlock(&scrape->lock);
		pthread_join(thread, NULL);
		pthread_mutex_lock(&scrape->lock);
	}
}

/* Under the lock. One that was started counts as idle at once: it may be long before it runs, and no other is to be started for
 * the same target. */
static void add_workers(struct scrape *scrape)
{
	size_t due = 0;
	for (const struct scrape_target *target = scrape->first; target; target = target->next)
		due++;
	for (size_t i = 0; i < due && i < scrape->idle; i++)
		pthread_cond_signal(&scrape->work);
	while (due > scrape->idle && scrape->threads < scrape->threads_max) {
		pthread_t thread;
		if (thread_start(&thread, "wick-scrape-get", run_worker, scrape, NULL) < 0)
			break;
		scrape->threads++;
		scrape->idle++;
	}
}

/* Under the lock. Those that nothing was left for in all of the last IDLE_NS end. They take turns, so none of them knows by
 * itself. */
static void end_workers(struct scrape *scrape, int64_t now_ns)
{
	if (now_ns < scrape->idle_check_ns)
		return;
	scrape->surplus = scrape->idle_least < scrape->idle ? scrape->idle_least : scrape->idle;
	scrape->idle_least = scrape->idle - scrape->surplus;
	scrape->idle_check_ns = now_ns + IDLE_NS;
	if (scrape->surplus > 0)
		pthread_cond_broadcast(&scrape->work);
}

/* ---- the manager ---- */

/* Under the lock. Returns when to look again. */
static int64_t queue_due(struct scrape *scrape)
{
	int64_t now_ns = time_monotonic_ns(), next_ns = now_ns + NS_PER_S;
	for (size_t i = 0; i < scrape->target_count; i++) {
		struct scrape_target *target = scrape->targets[i];
		if (!target->running && target->due_ns <= now_ns) {
			int64_t interval_ns = target->job->interval_ns, late = (now_ns - target->due_ns) / interval_ns;
			target->running = true;
			target->next = NULL;
			target->due_ns += (late + 1) * interval_ns;
			scrape->stats.missed += (uint64_t)late;
			*scrape->last = target;
			scrape->last = &target->next;
		} else if (!target->running && target->due_ns < next_ns) {
			next_ns = target->due_ns;
		}
	}
	/* Thousands of targets are due all the time: a round looks at each of them. */
	return next_ns > now_ns + ROUND_NS_MIN ? next_ns : now_ns + ROUND_NS_MIN;
}

static uint64_t stamp_of(const char *path)
{
	struct stat info;
	if (!path || io_stat(path, &info) < 0)
		return 0;
	uint64_t parts[] = {(uint64_t)info.st_dev, (uint64_t)info.st_ino, (uint64_t)info.st_size, (uint64_t)info.st_mtim.tv_sec,
			    (uint64_t)info.st_mtim.tv_nsec};
	return hash64(parts, sizeof(parts));
}

static void free_ended(struct scrape *scrape, bool all);

static void reload_if_changed(struct scrape *scrape)
{
	struct error err = {0};
	bool asked = atomic_exchange_explicit(&scrape->reload, false, memory_order_relaxed);
	uint64_t stamp = stamp_of(scrape->server->options.config_path);
	if (!asked && (stamp == 0 || stamp == scrape->config_stamp))
		return;
	if (scrape_reload(scrape->server, &err) < 0)
		log_error("the configuration was not reloaded: %s", err.message);
	else
		log_info("scraping: the configuration was reloaded");
}

static void *run_manager(void *context)
{
	struct scrape *scrape = context;
	int64_t check_ns = time_monotonic_ns() + FILE_CHECK_NS;
	while (!cancel_requested(&scrape->stop)) {
		int64_t now_ns = time_monotonic_ns();
		if (now_ns >= check_ns || atomic_load_explicit(&scrape->reload, memory_order_relaxed)) {
			reload_if_changed(scrape);
			pthread_mutex_lock(&scrape->reload_lock);
			free_ended(scrape, false);
			pthread_mutex_unlock(&scrape->reload_lock);
			check_ns = now_ns + FILE_CHECK_NS;
		}
		pthread_mutex_lock(&scrape->lock);
		int64_t next_ns = queue_due(scrape);
		if (scrape->first)
			add_workers(scrape);
		end_workers(scrape, now_ns);
		join_ended(scrape);
		pthread_mutex_unlock(&scrape->lock);
		int64_t wait_ms = (next_ns - time_monotonic_ns() + NS_PER_MS - 1) / NS_PER_MS;
		struct pollfd wake = {.fd = scrape->wake_fd, .events = POLLIN};
		uint64_t count;
		if (poll(&wake, 1, wait_ms < 0 ? 0 : (int)wait_ms) > 0) {
			ssize_t n = read(scrape->wake_fd, &count, sizeof(count));
			(void)n;
		}
	}
	return NULL;
}

/* ---- discoveries ---- */

static void publish(struct discovery *discovery, int r, struct discovered *found, const struct error *err)
{
	struct scrape *scrape = discovery->scrape;
	THREAD_LOCK_SCOPE(&scrape->lock);
	/* A job of the same name may have taken its place. */
	if (cancel_requested(&discovery->stop)) {
		discovered_free(found);
		return;
	}
	snprintf(discovery->error, sizeof(discovery->error), "%.255s", r < 0 ? err->message : "");
	if (r < 0)
		return;
	discovery->refreshed_ns = time_now_ns();
	struct discovered *old = discovery->found;
	bool is_same = old && !discovery->inherited && old->count == found->count && old->hash == found->hash;
	/* What was left out may have room now. */
	if (is_same && discovery->left_out == 0) {
		discovered_free(found);
		return;
	}
	discovery->found = found;
	discovery->inherited = false;
	scrape_update_job(scrape, discovery->job);
	discovered_free(old);
	wake(scrape);
}

int discovery_refresh(struct discovery *discovery, struct discovered **ret, struct error *err)
{
	static int (*const kinds[])(struct discovery * discovery, struct discovered * found, struct error * err) = {
		[DISCOVERY_STATIC] = discovery_static,
		[DISCOVERY_FILE] = discovery_file,
		[DISCOVERY_HTTP] = discovery_http,
		[DISCOVERY_DNS] = discovery_dns,
		[DISCOVERY_KUBERNETES] = discovery_kubernetes,
		[DISCOVERY_CONSUL] = discovery_consul,
		[DISCOVERY_DOCKER] = discovery_docker,
		[DISCOVERY_SWARM] = discovery_swarm,
		[DISCOVERY_EC2] = discovery_ec2,
		[DISCOVERY_GCE] = discovery_gce,
		[DISCOVERY_AZURE] = discovery_azure,
		[DISCOVERY_NOMAD] = discovery_nomad,
	};
	_cleanup_(discovered_freep) struct discovered *found = discovered_new();
	if (!found)
		return error_nomem(err);
	discovery->retry_after_ns = 0;
	int r = kinds[discovery->config->kind](discovery, found, err);
	scrape_session_release(&discovery->session);
	if (r == 0)
		*ret = TAKE(found);
	return r;
}

/* What does not respond keeps what it had found, and is tried again sooner, but not more and more often: clouds count requests.
 */
static int64_t nap(struct discovery *discovery, int r)
{
	int64_t refresh_ns = discovery->config->refresh_ns, nap_ns = RETRY_NS;
	discovery->failures = r < 0 ? discovery->failures + 1 : 0;
	for (unsigned i = 1; i < discovery->failures && nap_ns < refresh_ns; i++)
		nap_ns *= 2;
	if (r == 0 || nap_ns > refresh_ns)
		nap_ns = refresh_ns;
	return r < 0 && discovery->retry_after_ns > nap_ns ? discovery->retry_after_ns : nap_ns;
}

/* Positive: look now. */
static bool is_due(struct discovery *discovery, int64_t until_ns)
{
	if (discovery->config->kind == DISCOVERY_CONSUL && !discovery->failures)
		return discovery_consul_wait(discovery, until_ns);
	time_sleep_ns(DISCOVERY_NAP_NS);
	return discovery_file_changed(discovery);
}

static void *run_discovery(void *context)
{
	struct discovery *discovery = context;
	while (!cancel_requested(&discovery->stop)) {
		struct discovered *found = NULL;
		struct error err = {0};
		int r = discovery_refresh(discovery, &found, &err);
		publish(discovery, r, found, &err);
		int64_t until_ns = time_monotonic_ns() + nap(discovery, r);
		while (!cancel_requested(&discovery->stop) && time_monotonic_ns() < until_ns && !is_due(discovery, until_ns))
			;
	}
	atomic_store(&discovery->ended, true);
	return NULL;
}

static void discovery_free(struct discovery *discovery)
{
	cancel_request(&discovery->stop);
	if (discovery->has_thread)
		pthread_join(discovery->thread, NULL);
	discovered_free(discovery->found);
	scrape_session_release(&discovery->session);
	discovery_consul_free(discovery->consul);
	discovery_cloud_free(discovery->cloud);
	net_tls_free(discovery->own_tls);
	scrape_job_release(discovery->job);
	mem_free(discovery);
}

/* Not yet in the list: only when its first look is to be published must it be there. */
static int discovery_new(struct scrape *scrape, struct scrape_job *job, size_t which, struct discovery **ret, struct error *err)
{
	struct discovery *discovery = mem_zalloc(sizeof(*discovery));
	if (!discovery)
		return error_nomem(err);
	discovery->scrape = scrape;
	discovery->job = scrape_job_use(job);
	discovery->config = job->discoveries[which];
	discovery->place = which;
	int r = discovery->config->kind == DISCOVERY_STATIC ? discovery_refresh(discovery, &discovery->found, err) : 0;
	if (r < 0) {
		discovery_free(discovery);
		return r;
	}
	discovery->refreshed_ns = discovery->found ? time_now_ns() : 0;
	*ret = discovery;
	return 0;
}

/* ---- configurations ---- */

struct change {
	struct discovery *list[SCRAPE_JOBS_MAX * 4]; /* new ones */
	size_t count, threads;
};

static struct scrape_job *job_named(const struct scrape_config *config, const char *name)
{
	for (size_t i = 0; config && i < config->count; i++)
		if (strcmp(config->jobs[i]->name, name) == 0)
			return config->jobs[i];
	return NULL;
}

/* Jobs that are as before are taken over; for the others discoveries are made. */
static int prepare(struct scrape *scrape, struct scrape_config *config, struct change *change, struct error *err)
{
	int r = 0;
	for (size_t i = 0; i < config->count && r == 0; i++) {
		struct scrape_job *old = job_named(scrape->config, config->jobs[i]->name);
		if (old && old->hash == config->jobs[i]->hash) {
			scrape_job_release(config->jobs[i]);
			config->jobs[i] = scrape_job_use(old);
		}
		struct scrape_job *job = config->jobs[i];
		for (size_t k = 0; k < job->discovery_count; k++)
			change->threads += job->discoveries[k]->kind != DISCOVERY_STATIC;
		if (change->threads > DISCOVERIES_MAX)
			return error_set(err, -E2BIG, "scrape_configs: more than %d service discoveries that are not static",
					 DISCOVERIES_MAX);
		if (change->count + job->discovery_count > SCRAPE_JOBS_MAX * 4)
			return error_set(err, -E2BIG, "scrape_configs: more than %d service discoveries", SCRAPE_JOBS_MAX * 4);
		for (size_t k = 0; k < job->discovery_count && r == 0 && job != old; k++) {
			r = discovery_new(scrape, job, k, &change->list[change->count], err);
			change->count += r == 0;
		}
	}
	return r;
}

static bool is_used(const struct scrape_config *config, const struct scrape_job *job)
{
	return job_named(config, job->name) == job;
}

/* What an old discovery has found stands in for the new one of the same kind and place. */
static void inherit(struct discovery *discovery, struct discovery *old)
{
	bool same = !strcmp(old->job->name, discovery->job->name) && old->config->kind == discovery->config->kind &&
		    old->place == discovery->place;
	if (!same || discovery->found)
		return;
	discovery->found = TAKE(old->found);
	discovery->inherited = true;
}

/* Under both locks. Discoveries of jobs that are no more are retired. */
static void replace(struct scrape *scrape, struct scrape_config *config, struct change *change)
{
	size_t kept = 0;
	struct scrape_config *old = scrape->config;
	for (size_t i = 0; i < scrape->discovery_count; i++) {
		struct discovery *discovery = scrape->discoveries[i];
		if (is_used(config, discovery->job)) {
			scrape->discoveries[kept++] = discovery;
			continue;
		}
		for (size_t k = 0; k < change->count; k++)
			inherit(change->list[k], discovery);
		cancel_request(&discovery->stop); /* it publishes under this lock */
		discovery->next = scrape->retired;
		scrape->retired = discovery;
	}
	memcpy(scrape->discoveries + kept, change->list, change->count * sizeof(*change->list));
	scrape->discovery_count = kept + change->count;
	scrape->config = config;
	for (size_t i = 0; i < config->count; i++)
		if (!old || job_named(old, config->jobs[i]->name) != config->jobs[i])
			scrape_update_job(scrape, config->jobs[i]);
	for (size_t i = 0; old && i < old->count; i++)
		if (!job_named(config, old->jobs[i]->name))
			scrape_update_job(scrape, old->jobs[i]); /* finds no discoveries, and so no targets */
	scrape_config_free(old);
}

static void start_threads(struct change *change)
{
	for (size_t i = 0; i < change->count; i++) {
		struct discovery *discovery = change->list[i];
		if (discovery->config->kind == DISCOVERY_STATIC)
			continue;
		struct error err = {0};
		discovery->has_thread = thread_start(&discovery->thread, "wick-discover", run_discovery, discovery, &err) == 0;
		if (!discovery->has_thread)
			log_error("scraping: %s", err.message);
	}
}

/* Under reload_lock. A service that does not respond can hold a thread for half a minute, in which others go on: it is joined
 * once it has ended. */
static void free_ended(struct scrape *scrape, bool all)
{
	for (struct discovery **at = &scrape->retired, *discovery; (discovery = *at);) {
		if (!all && discovery->has_thread && !atomic_load(&discovery->ended)) {
			at = &discovery->next;
			continue;
		}
		*at = discovery->next;
		discovery_free(discovery);
	}
}

/* Takes over config, under reload_lock or before there are other threads. */
static int apply(struct scrape *scrape, struct scrape_config *config, struct error *err)
{
	_cleanup_(mem_freep) struct change *change = mem_zalloc(sizeof(*change));
	_cleanup_(mem_freep) struct discovery **old = NULL;
	struct discovery **list = NULL;
	int r = change ? prepare(scrape, config, change, err) : error_nomem(err);
	if (r == 0) {
		list = mem_alloc_array(scrape->discovery_count + change->count + 1, sizeof(*list));
		r = list ? 0 : error_nomem(err);
	}
	if (r < 0) {
		for (size_t i = 0; change && i < change->count; i++)
			discovery_free(change->list[i]);
		scrape_config_free(config);
		return r;
	}
	/* Who looks at the list holds the lock: until then the old one stays as it is. */
	pthread_mutex_lock(&scrape->lock);
	old = scrape->discoveries;
	if (scrape->discovery_count)
		memcpy(list, old, scrape->discovery_count * sizeof(*list));
	scrape->discoveries = list;
	replace(scrape, config, change);
	scrape->loaded_ns = time_now_ns();
	scrape->config_error[0] = '\0';
	pthread_mutex_unlock(&scrape->lock);
	start_threads(change);
	free_ended(scrape, false);
	wake(scrape);
	return 0;
}

static int reload(struct scrape *scrape, struct error *err)
{
	const char *path = scrape->server->options.config_path;
	_cleanup_(server_config_text_freep) struct server_config_text *text = NULL;
	struct server_options options;
	if (!path)
		return error_set(err, -ENOENT, "the server was started without a configuration file");
	scrape->config_stamp = stamp_of(path);
	server_options_init(&options);
	int r = server_options_load(&options, path, &text, err);
	if (r < 0)
		return r;
	struct scrape_config *config = server_config_take_scrape(text);
	if (!config)
		config = mem_zalloc(sizeof(*config));
	return config ? apply(scrape, config, err) : error_nomem(err);
}

/* The manager and a request may both want to. */
int scrape_reload(struct server *server, struct error *err)
{
	struct scrape *scrape = server->scrape;
	struct error problem = {0};
	if (!scrape)
		return error_set(err, -ENOENT, "the server was started without a configuration file");
	pthread_mutex_lock(&scrape->reload_lock);
	int r = reload(scrape, &problem);
	if (r == 0 && server->tls)
		r = net_tls_reload(server->tls, &problem);
	pthread_mutex_lock(&scrape->lock);
	scrape->stats.reloads++;
	scrape->stats.reload_failures += r < 0;
	if (r < 0)
		snprintf(scrape->config_error, sizeof(scrape->config_error), "%.255s", problem.message);
	pthread_mutex_unlock(&scrape->lock);
	pthread_mutex_unlock(&scrape->reload_lock);
	return r < 0 ? error_set(err, r, "%s", problem.message) : 0;
}

/* ---- life ---- */

static struct scrape *scrape_free(struct scrape *scrape)
{
	free_ended(scrape, true);
	for (size_t i = 0; i < scrape->discovery_count; i++)
		discovery_free(scrape->discoveries[i]);
	/* What no worker has taken any more, and is in no list. */
	for (struct scrape_target *target = scrape->first, *next; target; target = next) {
		next = target->next;
		if (target->gone)
			scrape_target_free(scrape, target);
	}
	for (size_t i = 0; i < scrape->target_count; i++)
		scrape_target_free(scrape, scrape->targets[i]);
	scrape_config_free(scrape->config);
	mem_free(scrape->discoveries);
	mem_free(scrape->targets);
	mem_free(scrape->ended);
	io_close(scrape->wake_fd);
	pthread_mutex_destroy(&scrape->lock);
	pthread_mutex_destroy(&scrape->reload_lock);
	pthread_cond_destroy(&scrape->work);
	pthread_cond_destroy(&scrape->slot);
	return mem_free(scrape);
}

static struct scrape *scrape_new(struct server *server)
{
	const struct server_options *options = &server->options;
	struct scrape *scrape = mem_zalloc(sizeof(*scrape));
	if (!scrape)
		return NULL;
	scrape->server = server;
	scrape->last = &scrape->first;
	scrape->threads_max = options->scrape_concurrency ? options->scrape_concurrency : SCRAPE_CONCURRENCY_DEFAULT;
	/* Each has a connection. */
	uint64_t descriptors = descriptors_max() / 8;
	scrape->threads_max = scrape->threads_max < descriptors ? scrape->threads_max : (unsigned)descriptors + 1;
	scrape->targets_max = options->scrape_targets_max ? options->scrape_targets_max : SCRAPE_TARGETS_DEFAULT;
	scrape->budget.left = options->scrape_bytes ? (int64_t)options->scrape_bytes : (int64_t)SCRAPE_BYTES_DEFAULT;
	scrape->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&scrape->lock, NULL);
	pthread_mutex_init(&scrape->reload_lock, NULL);
	thread_condition_init(&scrape->work);
	pthread_cond_init(&scrape->slot, NULL);
	/* Between two rounds of the manager as many can end as there are, and be started again. */
	scrape->ended = mem_alloc_array(2 * (size_t)scrape->threads_max, sizeof(*scrape->ended));
	return scrape->ended && scrape->wake_fd >= 0 ? scrape : scrape_free(scrape);
}

int scrape_start(struct server *server, struct error *err)
{
	if (!server->options.config_path && !server->options.scrape)
		return 0;
	struct scrape *scrape = scrape_new(server);
	if (!scrape)
		return error_nomem(err);
	server->scrape = scrape;
	scrape->config_stamp = stamp_of(server->options.config_path);
	struct scrape_config *config = mem_zalloc(sizeof(*config));
	if (!config)
		return error_nomem(err);
	const struct scrape_config *given = server->options.scrape;
	for (size_t i = 0; given && i < given->count; i++)
		config->jobs[config->count++] = scrape_job_use(given->jobs[i]);
	int r = apply(scrape, config, err);
	if (r == 0)
		r = thread_start(&scrape->manager, "wick-scrape", run_manager, scrape, err);
	scrape->manager_running = r == 0;
	return r;
}

/* All clients look at their target's flag. */
void scrape_stop(struct server *server)
{
	struct scrape *scrape = server->scrape;
	if (!scrape)
		return;
	cancel_request(&scrape->stop);
	wake(scrape);
	if (scrape->manager_running)
		pthread_join(scrape->manager, NULL);
	for (size_t i = 0; i < scrape->discovery_count; i++)
		cancel_request(&scrape->discoveries[i]->stop);
	pthread_mutex_lock(&scrape->lock);
	scrape->workers_stop = true;
	for (size_t i = 0; i < scrape->target_count; i++)
		cancel_request(&scrape->targets[i]->cancel);
	pthread_cond_broadcast(&scrape->work);
	pthread_cond_broadcast(&scrape->slot);
	while (scrape->threads > 0 || scrape->ended_count > 0) {
		join_ended(scrape);
		pthread_mutex_unlock(&scrape->lock);
		time_sleep_ns(10 * NS_PER_MS);
		pthread_mutex_lock(&scrape->lock);
	}
	pthread_mutex_unlock(&scrape->lock);
	atomic_store(&server->scrape, NULL); /* before: a signal may ask for a reload even now */
	scrape_free(scrape);
}
