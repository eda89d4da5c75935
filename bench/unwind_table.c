/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What unwind tables cost: unwind_table [-q] [-n ROUNDS] FILE... builds the table of each ELF file and prints its rows,
 * distinct rules, rows that need an escape, bytes, time to build it (the best of ROUNDS, CPU time of one thread) and to load it
 * back from the cache on disk, and the peak of memory that building it takes, the table included; then the same of a file of 5
 * million rows that is made in memory; then the totals of all files. -q prints only the totals.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "elf/content_key.h"
#include "unwind/test_cfi.h"
#include "unwind/unwind_table.h"

#define MADE_ROWS 5000000u
#define CACHE_ID  "0123456789abcdef"

struct total {
	uint64_t files, without, failed, rows, bytes, largest;
	int64_t build_ns, load_ns, key_ns, key_ns_max;
	uint64_t key_bytes;
	uint64_t escapes, unsupported, bad_entries;
};

static void print_heading(void)
{
	printf("%10s %6s %8s %10s %6s %9s %9s %8s %8s  %s\n", "rows", "rules", "escapes", "bytes", "B/row", "build ms",
	       "Mrows/s", "load ms", "peak MB", "file");
}

static void print_row(const char *name, const struct unwind_table_stats *stats, size_t bytes, int64_t build_ns, int64_t load_ns,
		      double peak)
{
	double rows = (double)stats->rows;
	printf("%10llu %6llu %8llu %10zu %6.2f %9.2f %9.1f %8.2f %8.1f  %s\n", (unsigned long long)stats->rows,
	       (unsigned long long)stats->rules, (unsigned long long)stats->escapes, bytes, rows ? (double)bytes / rows : 0.0,
	       (double)build_ns / 1e6, rows * 1e3 / (double)(build_ns ? build_ns : 1), (double)load_ns / 1e6, peak, name);
}

/* Opening and reading the file included, as when a process maps it. */
static int build_once(const char *path, struct bytes memory, struct buffer *image, struct unwind_table_stats *stats,
		      int64_t *best_ns, struct error *err)
{
	struct elf_file file;
	_cleanup_(fd_closep) int fd = -1;
	int64_t start_ns = time_thread_cpu_ns();
	if (!memory.data && (fd = io_open(path, O_RDONLY | O_NONBLOCK, 0, err)) < 0)
		return fd;
	buffer_init(image, UNWIND_TABLE_BYTES_MAX);
	int r = memory.data ? elf_file_open_memory(&file, memory, path, err) : elf_file_open(&file, fd, path, err);
	if (r < 0)
		return r;
	r = unwind_table_build(&file, image, stats, err);
	elf_file_release(&file);
	int64_t took_ns = time_thread_cpu_ns() - start_ns;
	if (took_ns < *best_ns)
		*best_ns = took_ns;
	return r;
}

static int64_t time_load(struct unwind_cache *cache, const struct buffer *image)
{
	struct buffer loaded;
	buffer_init(&loaded, UNWIND_TABLE_BYTES_MAX);
	unwind_cache_store(cache, CACHE_ID, image);
	int64_t start_ns = time_thread_cpu_ns();
	int r = unwind_cache_load(cache, CACHE_ID, &loaded);
	int64_t took_ns = time_thread_cpu_ns() - start_ns;
	buffer_release(&loaded);
	return r == 1 ? took_ns : 0;
}

/* Of resident memory while the table is built, in MB; in a process of its own. */
static double peak_of(const char *path, struct bytes memory)
{
	double peak = 0;
	int ends[2];
	if (pipe(ends) < 0)
		return 0;
	pid_t child = fork();
	if (child == 0) {
		struct unwind_table_stats stats = {0};
		struct buffer image;
		struct error err;
		int64_t unused_ns = INT64_MAX;
		/* The peak begins anew at what is resident now. */
		int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, "5", 1) != 1)
			_exit(1);
		uint64_t before = mem_resident_bytes();
		build_once(path, memory, &image, &stats, &unused_ns, &err);
		peak = ((double)mem_resident_peak_bytes(0) - (double)before) / 1e6;
		_exit(write(ends[1], &peak, sizeof(peak)) != sizeof(peak));
	}
	close(ends[1]);
	if (child < 0 || read(ends[0], &peak, sizeof(peak)) != sizeof(peak))
		peak = 0;
	close(ends[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	return peak;
}

/* What a file costs that was seen before by another process of the agent: finding out that it is the same. */
static void time_key(const char *path, struct total *total)
{
	struct content_key key = {0};
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY | O_NONBLOCK, 0, NULL);
	int64_t start_ns = time_thread_cpu_ns();
	if (fd < 0 || content_key_read_fd(fd, &key, NULL) < 0)
		return;
	int64_t took_ns = time_thread_cpu_ns() - start_ns;
	total->key_ns += took_ns;
	total->key_ns_max = took_ns > total->key_ns_max ? took_ns : total->key_ns_max;
	total->key_bytes += key.bytes;
}

