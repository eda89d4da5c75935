/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collector.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "agent/host_facts.h"
#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time.h"
#include "control/heap_sampler.h"
#include "control/link.h"
#include "control/protocol.h"
#include "daemon/agent_health.h"
#include "daemon/agent_http.h"
#include "daemon/agent_markers.h"
#include "daemon/control_client.h"
#include "daemon/host_symbols.h"
#include "daemon/uploader.h"
#include "export/export.h"
#include "symbol/symbol.h"
#include "symbol/worker.h"
#include "unwind/unwind_result.h"

#define LEADER_NICE	    (-10)
#define FINISH_NS	    (3 * NS_PER_S)
#define SYMBOL_WAIT_NS	    (20 * NS_PER_S)
#define FACTS_EVERY_NS	    (3600 * NS_PER_S)
#define SYMBOL_CACHE_BYTES  (1 * GIB)
#define SYMBOL_MEMORY_BYTES (64 * MIB)

struct collector {
	struct agent *agent;
	struct exporter *exporter;
	struct symbolizer *symbolizer;			  /* for targets that cannot name addresses; NULL = there are none */
	struct export_target targets[EXPORT_TARGETS_MAX]; /* the server first, if there is one */
	size_t target_count;
	bool has_server;
	struct uploader *uploader;	       /* NULL = none */
	struct control_client *control_client; /* NULL = none */
	struct agent_markers *markers;	       /* NULL = none */
	struct agent_http *http;	       /* NULL = none */
	struct host_symbols symbols;
	struct host_facts facts;
	int64_t facts_ns; /* monotonic: when they were read */
	const struct labels *host_labels;
	int link_fd;
	struct agent_health health; /* of the control client's thread, once that runs */
	unsigned frequency_hz;	    /* that was reported last */
};

static void on_binary(void *context, const struct agent_binary *binary)
{
	struct collector *collector = context;
	struct link_message message = {.kind = LINK_BINARY};
	if (collector->uploader)
		uploader_see(collector->uploader, binary);
	if (collector->symbolizer && *binary->build_id) /* a failure shows as addresses without names; the rest is as good */
		symbolizer_offer(collector->symbolizer, binary->build_id, binary->content, binary->path, binary->fd, NULL);
	if (collector->link_fd < 0 || !*binary->build_id)
		return;
	snprintf(message.binary.build_id, sizeof(message.binary.build_id), "%s", binary->build_id);
	snprintf(message.binary.content, sizeof(message.binary.content), "%s", binary->content);
	snprintf(message.binary.path, sizeof(message.binary.path), "%s", binary->path);
	link_send(collector->link_fd, &message,
		  binary->fd); /* a full link loses nothing for good: the server looks for the file by its path */
}

static bool on_kernel_symbol(void *context, uint64_t address, struct agent_symbol *ret)
{
	return host_symbols_kernel(&((struct collector *)context)->symbols, address, ret);
}

static bool on_jit_symbol(void *context, const struct agent_jit_address *address, struct agent_symbol *ret)
{
	return host_symbols_jit(&((struct collector *)context)->symbols, address, ret);
}

