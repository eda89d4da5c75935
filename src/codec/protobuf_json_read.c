/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protocol Buffers' JSON mapping.
 *
 *   int32, uint32, float, double   numbers; "NaN", "Infinity", "-Infinity" as texts
 *   int64, uint64, fixed64         texts of decimal digits
 *   bool, string                   as they are
 *   bytes                          a text in base64
 *   enum                           the name of the value, the number if it has none
 *   message                        an object; a repeated field an array, a map an object
 *   Timestamp, Duration            "2026-11-21T10:00:00.5Z", "1.5s"
 *
 * Who reads must be more lenient than who writes: numbers and texts that hold numbers are the same, and 1.0 is an integer.
 * Grafana's plugins, OpenTelemetry's exporters and protobuf.js each make use of another part of that.
 *
 * From JSON: the text is walked through once (codec/json_scan.h), and fields are written as they come. A submessage is begun
 * with one byte for its length and moved when it proves longer (codec/protobuf.c); with its nesting limited to
 * PB_JSON_DEPTH_MAX that costs so many passes over memory at most. Repeated numbers become one packed field.
 *
 * To JSON: protobuf fields may come in any order and be spread, while JSON needs those of a list together. So a message is gone
 * over once to see which fields there are and from where to where, and once for each of those. Reordering them in memory first
 * would cost less for messages that nobody sends.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "base/time.h"
#include "codec/base64.h"
#include "codec/json_scan.h"
#include "codec/protobuf_json_int.h"

#define NAME_MAX_BYTES	128
#define NUMBER_TEXT_MAX 64

#define LEVELS_MAX (2 * PB_JSON_DEPTH_MAX + 2) /* messages, lists and maps within each other */

struct reader {
	struct json_scan scan;
	struct error fault; /* of the scan */
	struct buffer *out;
	struct error *err;
	unsigned depth;
};
/* What a value is for. */
struct place {
	const struct pb_json_message *message; /* NULL: of the whole */
	const struct pb_json_field *field;
	bool is_item; /* of a list */
};

static int reader_fail(struct reader *reader, struct place place, int code, const char *what)
{
	return error_set(reader->err, code, "%s%s%s: %s", place.message ? place.message->name : "JSON", place.field ? "." : "",
			 place.field ? place.field->name : "", what);
}

/* After something was written. */
static int reader_check(struct reader *reader, struct place place)
{
	int r = buffer_status(reader->out);
	return r == 0 ? 0
		      : reader_fail(reader, place, r, r == -ENOMEM ? "out of memory" : "the message is larger than allowed");
}

static uint64_t bits_of_real(enum pb_json_kind kind, double value)
{
	uint64_t bits = 0;
	if (kind == PB_JSON_DOUBLE) {
		memcpy(&bits, &value, sizeof(value));
	} else {
		float narrow = (float)value;
		memcpy(&bits, &narrow, sizeof(narrow));
	}
	return bits;
}

