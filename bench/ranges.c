/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranges of time cost that begin and end off the grid of the rollups, beside ranges of the same length on it.
 *
 *   ranges DATA [steps]
 *
 * DATA is a data directory that no server has open. For each length, ranges at several places of the last day are merged by
 * stack, of all services, and by host, which rollups do not know; CPU time is that of the whole process, the median over the
 * places of the best of ROUNDS, and so are wall times. Each is done with one thread and with two. Not in
 * here: names, trees, text. With `steps` only the first of it: values over time, which are scans and sums of rows and nothing
 * else.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/time.h"
#include "store/read/read_parts.h"

#define ROUNDS	    3
#define STEP_ROUNDS 10
#define PLACES_MAX  16
#define HOUR_NS	    (3600 * NS_PER_S)
#define DAY_NS	    (24 * HOUR_NS)

static void check(int r, const struct error *err)
{
	if (r >= 0)
		return;
	fprintf(stderr, "ranges: %s\n", err->message);
	exit(1);
}

static int compare_times(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static const struct type_condition cpu_time = {.parts = {"process_cpu"}};

static int group_all(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
		     struct error *err)
{
	*ret = 0;
	return 0;
}

struct figures {
	int64_t cpu_ns, wall_ns;
	struct store_read_stats stats;
	int64_t total;
};

static struct figures ask(struct store *store, int64_t from_ns, int64_t to_ns, const char *host)
{
	static const char *const by_host[] = {"host_name"};
	struct store_grouping grouping = {.by = by_host, .by_count = host != NULL, .group = group_all};
	const struct label_condition of_host = {.label = "host_name", .text = host};
	struct store_select select = {
		.from_ns = from_ns,
		.to_ns = to_ns,
		.series = {.types = &cpu_time, .type_count = 1, .labels = &of_host, .label_count = host != NULL},
	};
	struct figures best = {.cpu_ns = INT64_MAX, .wall_ns = INT64_MAX};
	for (int i = 0; i < ROUNDS; i++) {
		struct profile *into;
		struct error err;
		int64_t total = 0;
		check(profile_new(&into, &err), &err);
		int64_t wall = time_monotonic_ns(), cpu = time_process_cpu_ns();
		check(store_merge(store, &select, &grouping, into, &best.stats, &err), &err);
		cpu = time_process_cpu_ns() - cpu;
		wall = time_monotonic_ns() - wall;
		best.cpu_ns = cpu < best.cpu_ns ? cpu : best.cpu_ns;
		best.wall_ns = wall < best.wall_ns ? wall : best.wall_ns;
		for (size_t k = 0; k < into->sample_count; k++)
			total += into->values[k];
		best.total = total;
		profile_free(into);
	}
	return best;
}

struct place {
	int64_t cpu_ns, wall_ns, pages, rows;
};

static int64_t median(const struct place *places, size_t count, size_t offset)
{
	int64_t values[PLACES_MAX];
	for (size_t i = 0; i < count; i++)
		memcpy(&values[i], (const char *)&places[i] + offset, sizeof(values[i]));
	qsort(values, count, sizeof(*values), compare_times);
	return values[count / 2];
}

static struct place ask_places(struct store *store, int64_t day_ns, int64_t length_ns, int64_t off_ns, const char *host)
{
	struct place places[PLACES_MAX];
	size_t count = 0;
	int64_t step = length_ns < DAY_NS ? 6 * HOUR_NS : DAY_NS;
	for (int64_t at = length_ns < DAY_NS ? HOUR_NS : 0; at + length_ns <= DAY_NS && count < PLACES_MAX; at += step) {
		struct figures figures = ask(store, day_ns + at + off_ns, day_ns + at + off_ns + length_ns, host);
		places[count++] = (struct place){figures.cpu_ns, figures.wall_ns, (int64_t)figures.stats.pages,
						 (int64_t)figures.stats.rows};
	}
	return (struct place){
		median(places, count, offsetof(struct place, cpu_ns)), median(places, count, offsetof(struct place, wall_ns)),
		median(places, count, offsetof(struct place, pages)), median(places, count, offsetof(struct place, rows))};
}

static void print_length(struct store *store, int64_t day_ns, const char *title, int64_t length_ns, const char *host)
{
	int64_t off_ns = length_ns < DAY_NS ? 2 * 60 * NS_PER_S + 17 * NS_PER_S : -(2 * 60 * NS_PER_S + 17 * NS_PER_S);
	for (unsigned threads = 1; threads <= 2; threads++) {
		read_threads_max = threads;
		struct place on = ask_places(store, day_ns, length_ns, 0, host);
		struct place off = ask_places(store, day_ns, length_ns, off_ns, host);
		printf("  %-8s %u thread%s  on the grid: CPU %6.1f ms, wall %6.1f ms, %5" PRId64 " pages, %9" PRId64
		       " rows;  off: CPU %6.1f ms, wall %6.1f ms, %5" PRId64 " pages, %9" PRId64 " rows;  off / on %.2f\n",
		       title, threads, threads == 1 ? " " : "s", (double)on.cpu_ns / 1e6, (double)on.wall_ns / 1e6, on.pages,
		       on.rows, (double)off.cpu_ns / 1e6, (double)off.wall_ns / 1e6, off.pages, off.rows,
		       (double)off.cpu_ns / (double)on.cpu_ns);
	}
}

static int on_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	*(int64_t *)context += value;
	return 0;
}

