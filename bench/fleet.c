/* SPDX-License-Identifier: Apache-2.0 */
/* The tool around bench/fleet: options, the three ways in, and the figures at the end. What it generates is told in fleet.h. */
#include "bench/fleet/fleet.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/thread.h"
#include "control/protocol.h"
#include "format/otlp/otlp.h"
#include "net/net.h"
#include "profile/merge.h"
#include "store/block/partition.h"
#include "store/store.h"

#define JOBS_MAX 64

static const char usage[] = "usage: fleet (--data DIR [--append] | --url URL) [OPTION...]\n"
			    "\n"
			    "Generates the profiles of a fleet, the same for the same options and seed, and\n"
			    "  --data DIR           writes them as blocks of a data directory that no server has open\n"
			    "  --data DIR --append  appends them to the store there, one profile a flush, each synced\n"
			    "  --url URL            sends them to a server: OTLP over HTTP, one request a flush\n"
			    "\n"
			    "options:\n"
			    "  --profiles DIR     recorded profiles to take stacks from (bench/fleet/record makes\n"
			    "                     them); without any, call trees are invented\n"
			    "  --start TIME       of the history (default: now minus its length)\n"
			    "  --days N           length of the history (default: 1; fractions are fine)\n"
			    "  --hosts N          (100)    --services N       (50)\n"
			    "  --pods N           of a host at a time (8)\n"
			    "  --cpus N           of a host (4)\n"
			    "  --frequency HZ     (19)     --busy SHARE       of a CPU, in the mean (0.13)\n"
			    "  --load FACTOR      scales the number of samples, and nothing else (1)\n"
			    "  --stacks N         of a service, at most (4000)\n"
			    "  --native PERCENT   of the services send addresses, not names (40)\n"
			    "  --memory PERCENT   of the others send heap profiles (35)\n"
			    "  --deploy-days N    between two deploys of a service, in the mean (4)\n"
			    "  --pod-hours N      that a pod lives, in the mean (9)\n"
			    "  --seed N           (1)\n"
			    "  --truths           adds a service `beacon` of which everything is known: its hottest\n"
			    "                     function is escape_html, pod beacon-7 differs (spin_wait), and\n"
			    "                     bench/fleet/truth.c has the whole\n"
			    "  --deploy TIME      when beacon 1.1.0 takes the place of 1.0.0: hash_key takes twice\n"
			    "                     as much, validate_utf8 is new, compress is gone (default: never)\n"
			    "  --live             with --url: from --start on (default: now), for ever, each flush\n"
			    "                     when its time has come; one that the server does not take is lost.\n"
			    "                     Agents say how they are: bench/fleet/agents.c\n"
			    "  --window DURATION  length of a block (2h)\n"
			    "  --partition DURATION  that rows of blocks are ordered by (1h); 0 = none, as versions\n"
			    "                     before 3 of the format have it\n"
			    "  --jobs N           processes that write blocks, or connections that send (1)\n"
			    "  --ahead            with --append: all profiles are made before the clock starts, so\n"
			    "                     that it measures the store alone\n"
			    "  --pid PID          the server's, for its CPU time and memory\n"
			    "  --json             figures as one line of JSON\n";

struct tool {
	struct fleet_options options;
	const char *data, *url, *profiles;
	double days;
	int64_t window_ns;
	unsigned jobs;
	bool is_append, is_ahead, is_json, is_compact, is_only_compact;
	const char *pid, *start;
};

static void check(int r, const struct error *err)
{
	if (r >= 0)
		return;
	fprintf(stderr, "fleet: %s\n", err->message);
	exit(1);
}

/* ---- options ---- */

enum option_id {
	DATA = 1,
	APPEND,
	URL,
	PROFILES,
	START,
	DAYS,
	HOSTS,
	SERVICES,
	PODS,
	CPUS,
	FREQUENCY,
	BUSY,
	LOAD,
	STACKS,
	NATIVE,
	MEMORY,
	DEPLOY_DAYS,
	POD_HOURS,
	SEED,
	TRUTHS,
	DEPLOY,
	LIVE,
	WINDOW,
	PARTITION,
	JOBS,
	AHEAD,
	PID,
	JSON,
	COMPACT,
	ONLY_COMPACT,
	HELP
};

