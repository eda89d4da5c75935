/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap: what the heap profile costs those that allocate (src/control/heap_sampler.h), beside the same calls of the C library's
 * allocator without it, turn by turn in one run, the best of several turns: a small allocation and its free, the same at
 * 200 live samples, and one that is sampled, at a depth of 20 frames.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "control/heap_sampler.h"

#define TURNS	  15
#define CALLS	  2000000
#define KEPT	  2000
#define DEPTH	  20
#define KEPT_SIZE 65536

/* glibc's own names of its functions. */
void *__libc_malloc(size_t size);
void __libc_free(void *ptr);

typedef void *allocate_function(size_t size);
typedef void free_function(void *ptr);

static double measure(allocate_function *allocate, free_function *release, size_t size, int calls)
{
	void *volatile last[64] = {0};
	int64_t began_ns = time_monotonic_ns();
	for (int i = 0; i < calls; i++) {
		release(last[i % 64]);
		last[i % 64] = allocate(size);
	}
	int64_t took_ns = time_monotonic_ns() - began_ns;
	for (int i = 0; i < 64; i++)
		release(last[i]);
	return (double)took_ns / calls;
}

__attribute__((noinline)) static double measure_at(int depth, allocate_function *allocate, free_function *release, size_t size,
						   int calls)
{
	if (depth > 0) {
		double ns = measure_at(depth - 1, allocate, release, size, calls);
		__asm__ volatile("" ::: "memory"); /* no tail call */
		return ns;
	}
	return measure(allocate, release, size, calls);
}

static void compare(const char *name, size_t size, int calls)
{
	double best[2] = {1e9, 1e9};
	for (int i = 0; i < TURNS; i++) {
		double with = measure_at(DEPTH, malloc, free, size, calls);
		double without = measure_at(DEPTH, __libc_malloc, __libc_free, size, calls);
		best[0] = with < best[0] ? with : best[0];
		best[1] = without < best[1] ? without : best[1];
	}
	printf("  %-34s %8.1f ns, without %8.1f ns: %+.1f ns\n", name, best[0], best[1], best[0] - best[1]);
}

int main(void)
{
	void *volatile kept[KEPT];
	if (!heap_sampler_start(HEAP_RATE_BYTES)) {
		fprintf(stderr, "heap: the sampler is not built in\n");
		return 1;
	}
	compare("malloc and free of 48 bytes", 48, CALLS);
	for (int i = 0; i < KEPT; i++)
		kept[i] = malloc(KEPT_SIZE);
	compare("the same beside a heap of 125 MB", 48, CALLS);
	compare("16 MiB, each sampled", 16 << 20, 5000);
	for (int i = 0; i < KEPT; i++)
		free(kept[i]);
	return 0;
}
