/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics in Prometheus' text format (version 0.0.4), /healthz and /readyz. docs/metrics.md lists every name; keep them
 * together. */
#include <errno.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/descriptors.h"
#include "base/time.h"
#include "control/agent_metrics.h"
#include "control/metric_text.h"
#include "server/access/callers.h"
#include "server/core/server_int.h"
#include "server/metrics.h"
#include "server/scrape/scrape.h"
#include "server/stores/marker_batches.h"
#include "server/stores/recordings.h"
#include "server/stores/snapshots.h"

/* Structs of nothing but 64-bit counters. */
static void add_up(void *sum, const void *one, size_t size)
{
	uint64_t *to = sum;
	const uint64_t *from = one;
	for (size_t i = 0; i < size / sizeof(*to); i++)
		to[i] += from[i];
}

static void write_forward_metrics(struct buffer *m, struct server *server)
{
	struct export_stats stats[EXPORT_TARGETS_MAX];
	struct link_target targets[EXPORT_TARGETS_MAX];
	size_t count = forward_get_stats(server->forward, stats, EXPORT_TARGETS_MAX);
	for (size_t i = 0; i < count; i++)
		link_target_of(&stats[i], &targets[i]);
	metric_targets(m, "wick_forward_", "a target of forward", targets, count);
}

static void write_agent_metrics(struct buffer *m, struct server *server)
{
	pthread_mutex_lock(&server->agent_lock);
	struct link_stats agent = server->agent_stats;
	bool seen = server->agent_seen;
	pthread_mutex_unlock(&server->agent_lock);
	if (!seen)
		return;
	agent_metrics_write(m, &agent);
}

/* Of all tenants together. */
static void add_store_stats(struct store_stats *sum, const struct store_stats *one)
{
	static const size_t maxima[] = {offsetof(struct store_stats, fsync_ns_max), offsetof(struct store_stats, cut_ns_max),
					offsetof(struct store_stats, compact_ns_max)};
	uint64_t kept[sizeof(maxima) / sizeof(*maxima)];
	int64_t oldest_ns =
		!sum->oldest_ns || (one->oldest_ns && one->oldest_ns < sum->oldest_ns) ? one->oldest_ns : sum->oldest_ns;
	int64_t newest_ns = one->newest_ns > sum->newest_ns ? one->newest_ns : sum->newest_ns;
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)one;
	for (size_t i = 0; i < sizeof(maxima) / sizeof(*maxima); i++) {
		size_t at = maxima[i] / sizeof(*to);
		kept[i] = to[at] > from[at] ? to[at] : from[at];
	}
	add_up(sum, one, sizeof(*sum));
	for (size_t i = 0; i < sizeof(maxima) / sizeof(*maxima); i++)
		to[maxima[i] / sizeof(*to)] = kept[i];
	for (size_t i = 0; i < STORE_REFUSAL_COUNT; i++) /* the only members that are no numbers */
		sum->refusals[i].name = store_refusal_names[i];
	sum->oldest_ns = oldest_ns;
	sum->newest_ns = newest_ns;
}
_Static_assert(sizeof(struct store_stats) % sizeof(uint64_t) == 0, "store_stats is added up as an array of counters");

struct tenant_values {
	const char *name;
	double ingest_bytes, ingest_rows, ingest_refused, queries, query_rows, stored_bytes, head_bytes;
};

static void write_tenant(struct buffer *m, const char *metric_name, const char *help, const char *type,
			 const struct tenant_values *values, size_t count, size_t offset)
{
	metric_head(m, metric_name, type, help);
	for (size_t i = 0; i < count; i++)
		buffer_printf(m, "%s{tenant=\"%s\"} %.17g\n", metric_name, values[i].name,
			      *(const double *)((const char *)&values[i] + offset));
}

static void write_tenants(struct buffer *m, const struct tenant_values *values, size_t count)
{
#define TENANT(name, type, help, member)                                                                                       \
	write_tenant(m, name, help, type, values, count, offsetof(struct tenant_values, member))
	TENANT("wick_tenant_ingest_bytes_total", "counter", "Bytes of requests with profiles, by tenant.", ingest_bytes);
	TENANT("wick_tenant_ingest_rows_total", "counter", "Sample rows accepted, by tenant.", ingest_rows);
	TENANT("wick_tenant_ingest_refused_total", "counter", "Requests with profiles that were rejected, by tenant.",
	       ingest_refused);
	TENANT("wick_tenant_queries_total", "counter", "Queries, by tenant.", queries);
	TENANT("wick_tenant_query_rows_total", "counter", "Sample rows read by queries, by tenant.", query_rows);
	TENANT("wick_tenant_stored_bytes", "gauge", "Size of log and blocks, by tenant.", stored_bytes);
	TENANT("wick_tenant_head_bytes", "gauge", "Estimated memory of the head, by tenant.", head_bytes);
#undef TENANT
}

