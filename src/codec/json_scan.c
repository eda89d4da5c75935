/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window holds what is not passed yet, and moves: when a value does not end in it, what is kept moves to its start and more
 * is read behind. A NUL stands behind the last byte, which is in no JSON, so that inner loops look at bytes only and ask where
 * they are when they come to one. Numbers and literals are short, so that much is made to be there before they are looked at.
 */
#include "codec/json_scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define WINDOW_BYTES  (256u * 1024)
#define SCALAR_MAX    400 /* longer numbers are legal JSON, and none that anybody means */
#define AT_HAND_BYTES 512u

static int init(struct json_scan *scan, size_t capacity, struct error *err)
{
	scan->err = err;
	buffer_init(&scan->text, JSON_SCAN_VALUE_MAX);
	scan->window = mem_alloc(capacity + 1);
	if (!scan->window)
		return scan->error = error_nomem(err);
	scan->capacity = capacity;
	scan->at = scan->end = scan->window;
	scan->window[0] = 0;
	return 0;
}

int json_scan_init(struct json_scan *scan, struct input *input, struct error *err)
{
	*scan = (struct json_scan){.input = input};
	input_rewind(input);
	return init(scan, WINDOW_BYTES, err);
}

int json_scan_init_bytes(struct json_scan *scan, struct bytes text, struct error *err)
{
	*scan = (struct json_scan){.rest = text};
	return init(scan, text.len < WINDOW_BYTES ? text.len + AT_HAND_BYTES : WINDOW_BYTES, err);
}

void json_scan_release(struct json_scan *scan)
{
	mem_free(scan->window);
	buffer_release(&scan->text);
	*scan = (struct json_scan){0};
}

int json_scan_fail_with(struct json_scan *scan, int code, const char *what)
{
	if (scan->error == 0)
		scan->error = error_set(scan->err, code, "near byte %llu: %s",
					(unsigned long long)(scan->passed + (uint64_t)(scan->at - scan->window)), what);
	return scan->error;
}

int json_scan_fail(struct json_scan *scan, const char *what)
{
	return json_scan_fail_with(scan, -EBADMSG, what);
}

void json_scan_set_sink(struct json_scan *scan, json_scan_sink sink, void *context)
{
	scan->sink = sink;
	scan->sink_context = context;
}

static int flush(struct json_scan *scan)
{
	if (scan->copied && scan->copied < scan->at && scan->error == 0)
		scan->error = scan->sink(scan->sink_context, (struct bytes){scan->copied, (size_t)(scan->at - scan->copied)},
					 scan->err);
	if (scan->copied)
		scan->copied = scan->at;
	return scan->error;
}

int json_scan_copy(struct json_scan *scan, bool on)
{
	flush(scan);
	scan->copied = on && scan->sink ? scan->at : NULL;
	return scan->error;
}

static ssize_t read_more(struct json_scan *scan, void *to, size_t room)
{
	if (scan->input)
		return input_read(scan->input, to, room, scan->err);
	size_t n = scan->rest.len < room ? scan->rest.len : room;
	if (n)
		memcpy(to, scan->rest.data, n);
	scan->rest = bytes_skip(scan->rest, n);
	return (ssize_t)n;
}

/* Reads more behind what is not passed or kept. At the end of the input, and after an error, there is no more. */
static bool refill(struct json_scan *scan)
{
	if (!scan->input && scan->rest.len == 0)
		scan->at_end = true;
	if (scan->at_end || flush(scan) < 0)
		return false;
	const uint8_t *keep = scan->mark ? scan->mark : scan->at;
	size_t kept = (size_t)(scan->end - keep), at = (size_t)(scan->at - keep);
	if (kept > scan->capacity / 2) {
		if (scan->capacity >= JSON_SCAN_VALUE_MAX)
			return json_scan_fail(scan, "a value is longer than 64 MiB"), false;
		uint8_t *larger = mem_alloc(2 * scan->capacity + 1);
		if (!larger)
			return scan->error = error_nomem(scan->err), false;
		memcpy(larger, keep, kept);
		scan->passed += (uint64_t)(keep - scan->window);
		mem_free(scan->window);
		scan->window = larger;
		scan->capacity *= 2;
	} else {
		scan->passed += (uint64_t)(keep - scan->window);
		memmove(scan->window, keep, kept);
	}
	scan->at = scan->window + at;
	scan->copied = scan->copied ? scan->at : NULL;
	scan->mark = scan->mark ? scan->window : NULL;
	ssize_t n = read_more(scan, scan->window + kept, scan->capacity - kept);
	if (n < 0)
		scan->error = (int)n;
	scan->at_end = n <= 0;
	scan->end = scan->window + kept + (n > 0 ? n : 0);
	scan->window[kept + (size_t)(n > 0 ? n : 0)] = 0;
	return n > 0;
}