static void fill_unwind(const struct agent_unwind_stats *unwind, struct link_stats *stats)
{
	for (uint32_t i = 0; i < UNWIND_RESULTS && i < LINK_WALKS_MAX; i++, stats->walk_count++) {
		snprintf(stats->walks[i].name, sizeof(stats->walks[i].name), "%s", unwind_result_name((enum unwind_result)i));
		stats->walks[i].count = unwind->results[i];
	}
	for (size_t i = 0; i < AGENT_WORST_PROCESSES && i < LINK_WALKS_MAX; i++) {
		stats->worst[i].pid = (uint32_t)unwind->worst[i].pid;
		memcpy(stats->worst[i].comm, unwind->worst[i].comm, sizeof(stats->worst[i].comm));
		memcpy(stats->worst[i].results, unwind->worst[i].results, sizeof(unwind->worst[i].results));
	}
	stats->walks_by_frames = unwind->by_frames;
	stats->walks_resumed = unwind->resumed;
	stats->frames = unwind->frames;
	stats->tables = unwind->tables;
	stats->table_bytes = unwind->table_bytes;
	stats->table_rows = unwind->table_rows;
	stats->tables_built = unwind->built;
	stats->tables_cached = unwind->cached;
	stats->tables_evicted = unwind->evicted;
	stats->tables_failed = unwind->failed + unwind->too_large;
	stats->build_ns = unwind->build_ns;
	stats->live_rules = unwind->live_rules;
	stats->live_pieces = unwind->live_pieces;
	stats->live_dropped = unwind->live_dropped;
	for (uint32_t kind = 0, count = 0; kind < RUNTIME_KINDS; kind++) {
		const struct agent_runtime_stats *runtime = &unwind->runtimes[kind];
		const char *name = agent_runtime_word(kind);
		if (name && count < LINK_RUNTIMES_MAX)
			stats->runtimes[count++] = (struct link_runtime){
				name, runtime->samples, runtime->frames, runtime->unknown, runtime->names, runtime->names_lost};
	}
	stats->heap_bytes = unwind->heap_bytes;
	stats->heap_used = unwind->heap_used;
	stats->process_updates = unwind->process_updates;
	stats->process_update_failures = unwind->process_update_failures;
	stats->program_ns = unwind->program_ns;
	stats->program_ns_p50 = unwind->program_ns_p50;
	stats->program_ns_p99 = unwind->program_ns_p99;
}

static void sum_losses(const struct export_stats *stats, uint64_t *ret_profiles, uint64_t *ret_samples)
{
	*ret_profiles = *ret_samples = 0;
	for (size_t i = 0; i < EXPORT_LOSSES; i++) {
		uint64_t profiles, samples;
		export_lost(stats, i, &profiles, &samples);
		*ret_profiles += profiles;
		*ret_samples += samples;
	}
}

static void fill_targets(struct collector *collector, struct link_stats *stats)
{
	struct export_stats targets[EXPORT_TARGETS_MAX];
	size_t count = exporter_get_stats(collector->exporter, targets, EXPORT_TARGETS_MAX);
	/* The first is the server, if there is one. */
	stats->profiles_sent = targets[0].sent_profiles;
	stats->bytes_sent = targets[0].sent_bytes;
	stats->send_failures = targets[0].failures;
	sum_losses(&targets[0], &stats->profiles_dropped, &stats->samples_dropped);
	for (size_t i = collector->has_server; i < count && stats->target_count < LINK_TARGETS_MAX; i++)
		link_target_of(&targets[i], &stats->targets[stats->target_count++]);
}

