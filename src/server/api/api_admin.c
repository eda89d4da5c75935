/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the store, and what changes it: status, blocks, delete, compact; copies of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/time.h"
#include "server/api/api_int.h"
#include "server/http/access.h"
#include "store/backup.h"
#include "store/hosts.h"

#define TEXT_LOGGED 400

/* ---- status ---- */

static void write_pairs(struct json_writer *json, const char *name, const struct link_loss *items, size_t count)
{
	json_member_object(json, name);
	for (size_t i = 0; i < count; i++)
		json_member_uint(json, items[i].name, items[i].count);
	json_end_object(json);
}

/* Of the agent's losses, those of whole samples; others are kept, with less of their stack or of what is known of their
 * process. */
static bool is_of_samples(const char *loss)
{
	return strcmp(loss, "counts_full") == 0 || strcmp(loss, "off_cpu_full") == 0;
}

/* The agent of this machine sends to the tenant without a name. */
static void write_agent(struct json_writer *json, struct server *server, const struct tenant *tenant)
{
	pthread_mutex_lock(&server->agent_lock);
	struct link_stats stats = server->agent_stats;
	bool seen = server->agent_seen && tenant->is_default;
	pthread_mutex_unlock(&server->agent_lock);
	json_key(json, "agent");
	if (!seen) {
		json_null(json);
		return;
	}
	uint64_t lost = stats.samples_dropped;
	for (size_t i = 0; i < stats.loss_count; i++)
		if (is_of_samples(stats.losses[i].name))
			lost += stats.losses[i].count;
	json_begin_object(json);
	json_member_bool(json, "running", true);
	json_member_uint(json, "frequency_hz", stats.frequency_hz);
	json_member_uint(json, "frequency_asked_hz", stats.frequency_asked_hz);
	json_member_cstring(json, "event", stats.event);
	json_member_uint(json, "samples_taken", stats.samples_taken);
	write_pairs(json, "losses", stats.losses, stats.loss_count);
	write_pairs(json, "walks", stats.walks, stats.walk_count);
	json_member_uint(json, "samples_lost", lost);
	json_member_uint(json, "samples_dropped", stats.samples_dropped);
	json_end_object(json);
}

/* name: of the member that the object is; NULL = it is none. */
static void write_counts(struct json_writer *json, const char *name, const char *const *names, const uint64_t *values,
			 size_t count)
{
	if (name)
		json_key(json, name);
	json_begin_object(json);
	for (size_t i = 0; i < count; i++)
		json_member_uint(json, names[i], values[i]);
	json_end_object(json);
}

static void write_storage(struct json_writer *json, const struct store_stats *store)
{
	static const char *const names[] = {"head_bytes",    "head_samples",	 "head_series",	   "log_bytes",
					    "compactions",   "compact_failures", "blocks_removed", "problems",
					    "damaged_pages", "damaged_rows",	 "damaged_files",  "corrected_bits"};
	const uint64_t values[] = {store->head_bytes,	 store->head_samples,	  store->head_series,	 store->log_bytes,
				   store->compactions,	 store->compact_failures, store->blocks_removed, store->problems,
				   store->damaged_pages, store->damaged_rows,	  store->damaged_files,	 store->corrected_bits};
	write_counts(json, "storage", names, values, sizeof(values) / sizeof(*values));
	json_member_array(json, "levels");
	for (size_t i = 0; i < sizeof(store->level_bytes) / sizeof(*store->level_bytes); i++) {
		static const char *const members[] = {"level", "blocks", "bytes"};
		write_counts(json, NULL, members, (uint64_t[]){i, store->blocks_by_level[i], store->level_bytes[i]}, 3);
	}
	json_end_array(json);
}

/* Of the tenant: what was refused, by the name of the limit, since the server started. Reasons that never came are left out. */
static void write_refused(struct json_writer *json, const struct tenant *tenant, const struct store_stats *store)
{
	json_member_object(json, "refused");
	for (size_t i = 0; i < REFUSALS; i++) {
		uint64_t count = atomic_load(&tenant->counters.refusals[i]);
		if (!count)
			continue;
		json_member_uint(json, refusal_names[i], count);
	}
	json_end_object(json);
	json_member_object(json, "samples_refused");
	for (size_t i = 0; i <= STORE_REFUSED_SERIES; i++)
		json_member_uint(json, store_refusal_names[i], store->refusals[i].count);
	json_end_object(json);
}

