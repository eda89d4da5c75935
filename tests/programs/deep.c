/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deep SECONDS[cpu] [THREADS [DEPTH [SORT]]]: keeps THREADS (1) busy below DEPTH (40) nested calls and prints how many units of
 * work got done. SECONDS are of the clock on the wall; with "cpu" after them, of each thread's own CPU time, so that a machine
 * which others use too makes it last longer, and not do less. One unit in SORT (16; 0 = none) has libc's qsort between its
 * frames, which has no frame pointers however this program is built. Built twice: `deep` as distributions build, with
 * optimization and without frame pointers, and `deep_fp` from the same source with them, so that two ways of unwinding can be
 * compared on the same stacks. The main thread works too: its stacks end in _start, those of other threads in clone. With
 * -DROOM=BYTES, the main thread's frame has an array of which only the ends are ever touched.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64

static int depth_max = 40, sort_every = 16;
static clockid_t clock_id = CLOCK_MONOTONIC;
static uint64_t duration_ns, units[THREADS_MAX][8]; /* a cache line each */

uint64_t stepSmall(uint64_t x, int depth);
uint64_t stepLarge(uint64_t x, int depth);
uint64_t stepSaving(uint64_t x, int depth);

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(clock_id, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((noinline)) uint64_t leafWork(uint64_t x)
{
	for (int i = 0; i < 20000; i++)
		x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull + (uint64_t)i;
	return x;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return leafWork(x) > leafWork(y) ? 1 : -1;
}

__attribute__((noinline)) uint64_t leafSort(uint64_t x)
{
	uint64_t values[3] = {x, x * 3, x * 7};
	qsort(values, 3, sizeof(values[0]), compare);
	return values[1];
}

static uint64_t step(uint64_t x, int depth)
{
	if (depth >= depth_max)
		return x >> 63 ? leafSort(x) : leafWork(x);
	switch (x >> (depth & 31) & 3) {
	case 0: return stepSmall(x, depth + 1);
	case 1: return stepLarge(x, depth + 1);
	default: return stepSaving(x, depth + 1);
	}
}

/* What follows each call keeps it from becoming a jump. */
__attribute__((noinline)) uint64_t stepSmall(uint64_t x, int depth)
{
	return step(x, depth) + 1;
}

__attribute__((noinline)) uint64_t stepLarge(uint64_t x, int depth)
{
	volatile uint64_t space[32];
	space[depth & 31] = x;
	return step(x, depth) ^ space[depth & 31];
}

/* Needs callee-saved registers, the one of the frame pointer among them. */
__attribute__((noinline)) uint64_t stepSaving(uint64_t x, int depth)
{
	uint64_t a = x * 3, b = x * 5, c = x * 7, d = x * 11, e = x * 13, f = x * 17;
	asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	uint64_t result = step(x, depth);
	asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	return result + (a ^ b ^ c ^ d ^ e ^ f);
}

__attribute__((noinline)) void *work(void *context)
{
	uint64_t *count = context, x = 88172645463325252ull + (uint64_t)(count - units[0]), end_ns = now_ns() + duration_ns;
	while (now_ns() < end_ns) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		/* The low bits choose the path, among few; the highest says what is at its end. */
		uint64_t sorted = sort_every && *count % (uint64_t)sort_every == 0;
		volatile uint64_t result = step((x & 0x1f) | sorted << 63, 0);
		(void)result;
		(*count)++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	char *unit = "";
	double seconds = argc > 1 ? strtod(argv[1], &unit) : 10;
	long threads = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
	pthread_t ids[THREADS_MAX];
	if (argc > 3)
		depth_max = (int)strtol(argv[3], NULL, 10);
	if (argc > 4)
		sort_every = (int)strtol(argv[4], NULL, 10);
	if (seconds <= 0 || threads <= 0 || threads > THREADS_MAX || depth_max < 1 || depth_max > 10000 || sort_every < 0) {
		fprintf(stderr, "usage: deep SECONDS[cpu] [THREADS [DEPTH [SORT]]]\n");
		return 2;
	}
	if (strcmp(unit, "cpu") == 0)
		clock_id = CLOCK_THREAD_CPUTIME_ID;
	duration_ns = (uint64_t)(seconds * 1e9);
	for (long i = 1; i < threads; i++)
		if (pthread_create(&ids[i], NULL, work, units[i]))
			return 1;
#ifdef ROOM
	volatile char room[ROOM];
	room[0] = room[ROOM - 1] = (char)threads;
#endif
	work(units[0]);
	uint64_t total = units[0][0];
	for (long i = 1; i < threads; i++) {
		pthread_join(ids[i], NULL);
		total += units[i][0];
	}
	printf("%llu\n", (unsigned long long)total);
	return 0;
}
