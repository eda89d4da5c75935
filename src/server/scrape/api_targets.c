/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/v1/targets, POST /api/v1/reload, and the scraper's metrics. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "codec/json.h"
#include "server/http/access.h"
#include "server/scrape/scrape_int.h"

#define TARGETS_SHOWN	  1000
#define TARGETS_SHOWN_MAX 20000

static const char *const health_names[] = {"unknown", "up", "down"};

static void write_ms(struct json_writer *json, const char *key, int64_t ns)
{
	if (ns)
		json_member_int(json, key, ns / NS_PER_MS);
	else
		json_member_null(json, key);
}

static void write_target(struct json_writer *json, const struct scrape_target *target)
{
	char url[1200];
	snprintf(url, sizeof(url), "%s%s", target->origin, target->path);
	json_begin_object(json);
	json_member_bytes(json, "job", bytes_of_string(target->job->name));
	json_member_bytes(json, "profile", bytes_of_string(target->profile->name));
	json_member_bytes(json, "url", bytes_of_string(url));
	json_member_object(json, "labels");
	for (size_t i = 0; i < target->labels.count; i++)
		json_member_bytes(json, target->labels.items[i].name, bytes_of_string(target->labels.items[i].value));
	json_end_object(json);
	json_member_cstring(json, "health", health_names[target->health]);
	json_member_bytes(json, "error", bytes_of_string(target->error));
	write_ms(json, "last_ms", target->last_ns);
	json_member_int(json, "took_ms", target->took_ns / NS_PER_MS);
	json_member_bool(json, "running", target->running);
	write_ms(json, "next_ms", time_now_ns() + target->due_ns - time_monotonic_ns());
	json_member_int(json, "interval_ms", target->job->interval_ns / NS_PER_MS);
	json_member_uint(json, "samples", target->samples);
	json_member_uint(json, "bytes", target->bytes);
	json_member_uint(json, "scrapes", target->scrapes);
	json_member_uint(json, "failures", target->failures);
	json_member_uint(json, "restarts", target->restarts);
	json_end_object(json);
}

static void write_discovery(struct json_writer *json, const struct discovery *discovery)
{
	json_begin_object(json);
	json_member_bytes(json, "job", bytes_of_string(discovery->job->name));
	json_member_cstring(json, "kind", discovery_kind_names[discovery->config->kind]);
	json_member_uint(json, "found", discovery->found ? discovery->found->count : 0);
	json_member_uint(json, "dropped", discovery->dropped);
	json_member_uint(json, "left_out", discovery->left_out);
	write_ms(json, "refreshed_ms", discovery->refreshed_ns);
	json_member_bytes(json, "error", bytes_of_string(discovery->error));
	json_end_object(json);
}

/* A tenant sees its own. */
struct shown {
	const struct server *server;
	const struct net_request *request;
	const char *job, *health;
	uint64_t limit;
};

static int read_question(const struct server *server, const struct net_request *request, struct shown *ret, struct error *err)
{
	const char *limit = net_request_query(request, "limit");
	*ret = (struct shown){.server = server,
			      .request = request,
			      .job = net_request_query(request, "job"),
			      .health = net_request_query(request, "health"),
			      .limit = TARGETS_SHOWN};
	if (limit && (text_parse_u64(limit, &ret->limit, NULL) < 0 || ret->limit > TARGETS_SHOWN_MAX))
		return error_set(err, -EINVAL, "limit must be a number up to %d", TARGETS_SHOWN_MAX);
	if (ret->health && strcmp(ret->health, "up") && strcmp(ret->health, "down") && strcmp(ret->health, "unknown"))
		return error_set(err, -EINVAL, "health must be up, down or unknown");
	return 0;
}

static bool is_own(const struct shown *shown, const struct scrape_job *job)
{
	return tenant_owns(shown->server, shown->request, job->tenant);
}

static bool has_jobs(const struct shown *shown, const struct scrape_config *config)
{
	for (size_t i = 0; config && i < config->count; i++)
		if (is_own(shown, config->jobs[i]))
			return true;
	return false;
}

static void write_targets(struct json_writer *json, const struct scrape *scrape, const struct shown *shown)
{
	uint64_t matching = 0, counts[3] = {0};
	json_member_array(json, "targets");
	for (size_t i = 0; i < scrape->target_count; i++) {
		const struct scrape_target *target = scrape->targets[i];
		if (!is_own(shown, target->job))
			continue;
		counts[target->health]++;
		if ((shown->job && strcmp(shown->job, target->job->name)) ||
		    (shown->health && strcmp(shown->health, health_names[target->health])))
			continue;
		if (matching++ < shown->limit)
			write_target(json, target);
	}
	json_end_array(json);
	json_member_uint(json, "matching", matching);
	for (size_t i = 0; i < 3; i++)
		json_member_uint(json, health_names[i], counts[i]);
}

static void write_all(struct json_writer *json, struct scrape *scrape, const struct shown *shown)
{
	static const struct scrape nothing;
	const struct scrape *from = scrape ? scrape : &nothing;
	json_begin_object(json);
	json_member_bool(json, "configured", has_jobs(shown, from->config));
	write_targets(json, from, shown);
	json_member_array(json, "discoveries");
	for (size_t i = 0; i < from->discovery_count; i++)
		if (is_own(shown, from->discoveries[i]->job))
			write_discovery(json, from->discoveries[i]);
	json_end_array(json);
	json_member_object(json, "config");
	write_ms(json, "loaded_ms", from->loaded_ns);
	json_member_bytes(json, "error", bytes_of_string(from->config_error));
	json_end_object(json);
	json_end_object(json);
}

void api_targets(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct error err = {0};
	struct shown shown;
	int r = read_question(server, request, &shown, &err);
	if (r < 0) {
		respond_error(response, 400, err.message);
		return;
	}
	struct json_writer json = {.out = &response->body};
	if (server->scrape)
		pthread_mutex_lock(&server->scrape->lock);
	write_all(&json, server->scrape, &shown);
	if (server->scrape)
		pthread_mutex_unlock(&server->scrape->lock);
	if (json_finish(&json, &err) < 0)
		respond_error(response, 500, err.message);
}

void api_reload(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	if (access_may_change(context, request, &err) < 0) {
		respond_error(response, 403, err.message);
		return;
	}
	int r = scrape_reload(context, &err);
	if (r < 0)
		respond_error(response, r == -ENOENT ? 404 : 422, err.message);
	else if (buffer_append_string(&response->body, "{\"reloaded\":true}") < 0)
		respond_error(response, 500, "out of memory");
}

int scrape_get_stats(struct server *server, struct scrape_stats *ret)
{
	struct scrape *scrape = server->scrape;
	if (!scrape)
		return 0;
	THREAD_LOCK_SCOPE(&scrape->lock);
	*ret = scrape->stats;
	for (size_t i = 0; i < scrape->target_count; i++)
		ret->targets[scrape->targets[i]->health]++;
	for (size_t i = 0; i < scrape->discovery_count; i++) {
		ret->left_out += scrape->discoveries[i]->left_out;
		ret->discoveries_failing += scrape->discoveries[i]->error[0] != '\0';
	}
	ret->workers = scrape->threads;
	ret->memory = atomic_load_explicit(&scrape->delta_bytes, memory_order_relaxed);
	return 1;
}
