/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/json.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Levels that the bit sets of struct json_writer can hold. */
#define DEPTH_MAX 63

void json_init_within(struct json_writer *json, struct buffer *out, bool object, bool has_items)
{
	*json = (struct json_writer){.out = out, .depth = 1, .is_object = object ? 2 : 0, .has_items = has_items ? 2 : 0};
}

static void put(struct json_writer *json, const void *data, size_t len)
{
	buffer_append(json->out, data, len);
	if (json->out->len < JSON_DRAIN_BYTES || !json->drain || buffer_status(json->out) < 0)
		return;
	int r = json->drain(json->context);
	if (r < 0)
		buffer_fail(json->out, r);
}

/* What goes before a value or a key: the comma that is due. A value behind a key has had its comma. */
static void begin_item(struct json_writer *json)
{
	uint64_t level = 1ull << json->depth;
	if (json->after_key) {
		json->after_key = false;
		return;
	}
	if (json->depth > 0 && (json->has_items & level))
		put(json, ",", 1);
	json->has_items |= level;
}

static void begin_value(struct json_writer *json)
{
	assert(json->depth == 0 || json->after_key || !(json->is_object & (1ull << json->depth)));
	begin_item(json);
}

static void begin_level(struct json_writer *json, bool object)
{
	begin_value(json);
	assert(json->depth < DEPTH_MAX);
	json->depth++;
	uint64_t level = 1ull << json->depth;
	json->has_items &= ~level;
	json->is_object = object ? json->is_object | level : json->is_object & ~level;
	put(json, object ? "{" : "[", 1);
}

static void end_level(struct json_writer *json, bool object)
{
	assert(json->depth > 0 && !json->after_key);
	assert(object == !!(json->is_object & (1ull << json->depth)));
	json->depth--;
	put(json, object ? "}" : "]", 1);
}

void json_begin_object(struct json_writer *json)
{
	begin_level(json, true);
}

void json_end_object(struct json_writer *json)
{
	end_level(json, true);
}

void json_begin_array(struct json_writer *json)
{
	begin_level(json, false);
}

void json_end_array(struct json_writer *json)
{
	end_level(json, false);
}

static void put_escape(struct json_writer *json, uint8_t byte)
{
	static const char short_forms[][2] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
					      {'\n', 'n'}, {'\r', 'r'},	 {'\t', 't'}};
	char text[8];
	for (size_t i = 0; i < sizeof(short_forms) / sizeof(short_forms[0]); i++) {
		if ((uint8_t)short_forms[i][0] == byte) {
			text[0] = '\\';
			text[1] = short_forms[i][1];
			put(json, text, 2);
			return;
		}
	}
	snprintf(text, sizeof(text), "\\u%04x", byte);
	put(json, text, 6);
}