/* One number in its wire form; raw: without its tag, within a packed field. */
static void put_number(struct buffer *out, const struct pb_json_field *field, uint64_t value, bool raw)
{
	enum pb_wire wire = pb_json_wire_of(field->kind);
	if (field->kind == PB_JSON_SINT32 || field->kind == PB_JSON_SINT64)
		value = value << 1 ^ (uint64_t)((int64_t)value >> 63);
	if (!raw)
		pb_write_raw_varint(out, (uint64_t)field->number << 3 | wire);
	if (wire == PB_VARINT) {
		pb_write_raw_varint(out, value);
		return;
	}
	uint8_t bytes[8];
	for (unsigned i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
	buffer_append(out, bytes, wire == PB_FIXED64 ? 8 : 4);
}

static bool parse_whole(enum pb_json_kind kind, const char *text, uint64_t *ret)
{
	int64_t value;
	double real;
	if (!pb_json_is_signed(kind) && text_parse_u64(text, ret, NULL) == 0)
		return !pb_json_is_narrow(kind) || *ret <= UINT32_MAX;
	if (text_parse_i64(text, &value, NULL) < 0) {
		/* 1e3 and 1.0 are integers, too */
		if (text_parse_double(text, &real, NULL) < 0 || real != floor(real))
			return false;
		if (!pb_json_is_signed(kind) && real >= 0 && real < 18446744073709551616.0) {
			*ret = (uint64_t)real;
			return !pb_json_is_narrow(kind) || *ret <= UINT32_MAX;
		}
		if (real < -9223372036854775808.0 || real >= 9223372036854775808.0)
			return false;
		value = (int64_t)real;
	}
	if ((!pb_json_is_signed(kind) && value < 0) || (pb_json_is_narrow(kind) && (value < INT32_MIN || value > INT32_MAX)))
		return false;
	*ret = (uint64_t)value;
	return true;
}

static bool parse_real(enum pb_json_kind kind, const char *text, uint64_t *ret)
{
	static const struct {
		const char *name;
		double value;
	} names[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
	double value;
	for (size_t i = 0; i < 3; i++)
		if (strcmp(text, names[i].name) == 0) {
			*ret = bits_of_real(kind, names[i].value);
			return true;
		}
	if (text_parse_double(text, &value, NULL) < 0 || !isfinite(value) || (kind == PB_JSON_FLOAT && !isfinite((float)value)))
		return false;
	*ret = bits_of_real(kind, value);
	return true;
}

static bool parse_enum(const struct pb_json_field *field, const char *text, uint64_t *ret)
{
	for (const struct pb_json_enum *name = field->names; name && name->name; name++)
		if (strcmp(name->name, text) == 0) {
			*ret = (uint64_t)(int64_t)name->number;
			return true;
		}
	return parse_whole(PB_JSON_ENUM, text, ret);
}

/* A number, bare or as a text. */
static int take_number_text(struct reader *reader, struct place place, struct bytes text)
{
	const struct pb_json_field *field = place.field;
	char number[NUMBER_TEXT_MAX];
	uint64_t value;
	if (text.len >= sizeof(number))
		return reader_fail(reader, place, -EBADMSG, "expected a number or a known name, got a long string");
	memcpy(number, text.data, text.len);
	number[text.len] = '\0';
	bool ok = pb_json_is_real(field->kind)	? parse_real(field->kind, number, &value)
		  : field->kind == PB_JSON_ENUM ? parse_enum(field, number, &value)
						: parse_whole(field->kind, number, &value);
	if (!ok || strlen(number) != text.len)
		return reader_fail(reader, place, -EBADMSG,
				   field->kind == PB_JSON_ENUM ? "not a known name, and not a number" : "number out of range");
	put_number(reader->out, field, value, place.is_item);
	return reader_check(reader, place);
}

/* Seconds and nanoseconds, as Timestamp and Duration have them. */
static void put_seconds(struct buffer *out, uint32_t field, int64_t seconds, int64_t nanos)
{
	size_t mark;
	pb_begin(out, field, &mark);
	pb_put_varint(out, 1, (uint64_t)seconds);
	pb_put_varint(out, 2, (uint64_t)nanos);
	pb_end(out, mark);
}

/* "12", "12.5", ".5": up to nine digits of fraction; the rest of the text through *at. */
static bool scan_fraction(const char **at, int64_t *nanos)
{
	int64_t unit = NS_PER_S;
	*nanos = 0;
	if (**at != '.')
		return true;
	for (++*at; **at >= '0' && **at <= '9'; ++*at) {
		unit /= 10;
		if (!unit)
			return false;
		*nanos += unit * (**at - '0');
	}
	return unit < NS_PER_S;
}

/* 0001 to 9999, all that RFC 3339 can write. */
static bool is_year_of_four_digits(int64_t seconds)
{
	return seconds >= -62135596800ll && seconds <= 253402300799ll;
}

static bool parse_timestamp(const char *text, int64_t *seconds, int64_t *nanos)
{
	struct tm tm = {0};
	const char *at = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	unsigned hours = 0, minutes = 0;
	char sign;
	int end = 0;
	if (!at || !scan_fraction(&at, nanos))
		return false;
	*seconds = timegm(&tm);
	if (strcmp(at, "Z") == 0)
		return is_year_of_four_digits(*seconds);
	if (sscanf(at, "%c%2u:%2u%n", &sign, &hours, &minutes, &end) != 3 || end != 6 || at[end] || hours > 23 ||
	    minutes > 59 || (sign != '+' && sign != '-'))
		return false;
	int64_t offset = (int64_t)hours * 3600 + minutes * 60;
	*seconds -= sign == '-' ? -offset : offset;
	return is_year_of_four_digits(*seconds);
}

static bool parse_duration(const char *text, int64_t *seconds, int64_t *nanos)
{
	bool negative = *text == '-';
	const char *at = text + negative;
	unsigned digits = 0;
	*seconds = 0;
	for (; *at >= '0' && *at <= '9' && digits < 13; at++, digits++)
		*seconds = *seconds * 10 + (*at - '0');
	if (!digits || !scan_fraction(&at, nanos) || strcmp(at, "s") != 0 || *seconds > PB_JSON_DURATION_SECONDS_MAX)
		return false;
	if (negative) {
		*seconds = -*seconds;
		*nanos = -*nanos;
	}
	return true;
}

static int take_time(struct reader *reader, struct place place, struct bytes text)
{
	char copy[NUMBER_TEXT_MAX];
	int64_t seconds, nanos;
	bool timestamp = place.field->kind == PB_JSON_TIMESTAMP, ok = text.len < sizeof(copy);
	snprintf(copy, sizeof(copy), "%.*s", ok ? (int)text.len : 0, (const char *)text.data);
	ok = ok && (timestamp ? parse_timestamp : parse_duration)(copy, &seconds, &nanos);
	if (!ok)
		return reader_fail(reader, place, -EBADMSG,
				   timestamp ? "expected a time such as \"2026-11-21T10:00:00Z\""
					     : "expected a duration such as \"1.5s\"");
	put_seconds(reader->out, place.field->number, seconds, nanos);
	return reader_check(reader, place);
}

static int take_bytes(struct reader *reader, struct place place, struct bytes text)
{
	bool is_hex = place.field->kind == PB_JSON_HEX;
	size_t mark;
	pb_begin(reader->out, place.field->number, &mark);
	int r = is_hex ? text_parse_hex(text, reader->out) : base64_decode(text, reader->out);
	if (r == -EBADMSG || r == -EINVAL)
		return reader_fail(reader, place, -EBADMSG, is_hex ? "not hexadecimal digits" : "not base64");
	pb_end(reader->out, mark);
	return reader_check(reader, place);
}

static int take_text(struct reader *reader, struct place place, struct bytes text)
{
	switch (place.field->kind) {
	case PB_JSON_STRING:
		if (!text_is_utf8(text))
			return json_scan_fail(&reader->scan, "a string is not UTF-8");
		pb_write_bytes(reader->out, place.field->number, text.data, text.len);
		return reader_check(reader, place);
	case PB_JSON_BYTES:
	case PB_JSON_HEX: return take_bytes(reader, place, text);
	case PB_JSON_TIMESTAMP:
	case PB_JSON_DURATION: return take_time(reader, place, text);
	case PB_JSON_BOOL:
	case PB_JSON_MESSAGE: return reader_fail(reader, place, -EBADMSG, "unexpected string");
	default: return take_number_text(reader, place, text);
	}
}

/* true, false, null or a number. */
static int take_scalar(struct reader *reader, struct place place, struct bytes text)
{
	const struct pb_json_field *field = place.field;
	bool is_literal = *text.data == 't' || *text.data == 'f';
	if (is_literal != (field->kind == PB_JSON_BOOL) || pb_json_wire_of(field->kind) == PB_BYTES)
		return reader_fail(reader, place, -EBADMSG, is_literal ? "unexpected boolean" : "unexpected number");
	if (!is_literal)
		return take_number_text(reader, place, text);
	put_number(reader->out, field, *text.data == 't', place.is_item);
	return reader_check(reader, place);
}

static int read_message(struct reader *reader, const struct pb_json_message *message);
static int read_map(struct reader *reader, struct place place);
static int read_list(struct reader *reader, struct place place);

static int read_object(struct reader *reader, struct place place)
{
	const struct pb_json_field *field = place.field;
	size_t mark;
	if (field->kind == PB_JSON_MAP)
		return read_map(reader, place);
	if (field->kind != PB_JSON_MESSAGE)
		return reader_fail(reader, place, -EBADMSG, "unexpected object");
	if (field->repeated && !place.is_item)
		return reader_fail(reader, place, -EBADMSG, "expected an array");
	pb_begin(reader->out, field->number, &mark);
	int r = read_message(reader, field->message);
	if (r < 0)
		return r;
	pb_end(reader->out, mark);
	return reader_check(reader, place);
}

static int read_value(struct reader *reader, struct place place)
{
	const struct pb_json_field *field = place.field;
	struct json_scan *scan = &reader->scan;
	struct bytes text;
	char kind = json_scan_peek(scan);
	if (kind == '{')
		return read_object(reader, place);
	if (kind == '[')
		return read_list(reader, place);
	int r = kind == '"' ? json_scan_text(scan, &text) : json_scan_scalar(scan, &text);
	if (r < 0)
		return r;
	if (kind == 'n')
		return place.is_item ? reader_fail(reader, place, -EBADMSG, "null in an array") : 0;
	if ((field->repeated && !place.is_item) || field->kind == PB_JSON_MAP)
		return reader_fail(reader, place, -EBADMSG, field->repeated ? "expected an array" : "expected an object");
	return kind == '"' ? take_text(reader, place, text) : take_scalar(reader, place, text);
}

/* Into an object or array; left again at its end. */
static int enter(struct reader *reader, struct place place, char kind)
{
	if (reader->depth++ == LEVELS_MAX)
		return reader_fail(reader, place, -E2BIG, "messages are nested too deeply");
	return json_scan_open(&reader->scan, kind);
}

static int read_list(struct reader *reader, struct place place)
{
	struct buffer *out = reader->out;
	size_t start = out->len, mark = 0;
	bool is_packed = pb_json_wire_of(place.field->kind) != PB_BYTES;
	if (!place.field->repeated || place.is_item)
		return reader_fail(reader, place, -EBADMSG, "unexpected array");
	if (is_packed)
		pb_begin(out, place.field->number, &mark);
	place.is_item = true;
	int r = enter(reader, place, '[');
	while (r == 0 && (r = json_scan_item(&reader->scan)) > 0)
		r = read_value(reader, place);
	reader->depth--;
	if (r < 0)
		return r;
	if (is_packed && out->len == mark + 1)
		buffer_truncate(out, start); /* an empty list is no field */
	else if (is_packed)
		pb_end(out, mark);
	return reader_check(reader, place);
}

static int put_key(struct reader *reader, struct place place, const struct pb_json_field *key, struct bytes name)
{
	uint64_t value;
	char number[NUMBER_TEXT_MAX];
	if (key->kind == PB_JSON_STRING && !text_is_utf8(name))
		return json_scan_fail(&reader->scan, "a string is not UTF-8");
	if (key->kind == PB_JSON_STRING) {
		pb_write_bytes(reader->out, 1, name.data, name.len);
		return reader_check(reader, place);
	}
	snprintf(number, sizeof(number), "%.*s", name.len < sizeof(number) ? (int)name.len : 0, (const char *)name.data);
	if (key->kind == PB_JSON_BOOL && (!strcmp(number, "true") || !strcmp(number, "false")))
		value = number[0] == 't';
	else if (!parse_whole(key->kind, number, &value))
		return reader_fail(reader, place, -EBADMSG, "a key of the wrong type");
	put_number(reader->out, key, value, false);
	return reader_check(reader, place);
}

static int read_map(struct reader *reader, struct place place)
{
	const struct pb_json_field *map = place.field, *key = pb_json_entry_field(map, 1);
	struct bytes name;
	size_t mark;
	place = (struct place){.message = place.message, .field = pb_json_entry_field(map, 2)};
	int r = enter(reader, place, '{');
	while (r == 0 && (r = json_scan_member(&reader->scan, &name)) > 0) {
		pb_begin(reader->out, map->number, &mark);
		r = put_key(reader, place, key, name);
		if (r == 0)
			r = read_value(reader, place);
		if (r == 0) {
			pb_end(reader->out, mark);
			r = reader_check(reader, place);
		}
	}
	reader->depth--;
	return r;
}

/* "stack_trace_selector" and "stackTraceSelector" are the same, and "profile_typeID" is "profileTypeID". */
static bool name_matches(const char *name, struct bytes given)
{
	size_t at = 0;
	bool raise = false;
	for (size_t i = 0; i < given.len; i++) {
		uint8_t c = given.data[i];
		if (c == '_') {
			raise = true;
			continue;
		}
		if (raise && c >= 'a' && c <= 'z')
			c = (uint8_t)(c - 'a' + 'A');
		raise = false;
		if ((uint8_t)name[at] != c || !c)
			return false;
		at++;
	}
	return name[at] == '\0';
}

static const struct pb_json_field *find_field(const struct pb_json_message *message, struct bytes name)
{
	for (size_t i = 0; i < message->count && name.len < NAME_MAX_BYTES; i++)
		if (name_matches(message->fields[i].name, name))
			return &message->fields[i];
	return NULL;
}

static int read_message(struct reader *reader, const struct pb_json_message *message)
{
	struct place place = {.message = message};
	struct bytes name;
	int r = enter(reader, place, '{');
	while (r == 0 && (r = json_scan_member(&reader->scan, &name)) > 0) {
		place.field = find_field(message, name);
		r = place.field ? read_value(reader, place) : json_scan_skip(&reader->scan);
	}
	reader->depth--;
	return r;
}

int pb_json_to_binary(struct bytes json, const struct pb_json_message *message, struct buffer *out, struct error *err)
{
	struct reader reader = {.out = out, .err = err};
	int r = json_scan_init_bytes(&reader.scan, json, &reader.fault);
	if (r == 0 && json_scan_peek(&reader.scan) != '{' && json_scan_peek(&reader.scan))
		r = reader_fail(&reader, (struct place){0}, -EBADMSG, "expected an object");
	if (r == 0)
		r = read_message(&reader, message);
	if (r == 0)
		r = json_scan_finish(&reader.scan);
	if (reader.scan.error == -ENOMEM)
		error_nomem(err);
	else if (reader.scan.error)
		error_set(err, r, "not JSON %s", reader.fault.message);
	json_scan_release(&reader.scan);
	return r;
}
