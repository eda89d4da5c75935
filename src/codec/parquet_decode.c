/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parquet's value encodings, reading side. The layouts are described at the top of parquet_encode.c.
 *
 * Input is hostile. Output arrays are allocated by the caller for exactly `count` values, and no more are ever written; a run
 * that would pass `count` is cut, as the padding of a bit-packed run has to be. Input that ends before `count` values is a
 * fault.
 */
#include "codec/parquet_int.h"

#include <string.h>

#define DELTA_BLOCK_MAX	     65536
#define DELTA_MINIBLOCKS_MAX 512

/* Little-endian load of up to 8 bytes; the bytes past len read as 0. */
static inline uint64_t load(const uint8_t *input, size_t len, size_t at)
{
	uint64_t word = 0;
	if (at + 8 <= len)
		memcpy(&word, input + at, 8);
	else if (at < len)
		memcpy(&word, input + at, len - at);
	return word; /* Wick runs on little-endian machines only; asserted in parquet_read.c */
}

void parquet_unpack32(const uint8_t *input, size_t len, unsigned width, size_t count, uint32_t *out)
{
	uint64_t mask = (1ull << width) - 1; /* width <= 32: with a shift of up to 7 it fits one load */
	size_t bit = 0, i = 0;
	for (; i < count && (bit >> 3) + 8 <= len; i++, bit += width) {
		uint64_t word;
		memcpy(&word, input + (bit >> 3), 8);
		out[i] = (uint32_t)(word >> (bit & 7) & mask);
	}
	for (; i < count; i++, bit += width)
		out[i] = (uint32_t)(load(input, len, bit >> 3) >> (bit & 7) & mask);
}

void parquet_unpack64(const uint8_t *input, size_t len, unsigned width, size_t count, uint64_t *out)
{
	uint64_t mask = width == 64 ? UINT64_MAX : (1ull << width) - 1;
	size_t bit = 0;
	for (size_t i = 0; i < count; i++, bit += width) {
		size_t byte = bit >> 3;
		unsigned shift = bit & 7;
		uint64_t value = load(input, len, byte) >> shift;
		if (shift + width > 64)
			value |= load(input, len, byte + 8) << (64 - shift);
		out[i] = value & mask;
	}
}

struct cursor {
	const uint8_t *data;
	size_t len, at;
};

static bool get_varint(struct cursor *cursor, uint64_t *ret)
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

/* A bit-packed run of `groups` groups; what lies past the input's end must be padding that nobody asked for. */
static bool get_literals(struct cursor *cursor, uint64_t groups, unsigned width, size_t wanted, uint32_t *out,
			 size_t *ret_taken)
{
	size_t left = cursor->len - cursor->at;
	size_t n = groups > wanted / 8 + 1 ? wanted : groups * 8 < wanted ? groups * 8 : wanted;
	if (width && (n * width + 7) / 8 > left)
		return false;
	parquet_unpack32(cursor->data + cursor->at, left, width, n, out);
	uint64_t len;
	if (__builtin_mul_overflow(groups, (uint64_t)width, &len) || len > left)
		len = left;
	cursor->at += len;
	*ret_taken = n;
	return true;
}

static bool get_run(struct cursor *cursor, uint64_t run, unsigned width, size_t wanted, uint32_t *out, size_t *ret_taken)
{
	size_t value_size = (width + 7) / 8;
	if (value_size > cursor->len - cursor->at)
		return false;
	uint32_t value = 0;
	for (size_t i = 0; i < value_size; i++)
		value |= (uint32_t)cursor->data[cursor->at++] << (8 * i);
	if (width < 32 && value >> width)
		return false;
	size_t n = run < wanted ? run : wanted;
	for (size_t i = 0; i < n; i++)
		out[i] = value;
	*ret_taken = n;
	return true;
}

bool parquet_decode_hybrid(struct bytes input, unsigned width, size_t count, uint32_t *out)
{
	struct cursor cursor = {input.data, input.len, 0};
	if (width > 32)
		return false;
	for (size_t done = 0; done < count;) {
		uint64_t header;
		size_t taken;
		if (!get_varint(&cursor, &header))
			return false;
		bool fine = header & 1 ? get_literals(&cursor, header >> 1, width, count - done, out + done, &taken)
				       : get_run(&cursor, header >> 1, width, count - done, out + done, &taken);
		if (!fine)
			return false;
		done += taken;
	}
	return true;
}

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

#define UNPACK_BATCH 128 /* a multiple of 8 */

/* Reads n deltas of a miniblock in batches; calls back through `values` sums, the running value. */
static bool delta_miniblock(struct delta *delta, unsigned width, size_t n, uint64_t *running, int64_t *out64, int32_t *out32)
{
	struct cursor *cursor = &delta->cursor;
	size_t whole = delta->miniblock_values * width / 8, left = cursor->len - cursor->at;
	if (width > 64 || (n * width + 7) / 8 > left)
		return false;
	uint64_t batch[UNPACK_BATCH], value = *running, least = (uint64_t)delta->least;
	const uint8_t *at = cursor->data + cursor->at;
	for (size_t i = 0; i < n; i += UNPACK_BATCH) {
		size_t m = n - i < UNPACK_BATCH ? n - i : UNPACK_BATCH;
		parquet_unpack64(at + i * width / 8, left - i * width / 8, width, m, batch);
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

static bool decode_delta(struct bytes input, size_t count, int64_t *out64, int32_t *out32)
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