static void fill_stats(struct collector *collector, struct link_stats *stats)
{
	struct agent_stats agent;
	struct jit_stats jit;
	agent_get_stats(collector->agent, &agent);
	host_symbols_get_jit_stats(&collector->symbols, &jit);
	*stats = (struct link_stats){
		.samples_taken = agent.samples_taken,
		.relabel_dropped = agent.relabel_dropped,
		.flushes = agent.flushes,
		.flush_ns_total = agent.flush_ns_total,
		.flush_ns_max = agent.flush_ns_max,
		.stacks_sent = agent.stacks_sent,
		.processes = agent.processes,
		.mappings = agent.mappings,
		.binaries = agent.binaries,
		.cpus_online = agent.cpus_online,
		.bpf_run_ns = agent.bpf_run_ns,
		.bpf_run_count = agent.bpf_run_count,
		.resident_bytes = mem_resident_bytes(),
		.cpu_ns = (uint64_t)time_process_cpu_ns(),
		.frequency_hz = agent.frequency_hz,
		.jit_lookups = jit.lookups,
		.jit_hits = jit.hits,
		.jit_reads = jit.reads,
		.jit_bytes_read = jit.bytes_read,
		.jit_files = jit.files,
		.jit_memory_bytes = jit.memory_bytes,
		.frequency_asked_hz = agent.frequency_asked_hz,
		.cost_share = agent.cost_share,
		.sampling_share = agent.sampling_share,
		.budget = agent.budget,
		.rate_changes = agent.rate_changes,
		.off_cpu_intervals = agent.off_cpu_intervals,
		.process_rows = agent.process_rows,
		.process_rows_left_out = agent.process_rows_left_out,
		.process_stats_ns = agent.process_stats_ns,
	};
	snprintf(stats->event, sizeof(stats->event), "%s", agent.event);
	for (size_t i = 0; i < AGENT_LOSS_COUNT && i < LINK_LOSSES_MAX; i++, stats->loss_count++) {
		snprintf(stats->losses[i].name, sizeof(stats->losses[i].name), "%s", agent_loss_names[i]);
		stats->losses[i].count = agent.samples_lost[i];
	}
	for (size_t i = 0; i < AGENT_COST_COUNT && i < LINK_LOSSES_MAX; i++, stats->cost_count++) {
		snprintf(stats->costs[i].name, sizeof(stats->costs[i].name), "%s", agent_cost_names[i]);
		stats->costs[i].count = agent.cost_ns[i];
	}
	fill_unwind(&agent.unwind, stats);
	fill_targets(collector, stats);
	if (collector->markers)
		agent_markers_get_stats(collector->markers, &stats->markers);
	for (size_t i = 0; i < JIT_PROBLEM_COUNT && i < LINK_LOSSES_MAX; i++, stats->jit_problem_count++) {
		snprintf(stats->jit_problems[i].name, sizeof(stats->jit_problems[i].name), "%s", jit_problem_names[i]);
		stats->jit_problems[i].count = jit.problems[i];
	}
}

/* To the server on this machine, or to whoever asks this agent. */
static void show_stats(struct collector *collector)
{
	struct link_message message = {.kind = LINK_STATS};
	if (collector->link_fd < 0 && !collector->http)
		return;
	fill_stats(collector, &message.stats);
	if (collector->link_fd >= 0)
		link_send(collector->link_fd, &message, -1);
	if (collector->http)
		agent_http_update(collector->http, &message.stats);
}

static void log_rate(struct collector *collector)
{
	struct agent_stats stats;

	agent_get_stats(collector->agent, &stats);
	if (stats.frequency_hz == collector->frequency_hz)
		return;
	log_info("sampling at %u Hz instead of %u Hz (%u Hz configured): sampling may use %.3g%% of a CPU", stats.frequency_hz,
		 collector->frequency_hz, stats.frequency_asked_hz, 100 * stats.budget);
	collector->frequency_hz = stats.frequency_hz;
}

static int on_profile(void *context, struct profile *profile, struct error *err)
{
	struct collector *collector = context;
	(void)err;
	struct error why = {0};
	if (host_facts_add(&collector->facts, collector->host_labels, profile, &why) < 0)
		log_warn("labels of the host: %s", why.message); /* the next flush may do better */
	if (exporter_push(collector->exporter, profile, NULL, EXPORT_ALL_TARGETS, &why) < 0)
		log_warn("%s", why.message); /* counted; the next flush may do better */
	return 0;
}

/* Files of the kernel, a millisecond: a microcode may be loaded, CPUs and a distribution may change. */
static void read_facts(struct collector *collector)
{
	int64_t now_ns = time_monotonic_ns();
	if (collector->facts_ns && now_ns - collector->facts_ns < FACTS_EVERY_NS)
		return;
	host_facts_read("", &collector->facts);
	collector->facts_ns = now_ns;
}

static void on_flush(void *context)
{
	struct collector *collector = context;
	read_facts(collector);
	show_stats(collector);
	log_rate(collector);
	host_symbols_refresh(&collector->symbols);
}

/* ---- sending profiles ---- */

static void say(void *context, enum log_level level, const char *text)
{
	log_write(level, "%s", text);
}

