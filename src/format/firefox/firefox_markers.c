/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markers and counters as the Firefox Profiler has them (docs-developer/markers.md there).
 *
 * A marker's data is an object whose "type" names a schema of meta.markerSchema, which says how its members are shown. Texts
 * are "unique-string", numbers of stringArray. A flow is an id of 64 bits, in hexadecimal digits, among the texts, too:
 * "flow-id", or "terminating-flow-id" when it ends; a schema has both fields if any of its markers is in a flow.
 *
 * A counter's `count` is what was added since the row before: of a level, its difference; of a share of time, that much of the
 * milliseconds that passed. The first row of a level is its height.
 */
#include "format/firefox/firefox_markers.h"

#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"
#include "base/time.h"

#define FLOW_KEY      "flow"
#define FLOW_ENDS_KEY "flowEnds"

static const char *const colors[] = {"blue",	  "green",   "purple", "orange", "yellow",
				     "lightblue", "magenta", "brown",  "red",	 "lightred"};
#define COLORS (sizeof(colors) / sizeof(colors[0]))

static const char *const field_formats[PROFILE_FIELD_FORMATS] = {
	[PROFILE_FIELD_STRING] = "unique-string",
	[PROFILE_FIELD_INTEGER] = "integer",
	[PROFILE_FIELD_DECIMAL] = "decimal",
	[PROFILE_FIELD_PERCENTAGE] = "percentage",
	[PROFILE_FIELD_DURATION] = "nanoseconds",
	[PROFILE_FIELD_BYTES] = "bytes",
	[PROFILE_FIELD_PID] = "pid",
	[PROFILE_FIELD_TID] = "tid",
};

static struct bytes string_of(const struct firefox_markers *markers, uint32_t id)
{
	return profile_string_bytes(markers->profile, id);
}

static const char *color_of(const struct firefox_markers *markers, uint32_t color, size_t number)
{
	static const char *const others[] = {"grey", "darkgrey", "transparent"};
	struct bytes wanted = string_of(markers, color);
	for (size_t i = 0; i < COLORS; i++)
		if (bytes_equal_string(wanted, colors[i]))
			return colors[i];
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (bytes_equal_string(wanted, others[i]))
			return others[i];
	return colors[number % COLORS];
}

/* ---- building ---- */

static int number_categories(struct firefox_markers *ret)
{
	const struct profile_markers *markers = ret->markers;
	_cleanup_(map64_release) struct map64 by_name = {0};
	ret->categories = mem_zalloc_array(markers->category_count, sizeof(*ret->categories));
	ret->new_categories = mem_alloc_array(markers->category_count, sizeof(*ret->new_categories));
	if (!ret->categories || !ret->new_categories)
		return -ENOMEM;
	for (uint32_t i = 1; i < markers->category_count; i++) {
		uint32_t name = markers->categories[i].name;
		uint64_t number = FIREFOX_CATEGORIES;
		for (uint32_t k = 0; k < FIREFOX_CATEGORIES; k++)
			if (bytes_equal_string(string_of(ret, name), firefox_categories[k].name))
				number = k;
		if (number == FIREFOX_CATEGORIES && name && !map64_get(&by_name, name, &number)) {
			number = FIREFOX_CATEGORIES + ret->new_category_count;
			ret->new_categories[ret->new_category_count++] = i;
			if (map64_put(&by_name, name, number) < 0)
				return -ENOMEM;
		}
		ret->categories[i] = name ? (uint32_t)number : 0;
	}
	return 0;
}

