/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading markers of the Firefox Profiler's format, column by column, into rows of 40 bytes. A marker's data stay the text that
 * they are, without their type and with strings of the file's table as ids of ours (ANNOTATE_STRING_MARK): they will be other
 * numbers in the profile.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "format/annotate/annotate_int.h"

#define SEVENTIES_NS (10ll * 365 * 86400 * 1000000000)

struct file_schema {
	struct bytes name;
	uint32_t id;
	uint32_t field_count;
	struct bytes fields[ANNOTATE_FIELDS_MAX]; /* keys of those that are numbers of strings */
};

struct reader {
	struct annotate *annotate;
	struct json_scan *scan;
	struct error *err;
	uint32_t source;
	unsigned version;
	struct json_tree *meta;
	struct file_schema *schemas;
	size_t schema_count;
	const struct file_schema *last_schema; /* of the marker before: most are of one kind with it */
	uint32_t *categories;		       /* ids of ours, by number of the file */
	size_t category_count;
	struct arena texts;
	struct bytes *strings;
	uint32_t *string_ids; /* ids of ours; NONE = not needed yet */
	size_t string_count, string_capacity, id_capacity;
	uint32_t first_thread; /* of the file, in annotate.threads */
	uint32_t *thread_ids;  /* by place in the file; NONE = it has no markers */
	size_t thread_count, thread_capacity;
	struct buffer key;
};

/* ---- what both files have ---- */

int annotate_room(int code, const char *what, unsigned limit, struct error *err)
{
	if (code == -E2BIG)
		return error_set(err, code, "more than %u %s", limit, what);
	return code < 0 ? error_nomem(err) : 0;
}

struct annotate_id annotate_parse_id(struct bytes text)
{
	struct annotate_id id = {0};
	const uint8_t *colon = text.len ? memrchr(text.data, ':', text.len) : NULL;
	size_t at = colon ? (size_t)(colon - text.data) + 1 : 0, first = at;
	id.host = (struct bytes){text.data, colon ? at - 1 : 0};
	for (; at < text.len && text.data[at] >= '0' && text.data[at] <= '9' && at - first < 18; at++)
		id.number = id.number * 10 + (text.data[at] - '0');
	/* ".1" and "-1" tell those apart that share a number. */
	id.is_known = at > first && (at == text.len || text.data[at] == '.');
	return id;
}

int annotate_read_name(struct json_scan *scan, struct arena *arena, struct bytes *ret)
{
	struct bytes text;
	if (json_scan_peek(scan) != '"')
		return json_scan_skip(scan);
	int r = json_scan_text(scan, &text);
	if (r < 0)
		return r;
	const char *copy = arena_strndup(arena, (const char *)text.data, text.len);
	if (!copy)
		return scan->error = error_nomem(scan->err);
	*ret = (struct bytes){(const uint8_t *)copy, text.len};
	return 0;
}

int annotate_read_id(struct json_scan *scan, struct arena *arena, struct annotate_id *ret)
{
	struct bytes text = {0};
	int r;
	if (json_scan_peek(scan) != '"') {
		r = json_scan_integer(scan, &ret->number);
		ret->is_known = r == 0 && ret->number >= 0;
		return r < 0 ? r : 0;
	}
	r = annotate_read_name(scan, arena, &text);
	*ret = annotate_parse_id(text);
	return r;
}

int annotate_read_meta(struct json_scan *scan, struct json_tree **ret, struct error *err)
{
	struct bytes raw;
	if (*ret)
		return json_scan_fail(scan, "duplicate object meta");
	int r = json_scan_raw(scan, &raw);
	if (r < 0)
		return r;
	if (raw.len > ANNOTATE_META_BYTES)
		return json_scan_fail(scan, "meta is longer than 16 MiB");
	return scan->error = json_tree_read(raw, 0, ret, err);
}

static int64_t read_micro(const struct json_node *node)
{
	double real;
	if (json_node_is(node, JSON_NODE_INTEGER))
		return node->integer >= 0 && node->integer < 7300000000000 ? node->integer * 1000000 : ANNOTATE_UNKNOWN;
	if (!json_node_real(node, &real) || !(real >= 0 && real < 7.3e12))
		return ANNOTATE_UNKNOWN;
	/* A double of today's milliseconds is exact to a quarter of a microsecond. */
	int64_t whole = (int64_t)real;
	return whole * 1000000 + (int64_t)((real - (double)whole) * 1e6 + 0.5);
}