/* Sums what the stores say; with tenants each one's share is shown as well. */
static void collect_stores(struct buffer *m, struct server *server, struct store_stats *sum)
{
	struct tenant **tenants;
	size_t count = tenants_snapshot(server, &tenants);
	struct tenant_values *values = mem_zalloc_array(count, sizeof(*values));
	for (size_t i = 0; i < count && values; i++) {
		struct store_stats stats = {0};
		struct store *store = atomic_load_explicit(&tenants[i]->store, memory_order_acquire);
		const struct server_counters *c = &tenants[i]->counters;
		if (store)
			store_get_stats(store, &stats);
		add_store_stats(sum, &stats);
		values[i] = (struct tenant_values){.name = tenants[i]->name,
						   .ingest_bytes = (double)atomic_load(&c->ingest_bytes),
						   .ingest_rows = (double)atomic_load(&c->ingest_samples),
						   .ingest_refused = (double)atomic_load(&c->ingest_refused),
						   .queries = (double)atomic_load(&c->queries),
						   .query_rows = (double)atomic_load(&c->query_rows),
						   .stored_bytes = (double)(stats.log_bytes + stats.block_bytes),
						   .head_bytes = (double)stats.head_bytes};
	}
	GAUGE("wick_tenants", "Tenants that have data, the default one included.", count);
	if (!tenants || !values)
		buffer_fail(m, -ENOMEM);
	else if (server->options.tenants)
		write_tenants(m, values, count);
	mem_free(values);
	mem_free(tenants);
}

static void write_levels(struct buffer *m, const char *metric_name, const char *help, const uint64_t values[3])
{
	metric_head(m, metric_name, "gauge", help);
	for (unsigned i = 0; i < 3; i++)
		buffer_printf(m, "%s{level=\"%u\"} %llu\n", metric_name, i, (unsigned long long)values[i]);
}

