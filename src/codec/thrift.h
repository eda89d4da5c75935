/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Thrift compact protocol, as far as Parquet's metadata needs it: a bounded reader over bytes and a writer into a buffer.
 *
 * Both keep the first error and become inert: after a fault every read gives zero, false or an empty list, so that a decoder
 * is a plain loop over fields with one check at its end.
 */
#ifndef WICK_CODEC_THRIFT_H
#define WICK_CODEC_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum thrift_type {
	THRIFT_STOP = 0,
	THRIFT_TRUE = 1,
	THRIFT_FALSE = 2,
	THRIFT_BYTE = 3,
	THRIFT_I16 = 4,
	THRIFT_I32 = 5,
	THRIFT_I64 = 6,
	THRIFT_DOUBLE = 7,
	THRIFT_BINARY = 8,
	THRIFT_LIST = 9,
	THRIFT_SET = 10,
	THRIFT_MAP = 11,
	THRIFT_STRUCT = 12,
};

struct thrift_reader {
	const uint8_t *data;
	size_t len, at;
	const char *fault; /* NULL while all is well; else what is wrong at byte `at` */
};
struct thrift_field {
	int16_t id;
	uint8_t type; /* enum thrift_type */
};

struct thrift_reader thrift_open(struct bytes input);
/* Keeps the first fault only. */
void thrift_fail(struct thrift_reader *reader, const char *fault);
bool thrift_next_slow(struct thrift_reader *reader, struct thrift_field *field);
/* Walks one struct: start with *field = {0}. False at its end or on a fault. Every field must be read or skipped. Inline for
 * the usual header, of one byte: footers have 10^5 fields. */
static inline bool thrift_next(struct thrift_reader *reader, struct thrift_field *field)
{
	if (!reader->fault && reader->at < reader->len) {
		uint8_t head = reader->data[reader->at], delta = head >> 4, type = head & 15;
		if (head == THRIFT_STOP) {
			reader->at++;
			return false;
		}
		if (delta && type != THRIFT_STOP && type <= THRIFT_STRUCT && field->id <= INT16_MAX - 15) {
			reader->at++;
			field->id = (int16_t)(field->id + delta);
			field->type = type;
			return true;
		}
	}
	return thrift_next_slow(reader, field);
}
void thrift_skip(struct thrift_reader *reader, uint8_t type);
/* The value of a field of this type; another type than the wanted one is a fault. */
int64_t thrift_read_int(struct thrift_reader *reader, uint8_t type); /* BYTE, I16, I32, I64 */
int32_t thrift_read_i32(struct thrift_reader *reader, uint8_t type); /* a fault when it does not fit */
bool thrift_read_bool(struct thrift_reader *reader, uint8_t type);
struct bytes thrift_read_binary(struct thrift_reader *reader, uint8_t type); /* a view of the input */
/* A fault, so that thrift_next() is false, unless the field is a struct. */
void thrift_expect_struct(struct thrift_reader *reader, uint8_t type);
/* Number of elements of a list or set, never more than bytes are left; *ret_element is their type. */
size_t thrift_read_list(struct thrift_reader *reader, uint8_t type, uint8_t *ret_element);

#define THRIFT_DEPTH_MAX 16
struct thrift_writer {
	struct buffer *out;
	unsigned depth;
	int16_t last_id[THRIFT_DEPTH_MAX];
};
/* Starts a struct at the top level; thrift_end_struct() closes it. The buffer's status says whether all was written. */
struct thrift_writer thrift_begin(struct buffer *out);
void thrift_write_i8(struct thrift_writer *writer, int16_t id, int8_t value);
void thrift_write_int(struct thrift_writer *writer, int16_t id, enum thrift_type type, int64_t value); /* I16, I32, I64 */
void thrift_write_bool(struct thrift_writer *writer, int16_t id, bool value);
void thrift_write_binary(struct thrift_writer *writer, int16_t id, const void *data, size_t len);
void thrift_write_string(struct thrift_writer *writer, int16_t id, const char *text);
void thrift_begin_struct(struct thrift_writer *writer, int16_t id);
void thrift_end_struct(struct thrift_writer *writer);
/* A list; its elements follow: thrift_put_*() for scalars, thrift_begin_element() .. thrift_end_struct() for structs. */
void thrift_begin_list(struct thrift_writer *writer, int16_t id, enum thrift_type element, size_t count);
void thrift_put_int(struct thrift_writer *writer, int64_t value);
void thrift_put_bool(struct thrift_writer *writer, bool value);
void thrift_put_binary(struct thrift_writer *writer, const void *data, size_t len);
void thrift_begin_element(struct thrift_writer *writer);

#endif
