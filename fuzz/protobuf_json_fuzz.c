/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf's JSON: from JSON, back, and once more, which must be the same; and from what claims to be a message. */
#include <stdlib.h>

#include "base/limits.h"
#include "codec/protobuf_json.h"
#include "must.h"

static const struct pb_json_enum names[] = {{"ZERO", 0}, {"ONE", 1}, {NULL, 0}};
static const struct pb_json_message message;
static const struct pb_json_field entry_fields[] = {
	{.name = "key", .number = 1, .kind = PB_JSON_STRING},
	{.name = "value", .number = 2, .kind = PB_JSON_MESSAGE, .message = &message},
};
static const struct pb_json_message entry = {"Entry", entry_fields, 2};
static const struct pb_json_field fields[] = {
	{.name = "a", .number = 1, .kind = PB_JSON_INT32},
	{.name = "b", .number = 2, .kind = PB_JSON_UINT64},
	{.name = "c", .number = 3, .kind = PB_JSON_SINT64, .repeated = true},
	{.name = "d", .number = 4, .kind = PB_JSON_FIXED64, .repeated = true},
	{.name = "e", .number = 5, .kind = PB_JSON_FLOAT},
	{.name = "f", .number = 6, .kind = PB_JSON_DOUBLE, .repeated = true},
	{.name = "g", .number = 7, .kind = PB_JSON_BOOL},
	{.name = "h", .number = 8, .kind = PB_JSON_STRING, .repeated = true},
	{.name = "i", .number = 9, .kind = PB_JSON_BYTES},
	{.name = "j", .number = 10, .kind = PB_JSON_HEX},
	{.name = "k", .number = 11, .kind = PB_JSON_ENUM, .names = names, .repeated = true},
	{.name = "l", .number = 12, .kind = PB_JSON_MESSAGE, .message = &message},
	{.name = "m", .number = 13, .kind = PB_JSON_MESSAGE, .message = &message, .repeated = true},
	{.name = "n", .number = 14, .kind = PB_JSON_MAP, .message = &entry},
	{.name = "o", .number = 15, .kind = PB_JSON_TIMESTAMP},
	{.name = "p", .number = 16, .kind = PB_JSON_DURATION},
	{.name = "q", .number = 17, .kind = PB_JSON_INT64, .explicit_presence = true},
};
static const struct pb_json_message message = {"Message", fields, sizeof(fields) / sizeof(fields[0])};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buffer binary, text, binary2, text2;
	buffer_init(&binary, 16 * MIB);
	buffer_init(&text, 16 * MIB);
	buffer_init(&binary2, 16 * MIB);
	buffer_init(&text2, 16 * MIB);
	/* Nested deeper than JSON is written is the one thing that can be read and not written. */
	if (pb_json_to_binary((struct bytes){data, size}, &message, &binary, NULL) == 0 &&
	    pb_json_from_binary(buffer_bytes(&binary), &message, &text, NULL) == 0) {
		must(pb_json_to_binary(buffer_bytes(&text), &message, &binary2, NULL) == 0);
		must(pb_json_from_binary(buffer_bytes(&binary2), &message, &text2, NULL) == 0);
		must(bytes_equal(buffer_bytes(&text), buffer_bytes(&text2)));
	}
	buffer_clear(&text);
	buffer_clear(&binary2);
	if (pb_json_from_binary((struct bytes){data, size}, &message, &text, NULL) == 0)
		must(pb_json_to_binary(buffer_bytes(&text), &message, &binary2, NULL) == 0);
	buffer_release(&binary);
	buffer_release(&text);
	buffer_release(&binary2);
	buffer_release(&text2);
	return 0;
}
