/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a marker costs the program that makes it, in nanoseconds: run it by itself (off), and under a recorder (on). Beside a
 * bare loop, a pair of clock_gettime(), and a line written for each span as samply's marker files want it.
 *
 *   markers [off|on]     each cost, the best of some rounds
 *   markers load THREADS PER_SECOND SECONDS    that many threads make that many instants a second, in total
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/wickmark.h"

#define ROUNDS	 40
#define A_ROUND	 4000 /* fits the ring, which a recorder empties between rounds */
#define OFF_MORE 2500 /* times as many when off, where one alone is too short to be timed */

static struct wickmark_site plain = WICKMARK_SITE("Bench", "plain", {NULL, NULL, WICKMARK_STRING});
static struct wickmark_site typed = WICKMARK_SITE("Bench", "typed", {"n", NULL, WICKMARK_INTEGER});
static struct wickmark_site counted = WICKMARK_COUNTER("Bench", "counted", WICKMARK_COUNTER_LEVEL, "count");
static int null_fd;
#define ALWAYS_INLINE static inline __attribute__((always_inline))

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

ALWAYS_INLINE void bare(uint64_t i)
{
	__asm__ volatile("" : : "r"(i) : "memory");
}
ALWAYS_INLINE void span(uint64_t i)
{
	uint64_t begun = wickmark_begin();
	bare(i);
	wickmark_end(&plain, begun, NULL);
}
ALWAYS_INLINE void span_typed(uint64_t i)
{
	uint64_t begun = wickmark_begin();
	wickmark_end(&typed, begun, WICKMARK_VALUES(wickmark_integer((int64_t)i)));
}
ALWAYS_INLINE void instant(uint64_t i)
{
	(void)i;
	wickmark_instant(&plain, NULL);
}
ALWAYS_INLINE void count(uint64_t i)
{
	wickmark_count(&counted, (double)i);
}
static void clocks(uint64_t i)
{
	(void)i;
	uint64_t begun = now_ns();
	bare(now_ns() - begun);
}
static void written(uint64_t i)
{
	char line[96];
	uint64_t begun = now_ns();
	int len = snprintf(line, sizeof(line), "%llu %llu step %llu\n", (unsigned long long)begun, (unsigned long long)now_ns(),
			   (unsigned long long)i);
	if (write(null_fd, line, (size_t)len) != len)
		exit(1);
}

/* Inlined with what it runs, so that no call is timed. */
ALWAYS_INLINE double best(void (*run)(uint64_t), uint64_t times)
{
	double least = 1e9;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begun = now_ns();
		for (uint64_t i = 0; i < times; i++)
			run(i);
		double each = (double)(now_ns() - begun) / (double)times;
		least = each < least ? each : least;
		if (wickmark_on())
			nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
	}
	return least;
}

static long load_threads, load_rate, load_seconds;

static void *load(void *argument)
{
	uint64_t begun = now_ns(), made = 0, end = begun + (uint64_t)load_seconds * 1000000000ull, now;
	while ((now = now_ns()) < end) {
		uint64_t due = (uint64_t)((double)(now - begun) * (double)load_rate / (double)load_threads / 1e9);
		for (; made < due; made++)
			wickmark_instant(&typed, WICKMARK_VALUES(wickmark_integer((int64_t)made)));
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
	*(uint64_t *)argument = made;
	return NULL;
}

static int run_load(char **argv)
{
	static pthread_t threads[4096];
	static uint64_t made[4096];
	uint64_t all = 0;
	load_threads = strtol(argv[0], NULL, 10);
	load_rate = strtol(argv[1], NULL, 10);
	load_seconds = strtol(argv[2], NULL, 10);
	if (load_threads < 1 || load_threads > 4096)
		return 2;
	for (long i = 0; i < load_threads; i++)
		if (pthread_create(&threads[i], NULL, load, &made[i]) != 0)
			return 1;
	for (long i = 0; i < load_threads; i++) {
		pthread_join(threads[i], NULL);
		all += made[i];
	}
	printf("made %llu markers\n", (unsigned long long)all);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "load") == 0)
		return run_load(argv + 2);
	int on = argc > 1 && strcmp(argv[1], "on") == 0;
	for (int i = 0; on && i < 500 && !wickmark_on(); i++)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	if (on != wickmark_on()) {
		fprintf(stderr, "markers: nobody records, or somebody does\n");
		return 1;
	}
	uint64_t times = on ? A_ROUND : (uint64_t)A_ROUND * OFF_MORE;
	double loop = best(bare, (uint64_t)A_ROUND * OFF_MORE);
	if (!on) {
		null_fd = open(argc > 2 ? argv[2] : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0600);
		printf("%-20s %8.2f ns\n", "bare loop", loop);
		printf("%-20s %8.1f ns\n", "two clock_gettime()", best(clocks, A_ROUND * 10));
		printf("%-20s %8.1f ns\n", "a write() each", best(written, A_ROUND));
	}
	const char *state = on ? "on" : "off";
	printf("%-20s %8.2f ns %s\n", "span", best(span, times) - loop, state);
	printf("%-20s %8.2f ns %s\n", "span with a value", best(span_typed, times) - loop, state);
	printf("%-20s %8.2f ns %s\n", "instant", best(instant, times) - loop, state);
	printf("%-20s %8.2f ns %s\n", "counter", best(count, times) - loop, state);
	return 0;
}
