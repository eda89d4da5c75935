/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AnyValue (opentelemetry.proto.common.v1), the value of an attribute:
 *
 *   1 string  2 bool  3 int (varint)  4 double (fixed64)  5 array { 1 values }  6 kvlist { 1 KeyValue }  7 bytes
 *   8 index of a string in the dictionary
 *   KeyValue  1 key  2 value  3 index of the key in the dictionary
 *
 * One of them is set; of several the last one counts, as protobuf says of a oneof.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "codec/json.h"
#include "format/format_int.h"
#include "format/otlp/otlp_int.h"

/* Lists in lists. */
#define NESTING_MAX 16

int otlp_read_value(const struct otlp_dictionary *strings, struct pb_cursor cursor, struct otlp_value *ret, struct error *err)
{
	static const enum pb_wire wires[] = {0,	       PB_BYTES, PB_VARINT, PB_VARINT, PB_FIXED64,
					     PB_BYTES, PB_BYTES, PB_BYTES,  PB_VARINT};
	static const enum otlp_value_kind kinds[] = {OTLP_NONE,	 OTLP_STRING, OTLP_BOOL,  OTLP_INT,   OTLP_DOUBLE,
						     OTLP_ARRAY, OTLP_KVLIST, OTLP_BYTES, OTLP_STRING};
	struct pb_field field;
	int r;
	*ret = (struct otlp_value){0};
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number > 8)
			continue;
		r = pb_expect(&cursor, &field, wires[field.number], "AnyValue", err);
		if (r < 0)
			return r;
		*ret = (struct otlp_value){.kind = kinds[field.number]};
		if (field.wire == PB_BYTES)
			ret->bytes = field.bytes;
		else
			ret->number = field.value;
		if (field.number != 8)
			continue;
		size_t count = strings->tables[OTLP_STRINGS].count;
		if (field.value >= count && field.value != 0)
			return error_set(err, -EBADMSG,
					 "AnyValue.string_value_strindex: index %lld is outside string_table of %zu entries",
					 (long long)field.value, count);
		ret->bytes = otlp_string_bytes(strings, field.value);
	}
	return r;
}

static int write_json(const struct otlp_dictionary *strings, struct json_writer *json, const struct otlp_value *value,
		      unsigned depth, struct error *err);

static int write_json_nested(const struct otlp_dictionary *strings, struct json_writer *json, struct pb_cursor cursor,
			     unsigned depth, struct error *err)
{
	struct otlp_value value;
	int r = otlp_read_value(strings, cursor, &value, err);
	return r < 0 ? r : write_json(strings, json, &value, depth + 1, err);
}

/* A KeyValue as a key and a value of a JSON object. */
static int write_json_pair(const struct otlp_dictionary *strings, struct json_writer *json, struct pb_cursor cursor,
			   unsigned depth, struct error *err)
{
	struct pb_field field;
	struct bytes key = {0}, value = {0};
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number == 1 && field.wire == PB_BYTES)
			key = field.bytes;
		else if (field.number == 2 && field.wire == PB_BYTES)
			value = field.bytes;
		else if (field.number == 3 && field.wire == PB_VARINT)
			key = otlp_string_bytes(strings, field.value);
	}
	if (r < 0)
		return r;
	struct buffer name = {.max = key.len};
	r = buffer_append(&name, key.data, key.len);
	const char *text = r < 0 ? NULL : buffer_string(&name);
	if (text)
		json_key(json, text);
	buffer_release(&name);
	if (!text)
		return error_nomem(err);
	return write_json_nested(strings, json, pb_open_nested(&cursor, value), depth, err);
}

static int write_json_items(const struct otlp_dictionary *strings, struct json_writer *json, const struct otlp_value *value,
			    unsigned depth, struct error *err)
{
	struct pb_cursor nested;
	struct pb_field field;
	struct pb_cursor cursor = pb_open(value->bytes);
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number != 1 || field.wire != PB_BYTES)
			continue;
		nested = pb_open_nested(&cursor, field.bytes);
		r = value->kind == OTLP_KVLIST ? write_json_pair(strings, json, nested, depth, err)
					       : write_json_nested(strings, json, nested, depth, err);
		if (r < 0)
			return r;
	}
	return r;
}

static double double_of(uint64_t bits)
{
	double value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

static int write_json(const struct otlp_dictionary *strings, struct json_writer *json, const struct otlp_value *value,
		      unsigned depth, struct error *err)
{
	int r = 0;
	if (depth > NESTING_MAX)
		return error_set(err, -EBADMSG, "an attribute's lists are nested deeper than %d", NESTING_MAX);
	switch (value->kind) {
	case OTLP_NONE: json_nil(json); break;
	case OTLP_STRING: json_bytes(json, value->bytes); break;
	case OTLP_BOOL: json_bool(json, value->number != 0); break;
	case OTLP_INT: json_int(json, (int64_t)value->number); break;
	case OTLP_DOUBLE: json_double(json, double_of(value->number)); break;
	case OTLP_ARRAY:
		json_begin_array(json);
		r = write_json_items(strings, json, value, depth, err);
		if (r == 0)
			json_end_array(json);
		break;
	case OTLP_KVLIST:
		json_begin_object(json);
		r = write_json_items(strings, json, value, depth, err);
		if (r == 0)
			json_end_object(json);
		break;
	case OTLP_BYTES: {
		struct buffer hex = {.max = SIZE_MAX};
		r = text_append_hex(&hex, value->bytes);
		if (r == 0)
			json_bytes(json, buffer_bytes(&hex));
		else
			r = error_nomem(err);
		buffer_release(&hex);
		break;
	}
	}
	return r;
}

int otlp_value_text(const struct otlp_dictionary *strings, const struct otlp_value *value, struct buffer *out,
		    struct error *err)
{
	int r;
	if (value->kind == OTLP_STRING)
		r = buffer_append(out, value->bytes.data, value->bytes.len);
	else if (value->kind == OTLP_BYTES)
		r = text_append_hex(out, value->bytes);
	else if (value->kind == OTLP_DOUBLE && isnan(double_of(value->number)))
		r = buffer_append_string(out, "NaN");
	else if (value->kind == OTLP_DOUBLE && isinf(double_of(value->number)))
		r = buffer_append_string(out, double_of(value->number) < 0 ? "-Infinity" : "Infinity");
	else {
		struct json_writer json = {.out = out};
		r = write_json(strings, &json, value, 0, err);
		return r < 0 ? r : json_finish(&json, err);
	}
	return r < 0 ? format_buffer_error(r, out, "an attribute", err) : 0;
}
