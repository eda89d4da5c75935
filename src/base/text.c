// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/cleanup.h"

/* Bytes of a user's text that a message repeats. */
#define QUOTE_MAX 64

static int malformed(struct error *err, const char *text, const char *expected)
{
	return error_set(err, -EINVAL, "\"%.*s\" is not %s", QUOTE_MAX, text, expected);
}

static int out_of_range(struct error *err, const char *text)
{
	return error_set(err, -ERANGE, "\"%.*s\" is out of range", QUOTE_MAX, text);
}

/* ---- numbers ---- */

int text_parse_u64(const char *text, uint64_t *ret, struct error *err)
{
	uint64_t value = 0;
	bool overflow = false;
	const char *p = text;
	for (; *p >= '0' && *p <= '9'; p++) {
		overflow |= __builtin_mul_overflow(value, 10, &value);
		overflow |= __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value);
	}
	if (p == text || *p)
		return malformed(err, text, "a whole number");
	if (overflow)
		return out_of_range(err, text);
	*ret = value;
	return 0;
}

int text_parse_i64(const char *text, int64_t *ret, struct error *err)
{
	bool negative = text[0] == '-';
	uint64_t magnitude;
	int r = text_parse_u64(text + negative, &magnitude, NULL);
	if (r == -EINVAL)
		return malformed(err, text, "a whole number");
	if (r < 0 || magnitude > (uint64_t)INT64_MAX + negative)
		return out_of_range(err, text);
	*ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
	return 0;
}

#define FRACTION_ONE 1000000000000000000ull

bool decimal_scan(const char **at, struct decimal *ret)
{
	struct decimal decimal = {0};
	const char *p = *at;
	for (; text_is_digit((uint8_t)*p); p++, decimal.whole_digits++)
		if (__builtin_mul_overflow(decimal.whole, 10, &decimal.whole) ||
		    __builtin_add_overflow(decimal.whole, (uint64_t)(*p - '0'), &decimal.whole))
			return false;
	if (decimal.whole_digits == 0)
		return false;
	if (*p == '.') {
		p++;
		if (!text_is_digit((uint8_t)*p))
			return false;
		decimal.has_fraction = true;
		uint64_t place = FRACTION_ONE;
		for (; text_is_digit((uint8_t)*p); p++) {
			place /= 10;
			decimal.fraction += place * (uint64_t)(*p - '0');
		}
	}
	*at = p;
	*ret = decimal;
	return true;
}

bool decimal_scale(struct decimal decimal, uint64_t unit, uint64_t *ret)
{
	uint64_t whole, part = (uint64_t)((unsigned __int128)decimal.fraction * unit / FRACTION_ONE);
	return !__builtin_mul_overflow(decimal.whole, unit, &whole) && !__builtin_add_overflow(whole, part, ret);
}

/* The decimal point must not depend on LC_NUMERIC, which terminal libraries set from the environment. */
static locale_t c_locale;

static void make_c_locale(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

int text_parse_double(const char *text, double *ret, struct error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make_c_locale);
	/* strtod() also takes leading space, a plus sign, hexadecimal, "inf" and "nan". */
	size_t len = strspn(text, "0123456789.eE+-");
	if (text[len] || text[0] == '+' || text[0] == '\0')
		return malformed(err, text, "a number");
	char *end;
	double value = c_locale ? strtod_l(text, &end, c_locale) : strtod(text, &end);
	if (end == text || *end)
		return malformed(err, text, "a number");
	if (!isfinite(value))
		return out_of_range(err, text);
	*ret = value;
	return 0;
}

/* "", "B", "k", "kB", "KiB" ...; the shift of the unit, -1 if it is none. */
static int parse_size_unit(const char *unit)
{
	static const char letters[] = "kmgt";
	if (!*unit || !strcasecmp(unit, "b"))
		return 0;
	for (int i = 0; letters[i]; i++) {
		if ((*unit | 0x20) != letters[i])
			continue;
		if (!unit[1] || !strcasecmp(unit + 1, "b") || !strcasecmp(unit + 1, "ib"))
			return 10 * (i + 1);
	}
	return -1;
}

