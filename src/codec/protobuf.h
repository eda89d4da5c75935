/* SPDX-License-Identifier: Apache-2.0 */
/* Protocol Buffers wire format: a strict cursor and a writer. Essay at the top of protobuf.c. Nothing is copied; a cursor is
 * three words. */
#ifndef WICK_CODEC_PROTOBUF_H
#define WICK_CODEC_PROTOBUF_H

#include <endian.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

enum pb_wire {
	PB_VARINT = 0,
	PB_FIXED64 = 1,
	PB_BYTES = 2,
	PB_FIXED32 = 5,
};
struct pb_cursor {
	const uint8_t *at, *end;
	const uint8_t *start; /* of the whole input, for offsets in messages */
};
struct pb_field {
	uint32_t number; /* 1 .. 2^29-1; UINT32_MAX = a larger one, of a 64-bit tag, which can be skipped as unknown */
	enum pb_wire wire;
	uint64_t value;	    /* VARINT, FIXED64, FIXED32 */
	struct bytes bytes; /* BYTES */
};

struct pb_cursor pb_open(struct bytes input);
/* A submessage of outer's input, so that offsets stay right; outer NULL = as pb_open(). */
struct pb_cursor pb_open_nested(const struct pb_cursor *outer, struct bytes input);
/* 1 = a field, 0 = the end, -EBADMSG = malformed: groups (wire 3, 4), wire 6, 7, field number 0, varint over 10 bytes, length
 * past the end. Bits of a 10-byte varint beyond 64 are dropped, as Go does. */
int pb_next_long(struct pb_cursor *cursor, struct pb_field *ret, struct error *err);
static inline int pb_next(struct pb_cursor *cursor, struct pb_field *ret, struct error *err)
{
	/* Most fields have a tag of one byte and a value, or a length, of one or two; all others are read there. */
	const uint8_t *at = cursor->at, *end = cursor->end;
	if (end - at < 3)
		return pb_next_long(cursor, ret, err);
	uint32_t tag = at[0], value = at[1];
	at += 2;
	if (value >= 0x80)
		value = (value & 0x7f) | (uint32_t)*at++ << 7;
	bool is_bytes = (tag & 7) == PB_BYTES;
	if (tag < 8 || tag >= 0x80 || value >= 1u << 14 || (tag & 5) || (is_bytes && value > (size_t)(end - at)))
		return pb_next_long(cursor, ret, err);
	ret->number = tag >> 3;
	ret->wire = is_bytes ? PB_BYTES : PB_VARINT;
	ret->value = value;
	ret->bytes = (struct bytes){at, value};
	cursor->at = is_bytes ? at + value : at;
	return 1;
}
/* Reads one varint of a packed field. */
int pb_packed_varint_long(struct pb_cursor *cursor, uint64_t *ret, struct error *err);
static inline int pb_packed_varint(struct pb_cursor *cursor, uint64_t *ret, struct error *err)
{
	const uint8_t *at = cursor->at;
	if (at < cursor->end && at[0] < 0x80) {
		*ret = at[0];
		cursor->at = at + 1;
		return 0;
	}
	if (cursor->end - at >= 2 && at[1] < 0x80) {
		*ret = (uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7;
		cursor->at = at + 2;
		return 0;
	}
	return pb_packed_varint_long(cursor, ret, err);
}
/* A varint of at most 8 bytes where that many can be read, whatever the last of them are of; returns what is behind it, NULL if
 * it is longer. Without a branch for each byte: their number changes from one varint to the next, and a processor that guesses
 * it wrong loses more time than this takes. */
static inline const uint8_t *pb_quick_varint(const uint8_t *at, uint64_t *ret)
{
	uint64_t word;
	memcpy(&word, at, sizeof(word));
	word = le64toh(word);
	uint64_t ends = ~word & 0x8080808080808080ull;
	if (!ends)
		return NULL;
	/* Up to the first byte without the top bit; then pairs of 7 bits move together, of 14, of 28. */
	word &= (ends ^ (ends - 1)) & 0x7f7f7f7f7f7f7f7full;
	word = (word & 0x007f007f007f007full) | (word & 0x7f007f007f007f00ull) >> 1;
	word = (word & 0x00003fff00003fffull) | (word & 0x3fff00003fff0000ull) >> 2;
	*ret = (word & 0x000000000fffffffull) | (word & 0x0fffffff00000000ull) >> 4;
	return at + __builtin_ctzll(ends) / 8 + 1;
}
/* A tag of one byte, and what pb_quick_varint() may look at. */
#define PB_QUICK_BYTES 9
/* A message of nothing but numbers, those of fields 1 .. count (at most 15), each at most once and in order: values[number] is
 * set to what it is, others are 0. False if it is anything else, malformed or not: then it is to be read by pb_next(), and the
 * values mean nothing. `limit` ends what may be looked at, the whole input. */
static inline bool pb_quick_numbers(const uint8_t *at, const uint8_t *end, const uint8_t *limit, uint32_t count,
				    uint64_t *values)
{
	uint32_t before = 0;
	for (uint32_t i = 1; i <= count; i++)
		values[i] = 0;
	while (at < end) {
		if (limit - at < PB_QUICK_BYTES)
			return false;
		uint32_t tag = *at;
		if ((tag & 7) != PB_VARINT || tag <= before || tag > count << 3)
			return false;
		before = tag;
		at = pb_quick_varint(at + 1, &values[tag >> 3]);
		if (!at)
			return false;
	}
	return at == end;
}
/* -EBADMSG with "MESSAGE.FIELD: wire type X, expected Y at byte N" unless it has the wanted wire type. */
int pb_expect(const struct pb_cursor *cursor, const struct pb_field *field, enum pb_wire wire, const char *name,
	      struct error *err);

/* The bytes of a message's field of this number, the last if there are several, as proto3 has it; empty if there is none.
 * outer: the cursor that the message is of, NULL = none. 0, or -EBADMSG as pb_next(). */
int pb_find_bytes(const struct pb_cursor *outer, struct bytes message, uint32_t number, struct bytes *ret, struct error *err);

/* Writing appends to a struct buffer; each returns 0, -ENOMEM or -E2BIG. Zero values are written too: callers skip what proto3
 * leaves out. */
int pb_write_varint(struct buffer *out, uint32_t field, uint64_t value);
int pb_write_fixed64(struct buffer *out, uint32_t field, uint64_t value);
int pb_write_bytes(struct buffer *out, uint32_t field, const void *data, size_t len);
int pb_write_string(struct buffer *out, uint32_t field, const char *text);
int pb_write_packed(struct buffer *out, uint32_t field, const uint64_t *values, size_t count); /* nothing for count 0 */
int pb_write_text(struct buffer *out, uint32_t field, struct bytes text); /* what is no UTF-8 becomes U+FFFD */
/* The same as proto3 has it: nothing for 0, nothing for "". */
int pb_put_varint(struct buffer *out, uint32_t field, uint64_t value);
int pb_put_double(struct buffer *out, uint32_t field, double value);
int pb_put_text(struct buffer *out, uint32_t field, struct bytes text);
int pb_put_string(struct buffer *out, uint32_t field, const char *text);
int pb_write_raw_varint(struct buffer *out, uint64_t value);
/* A nested message of unknown length: begin, write its fields, end. Costs one memmove of the message's bytes at most. After a
 * failure the mark means nothing, and pb_end() returns the failure. */
int pb_begin(struct buffer *out, uint32_t field, size_t *ret_mark);
int pb_end(struct buffer *out, size_t mark);
size_t pb_varint_size(uint64_t value);

#endif
