/* SPDX-License-Identifier: Apache-2.0 */
/* A message as JSON. Essay at the top of protobuf_json_read.c. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "codec/protobuf_json_int.h"

/* Where in a message the occurrences of a field are. */
struct extent {
	const uint8_t *first, *last;
	size_t count;
};

static int write_message(struct json_writer *json, const struct pb_json_message *message, struct bytes binary,
			 struct error *err);

static const struct pb_json_field *field_of(const struct pb_json_message *message, uint32_t number, size_t *ret_index)
{
	for (size_t i = 0; i < message->count; i++)
		if (message->fields[i].number == number) {
			*ret_index = i;
			return &message->fields[i];
		}
	return NULL;
}

static double real_of(enum pb_json_kind kind, uint64_t bits)
{
	double value;
	float narrow;
	uint32_t low = (uint32_t)bits;
	memcpy(&value, &bits, sizeof(value));
	memcpy(&narrow, &low, sizeof(narrow));
	return kind == PB_JSON_DOUBLE ? value : (double)narrow;
}

/* A float has fewer digits than the double that it becomes: 0.1f is 0.1, not 0.10000000149011612. */
static void write_real(struct json_writer *json, enum pb_json_kind kind, uint64_t bits)
{
	double value = real_of(kind, bits);
	char text[32];
	if (!isfinite(value)) {
		json_cstring(json, isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
		return;
	}
	double shorter = value;
	for (int digits = 6; kind == PB_JSON_FLOAT && digits <= 9; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (text_parse_double(text, &shorter, NULL) == 0 && (double)(float)shorter == value)
			break;
		shorter = value;
	}
	json_double(json, shorter);
}

/* What the wire holds as the number that it means. */
static int64_t signed_of(enum pb_json_kind kind, uint64_t value)
{
	switch (kind) {
	case PB_JSON_SINT32: return (int32_t)((uint32_t)value >> 1 ^ (0 - ((uint32_t)value & 1)));
	case PB_JSON_SINT64: return (int64_t)(value >> 1 ^ (0 - (value & 1)));
	case PB_JSON_INT32:
	case PB_JSON_SFIXED32:
	case PB_JSON_ENUM: return (int32_t)value;
	default: return (int64_t)value;
	}
}

static void write_enum(struct json_writer *json, const struct pb_json_field *field, int32_t value)
{
	for (const struct pb_json_enum *name = field->names; name && name->name; name++)
		if (name->number == value) {
			json_cstring(json, name->name);
			return;
		}
	json_int(json, value);
}

static void write_number(struct json_writer *json, const struct pb_json_field *field, uint64_t value)
{
	char text[TEXT_NUMBER_MAX];
	int64_t number = signed_of(field->kind, value);
	if (field->kind == PB_JSON_BOOL) {
		json_bool(json, value != 0);
	} else if (pb_json_is_real(field->kind)) {
		write_real(json, field->kind, value);
	} else if (field->kind == PB_JSON_ENUM) {
		write_enum(json, field, (int32_t)number);
	} else if (pb_json_is_narrow(field->kind)) {
		json_int(json, pb_json_is_signed(field->kind) ? number : (int64_t)(uint32_t)value);
	} else if (pb_json_is_signed(field->kind)) {
		snprintf(text, sizeof(text), "%lld", (long long)number);
		json_cstring(json, text);
	} else {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
		json_cstring(json, text);
	}
}

static void append_fraction(char *text, size_t size, int64_t nanos)
{
	size_t len = strlen(text);
	if (nanos % NS_PER_MS == 0)
		snprintf(text + len, size - len, ".%03d", (int)(nanos / NS_PER_MS));
	else if (nanos % 1000 == 0)
		snprintf(text + len, size - len, ".%06d", (int)(nanos / 1000));
	else
		snprintf(text + len, size - len, ".%09d", (int)nanos);
}

static int write_time(struct json_writer *json, enum pb_json_kind kind, struct bytes binary, struct error *err)
{
	struct pb_field field;
	int64_t seconds = 0, nanos = 0;
	char text[64];
	struct pb_cursor cursor = pb_open(binary);
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number == 1 && field.wire == PB_VARINT)
			seconds = (int64_t)field.value;
		else if (field.number == 2 && field.wire == PB_VARINT)
			nanos = (int32_t)field.value;
	}
	if (r < 0)
		return r;
	bool negative = seconds < 0 || nanos < 0;
	time_t when = (time_t)seconds;
	struct tm tm;
	if (kind == PB_JSON_DURATION) {
		if (llabs(nanos) >= NS_PER_S || seconds > PB_JSON_DURATION_SECONDS_MAX ||
		    seconds < -PB_JSON_DURATION_SECONDS_MAX || (seconds < 0 && nanos > 0) || (seconds > 0 && nanos < 0))
			return error_set(err, -EBADMSG, "a duration out of range");
		snprintf(text, sizeof(text), "%s%lld", negative ? "-" : "", llabs(seconds));
	} else if (nanos < 0 || nanos >= NS_PER_S || !gmtime_r(&when, &tm) || tm.tm_year < -1899 || tm.tm_year > 8099) {
		return error_set(err, -EBADMSG, "a time out of range");
	} else {
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	}
	if (nanos)
		append_fraction(text, sizeof(text), llabs(nanos));
	size_t len = strlen(text);
	snprintf(text + len, sizeof(text) - len, "%s", kind == PB_JSON_DURATION ? "s" : "Z");
	json_cstring(json, text);
	return 0;
}