int text_parse_size(const char *text, uint64_t *ret_bytes, struct error *err)
{
	static const char expected[] = "a size such as 512, 64k, 10MB or 1.5GiB";
	struct decimal number;
	const char *at = text;
	if (!decimal_scan(&at, &number)) {
		size_t digits = strspn(text, "0123456789");
		return digits >= 20 ? out_of_range(err, text) : malformed(err, text, expected);
	}
	at += strspn(at, " ");
	int shift = parse_size_unit(at);
	if (shift < 0 || (shift == 0 && number.has_fraction) || (!*at && at > text && at[-1] == ' '))
		return malformed(err, text, expected);
	uint64_t bytes;
	if (!decimal_scale(number, 1ull << shift, &bytes))
		return out_of_range(err, text);
	*ret_bytes = bytes;
	return 0;
}

const char *text_format_size(uint64_t bytes, char out[static TEXT_NUMBER_MAX])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	if (bytes < 1024) {
		snprintf(out, TEXT_NUMBER_MAX, "%u B", (unsigned)bytes);
		return out;
	}
	for (unsigned i = 1;; i++) {
		uint64_t unit = 1ull << (10 * i);
		uint64_t tenths = (uint64_t)(((unsigned __int128)bytes * 10 + unit / 2) / unit);
		/* What rounds to 1024.0 of one unit is 1.0 of the next. */
		if (tenths >= 10240 && i + 1 < sizeof(units) / sizeof(units[0]))
			continue;
		snprintf(out, TEXT_NUMBER_MAX, "%u.%u %s", (unsigned)(tenths / 10), (unsigned)(tenths % 10), units[i]);
		return out;
	}
}

const char *text_format_count(uint64_t count, char out[static TEXT_NUMBER_MAX])
{
	char digits[TEXT_NUMBER_MAX];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
	char *p = out;
	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			*p++ = ',';
		*p++ = digits[i];
	}
	*p = '\0';
	return out;
}

/* ---- UTF-8 ---- */

/* Well-formed sequences, table 3-7 of the Unicode standard: how many bytes follow a lead byte, and the range of the first of
 * them, which is what excludes overlong forms, surrogates and values beyond U+10FFFF. */
static int utf8_tail(uint8_t lead, uint8_t *low, uint8_t *high)
{
	*low = 0x80;
	*high = 0xbf;
	if (lead < 0x80)
		return 0;
	if (lead < 0xc2)
		return -1;
	if (lead < 0xe0)
		return 1;
	if (lead < 0xf0) {
		if (lead == 0xe0)
			*low = 0xa0;
		if (lead == 0xed)
			*high = 0x9f;
		return 2;
	}
	if (lead > 0xf4)
		return -1;
	if (lead == 0xf0)
		*low = 0x90;
	if (lead == 0xf4)
		*high = 0x8f;
	return 3;
}

size_t text_utf8_sequence(struct bytes text, bool *ret_valid)
{
	uint8_t low, high;
	int tail = utf8_tail(text.data[0], &low, &high);
	*ret_valid = false;
	if (tail < 0)
		return 1;
	for (int i = 1; i <= tail; i++) {
		if ((size_t)i >= text.len || text.data[i] < low || text.data[i] > high)
			return (size_t)i;
		low = 0x80;
		high = 0xbf;
	}
	*ret_valid = true;
	return (size_t)tail + 1;
}

/* Length of the well-formed text at the start; skips ASCII, which is most of it, eight bytes at a time. */
static size_t utf8_prefix(struct bytes text)
{
	size_t at = 0;
	while (at < text.len) {
		uint64_t word;
		if (text.len - at >= sizeof(word)) {
			memcpy(&word, text.data + at, sizeof(word));
			if (!(word & 0x8080808080808080ull)) {
				at += sizeof(word);
				continue;
			}
		}
		bool valid;
		size_t len = text_utf8_sequence((struct bytes){text.data + at, text.len - at}, &valid);
		if (!valid)
			break;
		at += len;
	}
	return at;
}

bool text_has_controls(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] < ' ' || text.data[i] == 0x7f)
			return true;
	return false;
}

bool text_is_utf8(struct bytes text)
{
	return utf8_prefix(text) == text.len;
}