static int number_schemas(struct firefox_markers *ret)
{
	const struct profile_markers *markers = ret->markers;
	_cleanup_(map64_release) struct map64 by_name = {0};
	ret->schema_numbers = mem_zalloc_array(markers->schema_count, sizeof(*ret->schema_numbers));
	ret->has_flows = mem_zalloc_array(markers->schema_count, sizeof(*ret->has_flows));
	ret->has_markers = mem_zalloc_array(markers->schema_count, sizeof(*ret->has_markers));
	if (!ret->schema_numbers || !ret->has_flows || !ret->has_markers)
		return -ENOMEM;
	for (uint32_t i = 1; i < markers->schema_count; i++) {
		uint64_t number = 0;
		if (map64_get(&by_name, markers->schemas[i].name, &number))
			number++;
		ret->schema_numbers[i] = (uint32_t)number;
		if (map64_put(&by_name, markers->schemas[i].name, number) < 0)
			return -ENOMEM;
	}
	for (size_t i = 0; i < markers->marker_count; i++) {
		ret->has_flows[markers->markers[i].schema] |= markers->markers[i].flow != 0;
		ret->has_markers[markers->markers[i].schema] = true;
	}
	return 0;
}

static size_t flow_text(uint64_t flow, char out[static 17])
{
	return (size_t)snprintf(out, 17, "%llx", (unsigned long long)flow);
}

static int add_texts(const struct firefox_markers *ret, struct intern *texts)
{
	const struct profile_markers *markers = ret->markers;
	uint32_t id;
	int r = 0;
	for (size_t i = 0; r == 0 && i < markers->marker_count; i++) {
		const struct profile_marker *marker = &markers->markers[i];
		struct bytes name = string_of(ret, marker->name);
		char flow[17];
		r = intern_add(texts, name.data, name.len, &id);
		if (r == 0 && marker->flow)
			r = intern_add(texts, flow, flow_text(marker->flow, flow), &id);
		for (uint32_t k = 0; r == 0 && k < markers->schemas[marker->schema].field_count; k++) {
			const struct profile_marker_value *value = &markers->values[marker->value_first + k];
			struct bytes text =
				value->kind == PROFILE_VALUE_STRING ? string_of(ret, value->string) : (struct bytes){0};
			if (text.len)
				r = intern_add(texts, text.data, text.len, &id);
		}
	}
	return r;
}

static int order_rows(struct firefox_markers *ret)
{
	const struct profile_markers *markers = ret->markers;
	ret->row_order = mem_alloc_array(markers->row_count, sizeof(*ret->row_order));
	ret->row_first = mem_zalloc_array(markers->counter_count + 2, sizeof(*ret->row_first));
	if (!ret->row_order || !ret->row_first)
		return -ENOMEM;
	/* By counting: [counter + 2] becomes the end of the counter, then [counter + 1] its beginning while they are filled. */
	for (size_t i = 0; i < markers->row_count; i++)
		ret->row_first[markers->rows[i].counter + 2]++;
	for (size_t i = 2; i < markers->counter_count + 2; i++)
		ret->row_first[i] += ret->row_first[i - 1];
	for (size_t i = 0; i < markers->row_count; i++)
		ret->row_order[ret->row_first[markers->rows[i].counter + 1]++] = (uint32_t)i;
	return 0;
}

int firefox_markers_build(const struct profile *profile, struct intern *texts, struct firefox_markers *ret)
{
	*ret = (struct firefox_markers){.profile = profile, .markers = profile->markers, .texts = texts};
	if (!ret->markers)
		return 0;
	int r = number_categories(ret);
	if (r == 0)
		r = number_schemas(ret);
	if (r == 0)
		r = order_rows(ret);
	return r < 0 ? r : add_texts(ret, texts);
}

void firefox_markers_release(struct firefox_markers *markers)
{
	mem_free(markers->categories);
	mem_free(markers->new_categories);
	mem_free(markers->schema_numbers);
	mem_free(markers->has_flows);
	mem_free(markers->has_markers);
	mem_free(markers->row_order);
	mem_free(markers->row_first);
	*markers = (struct firefox_markers){0};
}

static void widen(int64_t ns, int64_t *first, int64_t *last)
{
	if (ns > 0 && ns < *first)
		*first = ns;
	if (ns > *last)
		*last = ns;
}

