// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

/* Compiled in rather than linked: most keys are short, and then the call costs as much as the hash. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/io.h"

#define PIECE_BYTES (256 * 1024)

uint64_t hash64(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

uint64_t hash64_seed(const void *data, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, len, seed);
}

uint64_t hash64_secret(void)
{
	static _Atomic uint64_t secret;
	uint64_t known = atomic_load_explicit(&secret, memory_order_relaxed);
	if (known)
		return known;
	const void *random = (const void *)getauxval(AT_RANDOM);
	known = 0x9ae16a3b2f90404full;
	if (random)
		memcpy(&known, random, sizeof(known));
	known = hash64_mix(known) | 1;
	atomic_store_explicit(&secret, known, memory_order_relaxed);
	return known;
}

uint64_t hash64_guarded(const void *data, size_t len)
{
	return hash64_seed(data, len, hash64_secret());
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

int hash128_file(int fd, const char *name, struct hash128 *ret, struct error *err)
{
	XXH3_state_t state;
	_cleanup_(mem_freep) uint8_t *piece = mem_alloc(PIECE_BYTES);
	if (!piece)
		return error_nomem(err);
	XXH3_128bits_reset(&state);
	uint64_t at = 0;
	ssize_t len;
	while ((len = io_pread(fd, piece, PIECE_BYTES, at, name, err)) > 0) {
		XXH3_128bits_update(&state, piece, (size_t)len);
		at += (uint64_t)len;
	}
	if (len < 0)
		return (int)len;
	XXH128_hash_t hash = XXH3_128bits_digest(&state);
	*ret = (struct hash128){.high = hash.high64, .low = hash.low64};
	return 0;
}
