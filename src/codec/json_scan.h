/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON walked through value by value, in a window over an input that may be of any length: for files that are too large for a
 * json_tree. It keeps nothing. What is passed is checked to be JSON (its texts only for control characters), also what is
 * skipped.
 *
 *     json_scan_open(scan, '{');
 *     while ((r = json_scan_member(scan, &key)) > 0)
 *         r = bytes_equal_string(key, "length") ? json_scan_integer(scan, &n) : json_scan_skip(scan);
 *
 * Copying. With an output, all that is passed is copied to it, byte for byte, from json_scan_copy(true) to
 * json_scan_copy(false): whoever changes a document stops the copying before what is to be changed, writes something else, and
 * goes on behind it.
 *
 * Errors stay: every call after one returns it. 0, or 1 where said; -EBADMSG with the byte, -E2BIG, -ENOMEM, and what the input
 * returns.
 */
#ifndef WICK_CODEC_JSON_SCAN_H
#define WICK_CODEC_JSON_SCAN_H

#include <stdbool.h>

#include "base/buffer.h"
#include "codec/input.h"

#define JSON_SCAN_DEPTH_MAX 512u
/* LIMIT of one text, and of what json_scan_raw() hands out. */
#define JSON_SCAN_VALUE_MAX (64u * 1024 * 1024)

/* Takes what is copied; -errno ends the walk. */
typedef int (*json_scan_sink)(void *context, struct bytes bytes, struct error *err);

struct json_scan {
	struct input *input; /* NULL: */
	struct bytes rest;   /* of a text in memory, not in the window yet */
	struct error *err;
	int error;
	uint8_t *window; /* [at, end) is not passed yet; a NUL stands at end */
	size_t capacity;
	const uint8_t *at, *end, *mark, *copied; /* mark: kept from here on; copied: NULL = nothing is */
	uint64_t passed;			 /* bytes before the window */
	bool at_end;
	json_scan_sink sink;
	void *sink_context;
	struct buffer text; /* of strings with escapes */
	unsigned depth;
	uint64_t is_object[JSON_SCAN_DEPTH_MAX / 64], has_items[JSON_SCAN_DEPTH_MAX / 64];
};

/* At the input's start. err is kept, and gets the message of the first failure. */
int json_scan_init(struct json_scan *scan, struct input *input, struct error *err);
/* Of a text in memory, which stays there. */
int json_scan_init_bytes(struct json_scan *scan, struct bytes text, struct error *err);
void json_scan_release(struct json_scan *scan);
/* sink NULL = nothing is ever copied. */
void json_scan_set_sink(struct json_scan *scan, json_scan_sink sink, void *context);
/* Everything that is passed from here on; with false, what was passed goes out. */
int json_scan_copy(struct json_scan *scan, bool on);

/* What the next value begins with, a quote, a bracket, a digit ..., 0 at the end of the input or after an error; '-' and digits
 * are '0', true and false 't', null 'n'. */
char json_scan_peek(struct json_scan *scan);
/* kind: '{' or '['. */
int json_scan_open(struct json_scan *scan, char kind);
/* To the next member or item of what was opened last: 1, or 0 when it is closed, which is passed then. The key is valid until
 * the next call other than json_scan_peek(). */
int json_scan_member(struct json_scan *scan, struct bytes *ret_key);
int json_scan_item(struct json_scan *scan);
/* Whether the closing bracket is next: more can be written before it; and whether there was any item, so that a comma is due.
 */
bool json_scan_is_last(struct json_scan *scan);
bool json_scan_has_items(const struct json_scan *scan);
int json_scan_skip(struct json_scan *scan);
/* A value as it stands, valid until the next call. */
int json_scan_raw(struct json_scan *scan, struct bytes *ret);
/* A number, true, false or null as it stands, valid until the next call; json_scan_peek() comes before. */
int json_scan_scalar(struct json_scan *scan, struct bytes *ret);
/* Decoded; valid until the next call. */
int json_scan_text(struct json_scan *scan, struct bytes *ret);
/* 1 = it is something else, and passed. */
int json_scan_integer(struct json_scan *scan, int64_t *ret);
/* A number times 10^6, rounded: milliseconds to nanoseconds. 1 = it is null or something else, or beyond 9.2e18. */
int json_scan_micro(struct json_scan *scan, int64_t *ret);
/* Nothing but blanks may follow. */
int json_scan_finish(struct json_scan *scan);
/* What is wrong here, said with the byte. */
int json_scan_fail(struct json_scan *scan, const char *what);
int json_scan_fail_with(struct json_scan *scan, int code, const char *what); /* not -EBADMSG */

/* A text of JSON, without its quotes, decoded and appended. -EBADMSG, -ENOMEM, -E2BIG. */
int json_scan_decode(struct bytes text, struct buffer *out);
/* A number of JSON times 10^6; false if that is beyond 9.2e18. */
bool json_scan_parse_micro(struct bytes number, int64_t *ret);

#endif
