/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing and reading Parquet columns alone.
 *
 *   parquet_bench [-r ROUNDS] [DIRECTORY]
 *
 * Makes columns as blocks have them (2 Mi rows: series in order, within them times, within them stacks) and some extremes,
 * writes each to a file of its own, and prints for each: bytes a value, millions of values a second when written, when read by
 * row groups, and when read page by page; the best of the rounds, CPU time, files in the page cache. Then what opening a file
 * of 600 row groups by 6 columns takes. All values read are compared with those written.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/time.h"
#include "codec/parquet.h"

#define ROWS	   (2u * 1024 * 1024)
#define PATH_BYTES 512

static uint64_t seed = 88172645463325252ull;
static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void die(const struct error *err)
{
	fprintf(stderr, "parquet_bench: %s\n", err->message);
	exit(1);
}

/* ---- columns ---- */

static int32_t *series, *stacks, *small, *scattered, *constant, *rising;
static int64_t *times, *values, *buckets, *noise;
static struct bytes *labels;

/* A few stacks are most of the samples. */
static int32_t random_stack(uint32_t stack_count)
{
	double u = (double)(rnd() >> 11) / 9007199254740992.0;
	return (int32_t)((double)stack_count * u * u * u);
}

static int compare_ints(const void *a, const void *b)
{
	return *(const int32_t *)a < *(const int32_t *)b ? -1 : *(const int32_t *)a > *(const int32_t *)b;
}

/* Hosts that send every ten seconds, a little late, for two hours, some ten stacks each time, of CPU time in periods of 19 Hz.
 */
static void fill_samples(void)
{
	const int64_t base = 1700000000000000000, period = 1000000000 / 19;
	int32_t one = 0;
	for (size_t at = 0; at < ROWS; one++) {
		int64_t time = base + (int64_t)(rnd() % 10000000000);
		int32_t first_stack = (int32_t)(rnd() % 20) * 3000;
		for (; time < base + 7200 * (int64_t)NS_PER_S && at < ROWS; time += 10000000000 + (int64_t)(rnd() % 2000000)) {
			size_t count = 4 + rnd() % 20, start = at;
			for (; at < start + count && at < ROWS; at++) {
				series[at] = one;
				times[at] = time;
				stacks[at] = first_stack + random_stack(4000);
				values[at] = period * (int64_t)(1 + (rnd() % 4 ? 0 : rnd() % 8));
			}
			qsort(stacks + start, at - start, sizeof(*stacks), compare_ints);
		}
	}
}

static void fill(void)
{
	static char names[64][32];
	series = mem_alloc_array(ROWS, 4), stacks = mem_alloc_array(ROWS, 4), small = mem_alloc_array(ROWS, 4);
	scattered = mem_alloc_array(ROWS, 4), constant = mem_zalloc_array(ROWS, 4), rising = mem_alloc_array(ROWS, 4);
	times = mem_alloc_array(ROWS, 8), values = mem_alloc_array(ROWS, 8), buckets = mem_alloc_array(ROWS, 8);
	noise = mem_alloc_array(ROWS, 8), labels = mem_alloc_array(ROWS, sizeof(*labels));
	if (!series || !stacks || !small || !scattered || !constant || !rising || !times || !values || !buckets || !noise ||
	    !labels)
		die(&(struct error){.message = "out of memory"});
	fill_samples();
	for (size_t i = 0; i < 64; i++)
		snprintf(names[i], sizeof(names[i]), "checkout-service-%zu.prod", i * 977);
	int32_t id = 0;
	for (size_t i = 0; i < ROWS; i++) {
		small[i] = (int32_t)(rnd() % 50);
		scattered[i] = (int32_t)(rnd() & 0xfffff);
		rising[i] = id += (int32_t)(rnd() % 4);
		buckets[i] = times[i] - times[i] % (300 * (int64_t)NS_PER_S);
		noise[i] = (int64_t)rnd();
		labels[i] = bytes_of_string(names[series[i] % 64]);
	}
}

/* ---- files ---- */