void firefox_markers_widen(const struct profile *profile, int64_t *first, int64_t *last)
{
	const struct profile_markers *markers = profile->markers;
	for (size_t i = 0; markers && i < markers->marker_count; i++) {
		widen(markers->markers[i].start_ns, first, last);
		widen(markers->markers[i].end_ns, first, last);
	}
	for (size_t i = 0; markers && i < markers->row_count; i++)
		widen(markers->rows[i].time_ns, first, last);
}

/* ---- writing ---- */

void firefox_put_marker_categories(const struct firefox_markers *markers, struct json_writer *json)
{
	for (size_t i = 0; i < markers->new_category_count; i++) {
		const struct profile_marker_category *category = &markers->markers->categories[markers->new_categories[i]];
		json_begin_object(json);
		json_member_bytes(json, "name", string_of(markers, category->name));
		json_member_cstring(json, "color", color_of(markers, category->color, i));
		json_member_array(json, "subcategories");
		json_cstring(json, "Other");
		json_end_array(json);
		json_end_object(json);
	}
}

#define KEY_MAX 300
/* The text that a field goes by: its key, unless that is a name that the viewer has a meaning for, or an earlier field's. */
static struct bytes key_of_field(const struct firefox_markers *markers, const struct profile_marker_schema *schema,
				 uint32_t number, char out[static KEY_MAX])
{
	static const char *const reserved[] = {"type", "cause", "innerWindowID", FLOW_KEY, FLOW_ENDS_KEY, ""};
	const struct profile_marker_field *fields = &markers->markers->fields[schema->field_first];
	struct bytes key = string_of(markers, fields[number].key);
	bool taken = key.len > 256;
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		taken |= bytes_equal_string(key, reserved[i]);
	for (uint32_t i = 0; i < number; i++)
		taken |= fields[i].key == fields[number].key;
	if (!taken)
		return key;
	int len = snprintf(out, KEY_MAX, "%.*s_%u", (int)(key.len > 256 ? 256 : key.len), (const char *)key.data, number + 1);
	return (struct bytes){(const uint8_t *)out, (size_t)len};
}

static void put_schema_name(const struct firefox_markers *markers, uint32_t schema, const char *key, struct json_writer *json)
{
	struct bytes name = string_of(markers, markers->markers->schemas[schema].name);
	char text[320];
	uint32_t number = markers->schema_numbers[schema];
	json_key(json, key);
	if (number == 0 && name.len) {
		json_bytes(json, name);
		return;
	}
	int len = snprintf(text, sizeof(text), "%.*s (%u)", (int)(name.len > 256 ? 256 : name.len), (const char *)name.data,
			   number + 1);
	json_bytes(json, (struct bytes){(const uint8_t *)text, (size_t)len});
}

static void put_field(struct json_writer *json, struct bytes key, struct bytes label, const char *format)
{
	json_begin_object(json);
	json_member_bytes(json, "key", key);
	json_member_bytes(json, "label", label.len ? label : key);
	json_member_cstring(json, "format", format);
	json_end_object(json);
}

/* Without one the table shows nothing but the name: "rows: {marker.data.rows}, peer: {marker.data.peer}". */
static void put_table_label(const struct firefox_markers *markers, const struct profile_marker_schema *schema,
			    struct json_writer *json)
{
	_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
	for (uint32_t i = 0; i < schema->field_count; i++) {
		char key_text[KEY_MAX];
		struct bytes key = key_of_field(markers, schema, i, key_text),
			     label = string_of(markers, markers->markers->fields[schema->field_first + i].label);
		label = label.len ? label : key;
		buffer_printf(&text, "%s%.*s: {marker.data.%.*s}", i ? ", " : "", (int)label.len, (const char *)label.data,
			      (int)key.len, (const char *)key.data);
	}
	buffer_fail(json->out, buffer_status(&text));
	if (schema->field_count > 0)
		json_member_bytes(json, "tableLabel", buffer_bytes(&text));
}

