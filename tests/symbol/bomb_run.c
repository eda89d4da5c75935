// SPDX-License-Identifier: Apache-2.0
/*
 * Builds the tables of files that were made to break the builder, one after the other, as a server would: this process asks, a
 * worker reads. A line for each file:
 *
 *   NAME ok|ERRNO|bad-table SECONDS what there is to say
 *
 * and at the end "peak N MiB", the most that a worker had in memory, and "left N", descriptors that were not there before.
 *
 *   bomb_run [--memory MIB] [--cpu S] [--wall S] [--cut MS] FILE...
 *
 * --here 1: in this process, for a debugger. --cut: the files (copies, please) are cut to a tenth so many milliseconds after
 * the worker was given them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/thread.h"
#include "base/time.h"
#include "symbol/table.h"
#include "symbol/worker.h"

/* Workers have no environment to find this in. What cannot be had is an error as it is elsewhere, not the end. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1:max_allocation_size_mb=512:detect_leaks=0";
}

struct stage {
	const char *path;
	int64_t cut_ns;
	bool is_cut;
	pthread_t cutter;
};

static void *cut(void *context)
{
	const struct stage *stage = context;
	struct stat status;
	time_sleep_ns(stage->cut_ns);
	if (stat(stage->path, &status) == 0)
		(void)!truncate(stage->path, status.st_size / 10);
	return NULL;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Other files are looked for beside the first. */
static int open_file(void *context, const struct symbol_file_request *request, int *ret_fd, struct error *err)
{
	struct stage *stage = context;
	char path[PATH_MAX];
	const char *name = request->kind == SYMBOL_FILE_BINARY ? last_part(stage->path) : last_part(request->name);
	int n = snprintf(path, sizeof(path), "%.*s%s", (int)(last_part(stage->path) - stage->path), stage->path, name);
	if (!name[0] || n < 0 || (size_t)n >= sizeof(path) || request->kind == SYMBOL_FILE_KALLSYMS)
		return -ENOENT;
	int fd = io_open(path, O_RDONLY, 0, err);
	if (fd < 0)
		return fd;
	if (stage->cut_ns && !stage->is_cut)
		stage->is_cut = thread_start(&stage->cutter, "cut", cut, stage, NULL) == 0;
	*ret_fd = fd;
	return 0;
}

static void check_table(const char *name, int fd, const struct symbol_build_result *result, double seconds)
{
	struct symbol_table *table;
	struct error err;
	if (symbol_table_open(fd, name, NULL, &table, &err) < 0) {
		printf("%s bad-table %.2f %s\n", name, seconds, err.message);
		return;
	}
	symbol_table_free(table);
	printf("%s ok %.2f %llu functions, %llu rows, %llu of %llu units damaged: %s\n", name, seconds,
	       (unsigned long long)result->functions, (unsigned long long)result->rows,
	       (unsigned long long)result->units_damaged, (unsigned long long)result->units, result->problem);
}

static void run(const struct symbol_worker_options *worker, const char *path, int64_t cut_ns)
{
	struct stage stage = {.path = path, .cut_ns = cut_ns};
	struct symbol_build_options options = {.build_id = "", .open_file = open_file, .context = &stage};
	struct symbol_build_result result;
	struct error err = {0};
	int fd = memfd_create("table", MFD_CLOEXEC);
	int64_t before = time_monotonic_ns();
	int r = worker ? symbol_worker_build(worker, &options, fd, &result, &err) : symbol_build(&options, fd, &result, &err);
	double seconds = (double)(time_monotonic_ns() - before) / NS_PER_S;
	if (r < 0)
		printf("%s %s %.2f %s\n", last_part(path), strerrorname_np(-r), seconds, err.message);
	else
		check_table(last_part(path), fd, &result, seconds);
	fflush(stdout);
	io_close(fd);
	if (stage.is_cut)
		pthread_join(stage.cutter, NULL);
}

static int count_descriptors(void)
{
	int count = 0;
	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], SYMBOL_WORKER_VERB) == 0)
		return symbol_worker_main();
	struct symbol_worker_options worker = {.program = "/proc/self/exe"};
	int64_t cut_ns = 0;
	bool here = false;
	int i = 1;
	for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
		uint64_t value = strtoull(argv[i + 1], NULL, 10);
		if (strcmp(argv[i], "--memory") == 0)
			worker.memory_max_bytes = value * MIB;
		else if (strcmp(argv[i], "--cpu") == 0)
			worker.cpu_max_ns = (int64_t)value * NS_PER_S;
		else if (strcmp(argv[i], "--wall") == 0)
			worker.wall_max_ns = (int64_t)value * NS_PER_S;
		else if (strcmp(argv[i], "--here") == 0)
			here = value != 0;
		else if (strcmp(argv[i], "--cut") == 0)
			cut_ns = (int64_t)value * NS_PER_MS;
	}
	int descriptors = count_descriptors();
	for (; i < argc; i++)
		run(here ? NULL : &worker, argv[i], cut_ns);
	struct rusage usage;
	getrusage(RUSAGE_CHILDREN, &usage);
	printf("peak %ld MiB\nleft %d\n", usage.ru_maxrss / 1024, count_descriptors() - descriptors);
	return 0;
}
