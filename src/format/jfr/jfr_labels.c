/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels that Pyroscope's Java agent sends beside a recording. An application labels what it does in a scope, or for as long as
 * it runs (ScopedContext, ConstantContext and LabelsWrapper of io.pyroscope.labels.v2); async-profiler notes the number of the
 * scope with each event (contextId), and the agent sends what the numbers mean, as protobuf
 * (github.com/grafana/jfr-parser, pprof/jfr_labels.proto):
 *
 *   LabelsSnapshot   1 contexts  map<int64, Context>    by contextId
 *                    2 strings   map<int64, string>     also names of spans, by spanName of an event
 *   Context          1 labels    map<int64, int64>      string of the name -> string of the value
 *
 * A map is a repeated message of a key (1) and a value (2), either of which is zero or empty if it lacks; of several with one
 * key the last holds. Only the places of contexts and strings are kept: a snapshot has all scopes of a process, and a recording
 * of ten seconds refers to a few. All of it is checked when it is read, though, so that a damaged one is refused whole.
 */
#include <errno.h>
#include <string.h>

#include "format/jfr/jfr_int.h"

#define ENTRIES_MAX (1u << 20) /* contexts, or strings */

enum { SNAPSHOT_CONTEXTS = 1, SNAPSHOT_STRINGS = 2, CONTEXT_LABELS = 1, ENTRY_KEY = 1, ENTRY_VALUE = 2 };

/* An entry of a map whose values are bytes. */
static int read_entry(const struct pb_cursor *outer, struct bytes message, uint64_t *ret_key, struct bytes *ret_value,
		      struct error *err)
{
	struct pb_cursor cursor = pb_open_nested(outer, message);
	struct pb_field field;
	int r;
	*ret_key = 0;
	*ret_value = (struct bytes){0};
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number == ENTRY_KEY) {
			r = pb_expect(&cursor, &field, PB_VARINT, "LabelsSnapshot.key", err);
			*ret_key = field.value;
		} else if (field.number == ENTRY_VALUE) {
			r = pb_expect(&cursor, &field, PB_BYTES, "LabelsSnapshot.value", err);
			*ret_value = field.bytes;
		}
		if (r < 0)
			return r;
	}
	return r;
}

static int check_context(const struct pb_cursor *outer, struct bytes context, struct error *err)
{
	struct pb_cursor cursor = pb_open_nested(outer, context);
	uint64_t name, value;
	int r;
	while ((r = jfr_labels_next(&cursor, &name, &value, err)) > 0)
		continue;
	return r;
}

static int add_entry(struct jfr_labels *labels, const struct pb_cursor *cursor, const struct pb_field *field, struct error *err)
{
	bool is_context = field->number == SNAPSHOT_CONTEXTS;
	struct map64 *map = is_context ? &labels->contexts : &labels->strings;
	struct bytes value = {0};
	uint64_t key = 0;
	int r = pb_expect(cursor, field, PB_BYTES, is_context ? "LabelsSnapshot.contexts" : "LabelsSnapshot.strings", err);
	if (r == 0)
		r = read_entry(cursor, field->bytes, &key, &value, err);
	if (r == 0 && is_context)
		r = check_context(cursor, value, err);
	if (r < 0)
		return r;
	if (map->count == ENTRIES_MAX)
		return error_set(err, -E2BIG, "more than %u %s", ENTRIES_MAX, is_context ? "contexts" : "strings");
	uint64_t at = value.len ? (uint64_t)(value.data - labels->input.data) : 0;
	return map64_put(map, key, at << 32 | value.len) < 0 ? error_nomem(err) : 0;
}

int jfr_labels_read(struct bytes input, struct jfr_labels *ret, struct error *err)
{
	struct pb_cursor cursor = pb_open(input);
	struct pb_field field;
	int r;
	*ret = (struct jfr_labels){.input = input};
	map64_init_guarded(&ret->contexts);
	map64_init_guarded(&ret->strings);
	if (input.len > UINT32_MAX)
		return error_set(err, -E2BIG, "%zu bytes of labels", input.len);
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number == SNAPSHOT_CONTEXTS || field.number == SNAPSHOT_STRINGS)
			r = add_entry(ret, &cursor, &field, err);
		if (r < 0)
			return r;
	}
	return r;
}

void jfr_labels_release(struct jfr_labels *labels)
{
	map64_release(&labels->contexts);
	map64_release(&labels->strings);
}

static bool find(const struct jfr_labels *labels, const struct map64 *map, uint64_t key, struct bytes *ret)
{
	uint64_t place;
	if (!map64_get(map, key, &place))
		return false;
	*ret = (struct bytes){labels->input.data + (place >> 32), (uint32_t)place};
	return true;
}

bool jfr_labels_open(const struct jfr_labels *labels, uint64_t context, struct pb_cursor *ret)
{
	struct bytes message;
	if (!find(labels, &labels->contexts, context, &message))
		return false;
	*ret = pb_open(message);
	return true;
}

int jfr_labels_next(struct pb_cursor *cursor, uint64_t *ret_name, uint64_t *ret_value, struct error *err)
{
	struct pb_field field;
	uint64_t entry[ENTRY_VALUE + 1] = {0};
	int r;
	while ((r = pb_next(cursor, &field, err)) > 0 && field.number != CONTEXT_LABELS)
		continue;
	if (r <= 0)
		return r;
	r = pb_expect(cursor, &field, PB_BYTES, "Context.labels", err);
	if (r < 0)
		return r;
	struct pb_cursor inner = pb_open_nested(cursor, field.bytes);
	r = format_read_varints(&inner, "Context.labels", entry, ENTRY_VALUE, err);
	*ret_name = entry[ENTRY_KEY];
	*ret_value = entry[ENTRY_VALUE];
	return r < 0 ? r : 1;
}

bool jfr_labels_string(const struct jfr_labels *labels, uint64_t id, struct bytes *ret)
{
	return find(labels, &labels->strings, id, ret);
}
