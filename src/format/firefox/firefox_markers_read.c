/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading markers and counters. A marker's fields are those that the schema named by its "type" has; what the schema does not
 * have is left out. Markers without a schema keep their name and times.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/time.h"
#include "format/firefox/firefox_read.h"

static const struct {
	const char *name;
	enum profile_field_format format;
	double scale; /* to the profile's unit */
} known_formats[] = {
	{"unique-string", PROFILE_FIELD_STRING, 1},
	{"string", PROFILE_FIELD_STRING, 1},
	{"sanitized-string", PROFILE_FIELD_STRING, 1},
	{"url", PROFILE_FIELD_STRING, 1},
	{"file-path", PROFILE_FIELD_STRING, 1},
	{"integer", PROFILE_FIELD_INTEGER, 1},
	{"decimal", PROFILE_FIELD_DECIMAL, 1},
	{"percentage", PROFILE_FIELD_PERCENTAGE, 1},
	{"bytes", PROFILE_FIELD_BYTES, 1},
	{"pid", PROFILE_FIELD_PID, 1},
	{"tid", PROFILE_FIELD_TID, 1},
	{"nanoseconds", PROFILE_FIELD_DURATION, 1},
	{"microseconds", PROFILE_FIELD_DURATION, 1e3},
	{"milliseconds", PROFILE_FIELD_DURATION, 1e6},
	{"duration", PROFILE_FIELD_DURATION, 1e6},
	{"seconds", PROFILE_FIELD_DURATION, 1e9},
};
#define KNOWN_FORMATS (sizeof(known_formats) / sizeof(known_formats[0]))

static size_t find_format(const char *name)
{
	size_t i = 0;
	while (name && i < KNOWN_FORMATS && strcmp(known_formats[i].name, name) != 0)
		i++;
	return name ? i : KNOWN_FORMATS;
}

/* ---- schemas ---- */

/* The fields that carry values: static ones have a text instead of a key; flows are no fields of ours. */
static const struct json_node *fields_of(const struct json_node *schema)
{
	const struct json_node *fields = json_node_get(schema, "fields");
	return fields ? fields : json_node_get(schema, "data");
}

static bool is_flow(const char *format, bool *ret_ends)
{
	*ret_ends = format && strcmp(format, "terminating-flow-id") == 0;
	return *ret_ends || (format && strcmp(format, "flow-id") == 0);
}

static int read_fields(struct firefox_reader *reader, const struct json_node *node, struct firefox_schema *schema,
		       struct profile_marker_field *out, struct error *err)
{
	const struct json_node *fields = fields_of(node);
	int r = 0;
	for (size_t i = 0; r == 0 && i < json_node_count(fields); i++) {
		const struct json_node *field = json_node_at(fields, i), *key = json_node_get(field, "key");
		const char *name = json_node_text(json_node_get(field, "format"));
		size_t format = find_format(name);
		bool ends;
		if (!json_node_is(key, JSON_NODE_TEXT))
			continue;
		if (is_flow(name, &ends)) {
			if (schema->flow_count < FIREFOX_FLOWS_MAX)
				schema->flows[schema->flow_count++] = (uint32_t)i;
			continue;
		}
		if (schema->field_count == PROFILE_MARKER_FIELDS_MAX)
			continue;
		/* What we do not know is a text, unless it turns out to be a number. */
		struct profile_marker_field *to = &out[schema->field_count];
		*to = (struct profile_marker_field){.format = format < KNOWN_FORMATS ? known_formats[format].format
										     : PROFILE_FIELD_STRING};
		schema->fields[schema->field_count++] = (uint32_t)i;
		const struct format_string texts[] = {{"key", &to->key}, {"label", &to->label}};
		r = format_add_members(reader->profile, field, texts, 2, err);
		if (to->label == to->key)
			to->label = 0;
	}
	return r;
}

static int read_schema(struct firefox_reader *reader, const struct json_node *node, struct error *err)
{
	struct profile_marker_field fields[PROFILE_MARKER_FIELDS_MAX];
	struct profile_marker_schema added = {0};
	struct firefox_schema schema = {.node = node};
	const struct format_string texts[] = {{"name", &added.name},
					      {"chartLabel", &added.chart_label},
					      {"tooltipLabel", &added.tooltip_label},
					      {"tableLabel", &added.table_label}};
	uint64_t known;
	int r = format_add_members(reader->profile, node, texts, sizeof(texts) / sizeof(texts[0]), err);
	if (r == 0)
		r = read_fields(reader, node, &schema, fields, err);
	if (r == 0)
		r = profile_add_marker_schema(reader->profile, &added, fields, schema.field_count, &schema.id, err);
	if (r < 0)
		return r;
	if (map64_get(&reader->schema_by_name, added.name, &known))
		return 0;
	if (array_reserve(&reader->schemas, &reader->schema_capacity, reader->schema_count + 1, UINT32_MAX) < 0 ||
	    map64_put(&reader->schema_by_name, added.name, reader->schema_count) < 0)
		return error_nomem(err);
	reader->schemas[reader->schema_count++] = schema;
	return 0;
}

