/* SPDX-License-Identifier: Apache-2.0 */
/* The account of queries: counters, a line in the log for each slow one, and the last of these for the page. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "server/core/server_int.h"

static void count_in(struct server_counters *counters, const struct query_stats *stats, uint64_t took, bool slow, int r)
{
	uint64_t max = atomic_load(&counters->query_ns_max);
	atomic_fetch_add(&counters->queries, 1);
	atomic_fetch_add(&counters->query_failures, r != 0 && r != -ECANCELED);
	atomic_fetch_add(&counters->query_cancelled, r == -ECANCELED);
	atomic_fetch_add(&counters->query_slow, slow);
	atomic_fetch_add(&counters->query_partial, !r && stats->read.partial);
	atomic_fetch_add(&counters->query_memory_partial, !r && stats->read.short_of_memory);
	atomic_fetch_add(&counters->query_ns_total, took);
	atomic_fetch_add(&counters->query_rows, stats->read.rows);
	while (took > max && !atomic_compare_exchange_weak(&counters->query_ns_max, &max, took))
		;
}

/* What was asked, as text: the pipeline or selector, and the other parameters that decide what it costs. */
static void describe(const struct net_request *request, struct slow_query *entry)
{
	static const char *const names[] = {"query", "q", "base", "label", "from", "to", "format"};
	size_t at = 0;
	if (!request) {
		snprintf(entry->path, sizeof(entry->path), "(in the background)");
		return;
	}
	snprintf(entry->path, sizeof(entry->path), "%s", net_request_path(request));
	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && at < sizeof(entry->text); i++) {
		const char *value = net_request_query(request, names[i]);
		if (value)
			at += (size_t)snprintf(entry->text + at, sizeof(entry->text) - at, "%s%s=%s", at ? " " : "", names[i],
					       value);
	}
}

static void note(struct server *server, const struct tenant *tenant, const struct net_request *request,
		 const struct query_stats *stats, int64_t took_ns, int r, const struct error *err)
{
	struct slow_query entry = {.at_ns = time_now_ns(), .took_ns = took_ns, .stats = *stats};
	char took[TIME_TEXT_MAX];
	describe(request, &entry);
	snprintf(entry.tenant, sizeof(entry.tenant), "%s", tenant ? tenant->name : "");
	if (r < 0)
		snprintf(entry.problem, sizeof(entry.problem), "%s", err && err->message[0] ? err->message : "failed");
	log_warn("slow query: %s for tenant '%s': %s %s: %llu rows in %llu blocks, read %lld ms, symbols %lld ms%s%s",
		 time_format_duration(took_ns, took), entry.tenant, entry.path, entry.text,
		 (unsigned long long)stats->read.rows, (unsigned long long)stats->read.blocks,
		 (long long)(stats->read_ns / NS_PER_MS), (long long)(stats->symbolize_ns / NS_PER_MS), r < 0 ? ": " : "",
		 entry.problem);
	THREAD_LOCK_SCOPE(&server->slow_lock);
	server->slow[server->slow_count++ % SLOW_KEPT] = entry;
}

void query_account(struct server *server, struct tenant *tenant, const struct net_request *request,
		   const struct query_stats *stats, int64_t took_ns, int r, const struct error *err)
{
	bool slow = server->options.slow_query_ns > 0 && took_ns >= server->options.slow_query_ns;
	count_in(&server->counters, stats, (uint64_t)took_ns, slow, r);
	if (tenant)
		count_in(&tenant->counters, stats, (uint64_t)took_ns, slow, r);
	if (slow)
		note(server, tenant, request, stats, took_ns, r, err);
}

static void write_entry(struct json_writer *json, const struct slow_query *entry)
{
	json_begin_object(json);
	json_member_int(json, "at_ms", entry->at_ns / NS_PER_MS);
	json_member_double(json, "ms", (double)entry->took_ns / NS_PER_MS);
	json_member_cstring(json, "tenant", entry->tenant);
	json_member_cstring(json, "path", entry->path);
	json_member_cstring(json, "text", entry->text);
	json_member_uint(json, "rows", entry->stats.read.rows);
	json_member_uint(json, "blocks", entry->stats.read.blocks);
	json_member_double(json, "read_ms", (double)entry->stats.read_ns / NS_PER_MS);
	json_member_double(json, "symbolize_ms", (double)entry->stats.symbolize_ns / NS_PER_MS);
	json_member_bool(json, "partial", entry->stats.read.partial);
	json_member_object(json, "phases_ms");
	for (size_t i = 0; i < STORE_PHASES; i++) {
		static const char *const phases[STORE_PHASES] = {"plan", "index", "scan", "merge", "stacks"};
		json_member_double(json, phases[i], (double)entry->stats.read.phase_ns[i] / NS_PER_MS);
	}
	json_end_object(json);
	if (entry->problem[0])
		json_member_cstring(json, "error", entry->problem);
	else
		json_member_null(json, "error");
	json_end_object(json);
}

/* The newest first. A tenant sees its own. */
void api_slow(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct tenant *tenant;
	struct error err = {0};
	int r = tenant_of_request(server, request, false, &tenant, &err);
	if (r < 0) {
		respond_error(response, http_status_of(r), err.message);
		return;
	}
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	json_member_double(&json, "threshold_ms", (double)server->options.slow_query_ns / NS_PER_MS);
	json_member_array(&json, "queries");
	pthread_mutex_lock(&server->slow_lock);
	for (size_t i = 0; i < SLOW_KEPT && i < server->slow_count; i++) {
		const struct slow_query *entry = &server->slow[(server->slow_count - 1 - i) % SLOW_KEPT];
		if (strcmp(entry->tenant, tenant->name) == 0)
			write_entry(&json, entry);
	}
	pthread_mutex_unlock(&server->slow_lock);
	json_end_array(&json);
	json_end_object(&json);
	if (json_finish(&json, &err) < 0)
		respond_error(response, 500, err.message);
}
