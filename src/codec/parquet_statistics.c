/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least and the greatest value of a page or chunk, for its statistics.
 *
 * Orders are those that the specification gives the types: signed or unsigned integers, bytes as memcmp. Floating point numbers
 * have no range when one of them is not a number, and zeros are written as -0 (least) and +0 (greatest).
 *
 * Bounds of strings in a page index are cut to PARQUET_BOUND_MAX bytes, since they are there to be compared, not to be read. A
 * prefix is a lower bound as it is; an upper bound must become greater than what was cut off: its last character is replaced by
 * the next one. Text is cut between characters and stays valid UTF-8, whose order by bytes is the order of code points.
 */
#include <string.h>

#include "codec/parquet_int.h"

/* What is only of floating point numbers costs integers nothing: the compiler sees that it changes nothing. */
#define DEFINE_RANGE(name, ctype)                                                                                              \
	static void range_##name(const void *from, size_t count, struct parquet_range *ret)                                    \
	{                                                                                                                      \
		const ctype *values = from;                                                                                    \
		ctype least = values[0], most = values[0];                                                                     \
		for (size_t i = 0; i < count; i++) {                                                                           \
			if (values[i] != values[i])                                                                            \
				ret->state = PARQUET_RANGE_UNKNOWN;                                                            \
			least = values[i] < least ? values[i] : least;                                                         \
			most = values[i] > most ? values[i] : most;                                                            \
		}                                                                                                              \
		least = least == 0 ? (ctype)-0.0 : least;                                                                      \
		most = most == 0 ? (ctype)0.0 : most;                                                                          \
		memcpy(ret->min.word, &least, sizeof(least));                                                                  \
		memcpy(ret->max.word, &most, sizeof(most));                                                                    \
	}
DEFINE_RANGE(u8, uint8_t)
DEFINE_RANGE(i32, int32_t)
DEFINE_RANGE(u32, uint32_t)
DEFINE_RANGE(i64, int64_t)
DEFINE_RANGE(u64, uint64_t)
DEFINE_RANGE(f32, float)
DEFINE_RANGE(f64, double)

static void range_bytes(const void *from, size_t count, struct parquet_range *ret)
{
	const struct bytes *values = from;
	size_t least = 0, most = 0;
	for (size_t i = 1; i < count; i++) {
		/* Runs of one string are usual, and their values often share memory. */
		if (values[i].data == values[i - 1].data && values[i].len == values[i - 1].len)
			continue;
		if (bytes_compare(values[i], values[least]) < 0)
			least = i;
		else if (bytes_compare(values[i], values[most]) > 0)
			most = i;
	}
	ret->min.bytes = values[least];
	ret->max.bytes = values[most];
}

void parquet_range_of(const struct parquet_column *column, const void *values, size_t count, struct parquet_range *ret)
{
	*ret = (struct parquet_range){.state = count ? PARQUET_RANGE_KNOWN : PARQUET_RANGE_EMPTY};
	if (count == 0)
		return;
	switch (column->type) {
	case PARQUET_BOOLEAN: range_u8(values, count, ret); break;
	case PARQUET_INT32: (parquet_is_unsigned(column) ? range_u32 : range_i32)(values, count, ret); break;
	case PARQUET_INT64: (parquet_is_unsigned(column) ? range_u64 : range_i64)(values, count, ret); break;
	case PARQUET_FLOAT: range_f32(values, count, ret); break;
	case PARQUET_DOUBLE: range_f64(values, count, ret); break;
	default: range_bytes(values, count, ret);
	}
}

struct bytes parquet_bound_bytes(const struct parquet_column *column, const struct parquet_bound *bound)
{
	bool is_bytes = column->type == PARQUET_BYTE_ARRAY || column->type == PARQUET_FIXED;
	return is_bytes ? bound->bytes : (struct bytes){bound->word, parquet_type_size(column->type)};
}

#define COMPARE(ctype)                                                                                                         \
	{                                                                                                                      \
		ctype x, y;                                                                                                    \
		memcpy(&x, a.data, sizeof(x));                                                                                 \
		memcpy(&y, b.data, sizeof(y));                                                                                 \
		return (x > y) - (x < y);                                                                                      \
	}