int firefox_read_schemas(struct firefox_reader *reader, struct error *err)
{
	const struct json_node *schemas = json_node_get(reader->meta, "markerSchema");
	int r = 0;
	for (size_t i = 0; r == 0 && i < json_node_count(schemas); i++)
		r = read_schema(reader, json_node_at(schemas, i), err);
	return r;
}

static const struct firefox_schema *schema_of(const struct firefox_reader *reader, const struct json_node *data)
{
	struct bytes type = json_node_bytes(json_node_get(data, "type"));
	uint32_t name;
	uint64_t number;
	if (type.len && intern_find(&reader->profile->strings, type.data, type.len, &name) &&
	    map64_get(&reader->schema_by_name, name, &number))
		return &reader->schemas[number];
	return NULL;
}

/* ---- markers ---- */

static int category_of(struct firefox_reader *reader, const struct json_node *node, uint32_t *ret, struct error *err)
{
	const struct json_node *categories = json_node_get(reader->meta, "categories");
	int64_t number;
	uint32_t name, color;
	*ret = 0;
	if (!json_node_integer(node, &number) || number < 0 || (uint64_t)number >= json_node_count(categories))
		return 0;
	const struct json_node *category = json_node_at(categories, (size_t)number);
	/* What has no category is in the grey one. */
	if (bytes_equal_string(json_node_bytes(json_node_get(category, "name")), "Other"))
		return 0;
	const struct format_string texts[] = {{"name", &name}, {"color", &color}};
	int r = format_add_members(reader->profile, category, texts, 2, err);
	return r < 0 ? r : profile_add_marker_category(reader->profile, name, color, ret, err);
}

static uint64_t parse_flow(struct bytes text)
{
	char copy[17], *end;
	if (text.len == 0)
		return 0;
	if (text.len <= 16) {
		memcpy(copy, text.data, text.len);
		copy[text.len] = 0;
		uint64_t flow = strtoull(copy, &end, 16);
		if (!*end && flow)
			return flow;
	}
	return hash64(text.data, text.len) | 1u;
}

/* A text of the table, or a text that stands where it is used. */
static struct bytes text_at(const struct json_node *strings, const struct json_node *node)
{
	int64_t index;
	if (json_node_is(node, JSON_NODE_TEXT))
		return json_node_bytes(node);
	if (!json_node_integer(node, &index) || index < 0 || (uint64_t)index >= json_node_count(strings))
		return (struct bytes){0};
	return json_node_bytes(json_node_at(strings, (size_t)index));
}

static int read_value(struct firefox_reader *reader, const struct json_node *strings, const struct json_node *node,
		      const char *format, struct profile_marker_value *ret, struct error *err)
{
	size_t known = find_format(format);
	double real, scale = known < KNOWN_FORMATS ? known_formats[known].scale : 1;
	*ret = (struct profile_marker_value){0};
	if (!node || node->kind == JSON_NODE_NULL)
		return 0;
	bool is_text = json_node_is(node, JSON_NODE_TEXT) || (format && strcmp(format, "unique-string") == 0);
	if (is_text) {
		struct bytes text = text_at(strings, node);
		ret->kind = PROFILE_VALUE_STRING;
		return profile_add_bytes(reader->profile, text, &ret->string, err);
	}
	if (json_node_is(node, JSON_NODE_INTEGER) && scale == 1) {
		ret->kind = PROFILE_VALUE_NUMBER;
		json_node_integer(node, &ret->number);
	} else if (json_node_real(node, &real) && isfinite(real)) {
		bool is_whole = known < KNOWN_FORMATS && known_formats[known].format == PROFILE_FIELD_DURATION &&
				fabs(real * scale) < 9e18;
		ret->kind = is_whole ? PROFILE_VALUE_NUMBER : PROFILE_VALUE_REAL;
		if (is_whole)
			ret->number = llround(real * scale);
		else
			ret->real = real;
	}
	return 0;
}