static void write_queries(struct json_writer *json, struct server *server, const struct tenant *tenant)
{
	static const char *const names[] = {"running", "waiting",   "turned_away", "answered",
					    "failed",  "cancelled", "partial",	   "slow"};
	const struct server_counters *c = &tenant->counters;
	struct net_server_stats net;
	net_server_get_stats(server->net, &net);
	const uint64_t values[] = {net.slow_running,
				   net.slow_waiting,
				   net.slow_refused,
				   atomic_load(&c->queries),
				   atomic_load(&c->query_failures),
				   atomic_load(&c->query_cancelled),
				   atomic_load(&c->query_partial),
				   atomic_load(&c->query_slow)};
	write_counts(json, "queries", names, values, sizeof(values) / sizeof(*values));
}

static void write_process(struct json_writer *json, const struct server *server)
{
	static const char *const names[] = {"cpu_ms",	    "resident_bytes",	   "resident_peak_bytes",
					    "connections",  "connections_refused", "client_errors",
					    "server_errors"};
	struct net_server_stats net;
	uint64_t resident = mem_resident_bytes();
	net_server_get_stats(server->net, &net);
	const uint64_t values[] = {(uint64_t)(time_process_cpu_ns() / NS_PER_MS),
				   resident,
				   mem_resident_peak_bytes(resident),
				   net.connections_open,
				   net.connections_refused,
				   net.errors_4xx,
				   net.errors_5xx};
	write_counts(json, "process", names, values, sizeof(values) / sizeof(*values));
}

static void write_ingest(struct json_writer *json, const struct tenant *tenant)
{
	static const char *const names[] = {"requests", "refused",	   "partial", "profiles",      "duplicates",
					    "samples",	"samples_refused", "bytes",   "lost_profiles", "lost_samples"};
	const struct server_counters *c = &tenant->counters;
	const uint64_t values[] = {atomic_load(&c->ingest_requests),	    atomic_load(&c->ingest_refused),
				   atomic_load(&c->ingest_partial),	    atomic_load(&c->ingest_profiles),
				   atomic_load(&c->ingest_duplicates),	    atomic_load(&c->ingest_samples),
				   atomic_load(&c->ingest_samples_refused), atomic_load(&c->ingest_bytes),
				   atomic_load(&c->lost_profiles),	    atomic_load(&c->lost_samples)};
	write_counts(json, "ingest", names, values, sizeof(values) / sizeof(*values));
}

/* Those that are set; the others have defaults of their own, or there is none. */
static void write_limits(struct json_writer *json, const struct tenant *tenant)
{
	const uint64_t *values = (const uint64_t *)&tenant->limits;
	json_member_object(json, "limits");
	for (size_t i = 0; i < SERVER_LIMIT_COUNT; i++)
		if (values[i])
			json_member_uint(json, server_limit_names[i], values[i]);
	json_end_object(json);
}

static void write_age(struct json_writer *json, const char *name, int64_t age_ns)
{
	if (age_ns > 0)
		json_member_int(json, name, age_ns / NS_PER_S);
	else
		json_member_null(json, name);
}

/* null = for ever, or without a limit. */
static void write_retention(struct json_writer *json, const struct store_stats *store)
{
	json_member_object(json, "retention");
	write_age(json, "age_s", store->retention_age_ns);
	write_age(json, "samples_age_s", store->samples_age_ns);
	if (store->retention_size_bytes < UINT64_MAX)
		json_member_uint(json, "size_bytes", store->retention_size_bytes);
	else
		json_member_null(json, "size_bytes");
	json_end_object(json);
}

