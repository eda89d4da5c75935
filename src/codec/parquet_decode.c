/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parquet's value encodings, reading side. The layouts are described at the top of parquet_encode.c.
 *
 * Input is hostile. Output arrays are allocated by the caller for exactly `count` values, and no more are ever written; a run
 * that would pass `count` is cut, as the padding of a bit-packed run has to be. Input that ends before `count` values is a
 * fault.
 *
 * Queries spend most of their time here. Dictionary indexes are unpacked a batch at a time into memory that stays in the L1
 * cache, checked against the dictionary's size as a batch and only then looked up, so that neither step has a branch a value;
 * a run costs one check and a fill.
 */
#include "codec/parquet_int.h"

#include <string.h>

#define DELTA_BLOCK_MAX	     65536
#define DELTA_MINIBLOCKS_MAX 512
#define BATCH		     512 /* a multiple of 8 */

struct cursor {
	const uint8_t *data;
	size_t len, at;
};

static inline bool get_varint(struct cursor *cursor, uint64_t *ret)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 70 && cursor->at < cursor->len; shift += 7) {
		uint8_t byte = cursor->data[cursor->at++];
		if (shift == 63 && byte > 1)
			return false;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

static bool get_zigzag(struct cursor *cursor, int64_t *ret)
{
	uint64_t value;
	if (!get_varint(cursor, &value))
		return false;
	*ret = (int64_t)(value >> 1 ^ (0 - (value & 1)));
	return true;
}

/* ---- hybrid ---- */

struct run {
	size_t count;	       /* at most what was wanted */
	const uint8_t *packed; /* NULL: `value`, count times */
	size_t packed_len;     /* readable bytes, more than the run has */
	uint32_t value;
};

/* A bit-packed run of `groups` groups; what lies past the input's end must be padding that nobody asked for. */
static bool get_literals(struct cursor *cursor, uint64_t groups, unsigned width, size_t wanted, struct run *ret)
{
	size_t left = cursor->len - cursor->at;
	size_t n = groups > wanted / 8 + 1 ? wanted : groups * 8 < wanted ? groups * 8 : wanted;
	if (width && (n * width + 7) / 8 > left)
		return false;
	*ret = (struct run){.count = n, .packed = cursor->data + cursor->at, .packed_len = left};
	uint64_t len;
	if (__builtin_mul_overflow(groups, (uint64_t)width, &len) || len > left)
		len = left;
	cursor->at += len;
	return true;
}

static bool get_repeated(struct cursor *cursor, uint64_t count, unsigned width, size_t wanted, struct run *ret)
{
	size_t value_size = (width + 7) / 8;
	if (value_size > cursor->len - cursor->at)
		return false;
	uint32_t value = 0;
	for (size_t i = 0; i < value_size; i++)
		value |= (uint32_t)cursor->data[cursor->at++] << (8 * i);
	*ret = (struct run){.count = count < wanted ? count : wanted, .value = value};
	return width == 32 || value >> width == 0;
}

static bool get_run(struct cursor *cursor, unsigned width, size_t wanted, struct run *ret)
{
	uint64_t header;
	if (!get_varint(cursor, &header))
		return false;
	return header & 1 ? get_literals(cursor, header >> 1, width, wanted, ret)
			  : get_repeated(cursor, header >> 1, width, wanted, ret);
}

bool parquet_decode_hybrid(struct bytes input, unsigned width, size_t count, uint32_t *out)
{
	struct cursor cursor = {input.data, input.len, 0};
	struct run run;
	if (width > 32)
		return false;
	for (size_t done = 0; done < count; done += run.count) {
		if (!get_run(&cursor, width, count - done, &run))
			return false;
		if (run.packed)
			parquet_unpack32(run.packed, run.packed_len, width, run.count, out + done);
		else
			for (size_t i = 0; i < run.count; i++)
				out[done + i] = run.value;
	}
	return true;
}

/* Eight bits to eight bytes. */
static inline uint64_t spread_bits(uint8_t bits)
{
	uint64_t each = bits * 0x0101010101010101ull & 0x8040201008040201ull;
	return (each + 0x7f7f7f7f7f7f7f7full) >> 7 & 0x0101010101010101ull;
}

static size_t put_level_bits(const uint8_t *packed, size_t count, uint8_t *out)
{
	size_t values = 0, i = 0;
	for (; i + 8 <= count; i += 8) {
		uint64_t bytes = spread_bits(packed[i / 8]);
		memcpy(out + i, &bytes, 8);
		values += (size_t)__builtin_popcount(packed[i / 8]);
	}
	for (; i < count; i++) {
		out[i] = packed[i / 8] >> (i % 8) & 1;
		values += out[i];
	}
	return values;
}

/* Levels of more than one bit; false when one is out of range. */
static bool put_levels(const struct run *run, unsigned width, unsigned most, uint8_t *out, size_t *values)
{
	uint32_t batch[BATCH];
	for (size_t i = 0; i < run->count; i += BATCH) {
		size_t n = run->count - i < BATCH ? run->count - i : BATCH, at = i / 8 * width;
		parquet_unpack32(run->packed + at, run->packed_len - at, width, n, batch);
		for (size_t k = 0; k < n; k++) {
			if (batch[k] > most)
				return false;
			out[i + k] = batch[k] == most;
			*values += out[i + k];
		}
	}
	return true;
}

bool parquet_decode_levels(struct bytes input, unsigned most, size_t count, uint8_t *out, size_t *ret_values)
{
	struct cursor cursor = {input.data, input.len, 0};
	struct run run;
	unsigned width = parquet_bit_width(most);
	size_t values = 0;
	for (size_t done = 0; done < count; done += run.count) {
		if (!get_run(&cursor, width, count - done, &run))
			return false;
		if (!run.packed) {
			if (run.value > most)
				return false;
			memset(out + done, run.value == most, run.count);
			values += run.value == most ? run.count : 0;
		} else if (most == 1) {
			values += put_level_bits(run.packed, run.count, out + done);
		} else if (!put_levels(&run, width, most, out + done, &values)) {
			return false;
		}
	}
	*ret_values = values;
	return true;
}

/* By the signs of value | last - value, which compilers do for several values at once. */
static inline bool are_entries(const uint32_t *values, size_t count, size_t dictionary_count)
{
	uint32_t last = dictionary_count > INT32_MAX ? INT32_MAX : (uint32_t)dictionary_count - 1, signs = 0;
	for (size_t i = 0; i < count; i++)
		signs |= values[i] | (last - values[i]);
	return signs >> 31 == 0;
}

#define DEFINE_DECODE_DICTIONARY(name, type)                                                                                   \
	bool parquet_decode_dictionary##name(struct bytes input, unsigned width, size_t count, const type *dictionary,         \
					     size_t dictionary_count, type *out)                                               \
	{                                                                                                                      \
		struct cursor cursor = {input.data, input.len, 0};                                                             \
		struct run run;                                                                                                \
		uint32_t batch[BATCH];                                                                                         \
		if (width > 32)                                                                                                \
			return false;                                                                                          \
		for (size_t done = 0; done < count; done += run.count) {                                                       \
			if (!get_run(&cursor, width, count - done, &run))                                                      \
				return false;                                                                                  \
			type *to = out + done;                                                                                 \
			if (!run.packed) {                                                                                     \
				if (run.value >= dictionary_count)                                                             \
					return false;                                                                          \
				const type value = dictionary[run.value];                                                      \
				for (size_t i = 0; i < run.count; i++)                                                         \
					to[i] = value;                                                                         \
				continue;                                                                                      \
			}                                                                                                      \
			for (size_t i = 0; i < run.count; i += BATCH) {                                                        \
				size_t n = run.count - i < BATCH ? run.count - i : BATCH, at = i / 8 * width;                  \
				parquet_unpack32(run.packed + at, run.packed_len - at, width, n, batch);                       \
				if (!are_entries(batch, n, dictionary_count))                                                  \
					return false;                                                                          \
				for (size_t k = 0; k < n; k++)                                                                 \
					to[i + k] = dictionary[batch[k]];                                                      \
			}                                                                                                      \
		}                                                                                                              \
		return true;                                                                                                   \
	}