void annotate_read_start(const struct json_node *meta, int64_t *ret_wall_ns, int64_t *ret_monotonic_ns)
{
	*ret_wall_ns = read_micro(json_node_get(meta, "startTime"));
	if (*ret_wall_ns == 0)
		*ret_wall_ns = ANNOTATE_UNKNOWN;
	if (!json_node_integer(json_node_get(meta, "startTimeAsClockMonotonicNanosecondsSinceBoot"), ret_monotonic_ns) ||
	    *ret_monotonic_ns < 0)
		*ret_monotonic_ns = ANNOTATE_UNKNOWN;
	/* Nobody records in the Seventies: what perf prints are times since the machine's start. */
	if (*ret_wall_ns != ANNOTATE_UNKNOWN && *ret_wall_ns < SEVENTIES_NS && *ret_monotonic_ns == ANNOTATE_UNKNOWN) {
		*ret_monotonic_ns = *ret_wall_ns;
		*ret_wall_ns = ANNOTATE_UNKNOWN;
	}
}

const struct json_node *annotate_schema_fields(const struct json_node *schema)
{
	const struct json_node *fields = json_node_get(schema, "fields");
	return fields ? fields : json_node_get(schema, "data");
}

/* ---- meta ---- */

static bool is_string_format(const struct json_node *format)
{
	struct bytes name = json_node_bytes(format);
	return bytes_equal_string(name, "unique-string") || bytes_equal_string(name, "flow-id") ||
	       bytes_equal_string(name, "terminating-flow-id");
}

static int add_schema(struct reader *reader, const struct json_node *node)
{
	struct annotate *annotate = reader->annotate;
	const struct json_node *fields = annotate_schema_fields(node);
	struct file_schema *schema = &reader->schemas[reader->schema_count];
	struct bytes name = json_node_bytes(json_node_get(node, "name"));
	if (name.len == 0)
		return 0;
	int r = annotate_room(
		array_reserve(&annotate->schemas, &annotate->schema_capacity, annotate->schema_count + 1, ANNOTATE_SCHEMAS_MAX),
		"kinds of markers", ANNOTATE_SCHEMAS_MAX, reader->err);
	if (r < 0)
		return r;
	*schema = (struct file_schema){.name = name, .id = (uint32_t)annotate->schema_count};
	for (size_t i = 0; i < json_node_count(fields) && schema->field_count < ANNOTATE_FIELDS_MAX; i++) {
		const struct json_node *field = json_node_at(fields, i);
		if (is_string_format(json_node_get(field, "format")))
			schema->fields[schema->field_count++] = json_node_bytes(json_node_get(field, "key"));
	}
	annotate->schemas[annotate->schema_count++] = (struct annotate_schema){.node = node, .name = name};
	reader->schema_count++;
	return 0;
}

static int read_category(struct reader *reader, const struct json_node *node, uint32_t *ret)
{
	struct annotate *annotate = reader->annotate;
	struct annotate_category added = {.name = json_node_bytes(json_node_get(node, "name")),
					  .color = json_node_bytes(json_node_get(node, "color"))};
	/* What has no category is in the grey one. */
	*ret = 0;
	if (added.name.len == 0 || bytes_equal_string(added.name, "Other"))
		return 0;
	for (size_t i = 1; i < annotate->category_count; i++)
		if (bytes_equal(annotate->categories[i].name, added.name)) {
			*ret = (uint32_t)i;
			return 0;
		}
	int r = annotate_room(array_reserve(&annotate->categories, &annotate->category_capacity, annotate->category_count + 1,
					    ANNOTATE_CATEGORIES_MAX),
			      "categories", ANNOTATE_CATEGORIES_MAX, reader->err);
	if (r < 0)
		return r;
	*ret = (uint32_t)annotate->category_count;
	annotate->categories[annotate->category_count++] = added;
	return 0;
}

