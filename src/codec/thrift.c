/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thrift compact protocol (thrift/doc/specs/thrift-compact-protocol.md).
 *
 *   struct   fields, then a 0 byte
 *   field    (id delta << 4 | type), or (type, zigzag id) when the delta is not 1..15; booleans live in the type
 *   integer  zigzag varint; BYTE is one byte; DOUBLE is 8 bytes
 *   binary   varint length, bytes
 *   list     (count << 4 | element type), or (0xf0 | element type, varint count); booleans take a byte each
 *   map      varint count, then, unless it is 0, (key type << 4 | value type)
 *
 * Only what Parquet's metadata uses is written; everything can be skipped. Hostile input: nesting is bounded, and a count is
 * believed only as far as bytes are left, since the smallest element takes one byte. (A list of empty structs is no exception:
 * each has its stop byte.)
 */
#include "codec/thrift.h"

#include <assert.h>
#include <string.h>

#include "codec/protobuf.h"

#define SKIP_DEPTH_MAX 24

struct thrift_reader thrift_open(struct bytes input)
{
	return (struct thrift_reader){.data = input.data, .len = input.len};
}

void thrift_fail(struct thrift_reader *reader, const char *fault)
{
	if (!reader->fault)
		reader->fault = fault;
}

static uint8_t read_byte(struct thrift_reader *reader)
{
	if (reader->fault)
		return 0;
	if (reader->at >= reader->len) {
		thrift_fail(reader, "truncated");
		return 0;
	}
	return reader->data[reader->at++];
}

static uint64_t read_varint_slow(struct thrift_reader *reader)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 70; shift += 7) {
		uint8_t byte = read_byte(reader);
		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	thrift_fail(reader, "a varint is too long");
	return 0;
}

/* Where no varint can pass the end, without a check a byte. */
static inline uint64_t read_varint(struct thrift_reader *reader)
{
	if (reader->fault || reader->len - reader->at < 10)
		return read_varint_slow(reader);
	const uint8_t *at = reader->data + reader->at;
	uint64_t value = 0;
	for (unsigned i = 0; i < 9; i++) {
		value |= (uint64_t)(at[i] & 0x7f) << (7 * i);
		if (!(at[i] & 0x80)) {
			reader->at += i + 1;
			return value;
		}
	}
	return read_varint_slow(reader);
}