static const struct option rows[] = {
	{"data", 1, NULL, DATA},
	{"append", 0, NULL, APPEND},
	{"url", 1, NULL, URL},
	{"profiles", 1, NULL, PROFILES},
	{"start", 1, NULL, START},
	{"days", 1, NULL, DAYS},
	{"hosts", 1, NULL, HOSTS},
	{"services", 1, NULL, SERVICES},
	{"pods", 1, NULL, PODS},
	{"cpus", 1, NULL, CPUS},
	{"frequency", 1, NULL, FREQUENCY},
	{"busy", 1, NULL, BUSY},
	{"load", 1, NULL, LOAD},
	{"stacks", 1, NULL, STACKS},
	{"native", 1, NULL, NATIVE},
	{"memory", 1, NULL, MEMORY},
	{"deploy-days", 1, NULL, DEPLOY_DAYS},
	{"pod-hours", 1, NULL, POD_HOURS},
	{"seed", 1, NULL, SEED},
	{"truths", 0, NULL, TRUTHS},
	{"deploy", 1, NULL, DEPLOY},
	{"live", 0, NULL, LIVE},
	{"window", 1, NULL, WINDOW},
	{"partition", 1, NULL, PARTITION},
	{"jobs", 1, NULL, JOBS},
	{"ahead", 0, NULL, AHEAD},
	{"pid", 1, NULL, PID},
	{"json", 0, NULL, JSON},
	{"compact", 0, NULL, COMPACT},
	{"only-compact", 0, NULL, ONLY_COMPACT},
	{"help", 0, NULL, HELP},
	{NULL, 0, NULL, 0},
};

static int set_count(const char *text, unsigned most, unsigned *ret, struct error *err)
{
	uint64_t value;
	int r = text_parse_u64(text, &value, err);
	if (r == 0 && (value == 0 || value > most))
		return error_set(err, -EINVAL, "%s is not in 1..%u", text, most);
	*ret = r == 0 ? (unsigned)value : 0;
	return r;
}

static int set_counts(struct tool *tool, int id, const char *text, struct error *err)
{
	struct fleet_options *options = &tool->options;
	switch (id) {
	case HOSTS: return set_count(text, 100000, &options->hosts, err);
	case SERVICES: return set_count(text, 10000, &options->services, err);
	case PODS: return set_count(text, FLEET_PODS_MAX, &options->pods_per_host, err);
	case CPUS: return set_count(text, 256, &options->cpus, err);
	case STACKS: return set_count(text, 1000000, &options->stacks, err);
	case NATIVE: return set_count(text, 100, &options->native_percent, err);
	case MEMORY: return set_count(text, 100, &options->memory_percent, err);
	case JOBS: return set_count(text, JOBS_MAX, &tool->jobs, err);
	default: return text_parse_u64(text, &options->seed, err);
	}
}

static int set_option(struct tool *tool, int id, const char *text, struct error *err)
{
	struct fleet_options *options = &tool->options;
	switch (id) {
	case DATA: tool->data = text; return 0;
	case APPEND: tool->is_append = true; return 0;
	case AHEAD: tool->is_ahead = true; return 0;
	case URL: tool->url = text; return 0;
	case PROFILES: tool->profiles = text; return 0;
	case START: tool->start = text; return 0;
	case PID: tool->pid = text; return 0;
	case TRUTHS: options->has_truths = true; return 0;
	case LIVE: options->is_live = true; return 0;
	case DEPLOY: return time_parse(text, time_now_ns(), &options->deploy_ns, err);
	case JSON: tool->is_json = true; return 0;
	case ONLY_COMPACT: tool->is_only_compact = tool->is_compact = true; return 0;
	case COMPACT: tool->is_compact = true; return 0;
	case DAYS: return text_parse_double(text, &tool->days, err);
	case FREQUENCY: return text_parse_double(text, &options->frequency, err);
	case BUSY: return text_parse_double(text, &options->busy, err);
	case LOAD: return text_parse_double(text, &options->load, err);
	case DEPLOY_DAYS: return text_parse_double(text, &options->deploy_days, err);
	case POD_HOURS: return text_parse_double(text, &options->pod_hours, err);
	case WINDOW: return time_parse_duration(text, &tool->window_ns, err);
	case PARTITION: return time_parse_duration(text, &block_partition_ns, err);
	default: return set_counts(tool, id, text, err);
	}
}