int text_append_character(struct buffer *out, uint32_t code)
{
	static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
	uint8_t bytes[4];
	size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	for (size_t i = len; i-- > 1; code >>= 6)
		bytes[i] = (uint8_t)(0x80 | (code & 0x3f));
	bytes[0] = (uint8_t)(first[len] | code);
	return buffer_append(out, bytes, len);
}

int text_append_utf8(struct buffer *out, struct bytes text)
{
	while (text.len > 0 && !buffer_status(out)) {
		size_t len = utf8_prefix(text);
		buffer_append(out, text.data, len);
		text = bytes_skip(text, len);
		if (text.len > 0) {
			bool valid;
			text = bytes_skip(text, text_utf8_sequence(text, &valid));
			buffer_append(out, "\xef\xbf\xbd", 3);
		}
	}
	return buffer_status(out);
}

int text_copy_utf8(struct arena *arena, struct bytes text, struct bytes *ret)
{
	_cleanup_(buffer_release) struct buffer clean = {.max = SIZE_MAX};
	if (!text_is_utf8(text)) {
		if (text_append_utf8(&clean, text) < 0)
			return -ENOMEM;
		text = buffer_bytes(&clean);
	}
	char *copy = arena_strndup(arena, text.len ? (const char *)text.data : "", text.len);
	*ret = (struct bytes){(const uint8_t *)copy, text.len};
	return copy ? 0 : -ENOMEM;
}

static uint32_t decode_utf8(struct bytes sequence)
{
	uint32_t code = sequence.len == 1 ? sequence.data[0] : sequence.data[0] & (0x7fu >> sequence.len);
	for (size_t i = 1; i < sequence.len; i++)
		code = code << 6 | (sequence.data[i] & 0x3fu);
	return code;
}

bool text_is_hostile(struct bytes sequence)
{
	static const struct {
		uint32_t first, last;
	} hostile[] = {{0, 0x1f},	 {0x7f, 0x9f},	   {0x61c, 0x61c},  {0x200b, 0x200f},
		       {0x2028, 0x202e}, {0x2060, 0x2069}, {0xfeff, 0xfeff}};
	uint32_t code = decode_utf8(sequence);
	for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++)
		if (code >= hostile[i].first && code <= hostile[i].last)
			return true;
	return false;
}

/* Printable ASCII, which is most of what is printed. */
static size_t plain_prefix(struct bytes text)
{
	size_t len = 0;
	while (len < text.len && text.data[len] >= 0x20 && text.data[len] < 0x7f)
		len++;
	return len;
}

int text_append_harmless(struct buffer *out, struct bytes text)
{
	while (text.len > 0 && !buffer_status(out)) {
		bool valid;
		size_t plain = plain_prefix(text);
		buffer_append(out, text.data, plain);
		text = bytes_skip(text, plain);
		if (text.len == 0)
			break;
		struct bytes sequence = {text.data, text_utf8_sequence(text, &valid)};
		if (!valid)
			buffer_append(out, "\xef\xbf\xbd", 3);
		else if (text_is_hostile(sequence))
			buffer_append_byte(out, '?');
		else
			buffer_append(out, sequence.data, sequence.len);
		text = bytes_skip(text, sequence.len);
	}
	return buffer_status(out);
}

int text_append_harmless_lines(struct buffer *out, struct bytes text)
{
	while (text.len > 0 && !buffer_status(out)) {
		size_t len = 0;
		while (len < text.len && text.data[len] != '\n' && text.data[len] != '\t')
			len++;
		text_append_harmless(out, (struct bytes){text.data, len});
		if (len < text.len)
			buffer_append_byte(out, text.data[len++]);
		text = bytes_skip(text, len);
	}
	return buffer_status(out);
}

static bool is_continuation(uint8_t byte)
{
	return (byte & 0xc0) == 0x80;
}

size_t text_width(struct bytes text)
{
	size_t width = 0;
	for (size_t i = 0; i < text.len; i++)
		width += !is_continuation(text.data[i]);
	return width;
}

size_t text_cut(struct bytes text, size_t max)
{
	if (text.len <= max)
		return text.len;
	while (max > 0 && is_continuation(text.data[max]))
		max--;
	return max;
}

/* ---- URLs and hexadecimal ---- */