static void measure(const char *name, struct bytes memory, uint64_t rounds, bool is_quiet, struct unwind_cache *cache,
		    struct total *total)
{
	struct unwind_table_stats stats = {0};
	struct buffer image;
	struct error err;
	int64_t build_ns = INT64_MAX;
	for (uint64_t i = 0; i < rounds; i++) {
		int r = build_once(name, memory, &image, &stats, &build_ns, &err);
		if (r < 0) {
			total->failed += r != -ENOEXEC && r != -EINVAL; /* scripts, directories */
			if (!is_quiet && r != -ENOEXEC && r != -EINVAL)
				printf("%s\n", err.message);
			return;
		}
		if (i + 1 < rounds)
			buffer_release(&image);
	}
	int64_t load_ns = image.len ? time_load(cache, &image) : 0;
	if (!is_quiet)
		print_row(name, &stats, image.len, build_ns, load_ns, peak_of(name, memory));
	if (!memory.data)
		time_key(name, total);
	total->files++;
	total->without += image.len == 0;
	total->rows += stats.rows;
	total->bytes += image.len;
	total->largest = image.len > total->largest ? image.len : total->largest;
	total->build_ns += build_ns;
	total->load_ns += load_ns;
	total->escapes += stats.escapes;
	total->unsupported += stats.unsupported;
	total->bad_entries += stats.bad_entries;
	buffer_release(&image);
}

/* Functions of 20 rows and 120 bytes each, rules by a falling frequency. */
static void make_file(struct buffer *out)
{
	static const struct test_cfi_segment segments[] = {{0x400000, 0x1000, 0x8000000, PF_R | PF_X}};
	struct test_cfi_row *rows = mem_alloc_array(MADE_ROWS, sizeof(*rows));
	if (!rows)
		abort();
	uint64_t address = 0x400000;
	uint32_t random = 1;
	for (uint32_t i = 0; i < MADE_ROWS; i++) {
		random = random * 1103515245 + 12345;
		/* Each 17 rules half as common as those before, which leaves one row in 200 to the escapes. */
		uint32_t kind = 17u * (uint32_t)__builtin_ctz(random >> 8 | 1u << 17) + (random >> 27) % 17;
		rows[i] = (struct test_cfi_row){address, i % 20 == 19 ? 0 : 8 + 16 * kind + 8 * (i % 2)};
		address += 1 + (random >> 24) % 10;
	}
	struct test_cfi cfi = {rows, MADE_ROWS, segments, 1};
	test_cfi_build(&cfi, out);
	mem_free(rows);
}

static void measure_made(uint64_t rounds, struct unwind_cache *cache)
{
	struct buffer file;
	struct total total = {0};
	make_file(&file);
	printf("made: %.1f MB of .eh_frame\n", (double)file.len / 1e6);
	measure("(made: 5M rows)", buffer_bytes(&file), rounds, false, cache, &total);
	buffer_release(&file);
}

static void print_total(const struct total *t)
{
	printf("total: keys of contents in %.0f ms (at most %.1f ms each), %.1f MB read\n", (double)t->key_ns / 1e6,
	       (double)t->key_ns_max / 1e6, (double)t->key_bytes / 1e6);
	printf("total: %llu ELF files (%llu without CFI, %llu failed), %llu rows, %llu escapes, %llu unsupported, %llu bad "
	       "entries\n",
	       (unsigned long long)t->files, (unsigned long long)t->without, (unsigned long long)t->failed,
	       (unsigned long long)t->rows, (unsigned long long)t->escapes, (unsigned long long)t->unsupported,
	       (unsigned long long)t->bad_entries);
	printf("total: %llu bytes (%.2f a row, the largest %llu), built in %.0f ms (%.1f M rows/s), loaded in %.0f ms\n",
	       (unsigned long long)t->bytes, t->rows ? (double)t->bytes / (double)t->rows : 0.0, (unsigned long long)t->largest,
	       (double)t->build_ns / 1e6, (double)t->rows * 1e3 / (double)(t->build_ns ? t->build_ns : 1),
	       (double)t->load_ns / 1e6);
}

int main(int argc, char **argv)
{
	char directory[] = "/tmp/wick-bench-XXXXXX";
	struct unwind_cache *cache = NULL;
	struct total total = {0};
	struct error err;
	uint64_t rounds = 3;
	bool is_quiet = false;
	int option;
	while ((option = getopt(argc, argv, "qn:")) != -1) {
		if (option == 'q')
			is_quiet = true;
		else if (option != 'n' || text_parse_u64(optarg, &rounds, &err) < 0 || rounds == 0) {
			fprintf(stderr, "usage: unwind_table [-q] [-n ROUNDS] FILE...\n");
			return 2;
		}
	}
	if (!mkdtemp(directory) || unwind_cache_open(directory, 1ull << 30, &cache, &err) < 0) {
		fprintf(stderr, "unwind_table: cannot make a cache in /tmp\n");
		return 1;
	}
	mallopt(M_MMAP_THRESHOLD, 128 * 1024); /* as the agent does */
	print_heading();
	for (int i = optind; i < argc; i++)
		measure(argv[i], (struct bytes){0}, rounds, is_quiet, cache, &total);
	measure_made(rounds, cache);
	print_total(&total);
	unwind_cache_close(cache);
	io_remove_tree(directory, NULL);
	return 0;
}
