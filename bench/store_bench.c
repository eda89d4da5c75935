/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store alone: appends of profiles like an agent's, cuts, bytes on disk, query latency.
 *
 *   store_bench [DIRECTORY [HOSTS [HOURS]]]
 *
 * Each host runs the same services, sends a profile every 10 s of simulated time, and the head is cut every 10 min of it. A
 * service has 6,000 stacks, drawn with Zipf popularity: walks down one call tree, 5 to 40 frames deep, addresses in a few
 * binaries. Profiles are made before the clock starts. Throughput is per second of CPU time of the whole process (encoding,
 * compressing, cutting); time spent waiting for the disk shows in the acknowledgement latency instead.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/time.h"
#include "format/format.h"
#include "store/store.h"

#define SERVICES	  8
#define FLUSH_NS	  (10 * NS_PER_S)
#define SAMPLES_PER_FLUSH 600  /* events; equal stacks of one process meet */
#define STACKS		  6000 /* of one service */
#define EPOCH		  1700000000000000000ll
#define FLUSHES_PER_CUT	  60
#define QUERY_ROUNDS	  20

static uint64_t seed = 42;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static double unit(void)
{
	return (double)(rnd() >> 11) / (double)(1ull << 53);
}

static void check(int r, const struct error *err)
{
	if (r >= 0)
		return;
	fprintf(stderr, "store_bench: %s\n", err->message);
	exit(1);
}

static uint32_t text(struct profile *profile, const char *format, unsigned a, unsigned b)
{
	char out[128];
	uint32_t id;
	struct error err;
	snprintf(out, sizeof(out), format[0] == 'b' ? "%08x%08x00112233445566778899aabb" : "/usr/lib/service%u/library%u.so", a,
		 b);
	check(profile_add_cstring(profile, out, &id, &err), &err);
	return id;
}

/* One of the service's STACKS stacks: a walk down its call tree, which is always the same for the same rank. Where a branch
 * leads is a hash of the path; most walks keep to the trunk for a while, so stacks share their callers. */
static uint32_t walk(struct profile *profile, unsigned service, uint64_t rank, const uint32_t mappings[4])
{
	struct error err;
	uint32_t stack = 0;
	uint64_t path = service * 0x9e3779b97f4a7c15ull, saved = seed;
	seed = (rank + 1) * 0x9e3779b97f4a7c15ull ^ service;
	for (int i = 0; i < 4; i++)
		rnd();
	size_t depth = 5 + (size_t)(35 * unit() * unit());
	for (size_t i = 0; i < depth; i++) {
		uint64_t branch = (uint64_t)fmin(pow(unit(), -0.35), 1000) - 1; /* 0 six times out of seven; a long tail */
		path = (path ^ branch) * 0xd6e8feb86659fd93ull;
		path ^= path >> 29;
		const struct profile_mapping *mapping = &profile->mappings[mappings[path % 4]];
		struct profile_location location = {.mapping = mappings[path % 4],
						    .address = mapping->start + (path >> 8) % 3000 * 144,
						    .frame_type = PROFILE_FRAME_NATIVE};
		uint32_t id;
		check(profile_add_location(profile, &location, NULL, 0, &id, &err), &err);
		check(profile_add_stack(profile, stack, id, &stack, &err), &err);
	}
	seed = saved;
	return stack;
}

/* Zipf: the first tenth of the ranks is drawn more than two times out of three. */
static uint64_t popular_rank(void)
{
	return (uint64_t)pow(STACKS, unit()) - 1;
}

static uint32_t process_labels(struct profile *profile, unsigned service, unsigned thread)
{
	char value[64];
	struct error err;
	uint32_t id;
	struct profile_label labels[3] = {0};
	profile_add_cstring(profile, "service_name", &labels[0].key, NULL);
	snprintf(value, sizeof(value), "service-%u", service);
	profile_add_cstring(profile, value, &labels[0].value, NULL);
	profile_add_cstring(profile, "comm", &labels[1].key, NULL);
	snprintf(value, sizeof(value), "worker-%u", thread);
	profile_add_cstring(profile, value, &labels[1].value, NULL);
	profile_add_cstring(profile, "pid", &labels[2].key, NULL);
	labels[2].number = 1000 + service;
	check(profile_add_label_set(profile, labels, 3, &id, &err), &err);
	return id;
}

