/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protocol Buffers wire format (https://protobuf.dev/programming-guides/encoding/).
 *
 * A message is a run of fields. A field is a tag, the varint (number << 3 | wire type), then its value:
 *
 *   wire 0  varint     7 bits a byte, least significant first, the top bit says that more follow
 *   wire 1  fixed64    8 bytes, little-endian
 *   wire 2  bytes      a varint length, then that many bytes: strings, submessages, packed repeated scalars
 *   wire 5  fixed32    4 bytes, little-endian
 *   wire 3, 4          groups, deprecated: refused;  6, 7: never assigned: refused
 *
 * Reading is a cursor over the caller's bytes. It knows no schema: a decoder is a loop over pb_next() and a switch over the
 * field number, so unknown fields cost nothing and the strictness of each format is its own. Generated code (protobuf-c) was
 * rejected: it allocates for every submessage, which made it 4 to 10 times slower on profiles, accepts what it likes, and keeps
 * no offsets to name in messages.
 *
 * Invariants: start <= at <= end; on an error the cursor stays where it is; nothing outside start..end is ever read.
 *
 * Writing: a submessage's length stands before it and is not known yet. One byte is kept for it, enough for most messages; when
 * the message proves longer than 127 bytes it is moved up. Computing all sizes in a pass beforehand was rejected: it doubles
 * the code of every encoder to save a memmove that stays inside the cache.
 */
#include "codec/protobuf.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"

#define VARINT_BYTES_MAX 10

struct pb_cursor pb_open(struct bytes input)
{
	/* NULL + 0 is fine in C, a NULL that is compared with offsets is not worth the doubt. */
	static const uint8_t nothing[1];
	const uint8_t *at = input.data ? input.data : nothing;
	return (struct pb_cursor){at, at + input.len, at};
}

struct pb_cursor pb_open_nested(const struct pb_cursor *outer, struct bytes input)
{
	if (!outer)
		return pb_open(input);
	const uint8_t *at = input.data ? input.data : outer->end;
	return (struct pb_cursor){at, at + input.len, outer->start};
}

static size_t offset_of(const struct pb_cursor *cursor, const uint8_t *at)
{
	return (size_t)(at - cursor->start);
}

static int bad_varint(const struct pb_cursor *cursor, const uint8_t *at, struct error *err)
{
	if (cursor->end - at < VARINT_BYTES_MAX)
		return error_set(err, -EBADMSG, "truncated: the varint at byte %zu has no end", offset_of(cursor, at));
	return error_set(err, -EBADMSG, "the varint at byte %zu is longer than 10 bytes", offset_of(cursor, at));
}

/* The position behind the varint at `at`, NULL when it does not end within 10 bytes or before `end`. */
static inline const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, uint64_t *ret)
{
	if (at < end && *at < 0x80) {
		*ret = *at;
		return at + 1;
	}
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 7 * VARINT_BYTES_MAX && at < end; shift += 7) {
		uint8_t byte = *at++;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = value;
			return at;
		}
	}
	return NULL;
}

int pb_packed_varint_long(struct pb_cursor *cursor, uint64_t *ret, struct error *err)
{
	const uint8_t *next = read_varint(cursor->at, cursor->end, ret);
	if (!next)
		return bad_varint(cursor, cursor->at, err);
	cursor->at = next;
	return 0;
}

static int truncated_field(const struct pb_cursor *cursor, const struct pb_field *field, uint64_t need, const uint8_t *at,
			   struct error *err)
{
	return error_set(err, -EBADMSG, "truncated: field %u at byte %zu needs %llu bytes, %zu are left", field->number,
			 offset_of(cursor, cursor->at), (unsigned long long)need, (size_t)(cursor->end - at));
}