static int read_version(struct reader *reader, const struct json_node *meta)
{
	int64_t version;
	if (!json_node_integer(json_node_get(meta, "preprocessedProfileVersion"), &version) ||
	    version < FIREFOX_SHARED_STRINGS || version > FIREFOX_LAST)
		return error_set(reader->err, -ENOTSUP,
				 "markers are read from versions %d to %d of Firefox Profiler's processed format; 'wick "
				 "convert' writes such files",
				 FIREFOX_SHARED_STRINGS, FIREFOX_LAST);
	reader->version = (unsigned)version;
	return 0;
}

static int read_meta(struct reader *reader)
{
	struct annotate *annotate = reader->annotate;
	if (array_reserve(&annotate->trees, &annotate->tree_capacity, annotate->tree_count + 1, SIZE_MAX) < 0)
		return error_nomem(reader->err);
	int r = annotate_read_meta(reader->scan, &reader->meta, reader->err);
	if (r < 0)
		return r;
	annotate->trees[annotate->tree_count++] = reader->meta;
	const struct json_node *meta = json_tree_root(reader->meta), *schemas = json_node_get(meta, "markerSchema"),
			       *categories = json_node_get(meta, "categories");
	struct annotate_source *source = &annotate->sources[reader->source];
	r = read_version(reader, meta);
	annotate_read_start(meta, &source->wall_ns, &source->monotonic_ns);
	reader->schemas = mem_zalloc_array(json_node_count(schemas), sizeof(*reader->schemas));
	reader->categories = mem_zalloc_array(json_node_count(categories), sizeof(*reader->categories));
	if (r == 0 && (!reader->schemas || !reader->categories))
		r = error_nomem(reader->err);
	for (size_t i = 0; r == 0 && json_node_is(schemas, JSON_NODE_ARRAY) && i < json_node_count(schemas); i++)
		r = add_schema(reader, json_node_at(schemas, i));
	reader->category_count = json_node_is(categories, JSON_NODE_ARRAY) ? json_node_count(categories) : 0;
	for (size_t i = 0; r == 0 && i < reader->category_count; i++)
		r = read_category(reader, json_node_at(categories, i), &reader->categories[i]);
	return r;
}

/* ---- strings ---- */

static int read_strings(struct reader *reader)
{
	struct json_scan *scan = reader->scan;
	int r = json_scan_open(scan, '[');
	while (r == 0 && (r = json_scan_item(scan)) > 0) {
		struct bytes text = {0};
		if (array_reserve(&reader->strings, &reader->string_capacity, reader->string_count + 1,
				  LIMIT_PROFILE_ENTITIES) < 0 ||
		    array_reserve(&reader->string_ids, &reader->id_capacity, reader->string_count + 1, LIMIT_PROFILE_ENTITIES) <
			    0)
			return error_nomem(reader->err);
		r = annotate_read_name(scan, &reader->texts, &text);
		reader->strings[reader->string_count] = text;
		reader->string_ids[reader->string_count++] = ANNOTATE_NONE;
		if (r < 0)
			return r;
	}
	return r;
}

static int read_shared(struct reader *reader)
{
	struct bytes key;
	int r = json_scan_open(reader->scan, '{');
	while (r == 0 && (r = json_scan_member(reader->scan, &key)) > 0) {
		if (bytes_equal_string(key, "stringArray") && reader->string_count == 0)
			r = read_strings(reader);
		else
			r = json_scan_skip(reader->scan);
	}
	return r;
}

static int add_string(struct reader *reader, struct bytes text, uint32_t *ret)
{
	int r = intern_add(&reader->annotate->strings, text.data, text.len, ret);
	return r == 0 ? 0 : error_set(reader->err, r, "the names of the markers take too much memory");
}

/* Of the file's table: 1 = there is none of that number. */
static int string_at(struct reader *reader, int64_t number, uint32_t *ret)
{
	if (number < 0 || (uint64_t)number >= reader->string_count)
		return 1;
	if (reader->string_ids[number] == ANNOTATE_NONE) {
		int r = add_string(reader, reader->strings[number], &reader->string_ids[number]);
		if (r < 0)
			return r;
	}
	*ret = reader->string_ids[number];
	return 0;
}

/* ---- data: JSON that was checked already ---- */

