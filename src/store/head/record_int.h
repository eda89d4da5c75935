/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the payloads of log records (record.c, delta.c, delta_read.c): numbers and columns, written and read. */
#ifndef WICK_STORE_HEAD_RECORD_INT_H
#define WICK_STORE_HEAD_RECORD_INT_H

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/profile.h"

#define VARINT_MAX 10

/* ---- writing ---- */

/* The caller has reserved the room. */
static inline void put_unchecked(struct buffer *out, uint64_t value)
{
	uint8_t *at = out->data + out->len;
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	out->len = (size_t)(at - out->data);
}

static inline uint64_t zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

/* A failure stays with the buffer, and is asked for once at the end. */
static inline void put(struct buffer *out, uint64_t value)
{
	if (buffer_reserve(out, VARINT_MAX) == 0)
		put_unchecked(out, value);
}

static inline void put_string(struct buffer *out, struct bytes text)
{
	put(out, text.len);
	buffer_append(out, text.data, text.len);
}

/* One column: `expression` for i = first .. count-1. */
#define PUT_COLUMN(out, first, count, expression)                                                                              \
	do {                                                                                                                   \
		if (buffer_reserve((out), ((size_t)(count) - (size_t)(first)) * VARINT_MAX) == 0)                              \
			for (size_t i = (first); i < (count); i++)                                                             \
				put_unchecked((out), (expression));                                                            \
	} while (0)

/* ---- reading ---- */

/* Keeps the first error; reads give 0 afterwards. */
struct decoder {
	const uint8_t *at, *end;
	uint64_t version;
	int error;
	const char *fault;
	struct error *err;
	struct profile *profile;
};

static inline void fail(struct decoder *decoder, const char *fault)
{
	if (decoder->error)
		return;
	decoder->error = -EBADMSG;
	decoder->fault = fault;
}

static inline void fail_memory(struct decoder *decoder)
{
	if (!decoder->error)
		decoder->error = error_nomem(decoder->err);
}

static inline uint64_t get(struct decoder *decoder)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 70 && !decoder->error; shift += 7) {
		if (decoder->at == decoder->end)
			break;
		uint8_t byte = *decoder->at++;
		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	fail(decoder, "a number is truncated or too long");
	return 0;
}

static inline int64_t get_signed(struct decoder *decoder)
{
	uint64_t value = get(decoder);
	return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

static inline struct bytes get_bytes(struct decoder *decoder, uint64_t len)
{
	if (len > (uint64_t)(decoder->end - decoder->at)) {
		fail(decoder, "a length extends past the end");
		len = 0;
	}
	struct bytes bytes = {decoder->at, decoder->error ? 0 : len};
	decoder->at += bytes.len;
	return bytes;
}

/* The number of entries of a table; each takes `least` bytes or more. */
static inline size_t get_count(struct decoder *decoder, size_t least)
{
	uint64_t count = get(decoder);
	if (count > (uint64_t)(decoder->end - decoder->at) / least) {
		fail(decoder, "a table is longer than the record");
		return 0;
	}
	return decoder->error ? 0 : count;
}

static inline uint32_t get_small(struct decoder *decoder)
{
	uint64_t value = get(decoder);
	if (value > UINT32_MAX) {
		fail(decoder, "a number is out of range");
		return 0;
	}
	return (uint32_t)value;
}

/* A reference into a table of `count` entries. */
static inline uint32_t get_reference(struct decoder *decoder, size_t count)
{
	uint64_t value = get(decoder);
	if (value >= count) {
		fail(decoder, "a reference is out of range");
		return 0;
	}
	return (uint32_t)value;
}

/* One column, as PUT_COLUMN() wrote it: place = expression for i = first .. end-1. */
#define GET_COLUMN(first, end, place, expression)                                                                              \
	do {                                                                                                                   \
		for (size_t i = (first); i < (end); i++)                                                                       \
			(place) = (expression);                                                                                \
	} while (0)

/* A table of `count` entries behind entry 0, zeroed. */
static inline void *new_table(struct decoder *decoder, size_t count, size_t size)
{
	void *table = decoder->error ? NULL : mem_zalloc_array(count + 1, size);
	if (!table)
		fail_memory(decoder);
	return table;
}

static inline char *get_text(struct decoder *decoder)
{
	struct bytes text = get_bytes(decoder, get(decoder));
	if (text.len && memchr(text.data, 0, text.len))
		fail(decoder, "a string contains a NUL");
	char *copy = decoder->error ? NULL : mem_strndup((const char *)text.data, text.len);
	if (!copy)
		fail_memory(decoder);
	return copy;
}

#endif