DEFINE_DECODE_DICTIONARY(32, uint32_t)
DEFINE_DECODE_DICTIONARY(64, uint64_t)
DEFINE_DECODE_DICTIONARY(_bytes, struct bytes)

/* ---- delta ---- */

struct delta {
	struct cursor cursor;
	size_t miniblocks, miniblock_values;
	uint8_t widths[DELTA_MINIBLOCKS_MAX];
	int64_t first, least;
};

static bool delta_open(struct delta *delta, struct bytes input, size_t count, unsigned width_max)
{
	uint64_t block, miniblocks, total;
	delta->cursor = (struct cursor){input.data, input.len, 0};
	if (!get_varint(&delta->cursor, &block) || !get_varint(&delta->cursor, &miniblocks) ||
	    !get_varint(&delta->cursor, &total) || !get_zigzag(&delta->cursor, &delta->first))
		return false;
	if (block == 0 || block > DELTA_BLOCK_MAX || miniblocks == 0 || miniblocks > DELTA_MINIBLOCKS_MAX ||
	    block % miniblocks || (block / miniblocks) % 8 || total < count)
		return false;
	if (width_max == 32 && (delta->first < INT32_MIN || delta->first > INT32_MAX))
		return false;
	delta->miniblocks = miniblocks;
	delta->miniblock_values = block / miniblocks;
	return true;
}

