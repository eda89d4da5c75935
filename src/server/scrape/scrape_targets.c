/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what discovery found to targets. As in Prometheus: __address__, __scheme__ and __param_NAME say where a target is, job
 * is the job's name, relabel_configs may change or drop all of it, labels that begin with "__" are gone afterwards, and
 * instance is the address if nothing else has set it. As in Parca and Grafana's agents __profile_path_prefix__ stands before
 * every path. service_name, by which everything here is found, is the pod's container where Kubernetes was asked, else the job.
 *
 * A target is known by the hash of job, address, path and labels. What was there before stays as it is: its schedule, its
 * health and what is remembered for differences.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"
#include "server/scrape/scrape_int.h"

#define URL_BYTES_MAX 8192

/* ---- one target ---- */

void scrape_target_free(struct scrape *scrape, struct scrape_target *target)
{
	if (!target)
		return;
	scrape_delta_release(&target->delta, &scrape->delta_bytes);
	labels_release(&target->labels);
	mem_free(target->origin);
	mem_free(target->path);
	scrape_job_release(target->job);
	scrape_job_release(target->next_job);
	mem_free(target);
}

/* Spread over the interval by the key, and the same after a restart: unlike random, it keeps the distances between scrapes. */
void scrape_target_schedule(struct scrape_target *target, int64_t now_ns)
{
	int64_t interval_ns = target->job->interval_ns;
	int64_t phase_ns = (int64_t)(hash64_mix(target->key) % (uint64_t)interval_ns);
	int64_t into_ns = now_ns % interval_ns;
	target->due_ns = now_ns - into_ns + phase_ns;
	if (target->due_ns < now_ns)
		target->due_ns += interval_ns;
}

/* The first value of each parameter is a label's, which rules may have changed. */
static void append_params(const struct scrape_job *job, const struct relabel_set *set, struct buffer *path)
{
	for (size_t i = 0; i < set->count; i++)
		if (text_starts_with(set->items[i].name, "__param_"))
			scrape_append_parameter(path, set->items[i].name + 8, set->items[i].value);
	for (size_t i = 0; i < job->param_count; i++)
		for (size_t k = 1; k < job->params[i].count; k++)
			scrape_append_parameter(path, job->params[i].name, job->params[i].values[k]);
}

static int make_path(const struct scrape_job *job, const struct scrape_profile *profile, const struct relabel_set *set,
		     char **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer path = {.max = URL_BYTES_MAX};
	buffer_printf(&path, "%s%s", relabel_set_get(set, "__profile_path_prefix__"), profile->path);
	append_params(job, set, &path);
	if (profile->delta) {
		char seconds[24];
		int64_t measured_ns = profile->duration_ns ? profile->duration_ns : job->interval_ns - NS_PER_S;
		int64_t whole = measured_ns / NS_PER_S > 0 ? measured_ns / NS_PER_S : 1;
		snprintf(seconds, sizeof(seconds), "%lld", (long long)whole);
		scrape_append_parameter(&path, "seconds", seconds);
	}
	const char *text = buffer_string(&path);
	if (!text)
		return error_set(err, -E2BIG, "the path is too long");
	for (const char *at = text; *at; at++)
		if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f || *at == '#')
			return error_set(err, -EINVAL, "the path contains invalid characters");
	*ret = mem_strdup(text);
	return *ret ? 0 : error_nomem(err);
}

static int make_origin(const struct scrape_job *job, const struct relabel_set *set, char **ret, struct error *err)
{
	char origin[600];
	const char *address = relabel_set_get(set, "__address__"), *scheme = relabel_set_get(set, "__scheme__");
	if (!*scheme)
		scheme = job->scheme;
	if (strcmp(scheme, "http") && strcmp(scheme, "https"))
		return error_set(err, -EINVAL, "__scheme__ must be http or https");
	for (const char *at = address; *at; at++)
		if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f || strchr("/?#@\\\"<>", *at))
			return error_set(err, -EINVAL, "__address__ contains invalid characters");
	if (snprintf(origin, sizeof(origin), "%s://%s", scheme, address) >= (int)sizeof(origin))
		return error_set(err, -E2BIG, "__address__ is too long");
	*ret = mem_strdup(origin);
	return *ret ? 0 : error_nomem(err);
}

static void default_service(struct relabel_set *set, const char *job, char *out, size_t size)
{
	const char *space = relabel_set_get(set, "__meta_kubernetes_namespace");
	const char *container = relabel_set_get(set, "__meta_kubernetes_pod_container_name");
	if (*relabel_set_get(set, "service_name"))
		return;
	if (*space && *container)
		snprintf(out, size, "%s/%s", space, container);
	else
		snprintf(out, size, "%s", job);
	relabel_set_put(set, "service_name", out);
}

static int make_target(struct scrape_job *job, const struct scrape_profile *profile, const struct relabel_set *set,
		       struct scrape_target **ret, struct error *err)
{
	struct scrape_target *target = mem_zalloc(sizeof(*target));
	if (!target)
		return error_nomem(err);
	target->job = scrape_job_use(job);
	target->profile = profile;
	int r = make_origin(job, set, &target->origin, err);
	if (r == 0)
		r = make_path(job, profile, set, &target->path, err);
	for (size_t i = 0; i < set->count && r == 0; i++) {
		char name[LIMIT_LABEL_NAME_BYTES];
		if (text_starts_with(set->items[i].name, "__"))
			continue;
		label_name_sanitize(bytes_of_string(set->items[i].name), name);
		r = labels_set(&target->labels, name, set->items[i].value, err);
	}
	uint64_t key = labels_hash(&target->labels);
	if (r == 0) {
		key = hash64_seed(job->name, strlen(job->name), key);
		key = hash64_seed(target->origin, strlen(target->origin), key);
		key = hash64_seed(profile->name, strlen(profile->name), key);
		key = hash64_seed(target->path, strlen(target->path), key);
	}
	target->key = key;
	*ret = target;
	return r;
}