static int symbolize(void *context, const char *tenant, struct profile *profile, const atomic_bool *cancel, struct error *err)
{
	struct collector *collector = context;
	struct symbolizer_want want = {.wait_ns = SYMBOL_WAIT_NS, .cancel = cancel};
	return symbolizer_resolve(collector->symbolizer, profile, 1, &want, NULL, err);
}

/* Tables are made one at a time, in processes of their own, once for each binary, and kept on disk. */
static int open_symbolizer(struct collector *collector, const char *cache_directory, struct error *err)
{
	static const struct symbol_worker_options worker = {.program = "/proc/self/exe"};
	char directory[4096];
	struct symbolizer_options options = {.cache_max_bytes = SYMBOL_CACHE_BYTES,
					     .memory_max_bytes = SYMBOL_MEMORY_BYTES,
					     .own_files = true,
					     .workers = 1,
					     .worker = &worker};
	bool wanted = false;
	for (size_t i = 0; i < collector->target_count; i++)
		wanted |= collector->targets[i].symbolize;
	if (!wanted)
		return 0;
	if (cache_directory && io_join_path(directory, sizeof(directory), cache_directory, "symbols") == 0 &&
	    io_make_dirs(directory, 0700, NULL) == 0)
		options.cache_directory = directory;
	return symbolizer_new(&options, &collector->symbolizer, err);
}

/* Over a link the server is on this machine and ends with us: what waits for it is not worth a disk. */
static int start_exporter(struct collector *collector, const struct collector_options *options, struct error *err)
{
	bool is_here = options->link_fd >= 0;
	collector->has_server = options->url != NULL;
	if (options->url)
		collector->targets[collector->target_count++] = (struct export_target){.kind = EXPORT_WICK,
										       .url = options->url,
										       .name = is_here ? "server" : NULL,
										       .token = options->token,
										       .token_file = options->token_file,
										       .tenant = options->tenant,
										       .memory_only = is_here,
										       .spool_bytes = options->spool_bytes,
										       .spool_age_ns = options->spool_age_ns};
	if (collector->target_count + options->target_count > EXPORT_TARGETS_MAX)
		return error_set(err, -EINVAL, "more than %d targets", EXPORT_TARGETS_MAX);
	for (size_t i = 0; i < options->target_count; i++)
		collector->targets[collector->target_count++] = options->targets[i];
	int r = open_symbolizer(collector, options->agent.cache_directory, err);
	struct exporter_options exporter = {.targets = collector->targets,
					    .target_count = collector->target_count,
					    .directory = options->spool_directory,
					    .log = say,
					    .symbolize = collector->symbolizer ? symbolize : NULL,
					    .context = collector};
	return r < 0 ? r : exporter_new(&exporter, &collector->exporter, err);
}

/* ---- what else it sends ---- */

static int start_uploader(struct collector *collector, const struct collector_options *options, const char *directory,
			  struct error *err)
{
	struct uploader_options uploader = {.url = options->url,
					    .token = options->token,
					    .token_file = options->token_file,
					    .tenant = options->tenant,
					    .rate = options->debuginfo_rate,
					    .file_bytes_max = options->debuginfo_file_bytes_max,
					    .kernel_build_id = collector->symbols.kernel_build_id,
					    .directory = directory,
					    .tells_only = options->no_debuginfo_upload};
	if (options->link_fd >= 0 || !options->url)
		return 0;
	int r = uploader_new(&uploader, &collector->uploader, err);
	if (r == 0 && !options->no_debuginfo_upload)
		collector->symbols.server_names_kernel = uploader_server_names_kernel(collector->uploader);
	return r;
}

static int start_markers(struct collector *collector, const struct collector_options *options, const char *host,
			 struct error *err)
{
	struct agent_markers_options markers = {.url = options->url,
						.token = options->token,
						.token_file = options->token_file,
						.tenant = options->tenant,
						.host = host,
						.directory = options->link_fd < 0 ? options->spool_directory : NULL,
						.spool_bytes = options->spool_bytes,
						.spool_age_ns = options->spool_age_ns,
						.control_client = collector->control_client};
	return agent_markers_new(&markers, &collector->markers, err);
}