static bool is_sane(const struct tool *tool)
{
	const struct fleet_options *options = &tool->options;
	return tool->days > 0 && tool->days <= 3660 && options->frequency > 0 && options->busy > 0 && options->busy <= 1 &&
	       options->load > 0 && options->deploy_days > 0 && options->pod_hours > 0 && tool->window_ns >= FLEET_FLUSH_NS &&
	       !!tool->data != !!tool->url && (tool->url || !options->is_live) && (tool->is_append || !tool->is_ahead);
}

static void parse(int argc, char **argv, struct tool *tool)
{
	struct error err = {0};
	int id;
	while ((id = getopt_long(argc, argv, "h", rows, NULL)) != -1) {
		if (id == HELP || id == 'h') {
			fputs(usage, stdout);
			exit(0);
		}
		if (id == '?' || set_option(tool, id, optarg, &err) < 0) {
			fprintf(stderr, "%s%s%s", err.message, *err.message ? "\n" : "", usage);
			exit(2);
		}
	}
	if (!is_sane(tool) || optind < argc) {
		fputs(usage, stderr);
		exit(2);
	}
	/* Whole flushes, and windows that begin at round times, so that two runs agree. */
	tool->options.duration_ns = (int64_t)(tool->days * 86400) * NS_PER_S / FLEET_FLUSH_NS * FLEET_FLUSH_NS;
	int64_t now_ns = time_now_ns();
	if (tool->start)
		check(time_parse(tool->start, now_ns, &tool->options.start_ns, &err), &err);
	else
		tool->options.start_ns = tool->options.is_live ? now_ns : now_ns - tool->options.duration_ns;
	tool->options.start_ns -= tool->options.start_ns % FLEET_FLUSH_NS;
}

/* ---- blocks ---- */

static void add_totals(struct fleet_totals *to, const struct fleet_totals *from)
{
	to->appends += from->appends;
	to->samples += from->samples;
	to->events += from->events;
	to->bytes += from->bytes;
	to->blocks += from->blocks;
	to->stacks = from->stacks > to->stacks ? from->stacks : to->stacks;
	to->generate_ns += from->generate_ns;
	to->write_ns += from->write_ns;
}

/* Blocks end at multiples of the window since 1970. */
static int write_windows(const struct tool *tool, struct fleet_model *model, unsigned job, struct fleet_totals *totals,
			 struct error *err)
{
	struct fleet *fleet;
	int r = fleet_new(&tool->options, model, &fleet, err);
	if (r < 0)
		return r;
	uint64_t number = 0, ticks = fleet_flush_count(fleet), tick = 0, end;
	int64_t into_ns = tool->options.start_ns % tool->window_ns;
	for (; r == 0 && tick < ticks; tick = end, number++) {
		end = (uint64_t)((tool->window_ns * (int64_t)(number + 1) - into_ns) / FLEET_FLUSH_NS);
		end = end > ticks ? ticks : end;
		if (number % tool->jobs == job && end > tick)
			r = fleet_write_block(fleet, tool->data, tick, end, totals, err);
		if (job == 0 && isatty(2))
			fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " h ", end / 360, ticks / 360);
	}
	fleet_free(fleet);
	return r;
}

