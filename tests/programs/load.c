/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load SECONDS [THREADS [SHARE]]: keeps the CPUs busy with a mix of work for that long and prints how many units it got done,
 * so that runs with and without a profiler can be compared. SHARE (100): so many percent of the time, where only some samples
 * are wanted. Stacks are 20 frames deep and of many shapes, with system calls now and then, as in programs that people profile.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define DEPTH	    20
#define THREADS_MAX 64

static volatile int stop;
static long share = 100;
static uint64_t units[THREADS_MAX][8]; /* a cache line each */

static uint64_t walk_left(uint64_t x, int depth);
static uint64_t walk_right(uint64_t x, int depth);

static uint64_t hash_some(uint64_t x)
{
	for (int i = 0; i < 2000; i++)
		x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull + (uint64_t)i;
	return x;
}

static uint64_t copy_some(uint64_t x)
{
	volatile uint64_t space[256];
	for (int i = 0; i < 256; i++)
		space[i] = x + (uint64_t)i;
	for (int i = 0; i < 256; i++)
		x += space[255 - i];
	return x;
}

static uint64_t ask_kernel(uint64_t x)
{
	for (int i = 0; i < 10; i++)
		x += (uint64_t)getppid();
	return x;
}

static uint64_t leaf(uint64_t x)
{
	switch (x >> 60 & 3) {
	case 0: return copy_some(x);
	case 1: return ask_kernel(x);
	default: return hash_some(x);
	}
}

static uint64_t walk_left(uint64_t x, int depth)
{
	if (depth == DEPTH)
		return leaf(x);
	return (x >> depth & 1 ? walk_left(x, depth + 1) : walk_right(x, depth + 1)) + 1;
}

static uint64_t walk_right(uint64_t x, int depth)
{
	if (depth == DEPTH)
		return leaf(x);
	return (x >> depth & 1 ? walk_right(x, depth + 1) : walk_left(x, depth + 1)) + 2;
}

/* After each hundredth of a second of work, so long that it was SHARE of the time. */
static void rest(struct timespec *since)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	long ns = (now.tv_sec - since->tv_sec) * 1000000000 + now.tv_nsec - since->tv_nsec;
	if (ns < 10000000)
		return;
	*since = now;
	long pause = ns / share * (100 - share);
	nanosleep(&(struct timespec){pause / 1000000000, pause % 1000000000}, NULL);
}

static void *work(void *context)
{
	struct timespec since;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &since);
	uint64_t *count = context, x = 88172645463325252ull + (uint64_t)(uintptr_t)context;
	while (!stop) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		/* The high half chooses among few paths often and many paths seldom, as real programs do. */
		uint64_t path = x & 7 ? x & 0xf00000000000003full : x;
		volatile uint64_t result = walk_left(path, 0);
		(void)result;
		(*count)++;
		if (share < 100)
			rest(&since);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 10,
	     threads = argc > 2 ? strtol(argv[2], NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t ids[THREADS_MAX];
	if (argc > 3)
		share = strtol(argv[3], NULL, 10);
	if (seconds <= 0 || threads <= 0 || threads > THREADS_MAX || share <= 0 || share > 100) {
		fprintf(stderr, "usage: load SECONDS [THREADS [SHARE]]\n");
		return 2;
	}
	for (long i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, work, units[i]);
	sleep((unsigned)seconds);
	stop = 1;
	uint64_t total = 0;
	for (long i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		total += units[i][0];
	}
	printf("%llu\n", (unsigned long long)total);
	return 0;
}