static const uint8_t *skip_blanks(const uint8_t *at, const uint8_t *end)
{
	while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
		at++;
	return at;
}

static const uint8_t *skip_text(const uint8_t *at, const uint8_t *end)
{
	for (at++; at < end && *at != '"'; at++)
		at += *at == '\\';
	return at < end ? at + 1 : end;
}

static const uint8_t *skip_value(const uint8_t *at, const uint8_t *end)
{
	unsigned depth = 0;
	while (at < end) {
		if (*at == '"')
			at = skip_text(at, end);
		else if (depth == 0 && (*at == ',' || *at == '}' || *at == ']'))
			break;
		else {
			depth += *at == '{' || *at == '[';
			depth -= *at == '}' || *at == ']';
			at++;
		}
	}
	return at;
}

/* The next member of an object: *at stands behind its brace or the member before. */
static bool next_member(const uint8_t **at, const uint8_t *end, struct bytes *key, struct bytes *value)
{
	const uint8_t *p = skip_blanks(*at, end);
	if (p < end && *p == ',')
		p = skip_blanks(p + 1, end);
	if (p >= end || *p != '"')
		return false;
	const uint8_t *after = skip_text(p, end);
	*key = (struct bytes){p + 1, (size_t)(after - p) - 2};
	p = skip_blanks(after, end);
	p = skip_blanks(p + (p < end), end); /* the colon */
	after = skip_value(p, end);
	*at = after;
	while (after > p && (after[-1] == ' ' || after[-1] == '\n' || after[-1] == '\t' || after[-1] == '\r'))
		after--;
	*value = (struct bytes){p, (size_t)(after - p)};
	return true;
}

/* A text of JSON, with or without quotes, decoded if it needs to be. */
static int plain(struct reader *reader, struct bytes *text)
{
	if (!text->len || !memchr(text->data, '\\', text->len))
		return 0;
	buffer_clear(&reader->key);
	int r = json_scan_decode(*text, &reader->key);
	*text = buffer_bytes(&reader->key);
	return r < 0 ? error_set(reader->err, r, "a marker's string cannot be read") : 0;
}

static const struct file_schema *find_schema(struct reader *reader, struct bytes data)
{
	const uint8_t *at = data.data + 1, *end = data.data + data.len;
	struct bytes key, value;
	while (next_member(&at, end, &key, &value)) {
		if (!bytes_equal_string(key, "type") || value.len < 2 || *value.data != '"')
			continue;
		struct bytes name = {value.data + 1, value.len - 2};
		if (plain(reader, &name) < 0)
			return NULL;
		if (reader->last_schema && bytes_equal(reader->last_schema->name, name))
			return reader->last_schema;
		for (size_t i = 0; i < reader->schema_count; i++)
			if (bytes_equal(reader->schemas[i].name, name))
				return reader->last_schema = &reader->schemas[i];
	}
	return NULL;
}

/* 0; 1 = the value is none that can be; -errno. */
static int string_of_value(struct reader *reader, struct bytes value, uint32_t *ret)
{
	int64_t number;
	if (value.len >= 2 && *value.data == '"') {
		struct bytes text = {value.data + 1, value.len - 2};
		int r = plain(reader, &text);
		return r < 0 ? r : add_string(reader, text, ret);
	}
	if (!json_scan_parse_micro(value, &number) || number % 1000000 ||
	    (*value.data != '-' && (*value.data < '0' || *value.data > '9')))
		return 1;
	return string_at(reader, number / 1000000, ret);
}

static int put_member(struct reader *reader, const struct file_schema *schema, struct bytes raw_key, struct bytes value)
{
	struct buffer *out = &reader->annotate->data;
	struct bytes key = raw_key;
	int r = plain(reader, &key);
	if (r < 0 || value.len == 0)
		return r;
	/* Stacks and windows are those of the file that it comes from. */
	if (bytes_equal_string(key, "type") || bytes_equal_string(key, "cause") || bytes_equal_string(key, "innerWindowID"))
		return 0;
	bool is_string = false;
	for (uint32_t i = 0; !is_string && i < schema->field_count; i++)
		is_string = bytes_equal(schema->fields[i], key);
	uint8_t mark[5] = {ANNOTATE_STRING_MARK};
	uint32_t id;
	if (is_string && (r = string_of_value(reader, value, &id)) != 0)
		return r < 0 ? r : 0;
	if (buffer_reserve(out, raw_key.len + value.len + sizeof(mark) + 4) < 0)
		return error_nomem(reader->err);
	buffer_append_string(out, ",\"");
	buffer_append(out, raw_key.data, raw_key.len);
	buffer_append_string(out, "\":");
	if (!is_string)
		return buffer_append(out, value.data, value.len);
	memcpy(mark + 1, &id, sizeof(id));
	return buffer_append(out, mark, sizeof(mark));
}