static int read_data(struct firefox_reader *reader, const struct json_node *strings, const struct json_node *data,
		     struct profile_marker *marker, struct profile_marker_value *values, struct error *err)
{
	const struct firefox_schema *schema = schema_of(reader, data);
	int r = 0;
	if (!schema)
		return 0;
	const struct json_node *fields = fields_of(schema->node), *of_process = json_node_get(data, FIREFOX_OF_PROCESS_KEY);
	marker->schema = schema->id;
	marker->of_process = json_node_is(of_process, JSON_NODE_BOOLEAN) && of_process->boolean;
	for (uint32_t i = 0; r == 0 && i < schema->field_count; i++) {
		const struct json_node *field = json_node_at(fields, schema->fields[i]);
		const char *key = json_node_text(json_node_get(field, "key"));
		r = read_value(reader, strings, json_node_get(data, key), json_node_text(json_node_get(field, "format")),
			       &values[i], err);
	}
	for (uint32_t i = 0; r == 0 && i < schema->flow_count; i++) {
		const struct json_node *field = json_node_at(fields, schema->flows[i]);
		const struct json_node *value = json_node_get(data, json_node_text(json_node_get(field, "key")));
		if (!value)
			continue;
		marker->flow = parse_flow(text_at(strings, value));
		is_flow(json_node_text(json_node_get(field, "format")), &marker->flow_ends);
	}
	return r;
}

/* Milliseconds since the start; false where there is no time, or none that makes sense. */
static bool read_marker_time(const struct firefox_reader *reader, const struct json_node *column, size_t row, int64_t *ret)
{
	double number;
	if (!json_node_real(json_node_at(column, row), &number))
		return false;
	return firefox_wall_ns(reader, number, ret);
}

/* The thread that markers and counters are of. */
static int read_thread(struct firefox_reader *reader, const struct json_node *thread, uint32_t *ret, struct error *err)
{
	struct profile_thread added = {0};
	struct firefox_id pid = firefox_read_id(reader, json_node_get(thread, "pid")),
			  tid = firefox_read_id(reader, json_node_get(thread, "tid"));
	double registered;
	if (bytes_equal_string(pid.text, FIREFOX_NO_PID)) {
		*ret = 0;
		return 0;
	}
	/* "17.1": the second thread of that tid; texts of the tree end with a zero. */
	added.pid = pid.number;
	added.tid = tid.is_number || !tid.text.len ? tid.number : strtoll((const char *)tid.text.data, NULL, 10);
	if (json_node_real(json_node_get(thread, "registerTime"), &registered) && registered > 0 &&
	    !firefox_wall_ns(reader, registered, &added.start_ns))
		added.start_ns = 0;
	struct bytes process = firefox_process_name(reader, thread);
	int r = firefox_find_host(reader, pid, &added.host, err);
	if (r == 0 && firefox_is_named(reader, thread, json_node_bytes(json_node_get(thread, "name"))))
		r = profile_add_bytes(reader->profile, json_node_bytes(json_node_get(thread, "name")), &added.name, err);
	if (r == 0)
		r = profile_add_bytes(reader->profile, process, &added.process, err);
	return r < 0 ? r : profile_add_thread(reader->profile, &added, ret, err);
}

int firefox_read_markers(struct firefox_reader *reader, const struct json_node *thread, const struct json_node *strings,
			 struct error *err)
{
	const struct json_node *markers = json_node_get(thread, "markers"), *names = json_node_get(markers, "name"),
			       *data = json_node_get(markers, "data"), *starts = json_node_get(markers, "startTime"),
			       *ends = json_node_get(markers, "endTime"), *phases = json_node_get(markers, "phase"),
			       *categories = json_node_get(markers, "category");
	struct profile_marker marker = {0};
	int r = 0;
	if (json_node_count(names) > 0)
		r = read_thread(reader, thread, &marker.thread, err);
	for (size_t i = 0; r == 0 && i < json_node_count(names); i++) {
		struct profile_marker one = {.thread = marker.thread};
		struct profile_marker_value values[PROFILE_MARKER_FIELDS_MAX] = {0};
		int64_t phase = PROFILE_MARKER_INSTANT;
		bool has_start = read_marker_time(reader, starts, i, &one.start_ns),
		     has_end = read_marker_time(reader, ends, i, &one.end_ns);
		if (!json_node_integer(json_node_at(phases, i), &phase) || phase < 0 || phase >= PROFILE_MARKER_PHASES)
			phase = has_end ? PROFILE_MARKER_INTERVAL : PROFILE_MARKER_INSTANT;
		one.phase = (enum profile_marker_phase)phase;
		if ((phase != PROFILE_MARKER_END && !has_start) ||
		    (!has_end && (phase == PROFILE_MARKER_END || phase == PROFILE_MARKER_INTERVAL))) {
			reader->markers++;
			continue;
		}
		struct bytes name = text_at(strings, json_node_at(names, i));
		r = profile_add_bytes(reader->profile, name, &one.name, err);
		if (r == 0)
			r = category_of(reader, json_node_at(categories, i), &one.category, err);
		if (r == 0)
			r = read_data(reader, strings, json_node_at(data, i), &one, values, err);
		if (r == 0)
			r = profile_add_marker(reader->profile, &one, values, err);
	}
	return r;
}