/* The value behind a tag, by its wire type; the position behind it through *at. */
static int read_value(const struct pb_cursor *cursor, struct pb_field *field, const uint8_t **at, struct error *err)
{
	const uint8_t *p = *at;
	size_t left = (size_t)(cursor->end - p);
	uint64_t len;
	switch (field->wire) {
	case PB_VARINT: *at = read_varint(p, cursor->end, &field->value); return *at ? 0 : bad_varint(cursor, p, err);
	case PB_BYTES:
		*at = read_varint(p, cursor->end, &len);
		if (!*at)
			return bad_varint(cursor, p, err);
		if (len > (size_t)(cursor->end - *at))
			return truncated_field(cursor, field, len, *at, err);
		field->bytes = (struct bytes){*at, (size_t)len};
		*at += len;
		return 0;
	case PB_FIXED64:
	case PB_FIXED32:
		len = field->wire == PB_FIXED64 ? 8 : 4;
		if (left < len)
			return truncated_field(cursor, field, len, p, err);
		field->value = 0;
		for (unsigned i = 0; i < len; i++)
			field->value |= (uint64_t)p[i] << (8 * i);
		*at = p + len;
		return 0;
	}
	return error_set(err, -EBADMSG, "field %u at byte %zu has wire type %u, which is not supported", field->number,
			 offset_of(cursor, cursor->at), (unsigned)field->wire);
}

int pb_next_long(struct pb_cursor *cursor, struct pb_field *ret, struct error *err)
{
	if (cursor->at == cursor->end)
		return 0;
	uint64_t tag;
	const uint8_t *at = read_varint(cursor->at, cursor->end, &tag);
	if (!at)
		return bad_varint(cursor, cursor->at, err);
	uint64_t number = tag >> 3;
	if (number == 0)
		return error_set(err, -EBADMSG, "field number 0 at byte %zu", offset_of(cursor, cursor->at));
	ret->number = number < 1u << 29 ? (uint32_t)number : UINT32_MAX;
	ret->wire = (enum pb_wire)(tag & 7);
	int r = read_value(cursor, ret, &at, err);
	if (r < 0)
		return r;
	cursor->at = at;
	return 1;
}

int pb_expect(const struct pb_cursor *cursor, const struct pb_field *field, enum pb_wire wire, const char *name,
	      struct error *err)
{
	static const char *const names[8] = {"varint", "fixed64", "bytes", "3", "4", "fixed32", "6", "7"};
	if (__builtin_expect(field->wire == wire, 1))
		return 0;
	return error_set(err, -EBADMSG, "%s: wire type %s, expected %s at byte %zu", name, names[field->wire & 7],
			 names[wire & 7], offset_of(cursor, cursor->at));
}

int pb_find_bytes(const struct pb_cursor *outer, struct bytes message, uint32_t number, struct bytes *ret, struct error *err)
{
	struct pb_cursor cursor = pb_open_nested(outer, message);
	struct pb_field field;
	struct bytes found = {0};
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0)
		if (field.number == number && field.wire == PB_BYTES)
			found = field.bytes;
	if (r == 0)
		*ret = found;
	return r;
}

/* ---- writing ---- */

static size_t put_varint(uint8_t *to, uint64_t value)
{
	size_t len = 0;
	while (value >= 0x80) {
		to[len++] = (uint8_t)value | 0x80;
		value >>= 7;
	}
	to[len++] = (uint8_t)value;
	return len;
}

size_t pb_varint_size(uint64_t value)
{
	return (size_t)(63 - __builtin_clzll(value | 1)) / 7 + 1;
}

static uint64_t tag_of(uint32_t field, enum pb_wire wire)
{
	return (uint64_t)field << 3 | wire;
}

int pb_write_raw_varint(struct buffer *out, uint64_t value)
{
	uint8_t bytes[VARINT_BYTES_MAX];
	return buffer_append(out, bytes, put_varint(bytes, value));
}

int pb_write_varint(struct buffer *out, uint32_t field, uint64_t value)
{
	uint8_t bytes[2 * VARINT_BYTES_MAX];
	size_t len = put_varint(bytes, tag_of(field, PB_VARINT));
	len += put_varint(bytes + len, value);
	return buffer_append(out, bytes, len);
}