/* Of the file system that the data are on, as somebody without privileges may fill it. */
static void write_disk(struct json_writer *json, const struct server *server)
{
	static const char *const names[] = {"free_bytes", "size_bytes"};
	struct statvfs disk;
	json_key(json, "disk");
	if (statvfs(server->data_directory, &disk) < 0) {
		json_null(json);
		return;
	}
	const uint64_t values[] = {(uint64_t)disk.f_bavail * disk.f_frsize, (uint64_t)disk.f_blocks * disk.f_frsize};
	write_counts(json, NULL, names, values, 2);
}

static void write_symbols(struct json_writer *json, const struct tenant *tenant)
{
	static const char *const names[] = {"waiting", "running", "made",	 "failed",
					    "crashed", "tables",  "table_bytes", "disk_bytes"};
	struct symbolizer_stats symbols;
	symbolizer_get_stats(tenant->symbolizer, &symbols);
	const uint64_t values[] = {symbols.waiting,	  symbols.running, symbols.builds,	symbols.build_failures,
				   symbols.build_crashes, symbols.tables,  symbols.table_bytes, symbols.disk_bytes};
	write_counts(json, "symbols", names, values, sizeof(values) / sizeof(*values));
}

/* ---- the server's time zone ---- */

#define DAY_NS	     (86400 * NS_PER_S)
#define ZONE_PAST_NS (20 * 366 * DAY_NS) /* at most */
#define ZONE_STEP_S  (7 * 86400)	 /* no offset holds for less */

static long offset_at(time_t at)
{
	struct tm local;
	return localtime_r(&at, &local) ? local.tm_gmtoff : 0;
}

/* The first second of the offset that holds at `high`, which is another than at `low`. */
static time_t find_change(time_t low, time_t high)
{
	long offset = offset_at(high);
	while (high - low > 1) {
		time_t middle = low + (high - low) / 2;
		if (offset_at(middle) == offset)
			high = middle;
		else
			low = middle;
	}
	return high;
}

static void write_offset(struct json_writer *json, time_t from, long offset)
{
	json_begin_object(json);
	json_member_int(json, "from_ms", (int64_t)from * 1000);
	json_member_int(json, "utc_offset_s", offset);
	json_end_object(json);
}

/* For pages that show times as on the server's clock: its offsets, and from when on each holds, over the time that there is
 * data of, the year before now and the one after. Not the zone's name: the server may have one without (TZ=CET-1CEST,...), and
 * a browser need not know the same rules for it. */
static void write_zone(struct json_writer *json, int64_t oldest_ns)
{
	int64_t now_ns = time_now_ns(), from_ns = now_ns - 366 * DAY_NS, least_ns = now_ns - ZONE_PAST_NS;
	if (oldest_ns && oldest_ns < from_ns)
		from_ns = oldest_ns > least_ns ? oldest_ns : least_ns;
	time_t at = (time_t)(from_ns / NS_PER_S), end = (time_t)((now_ns + 366 * DAY_NS) / NS_PER_S);
	long offset = offset_at(at);
	json_member_int(json, "utc_offset_s", offset_at((time_t)(now_ns / NS_PER_S)));
	json_member_array(json, "utc_offsets");
	write_offset(json, at, offset);
	for (; at < end; at += ZONE_STEP_S) {
		long next = offset_at(at + ZONE_STEP_S);
		if (next != offset)
			write_offset(json, find_change(at, at + ZONE_STEP_S), next);
		offset = next;
	}
	json_end_array(json);
}

/* ---- status ---- */

void api_status(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct store_stats store;
	struct error err = {0};
	struct tenant *tenant;
	int r = tenant_of_request(server, request, false, &tenant, &err);
	if (r < 0) {
		respond_error(response, http_status_of(r), err.message);
		return;
	}
	store_get_stats(tenant->store, &store);
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	json_member_cstring(&json, "version", WICK_VERSION);
	json_member_int(&json, "uptime_s", (time_monotonic_ns() - server->started_ns) / NS_PER_S);
	write_zone(&json, store.oldest_ns);
	write_agent(&json, server, tenant);
	json_member_cstring(&json, "tenant", tenant->name);
	json_member_object(&json, "data");
	json_member_int(&json, "oldest_ms", store.oldest_ns / NS_PER_MS);
	json_member_int(&json, "newest_ms", store.newest_ns / NS_PER_MS);
	json_member_uint(&json, "bytes", store.block_bytes + store.log_bytes);
	json_member_uint(&json, "samples", store.block_samples + store.head_samples);
	json_end_object(&json);
	write_storage(&json, &store);
	write_refused(&json, tenant, &store);
	write_queries(&json, server, tenant);
	write_ingest(&json, tenant);
	write_limits(&json, tenant);
	write_retention(&json, &store);
	write_disk(&json, server);
	write_symbols(&json, tenant);
	write_process(&json, server);
	json_end_object(&json);
	if (json_finish(&json, &err) < 0)
		respond_error(response, 500, err.message);
}