static struct parquet_written write_file(const char *path, const struct parquet_column *columns, size_t count,
					 const struct parquet_values *from, size_t group_rows, size_t groups)
{
	struct parquet_write_options options = {.columns = columns, .column_count = count};
	struct parquet_writer *writer;
	struct parquet_written written;
	struct error err = {0};
	unlink(path);
	if (parquet_writer_open(path, &options, &writer, &err) < 0)
		die(&err);
	for (size_t g = 0; g < groups; g++) {
		struct parquet_values group[8];
		for (size_t c = 0; c < count; c++) {
			size_t size = columns[c].type == PARQUET_INT32	 ? 4
				      : columns[c].type == PARQUET_INT64 ? 8
									 : sizeof(struct bytes);
			group[c] = (struct parquet_values){.booleans = from[c].booleans + g * group_rows * size};
		}
		if (parquet_writer_group(writer, group, group_rows, &err) < 0)
			die(&err);
	}
	if (parquet_writer_finish(writer, &written, &err) < 0)
		die(&err);
	parquet_writer_free(writer);
	return written;
}

static void check(const struct parquet_data *data, const struct parquet_column *column, const struct parquet_values *from,
		  size_t row)
{
	bool same = true;
	if (column->type == PARQUET_BYTE_ARRAY)
		for (size_t i = 0; i < data->count && same; i++)
			same = bytes_equal(data->bytes[i], from->bytes[row + i]);
	else
		same = !memcmp(data->any, from->booleans + row * (column->type == PARQUET_INT32 ? 4 : 8),
			       data->count * (column->type == PARQUET_INT32 ? 4 : 8));
	if (!same)
		die(&(struct error){.message = "values read are not those written"});
}

/* Reads all; ns of CPU. */
static int64_t read_file(const char *path, const struct parquet_column *column, const struct parquet_values *from,
			 bool by_pages, bool checks)
{
	struct parquet_file *file;
	struct parquet_data data = {0};
	struct error err = {0};
	if (parquet_open(path, NULL, &file, &err) < 0)
		die(&err);
	int64_t start = time_thread_cpu_ns();
	size_t row = 0;
	for (size_t g = 0; g < parquet_group_count(file); g++) {
		size_t parts = by_pages ? parquet_page_count(file, g) : 1;
		for (size_t p = 0; p < parts; p++) {
			int r = by_pages ? parquet_read_pages(file, g, 0, p, 1, &data, &err)
					 : parquet_read(file, g, 0, &data, &err);
			if (r < 0)
				die(&err);
			if (checks)
				check(&data, column, from, row);
			row += data.count;
		}
	}
	int64_t took = time_thread_cpu_ns() - start;
	parquet_data_release(&data);
	parquet_close(file);
	return took;
}

static double rate(int64_t best_ns)
{
	return (double)ROWS / (double)best_ns * 1e3;
}

static void bench_column(const char *path, const struct parquet_column *column, const struct parquet_values *from, int rounds)
{
	int64_t best_write = INT64_MAX, best_read = INT64_MAX, best_pages = INT64_MAX;
	struct parquet_written written = {0};
	for (int i = 0; i < rounds; i++) {
		int64_t start = time_thread_cpu_ns();
		written = write_file(path, column, 1, from, PARQUET_GROUP_ROWS, ROWS / PARQUET_GROUP_ROWS);
		int64_t took = time_thread_cpu_ns() - start, whole = read_file(path, column, from, false, i == 0);
		int64_t pages = read_file(path, column, from, true, i == 0);
		best_write = took < best_write ? took : best_write;
		best_read = i && whole < best_read ? whole : best_read;
		best_pages = i && pages < best_pages ? pages : best_pages;
	}
	printf("%-24s %7.3f %9.1f %9.1f %9.1f\n", column->name, (double)written.size / ROWS, rate(best_write), rate(best_read),
	       rate(best_pages));
	unlink(path);
}

