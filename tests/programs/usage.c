/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that knows what it used: `usage SECONDS MIB THREADS FILE [stay]` burns SECONDS of CPU time in each of THREADS
 * threads, touches MIB of memory, writes and syncs 1 MiB into FILE, sleeps 50 times, and prints what the kernel says that it
 * used, in the columns of process_stats. With "stay" it then waits for a signal with all its threads, else it ends.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NAPS 50

static double seconds_each;
static pthread_barrier_t done, leave;

static double thread_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *burn(void *context)
{
	volatile unsigned long sink = 1;
	while (thread_seconds() < seconds_each)
		for (int i = 0; i < 10000; i++)
			sink = sink * 2862933555777941757ul + 3037000493ul;
	pthread_barrier_wait(&done);
	pthread_barrier_wait(&leave); /* where they stay, if so */
	return context;
}

static void touch(size_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		exit(1);
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < bytes; at += 4096)
		memory[at] = 1;
}

static void write_file(const char *path)
{
	static char block[1 << 20];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	memset(block, 7, sizeof(block));
	if (fd < 0 || write(fd, block, sizeof(block)) != (ssize_t)sizeof(block) || fsync(fd) < 0)
		exit(1);
	close(fd);
}

/* A number behind a name in a file of /proc/self. */
static uint64_t number_of(const char *file, const char *name)
{
	char line[256];
	uint64_t number = 0;
	FILE *in = fopen(file, "r");
	while (in && fgets(line, sizeof(line), in))
		if (strncmp(line, name, strlen(name)) == 0)
			number = strtoull(line + strlen(name), NULL, 10);
	if (in)
		fclose(in);
	return number;
}

static void print_threads(unsigned threads)
{
	uint64_t rss = number_of("/proc/self/status", "VmRSS:") * 1024, read = number_of("/proc/self/io", "read_bytes:"),
		 written = number_of("/proc/self/io", "write_bytes:");
	struct timespec cpu;
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	printf("{\"pid\": %d, \"cpu_ns\": %" PRIu64 ", \"rss_bytes\": %" PRIu64
	       ", \"minor_faults\": %ld, \"major_faults\": %ld, "
	       "\"voluntary_switches\": %ld, \"involuntary_switches\": %ld, \"read_bytes\": %" PRIu64
	       ", \"written_bytes\": %" PRIu64 ", \"threads\": %u}\n",
	       (int)getpid(), (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec, rss, u.ru_minflt, u.ru_majflt,
	       u.ru_nvcsw, u.ru_nivcsw, read, written, threads + 1);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	unsigned threads = (unsigned)strtoul(argv[3], NULL, 10);
	pthread_t thread;
	seconds_each = strtod(argv[1], NULL);
	pthread_barrier_init(&done, NULL, threads + 1);
	pthread_barrier_init(&leave, NULL, threads + 1);
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, burn, NULL))
			return 1;
	touch((size_t)strtoul(argv[2], NULL, 10) << 20);
	write_file(argv[4]);
	for (int i = 0; i < NAPS; i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	pthread_barrier_wait(&done);
	print_threads(threads);
	if (argc > 5)
		pause();
	_exit(0);
}
