/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bit-packed integers, both ways: lowest bits first, as Parquet packs dictionary indexes, levels and deltas.
 *
 * Eight values of a width take exactly `width` bytes, so the unit of work is a group of eight. For each width there is a copy
 * of the group's code in which every shift and offset is a constant; the compiler turns it into straight loads, shifts and
 * masks without a branch, which is as fast as what follows it (a dictionary look-up, a running sum). Intrinsics were rejected:
 * they would be a second path to test for a part that is no longer the slowest.
 *
 * A group reads whole words and so up to 8 bytes behind its end; the last groups of the input go through a padded copy.
 */
#include <string.h>

#include "codec/parquet_int.h"

#define GROUP	 8
#define SLACK	 8 /* what a group may read behind its end */
#define PAD_SIZE (64 + 2 * SLACK)

static inline __attribute__((always_inline)) void unpack_group32(const uint8_t *input, unsigned width, uint32_t *out)
{
	const uint64_t mask = (1ull << width) - 1;
#pragma GCC unroll 8
	for (unsigned i = 0; i < GROUP; i++) {
		uint64_t word; /* width <= 32: with a shift of up to 7 it fits one load */
		memcpy(&word, input + (i * width >> 3), 8);
		out[i] = (uint32_t)(word >> (i * width & 7) & mask);
	}
}

static inline __attribute__((always_inline)) void unpack_group64(const uint8_t *input, unsigned width, uint64_t *out)
{
	const uint64_t mask = width == 64 ? UINT64_MAX : (1ull << width) - 1;
#pragma GCC unroll 8
	for (unsigned i = 0; i < GROUP; i++) {
		unsigned byte = i * width >> 3, shift = i * width & 7;
		uint64_t word;
		memcpy(&word, input + byte, 8);
		word >>= shift;
		if (shift + width > 64)
			word |= (uint64_t)input[byte + 8] << (64 - shift);
		out[i] = word & mask;
	}
}

/* The values' bits are disjoint, so or-ing them into words that the compiler keeps in registers packs them. */
static inline __attribute__((always_inline)) void pack_group64(const uint64_t *values, unsigned width, uint8_t *out)
{
	uint64_t words[GROUP + 1] = {0};
#pragma GCC unroll 8
	for (unsigned i = 0; i < GROUP; i++) {
		unsigned word = i * width >> 6, shift = i * width & 63;
		words[word] |= values[i] << shift;
		if (shift + width > 64)
			words[word + 1] |= values[i] >> (64 - shift);
	}
	memcpy(out, words, width);
}

static inline __attribute__((always_inline)) void pack_group32(const uint32_t *values, unsigned width, uint8_t *out)
{
	uint64_t wide[GROUP];
#pragma GCC unroll 8
	for (unsigned i = 0; i < GROUP; i++)
		wide[i] = values[i];
	pack_group64(wide, width, out);
}

#define CASES8(c, first) c(first) c(first + 1) c(first + 2) c(first + 3) c(first + 4) c(first + 5) c(first + 6) c(first + 7)
#define CASES_TO_32(c)	 CASES8(c, 1) CASES8(c, 9) CASES8(c, 17) CASES8(c, 25)
#define CASES_TO_64(c)	 CASES_TO_32(c) CASES8(c, 33) CASES8(c, 41) CASES8(c, 49) CASES8(c, 57)

/* One group after the other, by code made for the width. */
#define EACH_GROUP(w, group, from, from_step, to, to_step)                                                                     \
	case w:                                                                                                                \
		for (size_t g = 0; g < groups; g++)                                                                            \
			group((from) + g * (from_step), (w), (to) + g * (to_step));                                            \
		break;
#define UNPACK32(w) EACH_GROUP(w, unpack_group32, input, (w), out, GROUP)
#define UNPACK64(w) EACH_GROUP(w, unpack_group64, input, (w), out, GROUP)
#define PACK32(w)   EACH_GROUP(w, pack_group32, values, GROUP, out, (w))
#define PACK64(w)   EACH_GROUP(w, pack_group64, values, GROUP, out, (w))

/* How many whole groups of `count` values may be read in place. */
static size_t safe_groups(size_t len, unsigned width, size_t count)
{
	size_t groups = count / GROUP;
	if (width == 0)
		return groups;
	size_t safe = len > SLACK ? (len - SLACK) / width : 0;
	return groups < safe ? groups : safe;
}

static void unpack_groups32(const uint8_t *input, unsigned width, size_t groups, uint32_t *out)
{
	switch (width) {
		CASES_TO_32(UNPACK32)
	default: memset(out, 0, groups * GROUP * sizeof(*out));
	}
}

static void unpack_groups64(const uint8_t *input, unsigned width, size_t groups, uint64_t *out)
{
	switch (width) {
		CASES_TO_64(UNPACK64)
	default: memset(out, 0, groups * GROUP * sizeof(*out));
	}
}

#define DEFINE_UNPACK(bits)                                                                                                    \
	void parquet_unpack##bits(const uint8_t *input, size_t len, unsigned width, size_t count, uint##bits##_t *out)         \
	{                                                                                                                      \
		size_t groups = safe_groups(len, width, count);                                                                \
		unpack_groups##bits(input, width, groups, out);                                                                \
		for (size_t i = groups * GROUP; i < count; i += GROUP) {                                                       \
			uint8_t padded[PAD_SIZE] = {0};                                                                        \
			uint##bits##_t values[GROUP];                                                                          \
			size_t at = i / GROUP * width, left = at < len ? len - at : 0;                                         \
			if (left)                                                                                              \
				memcpy(padded, input + at, left < width ? left : width);                                       \
			unpack_groups##bits(padded, width, 1, values);                                                         \
			memcpy(out + i, values, (count - i < GROUP ? count - i : GROUP) * sizeof(*out));                       \
		}                                                                                                              \
	}
DEFINE_UNPACK(32)
DEFINE_UNPACK(64)

void parquet_pack32(const uint32_t *values, size_t groups, unsigned width, uint8_t *out)
{
	switch (width) {
		CASES_TO_32(PACK32)
	default: break;
	}
}

void parquet_pack64(const uint64_t *values, size_t groups, unsigned width, uint8_t *out)
{
	switch (width) {
		CASES_TO_64(PACK64)
	default: break;
	}
}
