/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A streaming JSON writer over a struct buffer. Commas, quoting and UTF-8 repair are its job; nesting is checked by assertions.
 * Errors (no memory, buffer maximum) are kept by the buffer and reported once by json_finish(). Reading JSON is jansson's job.
 */
#ifndef WICK_CODEC_JSON_H
#define WICK_CODEC_JSON_H

#include "base/buffer.h"
#include "base/error.h"

/* To begin with: {.out = buffer}. A long text need not be held as a whole: with `drain`, that is called each time when
 * JSON_DRAIN_BYTES or more are in the buffer, which it empties; what it returns below 0 is why nothing more is written. */
#define JSON_DRAIN_BYTES ((size_t)256 * 1024)
struct json_writer {
	struct buffer *out;
	int (*drain)(void *context);
	void *context; /* of drain */
	unsigned depth;
	uint64_t has_items; /* one bit a level: a comma is due */
	uint64_t is_object;
	bool after_key;
};

/* In an object or array that was begun without this writer, behind its items if it has some; it is not for this one to end. */
void json_init_within(struct json_writer *json, struct buffer *out, bool object, bool has_items);
void json_begin_object(struct json_writer *json);
void json_end_object(struct json_writer *json);
void json_begin_array(struct json_writer *json);
void json_end_array(struct json_writer *json);
void json_key(struct json_writer *json, const char *key);
void json_cstring(struct json_writer *json, const char *text);
/* A key and its value. */
void json_member_cstring(struct json_writer *json, const char *key, const char *text);
void json_member_bytes(struct json_writer *json, const char *key, struct bytes text);
void json_member_int(struct json_writer *json, const char *key, int64_t value);
void json_member_uint(struct json_writer *json, const char *key, uint64_t value);
void json_member_double(struct json_writer *json, const char *key, double value);
void json_member_bool(struct json_writer *json, const char *key, bool value);
void json_member_null(struct json_writer *json, const char *key);
/* A key, and the beginning of its object or array. */
void json_member_object(struct json_writer *json, const char *key);
void json_member_array(struct json_writer *json, const char *key);
void json_bytes(struct json_writer *json, struct bytes text); /* ill-formed UTF-8 becomes U+FFFD */
void json_int(struct json_writer *json, int64_t value);
void json_uint(struct json_writer *json, uint64_t value);
/* value / 10^places (at most 18), exactly, without zeros at the end: 1500000 with 6 places is 1.5. */
void json_decimal(struct json_writer *json, int64_t value, unsigned places);
void json_double(struct json_writer *json, double value); /* NaN and infinities become null */
/* A value that is JSON already. */
void json_raw(struct json_writer *json, struct bytes text);
void json_bool(struct json_writer *json, bool value);
void json_nil(struct json_writer *json);
int json_finish(struct json_writer *json, struct error *err); /* 0, -ENOMEM, -E2BIG, or as drain() failed */

/* The usual names of json_cstring() and json_nil(). jansson exports functions of the same names: ours must stay out of the
 * symbol table, where they would replace jansson's inside jansson itself, and out of files that include <jansson.h> (before
 * this). */
#ifndef JANSSON_H
static inline void json_string(struct json_writer *json, const char *text)
{
	json_cstring(json, text);
}
static inline void json_null(struct json_writer *json)
{
	json_nil(json);
}
#endif

#endif