static void on_health(void *context, struct health *ret)
{
	struct collector *collector = context;
	struct export_stats server; /* the first target */
	struct agent_stats agent;
	agent_get_stats(collector->agent, &agent);
	exporter_get_stats(collector->exporter, &server, 1);
	agent_health_fill(&collector->health, &agent, &server, ret);
}

/* Under the name that its samples have. */
static int start_control_client(struct collector *collector, const struct collector_options *options, struct error *err)
{
	struct utsname names = {0};
	const char *host = options->agent.labels ? labels_get(options->agent.labels, "host.name") : NULL;
	if (!options->url && options->markers)
		return error_set(err, -EINVAL, "--markers needs --server: markers go to a wick server only");
	if (!options->url)
		return 0;
	if (!host && uname(&names) == 0)
		host = names.nodename;
	host = host && *host ? host : "localhost";
	/* Labels may be any text, and profiles are worth more than recordings. */
	if (!control_host_is_valid(host)) {
		log_warn("'%.100s' is not a valid host name: wick record --remote cannot use this agent%s", host,
			 options->markers ? ", and it collects no markers" : "");
		return 0;
	}
	struct control_client_options control_client = {
		.url = options->url,
		.token = options->token,
		.token_file = options->token_file,
		.tenant = options->tenant,
		.host = host,
		.refusal = options->no_remote_record ? "remote recording is disabled on its agent (--no-remote-record)" : NULL,
		.directory = options->spool_directory,
		.health = on_health,
		.context = collector};
	agent_health_init(&collector->health, &options->agent, options->markers);
	int r = control_client_new(&control_client, &collector->control_client, err);
	return r < 0 || !options->markers ? r : start_markers(collector, options, host, err);
}

static const char *http_address(const struct collector_options *options)
{
	return options->listen ? options->listen : AGENT_HTTP_LISTEN;
}

/* That of `wick up` has the server's page, and no routes of its own. */
static bool serves_http(const struct collector_options *options)
{
	return options->link_fd < 0 && !agent_http_is_off(http_address(options));
}

/* Another agent may have the default address; who asked for one wants that one. */
static int start_http(struct collector *collector, const struct collector_options *options, struct error *err)
{
	struct error why = {0};
	if (!serves_http(options))
		return 0;
	int r = agent_http_new(http_address(options), &collector->http, &why);
	if (r == 0)
		log_info("metrics: http://%s/metrics", agent_http_address(collector->http));
	else if (options->listen)
		return error_set(err, r, "%s", why.message);
	else
		log_info("metrics are not served: %s", why.message);
	return 0;
}

int collector_new(const struct collector_options *options, struct collector **ret, struct error *err)
{
	_cleanup_(collector_freep) struct collector *collector = mem_zalloc(sizeof(*collector));
	if (!collector)
		return error_nomem(err);
	collector->link_fd = options->link_fd;
	collector->host_labels = options->host_labels;
	read_facts(collector);
	if (serves_http(options))
		heap_sampler_start(HEAP_RATE_BYTES); /* for /debug/pprof/heap; before there is much memory */
	struct agent_sink sink = {.context = collector,
				  .on_binary = on_binary,
				  .kernel_symbol = on_kernel_symbol,
				  .jit_symbol = on_jit_symbol,
				  .on_profile = on_profile,
				  .on_flush = on_flush};
	struct agent_options agent = options->agent;
	agent.run_once = true;
	/* Loading the BPF program takes more memory for a moment than everything after it; so it comes first. */
	int r = agent_new(&agent, &sink, &collector->agent, err);
	if (!r)
		r = host_symbols_init(&collector->symbols, err);
	collector->symbols.cache_directory = options->agent.cache_directory;
	/* Among many threads that want the CPU, the rings must be read in time. No matter if that is not permitted. */
	thread_lead(LEADER_NICE);
	if (!r)
		r = agent_drop_privileges(err); /* before the exporter's thread, which inherits what is left */
	if (!r)
		r = start_exporter(collector, options, err);
	if (!r)
		r = start_uploader(collector, options, agent.cache_directory, err);
	if (!r)
		r = start_control_client(collector, options, err);
	if (!r)
		r = start_http(collector, options, err);
	if (r < 0)
		return r;
	struct agent_stats stats;
	agent_get_stats(collector->agent, &stats);
	collector->frequency_hz = stats.frequency_hz;
	if (stats.process_stats_problem[0])
		log_warn("process_stats are not sent: %s", stats.process_stats_problem);
	*ret = TAKE(collector);
	return 0;
}