static struct profile *make_profile(int64_t time_ns)
{
	struct profile *profile;
	struct error err;
	uint32_t type, unit_id, mappings[SERVICES][4];
	check(profile_new(&profile, &err), &err);
	profile_add_cstring(profile, "cpu", &type, NULL);
	profile_add_cstring(profile, "nanoseconds", &unit_id, NULL);
	profile_add_sample_type(profile, type, unit_id, NULL);
	profile->period_type = (struct profile_value_type){type, unit_id};
	profile->period = 52631579;
	profile->time_ns = time_ns;
	profile->duration_ns = FLUSH_NS;
	for (unsigned s = 0; s < SERVICES; s++) {
		for (unsigned i = 0; i < 4; i++) {
			struct profile_mapping mapping = {.start = 0x7f0000000000ull + (rnd() % 4096 << 20), .offset = 0x1000};
			mapping.limit = mapping.start + 0x80000;
			mapping.file_name = text(profile, "f", s, i);
			mapping.build_id = text(profile, "b", s + 77, i);
			check(profile_add_mapping(profile, &mapping, &mappings[s][i], &err), &err);
		}
	}
	for (size_t i = 0; i < SAMPLES_PER_FLUSH; i++) {
		unsigned service = (unsigned)(SERVICES * unit() * unit());
		struct profile_sample sample = {.stack = walk(profile, service, popular_rank(), mappings[service]),
						.labels = process_labels(profile, service, (unsigned)(rnd() % 3))};
		check(profile_add_sample(profile, &sample, &profile->period, &err), &err);
	}
	check(profile_aggregate(profile, &err), &err);
	return profile;
}

static int compare_times(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static int all_one_group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
			 struct error *err)
{
	*ret = 0;
	return 0;
}
static int on_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	return 0;
}

enum what { MERGE, SERIES, LIST };

static void query(struct store *store, const char *name, enum what what, const char *service, int64_t from_ns, int64_t to_ns)
{
	struct label_condition matcher = {.label = "service_name", .text = service};
	struct store_select select = {
		.from_ns = from_ns, .to_ns = to_ns, .series = {.labels = &matcher, .label_count = service ? 1 : 0}};
	static const char *const by_service[] = {"service_name"};
	struct store_grouping grouping = {.by = by_service, .by_count = 1, .group = all_one_group};
	struct store_read_stats stats = {0};
	int64_t times[QUERY_ROUNDS], first = 0;
	size_t stacks = 0;
	for (int i = 0; i < QUERY_ROUNDS + 1; i++) {
		struct profile *into;
		struct error err;
		int64_t started = time_monotonic_ns();
		check(profile_new(&into, &err), &err);
		if (what == MERGE)
			check(store_merge(store, &select, NULL, into, &stats, &err), &err);
		else if (what == SERIES)
			check(store_series(store, &select, &grouping, 60 * NS_PER_S, on_point, NULL, &stats, &err), &err);
		else
			check(store_list_series(store, &select, &grouping, &stats, &err), &err);
		int64_t took = time_monotonic_ns() - started;
		if (i == 0)
			first = took;
		else
			times[i - 1] = took;
		stacks = into->sample_count;
		profile_free(into);
	}
	qsort(times, QUERY_ROUNDS, sizeof(*times), compare_times);
	printf("%-34s first %6.1f ms, median %6.1f ms, worst %6.1f ms  (%" PRIu64 " blocks, %" PRIu64 " rows, %zu stacks)\n",
	       name, (double)first / 1e6, (double)times[QUERY_ROUNDS / 2] / 1e6, (double)times[QUERY_ROUNDS - 1] / 1e6,
	       stats.blocks, stats.rows, stacks);
}

struct totals {
	uint64_t samples, raw_bytes, profiles;
	int64_t append_cpu_ns, cut_cpu_ns, cut_wall_ns, ack_ns_max;
	int64_t *acks;
};

static void append_all(struct store *store, unsigned hosts, size_t flushes, struct totals *totals)
{
	struct error err;
	for (size_t flush = 0; flush < flushes; flush++) {
		for (unsigned host = 0; host < hosts; host++) {
			struct profile *profile = make_profile(EPOCH + (int64_t)flush * FLUSH_NS);
			struct labels labels;
			char name[32];
			struct store_append_options options = {.name = "process_cpu", .labels = &labels};
			struct store_append_result result;
			struct buffer raw;
			buffer_init(&raw, GIB);
			check(pprof_encode(profile, &(struct format_options){0}, &raw, &err), &err);
			totals->raw_bytes += raw.len;
			buffer_release(&raw);
			labels = (struct labels){0};
			snprintf(name, sizeof(name), "host-%03u.example.org", host);
			labels_set(&labels, "host", name, NULL);
			memcpy(options.id, &(uint64_t[2]){rnd(), rnd()}, 16);
			int64_t cpu = time_process_cpu_ns(), wall = time_monotonic_ns();
			check(store_append(store, profile, &options, &result, &err), &err);
			totals->append_cpu_ns += time_process_cpu_ns() - cpu;
			totals->acks[totals->profiles++] = time_monotonic_ns() - wall;
			totals->samples += result.samples;
			labels_release(&labels);
			profile_free(profile);
		}
		if (flush % FLUSHES_PER_CUT == FLUSHES_PER_CUT - 1) {
			int64_t cpu = time_process_cpu_ns(), wall = time_monotonic_ns();
			check(store_cut(store, &err), &err);
			totals->cut_cpu_ns += time_process_cpu_ns() - cpu;
			totals->cut_wall_ns += time_monotonic_ns() - wall;
		}
	}
}