static void write_store_metrics(struct buffer *m, struct server *server)
{
	struct store_stats store = {0};
	collect_stores(m, server, &store);
	COUNTER("wick_store_appends_total", "Profiles appended and acknowledged.", store.appends);
	COUNTER("wick_store_duplicates_total", "Duplicate profiles.", store.duplicates);
	COUNTER("wick_store_refused_total", "Profiles rejected by a limit or a failure.", store.refused);
	static const char refusals[] = "wick_store_refusals_total";
	metric_head(m, refusals, "counter", "Samples, or profiles, that the store rejected, by reason.");
	for (size_t i = 0; i < STORE_REFUSAL_COUNT; i++)
		metric_of(m, refusals, "reason", store_refusal_names[i], store.refusals[i].count);
	COUNTER("wick_store_series_refused_total", "New series rejected by the limit of series, once for each profile.",
		store.series_refused);
	COUNTER("wick_store_rows_total", "Sample rows appended.", store.samples);
	COUNTER("wick_store_fsyncs_total", "Syncs of the log.", store.fsyncs);
	COUNTER("wick_store_fsync_seconds_total", "Time in syncs of the log.", SECONDS(store.fsync_ns_total));
	GAUGE("wick_store_fsync_seconds_max", "Longest sync of the log.", SECONDS(store.fsync_ns_max));
	COUNTER("wick_store_flushes_total", "Heads written as blocks.", store.cuts);
	COUNTER("wick_store_flush_failures_total", "Heads that could not be written.", store.cut_failures);
	COUNTER("wick_store_flush_seconds_total", "Time spent writing blocks.", SECONDS(store.cut_ns_total));
	GAUGE("wick_store_flush_seconds_max", "Longest write of a block.", SECONDS(store.cut_ns_max));
	GAUGE("wick_store_log_failed", "Stores that accept no more data, because their log could not be synced.",
	      store.log_failed);
	GAUGE("wick_store_log_bytes", "Size of the log.", store.log_bytes);
	GAUGE("wick_store_hosts", "Hosts with labels of their own.", store.hosts);
	GAUGE("wick_store_host_labels", "Sets of labels of hosts, each for a time.", store.host_runs);
	GAUGE("wick_store_host_bytes", "Memory of the table of hosts.", store.host_bytes);
	COUNTER("wick_store_host_labels_dropped_total", "Sets of labels that went because a host had too many.",
		store.host_runs_dropped);
	COUNTER("wick_store_host_labels_refused_total", "Profiles whose labels of the host were not kept.",
		store.hosts_refused);
	GAUGE("wick_store_blocks", "Blocks on disk.", store.blocks);
	GAUGE("wick_store_block_bytes", "Size of the blocks.", store.block_bytes);
	GAUGE("wick_store_block_rows", "Sample rows in blocks.", store.block_samples);
	GAUGE("wick_store_head_bytes", "Estimated memory of the head.", store.head_bytes);
	GAUGE("wick_store_head_rows", "Sample rows in the head.", store.head_samples);
	GAUGE("wick_store_head_series", "Series in the head.", store.head_series);
	GAUGE("wick_store_head_process_rows", "Rows of process_stats in the head.", store.head_process_rows);
	COUNTER("wick_store_compactions_total", "Compactions.", store.compactions);
	COUNTER("wick_store_compact_failures_total", "Compactions that failed.", store.compact_failures);
	COUNTER("wick_store_compact_seconds_total", "Time spent on compactions.", SECONDS(store.compact_ns_total));
	GAUGE("wick_store_compact_seconds_max", "Longest compaction.", SECONDS(store.compact_ns_max));
	COUNTER("wick_store_compact_read_bytes_total", "Size of the blocks that were compacted.", store.compact_bytes_in);
	COUNTER("wick_store_compact_written_bytes_total", "Size of the blocks written by compactions.",
		store.compact_bytes_out);
	write_levels(m, "wick_store_level_blocks", "Blocks, by level of compaction.", store.blocks_by_level);
	write_levels(m, "wick_store_level_bytes", "Size of the blocks, by level of compaction.", store.level_bytes);
	COUNTER("wick_store_blocks_removed_total", "Blocks removed by retention.", store.blocks_removed);
	COUNTER("wick_store_problems_total", "Damaged records and blocks set aside.", store.problems);
	GAUGE("wick_store_index_cache_bytes", "Memory of decoded indexes of blocks.", store.cache_bytes);
	GAUGE("wick_store_index_cache_limit_bytes", "Limit of that memory.", server->index_cache_bytes);
	COUNTER("wick_store_index_cache_evictions_total", "Blocks whose indexes made room for those of others.",
		store.cache_evictions);
	COUNTER("wick_store_log_cut_bytes_total", "Bytes cut off the end of the log at the start, inside a record.",
		store.log_cut_bytes);
	COUNTER("wick_store_log_lost_records_total", "Records of the log that were damaged or missing at the start.",
		store.log_lost_records);
	COUNTER("wick_store_log_lost_bytes_total", "Bytes of the log that were set aside at the start.", store.log_lost_bytes);
	COUNTER("wick_store_log_lost_rows_total", "Sample rows of the log lost with records that they refer to.",
		store.log_lost_rows);
	COUNTER("wick_store_damaged_pages_total", "Damaged pages and files of blocks that are left out of results.",
		store.damaged_pages);
	COUNTER("wick_store_damaged_rows_total", "Rows of blocks that are damaged.", store.damaged_rows);
	COUNTER("wick_store_damaged_files_total", "Damaged files of blocks that others are read instead of.",
		store.damaged_files);
	COUNTER("wick_store_damaged_names_total", "Damaged rows of the tables that stacks are made of.", store.damaged_names);
	COUNTER("wick_store_corrected_bits_total", "Flipped bits of blocks and of the log that were put right.",
		store.corrected_bits);
	GAUGE("wick_store_oldest_timestamp_seconds", "Time of the oldest sample.", SECONDS(store.oldest_ns));
}

static void show_scraping(struct buffer *m, struct server *server)
{
	struct scrape_stats s;
	if (!scrape_get_stats(server, &s))
		return;
	GAUGE("wick_scrape_targets_up", "Scrape targets whose last scrape succeeded.", s.targets[1]);
	GAUGE("wick_scrape_targets_down", "Scrape targets whose last scrape failed.", s.targets[2]);
	GAUGE("wick_scrape_targets_unknown", "Scrape targets not scraped yet.", s.targets[0]);
	GAUGE("wick_scrape_targets_dropped", "Scrape targets beyond a limit, or with an invalid address.", s.left_out);
	GAUGE("wick_scrape_discoveries_failing", "Service discoveries whose last refresh failed.", s.discoveries_failing);
	COUNTER("wick_scrapes_total", "Scrapes.", s.scrapes);
	COUNTER("wick_scrape_failures_total", "Scrapes that failed.", s.failures);
	COUNTER("wick_scrape_missed_total", "Scrapes skipped because the previous one had not ended.", s.missed);
	COUNTER("wick_scrape_restarts_total", "Counter resets: the program was restarted.", s.restarts);
	COUNTER("wick_scrape_samples_total", "Samples stored by scrapes.", s.samples);
	COUNTER("wick_scrape_bytes_total", "Bytes of scrape responses.", s.bytes);
	GAUGE("wick_scrape_workers", "Threads that scrape.", s.workers);
	GAUGE("wick_scrape_delta_bytes", "Memory of the counter values of the last scrape.", s.memory);
	COUNTER("wick_config_reloads_total", "Configuration reloads.", s.reloads);
	COUNTER("wick_config_reload_failures_total", "Configuration reloads that failed.", s.reload_failures);
}