int parquet_compare(const struct parquet_column *column, struct bytes a, struct bytes b)
{
	bool is_unsigned = parquet_is_unsigned(column);
	switch (column->type) {
	case PARQUET_INT32:
		if (is_unsigned)
			COMPARE(uint32_t)
		COMPARE(int32_t)
	case PARQUET_INT64:
		if (is_unsigned)
			COMPARE(uint64_t)
		COMPARE(int64_t)
	case PARQUET_FLOAT: COMPARE(float)
	case PARQUET_DOUBLE: COMPARE(double)
	default: return bytes_compare(a, b);
	}
}

void parquet_range_merge(const struct parquet_column *column, struct parquet_range *range, const struct parquet_range *more)
{
	if (more->state == PARQUET_RANGE_EMPTY || range->state == PARQUET_RANGE_UNKNOWN)
		return;
	if (range->state == PARQUET_RANGE_EMPTY || more->state == PARQUET_RANGE_UNKNOWN) {
		*range = *more;
		return;
	}
	if (parquet_compare(column, parquet_bound_bytes(column, &more->min), parquet_bound_bytes(column, &range->min)) < 0)
		range->min = more->min;
	if (parquet_compare(column, parquet_bound_bytes(column, &more->max), parquet_bound_bytes(column, &range->max)) > 0)
		range->max = more->max;
}

/* ---- bounds that are cut ---- */

/* The start of the character that holds byte `at`, or SIZE_MAX when that is no UTF-8. */
static size_t character_start(struct bytes text, size_t at)
{
	for (size_t back = 0; back < 4 && back <= at; back++)
		if ((text.data[at - back] & 0xc0) != 0x80)
			return at - back;
	return SIZE_MAX;
}

static size_t character_len(uint8_t first)
{
	return first < 0x80 ? 1 : (first & 0xe0) == 0xc0 ? 2 : (first & 0xf0) == 0xe0 ? 3 : (first & 0xf8) == 0xf0 ? 4 : 0;
}

/* Replaces a character by the next one of the same length; false when there is none, or this is no character. */
static bool next_character(uint8_t *at, size_t len)
{
	static const uint32_t last[] = {0, 0x7f, 0x7ff, 0xffff, 0x10ffff};
	if (len == 0 || character_len(at[0]) != len)
		return false;
	uint32_t code = len == 1 ? at[0] : at[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++)
		code = code << 6 | (at[i] & 0x3f);
	if (code >= last[len])
		return false;
	code = code + 1 == 0xd800 ? 0xe000 : code + 1; /* over the surrogates */
	for (size_t i = len; i-- > 1; code >>= 6)
		at[i] = (uint8_t)(0x80 | (code & 0x3f));
	at[0] = (uint8_t)(len == 1 ? code : (0xf00u >> len & 0xff) | code);
	return true;
}

/* Cuts before a character that would be torn; 0 when the bytes are no text. */
static size_t cut_text(struct bytes value, size_t len)
{
	size_t start = character_start(value, len);
	return start == SIZE_MAX ? 0 : start;
}

static bool raise_text(uint8_t *out, size_t *len)
{
	while (*len > 0) {
		size_t start = character_start((struct bytes){out, *len}, *len - 1);
		if (start == SIZE_MAX)
			return false;
		if (next_character(out + start, *len - start))
			return true;
		*len = start;
	}
	return false;
}

static bool raise_bytes(uint8_t *out, size_t *len)
{
	while (*len > 0 && out[*len - 1] == 0xff)
		(*len)--;
	if (*len == 0)
		return false;
	out[*len - 1]++;
	return true;
}

bool parquet_cut_bound(struct bytes value, bool is_text, bool upper, uint8_t out[PARQUET_BOUND_MAX], struct bytes *ret)
{
	if (value.len <= PARQUET_BOUND_MAX) {
		*ret = value;
		return true;
	}
	size_t len = is_text ? cut_text(value, PARQUET_BOUND_MAX) : 0;
	if (is_text && len > 0) {
		memcpy(out, value.data, len);
		if (!upper || raise_text(out, &len)) {
			*ret = (struct bytes){out, len};
			return true;
		}
	}
	len = PARQUET_BOUND_MAX;
	memcpy(out, value.data, len);
	if (upper && !raise_bytes(out, &len))
		return false;
	*ret = (struct bytes){out, len};
	return true;
}
