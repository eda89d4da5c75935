/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http/rpc_read.h"

#include <errno.h>
#include <string.h>

#include "base/time.h"
#include "codec/protobuf.h"

#define SECONDS_MAX (INT64_MAX / NS_PER_S - 1)

static int take_text(const struct rpc_reader *reader, struct bytes text, const char **ret, struct error *err)
{
	if (text.len && memchr(text.data, 0, text.len))
		return error_set(err, -EINVAL, "a string of the request contains a NUL");
	*ret = arena_strndup(reader->arena, (const char *)text.data, text.len);
	if (*ret)
		return 0;
	return arena_is_full(reader->arena, text.len) ? error_set(err, -EINVAL, "the request is too large") : error_nomem(err);
}

/* The list's memory is the arena's too, so that a request needs no release. */
static int take_item(const struct rpc_reader *reader, struct bytes text, struct rpc_list *list, struct error *err)
{
	if (list->count == reader->list_max)
		return error_set(err, -EINVAL, "a list of the request has more than %zu items", reader->list_max);
	if (list->count == list->capacity) {
		size_t capacity = list->capacity ? 2 * list->capacity : 8;
		const char **items = arena_alloc(reader->arena, capacity * sizeof(*items));
		if (!items)
			return error_nomem(err);
		if (list->count)
			memcpy(items, list->items, list->count * sizeof(*items));
		list->items = items;
		list->capacity = capacity;
	}
	int r = take_text(reader, text, &list->items[list->count], err);
	list->count += r == 0;
	return r;
}

/* google.protobuf.Timestamp and Duration { 1 seconds 2 nanos } */
static int take_time(const struct pb_cursor *outer, struct bytes message, int64_t *ret, struct error *err)
{
	struct pb_field field;
	int64_t parts[3] = {0};
	struct pb_cursor cursor = pb_open_nested(outer, message);
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0)
		if (field.wire == PB_VARINT && field.number <= 2)
			parts[field.number] = (int64_t)field.value;
	if (r < 0)
		return r;
	if (parts[1] < 0 || parts[1] > SECONDS_MAX || parts[2] < 0 || parts[2] >= NS_PER_S)
		return error_set(err, -EINVAL, "a time of the request is before 1970 or too far in the future");
	*ret = parts[1] * NS_PER_S + parts[2];
	return 0;
}

static enum pb_wire wire_of(enum pb_json_kind kind)
{
	switch (kind) {
	case PB_JSON_STRING:
	case PB_JSON_BYTES:
	case PB_JSON_MESSAGE:
	case PB_JSON_TIMESTAMP:
	case PB_JSON_DURATION: return PB_BYTES;
	case PB_JSON_DOUBLE: return PB_FIXED64;
	case PB_JSON_FLOAT: return PB_FIXED32;
	default: return PB_VARINT;
	}
}

static int read_message(const struct rpc_reader *reader, const struct pb_cursor *outer, struct bytes message,
			const struct pb_json_message *form, void *to, struct error *err);

static int take(const struct rpc_reader *reader, const struct pb_cursor *cursor, const struct pb_field *field,
		const struct pb_json_field *form, const struct rpc_member *member, void *to, struct error *err)
{
	struct rpc_reader within = {member->members, reader->arena, reader->list_max};
	struct bytes text = field->bytes;
	uint32_t bits = (uint32_t)field->value;
	int r = 0;
	switch (member->kind) {
	case RPC_GIVEN: *(bool *)to = true; return 0;
	case RPC_BYTES: *(struct bytes *)to = text; return 0;
	case RPC_WITHIN: return read_message(&within, cursor, text, form->message, to, err);
	case RPC_LIST:
		if (form->kind == PB_JSON_MESSAGE)
			r = pb_find_bytes(cursor, field->bytes, 1, &text, err);
		return r < 0 ? r : take_item(reader, text, to, err);
	case RPC_VALUE: break;
	}
	switch (form->kind) {
	case PB_JSON_STRING: return take_text(reader, text, to, err);
	case PB_JSON_TIMESTAMP:
	case PB_JSON_DURATION: return take_time(cursor, text, to, err);
	case PB_JSON_BOOL: *(bool *)to = field->value != 0; return 0;
	case PB_JSON_FLOAT: memcpy(to, &bits, sizeof(bits)); return 0;
	default: memcpy(to, &field->value, sizeof(field->value)); return 0;
	}
}

static int read_field(const struct rpc_reader *reader, const struct pb_cursor *cursor, const struct pb_field *field,
		      const struct pb_json_message *form, void *to, struct error *err)
{
	size_t which = 0;
	int r = 0;
	while (which < form->count && form->fields[which].number != field->number)
		which++;
	if (which == form->count || field->wire != wire_of(form->fields[which].kind))
		return 0;
	for (const struct rpc_member *member = reader->members; r == 0 && member->name; member++)
		if (strcmp(member->name, form->fields[which].name) == 0)
			r = take(reader, cursor, field, &form->fields[which], member, (char *)to + member->offset, err);
	return r;
}

/* outer: NULL = none */
static int read_message(const struct rpc_reader *reader, const struct pb_cursor *outer, struct bytes message,
			const struct pb_json_message *form, void *to, struct error *err)
{
	struct pb_cursor cursor = pb_open_nested(outer, message);
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0)
		if ((r = read_field(reader, &cursor, &field, form, to, err)) < 0)
			return r;
	return r;
}

int rpc_read(const struct rpc_reader *reader, struct bytes message, const struct pb_json_message *form, void *to,
	     struct error *err)
{
	return read_message(reader, NULL, message, form, to, err);
}