static int64_t zigzag_decode(uint64_t value)
{
	return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

bool thrift_next_slow(struct thrift_reader *reader, struct thrift_field *field)
{
	uint8_t head = read_byte(reader);
	if (reader->fault || head == THRIFT_STOP)
		return false;
	field->type = head & 15;
	int64_t id = head >> 4 ? field->id + (head >> 4) : zigzag_decode(read_varint(reader));
	if (id < INT16_MIN || id > INT16_MAX || field->type == THRIFT_STOP || field->type > THRIFT_STRUCT)
		thrift_fail(reader, "a field header is malformed");
	field->id = (int16_t)id;
	return !reader->fault;
}

static void skip_bytes(struct thrift_reader *reader, uint64_t len)
{
	if (reader->fault)
		return;
	if (len > reader->len - reader->at)
		thrift_fail(reader, "a length extends past the end");
	else
		reader->at += len;
}

static void skip_value(struct thrift_reader *reader, uint8_t type, bool is_element, unsigned depth);

static void skip_list(struct thrift_reader *reader, unsigned depth)
{
	uint8_t element;
	size_t count = thrift_read_list(reader, THRIFT_LIST, &element);
	for (size_t i = 0; i < count && !reader->fault; i++)
		skip_value(reader, element, true, depth + 1);
}

static void skip_map(struct thrift_reader *reader, unsigned depth)
{
	uint64_t count = read_varint(reader);
	if (count == 0)
		return;
	uint8_t types = read_byte(reader);
	if (count > reader->len - reader->at)
		thrift_fail(reader, "a map is longer than the input");
	for (uint64_t i = 0; i < count && !reader->fault; i++) {
		skip_value(reader, types >> 4, true, depth + 1);
		skip_value(reader, types & 15, true, depth + 1);
	}
}

static void skip_value(struct thrift_reader *reader, uint8_t type, bool is_element, unsigned depth)
{
	struct thrift_field field = {0};
	if (depth > SKIP_DEPTH_MAX) {
		thrift_fail(reader, "nested too deeply");
		return;
	}
	switch (type) {
	case THRIFT_TRUE:
	case THRIFT_FALSE:
		if (is_element)
			read_byte(reader);
		break;
	case THRIFT_BYTE: read_byte(reader); break;
	case THRIFT_I16:
	case THRIFT_I32:
	case THRIFT_I64: read_varint(reader); break;
	case THRIFT_DOUBLE: skip_bytes(reader, 8); break;
	case THRIFT_BINARY: skip_bytes(reader, read_varint(reader)); break;
	case THRIFT_LIST:
	case THRIFT_SET: skip_list(reader, depth); break;
	case THRIFT_MAP: skip_map(reader, depth); break;
	case THRIFT_STRUCT:
		while (thrift_next(reader, &field))
			skip_value(reader, field.type, false, depth + 1);
		break;
	default: thrift_fail(reader, "an unknown type");
	}
}

void thrift_skip(struct thrift_reader *reader, uint8_t type)
{
	skip_value(reader, type, false, 0);
}

int64_t thrift_read_int(struct thrift_reader *reader, uint8_t type)
{
	if (type == THRIFT_BYTE)
		return (int8_t)read_byte(reader);
	if (type != THRIFT_I16 && type != THRIFT_I32 && type != THRIFT_I64) {
		thrift_fail(reader, "expected an integer");
		return 0;
	}
	int64_t value = zigzag_decode(read_varint(reader));
	return reader->fault ? 0 : value;
}

int32_t thrift_read_i32(struct thrift_reader *reader, uint8_t type)
{
	int64_t value = thrift_read_int(reader, type);
	if (value < INT32_MIN || value > INT32_MAX) {
		thrift_fail(reader, "a 32-bit integer is out of range");
		return 0;
	}
	return (int32_t)value;
}

bool thrift_read_bool(struct thrift_reader *reader, uint8_t type)
{
	if (type != THRIFT_TRUE && type != THRIFT_FALSE)
		thrift_fail(reader, "expected a boolean");
	return type == THRIFT_TRUE;
}

struct bytes thrift_read_binary(struct thrift_reader *reader, uint8_t type)
{
	if (type != THRIFT_BINARY)
		thrift_fail(reader, "expected a string");
	uint64_t len = read_varint(reader);
	size_t start = reader->at;
	skip_bytes(reader, len);
	return reader->fault ? (struct bytes){0} : (struct bytes){reader->data + start, len};
}

void thrift_expect_struct(struct thrift_reader *reader, uint8_t type)
{
	if (type != THRIFT_STRUCT)
		thrift_fail(reader, "expected a struct");
}

size_t thrift_read_list(struct thrift_reader *reader, uint8_t type, uint8_t *ret_element)
{
	if (type != THRIFT_LIST && type != THRIFT_SET)
		thrift_fail(reader, "expected a list");
	uint8_t head = read_byte(reader);
	uint64_t count = head >> 4;
	if (count == 15)
		count = read_varint(reader);
	if (!reader->fault && count > reader->len - reader->at)
		thrift_fail(reader, "a list is longer than the input");
	*ret_element = head & 15;
	return reader->fault ? 0 : count;
}

/* ---- writing ---- */

void thrift_put_int(struct thrift_writer *writer, int64_t value)
{
	pb_write_raw_varint(writer->out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static void put_field(struct thrift_writer *writer, int16_t id, enum thrift_type type)
{
	int16_t *last = &writer->last_id[writer->depth];
	int delta = id - *last;
	if (delta >= 1 && delta <= 15) {
		buffer_append_byte(writer->out, (uint8_t)(delta << 4 | (int)type));
	} else {
		buffer_append_byte(writer->out, (uint8_t)type);
		thrift_put_int(writer, id);
	}
	*last = id;
}

static void push(struct thrift_writer *writer)
{
	assert(writer->depth + 1 < THRIFT_DEPTH_MAX);
	writer->last_id[++writer->depth] = 0;
}

struct thrift_writer thrift_begin(struct buffer *out)
{
	return (struct thrift_writer){.out = out, .depth = 1};
}

void thrift_write_i8(struct thrift_writer *writer, int16_t id, int8_t value)
{
	put_field(writer, id, THRIFT_BYTE);
	buffer_append_byte(writer->out, (uint8_t)value);
}

void thrift_write_int(struct thrift_writer *writer, int16_t id, enum thrift_type type, int64_t value)
{
	put_field(writer, id, type);
	thrift_put_int(writer, value);
}

void thrift_write_bool(struct thrift_writer *writer, int16_t id, bool value)
{
	put_field(writer, id, value ? THRIFT_TRUE : THRIFT_FALSE);
}

void thrift_write_binary(struct thrift_writer *writer, int16_t id, const void *data, size_t len)
{
	put_field(writer, id, THRIFT_BINARY);
	thrift_put_binary(writer, data, len);
}

void thrift_write_string(struct thrift_writer *writer, int16_t id, const char *text)
{
	thrift_write_binary(writer, id, text, strlen(text));
}

void thrift_begin_struct(struct thrift_writer *writer, int16_t id)
{
	put_field(writer, id, THRIFT_STRUCT);
	push(writer);
}

void thrift_end_struct(struct thrift_writer *writer)
{
	assert(writer->depth > 0);
	buffer_append_byte(writer->out, THRIFT_STOP);
	writer->depth--;
}

void thrift_begin_list(struct thrift_writer *writer, int16_t id, enum thrift_type element, size_t count)
{
	put_field(writer, id, THRIFT_LIST);
	if (count < 15) {
		buffer_append_byte(writer->out, (uint8_t)(count << 4 | element));
	} else {
		buffer_append_byte(writer->out, (uint8_t)(0xf0 | element));
		pb_write_raw_varint(writer->out, count);
	}
}

void thrift_put_bool(struct thrift_writer *writer, bool value)
{
	buffer_append_byte(writer->out, value ? THRIFT_TRUE : THRIFT_FALSE);
}

void thrift_put_binary(struct thrift_writer *writer, const void *data, size_t len)
{
	pb_write_raw_varint(writer->out, len);
	buffer_append(writer->out, data, len);
}

void thrift_begin_element(struct thrift_writer *writer)
{
	push(writer);
}