static void run_blocks(const struct tool *tool, struct fleet_model *model, struct fleet_totals *totals)
{
	struct error err = {0};
	struct fleet_totals *each =
		mmap(NULL, sizeof(*each) * JOBS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[JOBS_MAX];
	for (unsigned job = 0; job < tool->jobs; job++) {
		pids[job] = fork();
		if (pids[job] == 0) {
			check(write_windows(tool, model, job, &each[job], &err), &err);
			_exit(0);
		}
	}
	for (unsigned job = 0; job < tool->jobs; job++) {
		int status;
		if (waitpid(pids[job], &status, 0) < 0 || status)
			exit(1);
		add_totals(totals, &each[job]);
	}
}

/* ---- appends and requests ---- */

struct sender {
	const struct tool *tool;
	struct fleet_model *model;
	unsigned part;
	struct store *store;
	struct net_client *client;
	struct net_client_response response;
	struct buffer body;
	struct fleet_totals totals;
	int64_t *acks;
	size_t ack_count, ack_capacity;
	struct profile **kept; /* made ahead */
	size_t kept_count, kept_capacity;
	pthread_barrier_t *all_kept;
	int64_t started_ns, ended_ns; /* sending what was kept; wall clock */
	int64_t cpu_ns;		      /* of the thread: generating and appending */
	bool is_failing;	      /* the last request failed; of a live fleet */
	int result;
	struct error err;
};

static int note_ack(struct sender *sender, int64_t started)
{
	if (array_reserve(&sender->acks, &sender->ack_capacity, sender->ack_count + 1, UINT32_MAX) < 0)
		return -ENOMEM;
	sender->acks[sender->ack_count++] = time_monotonic_ns() - started;
	return 0;
}

static int append(void *context, struct profile *profile, struct fleet_totals *totals, struct error *err)
{
	struct sender *sender = context;
	struct store_append_options options = {.received_ns = profile->time_ns};
	uint64_t id[2] = {fleet_hash(sender->part, sender->ack_count), fleet_hash((uint64_t)profile->time_ns, 7)};
	memcpy(options.id, id, sizeof(options.id));
	int64_t started = time_monotonic_ns(), cpu = time_thread_cpu_ns();
	int r = store_append(sender->store, profile, &options, NULL, err);
	totals->write_ns += time_thread_cpu_ns() - cpu;
	return r == 0 ? note_ack(sender, started) : r;
}

/* The profile is the emitter's, which makes the next one in its place. */
static int keep(void *context, struct profile *profile, struct fleet_totals *totals, struct error *err)
{
	struct sender *sender = context;
	struct profile *copy;
	int r = profile_new(&copy, err);
	if (r == 0)
		r = profile_merge(copy, profile, false, err);
	if (r == 0)
		r = array_push(&sender->kept, &sender->kept_count, &sender->kept_capacity, UINT32_MAX, copy);
	return r;
}

static int append_kept(struct sender *sender)
{
	int r = 0;
	sender->started_ns = time_monotonic_ns();
	for (size_t i = 0; r == 0 && i < sender->kept_count; i++)
		r = append(sender, sender->kept[i], &sender->totals, &sender->err);
	sender->ended_ns = time_monotonic_ns();
	for (size_t i = 0; i < sender->kept_count; i++)
		profile_free(sender->kept[i]);
	mem_free(sender->kept);
	return r;
}

static int post(void *context, struct profile *profile, struct fleet_totals *totals, struct error *err)
{
	struct sender *sender = context;
	const struct profile *profiles[] = {profile};
	int64_t cpu = time_thread_cpu_ns();
	buffer_clear(&sender->body);
	int r = otlp_encode(profiles, 1, &sender->body, err);
	totals->generate_ns += time_thread_cpu_ns() - cpu;
	totals->bytes += sender->body.len;
	if (r < 0)
		return r;
	int64_t started = time_monotonic_ns();
	net_client_response_release(&sender->response);
	sender->response = (struct net_client_response){0};
	r = net_client_request(sender->client, "POST", "/v1development/profiles", "application/x-protobuf",
			       buffer_bytes(&sender->body), false, &sender->response, err);
	if (r == 0 && sender->response.status != 200)
		r = error_set(err, -EPROTO, "%s answered %d: %.*s", sender->tool->url, sender->response.status,
			      (int)sender->response.body.len, (const char *)sender->response.body.data);
	if (sender->tool->options.is_live) { /* times of acknowledgements would only pile up */
		if (r < 0 && !sender->is_failing)
			fprintf(stderr, "fleet: %s; going on\n", err->message);
		sender->is_failing = r < 0;
		return 0;
	}
	return r == 0 ? note_ack(sender, started) : r;
}

static int poll(void *context, struct bytes poll, struct error *err)
{
	struct sender *sender = context;
	net_client_response_release(&sender->response);
	sender->response = (struct net_client_response){0};
	net_client_request(sender->client, "POST", CONTROL_POLL_PATH, "application/json", poll, false, &sender->response, err);
	return 0; /* a server that is away is told of with the next profile */
}

static void *run_sender(void *context)
{
	struct sender *sender = context;
	struct fleet *fleet = NULL;
	bool ahead = sender->tool->is_ahead;
	struct fleet_sink sink = {.send = ahead ? keep : sender->store ? append : post, .poll = poll, .context = sender};
	sender->result = fleet_new(&sender->tool->options, sender->model, &fleet, &sender->err);
	if (sender->result == 0)
		sender->result = fleet_send(fleet, sender->part, sender->tool->jobs, &sink, &sender->totals, &sender->err);
	fleet_free(fleet);
	if (ahead) {
		pthread_barrier_wait(sender->all_kept);
		if (sender->result == 0)
			sender->result = append_kept(sender);
	}
	sender->cpu_ns = time_thread_cpu_ns();
	return NULL;
}

/* User and system CPU time of a process, in ns. */
static int64_t cpu_of(const char *pid)
{
	char path[64];
	unsigned long long user = 0, system = 0;
	struct buffer file = {0};
	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	if (!pid || io_read_file(path, 4096, &file, NULL) < 0)
		return 0;
	const char *text = buffer_string(&file), *at = text ? strrchr(text, ')') : NULL;
	if (!at || sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
		user = system = 0;
	buffer_release(&file);
	return (int64_t)((user + system) * 1000000000ull / (unsigned long long)sysconf(_SC_CLK_TCK));
}

struct figures {
	struct fleet_totals totals;
	struct store_stats stats; /* after compaction */
	double compact_wall_s, compact_cpu_s, compact_peak_mb;
	double append_s; /* wall clock, when all was made ahead; else 0 */
	double wall_s, store_s, ack_p50_ms, ack_p99_ms, ack_max_ms;
};

static int compare_times(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static void collect(struct sender *senders, unsigned count, struct figures *figures)
{
	int64_t *all = NULL;
	size_t all_count = 0, capacity = 0;
	int64_t started_ns = INT64_MAX, ended_ns = 0;
	for (unsigned i = 0; i < count; i++) {
		check(senders[i].result, &senders[i].err);
		add_totals(&figures->totals, &senders[i].totals);
		started_ns = senders[i].started_ns < started_ns ? senders[i].started_ns : started_ns;
		ended_ns = senders[i].ended_ns > ended_ns ? senders[i].ended_ns : ended_ns;
		if (senders[i].ack_count == 0 ||
		    array_reserve(&all, &capacity, all_count + senders[i].ack_count, UINT32_MAX) < 0)
			continue;
		memcpy(all + all_count, senders[i].acks, senders[i].ack_count * sizeof(*all));
		all_count += senders[i].ack_count;
	}
	figures->append_s = (double)(ended_ns - started_ns) / 1e9;
	if (all_count == 0)
		return;
	qsort(all, all_count, sizeof(*all), compare_times);
	figures->ack_p50_ms = (double)all[all_count / 2] / NS_PER_MS;
	figures->ack_p99_ms = (double)all[all_count * 99 / 100] / NS_PER_MS;
	figures->ack_max_ms = (double)all[all_count - 1] / NS_PER_MS;
	mem_free(all);
}

static struct store *open_store(const struct tool *tool)
{
	struct store_options options = {.directory = tool->data, .retention_age_ns = -1, .retention_size_bytes = UINT64_MAX};
	struct store *store;
	struct error err = {0};
	check(store_open(&options, &store, &err), &err);
	return store;
}

static void run_senders(const struct tool *tool, struct fleet_model *model, struct figures *figures)
{
	static struct sender senders[JOBS_MAX];
	pthread_t threads[JOBS_MAX];
	struct error err = {0};
	struct store *store = tool->data ? open_store(tool) : NULL;
	pthread_barrier_t all_kept;
	pthread_barrier_init(&all_kept, NULL, tool->jobs);
	int64_t cpu = store ? time_process_cpu_ns() : cpu_of(tool->pid), own = time_thread_cpu_ns();
	for (unsigned i = 0; i < tool->jobs; i++) {
		senders[i] = (struct sender){.tool = tool, .model = model, .part = i, .store = store, .all_kept = &all_kept};
		buffer_init(&senders[i].body, LIMIT_PROFILE_INPUT_BYTES);
		if (!store)
			check(net_client_new(&(struct net_client_options){.url = tool->url}, &senders[i].client, &err), &err);
		check(thread_start(&threads[i], "sender", run_sender, &senders[i], &err), &err);
	}
	for (unsigned i = 0; i < tool->jobs; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&all_kept);
	collect(senders, tool->jobs, figures);
	int64_t closing = time_thread_cpu_ns();
	store_close(store);
	closing = time_thread_cpu_ns() - closing;
	/* In this process the store's work is that of its calls and of its own threads, which cut. */
	int64_t used = store ? figures->totals.write_ns + closing : cpu_of(tool->pid) - cpu;
	int64_t others = time_process_cpu_ns() - cpu - (time_thread_cpu_ns() - own);
	for (unsigned i = 0; store && i < tool->jobs; i++)
		others -= senders[i].cpu_ns;
	if (store && others > 0)
		used += others;
	figures->store_s = (double)used / 1e9;
}

/* ---- compaction ---- */

/* All that is left of the history is merged: as if the server had run all the time, and two days more. */
static void compact(const struct tool *tool, struct figures *figures)
{
	struct store_options options = {
		.directory = tool->data, .retention_age_ns = -1, .retention_size_bytes = UINT64_MAX, .manual = true};
	struct store *store;
	struct error err = {0};
	struct rusage used;
	check(store_open(&options, &store, &err), &err);
	int64_t started = time_monotonic_ns(), cpu = time_process_cpu_ns();
	int64_t then_ns = tool->options.start_ns + tool->options.duration_ns + 48 * 3600 * NS_PER_S;
	check(store_compact(store, then_ns, &err), &err);
	figures->compact_wall_s = (double)(time_monotonic_ns() - started) / 1e9;
	figures->compact_cpu_s = (double)(time_process_cpu_ns() - cpu) / 1e9;
	store_get_stats(store, &figures->stats);
	store_close(store);
	getrusage(RUSAGE_SELF, &used);
	figures->compact_peak_mb = (double)used.ru_maxrss / 1024;
}

/* In a process of its own, whose peak is that of compaction alone. */
static void run_compact(const struct tool *tool, struct figures *figures)
{
	struct figures *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	*shared = *figures;
	pid_t pid = fork();
	if (pid == 0) {
		compact(tool, shared);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) < 0 || status)
		exit(1);
	*figures = *shared;
}

static void print_compaction(const struct figures *figures)
{
	const struct store_stats *stats = &figures->stats;
	printf("  compaction: %" PRIu64
	       " merges, %.1f MB in, %.1f MB out, %.1f s of wall clock, %.1f CPU s, peak %.0f MB; now %" PRIu64
	       " blocks (%" PRIu64 " + %" PRIu64 " + %" PRIu64 " by level), %.1f MB\n",
	       stats->compactions, (double)stats->compact_bytes_in / 1e6, (double)stats->compact_bytes_out / 1e6,
	       figures->compact_wall_s, figures->compact_cpu_s, figures->compact_peak_mb, stats->blocks,
	       stats->blocks_by_level[0], stats->blocks_by_level[1], stats->blocks_by_level[2],
	       (double)stats->block_bytes / 1e6);
}

/* ---- figures ---- */

static void print_figures(const struct tool *tool, const struct fleet_model *model, const struct figures *figures)
{
	const struct fleet_totals *totals = &figures->totals;
	if (tool->is_json) {
		printf("{\"appends\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"events\":%" PRIu64 ",\"bytes\":%" PRIu64
		       ",\"blocks\":%" PRIu64
		       ",\"wall_s\":%.3f,\"generate_s\":%.3f,\"write_s\":%.3f,\"store_s\":%.3f,\"ack_p50_ms\":%.3f,"
		       "\"ack_p99_ms\":%.3f,\"ack_max_ms\":%.3f,\"start_ns\":%" PRId64 ",\"duration_ns\":%" PRId64
		       ",\"synthetic\":%s}\n",
		       totals->appends, totals->samples, totals->events, totals->bytes, totals->blocks, figures->wall_s,
		       (double)totals->generate_ns / 1e9, (double)totals->write_ns / 1e9, figures->store_s, figures->ack_p50_ms,
		       figures->ack_p99_ms, figures->ack_max_ms, tool->options.start_ns, tool->options.duration_ns,
		       model->is_synthetic ? "true" : "false");
		return;
	}
	printf("fleet: %u hosts, %u services, %.3g days, load %g, seed %" PRIu64
	       "; %zu %s workloads, stacks %.1f frames deep\n",
	       tool->options.hosts, tool->options.services, tool->days, tool->options.load, tool->options.seed,
	       model->workload_count, model->is_synthetic ? "invented" : "recorded", model->mean_depth);
	printf("  %" PRIu64 " appends, %" PRIu64 " events, %" PRIu64 " samples; %.1f s of wall clock, generating %.1f CPU s\n",
	       totals->appends, totals->events, totals->samples, figures->wall_s, (double)totals->generate_ns / 1e9);
	if (totals->blocks)
		printf("  %" PRIu64 " blocks, %.1f MB, %.2f bytes a sample; writing took %.1f CPU s, %.0f samples/s\n",
		       totals->blocks, (double)totals->bytes / 1e6, (double)totals->bytes / (double)totals->samples,
		       (double)totals->write_ns / 1e9, (double)totals->samples / ((double)totals->write_ns / 1e9));
	if (figures->store_s > 0)
		printf("  storing took %.1f CPU s: %.0f samples/s and %.1f MB/s a core\n", figures->store_s,
		       (double)totals->samples / figures->store_s, (double)totals->bytes / 1e6 / figures->store_s);
	if (figures->append_s > 0)
		printf("  appending took %.2f s of wall clock: %.0f samples/s\n", figures->append_s,
		       (double)totals->samples / figures->append_s);
	if (figures->ack_max_ms > 0)
		printf("  acks: p50 %.2f ms, p99 %.2f ms, longest %.1f ms, %u at a time\n", figures->ack_p50_ms,
		       figures->ack_p99_ms, figures->ack_max_ms, tool->jobs);
}

int main(int argc, char **argv)
{
	struct tool tool = {
		.options = {.hosts = 100,
			    .services = 50,
			    .pods_per_host = 8,
			    .cpus = 4,
			    .stacks = 4000,
			    .native_percent = 40,
			    .memory_percent = 35,
			    .frequency = 19,
			    .busy = 0.13,
			    .load = 1,
			    .deploy_days = 4,
			    .pod_hours = 9,
			    .seed = 1,
			    .deploy_ns = INT64_MAX},
		.days = 1,
		.jobs = 1,
		.window_ns = 2 * 3600 * NS_PER_S,
	};
	struct fleet_model model;
	struct figures figures = {0};
	struct error err = {0};
	parse(argc, argv, &tool);
	check(fleet_model_load(tool.profiles, &model, &err), &err);
	if (model.is_synthetic && tool.profiles)
		fprintf(stderr, "fleet: no recorded profiles in %s; call trees are invented\n", tool.profiles);
	int64_t started = time_monotonic_ns();
	if (tool.data && !tool.is_append && !tool.is_only_compact)
		run_blocks(&tool, &model, &figures.totals);
	else if (!tool.is_only_compact)
		run_senders(&tool, &model, &figures);
	figures.wall_s = (double)(time_monotonic_ns() - started) / 1e9;
	if (!tool.is_only_compact)
		print_figures(&tool, &model, &figures);
	fleet_model_release(&model);
	if (!tool.is_compact || !tool.data)
		return 0;
	fflush(stdout);
	run_compact(&tool, &figures);
	if (!tool.is_json)
		print_compaction(&figures);
	return 0;
}