static void show_responses(struct buffer *m, const struct net_server_stats *net)
{
	GAUGE("wick_http_responses_bytes", "Bytes of responses that are being sent.", net->answer_bytes);
	GAUGE("wick_http_responses_limit_bytes", "Limit of the bytes of responses that are being sent.", net->answer_bytes_max);
	COUNTER("wick_http_responses_streamed_total", "Responses sent while they were made.", net->answers_streamed);
	COUNTER("wick_http_responses_refused_total", "Responses rejected because too much was being sent.",
		net->answers_refused);
	COUNTER("wick_http_responses_broken_total", "Responses that failed after part of them was sent.", net->answers_broken);
	COUNTER("wick_http_responses_stalled_total", "Responses given up because the client took nothing.",
		net->answers_stalled);
}

static void show_tls(struct buffer *m, const struct net_server_stats *net)
{
	COUNTER("wick_tls_handshakes_total", "TLS handshakes of clients that succeeded.", net->tls_handshakes);
	COUNTER("wick_tls_resumed_total", "TLS handshakes that resumed a session.", net->tls_resumed);
	COUNTER("wick_tls_failures_total", "TLS handshakes of clients that failed.", net->tls_failures);
	COUNTER("wick_tls_timeouts_total", "TLS handshakes that took longer than 10 s.", net->tls_timeouts);
	GAUGE("wick_tls_handshakes_queued", "TLS handshakes queued for a worker.", net->tls_waiting);
	COUNTER("wick_tls_handshakes_refused_total", "TLS handshakes rejected because too many were queued.", net->tls_refused);
}

static void show_limits(struct buffer *m, const struct net_server_stats *net)
{
	static const char evictions[] = "wick_http_connections_evictions_total",
			  refusals[] = "wick_http_connections_refusals_total", limits[] = "wick_http_connections_limit";
	const uint64_t values[NET_LIMITS] = {[NET_LIMIT_DESCRIPTORS] = descriptors_max(),
					     [NET_LIMIT_TOTAL] = net->connections_max,
					     [NET_LIMIT_ADDRESS] = net->connections_per_address_max,
					     [NET_LIMIT_UNKNOWN] = net->connections_unknown_max};
	metric_head(m, evictions, "counter", "Idle connections closed for others, by the limit that was reached.");
	for (size_t i = 0; i < NET_LIMITS; i++)
		metric_of(m, evictions, "limit", net_limit_names[i], net->evicted_for[i]);
	metric_head(m, refusals, "counter", "Connections rejected since all others were at work, by the limit.");
	for (size_t i = 0; i < NET_LIMITS; i++)
		metric_of(m, refusals, "limit", net_limit_names[i], net->refused_for[i]);
	metric_head(m, limits, "gauge", "Connections, and file descriptors of all kinds, that there may be; 0 = no limit.");
	for (size_t i = 0; i < NET_LIMITS; i++)
		metric_of(m, limits, "limit", net_limit_names[i], values[i]);
	GAUGE("wick_http_connections_unauthenticated", "Connections that have brought no valid token or certificate.",
	      net->connections_unknown);
	GAUGE("wick_http_addresses", "Addresses that are connected.", net->addresses);
}