static int write_bytes(struct json_writer *json, const struct pb_json_field *field, struct bytes data, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = json->out->max};
	int r = field->kind == PB_JSON_HEX ? text_append_hex(&text, data) : base64_encode(data, &text);
	if (r < 0)
		return error_set(err, r, "%s", r == -ENOMEM ? "out of memory" : "the JSON response exceeds its limit");
	json_bytes(json, buffer_bytes(&text));
	return 0;
}

static int write_value(struct json_writer *json, const struct pb_json_field *field, const struct pb_field *value,
		       struct error *err)
{
	switch (field->kind) {
	case PB_JSON_MESSAGE: return write_message(json, field->message, value->bytes, err);
	case PB_JSON_TIMESTAMP:
	case PB_JSON_DURATION: return write_time(json, field->kind, value->bytes, err);
	case PB_JSON_BYTES:
	case PB_JSON_HEX: return write_bytes(json, field, value->bytes, err);
	case PB_JSON_STRING: json_bytes(json, value->bytes); return 0;
	default: write_number(json, field, value->value); return 0;
	}
}

static int write_packed(struct json_writer *json, const struct pb_json_field *field, struct bytes packed, struct error *err)
{
	enum pb_wire wire = pb_json_wire_of(field->kind);
	size_t size = wire == PB_FIXED64 ? 8 : 4;
	uint64_t value;
	int r = 0;
	struct pb_cursor cursor = pb_open(packed);
	if (wire != PB_VARINT && packed.len % size)
		return error_set(err, -EBADMSG, "a list of %zu-byte numbers has %zu bytes", size, packed.len);
	while (cursor.at < cursor.end && !r) {
		if (wire == PB_VARINT) {
			r = pb_packed_varint(&cursor, &value, err);
		} else {
			value = 0;
			for (size_t i = 0; i < size; i++)
				value |= (uint64_t)cursor.at[i] << 8 * i;
			cursor.at += size;
		}
		if (!r)
			write_number(json, field, value);
	}
	return r;
}

static int write_entry(struct json_writer *json, const struct pb_json_field *map, struct bytes entry, struct error *err)
{
	const struct pb_json_field *key = pb_json_entry_field(map, 1), *value = pb_json_entry_field(map, 2);
	struct pb_field key_found = {0}, value_found = {0}, field;
	_cleanup_(buffer_release) struct buffer name = {.max = json->out->max};
	struct pb_cursor cursor = pb_open(entry);
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number == 1 && field.wire == pb_json_wire_of(key->kind))
			key_found = field;
		else if (field.number == 2 && field.wire == pb_json_wire_of(value->kind))
			value_found = field;
	}
	if (r < 0)
		return r;
	if (key->kind == PB_JSON_STRING)
		r = buffer_append(&name, key_found.bytes.data, key_found.bytes.len);
	else if (key->kind == PB_JSON_BOOL)
		r = buffer_append_string(&name, key_found.value ? "true" : "false");
	else if (pb_json_is_signed(key->kind))
		r = buffer_printf(&name, "%lld", (long long)signed_of(key->kind, key_found.value));
	else
		r = buffer_printf(&name, "%llu", (unsigned long long)key_found.value);
	const char *string = r < 0 ? NULL : buffer_string(&name);
	if (!string)
		return error_nomem(err);
	json_key(json, string);
	return write_value(json, value, &value_found, err);
}

