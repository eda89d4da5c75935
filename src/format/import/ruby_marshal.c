/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ruby's Marshal, version 4.8 (ruby/marshal.c, doc/marshal.rdoc), as JSON: what a dump of plain values is made of.
 *
 *   4 8                  then one value
 *   0 T F                nil, true, false
 *   i NUMBER             NUMBER: a byte 0; 5 .. 127, -128 .. -5 stand for the number less (plus) 5; 1 .. 4, -1 .. -4 are how
 *                        many bytes follow, little-endian
 *   l + or - NUMBER ...  so many times two bytes, little-endian
 *   f NUMBER text        a decimal number
 *   " NUMBER bytes       a text; I before it, and NUMBER pairs of symbol and value behind it: its encoding
 *   : NUMBER bytes       a symbol, a text here
 *   ; NUMBER             the symbol of that number, in the order of their first use
 *   [ NUMBER values      an array
 *   { NUMBER pairs       a hash
 *   } NUMBER pairs       the same, and a value behind it (the default)
 *   @ NUMBER             the object of that number: texts, numbers in l and f, arrays and hashes, in the order in which they
 *                        begin
 *
 * Objects that are used again are written again, which `out`'s maximum bounds. Keys become texts.
 */
#include "format/import/ruby_marshal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/text.h"

#define DEPTH_MAX   200
#define OBJECTS_MAX (64u * 1024 * 1024)

struct span {
	size_t start, end; /* in out; end 0 = it is being written */
};
struct marshal {
	struct bytes rest;
	struct buffer *out;
	struct span *objects;
	size_t object_count, object_capacity;
	struct bytes *symbols;
	size_t symbol_count, symbol_capacity;
	unsigned depth;
	size_t cut; /* bytes of `out` that were taken back */
	struct error *err;
};

static int bad(struct marshal *m, const char *what)
{
	return error_set(m->err, -EBADMSG, "Ruby's Marshal: %s", what);
}

static int take_byte(struct marshal *m, uint8_t *ret)
{
	if (m->rest.len == 0)
		return bad(m, "truncated");
	*ret = m->rest.data[0];
	m->rest = bytes_skip(m->rest, 1);
	return 0;
}

static int take_number(struct marshal *m, int64_t *ret)
{
	uint8_t first = 0;
	int r = take_byte(m, &first);
	int8_t head = (int8_t)first;
	*ret = head > 4 ? head - 5 : head < -4 ? head + 5 : 0;
	if (r < 0 || head == 0 || head > 4 || head < -4)
		return r;
	unsigned count = (unsigned)(head > 0 ? head : -head);
	int64_t value = head > 0 ? 0 : -1;
	for (unsigned i = 0; i < count; i++) {
		uint8_t byte = 0;
		r = take_byte(m, &byte);
		if (r < 0)
			return r;
		value = (value & ~((int64_t)0xff << (8 * i))) | (int64_t)byte << (8 * i);
	}
	*ret = value;
	return 0;
}

static int take_bytes(struct marshal *m, struct bytes *ret)
{
	int64_t len;
	int r = take_number(m, &len);
	if (r < 0)
		return r;
	if (len < 0 || (uint64_t)len > m->rest.len)
		return bad(m, "truncated");
	*ret = (struct bytes){m->rest.data, (size_t)len};
	m->rest = bytes_skip(m->rest, (size_t)len);
	return 0;
}

/* ---- writing ---- */

static int status(struct marshal *m)
{
	int r = buffer_status(m->out);
	if (r == -ENOMEM)
		return error_nomem(m->err);
	return r < 0 ? error_set(m->err, r, "Ruby's Marshal: it grows beyond the limit") : 0;
}

static int put_text(struct marshal *m, struct bytes text)
{
	_cleanup_(buffer_release) struct buffer safe = {.max = SIZE_MAX};
	if (text_append_utf8(&safe, text) < 0)
		return error_nomem(m->err);
	buffer_append_byte(m->out, '"');
	for (size_t i = 0; i < safe.len; i++) {
		uint8_t c = safe.data[i];
		if (c == '"' || c == '\\')
			buffer_append_byte(m->out, '\\');
		if (c < 0x20)
			buffer_printf(m->out, "\\u%04x", c);
		else
			buffer_append_byte(m->out, c);
	}
	buffer_append_byte(m->out, '"');
	return status(m);
}

static int put_symbol(struct marshal *m, uint8_t kind)
{
	int64_t number;
	struct bytes text;
	int r = kind == ':' ? take_bytes(m, &text) : take_number(m, &number);
	if (r < 0)
		return r;
	if (kind == ';' && (number < 0 || (uint64_t)number >= m->symbol_count))
		return bad(m, "a symbol that was not there before");
	if (kind == ';')
		return put_text(m, m->symbols[number]);
	if (array_push(&m->symbols, &m->symbol_count, &m->symbol_capacity, OBJECTS_MAX, text) < 0)
		return error_nomem(m->err);
	return put_text(m, text);
}

static int put_integer(struct marshal *m)
{
	int64_t number;
	int r = take_number(m, &number);
	if (r < 0)
		return r;
	buffer_printf(m->out, "%lld", (long long)number);
	return status(m);
}

/* Those of more than 63 bits become null. */
static int put_long_integer(struct marshal *m)
{
	uint8_t sign = 0, byte = 0;
	int64_t words;
	uint64_t value = 0;
	bool fits = true;
	int r = take_byte(m, &sign);
	if (r == 0)
		r = take_number(m, &words);
	if (r < 0)
		return r;
	if (words < 0 || (uint64_t)words > m->rest.len / 2)
		return bad(m, "truncated");
	for (uint64_t i = 0; i < 2 * (uint64_t)words; i++) {
		take_byte(m, &byte);
		fits &= i < 8 || byte == 0;
		value |= i < 8 ? (uint64_t)byte << (8 * i) : 0;
	}
	if (!fits || value > INT64_MAX)
		buffer_append_string(m->out, "null");
	else
		buffer_printf(m->out, "%s%llu", sign == '-' && value ? "-" : "", (unsigned long long)value);
	return status(m);
}

static int put_real(struct marshal *m)
{
	struct bytes text;
	char copy[64];
	double value;
	int r = take_bytes(m, &text);
	if (r < 0)
		return r;
	snprintf(copy, sizeof(copy), "%.*s", (int)(text.len < 63 ? text.len : 63), (const char *)text.data);
	if (text_parse_double(copy, &value, NULL) == 0 && value > -1e300 && value < 1e300)
		buffer_printf(m->out, "%.17g", value);
	else
		buffer_append_string(m->out, "null"); /* inf, nan */
	return status(m);
}

static int put_value(struct marshal *m);

/* Takes back what was written since. Objects in there are not referred to: what is cut off is not to be written again. The work
 * counts as if it had stayed. */
static int cut_off(struct marshal *m, size_t first_object, size_t end)
{
	int r = status(m);
	if (r < 0)
		return r;
	for (size_t i = first_object; i < m->object_count; i++)
		m->objects[i].end = 0;
	m->cut += m->out->len - end;
	buffer_truncate(m->out, end);
	if (m->cut > m->out->max)
		return error_set(m->err, -E2BIG, "Ruby's Marshal: what is left out of it grows beyond the limit");
	return 0;
}

/* A key: a text, whatever it is. */
static int put_key(struct marshal *m)
{
	size_t start = m->out->len;
	int r = put_value(m);
	if (r < 0 || (m->out->len > start && m->out->data[start] == '"'))
		return r;
	if (m->out->len > start && (m->out->data[start] == '[' || m->out->data[start] == '{'))
		return bad(m, "a key that is an array or a hash");
	/* Numbers get their quotes afterwards. */
	buffer_append_string(m->out, "\"\"");
	if (buffer_status(m->out) == 0) {
		memmove(m->out->data + start + 1, m->out->data + start, m->out->len - start - 2);
		m->out->data[start] = '"';
	}
	return status(m);
}

static int put_items(struct marshal *m, uint8_t kind)
{
	bool is_array = kind == '[';
	int64_t count;
	int r = take_number(m, &count);
	if (r < 0)
		return r;
	/* Each takes a byte at least. */
	if (count < 0 || (uint64_t)count > m->rest.len)
		return bad(m, "truncated");
	buffer_append_byte(m->out, is_array ? '[' : '{');
	for (int64_t i = 0; r == 0 && i < count; i++) {
		if (i > 0)
			buffer_append_byte(m->out, ',');
		if (!is_array && (r = put_key(m)) == 0)
			buffer_append_byte(m->out, ':');
		if (r == 0)
			r = put_value(m);
	}
	buffer_append_byte(m->out, is_array ? ']' : '}');
	size_t end = m->out->len, first_object = m->object_count;
	if (r == 0 && kind == '}')
		r = put_value(m);
	return r < 0 ? r : cut_off(m, first_object, end);
}

static int put_object_again(struct marshal *m)
{
	int64_t number;
	int r = take_number(m, &number);
	if (r < 0)
		return r;
	if (number < 0 || (uint64_t)number >= m->object_count || m->objects[number].end == 0)
		return bad(m, "an object that was not there before");
	struct span span = m->objects[number];
	/* The buffer may move. */
	if (buffer_reserve(m->out, span.end - span.start) < 0)
		return status(m) < 0 ? -E2BIG : bad(m, "it grows beyond the limit");
	memcpy(m->out->data + m->out->len, m->out->data + span.start, span.end - span.start);
	m->out->len += span.end - span.start;
	return 0;
}

/* What has a number among the objects. */
static int put_object(struct marshal *m, uint8_t kind)
{
	size_t number = m->object_count;
	struct bytes text;
	if (array_push(&m->objects, &m->object_count, &m->object_capacity, OBJECTS_MAX, (struct span){m->out->len, 0}) < 0)
		return error_nomem(m->err);
	int r;
	switch (kind) {
	case '"':
		r = take_bytes(m, &text);
		if (r == 0)
			r = put_text(m, text);
		break;
	case 'l': r = put_long_integer(m); break;
	case 'f': r = put_real(m); break;
	case '[':
	case '{':
	case '}': r = put_items(m, kind); break;
	default: return bad(m, "a value of a class that profiles do not have");
	}
	m->objects[number].end = m->out->len;
	return r;
}

/* The variables of a text: its encoding. */
static int skip_variables(struct marshal *m)
{
	size_t end = m->out->len, first_object = m->object_count;
	int64_t count;
	int r = take_number(m, &count);
	if (r == 0 && (count < 0 || (uint64_t)count > m->rest.len))
		r = bad(m, "truncated");
	for (int64_t i = 0; r == 0 && i < 2 * count; i++)
		r = put_value(m);
	return r < 0 ? r : cut_off(m, first_object, end);
}

static int put_kind(struct marshal *m, uint8_t kind)
{
	switch (kind) {
	case '0': buffer_append_string(m->out, "null"); break;
	case 'T': buffer_append_string(m->out, "true"); break;
	case 'F': buffer_append_string(m->out, "false"); break;
	case 'i': return put_integer(m);
	case ':':
	case ';': return put_symbol(m, kind);
	case '@': return put_object_again(m);
	case 'I': {
		int r = put_value(m);
		return r < 0 ? r : skip_variables(m);
	}
	default: return put_object(m, kind);
	}
	return status(m);
}

static int put_value(struct marshal *m)
{
	uint8_t kind = 0;
	int r = take_byte(m, &kind);
	if (r < 0)
		return r;
	if (++m->depth > DEPTH_MAX)
		return error_set(m->err, -E2BIG, "Ruby's Marshal: values are nested more than %d deep", DEPTH_MAX);
	r = put_kind(m, kind);
	m->depth--;
	return r;
}

bool ruby_marshal_detect(struct bytes input)
{
	return input.len > 2 && input.data[0] == 4 && input.data[1] == 8 && (input.data[2] == '{' || input.data[2] == 'I');
}

int ruby_marshal_to_json(struct bytes input, struct buffer *out, struct error *err)
{
	if (!ruby_marshal_detect(input))
		return error_set(err, -EBADMSG, "not a hash of Ruby's Marshal 4.8");
	struct marshal m = {.rest = bytes_skip(input, 2), .out = out, .err = err};
	int r = put_value(&m);
	mem_free(m.objects);
	mem_free(m.symbols);
	return r;
}