/* ---- blocks ---- */

static int on_block(void *context, const struct store_block *block, struct error *err)
{
	struct json_writer *json = context;
	json_begin_object(json);
	json_member_cstring(json, "name", block->name);
	json_member_uint(json, "format", block->version);
	json_member_uint(json, "level", block->level);
	json_member_uint(json, "generation", block->generation);
	json_member_int(json, "created_ms", block->created_ns / NS_PER_MS);
	json_member_int(json, "from_ms", block->min_ns / NS_PER_MS);
	json_member_int(json, "to_ms", block->max_ns / NS_PER_MS);
	json_member_uint(json, "samples", block->samples);
	json_member_uint(json, "series", block->series);
	json_member_uint(json, "bytes", block->bytes);
	json_member_bool(json, "rollups_only", !block->has_samples);
	json_end_object(json);
	return buffer_status(json->out);
}

static int answer_blocks(struct call *call, struct error *err)
{
	struct json_writer json = {.out = &call->response->body};
	json_begin_object(&json);
	json_member_array(&json, "blocks");
	int r = store_list_blocks(call->tenant->store, on_block, &json, err);
	if (r < 0)
		return r;
	json_end_array(&json);
	json_end_object(&json);
	return json_finish(&json, err);
}

/* ---- changes ---- */

static int delete_in_turn(struct call *call, struct selector *selector, struct store_delete_result *ret, struct error *err)
{
	pthread_mutex_lock(&call->server->compact_turn);
	int r = store_delete(call->tenant->store, selector_series(selector), call->requested_from_ns, call->requested_to_ns,
			     ret, err);
	pthread_mutex_unlock(&call->server->compact_turn);
	return r;
}

static int answer_delete(struct call *call, struct error *err)
{
	const char *text = call_parameter(call, "query", NULL);
	struct store_delete_result result = {0};
	int r = access_may_change(call->server, call->request, err);
	if (!r && (!text || !call_parameter(call, "from", NULL) || !call_parameter(call, "to", NULL)))
		r = error_set(err, -EINVAL, "parameters 'query', 'from' and 'to' are required; '{}' selects everything");
	if (r < 0)
		return r;
	_cleanup_(selector_freep) struct selector *selector = NULL;
	r = selector_parse(text, &selector, err);
	if (!r)
		r = selector_refuse_hosts(selector, call->tenant->store, err);
	if (!r && call->requested_from_ns >= call->requested_to_ns)
		r = error_set(err, -EINVAL, "the time range is empty: 'from' must be before 'to'");
	if (!r)
		r = delete_in_turn(call, selector, &result, err);
	if (r < 0)
		return r;
	log_info("deleted %llu samples of %.*s in %llu blocks, for tenant '%s'", (unsigned long long)result.samples,
		 TEXT_LOGGED, text, (unsigned long long)result.blocks, call->tenant->name);
	static const char *const names[] = {"blocks", "samples", "kept"};
	struct json_writer json = {.out = &call->response->body};
	write_counts(&json, NULL, names, (uint64_t[]){result.blocks, result.samples, result.kept}, 3);
	return json_finish(&json, err);
}

