/* SPDX-License-Identifier: Apache-2.0 */
/* For listing.test.sh: a hot loop with a function inlined into it. */
#include <stdio.h>
#include <stdlib.h>

static inline unsigned mix(unsigned x)
{
	x ^= x >> 13;
	x *= 0x5bd1e995;
	return x ^ (x >> 15);
}

__attribute__((noinline)) unsigned hot(unsigned n)
{
	unsigned sum = 0;
	for (unsigned i = 0; i < n; i++)
		sum += mix(i);
	return sum;
}

__attribute__((noinline)) unsigned caller(unsigned n)
{
	volatile unsigned last = 0;
	for (unsigned i = 0; i < 100; i++)
		last = hot(n + last % 2);
	return last;
}

int main(int argc, char **argv)
{
	unsigned all = 0, rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100;
	for (unsigned i = 0; i < rounds; i++)
		all += caller(100000 + all % 2);
	printf("%u\n", all);
	return 0;
}
