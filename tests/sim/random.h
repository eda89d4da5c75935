/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded random numbers: splitmix64. Streams of different seeds are independent enough for choosing faults. */
#ifndef WICK_TESTS_SIM_RANDOM_H
#define WICK_TESTS_SIM_RANDOM_H

#include <stdint.h>

struct random {
	uint64_t state;
};

static inline void random_init(struct random *random, uint64_t seed)
{
	random->state = seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull;
}
static inline uint64_t random_next(struct random *random)
{
	uint64_t x = random->state += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}
/* 0 <= result < limit; limit > 0 */
static inline uint32_t random_below(struct random *random, uint32_t limit)
{
	return (uint32_t)((random_next(random) >> 32) * limit >> 32);
}

#endif
