/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parquet's value encodings, writing side (parquet-format/Encodings.md).
 *
 * Hybrid (levels, dictionary indexes): a sequence of runs. A varint header with a 0 in its lowest bit is an RLE run: count =
 * header >> 1, then the value in whole bytes, little endian. With a 1 it is bit-packed: header >> 1 groups of 8 values, `width`
 * bits each, lowest bits first. Only the last group may be padded, so values join a bit-packed run until it is a multiple of 8
 * long before an RLE run may begin.
 *
 * Delta: varint block size (128), miniblocks a block (4), count of all values, zigzag first value; then blocks: zigzag smallest
 * delta, a byte of bit width for each miniblock, the miniblocks (delta - smallest delta, bit-packed). Arithmetic wraps, in 32
 * bits for INT32, so that no delta needs more bits than the type has.
 */
#include "codec/parquet_int.h"

#include <string.h>

#include "codec/protobuf.h"

#define DELTA_BLOCK	 128
#define DELTA_MINIBLOCKS 4
#define DELTA_MINIBLOCK	 (DELTA_BLOCK / DELTA_MINIBLOCKS)
#define RLE_RUN_MIN	 8

unsigned parquet_bit_width(uint64_t value)
{
	return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

static void put_zigzag(struct buffer *out, int64_t value)
{
	pb_write_raw_varint(out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static void put_literals(const uint32_t *values, size_t count, unsigned width, struct buffer *out)
{
	size_t whole = count / 8, groups = (count + 7) / 8;
	if (count == 0)
		return;
	pb_write_raw_varint(out, (uint64_t)groups << 1 | 1);
	if (buffer_reserve(out, groups * width) < 0)
		return;
	uint8_t *at = out->data + out->len;
	parquet_pack32(values, whole, width, at);
	if (groups > whole) {
		uint32_t last[8] = {0};
		memcpy(last, values + whole * 8, (count - whole * 8) * sizeof(*last));
		parquet_pack32(last, 1, width, at + whole * width);
	}
	out->len += groups * width;
}

static void put_run(uint32_t value, size_t count, unsigned width, struct buffer *out)
{
	uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16), (uint8_t)(value >> 24)};
	pb_write_raw_varint(out, (uint64_t)count << 1);
	buffer_append(out, bytes, (width + 7) / 8);
}

int parquet_encode_hybrid(const uint32_t *values, size_t count, unsigned width, struct buffer *out)
{
	size_t start = 0, at = 0; /* values start .. at-1 wait to be bit-packed */
	while (at < count) {
		size_t end = at + 1;
		while (end < count && values[end] == values[at])
			end++;
		size_t fill = (8 - (at - start) % 8) % 8;
		if (end - at < fill + RLE_RUN_MIN) {
			at = end;
			continue;
		}
		at += fill;
		put_literals(values + start, at - start, width, out);
		put_run(values[at], end - at, width, out);
		start = at = end;
	}
	put_literals(values + start, at - start, width, out);
	return buffer_status(out);
}

/* deltas: count <= DELTA_BLOCK of them; what is behind them is overwritten. */
static void put_delta_block(uint64_t deltas[DELTA_BLOCK], size_t count, struct buffer *out)
{
	int64_t least = (int64_t)deltas[0];
	uint8_t widths[DELTA_MINIBLOCKS] = {0};
	size_t miniblocks = (count + DELTA_MINIBLOCK - 1) / DELTA_MINIBLOCK;
	for (size_t i = 1; i < count; i++)
		least = (int64_t)deltas[i] < least ? (int64_t)deltas[i] : least;
	for (size_t i = 0; i < count; i++)
		deltas[i] -= (uint64_t)least;
	for (size_t i = count; i < miniblocks * DELTA_MINIBLOCK; i++)
		deltas[i] = 0;
	for (size_t m = 0; m < miniblocks; m++) {
		uint64_t any = 0;
		for (size_t i = 0; i < DELTA_MINIBLOCK; i++)
			any |= deltas[m * DELTA_MINIBLOCK + i];
		widths[m] = (uint8_t)parquet_bit_width(any);
	}
	put_zigzag(out, least);
	buffer_append(out, widths, sizeof(widths));
	int r = buffer_reserve(out, DELTA_BLOCK * sizeof(*deltas));
	for (size_t m = 0; r == 0 && m < miniblocks; m++) {
		parquet_pack64(deltas + m * DELTA_MINIBLOCK, DELTA_MINIBLOCK / 8, widths[m], out->data + out->len);
		out->len += (size_t)widths[m] * DELTA_MINIBLOCK / 8;
	}
}

/* One of values32 and values64 is NULL. */
static inline __attribute__((always_inline)) int encode_delta(const int32_t *values32, const int64_t *values64, size_t count,
							      struct buffer *out)
{
	uint64_t deltas[DELTA_BLOCK];
	pb_write_raw_varint(out, DELTA_BLOCK);
	pb_write_raw_varint(out, DELTA_MINIBLOCKS);
	pb_write_raw_varint(out, count);
	put_zigzag(out, !count ? 0 : values32 ? values32[0] : values64[0]);
	for (size_t i = 1; i < count; i += DELTA_BLOCK) {
		size_t n = count - i < DELTA_BLOCK ? count - i : DELTA_BLOCK;
		for (size_t k = 0; k < n; k++)
			deltas[k] = values32 ? (uint64_t)(int32_t)((uint32_t)values32[i + k] - (uint32_t)values32[i + k - 1])
					     : (uint64_t)values64[i + k] - (uint64_t)values64[i + k - 1];
		put_delta_block(deltas, n, out);
	}
	return buffer_status(out);
}

int parquet_encode_delta32(const int32_t *values, size_t count, struct buffer *out)
{
	return encode_delta(values, NULL, count, out);
}

int parquet_encode_delta64(const int64_t *values, size_t count, struct buffer *out)
{
	return encode_delta(NULL, values, count, out);
}

int parquet_encode_indexes(const uint32_t *indexes, size_t count, unsigned granule, struct buffer *out)
{
	uint32_t most = 0;
	for (size_t i = 0; i < count; i++)
		most = indexes[i] > most ? indexes[i] : most;
	/* Some readers refuse a width of 0. */
	unsigned width = most ? parquet_bit_width(most) : 1;
	width = (width + granule - 1) / granule * granule;
	buffer_append_byte(out, (uint8_t)width);
	return parquet_encode_hybrid(indexes, count, width, out);
}

#define DEFINE_DELTA_COST(bits)                                                                                                \
	size_t parquet_delta_cost##bits(const int##bits##_t *values, size_t count)                                             \
	{                                                                                                                      \
		size_t cost = 0;                                                                                               \
		for (size_t i = 1; i + DELTA_BLOCK <= count; i += DELTA_BLOCK) {                                               \
			uint##bits##_t deltas[DELTA_BLOCK];                                                                    \
			int##bits##_t least = INT##bits##_MAX;                                                                 \
			for (size_t k = 0; k < DELTA_BLOCK; k++) {                                                             \
				deltas[k] = (uint##bits##_t)values[i + k] - (uint##bits##_t)values[i + k - 1];                 \
				least = (int##bits##_t)deltas[k] < least ? (int##bits##_t)deltas[k] : least;                   \
			}                                                                                                      \
			for (size_t m = 0; m < DELTA_MINIBLOCKS; m++) {                                                        \
				uint##bits##_t any = 0;                                                                        \
				for (size_t k = 0; k < DELTA_MINIBLOCK; k++)                                                   \
					any |= deltas[m * DELTA_MINIBLOCK + k] - (uint##bits##_t)least;                        \
				cost += parquet_bit_width(any) * DELTA_MINIBLOCK / 8;                                          \
			}                                                                                                      \
			cost += DELTA_MINIBLOCKS + parquet_bit_width((uint##bits##_t)least) / 7 + 1;                           \
		}                                                                                                              \
		return cost + count % DELTA_BLOCK * (bits / 8);                                                                \
	}
DEFINE_DELTA_COST(32)
DEFINE_DELTA_COST(64)

int parquet_encode_booleans(const uint8_t *values, size_t count, struct buffer *out)
{
	size_t len = (count + 7) / 8;
	int r = buffer_reserve(out, len);
	if (r < 0)
		return r;
	uint8_t *at = out->data + out->len;
	if (len)
		memset(at, 0, len);
	for (size_t i = 0; i < count; i++)
		at[i / 8] |= (uint8_t)((values[i] != 0) << (i % 8));
	out->len += len;
	return 0;
}