/* ---- counters ---- */

static enum profile_counter_kind kind_of(const struct json_node *counter)
{
	const struct json_node *display = json_node_get(counter, "display");
	const char *type = json_node_text(json_node_get(display, "graphType")),
		   *category = json_node_text(json_node_get(counter, "category"));
	if (type ? strcmp(type, "line-accumulated") == 0 : category && strcmp(category, "Memory") == 0)
		return PROFILE_COUNTER_LEVEL;
	if (bytes_equal_string(json_node_bytes(json_node_get(display, "unit")), "percent"))
		return PROFILE_COUNTER_SHARE;
	return PROFILE_COUNTER_EVENTS;
}

static int read_rows(struct firefox_reader *reader, const struct json_node *counter, uint32_t id,
		     enum profile_counter_kind kind, struct error *err)
{
	const struct json_node *samples = json_node_get(counter, "samples"), *times = json_node_get(samples, "time"),
			       *counts = json_node_get(samples, "count");
	double level = 0, count;
	int64_t before = 0, time_ns;
	int r = 0;
	for (size_t i = 0; r == 0 && i < json_node_count(times); i++) {
		if (!read_marker_time(reader, times, i, &time_ns) || !json_node_real(json_node_at(counts, i), &count) ||
		    !isfinite(level += count))
			continue;
		double value = count;
		if (kind == PROFILE_COUNTER_LEVEL)
			value = level;
		else if (kind == PROFILE_COUNTER_SHARE)
			value = before && time_ns > before ? count / ((double)(time_ns - before) / (double)NS_PER_MS) : 0;
		before = time_ns;
		r = profile_add_counter_row(reader->profile, id, time_ns, value, err);
	}
	return r;
}

int firefox_read_counters(struct firefox_reader *reader, const struct json_node *threads, struct error *err)
{
	const struct json_node *counters = json_node_get(reader->root, "counters");
	int r = 0;
	for (size_t i = 0; r == 0 && i < json_node_count(counters); i++) {
		const struct json_node *counter = json_node_at(counters, i), *display = json_node_get(counter, "display");
		struct profile_counter added = {.kind = kind_of(counter)};
		int64_t place;
		uint32_t id;
		const struct json_node *color = json_node_get(display, "color"), *thread = NULL;
		const struct format_string texts[] = {
			{"name", &added.name}, {"category", &added.category}, {"description", &added.description}};
		struct firefox_id pid = firefox_read_id(reader, json_node_get(counter, "pid"));
		added.pid = pid.number;
		color = color ? color : json_node_get(counter, "color");
		if (json_node_integer(json_node_get(counter, "mainThreadIndex"), &place) && place >= 0)
			thread = json_node_at(threads, (size_t)place);
		const struct json_node *is_main = json_node_get(thread, "isMainThread");
		r = firefox_find_host(reader, pid, &added.host, err);
		if (r == 0 && json_node_is(is_main, JSON_NODE_BOOLEAN) && !is_main->boolean)
			r = read_thread(reader, thread, &added.thread, err);
		if (r == 0)
			r = format_add_members(reader->profile, counter, texts, sizeof(texts) / sizeof(texts[0]), err);
		if (r == 0)
			r = profile_add_bytes(reader->profile, json_node_bytes(json_node_get(display, "unit")), &added.unit,
					      err);
		if (r == 0)
			r = profile_add_bytes(reader->profile, json_node_bytes(color), &added.color, err);
		if (r == 0)
			r = profile_add_counter(reader->profile, &added, &id, err);
		if (r == 0)
			r = read_rows(reader, counter, id, added.kind, err);
	}
	return r;
}