static bool is_plain(uint8_t byte)
{
	return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

static void put_quoted(struct json_writer *json, struct bytes text)
{
	put(json, "\"", 1);
	size_t at = 0;
	while (at < text.len && buffer_status(json->out) == 0) {
		size_t plain = at;
		while (plain < text.len && is_plain(text.data[plain]))
			plain++;
		put(json, text.data + at, plain - at);
		at = plain;
		if (at == text.len)
			break;
		if (text.data[at] < 0x80) {
			put_escape(json, text.data[at++]);
			continue;
		}
		bool valid;
		size_t len = text_utf8_sequence((struct bytes){text.data + at, text.len - at}, &valid);
		put(json, valid ? (const char *)text.data + at : "\xef\xbf\xbd", valid ? len : 3);
		at += len;
	}
	put(json, "\"", 1);
}

void json_key(struct json_writer *json, const char *key)
{
	assert(json->depth > 0 && !json->after_key && (json->is_object & (1ull << json->depth)));
	begin_item(json);
	put_quoted(json, bytes_of_string(key));
	put(json, ":", 1);
	json->after_key = true;
}

void json_bytes(struct json_writer *json, struct bytes text)
{
	begin_value(json);
	put_quoted(json, text);
}

void json_cstring(struct json_writer *json, const char *text)
{
	json_bytes(json, bytes_of_string(text));
}

#define DECIMAL_MAX 20 /* digits of 2^64 - 1 */

/*
 * Numbers are most of what answers are made of (a flame graph is seven arrays of them), so they are put together here and
 * appended at once with their comma and sign; snprintf() took half of the time of such an answer.
 */
static void put_number(struct json_writer *json, uint64_t value, bool negative, unsigned places)
{
	uint64_t level = 1ull << json->depth;
	assert(json->depth == 0 || json->after_key || !(json->is_object & level));
	bool comma = !json->after_key && json->depth > 0 && (json->has_items & level);
	char text[DECIMAL_MAX + 4], *at = text + sizeof(text);
	for (; places > 0 && value % 10 == 0; places--)
		value /= 10;
	if (places > 0) {
		for (; places > 0; places--, value /= 10)
			*--at = (char)('0' + value % 10);
		*--at = '.';
	}
	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	if (negative)
		*--at = '-';
	if (comma)
		*--at = ',';
	if (!json->after_key)
		json->has_items |= level;
	json->after_key = false;
	put(json, at, (size_t)(text + sizeof(text) - at));
}

void json_int(struct json_writer *json, int64_t value)
{
	put_number(json, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0, 0);
}

void json_decimal(struct json_writer *json, int64_t value, unsigned places)
{
	assert(places < DECIMAL_MAX - 1);
	put_number(json, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0, places);
}

void json_uint(struct json_writer *json, uint64_t value)
{
	put_number(json, value, false, 0);
}

void json_double(struct json_writer *json, double value)
{
	char text[32] = "null";
	begin_value(json);
	if (isfinite(value)) {
		for (int digits = 15; digits <= 17; digits++) {
			snprintf(text, sizeof(text), "%.*g", digits, value);
			if (strtod(text, NULL) == value)
				break;
		}
		/* A locale may write the point as a comma. */
		char *comma = strchr(text, ',');
		if (comma)
			*comma = '.';
	}
	put(json, text, strlen(text));
}

void json_raw(struct json_writer *json, struct bytes text)
{
	begin_value(json);
	put(json, text.data, text.len);
}

void json_bool(struct json_writer *json, bool value)
{
	begin_value(json);
	put(json, value ? "true" : "false", value ? 4 : 5);
}

void json_nil(struct json_writer *json)
{
	begin_value(json);
	put(json, "null", 4);
}

int json_finish(struct json_writer *json, struct error *err)
{
	int r = buffer_status(json->out);
	if (r == -ENOMEM)
		return error_nomem(err);
	if (r < 0 && r != -E2BIG)
		return error_set_errno(err, r, "cannot send the response");
	if (r < 0)
		return error_set(err, r, "the JSON response exceeds its limit of %zu bytes; narrow the request",
				 json->out->max);
	assert(json->depth == 0 && !json->after_key);
	return 0;
}

#define DEFINE_MEMBER(kind, type)                                                                                              \
	void json_member_##kind(struct json_writer *json, const char *key, type value)                                         \
	{                                                                                                                      \
		json_key(json, key);                                                                                           \
		json_##kind(json, value);                                                                                      \
	}
DEFINE_MEMBER(cstring, const char *)
DEFINE_MEMBER(bytes, struct bytes)
DEFINE_MEMBER(int, int64_t)
DEFINE_MEMBER(uint, uint64_t)
DEFINE_MEMBER(double, double)
DEFINE_MEMBER(bool, bool)

void json_member_null(struct json_writer *json, const char *key)
{
	json_key(json, key);
	json_nil(json);
}

void json_member_object(struct json_writer *json, const char *key)
{
	json_key(json, key);
	json_begin_object(json);
}

void json_member_array(struct json_writer *json, const char *key)
{
	json_key(json, key);
	json_begin_array(json);
}