static void have_at_hand(struct json_scan *scan)
{
	while ((size_t)(scan->end - scan->at) < AT_HAND_BYTES && refill(scan))
		;
}

/* The next byte that is no blank, not passed; 0 = none. */
static uint8_t next_byte(struct json_scan *scan)
{
	if (scan->error)
		return 0;
	for (;;) {
		while (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\t' || *scan->at == '\r')
			scan->at++;
		if (*scan->at)
			return *scan->at;
		if (scan->at < scan->end)
			return json_scan_fail(scan, "a NUL byte"), 0;
		if (!refill(scan))
			return 0;
	}
}

static int expect(struct json_scan *scan, uint8_t byte, const char *what)
{
	if (next_byte(scan) != byte)
		return scan->error
			       ? scan->error
			       : json_scan_fail(scan, scan->at_end && scan->at == scan->end ? "unexpected end of input" : what);
	scan->at++;
	return 0;
}

/* ---- scalars ---- */

/* The length of the number that stands there; 0 = none. A NUL or another byte ends it. */
static size_t number_length(const uint8_t *text)
{
	const uint8_t *at = text + (*text == '-');
	if (!text_is_digit(*at))
		return 0;
	if (*at == '0' && text_is_digit(at[1]))
		return 0;
	while (text_is_digit(*at))
		at++;
	if (*at == '.') {
		if (!text_is_digit(*++at))
			return 0;
		while (text_is_digit(*at))
			at++;
	}
	if (*at == 'e' || *at == 'E') {
		at++;
		at += *at == '+' || *at == '-';
		if (!text_is_digit(*at))
			return 0;
		while (text_is_digit(*at))
			at++;
	}
	return (size_t)(at - text);
}

int json_scan_scalar(struct json_scan *scan, struct bytes *ret)
{
	static const char *const literals[] = {"true", "false", "null"};
	have_at_hand(scan);
	if (scan->error)
		return scan->error;
	size_t len = number_length(scan->at);
	for (size_t i = 0; len == 0 && i < 3; i++)
		if (strncmp((const char *)scan->at, literals[i], strlen(literals[i])) == 0)
			len = strlen(literals[i]);
	if (len == 0)
		return json_scan_fail(scan, scan->at == scan->end ? "unexpected end of input" : "expected a value");
	if (len > SCALAR_MAX)
		return json_scan_fail(scan, "a number has too many digits");
	*ret = (struct bytes){scan->at, len};
	scan->at += len;
	return 0;
}

static int hex4(const uint8_t *text, size_t len, uint32_t *ret)
{
	*ret = 0;
	if (len < 4)
		return -EBADMSG;
	for (size_t i = 0; i < 4; i++) {
		int digit = text_hex_digit(text[i]);
		if (digit < 0)
			return -EBADMSG;
		*ret = *ret << 4 | (uint32_t)digit;
	}
	return 0;
}

/* From behind the opening quote to behind the closing one; *ret_escapes: whether there are any. */
static int pass_text(struct json_scan *scan, bool *ret_escapes)
{
	*ret_escapes = false;
	for (;;) {
		const uint8_t *at = scan->at;
		while (*at != '"' && *at != '\\' && *at >= 0x20)
			at++;
		scan->at = at;
		if (*at == '"') {
			scan->at++;
			return 0;
		}
		if (*at == '\\') {
			*ret_escapes = true;
			while (scan->end - scan->at < 6 && refill(scan))
				;
			uint32_t code;
			size_t left = (size_t)(scan->end - scan->at);
			bool known = left >= 2 && scan->at[1] && strchr("\"\\/bfnrtu", scan->at[1]);
			if (scan->error || !known || (scan->at[1] == 'u' && hex4(scan->at + 2, left - 2, &code) < 0))
				return json_scan_fail(scan, "unknown escape in a string");
			scan->at += 2;
			continue;
		}
		if (at < scan->end)
			return json_scan_fail(scan, "a control character in a string");
		if (!refill(scan))
			return json_scan_fail(scan, "a string without an end");
	}
}

/* \uXXXX, of which *at stands on the u; a half of a pair that is alone is no character. */
static int decode_unicode(struct bytes text, size_t *at, struct buffer *out)
{
	uint32_t c, low;
	int r = hex4(text.data + *at + 1, text.len - *at - 1, &c);
	if (r < 0)
		return r;
	*at += 5;
	if (c >= 0xd800 && c < 0xdc00 && *at + 6 <= text.len && text.data[*at] == '\\' && text.data[*at + 1] == 'u' &&
	    hex4(text.data + *at + 2, 4, &low) == 0 && low >= 0xdc00 && low < 0xe000) {
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		*at += 6;
	}
	return text_append_character(out, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
}

int json_scan_decode(struct bytes text, struct buffer *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	int r = 0;
	for (size_t at = 0; r == 0 && at < text.len;) {
		const uint8_t *escape = memchr(text.data + at, '\\', text.len - at);
		size_t plain = escape ? (size_t)(escape - text.data) - at : text.len - at;
		r = buffer_append(out, text.data + at, plain);
		at += plain;
		if (r < 0 || !escape)
			break;
		if (++at == text.len)
			return -EBADMSG;
		const char *one = text.data[at] ? strchr(from, text.data[at]) : NULL;
		if (text.data[at] == 'u') {
			r = decode_unicode(text, &at, out);
		} else if (one) {
			r = buffer_append_byte(out, (uint8_t)to[one - from]);
			at++;
		} else {
			return -EBADMSG;
		}
	}
	return r;
}

int json_scan_text(struct json_scan *scan, struct bytes *ret)
{
	bool escapes;
	*ret = (struct bytes){0};
	if (expect(scan, '"', "expected a string") < 0)
		return scan->error;
	scan->mark = scan->at;
	int r = pass_text(scan, &escapes);
	const uint8_t *start = scan->mark;
	scan->mark = NULL;
	if (r < 0)
		return r;
	*ret = (struct bytes){start, (size_t)(scan->at - 1 - start)};
	if (!escapes)
		return 0;
	buffer_clear(&scan->text);
	r = json_scan_decode(*ret, &scan->text);
	*ret = buffer_bytes(&scan->text);
	if (r == -EBADMSG)
		return json_scan_fail(scan, "unknown escape in a string");
	return r < 0 ? scan->error = error_nomem(scan->err) : 0;
}

bool json_scan_parse_micro(struct bytes number, int64_t *ret)
{
	const uint8_t *at = number.data, *end = at + number.len;
	bool negative = at < end && *at == '-';
	uint64_t value = 0;
	unsigned places = 0;
	at += negative;
	if (end - at > 18)
		goto slowly;
	for (; at < end && text_is_digit(*at); at++)
		value = value * 10 + (uint64_t)(*at - '0');
	if (at < end && *at == '.')
		for (at++; at < end && text_is_digit(*at) && places < 6; at++, places++)
			value = value * 10 + (uint64_t)(*at - '0');
	if (at < end || value > UINT64_C(9000000000000))
		goto slowly;
	for (; places < 6; places++)
		value *= 10;
	*ret = negative ? -(int64_t)value : (int64_t)value;
	return true;
slowly:;
	/* More digits, an exponent, more than an hour of a hundred days: seldom. Two parts, so that milliseconds since 1970
	 * keep their nanoseconds. */
	char text[SCALAR_MAX + 1];
	if (number.len > SCALAR_MAX)
		return false;
	memcpy(text, number.data, number.len);
	text[number.len] = 0;
	long double real = strtold(text, NULL) * 1e6L;
	if (!(real > -9.2e18L && real < 9.2e18L))
		return false;
	*ret = llrintl(real);
	return true;
}

/* Passes the value; *ret is its digits. 1 = it is no number. */
static int pass_number(struct json_scan *scan, struct bytes *ret)
{
	uint8_t byte = next_byte(scan);
	if (byte == '"' || byte == '{' || byte == '[') {
		int r = json_scan_skip(scan);
		return r < 0 ? r : 1;
	}
	if (json_scan_scalar(scan, ret) < 0)
		return scan->error;
	return text_is_digit(byte) || byte == '-' ? 0 : 1;
}

int json_scan_micro(struct json_scan *scan, int64_t *ret)
{
	struct bytes number;
	int r = pass_number(scan, &number);
	if (r != 0)
		return r;
	return json_scan_parse_micro(number, ret) ? 0 : 1;
}

int json_scan_integer(struct json_scan *scan, int64_t *ret)
{
	struct bytes number;
	int r = pass_number(scan, &number);
	if (r != 0)
		return r;
	bool negative = number.data[0] == '-';
	uint64_t value = 0;
	if (number.len - negative <= 18) {
		size_t i = negative;
		for (; i < number.len && text_is_digit(number.data[i]); i++)
			value = value * 10 + (uint64_t)(number.data[i] - '0');
		*ret = negative ? -(int64_t)value : (int64_t)value;
		if (i == number.len)
			return 0;
	}
	char text[SCALAR_MAX + 1];
	memcpy(text, number.data, number.len);
	text[number.len] = 0;
	long double real = strtold(text, NULL);
	if (!(real > -9.2e18L && real < 9.2e18L) || real != floorl(real))
		return 1;
	*ret = (int64_t)real;
	return 0;
}

/* ---- structure ---- */

static bool bit(const uint64_t *bits, unsigned at)
{
	return bits[at / 64] >> at % 64 & 1;
}

static void set_bit(uint64_t *bits, unsigned at, bool value)
{
	bits[at / 64] = (bits[at / 64] & ~(UINT64_C(1) << at % 64)) | (uint64_t)value << at % 64;
}

char json_scan_peek(struct json_scan *scan)
{
	uint8_t byte = next_byte(scan);
	if (byte == '-' || text_is_digit(byte))
		return '0';
	return byte == 'f' ? 't' : (char)byte;
}

int json_scan_open(struct json_scan *scan, char kind)
{
	if (expect(scan, (uint8_t)kind, kind == '{' ? "expected an object" : "expected an array") < 0)
		return scan->error;
	if (scan->depth == JSON_SCAN_DEPTH_MAX)
		return json_scan_fail(scan, "values are nested more than 512 deep");
	set_bit(scan->is_object, scan->depth, kind == '{');
	set_bit(scan->has_items, scan->depth++, false);
	return 0;
}

bool json_scan_has_items(const struct json_scan *scan)
{
	return bit(scan->has_items, scan->depth - 1);
}

bool json_scan_is_last(struct json_scan *scan)
{
	uint8_t byte = next_byte(scan);
	return byte == 0 || byte == (bit(scan->is_object, scan->depth - 1) ? '}' : ']');
}

/* To the next item: 1, or 0 at the end. */
static int step(struct json_scan *scan)
{
	if (scan->error)
		return scan->error;
	unsigned level = scan->depth - 1;
	bool is_object = bit(scan->is_object, level);
	uint8_t byte = next_byte(scan);
	if (byte == (is_object ? '}' : ']')) {
		scan->at++;
		scan->depth--;
		return 0;
	}
	if (bit(scan->has_items, level) && expect(scan, ',', is_object ? "expected a comma or }" : "expected a comma or ]") < 0)
		return scan->error;
	set_bit(scan->has_items, level, true);
	return 1;
}

int json_scan_item(struct json_scan *scan)
{
	return step(scan);
}

int json_scan_member(struct json_scan *scan, struct bytes *ret_key)
{
	int r = step(scan);
	if (r <= 0)
		return r;
	if (json_scan_text(scan, ret_key) < 0)
		return scan->error;
	if (scan->text.len > 0 && ret_key->data == scan->text.data) {
		r = expect(scan, ':', "expected a colon");
		return r < 0 ? r : 1;
	}
	scan->mark = ret_key->data;
	size_t len = ret_key->len;
	r = expect(scan, ':', "expected a colon");
	/* The first byte of the value is to be at hand before the key is handed out: a look at it would move the window. */
	if (r == 0)
		next_byte(scan);
	r = scan->error;
	*ret_key = (struct bytes){scan->mark, len};
	scan->mark = NULL;
	return r < 0 ? r : 1;
}

int json_scan_skip(struct json_scan *scan)
{
	unsigned base = scan->depth;
	struct bytes ignored;
	bool escapes;
	for (;;) {
		uint8_t byte = next_byte(scan);
		int r = 0;
		if (byte == '{' || byte == '[') {
			r = json_scan_open(scan, (char)byte);
		} else if (byte == '"') {
			scan->at++;
			r = pass_text(scan, &escapes);
		} else {
			r = json_scan_scalar(scan, &ignored);
		}
		/* Behind a value or an opening bracket: all that closes, then what is next. */
		while (r == 0 && scan->depth > base) {
			r = step(scan);
			if (r == 1 && bit(scan->is_object, scan->depth - 1)) {
				if (expect(scan, '"', "expected a member name") < 0 || pass_text(scan, &escapes) < 0 ||
				    expect(scan, ':', "expected a colon") < 0)
					return scan->error;
			}
			if (r == 1)
				break;
		}
		if (r < 0)
			return r;
		if (scan->depth == base)
			return 0;
	}
}

int json_scan_raw(struct json_scan *scan, struct bytes *ret)
{
	*ret = (struct bytes){0};
	next_byte(scan);
	if (scan->error)
		return scan->error;
	scan->mark = scan->at;
	int r = json_scan_skip(scan);
	*ret = (struct bytes){scan->mark, (size_t)(scan->at - scan->mark)};
	scan->mark = NULL;
	return r;
}

int json_scan_finish(struct json_scan *scan)
{
	if (next_byte(scan))
		json_scan_fail(scan, "unexpected data after the value");
	flush(scan);
	return scan->error;
}