/* Values over time of a day with steps that no rollup has: all of it is read from samples. One thread and two in turns. */
static void print_steps(struct store *store, int64_t day_ns)
{
	struct store_grouping grouping = {.group = group_all};
	struct store_select select = {
		.from_ns = day_ns, .to_ns = day_ns + DAY_NS, .series = {.types = &cpu_time, .type_count = 1}};
	struct figures best[2] = {{.cpu_ns = INT64_MAX, .wall_ns = INT64_MAX}, {.cpu_ns = INT64_MAX, .wall_ns = INT64_MAX}};
	for (int i = 0; i < 2 * STEP_ROUNDS; i++) {
		struct figures *figures = &best[i % 2];
		struct error err;
		read_threads_max = 1 + (unsigned)i % 2;
		figures->total = 0;
		int64_t wall = time_monotonic_ns(), cpu = time_process_cpu_ns();
		check(store_series(store, &select, &grouping, DAY_NS / 200, on_point, &figures->total, &figures->stats, &err),
		      &err);
		cpu = time_process_cpu_ns() - cpu;
		wall = time_monotonic_ns() - wall;
		figures->cpu_ns = cpu < figures->cpu_ns ? cpu : figures->cpu_ns;
		figures->wall_ns = wall < figures->wall_ns ? wall : figures->wall_ns;
	}
	if (best[0].total != best[1].total) {
		fprintf(stderr, "ranges: two threads give another sum than one\n");
		exit(1);
	}
	for (int i = 0; i < 2; i++)
		printf("200 steps of a day, all services, %d thread%s CPU %.1f ms, wall %.1f ms, %" PRIu64 " rows\n", i + 1,
		       i ? "s:" : ": ", (double)best[i].cpu_ns / 1e6, (double)best[i].wall_ns / 1e6, best[i].stats.rows);
}

static int find_host(void *context, const struct store_item *item, struct error *err)
{
	char *name = context;
	if (!*name)
		snprintf(name, 128, "%s", item->name);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *title;
		int64_t length_ns;
	} lengths[] = {
		{"10 min", 600 * NS_PER_S}, {"30 min", HOUR_NS / 2}, {"1 h", HOUR_NS}, {"6 h", 6 * HOUR_NS}, {"1 d", DAY_NS}};
	struct store_options options = {.directory = argc > 1 ? argv[1] : "",
					.retention_age_ns = -1,
					.retention_size_bytes = UINT64_MAX,
					.manual = true};
	struct store_select all = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	struct store *store;
	struct store_stats stats;
	struct error err = {0};
	char host[128] = "";
	if (argc < 2) {
		fprintf(stderr, "usage: ranges DATA [steps]\n");
		return 2;
	}
	check(store_open(&options, &store, &err), &err);
	store_get_stats(store, &stats);
	check(store_list_values(store, &all, "host_name", "", find_host, host, NULL, &err), &err);
	int64_t day_ns = (stats.newest_ns - 1) / DAY_NS * DAY_NS;
	printf("ranges: %" PRIu64 " blocks (%" PRIu64 " of days), %" PRIu64 " samples, %.2f bytes each\n", stats.blocks,
	       stats.blocks_by_level[2], stats.block_samples, (double)stats.block_bytes / (double)stats.block_samples);
	print_steps(store, day_ns);
	if (argc > 2 && strcmp(argv[2], "steps") == 0) {
		store_close(store);
		return 0;
	}
	for (int by_host = 0; by_host < 2; by_host++) {
		printf(by_host ? " host %s\n" : " all services\n", host);
		for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
			print_length(store, day_ns, lengths[i].title, lengths[i].length_ns, by_host ? host : NULL);
	}
	store_close(store);
	return 0;
}