static void write_server_metrics(struct buffer *m, struct server *server)
{
	struct server_counters *c = &server->counters;
	COUNTER("wick_ingest_requests_total", "Requests with profiles.", atomic_load(&c->ingest_requests));
	COUNTER("wick_ingest_refused_total", "Requests with profiles that were rejected.", atomic_load(&c->ingest_refused));
	COUNTER("wick_ingest_samples_refused_total", "Samples rejected from profiles that were otherwise stored.",
		atomic_load(&c->ingest_samples_refused));
	COUNTER("wick_ingest_partial_total", "Requests that were stored in part.", atomic_load(&c->ingest_partial));
	static const char refusals[] = "wick_ingest_refusals_total";
	metric_head(m, refusals, "counter", "Requests, or profiles in them, that were rejected, by reason.");
	for (size_t i = 0; i < REFUSALS; i++)
		metric_of(m, refusals, "reason", refusal_names[i], atomic_load(&c->refusals[i]));
	COUNTER("wick_ingest_profiles_total", "Profiles accepted.", atomic_load(&c->ingest_profiles));
	COUNTER("wick_ingest_rows_total", "Sample rows accepted.", atomic_load(&c->ingest_samples));
	COUNTER("wick_ingest_bytes_total", "Bytes of requests with profiles, decompressed.", atomic_load(&c->ingest_bytes));
	COUNTER("wick_ingest_lost_profiles_total", "Profiles that senders report as lost.", atomic_load(&c->lost_profiles));
	COUNTER("wick_ingest_lost_samples_total", "Samples that senders report as lost.", atomic_load(&c->lost_samples));
	COUNTER("wick_ingest_otlp_nonzero_entries_total", "OTLP requests with a reserved dictionary entry 0 that is not zero.",
		atomic_load(&c->ingest_nonzero_entries));
	COUNTER("wick_ingest_numeric_labels_dropped_total", "Samples stored without their numeric labels, over a limit.",
		atomic_load(&c->ingest_numbers_dropped));
	COUNTER("wick_ingest_duplicates_total", "Profiles that were retries of stored ones.",
		atomic_load(&c->ingest_duplicates));
	COUNTER("wick_queries_total", "Queries.", atomic_load(&c->queries));
	COUNTER("wick_query_failures_total", "Queries that failed.", atomic_load(&c->query_failures));
	COUNTER("wick_queries_cancelled_total", "Queries whose client disconnected.", atomic_load(&c->query_cancelled));
	COUNTER("wick_queries_partial_total", "Queries with partial results.", atomic_load(&c->query_partial));
	COUNTER("wick_queries_memory_partial_total", "Queries with partial results because of query_memory.",
		atomic_load(&c->query_memory_partial));
	static const char refused[] = "wick_queries_memory_refused_total";
	metric_head(m, refused, "counter", "Queries that failed because of a limit of memory, by limit.");
	metric_of(m, refused, "limit", "query_memory", atomic_load(&c->query_memory_refused));
	metric_of(m, refused, "limit", "queries.memory", atomic_load(&c->query_memory_total_refused));
	GAUGE("wick_queries_memory_bytes", "Memory of queries.", atomic_load(&server->query_memory.used));
	GAUGE("wick_queries_memory_limit_bytes", "Limit of the memory of all queries.", server->query_memory.max_bytes);
	COUNTER("wick_queries_slow_total", "Queries slower than the slow query threshold.", atomic_load(&c->query_slow));
	COUNTER("wick_query_seconds_total", "Time spent in queries.", SECONDS(atomic_load(&c->query_ns_total)));
	GAUGE("wick_query_seconds_max", "Longest query.", SECONDS(atomic_load(&c->query_ns_max)));
	COUNTER("wick_query_rows_total", "Sample rows read by queries.", atomic_load(&c->query_rows));
	COUNTER("wick_signals_dropped_total", "Requests with logs, traces or metrics, which are dropped.",
		atomic_load(&c->signals_dropped));
	COUNTER("wick_agent_panics_total", "Crashes that Parca Agents have reported.", atomic_load(&c->panics_reported));
	COUNTER("wick_binaries_offered_total", "Binaries whose symbols the agent offered.", atomic_load(&c->binaries_offered));
	COUNTER("wick_binaries_refused_total", "Binaries whose symbols could not be read.", atomic_load(&c->binaries_refused));
	show_scraping(m, server);
	struct net_server_stats net;
	net_server_get_stats(server->net, &net);
	GAUGE("wick_http_workers_busy", "Requests that workers run, but for queries.", net.fast_running);
	GAUGE("wick_http_requests_queued", "Requests queued for a worker, but for queries.", net.fast_waiting);
	COUNTER("wick_http_requests_displaced_total", "Requests rejected because the queue was full.", net.fast_refused);
	GAUGE("wick_queries_running", "Queries in progress.", net.slow_running);
	GAUGE("wick_queries_waiting", "Queries queued.", net.slow_waiting);
	COUNTER("wick_queries_refused_total", "Queries rejected because the queue was full.", net.slow_refused);
	COUNTER("wick_http_requests_total", "Requests.", net.requests);
	GAUGE("wick_http_requests_open", "Requests in progress.", net.requests_open);
	COUNTER("wick_http_errors_client_total", "Responses with a 4xx status.", net.errors_4xx);
	COUNTER("wick_http_errors_server_total", "Responses with a 5xx status.", net.errors_5xx);
	COUNTER("wick_http_protocol_errors_total", "Connections closed for malformed input.", net.protocol_errors);
	show_tls(m, &net);
	COUNTER("wick_http_timeouts_total", "Connections closed for slowness.", net.timeouts);
	show_responses(m, &net);
	COUNTER("wick_http_connections_total", "Connections accepted.", net.connections_accepted);
	COUNTER("wick_http_connections_refused_total", "Connections rejected because there were too many.",
		net.connections_refused);
	COUNTER("wick_http_connections_evicted_total", "Idle connections closed for others.", net.connections_evicted);
	show_limits(m, &net);
	GAUGE("wick_http_connections_open", "Connections open.", net.connections_open);
	COUNTER("wick_http_received_bytes_total", "Bytes received.", net.bytes_received);
	COUNTER("wick_http_sent_bytes_total", "Bytes sent.", net.bytes_sent);
}