/* A process that is killed with a head that is about to be cut: how long until the next one answers. */
static void restart(const char *directory)
{
	struct store_options options = {.directory = directory, .retention_age_ns = -1};
	struct store *store;
	struct store_stats stats = {0};
	struct error err;
	check(io_remove_tree(directory, &err), &err);
	pid_t child = fork();
	if (child == 0) {
		check(store_open(&options, &store, &err), &err);
		for (int64_t i = 0; stats.head_bytes < 60 * MIB; i++) {
			struct profile *profile = make_profile(EPOCH + i * FLUSH_NS);
			struct store_append_options append = {.name = "process_cpu"};
			check(store_append(store, profile, &append, NULL, &err), &err);
			profile_free(profile);
			store_get_stats(store, &stats);
		}
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	int64_t started = time_monotonic_ns();
	check(store_open(&options, &store, &err), &err);
	int64_t took = time_monotonic_ns() - started;
	store_get_stats(store, &stats);
	printf("restart after a kill: %.0f ms for a log of %.1f MB, %" PRIu64 " records, %" PRIu64 " samples\n",
	       (double)took / 1e6, (double)stats.log_bytes / 1e6, stats.log_records, stats.head_samples);
	store_close(store);
}

int main(int argc, char **argv)
{
	const char *directory = argc > 1 ? argv[1] : "store-bench.tmp";
	unsigned hosts = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 10;
	size_t hours = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
	size_t flushes = hours * 360;
	struct store *store;
	struct error err;
	struct totals totals = {.acks = mem_zalloc_array(flushes * hosts, sizeof(int64_t))};
	struct store_options options = {.directory = directory,
					.retention_age_ns = -1,
					.head_size_bytes = 512 * MIB,
					.cut_age_ns = 3600 * 24 * NS_PER_S};
	check(store_open(&options, &store, &err), &err);
	append_all(store, hosts, flushes, &totals);
	struct store_stats stats;
	store_get_stats(store, &stats);
	double append_s = (double)totals.append_cpu_ns / 1e9, cut_s = (double)totals.cut_cpu_ns / 1e9;
	double raw_mb = (double)totals.raw_bytes / 1e6;
	qsort(totals.acks, totals.profiles, sizeof(int64_t), compare_times);
	printf("%u hosts, %zu h: %" PRIu64 " profiles, %" PRIu64 " samples, %.0f MB of raw pprof\n", hosts, hours,
	       totals.profiles, totals.samples, raw_mb);
	printf("append: %.2f CPU s, %.0f MB/s, %.0f samples/s per core; with cuts (%.2f CPU s, longest %.0f ms): %.0f MB/s, "
	       "%.0f samples/s\n",
	       append_s, raw_mb / append_s, (double)totals.samples / append_s, cut_s, (double)stats.cut_ns_max / 1e6,
	       raw_mb / (append_s + cut_s), (double)totals.samples / (append_s + cut_s));
	printf("ack: median %.1f ms, p99 %.1f ms, worst %.1f ms (one appender; each waits for its own sync)\n",
	       (double)totals.acks[totals.profiles / 2] / 1e6, (double)totals.acks[totals.profiles * 99 / 100] / 1e6,
	       (double)totals.acks[totals.profiles - 1] / 1e6);
	printf("blocks: %" PRIu64 ", %" PRIu64 " rows, %.1f MB, %.2f bytes a row\n", stats.blocks, stats.block_samples,
	       (double)stats.block_bytes / 1e6, (double)stats.block_bytes / (double)stats.block_samples);
	int64_t end = EPOCH + (int64_t)flushes * FLUSH_NS, hour = 3600 * NS_PER_S;
	query(store, "merge, one service, 1 h", MERGE, "service-2", end - hour, end);
	query(store, "merge, one service, 15 min inside", MERGE, "service-2", end - hour / 2, end - hour / 4);
	query(store, "merge, all services, 1 h", MERGE, NULL, end - hour, end);
	query(store, "series, one service, 1 h by minute", SERIES, "service-2", end - hour, end);
	query(store, "list of series, all", LIST, NULL, INT64_MIN, INT64_MAX);
	int64_t started = time_monotonic_ns();
	store_close(store);
	check(store_open(&options, &store, &err), &err);
	printf("close and open: %.0f ms, resident %.0f MB\n", (double)(time_monotonic_ns() - started) / 1e6,
	       (double)mem_resident_bytes() / 1e6);
	store_close(store);
	restart(directory);
	mem_free(totals.acks);
	return 0;
}