static int read_data(struct reader *reader, struct annotate_marker *marker)
{
	struct annotate *annotate = reader->annotate;
	struct bytes raw, key, value;
	if (json_scan_peek(reader->scan) != '{')
		return json_scan_skip(reader->scan);
	int r = json_scan_raw(reader->scan, &raw);
	if (r < 0)
		return r;
	const struct file_schema *schema = find_schema(reader, raw);
	const uint8_t *at = raw.data + 1, *end = raw.data + raw.len;
	/* Of a kind that nobody described, nobody could show anything. */
	if (!schema)
		return 0;
	marker->schema = schema->id;
	marker->data_at = annotate->data.len;
	while (r == 0 && next_member(&at, end, &key, &value))
		r = put_member(reader, schema, key, value);
	marker->data_len = (uint32_t)(annotate->data.len - marker->data_at);
	return r;
}

/* ---- columns ---- */

const char *const annotate_column_names[COLUMNS] = {"data", "name", "startTime", "endTime", "phase", "category"};

int annotate_find_column(struct bytes key)
{
	int column = 0;
	while (column < COLUMNS && !bytes_equal_string(key, annotate_column_names[column]))
		column++;
	return column;
}

static int read_cell(struct reader *reader, enum annotate_column column, struct annotate_marker *marker)
{
	struct json_scan *scan = reader->scan;
	int64_t number = 0;
	int r;
	switch (column) {
	case DATA: return read_data(reader, marker);
	case NAME:
		r = json_scan_integer(scan, &number);
		if (r == 0)
			r = string_at(reader, number, &marker->name);
		break;
	case START:
	case END:
		r = json_scan_micro(scan, &number);
		/* Whatever is more than 100 years off is none. */
		if (r == 0 && number > -3200000000000000000 && number < 3200000000000000000)
			*(column == START ? &marker->start_ns : &marker->end_ns) = number;
		break;
	case PHASE:
		r = json_scan_integer(scan, &number);
		if (r == 0)
			marker->phase = number >= 0 && number <= 3 ? (uint8_t)number : ANNOTATE_LEFT_OUT;
		break;
	default:
		r = json_scan_integer(scan, &number);
		if (r == 0 && number >= 0 && (uint64_t)number < reader->category_count)
			marker->category = (uint16_t)reader->categories[number];
	}
	return r < 0 ? r : 0;
}

static int read_column(struct reader *reader, enum annotate_column column, size_t first, size_t *ret_count)
{
	struct annotate *annotate = reader->annotate;
	size_t at = first;
	int r = json_scan_open(reader->scan, '[');
	while (r == 0 && (r = json_scan_item(reader->scan)) > 0) {
		if (at == annotate->marker_count) {
			r = array_reserve(&annotate->markers, &annotate->marker_capacity, at + 1, ANNOTATE_MARKERS_MAX);
			if (r < 0)
				return error_set(reader->err, r, "too many markers");
			annotate->markers[annotate->marker_count++] =
				(struct annotate_marker){.start_ns = ANNOTATE_UNKNOWN, .end_ns = ANNOTATE_UNKNOWN};
		}
		r = read_cell(reader, column, &annotate->markers[at++]);
		if (r < 0)
			return r;
	}
	*ret_count = at - first;
	return r;
}

