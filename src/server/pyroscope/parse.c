/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of Pyroscope's query service: reading them. Their messages are told at the top of pyroscope/query.c. */
#include <errno.h>
#include <string.h>

#include "codec/protobuf.h"
#include "server/pyroscope/pyroscope_int.h"

const struct pyroscope_layout pyroscope_stacktraces_layout = {{0, FIELD_TYPE, FIELD_SELECTOR, FIELD_START, FIELD_END,
							       FIELD_MAX_NODES, FIELD_FORMAT, FIELD_STACKS, FIELD_PROFILES, 0,
							       FIELD_TRACES, FIELD_SPANS}};

int pyroscope_take_text(struct pyroscope *p, struct bytes text, const char **ret, struct error *err)
{
	if (text.len && memchr(text.data, 0, text.len))
		return error_set(err, -EINVAL, "a string of the request contains a NUL");
	*ret = arena_strndup(&p->arena, (const char *)text.data, text.len);
	if (*ret)
		return 0;
	return arena_is_full(&p->arena, text.len) ? error_set(err, -EINVAL, "the request is too large") : error_nomem(err);
}

/* The list's memory is the arena's too, so that a request needs no release. */
static int take_item(struct pyroscope *p, struct pyroscope_list *list, struct bytes text, struct error *err)
{
	if (list->count == PYROSCOPE_LIST_MAX)
		return error_set(err, -EINVAL, "a list of the request has more than %d items", PYROSCOPE_LIST_MAX);
	if (list->count == list->capacity) {
		size_t capacity = list->capacity ? 2 * list->capacity : 8;
		const char **items = arena_alloc(&p->arena, capacity * sizeof(*items));
		if (!items)
			return error_nomem(err);
		if (list->count)
			memcpy(items, list->items, list->count * sizeof(*items));
		list->items = items;
		list->capacity = capacity;
	}
	int r = pyroscope_take_text(p, text, &list->items[list->count], err);
	list->count += r == 0;
	return r;
}

/* types.v1.StackTraceSelector { 1 call_site { 1 name }, repeated  2 go_pgo } */
static int parse_stacks(struct pyroscope *p, struct pb_cursor *outer, struct bytes message, struct pyroscope_request *ret,
			struct error *err)
{
	struct pb_cursor cursor;
	struct pb_field field;
	struct bytes name;
	int r;
	pb_open_nested(&cursor, outer, message);
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		ret->pgo |= field.number == 2 && field.wire == PB_BYTES;
		if (field.number != 1 || field.wire != PB_BYTES)
			continue;
		r = pb_find_bytes(&cursor, field.bytes, 1, &name, err);
		if (!r)
			r = take_item(p, &ret->call_site, name, err);
		if (r < 0)
			return r;
	}
	return r;
}

static void parse_number(const struct pb_field *field, enum pyroscope_field kind, struct pyroscope_request *ret)
{
	switch (kind) {
	case FIELD_START: ret->start = (int64_t)field->value; break;
	case FIELD_END: ret->end = (int64_t)field->value; break;
	case FIELD_MAX_NODES: ret->max_nodes = (int64_t)field->value; break;
	case FIELD_LIMIT: ret->limit = (int64_t)field->value; break;
	case FIELD_FORMAT: ret->format = field->value; break;
	case FIELD_AGGREGATION: ret->aggregation = field->value; break;
	case FIELD_EXEMPLARS: ret->exemplars = field->value; break;
	case FIELD_HEATMAP: ret->heatmap = field->value; break;
	default: break;
	}
}

static int parse_bytes(struct pyroscope *p, struct pb_cursor *cursor, const struct pb_field *field, enum pyroscope_field kind,
		       struct pyroscope_request *ret, struct error *err)
{
	switch (kind) {
	case FIELD_TYPE: return pyroscope_take_text(p, field->bytes, &ret->type, err);
	case FIELD_SELECTOR: return pyroscope_take_text(p, field->bytes, &ret->selector, err);
	case FIELD_NAME: return pyroscope_take_text(p, field->bytes, &ret->name, err);
	case FIELD_MATCHERS: return take_item(p, &ret->matchers, field->bytes, err);
	case FIELD_LABELS: return take_item(p, &ret->labels, field->bytes, err);
	case FIELD_PROFILES: return take_item(p, &ret->profiles, field->bytes, err);
	case FIELD_TRACES: return take_item(p, &ret->traces, field->bytes, err);
	case FIELD_SPANS: return take_item(p, &ret->spans, field->bytes, err);
	case FIELD_STACKS: return parse_stacks(p, cursor, field->bytes, ret, err);
	case FIELD_LEFT: ret->left = field->bytes; return 0;
	case FIELD_RIGHT: ret->right = field->bytes; return 0;
	default: return 0;
	}
}

int pyroscope_parse(struct pyroscope *p, struct bytes message, const struct pyroscope_layout *layout,
		    struct pyroscope_request *ret, struct error *err)
{
	struct pb_cursor cursor;
	struct pb_field field;
	int r;
	*ret = (struct pyroscope_request){.type = "", .selector = "", .name = ""};
	pb_open(&cursor, message);
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		enum pyroscope_field kind = field.number < PYROSCOPE_FIELDS_MAX ? layout->fields[field.number] : FIELD_NONE;
		if (field.wire == PB_VARINT)
			parse_number(&field, kind, ret);
		else if (field.wire == PB_FIXED64 && kind == FIELD_STEP)
			memcpy(&ret->step, &field.value, sizeof(ret->step));
		else if (field.wire == PB_BYTES && (r = parse_bytes(p, &cursor, &field, kind, ret, err)) < 0)
			return r;
	}
	return r;
}