static void write_upload_metrics(struct buffer *m, struct server *server)
{
	struct uploads_stats uploads;
	uploads_get_stats(server->uploads, &uploads);
	GAUGE("wick_debuginfo_upload_files", "Uploaded files of debug information.", uploads.files);
	GAUGE("wick_debuginfo_upload_bytes", "Size of uploaded debug information.", uploads.bytes);
	GAUGE("wick_debuginfo_uploads_open", "Uploads in progress.", uploads.open);
	COUNTER("wick_debuginfo_uploads_started_total", "Uploads started or resumed.", uploads.begun);
	COUNTER("wick_debuginfo_uploads_finished_total", "Uploads completed.", uploads.finished);
	COUNTER("wick_debuginfo_uploads_refused_total", "Uploads rejected at the start.", uploads.refused);
	COUNTER("wick_debuginfo_uploads_contents_refused_total",
		"Uploads rejected because there are too many different files of the same id.", uploads.contents_refused);
	COUNTER("wick_debuginfo_uploads_failed_total", "Uploads abandoned, or with content that does not match.",
		uploads.failed);
	COUNTER("wick_debuginfo_uploads_received_bytes_total", "Bytes of debug information received.", uploads.bytes_received);
	COUNTER("wick_debuginfo_uploads_evicted_total", "Files removed to free space.", uploads.evicted);
}

/* add: adds to `sum` what one tenant has. Those whose store is not open yet have nothing. */
static void sum_tenants(struct server *server, void (*add)(void *sum, struct tenant *tenant), void *sum)
{
	struct tenant **tenants;
	size_t count = tenants_snapshot(server, &tenants);
	for (size_t i = 0; i < count; i++)
		if (atomic_load_explicit(&tenants[i]->store, memory_order_acquire))
			add(sum, tenants[i]);
	mem_free(tenants);
}

struct symbol_sums {
	struct symbolizer_stats stats;
	size_t states[SYMBOL_STATES]; /* how many binaries there are of each state */
	int failed;
};

/* The counts of a list that is not asked for. */
static void add_symbols(void *to, struct tenant *tenant)
{
	struct symbol_sums *sum = to;
	struct symbolizer_stats one;
	size_t counts[SYMBOL_STATES] = {0}, count, total;
	struct symbol_status *none = NULL;
	struct symbol_list_options options = {.limit = 1};
	int r = symbolizer_list(tenant->symbolizer, &options, &none, &count, &total, counts, NULL);
	sum->failed = r < 0 ? r : sum->failed;
	mem_free(none);
	for (size_t i = 0; i < SYMBOL_STATES; i++)
		sum->states[i] += counts[i];
	symbolizer_get_stats(tenant->symbolizer, &one);
	add_up(&sum->stats, &one, sizeof(one));
}

static void write_symbol_metrics(struct buffer *m, struct server *server)
{
	struct symbol_sums sum = {0};
	sum_tenants(server, add_symbols, &sum);
	const struct symbolizer_stats symbols = sum.stats;
	if (sum.failed)
		buffer_fail(m, sum.failed);
	metric_head(m, "wick_symbol_binaries", "gauge", "Binaries seen, by symbol state.");
	for (size_t i = 0; i < SYMBOL_STATES; i++)
		metric_of(m, "wick_symbol_binaries", "state", symbol_state_names[i], sum.states[i]);
	GAUGE("wick_symbol_tables", "Symbol tables in memory.", symbols.tables);
	GAUGE("wick_symbol_table_bytes", "Memory of symbol tables.", symbols.table_bytes);
	GAUGE("wick_symbol_disk_bytes", "Size of the symbol tables on disk.", symbols.disk_bytes);
	COUNTER("wick_symbol_disk_evicted_total", "Symbol tables removed from disk to free space.", symbols.disk_evicted);
	COUNTER("wick_symbol_lookups_total", "Addresses looked up.", symbols.lookups);
	COUNTER("wick_symbol_hits_total", "Addresses symbolized.", symbols.hits);
	COUNTER("wick_symbol_ambiguous_total",
		"Addresses not symbolized because several files have the id and name the code differently.", symbols.ambiguous);
	COUNTER("wick_symbol_contents_refused_total",
		"Binaries not distinguished because too many different ones have the same id.", symbols.contents_refused);
	COUNTER("wick_symbol_builds_total", "Symbol tables built.", symbols.builds);
	COUNTER("wick_symbol_build_failures_total", "Symbol tables that could not be built.", symbols.build_failures);
	COUNTER("wick_symbol_build_crashes_total",
		"Symbol tables not built because the process that parsed the file crashed or was killed.",
		symbols.build_crashes);
	COUNTER("wick_symbol_build_seconds_total", "Time spent on building symbol tables.", SECONDS(symbols.build_ns_total));
	COUNTER("wick_symbol_build_cpu_seconds_total", "CPU time spent on building symbol tables.",
		SECONDS(symbols.build_cpu_ns_total));
	COUNTER("wick_symbol_cache_hits_total", "Symbol tables found on disk.", symbols.cache_hits);
	GAUGE("wick_symbol_builds_waiting", "Binaries queued for a symbol table.", symbols.waiting);
	GAUGE("wick_symbol_builds_running", "Symbol tables being built.", symbols.running);
	COUNTER("wick_symbol_refused_total", "Binaries not tracked, because there are too many.", symbols.refused);
}