static bool delta_open_block(struct delta *delta)
{
	struct cursor *cursor = &delta->cursor;
	if (!get_zigzag(cursor, &delta->least) || cursor->len - cursor->at < delta->miniblocks)
		return false;
	memcpy(delta->widths, cursor->data + cursor->at, delta->miniblocks);
	cursor->at += delta->miniblocks;
	return true;
}

#define DELTA_BATCH 64 /* a multiple of 8 */

/* Reads n deltas of a miniblock in batches and sums them up behind *running, the value before. */
static inline bool delta_miniblock(struct delta *delta, unsigned width, size_t n, uint64_t *running, int64_t *out64,
				   int32_t *out32)
{
	struct cursor *cursor = &delta->cursor;
	size_t whole = delta->miniblock_values * width / 8, left = cursor->len - cursor->at;
	if (width > 64 || (n * width + 7) / 8 > left)
		return false;
	uint64_t batch[DELTA_BATCH], value = *running, least = (uint64_t)delta->least;
	const uint8_t *at = cursor->data + cursor->at;
	for (size_t i = 0; i < n; i += DELTA_BATCH) {
		size_t m = n - i < DELTA_BATCH ? n - i : DELTA_BATCH;
		parquet_unpack64(at + i / 8 * width, left - i / 8 * width, width, m, batch);
		for (size_t k = 0; k < m; k++) {
			value += batch[k] + least;
			if (out64)
				out64[i + k] = (int64_t)value;
			else
				out32[i + k] = (int32_t)(uint32_t)value;
		}
	}
	cursor->at += whole < left ? whole : left;
	*running = value;
	return true;
}

static inline __attribute__((always_inline)) bool decode_delta(struct bytes input, size_t count, int64_t *out64, int32_t *out32)
{
	struct delta delta;
	if (count == 0)
		return true;
	if (!delta_open(&delta, input, count, out64 ? 64 : 32))
		return false;
	uint64_t value = (uint64_t)delta.first;
	if (out64)
		out64[0] = delta.first;
	else
		out32[0] = (int32_t)delta.first;
	for (size_t done = 1; done < count;) {
		if (!delta_open_block(&delta))
			return false;
		for (size_t m = 0; m < delta.miniblocks && done < count; m++) {
			size_t n = count - done < delta.miniblock_values ? count - done : delta.miniblock_values;
			if (!delta_miniblock(&delta, delta.widths[m], n, &value, out64 ? out64 + done : NULL,
					     out32 ? out32 + done : NULL))
				return false;
			done += n;
		}
	}
	return true;
}

bool parquet_decode_delta32(struct bytes input, size_t count, int32_t *out)
{
	return decode_delta(input, count, NULL, out);
}

bool parquet_decode_delta64(struct bytes input, size_t count, int64_t *out)
{
	return decode_delta(input, count, out, NULL);
}

bool parquet_decode_booleans(struct bytes input, size_t count, uint8_t *out)
{
	if ((count + 7) / 8 > input.len)
		return false;
	for (size_t i = 0; i < count; i++)
		out[i] = input.data[i / 8] >> (i % 8) & 1;
	return true;
}