static void put_schema(const struct firefox_markers *markers, uint32_t number, struct json_writer *json)
{
	const struct profile_marker_schema *schema = &markers->markers->schemas[number];
	json_begin_object(json);
	put_schema_name(markers, number, "name", json);
	json_member_array(json, "display");
	json_cstring(json, "marker-chart");
	json_cstring(json, "marker-table");
	json_cstring(json, "timeline-overview");
	json_end_array(json);
	if (schema->chart_label)
		json_member_bytes(json, "chartLabel", string_of(markers, schema->chart_label));
	if (schema->tooltip_label)
		json_member_bytes(json, "tooltipLabel", string_of(markers, schema->tooltip_label));
	if (schema->table_label)
		json_member_bytes(json, "tableLabel", string_of(markers, schema->table_label));
	else
		put_table_label(markers, schema, json);
	json_member_array(json, "fields");
	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct profile_marker_field *field = &markers->markers->fields[schema->field_first + i];
		char key[KEY_MAX];
		put_field(json, key_of_field(markers, schema, i, key), string_of(markers, field->label),
			  field_formats[field->format]);
	}
	if (markers->has_flows[number]) {
		put_field(json, bytes_of_string(FLOW_KEY), bytes_of_string("Flow"), "flow-id");
		put_field(json, bytes_of_string(FLOW_ENDS_KEY), bytes_of_string("Flow that ends"), "terminating-flow-id");
	}
	json_end_array(json);
	json_end_object(json);
}

void firefox_put_marker_schemas(const struct firefox_markers *markers, struct json_writer *json)
{
	for (uint32_t i = 1; markers->markers && i < markers->markers->schema_count; i++)
		if (markers->has_markers[i])
			put_schema(markers, i, json);
}

static void put_value(const struct firefox_markers *markers, const struct profile_marker_value *value,
		      enum profile_field_format format, struct json_writer *json)
{
	if (value->kind == PROFILE_VALUE_STRING && format == PROFILE_FIELD_STRING) {
		struct bytes text = string_of(markers, value->string);
		uint32_t id = 0;
		intern_find(markers->texts, text.data, text.len, &id);
		json_uint(json, id);
	} else if (value->kind == PROFILE_VALUE_STRING) {
		json_bytes(json, string_of(markers, value->string));
	} else if (value->kind == PROFILE_VALUE_REAL) {
		json_double(json, value->real);
	} else {
		json_int(json, value->number);
	}
}

void firefox_put_marker_data(const struct firefox_markers *markers, uint32_t number, struct json_writer *json)
{
	const struct profile_marker *marker = &markers->markers->markers[number];
	const struct profile_marker_schema *schema = &markers->markers->schemas[marker->schema];
	if (!marker->schema) {
		json_nil(json);
		return;
	}
	json_begin_object(json);
	put_schema_name(markers, marker->schema, "type", json);
	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct profile_marker_value *value = &markers->markers->values[marker->value_first + i];
		enum profile_field_format format = markers->markers->fields[schema->field_first + i].format;
		char key_text[KEY_MAX], name[KEY_MAX];
		/* A text of stringArray is a number there; a number is not a text. */
		if (value->kind == PROFILE_VALUE_NONE ||
		    (format == PROFILE_FIELD_STRING && value->kind != PROFILE_VALUE_STRING))
			continue;
		struct bytes key = key_of_field(markers, schema, i, key_text);
		snprintf(name, sizeof(name), "%.*s", (int)key.len, (const char *)key.data);
		json_key(json, name);
		put_value(markers, value, format, json);
	}
	if (marker->flow) {
		char text[17];
		uint32_t id = 0;
		intern_find(markers->texts, text, flow_text(marker->flow, text), &id);
		json_member_uint(json, marker->flow_ends ? FLOW_ENDS_KEY : FLOW_KEY, id);
	}
	/* No schema has it, so viewers do not show it. */
	if (marker->of_process)
		json_member_bool(json, FIREFOX_OF_PROCESS_KEY, true);
	json_end_object(json);
}

/* ---- counters ---- */