int text_hex_byte(const uint8_t digits[static 2])
{
	int high = text_hex_digit(digits[0]), low = text_hex_digit(digits[1]);
	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static int url_decode(struct bytes text, bool plus_is_space, struct buffer *out, struct error *err)
{
	for (size_t i = 0; i < text.len; i++) {
		int byte = text.data[i];
		if (byte == '%') {
			byte = text.len - i > 2 ? text_hex_byte(text.data + i + 1) : -1;
			if (byte < 0)
				return error_set(err, -EINVAL, "bad percent escape at byte %zu of the URL text", i);
			i += 2;
		} else if (byte == '+' && plus_is_space) {
			byte = ' ';
		}
		if (byte == 0)
			return error_set(err, -EINVAL, "NUL at byte %zu of the URL text", i);
		buffer_append_byte(out, (uint8_t)byte);
	}
	if (buffer_string(out))
		return 0;
	return buffer_status(out) == -E2BIG ? error_set(err, -E2BIG, "URL text is longer than %zu bytes", out->max)
					    : error_nomem(err);
}

int text_url_decode(struct bytes text, bool plus_is_space, struct buffer *out, struct error *err)
{
	size_t before = out->len;
	int r = url_decode(text, plus_is_space, out, err);
	if (r < 0)
		buffer_truncate(out, before);
	return r;
}

static bool is_url_unreserved(uint8_t c)
{
	uint8_t lower = c | 0x20;
	return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

int text_url_encode(struct buffer *out, struct bytes text)
{
	static const char digits[] = "0123456789ABCDEF";
	for (size_t i = 0; i < text.len; i++) {
		uint8_t c = text.data[i];
		char escape[3] = {'%', digits[c >> 4], digits[c & 15]};
		if (is_url_unreserved(c))
			buffer_append_byte(out, c);
		else
			buffer_append(out, escape, sizeof(escape));
	}
	return buffer_status(out);
}

bool text_starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

bool text_ends_with(const char *text, const char *suffix)
{
	size_t len = strlen(text), suffix_len = strlen(suffix);
	return suffix_len <= len && !memcmp(text + len - suffix_len, suffix, suffix_len);
}

struct bytes text_base_name_of(struct bytes path)
{
	const uint8_t *slash = path.len ? memrchr(path.data, '/', path.len) : NULL;
	size_t skip = slash ? (size_t)(slash - path.data) + 1 : 0;
	return skip == path.len ? path : bytes_skip(path, skip);
}

int text_find_name(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; name && i < count; i++)
		if (strcmp(names[i], name) == 0)
			return (int)i;
	return -EINVAL;
}

const char *text_base_name(const char *path)
{
	return (const char *)text_base_name_of(bytes_of_string(path)).data;
}

int text_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct bytes text_binary_name(struct bytes path)
{
	static const char deleted[] = " (deleted)";
	size_t suffix = sizeof(deleted) - 1;
	if (path.len > suffix && memcmp(path.data + path.len - suffix, deleted, suffix) == 0)
		path.len -= suffix;
	return text_base_name_of(path);
}

static char *write_hex(struct bytes data, char *out)
{
	static const char digits[] = "0123456789abcdef";
	for (size_t i = 0; i < data.len; i++) {
		*out++ = digits[data.data[i] >> 4];
		*out++ = digits[data.data[i] & 15];
	}
	return out;
}

void text_format_hex(struct bytes data, char *out)
{
	*write_hex(data, out) = 0;
}

int text_append_hex(struct buffer *out, struct bytes data)
{
	int r = data.len > SIZE_MAX / 2 ? buffer_fail(out, -E2BIG) : buffer_reserve(out, data.len * 2);
	if (r < 0 || data.len == 0)
		return r;
	write_hex(data, (char *)out->data + out->len);
	out->len += 2 * data.len;
	return 0;
}

int text_parse_hex(struct bytes text, struct buffer *out)
{
	if (text.len % 2)
		return -EINVAL;
	int r = buffer_reserve(out, text.len / 2);
	if (r < 0)
		return r;
	size_t before = out->len;
	for (size_t i = 0; i < text.len; i += 2) {
		int byte = text_hex_byte(text.data + i);
		if (byte < 0) {
			buffer_truncate(out, before);
			return -EINVAL;
		}
		out->data[out->len++] = (uint8_t)byte;
	}
	return 0;
}
