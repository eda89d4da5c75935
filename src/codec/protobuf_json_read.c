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
 * From JSON: yajl calls back for each token, and what it means depends on where it stands, so there is a stack of what is open:
 * a message, a list, a map, or something unknown that is skipped (which is only counted). Fields are written as they come. A
 * submessage is begun with one byte for its length and moved when it proves longer (codec/protobuf.c); with its nesting limited
 * to PB_JSON_DEPTH_MAX that costs so many passes over memory at most. Repeated numbers become one packed field.
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
#include "codec/json_parse.h"
#include "codec/protobuf_json_int.h"

#define NAME_MAX_BYTES	128
#define NUMBER_TEXT_MAX 64

enum level_kind { LEVEL_MESSAGE, LEVEL_LIST, LEVEL_MAP };
struct level {
	enum level_kind kind;
	const struct pb_json_message *message; /* MESSAGE: whose members come */
	const struct pb_json_field *field;     /* what the next value is for; of a LIST and a MAP the same for all */
	const struct pb_json_field *map;       /* MAP: the field; `field` is the value of its entries */
	bool has_mark;			       /* a submessage or packed field is open in the output */
	size_t mark, start;
};
struct reader {
	struct buffer *out;
	struct error *err;
	const struct pb_json_message *root;
	struct level levels[2 * PB_JSON_DEPTH_MAX + 2];
	unsigned depth;	   /* levels in use */
	unsigned skipping; /* arrays and objects open below something unknown */
	bool skip_value;   /* the next value belongs to an unknown member */
	int result;
};

static int reader_fail(struct reader *reader, int code, const char *what)
{
	const struct level *top = reader->depth ? &reader->levels[reader->depth - 1] : NULL;
	const struct pb_json_message *message = NULL;
	for (unsigned i = reader->depth; i-- > 0 && !message;)
		message = reader->levels[i].message;
	reader->result = error_set(reader->err, code, "%s%s%s: %s", message ? message->name : "JSON",
				   top && top->field ? "." : "", top && top->field ? top->field->name : "", what);
	return 0;
}

static int reader_check(struct reader *reader, int r)
{
	if (r == 0)
		return reader->result == 0;
	return reader_fail(reader, r, r == -ENOMEM ? "out of memory" : "the message is larger than allowed");
}

static struct level *reader_top(struct reader *reader)
{
	return reader->depth ? &reader->levels[reader->depth - 1] : NULL;
}

/* The field that the value at hand is for; NULL: skip it. */
static const struct pb_json_field *reader_field(struct reader *reader)
{
	struct level *top = reader_top(reader);
	if (reader->skipping || reader->skip_value || !top)
		return NULL;
	return top->field;
}