static int read_markers(struct reader *reader, struct annotate_thread *thread)
{
	struct json_scan *scan = reader->scan;
	size_t counts[COLUMNS] = {0};
	struct bytes key;
	if (thread->count)
		return json_scan_fail(scan, "a thread has two marker tables");
	thread->first = reader->annotate->marker_count;
	int r = json_scan_open(scan, '{');
	while (r == 0 && (r = json_scan_member(scan, &key)) > 0) {
		int column = annotate_find_column(key);
		r = column < COLUMNS && json_scan_peek(scan) == '[' && !counts[column]
			    ? read_column(reader, (enum annotate_column)column, thread->first, &counts[column])
			    : json_scan_skip(scan);
		if (r < 0)
			return r;
	}
	for (int i = 0; i < COLUMNS; i++)
		if (r == 0 && counts[i] != counts[NAME])
			return json_scan_fail(scan, "the columns of a thread's markers differ in length");
	thread->count = counts[NAME];
	return r;
}

/* ---- threads ---- */

/* What makes no sense goes now, so that everything else may rely on times. */
static void check_markers(struct annotate *annotate, struct annotate_thread *thread)
{
	size_t kept = thread->first;
	thread->first_ns = thread->last_ns = ANNOTATE_UNKNOWN;
	for (size_t i = thread->first; i < thread->first + thread->count; i++) {
		struct annotate_marker *marker = &annotate->markers[i];
		bool has_start = marker->start_ns != ANNOTATE_UNKNOWN, has_end = marker->end_ns != ANNOTATE_UNKNOWN;
		if (marker->phase == ANNOTATE_LEFT_OUT || (!has_start && marker->phase != 3) ||
		    (!has_end && (marker->phase == 1 || marker->phase == 3))) {
			annotate->malformed++;
			continue;
		}
		if (marker->phase == 3)
			marker->start_ns = ANNOTATE_UNKNOWN;
		else if (marker->phase == 1 && marker->end_ns < marker->start_ns)
			marker->end_ns = marker->start_ns;
		else if (marker->phase != 1)
			marker->end_ns = ANNOTATE_UNKNOWN;
		int64_t first = marker->phase == 3 ? marker->end_ns : marker->start_ns,
			last = marker->end_ns == ANNOTATE_UNKNOWN ? marker->start_ns : marker->end_ns;
		if (thread->first_ns == ANNOTATE_UNKNOWN || first < thread->first_ns)
			thread->first_ns = first;
		if (thread->last_ns == ANNOTATE_UNKNOWN || last > thread->last_ns)
			thread->last_ns = last;
		annotate->markers[kept++] = *marker;
	}
	thread->count = kept - thread->first;
	annotate->marker_count = kept;
}

static int read_thread(struct reader *reader)
{
	struct annotate *annotate = reader->annotate;
	struct json_scan *scan = reader->scan;
	struct annotate_thread thread = {.start_ns = ANNOTATE_UNKNOWN,
					 .source = reader->source,
					 .base = ANNOTATE_NONE,
					 .next = ANNOTATE_NONE,
					 .first = annotate->marker_count};
	struct bytes key;
	int r = json_scan_open(scan, '{');
	while (r == 0 && (r = json_scan_member(scan, &key)) > 0) {
		if (bytes_equal_string(key, "pid"))
			r = annotate_read_id(scan, &annotate->arena, &thread.pid);
		else if (bytes_equal_string(key, "tid"))
			r = annotate_read_id(scan, &annotate->arena, &thread.tid);
		else if (bytes_equal_string(key, "name"))
			r = annotate_read_name(scan, &annotate->arena, &thread.name);
		else if (bytes_equal_string(key, "processName"))
			r = annotate_read_name(scan, &annotate->arena, &thread.process);
		else if (bytes_equal_string(key, "registerTime"))
			r = json_scan_micro(scan, &thread.start_ns);
		else if (bytes_equal_string(key, "isMainThread")) {
			struct bytes raw;
			r = json_scan_raw(scan, &raw);
			thread.is_main = bytes_equal_string(raw, "true");
		} else if (bytes_equal_string(key, "markers") && json_scan_peek(scan) == '{')
			r = read_markers(reader, &thread);
		else
			r = json_scan_skip(scan);
		if (r < 0)
			return r;
		r = 0;
	}
	if (r < 0)
		return r;
	/* 0 stands for whatever was before the file. */
	if (thread.start_ns <= 0)
		thread.start_ns = ANNOTATE_UNKNOWN;
	check_markers(annotate, &thread);
	r = array_reserve(&reader->thread_ids, &reader->thread_capacity, reader->thread_count + 1, ANNOTATE_THREADS_MAX);
	if (r == 0)
		r = array_reserve(&annotate->threads, &annotate->thread_capacity, annotate->thread_count + 1,
				  ANNOTATE_THREADS_MAX);
	if (r < 0)
		return annotate_room(r, "threads", ANNOTATE_THREADS_MAX, reader->err);
	reader->thread_ids[reader->thread_count++] = (uint32_t)annotate->thread_count;
	annotate->threads[annotate->thread_count++] = thread;
	return 0;
}

