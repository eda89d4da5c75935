/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is known to wait: `offcpu SECONDS [READY_FILE [STOP_FILE]]` runs three threads for SECONDS (a fraction is
 * allowed).
 *
 *   "computes"  is always busy, in computeAlways
 *   "sleeps"    sleeps 70 ms in sleepLong, then 30 ms in sleepShort, again and again
 *   "listens"   waits in waitForPipe for a byte that the main thread never sends before the end
 *
 * Prints, a line each, the nanoseconds of wall-clock time between first and last look at the clock within each thread, and of
 * these the ones in sleepLong, sleepShort and waitForPipe; how many of sleepShort's were in sleeps that took more than 50
 * ms, on a machine that had something else to do when they were over; and for how long the thread waited for a CPU, by the
 * kernel's account (0 if it keeps none), in sleepLong and sleepShort: before or after the sleep, who knows. The thread that
 * computes prints the same, and for how long it neither ran nor waited for a CPU (somebody has stopped it). With READY_FILE, it
 * is made when all threads run, and the program goes on for SECONDS from then; with STOP_FILE, until that file is there, if it
 * is sooner.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile int stop;
static volatile uint64_t sink;
static int ends[2];
static int64_t in_long, in_short, in_short_over_50, in_pipe, delay_long, delay_short, of_sleeps, of_computes, of_listens,
	computes_delay, computes_blocked;

static int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static int64_t cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* How long this thread has been ready without a CPU. */
static int64_t read_delays_ns(void)
{
	static _Thread_local int fd = -1;
	char line[128] = "";
	long long delay = 0;
	if (fd < 0)
		fd = open("/proc/thread-self/schedstat", O_RDONLY);
	if (fd < 0 || pread(fd, line, sizeof(line) - 1, 0) <= 0 || sscanf(line, "%*d %lld", &delay) != 1)
		return 0;
	return delay;
}

static void pause_ms(long ms)
{
	struct timespec time = {0, ms * 1000000};
	nanosleep(&time, NULL);
	asm volatile("");
}

__attribute__((noinline)) void sleepLong(void)
{
	int64_t began = now_ns(), delayed = read_delays_ns();
	pause_ms(70);
	delay_long += read_delays_ns() - delayed;
	in_long += now_ns() - began;
}

__attribute__((noinline)) void sleepShort(void)
{
	int64_t began = now_ns(), delayed = read_delays_ns();
	pause_ms(30);
	delay_short += read_delays_ns() - delayed;
	int64_t took = now_ns() - began;
	in_short += took;
	in_short_over_50 += took > 50000000 ? took : 0;
}

static void read_byte(void)
{
	char byte;
	ssize_t n = read(ends[0], &byte, 1);
	(void)n;
	asm volatile("");
}

__attribute__((noinline)) void waitForPipe(void)
{
	int64_t began = now_ns();
	read_byte();
	in_pipe += now_ns() - began;
}

__attribute__((noinline)) void computeAlways(void)
{
	uint64_t x = sink;
	while (!stop) {
		for (int i = 0; i < 100000; i++)
			x = x * 2862933555777941757ull + 3037000493ull;
		sink = x;
	}
	asm volatile("");
}

static void *computes(void *context)
{
	pthread_setname_np(pthread_self(), "computes");
	int64_t began = now_ns(), delayed = read_delays_ns(), cpu = cpu_ns();
	computeAlways();
	of_computes = now_ns() - began;
	computes_delay = read_delays_ns() - delayed;
	computes_blocked = of_computes - computes_delay - (cpu_ns() - cpu);
	return context;
}

static void *sleeps(void *context)
{
	int64_t began = now_ns();
	pthread_setname_np(pthread_self(), "sleeps");
	while (!stop) {
		sleepLong();
		sleepShort();
	}
	of_sleeps = now_ns() - began;
	return context;
}

static void *listens(void *context)
{
	int64_t began = now_ns();
	pthread_setname_np(pthread_self(), "listens");
	waitForPipe();
	of_listens = now_ns() - began;
	return context;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
	struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	pthread_t threads[3];

	if (pipe(ends) < 0)
		return 1;
	pthread_create(&threads[0], NULL, computes, NULL);
	pthread_create(&threads[1], NULL, sleeps, NULL);
	pthread_create(&threads[2], NULL, listens, NULL);
	if (argc > 2) {
		usleep(100000);
		close(open(argv[2], O_CREAT | O_WRONLY, 0644));
	}
	if (argc > 3)
		for (int64_t end = now_ns() + (int64_t)(seconds * 1e9); now_ns() < end && access(argv[3], F_OK) < 0;)
			usleep(50000);
	else
		nanosleep(&time, NULL);
	stop = 1;
	if (write(ends[1], "", 1) != 1)
		return 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("computes %lld\nsleeps %lld\nlistens %lld\n", (long long)of_computes, (long long)of_sleeps,
	       (long long)of_listens);
	printf("sleepLong %lld\nsleepShort %lld\nwaitForPipe %lld\n", (long long)in_long, (long long)in_short,
	       (long long)in_pipe);
	printf("sleepShortOver50 %lld\nsleepLongDelay %lld\nsleepShortDelay %lld\n", (long long)in_short_over_50,
	       (long long)delay_long, (long long)delay_short);
	printf("computesDelay %lld\ncomputesBlocked %lld\n", (long long)computes_delay, (long long)computes_blocked);
	return 0;
}
