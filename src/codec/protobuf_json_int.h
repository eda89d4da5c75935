/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two ways of protobuf's JSON: what kinds of fields there are. */
#ifndef WICK_CODEC_PROTOBUF_JSON_INT_H
#define WICK_CODEC_PROTOBUF_JSON_INT_H

#include "codec/protobuf.h"
#include "codec/protobuf_json.h"

#define PB_JSON_DURATION_SECONDS_MAX 315576000000ll /* 10,000 years, protobuf's limit */

static inline enum pb_wire pb_json_wire_of(enum pb_json_kind kind)
{
	switch (kind) {
	case PB_JSON_FIXED32:
	case PB_JSON_SFIXED32:
	case PB_JSON_FLOAT: return PB_FIXED32;
	case PB_JSON_FIXED64:
	case PB_JSON_SFIXED64:
	case PB_JSON_DOUBLE: return PB_FIXED64;
	case PB_JSON_STRING:
	case PB_JSON_BYTES:
	case PB_JSON_HEX:
	case PB_JSON_MESSAGE:
	case PB_JSON_MAP:
	case PB_JSON_TIMESTAMP:
	case PB_JSON_DURATION: return PB_BYTES;
	default: return PB_VARINT;
	}
}

static inline bool pb_json_is_signed(enum pb_json_kind kind)
{
	return kind == PB_JSON_INT32 || kind == PB_JSON_INT64 || kind == PB_JSON_SINT32 || kind == PB_JSON_SINT64 ||
	       kind == PB_JSON_SFIXED32 || kind == PB_JSON_SFIXED64 || kind == PB_JSON_ENUM;
}

static inline bool pb_json_is_narrow(enum pb_json_kind kind)
{
	return kind == PB_JSON_INT32 || kind == PB_JSON_UINT32 || kind == PB_JSON_SINT32 || kind == PB_JSON_FIXED32 ||
	       kind == PB_JSON_SFIXED32 || kind == PB_JSON_ENUM;
}

static inline bool pb_json_is_real(enum pb_json_kind kind)
{
	return kind == PB_JSON_FLOAT || kind == PB_JSON_DOUBLE;
}

/* Of a map: 1 is the key, 2 the value. */
static inline const struct pb_json_field *pb_json_entry_field(const struct pb_json_field *map, uint32_t number)
{
	for (size_t i = 0; i < map->message->count; i++)
		if (map->message->fields[i].number == number)
			return &map->message->fields[i];
	return NULL;
}

#endif