int pb_write_fixed64(struct buffer *out, uint32_t field, uint64_t value)
{
	uint8_t bytes[VARINT_BYTES_MAX + 8];
	size_t len = put_varint(bytes, tag_of(field, PB_FIXED64));
	for (unsigned i = 0; i < 8; i++)
		bytes[len++] = (uint8_t)(value >> (8 * i));
	return buffer_append(out, bytes, len);
}

int pb_write_bytes(struct buffer *out, uint32_t field, const void *data, size_t len)
{
	uint8_t head[2 * VARINT_BYTES_MAX];
	size_t head_len = put_varint(head, tag_of(field, PB_BYTES));
	head_len += put_varint(head + head_len, len);
	int r = len > SIZE_MAX - head_len ? buffer_fail(out, -E2BIG) : buffer_reserve(out, head_len + len);
	if (r < 0)
		return r;
	memcpy(out->data + out->len, head, head_len);
	if (len > 0)
		memcpy(out->data + out->len + head_len, data, len);
	out->len += head_len + len;
	return 0;
}

int pb_write_string(struct buffer *out, uint32_t field, const char *text)
{
	return pb_write_bytes(out, field, text, strlen(text));
}

int pb_write_packed(struct buffer *out, uint32_t field, const uint64_t *values, size_t count)
{
	if (count == 0)
		return 0;
	size_t len = 0;
	for (size_t i = 0; i < count; i++)
		len += pb_varint_size(values[i]);
	uint8_t head[2 * VARINT_BYTES_MAX];
	size_t head_len = put_varint(head, tag_of(field, PB_BYTES));
	head_len += put_varint(head + head_len, len);
	int r = buffer_reserve(out, head_len + len);
	if (r < 0)
		return r;
	memcpy(out->data + out->len, head, head_len);
	uint8_t *to = out->data + out->len + head_len;
	for (size_t i = 0; i < count; i++)
		to += put_varint(to, values[i]);
	out->len += head_len + len;
	return 0;
}

int pb_write_text(struct buffer *out, uint32_t field, struct bytes text)
{
	size_t mark;
	if (text_is_utf8(text))
		return pb_write_bytes(out, field, text.data, text.len);
	pb_begin(out, field, &mark);
	text_append_utf8(out, text);
	return pb_end(out, mark);
}

int pb_put_varint(struct buffer *out, uint32_t field, uint64_t value)
{
	return value ? pb_write_varint(out, field, value) : 0;
}

int pb_put_double(struct buffer *out, uint32_t field, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits ? pb_write_fixed64(out, field, bits) : 0;
}

int pb_put_text(struct buffer *out, uint32_t field, struct bytes text)
{
	return text.len ? pb_write_text(out, field, text) : 0;
}

int pb_put_string(struct buffer *out, uint32_t field, const char *text)
{
	return pb_put_text(out, field, bytes_of_string(text));
}

/* The mark is the position of the length byte. */
int pb_begin(struct buffer *out, uint32_t field, size_t *ret_mark)
{
	uint8_t head[VARINT_BYTES_MAX + 1];
	size_t len = put_varint(head, tag_of(field, PB_BYTES));
	head[len++] = 0;
	int r = buffer_append(out, head, len);
	*ret_mark = r < 0 ? 0 : out->len - 1;
	return r;
}

int pb_end(struct buffer *out, size_t mark)
{
	if (buffer_status(out) < 0)
		return buffer_status(out);
	size_t len = out->len - mark - 1;
	size_t extra = pb_varint_size(len) - 1;
	if (extra > 0) {
		int r = buffer_reserve(out, extra);
		if (r < 0)
			return r;
		memmove(out->data + mark + 1 + extra, out->data + mark + 1, len);
		out->len += extra;
	}
	put_varint(out->data + mark, len);
	return 0;
}