static void add_recordings(void *to, struct tenant *tenant)
{
	struct recordings_stats *sum = to, one;
	recordings_get_stats(tenant->recordings, &one);
	add_up(sum, &one, sizeof(one));
	sum->bytes_max = one.bytes_max;
}

static void write_recording_metrics(struct buffer *m, struct server *server)
{
	struct recordings_stats sum = {0};
	sum_tenants(server, add_recordings, &sum);
	GAUGE("wick_recording_agents", "Agents that poll for recording requests.", sum.agents);
	GAUGE("wick_recordings", "Recordings of several hosts that are kept.", sum.recordings);
	GAUGE("wick_recording_files", "Profiles of hosts in recordings that are kept.", sum.files);
	GAUGE("wick_recording_bytes", "Size of recordings.", sum.bytes);
	GAUGE("wick_recording_bytes_max", "Maximum size of recordings per tenant.", sum.bytes_max);
	COUNTER("wick_recordings_requested_total", "Recordings requested.", sum.created);
	COUNTER("wick_recording_uploads_total", "Profiles of hosts received.", sum.received);
	COUNTER("wick_recording_uploads_bytes_total", "Bytes of profiles of hosts received.", sum.bytes_received);
	COUNTER("wick_recording_uploads_refused_total", "Profiles of hosts rejected.", sum.refused);
	COUNTER("wick_recordings_evicted_total", "Recordings removed to free space, or for their age.", sum.evicted);
	COUNTER("wick_recording_files_damaged_total", "Files of recordings that were damaged and set aside.", sum.torn);
}

static void add_batches(void *to, struct tenant *tenant)
{
	struct marker_batches_stats *sum = to, one;
	marker_batches_get_stats(tenant->batches, &one);
	add_up(sum, &one, sizeof(one));
	sum->bytes_max = one.bytes_max;
}

static void write_batch_metrics(struct buffer *m, struct server *server)
{
	struct marker_batches_stats sum = {0};
	sum_tenants(server, add_batches, &sum);
	GAUGE("wick_marker_batches", "Marker batches kept.", sum.batches);
	GAUGE("wick_marker_batch_bytes", "Size of marker batches.", sum.bytes);
	GAUGE("wick_marker_batch_bytes_max", "Maximum size of marker batches per tenant.", sum.bytes_max);
	COUNTER("wick_marker_batches_received_total", "Marker batches received.", sum.received);
	COUNTER("wick_marker_batches_received_bytes_total", "Bytes of marker batches received.", sum.bytes_received);
	COUNTER("wick_marker_batches_rejected_total", "Marker batches rejected.", sum.refused);
	COUNTER("wick_marker_batches_evicted_total", "Marker batches removed to free space, or for their age.", sum.evicted);
	COUNTER("wick_marker_batches_damaged_total", "Marker batch files that were damaged and set aside.", sum.torn);
}

static void add_snapshots(void *to, struct tenant *tenant)
{
	struct snapshots_stats *sum = to, one;
	snapshots_get_stats(tenant->snapshots, time_now_ns(), &one);
	add_up(sum, &one, sizeof(one));
	sum->bytes_max = one.bytes_max;
}

static void write_snapshot_metrics(struct buffer *m, struct server *server)
{
	struct snapshots_stats sum = {0};
	sum_tenants(server, add_snapshots, &sum);
	COUNTER("wick_views_total", "Files uploaded by clients to view or convert.", atomic_load(&server->counters.views));
	COUNTER("wick_view_failures_total", "Files uploaded to view or convert that failed.",
		atomic_load(&server->counters.view_failures));
	GAUGE("wick_snapshots", "Snapshots kept.", sum.snapshots);
	GAUGE("wick_snapshot_bytes", "Size of snapshots.", sum.bytes);
	GAUGE("wick_snapshot_bytes_max", "Maximum size of snapshots per tenant.", sum.bytes_max);
	COUNTER("wick_snapshots_created_total", "Snapshots created.", sum.made);
	COUNTER("wick_snapshots_refused_total", "Snapshots that were too large, or could not be written.", sum.refused);
	COUNTER("wick_snapshots_evicted_total", "Snapshots removed to free space, or for their age.", sum.evicted);
	COUNTER("wick_snapshots_damaged_total", "Snapshots that were damaged and set aside.", sum.torn);
}