int collector_run(struct collector *collector, struct error *err)
{
	int r = agent_run(collector->agent, 0, err);
	collector->symbols.server_names_kernel = NULL;
	if (collector->markers)
		agent_markers_finish(collector->markers, FINISH_NS);
	collector->control_client = control_client_free(collector->control_client);
	collector->uploader = uploader_free(collector->uploader);
	/* What is on disk stays for the next run, further profiles are dropped and counted. */
	exporter_finish(collector->exporter, FINISH_NS);
	show_stats(collector);
	return r;
}

void collector_stop(void *context)
{
	struct collector *collector = context;
	agent_stop(collector->agent);
}

struct collector *collector_free(struct collector *collector)
{
	if (!collector)
		return NULL;
	agent_http_free(collector->http);
	agent_markers_free(collector->markers);
	control_client_free(collector->control_client);
	uploader_free(collector->uploader);
	exporter_free(collector->exporter);
	symbolizer_free(collector->symbolizer);
	agent_free(collector->agent);
	host_symbols_release(&collector->symbols);
	return mem_free(collector);
}

static void report_markers(struct agent_markers *markers)
{
	struct link_markers stats;
	agent_markers_get_stats(markers, &stats);
	log_info("markers: %llu of %llu processes collected, %llu lost in full ring buffers, %llu dropped as too many, %llu "
		 "malformed; %llu in %llu batches sent; %llu in %llu dropped; %llu in %llu queued on disk",
		 (unsigned long long)stats.collected, (unsigned long long)stats.processes, (unsigned long long)stats.lost,
		 (unsigned long long)stats.left_out, (unsigned long long)stats.malformed,
		 (unsigned long long)stats.markers_sent, (unsigned long long)stats.batches_sent,
		 (unsigned long long)stats.markers_dropped, (unsigned long long)stats.batches_dropped,
		 (unsigned long long)stats.markers_waiting, (unsigned long long)stats.batches_queued);
}

void collector_report(struct collector *collector)
{
	struct agent_stats agent;
	struct export_stats targets[EXPORT_TARGETS_MAX];
	size_t count = exporter_get_stats(collector->exporter, targets, EXPORT_TARGETS_MAX);
	agent_get_stats(collector->agent, &agent);
	log_info("%llu samples were taken, %llu lost in the kernel, %llu dropped by relabel_configs",
		 (unsigned long long)agent.samples_taken, (unsigned long long)agent.samples_lost[AGENT_LOSS_COUNTS_FULL],
		 (unsigned long long)agent.relabel_dropped);
	for (size_t i = 0; i < count; i++) {
		uint64_t profiles, samples;
		sum_losses(&targets[i], &profiles, &samples);
		log_info("%s: %llu profiles with %llu samples sent; %llu with %llu dropped; %llu with %llu queued on disk",
			 targets[i].name, (unsigned long long)targets[i].sent_profiles,
			 (unsigned long long)targets[i].sent_samples, (unsigned long long)profiles, (unsigned long long)samples,
			 (unsigned long long)targets[i].spool.profiles, (unsigned long long)targets[i].spool.samples);
	}
	if (collector->markers)
		report_markers(collector->markers);
}

void collector_get_stats(struct collector *collector, struct agent_stats *ret)
{
	agent_get_stats(collector->agent, ret);
}