static int read_counter(struct reader *reader)
{
	struct annotate *annotate = reader->annotate;
	struct bytes raw;
	int64_t place;
	int r = json_scan_raw(reader->scan, &raw);
	if (r == 0 && (array_reserve(&annotate->trees, &annotate->tree_capacity, annotate->tree_count + 1, SIZE_MAX) < 0))
		return error_nomem(reader->err);
	if (r == 0)
		r = annotate_room(array_reserve(&annotate->counters, &annotate->counter_capacity, annotate->counter_count + 1,
						ANNOTATE_COUNTERS_MAX),
				  "counters", ANNOTATE_COUNTERS_MAX, reader->err);
	struct json_tree *tree;
	if (r == 0)
		r = json_tree_read(raw, 0, &tree, reader->err);
	if (r < 0)
		return r;
	annotate->trees[annotate->tree_count++] = tree;
	const struct json_node *node = json_tree_root(tree), *pid = json_node_get(node, "pid");
	struct annotate_counter counter = {.node = node, .source = reader->source, .thread = ANNOTATE_NONE};
	counter.pid = annotate_parse_id(json_node_bytes(pid));
	if (json_node_is(pid, JSON_NODE_INTEGER))
		counter.pid = (struct annotate_id){.number = pid->integer, .is_known = true};
	/* Resolved to a thread when all are read. */
	if (json_node_integer(json_node_get(node, "mainThreadIndex"), &place) && place >= 0 && place < (int64_t)ANNOTATE_NONE)
		counter.thread = (uint32_t)place;
	if (json_node_is(node, JSON_NODE_OBJECT))
		annotate->counters[annotate->counter_count++] = counter;
	return 0;
}

static int read_items(struct reader *reader, int (*read)(struct reader *reader))
{
	int r = json_scan_open(reader->scan, '[');
	while (r == 0 && (r = json_scan_item(reader->scan)) > 0)
		r = read(reader);
	return r;
}

/* ---- the file ---- */

/* *ret_late: threads came before what they refer to, and were passed. */
static int read_root(struct reader *reader, bool again, bool *ret_late)
{
	struct json_scan *scan = reader->scan;
	bool has_meta = again, has_shared = again, has_threads = false;
	struct bytes key;
	*ret_late = false;
	int r = json_scan_open(scan, '{');
	while (r == 0 && (r = json_scan_member(scan, &key)) > 0) {
		bool is_array = json_scan_peek(scan) == '[';
		if (bytes_equal_string(key, "meta") && !again) {
			has_meta = true;
			r = read_meta(reader);
		} else if (bytes_equal_string(key, "shared") && !again && json_scan_peek(scan) == '{') {
			has_shared = true;
			r = read_shared(reader);
		} else if (bytes_equal_string(key, "threads") && is_array && !has_threads) {
			has_threads = has_meta && has_shared;
			*ret_late |= !has_threads;
			r = has_threads ? read_items(reader, read_thread) : json_scan_skip(scan);
		} else if (bytes_equal_string(key, "counters") && is_array && !again) {
			r = read_items(reader, read_counter);
		} else {
			r = json_scan_skip(scan);
		}
		if (r < 0)
			return r;
	}
	if (r == 0 && !has_meta)
		return json_scan_fail(scan, "no object meta");
	*ret_late &= !has_threads;
	return r < 0 ? r : json_scan_finish(scan);
}

