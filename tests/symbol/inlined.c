// SPDX-License-Identifier: Apache-2.0
// A program whose functions are known, inlined ones among them; `inlined SECONDS` burns that much CPU time in them. NUMBER tells programs apart that are built of this file.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifndef NUMBER
#define NUMBER 0
#endif

static inline __attribute__((always_inline)) uint64_t innermost_step(uint64_t x)
{
	for (int i = 0; i < 64; i++)
		x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull + NUMBER;
	return x;
}

static inline __attribute__((always_inline)) uint64_t middle_step(uint64_t x)
{
	return innermost_step(x ^ 0x1234567) + innermost_step(x + 3);
}

__attribute__((noinline)) uint64_t outer_work(uint64_t x)
{
	for (int i = 0; i < 1000; i++)
		x = middle_step(x) ^ (x << 7);
	return x;
}

__attribute__((noinline)) static uint64_t hidden_work(uint64_t x)
{
	for (int i = 0; i < 1000; i++)
		x = innermost_step(x) + 1;
	return x;
}

int main(int argc, char **argv)
{
	clock_t until = CLOCKS_PER_SEC * (argc > 1 ? strtol(argv[1], NULL, 10) : 1);
	uint64_t x = (uint64_t)argc;
	while (clock() < until)
		x = hidden_work(outer_work(outer_work(x)));
	printf("%llu\n", (unsigned long long)x);
	return 0;
}