static void write_debuginfod_metrics(struct buffer *m, struct server *server)
{
	struct debuginfod_stats stats = {0};
	if (server->debuginfod)
		debuginfod_get_stats(server->debuginfod, &stats);
	GAUGE("wick_debuginfod_servers", "debuginfod servers in use.", stats.servers);
	COUNTER("wick_debuginfod_requests_total", "Files requested from debuginfod servers.", stats.requests);
	COUNTER("wick_debuginfod_found_total", "Files found on debuginfod servers.", stats.found);
	COUNTER("wick_debuginfod_missing_total", "Files found on no debuginfod server.", stats.missing);
	COUNTER("wick_debuginfod_failures_total", "Requests to debuginfod servers that failed.", stats.failures);
	COUNTER("wick_debuginfod_missing_cached_total", "Files not requested, because no server had them recently.",
		stats.missing_cached);
	COUNTER("wick_debuginfod_cache_hits_total", "Files found in the cache.", stats.cache_hits);
	GAUGE("wick_debuginfod_cache_bytes", "Size of the cache.", stats.cache_bytes);
	COUNTER("wick_debuginfod_received_bytes_total", "Bytes received from debuginfod servers.", stats.bytes_fetched);
	COUNTER("wick_debuginfod_seconds_total", "Time spent waiting for debuginfod servers.", SECONDS(stats.ns_total));
}

static void write_access_metrics(struct buffer *m, const struct server *server)
{
	static const char results[] = "wick_server_auth_requests_total";
	struct callers_stats stats;
	struct audit_stats audit;
	callers_get_stats(server->callers, &stats);
	audit_get_stats(server->audit, &audit);
	metric_head(m, results, "counter", "Requests that access control decided on, by result.");
	for (size_t i = 0; i < CALLERS_RESULTS; i++)
		metric_of(m, results, "result", callers_result_names[i], stats.results[i]);
	COUNTER("wick_server_auth_logins_total", "Tokens used from an address for the first time in an hour.", stats.logins);
	GAUGE("wick_server_auth_tokens", "Tokens and certificates that are known.", stats.tokens);
	GAUGE("wick_server_auth_keys", "Keys of JSON Web Tokens that are known.", stats.keys);
	GAUGE("wick_server_auth_tokens_current", "1: the file of tokens as it is is in use; 0: it is wrong, an older one is.",
	      stats.is_current);
	COUNTER("wick_server_auth_reloads_total", "Changed files of tokens that are in use now.", stats.reloads);
	COUNTER("wick_server_auth_reload_failures_total", "Changed files of tokens that were wrong.", stats.reload_failures);
	COUNTER("wick_server_audit_events_total", "Lines of the audit log.", audit.written);
	COUNTER("wick_server_audit_dropped_total", "Events that are not in the audit log.", audit.dropped);
}

static void write_process_metrics(struct buffer *m, const struct server *server)
{
	GAUGE("process_resident_memory_bytes", "Resident memory of the server.", mem_resident_bytes());
	COUNTER("process_cpu_seconds_total", "CPU time of the server, user and system.", SECONDS(time_process_cpu_ns()));
	GAUGE("process_open_fds", "File descriptors that the server has open.", descriptors_open());
	GAUGE("process_max_fds", "File descriptors that it may have open.", descriptors_max());
	GAUGE("process_start_time_seconds", "Start time of the server in unix seconds.",
	      SECONDS(time_now_ns() - (time_monotonic_ns() - server->started_ns)));
	metric_head(m, "wick_build_info", "gauge", "Version of the server.");
	metric_of(m, "wick_build_info", "version", WICK_VERSION, 1);
}

void metrics_show(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct buffer *m = &response->body;
	response->content_type = "text/plain; version=0.0.4; charset=utf-8";
	write_process_metrics(m, server);
	write_server_metrics(m, server);
	write_access_metrics(m, server);
	write_symbol_metrics(m, server);
	write_upload_metrics(m, server);
	write_recording_metrics(m, server);
	write_batch_metrics(m, server);
	write_snapshot_metrics(m, server);
	write_debuginfod_metrics(m, server);
	write_store_metrics(m, server);
	write_agent_metrics(m, server);
	write_forward_metrics(m, server);
	if (buffer_status(m) < 0)
		respond_error(response, 503, "out of memory");
}

/* Alive means answering: on the loop, whatever the workers do. */
void health_show(void *context, const struct net_request *request, struct net_response *response)
{
	response->content_type = "text/plain; charset=utf-8";
	if (buffer_append_string(&response->body, "ok\n") < 0)
		response->status = 503;
}

/* Ready means that what is sent can be stored. The server listens only once its stores are open. */
void ready_show(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	int r = readiness_check(context, &err);
	response->content_type = "text/plain; charset=utf-8";
	response->status = r < 0 ? 503 : 200;
	if ((r < 0 ? buffer_printf(&response->body, "not ready: %s\n", err.message)
		   : buffer_append_string(&response->body, "ok\n")) < 0)
		response->status = 503;
}
