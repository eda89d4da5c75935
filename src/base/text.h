/* SPDX-License-Identifier: Apache-2.0 */
/* Text: strict parsing and friendly printing of numbers, sizes and UTF-8. */
#ifndef WICK_BASE_TEXT_H
#define WICK_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/* Whole text, no spaces, no sign for u64. -EINVAL or -ERANGE naming the text. */
int text_parse_u64(const char *text, uint64_t *ret, struct error *err);
int text_parse_i64(const char *text, int64_t *ret, struct error *err);
int text_parse_double(const char *text, double *ret, struct error *err);
/* "512", "64k", "10 MB", "1.5GiB"; k, M, G, T are powers of 1024 with or without B/iB. */
int text_parse_size(const char *text, uint64_t *ret_bytes, struct error *err);

#define TEXT_NUMBER_MAX 32
const char *text_format_size(uint64_t bytes, char out[static TEXT_NUMBER_MAX]);	 /* "1.5 MiB" */
const char *text_format_count(uint64_t count, char out[static TEXT_NUMBER_MAX]); /* "1,234,567" */

/* Length of the UTF-8 sequence that text (not empty) starts with; *ret_valid: whether it is well-formed. An ill-formed one
 * counts as the Unicode standard recommends (chapter 3, "maximal subparts"), so that every decoder puts the same number of
 * U+FFFD. */
size_t text_utf8_sequence(struct bytes text, bool *ret_valid);
bool text_is_utf8(struct bytes text);
bool text_has_controls(struct bytes text); /* of ASCII: below the space, or DEL */
/* Appends text with each ill-formed sequence replaced by U+FFFD. What appends here fails as in base/buffer.h; a part of the
 * text may stand in the buffer then. */
int text_append_utf8(struct buffer *out, struct bytes text);
/* A copy in the arena, likewise. -ENOMEM. */
struct arena;
int text_copy_utf8(struct arena *arena, struct bytes text, struct bytes *ret);
int text_append_character(struct buffer *out, uint32_t code); /* as UTF-8; up to 0x10ffff, and no surrogate */
/* As text_append_utf8(), for names and texts from outside that are printed: with '?' for what must not reach a terminal, which
 * are control characters (C0, DEL, C1), and those that change the direction of what stands beside them or cannot be seen. The
 * page has the same list (HOSTILE in web/src/base/format.ts). */
int text_append_harmless(struct buffer *out, struct bytes text);
/* The same of several lines: line ends and tabs stay. */
int text_append_harmless_lines(struct buffer *out, struct bytes text);
/* Whether a character of valid UTF-8 is one that text_append_harmless() replaces. */
bool text_is_hostile(struct bytes sequence);
size_t text_width(struct bytes text); /* of UTF-8: characters, not bytes; wide ones count as one */
/* How many of the first max bytes to keep so that UTF-8 does not end within a character. */
size_t text_cut(struct bytes text, size_t max);
/* Percent-decodes (and '+' as space when plus_is_space) onto the end of out, NUL-terminated (buffer_string works); -EINVAL on
 * bad escapes or an encoded NUL. */
int text_url_decode(struct bytes text, bool plus_is_space, struct buffer *out, struct error *err);
int text_url_encode(struct buffer *out, struct bytes text);
int text_compare(const void *a, const void *b); /* of qsort(), for an array of char * */
bool text_starts_with(const char *text, const char *prefix);
bool text_ends_with(const char *text, const char *suffix);
/* The place of a name among `count` names; -EINVAL if it is none of them, or NULL. */
int text_find_name(const char *const *names, size_t count, const char *name);
/* The last part of a path; all of it if it ends in '/'. */
const char *text_base_name(const char *path);
struct bytes text_base_name_of(struct bytes path);
/* As the kernel names files of processes: "/usr/bin/a" and "/usr/bin/a (deleted)" are "a". */
struct bytes text_binary_name(struct bytes path);
/* Of ASCII, whatever the locale; inline, since readers of numbers ask it of every byte. */
static inline bool text_is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}
/* Its value, or -1. */
static inline int text_hex_digit(uint8_t c)
{
	uint8_t letter = c | 0x20;
	return c >= '0' && c <= '9' ? c - '0' : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}
int text_hex_byte(const uint8_t digits[static 2]);	    /* -1 if one is none */
void text_format_hex(struct bytes data, char *out);	    /* lower case, and a NUL: 2 * data.len + 1 characters */
int text_append_hex(struct buffer *out, struct bytes data); /* the same, without a NUL */
int text_parse_hex(struct bytes text, struct buffer *out);  /* -EINVAL */

/* ---- for src/base: decimal numbers with a fraction, kept exact until the unit behind them is known ---- */

/* Through a double, "1700000000.123456789" would lose its last digits. */
struct decimal {
	uint64_t whole;
	uint64_t fraction; /* in units of 10^-18; digits beyond are dropped */
	unsigned whole_digits;
	bool has_fraction;
};

/* Reads "12" or "12.5" at *at and moves *at behind it. False if there is none, if a digit is missing before or behind the
 * point, or if the whole part does not fit. */
bool decimal_scan(const char **at, struct decimal *ret);
/* decimal * unit, rounded down; false when it does not fit. */
bool decimal_scale(struct decimal decimal, uint64_t unit, uint64_t *ret);

#endif
