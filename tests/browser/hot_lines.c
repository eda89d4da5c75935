/* SPDX-License-Identifier: Apache-2.0 */
/* For the page's tests: a function of its own whose time is spent in two that are inlined into it. Compiled with -g -O2. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t mix_bits(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ull;
	return x ^ x >> 29;
}

static inline uint64_t sum_of(const uint64_t *data, int count, uint64_t seed)
{
	uint64_t sum = seed;
	for (int i = 0; i < count; i++)
		sum += mix_bits(data[i] ^ sum); /* the hottest loop */
	return sum;
}

__attribute__((noinline)) uint64_t outer_function(const uint64_t *data, int count)
{
	uint64_t total = 0;
	for (int round = 0; round < 100; round++)
		total ^= sum_of(data, count, total);
	return total;
}

int main(int argc, char **argv)
{
	static uint64_t data[1000];
	clock_t end = (argc > 1 ? strtol(argv[1], NULL, 10) : 10) * CLOCKS_PER_SEC;
	uint64_t sum = 0;
	for (int i = 0; i < 1000; i++)
		data[i] = (uint64_t)i * 77777;
	while (clock() < end)
		sum += outer_function(data, 1000);
	printf("%llu\n", (unsigned long long)sum);
	return 0;
}
