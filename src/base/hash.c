// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

/* Compiled in rather than linked: most keys are short, and then the call costs as much as the hash. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash64(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

uint64_t hash64_seed(const void *data, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, len, seed);
}

struct hash128 hash128(const void *data, size_t len)
{
	XXH128_hash_t hash = XXH3_128bits(data, len);
	return (struct hash128){.high = hash.high64, .low = hash.low64};
}

struct hash128 hash128_seed(const void *data, size_t len, uint64_t seed)
{
	XXH128_hash_t hash = XXH3_128bits_withSeed(data, len, seed);
	return (struct hash128){.high = hash.high64, .low = hash.low64};
}