/* A value of a member or an item is complete. */
static void value_done(struct reader *reader)
{
	struct level *top = reader_top(reader);
	if (reader->skipping)
		return;
	reader->skip_value = false;
	if (top && top->kind == LEVEL_MESSAGE)
		top->field = NULL;
	if (!top || top->kind != LEVEL_MAP || !top->has_mark)
		return;
	top->has_mark = false;
	reader_check(reader, pb_end(reader->out, top->mark));
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
static int put_number(struct buffer *out, const struct pb_json_field *field, uint64_t value, bool raw)
{
	enum pb_wire wire = pb_json_wire_of(field->kind);
	if (field->kind == PB_JSON_SINT32 || field->kind == PB_JSON_SINT64)
		value = value << 1 ^ (uint64_t)((int64_t)value >> 63);
	if (wire == PB_VARINT)
		return raw ? pb_write_raw_varint(out, value) : pb_write_varint(out, field->number, value);
	uint8_t bytes[8];
	for (unsigned i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
	int r = raw ? 0 : pb_write_raw_varint(out, (uint64_t)field->number << 3 | wire);
	return r < 0 ? r : buffer_append(out, bytes, wire == PB_FIXED64 ? 8 : 4);
}

static int take_number(struct reader *reader, const struct pb_json_field *field, uint64_t value)
{
	struct level *top = reader_top(reader);
	int r = put_number(reader->out, field, value, top->kind == LEVEL_LIST);
	value_done(reader);
	return reader_check(reader, r);
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

/* A number, bare or as a text; also the keys of maps. */
static int take_number_text(struct reader *reader, const struct pb_json_field *field, struct bytes text)
{
	char number[NUMBER_TEXT_MAX];
	uint64_t value;
	if (text.len >= sizeof(number))
		return reader_fail(reader, -EBADMSG, "expected a number or a known name, got a long string");
	memcpy(number, text.data, text.len);
	number[text.len] = '\0';
	bool ok = pb_json_is_real(field->kind)	? parse_real(field->kind, number, &value)
		  : field->kind == PB_JSON_ENUM ? parse_enum(field, number, &value)
						: parse_whole(field->kind, number, &value);
	if (!ok || strlen(number) != text.len)
		return reader_fail(reader, -EBADMSG,
				   field->kind == PB_JSON_ENUM ? "not a known name, and not a number" : "number out of range");
	return take_number(reader, field, value);
}

/* Seconds and nanoseconds, as Timestamp and Duration have them. */
static int put_seconds(struct buffer *out, uint32_t field, int64_t seconds, int64_t nanos)
{
	size_t mark;
	int r = pb_begin(out, field, &mark);
	if (!r && seconds)
		r = pb_write_varint(out, 1, (uint64_t)seconds);
	if (!r && nanos)
		r = pb_write_varint(out, 2, (uint64_t)nanos);
	return r < 0 ? r : pb_end(out, mark);
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

static int take_time(struct reader *reader, const struct pb_json_field *field, struct bytes text)
{
	char copy[NUMBER_TEXT_MAX];
	int64_t seconds, nanos;
	bool timestamp = field->kind == PB_JSON_TIMESTAMP, ok = text.len < sizeof(copy);
	snprintf(copy, sizeof(copy), "%.*s", ok ? (int)text.len : 0, (const char *)text.data);
	ok = ok && (timestamp ? parse_timestamp : parse_duration)(copy, &seconds, &nanos);
	if (!ok)
		return reader_fail(reader, -EBADMSG,
				   timestamp ? "expected a time such as \"2026-11-21T10:00:00Z\""
					     : "expected a duration such as \"1.5s\"");
	int r = put_seconds(reader->out, field->number, seconds, nanos);
	value_done(reader);
	return reader_check(reader, r);
}

static int take_bytes(struct reader *reader, const struct pb_json_field *field, struct bytes text)
{
	struct buffer *out = reader->out;
	size_t mark;
	int r = pb_begin(out, field->number, &mark);
	if (!r)
		r = field->kind == PB_JSON_HEX ? text_parse_hex(text, out) : base64_decode(text, out);
	if (r == -EBADMSG || r == -EINVAL)
		return reader_fail(reader, -EBADMSG, field->kind == PB_JSON_HEX ? "not hexadecimal digits" : "not base64");
	if (!r)
		r = pb_end(out, mark);
	value_done(reader);
	return reader_check(reader, r);
}

static int take_text(struct reader *reader, const struct pb_json_field *field, struct bytes text)
{
	int r;
	switch (field->kind) {
	case PB_JSON_STRING:
		r = pb_write_bytes(reader->out, field->number, text.data, text.len);
		value_done(reader);
		return reader_check(reader, r);
	case PB_JSON_BYTES:
	case PB_JSON_HEX: return take_bytes(reader, field, text);
	case PB_JSON_TIMESTAMP:
	case PB_JSON_DURATION: return take_time(reader, field, text);
	case PB_JSON_BOOL:
	case PB_JSON_MESSAGE:
	case PB_JSON_MAP: return reader_fail(reader, -EBADMSG, "unexpected string");
	default: return take_number_text(reader, field, text);
	}
}

/* A value that is no array and no object: whether it goes to a field. */
static bool begin_scalar(struct reader *reader, const struct pb_json_field **ret)
{
	struct level *top = reader_top(reader);
	*ret = reader_field(reader);
	if (!top) {
		reader_fail(reader, -EBADMSG, "expected an object");
		return false;
	}
	if (!*ret) {
		value_done(reader);
		return false;
	}
	if (((*ret)->repeated && top->kind != LEVEL_LIST) || (*ret)->kind == PB_JSON_MAP) {
		reader_fail(reader, -EBADMSG, (*ret)->repeated ? "expected an array" : "expected an object");
		return false;
	}
	return true;
}

static int on_null(void *context)
{
	struct reader *reader = context;
	struct level *top = reader_top(reader);
	if (!top)
		return reader_fail(reader, -EBADMSG, "expected an object");
	if (!reader->skipping && top->kind == LEVEL_LIST)
		return reader_fail(reader, -EBADMSG, "null in an array");
	value_done(reader);
	return reader->result == 0;
}

static int on_boolean(void *context, int value)
{
	struct reader *reader = context;
	const struct pb_json_field *field;
	if (!begin_scalar(reader, &field))
		return reader->result == 0;
	if (field->kind != PB_JSON_BOOL)
		return reader_fail(reader, -EBADMSG, "unexpected boolean");
	return take_number(reader, field, value != 0);
}

static int on_number(void *context, const char *text, size_t len)
{
	struct reader *reader = context;
	const struct pb_json_field *field;
	if (!begin_scalar(reader, &field))
		return reader->result == 0;
	if (pb_json_wire_of(field->kind) == PB_BYTES || field->kind == PB_JSON_BOOL)
		return reader_fail(reader, -EBADMSG, "unexpected number");
	return take_number_text(reader, field, (struct bytes){(const uint8_t *)text, len});
}

static int on_text(void *context, const unsigned char *text, size_t len)
{
	struct reader *reader = context;
	const struct pb_json_field *field;
	if (!begin_scalar(reader, &field))
		return reader->result == 0;
	return take_text(reader, field, (struct bytes){text, len});
}

static int push_level(struct reader *reader, struct level level)
{
	if (reader->depth == sizeof(reader->levels) / sizeof(reader->levels[0]))
		return reader_fail(reader, -E2BIG, "messages are nested too deeply");
	reader->levels[reader->depth++] = level;
	return 1;
}

static int on_open_object(void *context)
{
	struct reader *reader = context;
	struct level *top = reader_top(reader);
	const struct pb_json_field *field = reader_field(reader);
	struct level level = {.kind = LEVEL_MESSAGE};
	if (!top) {
		level.message = reader->root;
		return push_level(reader, level);
	}
	if (reader->skipping || !field) {
		reader->skipping++;
		return 1;
	}
	if (field->kind == PB_JSON_MAP) {
		level = (struct level){.kind = LEVEL_MAP, .map = field, .field = pb_json_entry_field(field, 2)};
		return push_level(reader, level);
	}
	if (field->kind != PB_JSON_MESSAGE)
		return reader_fail(reader, -EBADMSG, "unexpected object");
	if (field->repeated && top->kind != LEVEL_LIST)
		return reader_fail(reader, -EBADMSG, "expected an array");
	level.message = field->message;
	level.has_mark = true;
	if (!reader_check(reader, pb_begin(reader->out, field->number, &level.mark)))
		return 0;
	return push_level(reader, level);
}

static int on_open_array(void *context)
{
	struct reader *reader = context;
	struct level *top = reader_top(reader);
	const struct pb_json_field *field = reader_field(reader);
	struct level level = {.kind = LEVEL_LIST, .field = field, .start = reader->out->len};
	if (!top)
		return reader_fail(reader, -EBADMSG, "expected an object");
	if (reader->skipping || !field) {
		reader->skipping++;
		return 1;
	}
	if (!field->repeated || top->kind == LEVEL_LIST)
		return reader_fail(reader, -EBADMSG, "unexpected array");
	level.has_mark = pb_json_wire_of(field->kind) != PB_BYTES;
	if (level.has_mark && !reader_check(reader, pb_begin(reader->out, field->number, &level.mark)))
		return 0;
	return push_level(reader, level);
}

static int on_close(void *context)
{
	struct reader *reader = context;
	if (reader->skipping) {
		if (--reader->skipping == 0)
			value_done(reader);
		return reader->result == 0;
	}
	struct level level = reader->levels[--reader->depth];
	if (level.kind == LEVEL_LIST && level.has_mark && reader->out->len == level.mark + 1)
		reader->out->len = level.start; /* an empty list is no field */
	else if (level.has_mark && !reader_check(reader, pb_end(reader->out, level.mark)))
		return 0;
	value_done(reader);
	return reader->result == 0;
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

static int open_entry(struct reader *reader, struct level *top, struct bytes name)
{
	const struct pb_json_field *key = pb_json_entry_field(top->map, 1);
	if (!reader_check(reader, pb_begin(reader->out, top->map->number, &top->mark)))
		return 0;
	top->has_mark = true;
	if (key->kind == PB_JSON_STRING)
		return reader_check(reader, pb_write_bytes(reader->out, 1, name.data, name.len));
	uint64_t value;
	char number[NUMBER_TEXT_MAX];
	snprintf(number, sizeof(number), "%.*s", name.len < sizeof(number) ? (int)name.len : 0, (const char *)name.data);
	if (key->kind == PB_JSON_BOOL && (!strcmp(number, "true") || !strcmp(number, "false")))
		value = number[0] == 't';
	else if (!parse_whole(key->kind, number, &value))
		return reader_fail(reader, -EBADMSG, "a key of the wrong type");
	return reader_check(reader, put_number(reader->out, key, value, false));
}

static int on_key(void *context, const unsigned char *text, size_t len)
{
	struct reader *reader = context;
	struct level *top = reader_top(reader);
	struct bytes name = {text, len};
	if (reader->skipping)
		return 1;
	if (top->kind == LEVEL_MAP)
		return open_entry(reader, top, name);
	top->field = NULL;
	for (size_t i = 0; i < top->message->count && !top->field && len < NAME_MAX_BYTES; i++)
		if (name_matches(top->message->fields[i].name, name))
			top->field = &top->message->fields[i];
	reader->skip_value = !top->field;
	return 1;
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_text,
	.yajl_start_map = on_open_object,
	.yajl_map_key = on_key,
	.yajl_end_map = on_close,
	.yajl_start_array = on_open_array,
	.yajl_end_array = on_close,
};

int pb_json_to_binary(struct bytes json, const struct pb_json_message *message, struct buffer *out, struct error *err)
{
	struct reader reader = {.out = out, .err = err, .root = message};
	size_t at;
	int r = json_parse(json, &callbacks, &reader, &at, err);
	return reader.result ? reader.result : r;
}
