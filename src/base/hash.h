/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3 under short names. The 128-bit form is the identity of stacks across blocks and hosts, so it must never change. */
#ifndef WICK_BASE_HASH_H
#define WICK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct hash128 {
	uint64_t high, low;
};

uint64_t hash64(const void *data, size_t len);
uint64_t hash64_seed(const void *data, size_t len, uint64_t seed);
/* A number of this process that nobody outside knows; never 0. */
uint64_t hash64_secret(void);
/* For tables in memory of what somebody outside wrote: without a seed that he does not know, as many different texts of one
 * hash as he likes are made with a pencil (XXH3 multiplies words of the text by words of a constant, and one that becomes 0
 * swallows the other). Not for what is stored or sent. */
uint64_t hash64_guarded(const void *data, size_t len);
struct hash128 hash128(const void *data, size_t len);
struct hash128 hash128_seed(const void *data, size_t len, uint64_t seed);
/* Of a whole file, from its beginning, whatever its size; `name` is used in messages only. */
int hash128_file(int fd, const char *name, struct hash128 *ret, struct error *err);
/* Mixes one integer; a bijection, good enough for open addressing. */
static inline uint64_t hash64_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	return x ^ (x >> 32);
}

#endif