/* ---- a job's targets ---- */

struct update {
	struct scrape *scrape;
	struct scrape_job *job;
	struct discovery *discovery;
	struct map64 known; /* key to place in the list */
	size_t count;	    /* of the job now */
};

/* The job may be a new one that says the same of this target. Its worker still reads the old one. */
static void change_job(struct scrape_target *target, struct scrape_job *job, const struct scrape_profile *profile)
{
	if (target->running) {
		scrape_job_release(target->next_job);
		target->next_job = scrape_job_use(job);
		target->next_profile = profile;
		return;
	}
	scrape_job_use(job);
	scrape_job_release(target->job);
	target->job = job;
	target->profile = profile;
}

static void add_target(struct update *update, const struct scrape_profile *profile, const struct relabel_set *set)
{
	struct scrape *scrape = update->scrape;
	struct scrape_target *target = NULL;
	uint64_t place;
	unsigned max = update->job->targets_max;
	struct error problem = {0};
	int r = make_target(update->job, profile, set, &target, &problem);
	bool known = r == 0 && map64_get(&update->known, target->key, &place);
	if (known) {
		struct scrape_target *same = scrape->targets[place];
		if (!same->seen)
			update->count++;
		same->seen = true;
		change_job(same, update->job, profile);
	}
	bool room = scrape->target_count < scrape->targets_max && (!max || update->count < max);
	if (!known && (!room || r < 0 ||
		       array_reserve(&scrape->targets, &scrape->target_capacity, scrape->target_count + 1, SIZE_MAX) < 0 ||
		       map64_put(&update->known, target->key, scrape->target_count) < 0)) {
		update->discovery->left_out++;
		r = -E2BIG;
	}
	if (known || r < 0) {
		scrape_target_free(scrape, target);
		return;
	}
	target->seen = true;
	scrape_target_schedule(target, time_monotonic_ns());
	scrape->targets[scrape->target_count++] = target;
	update->count++;
}

static void add_set(struct update *update, const struct discovered_set *found)
{
	struct scrape_job *job = update->job;
	struct relabel_set set;
	char names[SCRAPE_PARAMS_MAX][80], service[600];
	relabel_set_init(&set);
	relabel_set_put(&set, "job", job->name);
	relabel_set_put(&set, "__scheme__", job->scheme);
	relabel_set_put(&set, "__profile_path_prefix__", job->path_prefix);
	for (size_t i = 0; i < job->param_count; i++) {
		snprintf(names[i], sizeof(names[i]), "__param_%.70s", job->params[i].name);
		if (job->params[i].count > 0)
			relabel_set_put(&set, names[i], job->params[i].values[0]);
	}
	for (size_t i = 0; i < found->count; i++)
		relabel_set_put(&set, found->labels[i].name, found->labels[i].value);
	int r = job->relabel ? relabel_run(job->relabel, &set, NULL) : 0;
	if (r != 0 || !*relabel_set_get(&set, "__address__")) {
		update->discovery->dropped++;
		relabel_set_release(&set);
		return;
	}
	if (!*relabel_set_get(&set, "instance"))
		relabel_set_put(&set, "instance", relabel_set_get(&set, "__address__"));
	default_service(&set, job->name, service, sizeof(service));
	for (size_t i = 0; i < job->profile_count; i++)
		if (!job->profiles[i].disabled)
			add_target(update, &job->profiles[i], &set);
	relabel_set_release(&set);
}

/* Frees what is of the job and was not seen; what is running is freed by its worker. */
static void remove_unseen(struct scrape *scrape, const char *job)
{
	size_t kept = 0;
	for (size_t i = 0; i < scrape->target_count; i++) {
		struct scrape_target *target = scrape->targets[i];
		if (target->seen || strcmp(target->job->name, job) != 0) {
			scrape->targets[kept++] = target;
			continue;
		}
		target->gone = true;
		cancel_request(&target->cancel);
		if (!target->running)
			scrape_target_free(scrape, target);
	}
	scrape->target_count = kept;
}

void scrape_update_job(struct scrape *scrape, struct scrape_job *job)
{
	struct update update = {.scrape = scrape, .job = job};
	for (size_t i = 0; i < scrape->target_count; i++) {
		scrape->targets[i]->seen = false;
		if (strcmp(scrape->targets[i]->job->name, job->name) == 0)
			map64_put(&update.known, scrape->targets[i]->key, i);
	}
	for (size_t i = 0; i < scrape->discovery_count; i++) {
		struct discovery *discovery = scrape->discoveries[i];
		if (discovery->job != job || !discovery->found)
			continue;
		update.discovery = discovery;
		discovery->dropped = discovery->left_out = 0;
		for (size_t k = 0; k < discovery->found->count; k++)
			add_set(&update, &discovery->found->sets[k]);
	}
	map64_release(&update.known);
	remove_unseen(scrape, job->name);
}
