/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protocol Buffers' JSON mapping (https://protobuf.dev/programming-guides/json/), both ways, by tables that say what a message
 * holds. Neither way builds a tree: memory is that of the output. Essay at the top of
 * protobuf_json_read.c.
 */
#ifndef WICK_CODEC_PROTOBUF_JSON_H
#define WICK_CODEC_PROTOBUF_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

#define PB_JSON_DEPTH_MAX 28u /* messages within messages, which is what struct json_writer can nest */

enum pb_json_kind {
	PB_JSON_INT32,
	PB_JSON_INT64, /* 64 bits are texts in JSON; numbers are taken too */
	PB_JSON_UINT32,
	PB_JSON_UINT64,
	PB_JSON_SINT32, /* zigzag */
	PB_JSON_SINT64,
	PB_JSON_FIXED32,
	PB_JSON_FIXED64,
	PB_JSON_SFIXED32,
	PB_JSON_SFIXED64,
	PB_JSON_FLOAT,
	PB_JSON_DOUBLE,
	PB_JSON_BOOL,
	PB_JSON_STRING,
	PB_JSON_BYTES, /* base64, of either alphabet, padded or not */
	PB_JSON_HEX,   /* bytes as hexadecimal digits: OTLP's trace and span ids */
	PB_JSON_ENUM,  /* names; numbers are taken too */
	PB_JSON_MESSAGE,
	PB_JSON_MAP,	   /* message: of an entry, {1 key, 2 value}; a repeated field on the wire, an object in JSON */
	PB_JSON_TIMESTAMP, /* google.protobuf.Timestamp {1 seconds, 2 nanos} as RFC 3339 */
	PB_JSON_DURATION,  /* google.protobuf.Duration {1 seconds, 2 nanos} as "1.5s" */
};
struct pb_json_enum {
	const char *name; /* the last one is NULL */
	int32_t number;
};
struct pb_json_message;
struct pb_json_field {
	const char *name; /* the JSON name, lowerCamelCase */
	uint32_t number;
	enum pb_json_kind kind;
	bool repeated;
	const struct pb_json_message *message; /* MESSAGE, MAP */
	const struct pb_json_enum *names;      /* ENUM */
	bool explicit_presence;		       /* `optional` or of a `oneof`: a zero that is there is written as JSON, too */
};
struct pb_json_message {
	const char *name; /* for messages of errors: "SelectSeriesRequest" */
	const struct pb_json_field *fields;
	size_t count; /* 64 at most */
};
/* The initialiser of a message at file scope: its name, then its fields. */
#define PB_JSON_MESSAGE_OF(title, ...)                                                                                         \
	{                                                                                                                      \
		.name = title, .fields = (const struct pb_json_field[]){__VA_ARGS__},                                          \
		.count = sizeof((const struct pb_json_field[]){__VA_ARGS__}) / sizeof(struct pb_json_field)                    \
	}

/*
 * Appends the message. Members may be named in lowerCamelCase or as in the .proto file (snake_case); unknown ones are skipped,
 * null is as if it were not there, a member that comes twice counts as protobuf says (the last, merged, or both of a list).
 * -EBADMSG names the field and what is wrong with it; -E2BIG for too deep and past out->max; -ENOMEM. On failure out may hold
 * part of the message.
 */
int pb_json_to_binary(struct bytes json, const struct pb_json_message *message, struct buffer *out, struct error *err);
/*
 * Appends the JSON: lowerCamelCase, in the order of the table, 64-bit integers as texts, default values left out, bytes in
 * standard base64 with padding. Unknown fields are skipped; of a field that is not repeated the last counts. -EBADMSG, -E2BIG,
 * -ENOMEM as above.
 */
int pb_json_from_binary(struct bytes binary, const struct pb_json_message *message, struct buffer *out, struct error *err);

#endif