static bool is_default(const struct pb_json_field *field, const struct pb_field *value)
{
	if (field->explicit_presence || field->kind == PB_JSON_MESSAGE || field->kind == PB_JSON_TIMESTAMP ||
	    field->kind == PB_JSON_DURATION)
		return false;
	return pb_json_wire_of(field->kind) == PB_BYTES ? value->bytes.len == 0 : value->value == 0;
}

/* A packed field without numbers: as if it were not there. */
static bool is_empty_list(const struct pb_json_field *field, const struct pb_field *value)
{
	return field->repeated && value->wire == PB_BYTES && pb_json_wire_of(field->kind) != PB_BYTES && value->bytes.len == 0;
}

static bool is_of(const struct pb_json_field *field, const struct pb_field *value)
{
	if (value->number != field->number || is_empty_list(field, value))
		return false;
	return value->wire == pb_json_wire_of(field->kind) || (field->repeated && value->wire == PB_BYTES);
}

static int write_list(struct json_writer *json, const struct pb_json_field *field, struct pb_cursor cursor, size_t count,
		      struct error *err)
{
	struct pb_field value;
	int r = 0;
	bool map = field->kind == PB_JSON_MAP;
	(map ? json_begin_object : json_begin_array)(json);
	while (count > 0 && !r && (r = pb_next(&cursor, &value, err)) > 0) {
		r = 0;
		if (!is_of(field, &value))
			continue;
		count--;
		if (map)
			r = write_entry(json, field, value.bytes, err);
		else if (value.wire == pb_json_wire_of(field->kind))
			r = write_value(json, field, &value, err);
		else
			r = write_packed(json, field, value.bytes, err);
	}
	if (!r)
		(map ? json_end_object : json_end_array)(json);
	return r;
}

static int write_field(struct json_writer *json, const struct pb_json_field *field, struct bytes binary, struct extent extent,
		       struct error *err)
{
	struct pb_cursor cursor = {extent.first, binary.data + binary.len, binary.data};
	struct pb_field value;
	if (field->repeated || field->kind == PB_JSON_MAP) {
		json_key(json, field->name);
		return write_list(json, field, cursor, extent.count, err);
	}
	cursor.at = extent.last;
	int r = pb_next(&cursor, &value, err);
	if (r < 0 || is_default(field, &value))
		return r < 0 ? r : 0;
	json_key(json, field->name);
	return write_value(json, field, &value, err);
}

#define FIELDS_MAX  64
#define JSON_LEVELS 60 /* of the 63 that struct json_writer has: room for what a field opens */

static int write_message(struct json_writer *json, const struct pb_json_message *message, struct bytes binary,
			 struct error *err)
{
	struct extent extents[FIELDS_MAX] = {0};
	struct pb_field value;
	size_t index;
	int r;
	assert(message->count <= FIELDS_MAX);
	if (json->depth >= JSON_LEVELS)
		return error_set(err, -E2BIG, "%s: messages are nested too deeply", message->name);
	struct pb_cursor cursor = pb_open(binary);
	const uint8_t *at = cursor.at;
	while ((r = pb_next(&cursor, &value, err)) > 0) {
		const struct pb_json_field *field = field_of(message, value.number, &index);
		if (field && is_of(field, &value)) {
			struct extent *extent = &extents[index];
			extent->first = extent->count++ ? extent->first : at;
			extent->last = at;
		} else if (field && !is_empty_list(field, &value)) {
			return pb_expect(&cursor, &value, pb_json_wire_of(field->kind), field->name, err);
		}
		at = cursor.at;
	}
	if (r < 0)
		return error_prefix(err, r, "%s", message->name);
	json_begin_object(json);
	for (size_t i = 0; i < message->count && r == 0 && buffer_status(json->out) == 0; i++)
		if (extents[i].count > 0)
			r = write_field(json, &message->fields[i], binary, extents[i], err);
	if (!r)
		json_end_object(json);
	return r;
}

int pb_json_from_binary(struct bytes binary, const struct pb_json_message *message, struct buffer *out, struct error *err)
{
	struct json_writer json = {.out = out};
	int r = write_message(&json, message, binary, err);
	return r < 0 ? r : json_finish(&json, err);
}