static int read_file(struct reader *reader, struct input *input)
{
	struct annotate *annotate = reader->annotate;
	size_t first_counter = annotate->counter_count;
	struct json_scan scan;
	bool is_late = false;
	int r = json_scan_init(&scan, input, reader->err);
	reader->scan = &scan;
	if (r == 0)
		r = read_root(reader, false, &is_late);
	json_scan_release(&scan);
	if (r == 0 && is_late) {
		r = json_scan_init(&scan, input, reader->err);
		if (r == 0)
			r = read_root(reader, true, &is_late);
		json_scan_release(&scan);
	}
	for (size_t i = first_counter; r == 0 && i < annotate->counter_count; i++) {
		uint32_t *thread = &annotate->counters[i].thread;
		*thread = *thread < reader->thread_count ? reader->thread_ids[*thread] : ANNOTATE_NONE;
	}
	return r;
}

static int add_source(struct annotate *annotate, struct error *err)
{
	int r = array_push(&annotate->sources, &annotate->source_count, &annotate->source_capacity, UINT32_MAX,
			   (struct annotate_source){.wall_ns = ANNOTATE_UNKNOWN, .monotonic_ns = ANNOTATE_UNKNOWN});
	return r < 0 ? error_nomem(err) : 0;
}

static int read_json(struct annotate *annotate, struct input *input, struct error *err)
{
	struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	reader->annotate = annotate;
	reader->err = err;
	reader->source = (uint32_t)annotate->source_count - 1;
	arena_init(&reader->texts, LIMIT_PROFILE_STRING_BYTES);
	buffer_init(&reader->key, JSON_SCAN_VALUE_MAX);
	int r = read_file(reader, input);
	arena_release(&reader->texts);
	buffer_release(&reader->key);
	mem_free(reader->schemas);
	mem_free(reader->categories);
	mem_free(reader->strings);
	mem_free(reader->string_ids);
	mem_free(reader->thread_ids);
	mem_free(reader);
	return r;
}

int annotate_add_markers(struct annotate *annotate, const char *path, const char *thread, struct error *err)
{
	_cleanup_(input_freep) struct input *input = NULL;
	uint8_t head[256];
	int r = input_open(path, LIMIT_PROFILE_FILE_BYTES * 4, &input, err);
	ssize_t n = r < 0 ? 0 : input_read(input, head, sizeof(head), err);
	if (r == 0 && n < 0)
		r = (int)n;
	if (r == 0)
		r = add_source(annotate, err);
	if (r < 0)
		return r;
	input_rewind(input);
	if (json_looks_like_object((struct bytes){head, (size_t)n}))
		r = read_json(annotate, input, err);
	else
		r = annotate_read_lines(annotate, input, path, thread, err);
	return r < 0 ? error_prefix(err, r, "%s", path) : 0;
}

int annotate_new(struct annotate **ret, struct error *err)
{
	struct annotate *annotate = mem_zalloc(sizeof(*annotate));
	if (!annotate || intern_init(&annotate->strings, LIMIT_PROFILE_STRING_BYTES) < 0) {
		mem_free(annotate);
		return error_nomem(err);
	}
	arena_init(&annotate->arena, LIMIT_PROFILE_STRING_BYTES);
	buffer_init(&annotate->data, 8 * GIB);
	if (array_reserve(&annotate->schemas, &annotate->schema_capacity, 1, ANNOTATE_SCHEMAS_MAX) < 0 ||
	    array_reserve(&annotate->categories, &annotate->category_capacity, 1, ANNOTATE_CATEGORIES_MAX) < 0) {
		annotate_free(annotate);
		return error_nomem(err);
	}
	annotate->schemas[annotate->schema_count++] = (struct annotate_schema){0};
	annotate->categories[annotate->category_count++] = (struct annotate_category){0};
	*ret = annotate;
	return 0;
}

struct annotate *annotate_free(struct annotate *annotate)
{
	if (!annotate)
		return NULL;
	for (size_t i = 0; i < annotate->tree_count; i++)
		json_tree_free(annotate->trees[i]);
	mem_free(annotate->trees);
	mem_free(annotate->sources);
	mem_free(annotate->threads);
	mem_free(annotate->markers);
	mem_free(annotate->schemas);
	mem_free(annotate->categories);
	mem_free(annotate->counters);
	intern_release(&annotate->strings);
	buffer_release(&annotate->data);
	arena_release(&annotate->arena);
	return mem_free(annotate);
}