static double count_of_row(enum profile_counter_kind kind, const struct profile_counter_row *row,
			   const struct profile_counter_row *before)
{
	if (kind == PROFILE_COUNTER_LEVEL)
		return before ? row->value - before->value : row->value;
	if (kind == PROFILE_COUNTER_SHARE)
		return before ? row->value * (double)(row->time_ns - before->time_ns) / (double)NS_PER_MS : 0;
	return row->value;
}

static void put_tooltip_row(const char *source, const char *unit, const char *label, struct json_writer *json)
{
	json_begin_object(json);
	json_member_cstring(json, "type", "value");
	json_member_cstring(json, "source", source);
	json_member_object(json, "format");
	json_member_cstring(json, "unit", unit);
	json_end_object(json);
	json_member_cstring(json, "label", label);
	json_end_object(json);
}

static void put_display(const struct firefox_markers *markers, const struct profile_counter *counter, uint32_t number,
			struct json_writer *json)
{
	bool is_level = counter->kind == PROFILE_COUNTER_LEVEL, is_share = counter->kind == PROFILE_COUNTER_SHARE,
	     is_bytes = bytes_equal_string(string_of(markers, counter->unit), "bytes");
	const char *unit = is_bytes ? "bytes" : "number";
	json_member_object(json, "display");
	json_member_cstring(json, "graphType", is_level ? "line-accumulated" : "line-rate");
	json_member_bytes(json, "unit", is_share ? bytes_of_string("percent") : string_of(markers, counter->unit));
	json_member_cstring(json, "color", color_of(markers, counter->color, number));
	json_member_null(json, "markerSchemaLocation");
	json_member_uint(json, "sortWeight", 50);
	json_member_bytes(json, "label", string_of(markers, counter->name));
	json_member_array(json, "tooltipRows");
	if (is_level) {
		put_tooltip_row("accumulated", unit, "at this time", json);
		put_tooltip_row("count-range", unit, "range in the graph", json);
	} else if (is_share) {
		put_tooltip_row("cpu-ratio", "percent", "of the time", json);
	} else {
		put_tooltip_row("count", unit, "since the sample before", json);
		put_tooltip_row("committed-range-total", unit, "in the visible range", json);
	}
	json_end_array(json);
	json_end_object(json);
}

void firefox_put_counter(const struct firefox_markers *markers, uint32_t number, struct firefox_rows part, struct bytes pid,
			 size_t main_thread, unsigned version, struct json_writer *json)
{
	const struct profile_counter *counter = &markers->markers->counters[number];
	const struct profile_counter_row *rows = markers->markers->rows;
	const uint32_t *order = markers->row_order + part.first;
	size_t count = part.end - part.first;
	/* Changes of a level begin with the level, shares of the time are since the row before. */
	const struct profile_counter_row *before =
		counter->kind != PROFILE_COUNTER_LEVEL && part.first > markers->row_first[number] ? &rows[order[-1]] : NULL;
	json_begin_object(json);
	json_member_bytes(json, "name", string_of(markers, counter->name));
	json_member_bytes(json, "category", string_of(markers, counter->category));
	json_member_bytes(json, "description", string_of(markers, counter->description));
	if (version < FIREFOX_COUNTER_DISPLAY)
		json_member_cstring(json, "color", color_of(markers, counter->color, number));
	put_display(markers, counter, number, json);
	json_member_bytes(json, "pid", pid);
	json_member_uint(json, "mainThreadIndex", main_thread);
	json_member_object(json, "samples");
	json_member_array(json, "time");
	for (size_t i = 0; i < count; i++) {
		int64_t ns = rows[order[i]].time_ns;
		json_decimal(json, ns > markers->start_ns ? ns - markers->start_ns : 0, 6);
	}
	json_end_array(json);
	json_member_array(json, "count");
	for (size_t i = 0; i < count; i++)
		json_double(json, count_of_row(counter->kind, &rows[order[i]], i ? &rows[order[i - 1]] : before));
	json_end_array(json);
	json_member_uint(json, "length", count);
	json_end_object(json);
	json_end_object(json);
}