static void bench_samples(const char *path, int rounds)
{
	const struct parquet_column columns[] = {
		{.name = "series_id", .type = PARQUET_INT32},
		{.name = "stack_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "time_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
		{.name = "value", .type = PARQUET_INT64},
	};
	const struct parquet_values from[] = {{.i32 = series}, {.i32 = stacks}, {.i64 = times}, {.i64 = values}};
	int64_t best = INT64_MAX;
	struct parquet_written written = {0};
	for (int i = 0; i < rounds; i++) {
		int64_t start = time_thread_cpu_ns();
		written = write_file(path, columns, 4, from, PARQUET_GROUP_ROWS, ROWS / PARQUET_GROUP_ROWS);
		int64_t took = time_thread_cpu_ns() - start;
		best = took < best ? took : best;
	}
	printf("samples of 4 columns: %.3f bytes a row, %.1f million rows a second written\n", (double)written.size / ROWS,
	       rate(best));
	unlink(path);
}

static void bench_open(const char *path, int rounds)
{
	const struct parquet_column columns[] = {
		{.name = "series_id", .type = PARQUET_INT32},
		{.name = "stack_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "time_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
		{.name = "value", .type = PARQUET_INT64},
		{.name = "small", .type = PARQUET_INT32},
		{.name = "constant", .type = PARQUET_INT32},
	};
	const struct parquet_values from[] = {{.i32 = series}, {.i32 = stacks}, {.i64 = times},
					      {.i64 = values}, {.i32 = small},	{.i32 = constant}};
	int64_t best = INT64_MAX, best_index = INT64_MAX;
	size_t group_rows = ROWS / 600 / 8 * 8;
	struct error err = {0};
	struct parquet_write_options options = {.columns = columns, .column_count = 6, .page_rows = group_rows / 8};
	struct parquet_writer *writer;
	struct parquet_written written;
	if (parquet_writer_open(path, &options, &writer, &err) < 0)
		die(&err);
	for (size_t g = 0; g < 600; g++)
		if (parquet_writer_group(writer, from, group_rows, &err) < 0)
			die(&err);
	if (parquet_writer_finish(writer, &written, &err) < 0)
		die(&err);
	parquet_writer_free(writer);
	uint64_t bytes = 0;
	for (int i = 0; i < rounds * 4; i++) {
		struct parquet_file *file;
		int64_t start = time_thread_cpu_ns(), min, max, sum = 0;
		if (parquet_open(path, NULL, &file, &err) < 0)
			die(&err);
		int64_t opened = time_thread_cpu_ns();
		bytes = parquet_bytes_read(file);
		for (size_t g = 0; g < 600; g++)
			for (size_t p = 0; p < parquet_page_count(file, g); p++)
				sum += parquet_page_range(file, g, 2, p, &min, &max);
		int64_t indexed = time_thread_cpu_ns();
		if (sum != 600 * 8)
			die(&(struct error){.message = "the page index is not what it should be"});
		best = opened - start < best ? opened - start : best;
		best_index = indexed - opened < best_index ? indexed - opened : best_index;
		parquet_close(file);
	}
	printf("600 row groups of 6 columns of 8 pages: opened in %.3f ms (%" PRIu64
	       " bytes), all page ranges of a column in %.3f ms\n",
	       (double)best / 1e6, bytes, (double)best_index / 1e6);
	unlink(path);
}

int main(int argc, char **argv)
{
	int rounds = 5, option;
	char path[PATH_BYTES];
	while ((option = getopt(argc, argv, "r:")) != -1) {
		if (option != 'r')
			return 2;
		rounds = (int)strtol(optarg, NULL, 10);
	}
	snprintf(path, sizeof(path), "%s/parquet_bench.%d", optind < argc ? argv[optind] : "/tmp", (int)getpid());
	fill();
	const struct {
		struct parquet_column column;
		struct parquet_values from;
	} cases[] = {
		{{.name = "series_id", .type = PARQUET_INT32}, {.i32 = series}},
		{{.name = "time_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS}, {.i64 = times}},
		{{.name = "time_ns (delta)", .type = PARQUET_INT64, .layout = PARQUET_DELTA}, {.i64 = times}},
		{{.name = "value (delta)", .type = PARQUET_INT64, .layout = PARQUET_DELTA}, {.i64 = values}},
		{{.name = "stack_id (delta)", .type = PARQUET_INT32, .layout = PARQUET_DELTA}, {.i32 = stacks}},
		{{.name = "stack_id (auto)", .type = PARQUET_INT32}, {.i32 = stacks}},
		{{.name = "value", .type = PARQUET_INT64}, {.i64 = values}},
		{{.name = "bucket", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS}, {.i64 = buckets}},
		{{.name = "small", .type = PARQUET_INT32}, {.i32 = small}},
		{{.name = "scattered, 20 bits", .type = PARQUET_INT32}, {.i32 = scattered}},
		{{.name = "constant", .type = PARQUET_INT32}, {.i32 = constant}},
		{{.name = "rising", .type = PARQUET_INT32}, {.i32 = rising}},
		{{.name = "noise (auto)", .type = PARQUET_INT64}, {.i64 = noise}},
		{{.name = "noise (plain)", .type = PARQUET_INT64, .layout = PARQUET_PLAIN}, {.i64 = noise}},
		{{.name = "label", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING}, {.bytes = labels}},
	};
	printf("%-24s %7s %9s %9s %9s   (million values a second)\n", "column", "bytes", "write", "read", "pages");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		bench_column(path, &cases[i].column, &cases[i].from, rounds);
	bench_samples(path, rounds);
	bench_open(path, rounds);
	return 0;
}
