/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FILE ADDRESSES: builds the symbol table of FILE in this process, then looks the addresses up: cold (a table that was just
 * mapped, each address once) and hot (all of them again and again for a second). Lookups are counted by the second of processor
 * time. Called by bench/symbols.sh.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/time.h"
#include "symbol/build.h"
#include "symbol/table.h"

#define FRAMES_MAX 256
#define HOT_S	   1.0

static int open_file(void *context, const struct symbol_file_request *request, int *ret_fd, struct error *err)
{
	if (request->kind != SYMBOL_FILE_BINARY)
		return -2; /* ENOENT */
	*ret_fd = open(context, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? -2 : 0;
}

/* Of this process: other work on the machine does not count. */
static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t read_addresses(const char *path, uint64_t **ret)
{
	FILE *in = fopen(path, "r");
	char line[64];
	size_t count = 0, capacity = 0;
	while (in && fgets(line, sizeof(line), in)) {
		if (array_reserve(ret, &capacity, count + 1, SIZE_MAX / 16) < 0)
			break;
		(*ret)[count++] = strtoull(line, NULL, 16);
	}
	if (in)
		fclose(in);
	return count;
}

static uint64_t look_up(const struct symbol_table *table, const uint64_t *addresses, size_t count)
{
	struct symbol_frame frames[FRAMES_MAX];
	uint64_t total = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t range = symbol_table_find(table, addresses[i]);
		if (range != UINT32_MAX)
			total += symbol_table_frames(table, addresses[i], range, frames, FRAMES_MAX);
	}
	return total;
}

int main(int argc, char **argv)
{
	uint64_t *addresses = NULL;
	struct error err = {0};
	struct symbol_build_result result = {0};
	struct symbol_table *table;
	struct rusage usage;
	size_t count = argc == 3 ? read_addresses(argv[2], &addresses) : 0;
	if (count == 0)
		return fprintf(stderr, "usage: symbols FILE ADDRESSES\n"), 2;
	struct symbol_build_options options = {.build_id = "", .open_file = open_file, .context = argv[1]};
	int fd = memfd_create("table", MFD_CLOEXEC);
	int64_t wall = time_monotonic_ns();
	double start = cpu_seconds();
	if (symbol_build(&options, fd, &result, &err) < 0)
		return fprintf(stderr, "symbols: %s\n", err.message), 1;
	double build = cpu_seconds() - start, build_wall = (double)(time_monotonic_ns() - wall) / 1e9;
	getrusage(RUSAGE_SELF, &usage);
	printf("build %.2f s (%.2f s of CPU), %.0f MB peak; table %.1f MB of %.1f MB read, %llu functions, %llu ranges, %llu "
	       "rows\n",
	       build_wall, build, (double)usage.ru_maxrss / 1024, (double)result.table_bytes / 1e6,
	       (double)result.input_bytes / 1e6, (unsigned long long)result.functions, (unsigned long long)result.ranges,
	       (unsigned long long)result.rows);
	start = cpu_seconds();
	if (symbol_table_open(fd, "table", NULL, &table, &err) < 0)
		return fprintf(stderr, "symbols: %s\n", err.message), 1;
	double opened = cpu_seconds() - start;
	start = cpu_seconds();
	uint64_t frames = look_up(table, addresses, count);
	double cold = cpu_seconds() - start;
	uint64_t hot = 0;
	start = cpu_seconds();
	double now = start;
	for (; now - start < HOT_S; now = cpu_seconds(), hot += count)
		frames += look_up(table, addresses, count);
	printf("map and check %.3f s; cold %.2f M lookups/s, hot %.2f M lookups/s, %.1f frames an address\n", opened,
	       (double)count / cold / 1e6, (double)hot / (now - start) / 1e6, (double)frames / (double)(hot + count));
	printf("table bytes per MB of debug information: %.0f\n",
	       (double)result.table_bytes / ((double)result.input_bytes / 1e6));
	symbol_table_free(table);
	mem_free(addresses);
	close(fd);
	return 0;
}