static int answer_compact(struct call *call, struct error *err)
{
	struct store_stats before, after;
	int r = access_may_change(call->server, call->request, err);
	if (r < 0)
		return r;
	store_get_stats(call->tenant->store, &before);
	r = store_cut(call->tenant->store, err);
	pthread_mutex_lock(&call->server->compact_turn);
	if (!r)
		r = store_compact(call->tenant->store, time_now_ns(), err);
	pthread_mutex_unlock(&call->server->compact_turn);
	if (r < 0)
		return r;
	store_get_stats(call->tenant->store, &after);
	static const char *const names[] = {"compactions", "blocks_before", "blocks", "bytes_before", "bytes"};
	const uint64_t values[] = {after.compactions - before.compactions, before.blocks, after.blocks, before.block_bytes,
				   after.block_bytes};
	struct json_writer json = {.out = &call->response->body};
	write_counts(&json, NULL, names, values, sizeof(values) / sizeof(*values));
	return json_finish(&json, err);
}

/* ---- backups ---- */

#define BACKUP_PART_BYTES (4u * 1024 * 1024)

static int name_block(void *context, const struct store_block *block, struct error *err)
{
	struct json_writer *json = context;
	json_begin_object(json);
	json_member_cstring(json, "name", block->name);
	json_member_uint(json, "bytes", block->bytes);
	json_end_object(json);
	return buffer_status(json->out);
}

/* What is in memory becomes a block, so that blocks are all there is; unless the caller has asked before. */
static int answer_backup(struct call *call, struct error *err)
{
	const char *flush = call_parameter(call, "flush", "true");
	int r = access_may_change(call->server, call->request, err);
	if (!r && strcmp(flush, "true") && strcmp(flush, "false"))
		r = error_set(err, -EINVAL, "parameter 'flush': '%.40s' is neither true nor false", flush);
	if (!r && flush[0] == 't')
		r = store_cut(call->tenant->store, err);
	if (r < 0)
		return r;
	struct json_writer json = {.out = &call->response->body};
	json_begin_object(&json);
	json_member_array(&json, "blocks");
	r = store_list_blocks(call->tenant->store, name_block, &json, err);
	if (r < 0)
		return r;
	json_end_array(&json);
	json_end_object(&json);
	return json_finish(&json, err);
}

/* Labels of hosts, as the file that a store has them in. */
static int answer_backup_hosts(struct call *call, uint64_t offset, struct error *err)
{
	_cleanup_(buffer_release) struct buffer all = {.max = SIZE_MAX};
	int r = store_copy_hosts(call->tenant->store, &all, err);
	if (r < 0 || offset >= all.len)
		return r;
	size_t len = all.len - offset < BACKUP_PART_BYTES ? all.len - (size_t)offset : BACKUP_PART_BYTES;
	return buffer_append(&call->response->body, all.data + offset, len) < 0 ? error_nomem(err) : 0;
}

/* Part of a file: /api/v1/backup/BLOCK/FILE?offset=N. */
static int answer_backup_file(struct call *call, struct error *err)
{
	static const char prefix[] = "/api/v1/backup/";
	const char *path = net_request_path(call->request) + sizeof(prefix) - 1, *slash = strchr(path, '/');
	const char *text = call_parameter(call, "offset", "0");
	char block[128], *end;
	int r = access_may_change(call->server, call->request, err);
	if (r < 0)
		return r;
	errno = 0;
	unsigned long long offset = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text < '0' || *text > '9' || offset > INT64_MAX)
		return error_set(err, -EINVAL, "parameter 'offset': '%.40s' is no number of bytes", text);
	call->response->content_type = "application/octet-stream";
	if (strcmp(path, STORE_BACKUP_HOSTS) == 0)
		return answer_backup_hosts(call, offset, err);
	if (!slash || (size_t)(slash - path) >= sizeof(block))
		return error_set(err, -ENOENT, "no such path: %.200s; it is /api/v1/backup/BLOCK/FILE", path - 1);
	memcpy(block, path, (size_t)(slash - path));
	block[slash - path] = '\0';
	return store_read_block_file(call->tenant->store, block, slash + 1, offset, BACKUP_PART_BYTES, &call->response->body,
				     err);
}

CALL_HANDLER(api_blocks, answer_blocks)
CALL_HANDLER(api_backup, answer_backup)
CALL_HANDLER(api_backup_file, answer_backup_file)
CALL_HANDLER(api_delete, answer_delete)
CALL_HANDLER(api_compact, answer_compact)
