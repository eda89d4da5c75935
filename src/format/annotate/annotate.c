/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markers put into a profile that another profiler made.
 *
 * The profile is not decoded. It is walked through twice, and all that does not change is copied byte for byte: what its
 * profiler knew and struct profile has no place for (native symbols, sources, settings of tracks) stays; and the memory that it
 * takes does not grow with the profile: a million samples and a million markers in memory, as trees or tables, would be 400 MB,
 * and this is the markers, 40 bytes and their data each, and a window of a quarter of a megabyte.
 *
 *   markers   read first, into rows; their strings are ids of a table of their own (annotate_markers.c, annotate_text.c)
 *   pass 1    threads, their names and times; which of the markers' strings the profile has; all is checked (annotate_base.c)
 *   match     clocks, threads, names, kinds, categories; what is outside the profile's time (annotate_match.c)
 *   pass 2    copies, and changes (below)
 *
 * What changes:
 *
 *   - meta: product (the title), categories and markerSchema at their ends; a schema that has fewer fields than ours of the
 *     same name becomes ours; initialVisibleThreads
 *   - stringArray, shared, or of each thread (before version 56): strings that are not there yet, at the end
 *   - threads: name, processName if they were cut; showMarkersInTimeline; all columns of markers at their ends; threads of
 *     which there were no samples, at the end, with empty tables
 *   - counters: at the end
 *
 * Nothing that is there gets another number, so that nothing else has to change.
 */
#include "format/annotate/annotate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "codec/json.h"
#include "format/annotate/annotate_int.h"

#define ROWS_A_DRAIN  1024
#define NODE_DEPTH    32 /* of what is written again; json_writer counts to 64 */
#define FIELDS_SINCE  55 /* schemas have fields, before that data */
#define SINCE_DISPLAY 62 /* of counters; before that color */

struct splice {
	struct annotate *annotate;
	struct base *base;
	const struct annotate_options *options;
	struct annotate_stats *stats;
	struct format_sink *sink;
	struct json_scan scan;
	struct error *err;
	uint32_t *numbers; /* of strings, in the table at hand; NONE = it is not there */
	uint32_t *added;   /* those that come behind it */
	size_t string_count, added_count;
	struct map64 tids;	/* how many threads have each, so far */
	struct map64 processes; /* by pid, a thread of the profile; the main one if it has it */
	size_t thread;		/* the one at hand */
};

/* ---- writing ---- */

static int fail(struct splice *splice, int code)
{
	return splice->scan.error = format_buffer_error(code, splice->sink->out, "the profile", splice->err);
}

static int put(struct splice *splice, const void *data, size_t len)
{
	int r = splice->scan.error ? splice->scan.error : buffer_append(splice->sink->out, data, len);
	return r < 0 && !splice->scan.error ? fail(splice, r) : r;
}

static int put_cstring(struct splice *splice, const char *text)
{
	return put(splice, text, strlen(text));
}

static int drain(struct splice *splice)
{
	if (splice->scan.error == 0)
		splice->scan.error = format_sink_drain(splice->sink, false, splice->err);
	return splice->scan.error;
}

static int copy_out(void *context, struct bytes bytes, struct error *err)
{
	struct splice *splice = context;
	int r = buffer_append(splice->sink->out, bytes.data, bytes.len);
	if (r < 0)
		return format_buffer_error(r, splice->sink->out, "the profile", err);
	return format_sink_drain(splice->sink, false, err);
}

static int put_text(struct splice *splice, struct bytes text)
{
	struct json_writer json;
	if (splice->scan.error)
		return splice->scan.error;
	json_init(&json, splice->sink->out);
	json_bytes(&json, text);
	int r = json_finish(&json, NULL);
	return r < 0 ? fail(splice, r) : 0;
}

/* Room must be there. Digits from the end. */
static size_t format_number(uint64_t value, char out[static 20])
{
	char text[20];
	size_t at = sizeof(text);
	do
		text[--at] = (char)('0' + value % 10);
	while (value /= 10);
	memcpy(out, text + at, sizeof(text) - at);
	return sizeof(text) - at;
}

static int put_number(struct splice *splice, uint64_t value)
{
	char text[20];
	return put(splice, text, format_number(value, text));
}

/* Nanoseconds as milliseconds, exactly. */
static int put_time(struct splice *splice, int64_t ns)
{
	char text[32];
	size_t len = 0;
	if (ns == ANNOTATE_UNKNOWN)
		return put(splice, "null", 4);
	if (ns < 0)
		text[len++] = '-';
	uint64_t value = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	uint32_t rest = (uint32_t)(value % 1000000);
	len += format_number(value / 1000000, text + len);
	if (rest) {
		text[len++] = '.';
		for (uint32_t unit = 100000; rest; rest %= unit, unit /= 10)
			text[len++] = (char)('0' + rest / unit);
	}
	return put(splice, text, len);
}

static void put_node(struct json_writer *json, const struct json_node *node, unsigned depth)
{
	switch (depth < NODE_DEPTH ? node->kind : JSON_NODE_NULL) {
	case JSON_NODE_BOOLEAN: json_bool(json, node->boolean); break;
	case JSON_NODE_INTEGER: json_int(json, node->integer); break;
	case JSON_NODE_REAL: json_double(json, node->real); break;
	case JSON_NODE_TEXT: json_bytes(json, json_node_bytes(node)); break;
	case JSON_NODE_ARRAY:
		json_begin_array(json);
		for (uint32_t i = 0; i < node->count; i++)
			put_node(json, &node->items[i], depth + 1);
		json_end_array(json);
		break;
	case JSON_NODE_OBJECT:
		json_begin_object(json);
		for (uint32_t i = 0; i < node->count; i++) {
			json_key(json, node->items[2 * i].text);
			put_node(json, &node->items[2 * i + 1], depth + 1);
		}
		json_end_object(json);
		break;
	default: json_nil(json);
	}
}

static int finish_writer(struct splice *splice, struct json_writer *json)
{
	int r = json_finish(json, NULL);
	return r < 0 ? fail(splice, r) : drain(splice);
}

/* Behind the items of an array or object that is there. */
static void put_comma(struct splice *splice, bool *is_due)
{
	if (*is_due)
		put_cstring(splice, ",");
	*is_due = true;
}

/* A member of an object that is there, or is begun. */
static void put_key(struct splice *splice, const char *key, bool *is_due)
{
	put_comma(splice, is_due);
	put_cstring(splice, "\"");
	put_cstring(splice, key);
	put_cstring(splice, "\":");
}

/* Copies an array up to its closing bracket; *ret_due: it had items. The bracket is for end_array(). */
static int copy_items(struct splice *splice, bool *ret_due)
{
	struct json_scan *scan = &splice->scan;
	int r = json_scan_open(scan, '[');
	while (r == 0 && !json_scan_is_last(scan)) {
		r = json_scan_item(scan);
		if (r > 0)
			r = json_scan_skip(scan);
	}
	if (r < 0)
		return r;
	*ret_due = json_scan_has_items(scan);
	return json_scan_copy(scan, false);
}

/* The closing bracket of what copy_items() opened. */
static int end_items(struct splice *splice)
{
	json_scan_copy(&splice->scan, true);
	return json_scan_item(&splice->scan);
}

/* The next value is not copied; something else is written. */
static int replace(struct splice *splice)
{
	json_scan_copy(&splice->scan, false);
	return json_scan_skip(&splice->scan);
}

/* ---- strings ---- */

/* The table of the profile, or of a thread: what of ours is in it. */
static void begin_strings(struct splice *splice, size_t first, size_t count, size_t string_count)
{
	const struct known_string *known = count ? splice->base->known + first : NULL;
	for (size_t i = 0; i < count; i++)
		if (splice->numbers[known[i].id] == ANNOTATE_NONE)
			splice->numbers[known[i].id] = known[i].index;
	splice->string_count = string_count;
	splice->added_count = 0;
}

/* Only what was touched: there may be many threads, and many strings. */
static void end_strings(struct splice *splice, size_t first, size_t count)
{
	const struct known_string *known = count ? splice->base->known + first : NULL;
	for (size_t i = 0; i < count; i++)
		splice->numbers[known[i].id] = ANNOTATE_NONE;
	for (size_t i = 0; i < splice->added_count; i++)
		splice->numbers[splice->added[i]] = ANNOTATE_NONE;
}

static void number_string(struct splice *splice, uint32_t id)
{
	if (splice->numbers[id] != ANNOTATE_NONE)
		return;
	splice->numbers[id] = (uint32_t)(splice->string_count + splice->added_count);
	splice->added[splice->added_count++] = id;
}

static void number_strings_of(struct splice *splice, const struct annotate_thread *thread)
{
	const struct annotate *annotate = splice->annotate;
	for (size_t i = thread->first; i < thread->first + thread->count; i++) {
		const struct annotate_marker *marker = &annotate->markers[i];
		if (marker->phase == ANNOTATE_LEFT_OUT)
			continue;
		number_string(splice, marker->name);
		if (!marker->data_len)
			continue;
		const uint8_t *at = annotate->data.data + marker->data_at, *end = at + marker->data_len;
		while ((at = memchr(at, ANNOTATE_STRING_MARK, (size_t)(end - at)))) {
			uint32_t id;
			memcpy(&id, at + 1, sizeof(id));
			number_string(splice, id);
			at += 1 + sizeof(id);
		}
	}
}

static int put_new_strings(struct splice *splice, bool is_due)
{
	for (size_t i = 0; i < splice->added_count && splice->scan.error == 0; i++) {
		put_comma(splice, &is_due);
		put_text(splice, intern_get(&splice->annotate->strings, splice->added[i]));
		if (i % ROWS_A_DRAIN == 0)
			drain(splice);
	}
	return splice->scan.error;
}

static int splice_strings(struct splice *splice)
{
	bool is_due;
	int r = copy_items(splice, &is_due);
	if (r == 0)
		r = put_new_strings(splice, is_due);
	return r < 0 ? r : end_items(splice);
}

/* ---- columns of markers ---- */

enum column { DATA, NAME, START, END, PHASE, CATEGORY, COLUMNS };
static const char *const column_names[COLUMNS] = {"data", "name", "startTime", "endTime", "phase", "category"};

static int put_data(struct splice *splice, const struct annotate_marker *marker)
{
	const struct annotate *annotate = splice->annotate;
	if (!marker->schema)
		return put(splice, "null", 4);
	put(splice, "{\"type\":", 8);
	put_text(splice, annotate->schemas[marker->schema].final);
	const uint8_t *at = annotate->data.data ? annotate->data.data + marker->data_at : (const uint8_t *)"",
		      *end = at + marker->data_len;
	while (at < end && splice->scan.error == 0) {
		const uint8_t *mark = memchr(at, ANNOTATE_STRING_MARK, (size_t)(end - at));
		put(splice, at, (size_t)((mark ? mark : end) - at));
		if (!mark)
			break;
		uint32_t id;
		memcpy(&id, mark + 1, sizeof(id));
		put_number(splice, splice->numbers[id]);
		at = mark + 1 + sizeof(id);
	}
	return put(splice, "}", 1);
}

static int put_cell(struct splice *splice, int column, const struct annotate_marker *marker)
{
	switch (column) {
	case DATA: return put_data(splice, marker);
	case NAME: return put_number(splice, splice->numbers[marker->name]);
	case START: return put_time(splice, marker->start_ns);
	case END: return put_time(splice, marker->end_ns);
	case PHASE: return put_number(splice, marker->phase);
	case CATEGORY: return put_number(splice, splice->annotate->categories[marker->category].number);
	default: return put(splice, "null", 4);
	}
}

static void put_cells(struct splice *splice, int column, const struct annotate_thread *thread, bool *is_due)
{
	for (size_t i = thread->first; i < thread->first + thread->count && splice->scan.error == 0; i++) {
		const struct annotate_marker *marker = &splice->annotate->markers[i];
		if (marker->phase == ANNOTATE_LEFT_OUT)
			continue;
		put_comma(splice, is_due);
		put_cell(splice, column, marker);
		if (i % ROWS_A_DRAIN == 0)
			drain(splice);
	}
	drain(splice);
}

/* A table of its own. */
static int put_markers(struct splice *splice, uint32_t first)
{
	const struct annotate *annotate = splice->annotate;
	size_t rows = 0;
	bool is_due = false;
	put_cstring(splice, "{");
	for (int column = 0; column < COLUMNS; column++) {
		bool comma = false;
		put_key(splice, column_names[column], &is_due);
		put_cstring(splice, "[");
		for (uint32_t i = first; i != ANNOTATE_NONE; i = annotate->threads[i].next)
			put_cells(splice, column, &annotate->threads[i], &comma);
		put_cstring(splice, "]");
	}
	for (uint32_t i = first; i != ANNOTATE_NONE; i = annotate->threads[i].next)
		rows += annotate->threads[i].kept;
	put_key(splice, "length", &is_due);
	put_number(splice, rows);
	return put_cstring(splice, "}");
}

static int splice_column(struct splice *splice, struct bytes key, uint32_t first)
{
	const struct annotate *annotate = splice->annotate;
	int column = 0;
	bool is_due;
	while (column < COLUMNS && !bytes_equal_string(key, column_names[column]))
		column++;
	int r = copy_items(splice, &is_due);
	for (uint32_t i = first; r == 0 && i != ANNOTATE_NONE; i = annotate->threads[i].next)
		put_cells(splice, column, &annotate->threads[i], &is_due);
	return r < 0 ? r : end_items(splice);
}

static int splice_length(struct splice *splice, uint32_t first)
{
	int64_t length = 0;
	json_scan_copy(&splice->scan, false);
	int r = json_scan_integer(&splice->scan, &length);
	for (uint32_t i = first; i != ANNOTATE_NONE; i = splice->annotate->threads[i].next)
		length += (int64_t)splice->annotate->threads[i].kept;
	put_number(splice, (uint64_t)length);
	json_scan_copy(&splice->scan, true);
	return r < 0 ? r : splice->scan.error;
}

static int splice_markers(struct splice *splice, uint32_t first)
{
	struct json_scan *scan = &splice->scan;
	struct bytes key;
	int r = json_scan_open(scan, '{');
	while (r == 0 && (r = json_scan_member(scan, &key)) > 0) {
		bool is_length = bytes_equal_string(key, "length");
		r = json_scan_peek(scan) == '[' ? splice_column(splice, key, first)
		    : is_length			? splice_length(splice, first)
						: json_scan_skip(scan);
	}
	return r;
}

/* ---- threads ---- */

static bool gets_markers(const struct splice *splice, const struct base_thread *thread)
{
	for (uint32_t i = thread->marked; i != ANNOTATE_NONE; i = splice->annotate->threads[i].next)
		if (splice->annotate->threads[i].kept)
			return true;
	return false;
}

static int put_replaced(struct splice *splice, struct bytes text)
{
	int r = replace(splice);
	put_text(splice, text);
	json_scan_copy(&splice->scan, true);
	return r < 0 ? r : splice->scan.error;
}

static int splice_member(struct splice *splice, struct bytes key, const struct base_thread *thread)
{
	struct json_scan *scan = &splice->scan;
	bool gets = gets_markers(splice, thread);
	if (bytes_equal_string(key, "name") && thread->new_name.len)
		return put_replaced(splice, thread->new_name);
	if (bytes_equal_string(key, "processName") && thread->new_process.len)
		return put_replaced(splice, thread->new_process);
	if (bytes_equal_string(key, "showMarkersInTimeline") && gets) {
		int r = replace(splice);
		put_cstring(splice, "true");
		json_scan_copy(scan, true);
		return r < 0 ? r : scan->error;
	}
	if (bytes_equal_string(key, "stringArray") && !splice->base->has_shared_strings && gets && json_scan_peek(scan) == '[')
		return splice_strings(splice);
	if (bytes_equal_string(key, "markers") && gets)
		return splice_markers(splice, thread->marked);
	return json_scan_skip(scan);
}

static int splice_members(struct splice *splice, const struct base_thread *thread, bool gets)
{
	struct json_scan *scan = &splice->scan;
	struct bytes key;
	int r = json_scan_open(scan, '{');
	while (r == 0) {
		if (json_scan_is_last(scan)) {
			bool is_due = json_scan_has_items(scan);
			json_scan_copy(scan, false);
			if (gets && !thread->has_shown) {
				put_key(splice, "showMarkersInTimeline", &is_due);
				put_cstring(splice, "true");
			}
			if (gets && !thread->has_markers) {
				put_key(splice, "markers", &is_due);
				put_markers(splice, thread->marked);
			}
			json_scan_copy(scan, true);
		}
		r = json_scan_member(scan, &key);
		if (r <= 0)
			break;
		r = splice_member(splice, key, thread);
	}
	return r;
}

static int splice_thread(struct splice *splice)
{
	const struct base_thread *thread = &splice->base->threads[splice->thread++];
	bool gets = gets_markers(splice, thread), has_strings = gets && !splice->base->has_shared_strings;
	if (!gets && !thread->new_name.len && !thread->new_process.len)
		return json_scan_skip(&splice->scan);
	if (has_strings) {
		begin_strings(splice, thread->known_first, thread->known_count, thread->string_count);
		for (uint32_t i = thread->marked; i != ANNOTATE_NONE; i = splice->annotate->threads[i].next)
			number_strings_of(splice, &splice->annotate->threads[i]);
	}
	int r = splice_members(splice, thread, gets);
	if (has_strings)
		end_strings(splice, thread->known_first, thread->known_count);
	return r;
}

static int put_empty_table(struct splice *splice, const char *name, const char *const *columns, bool *is_due)
{
	bool comma = false;
	put_key(splice, name, is_due);
	put_cstring(splice, "{");
	for (; *columns; columns++) {
		put_key(splice, *columns, &comma);
		put_cstring(splice, "[]");
	}
	put_key(splice, "length", &comma);
	return put_cstring(splice, "0}");
}

/* Before version 60 each thread has all tables; a column too many does no harm. */
static void put_own_tables(struct splice *splice, bool *is_due)
{
	static const char *const stacks[] = {"frame", "prefix", "category", "subcategory", NULL},
				 *const frames[] = {"address",	     "inlineDepth",    "category", "subcategory",
						    "func",	     "nativeSymbol",   "line",	   "column",
						    "innerWindowID", "implementation", NULL},
				 *const funcs[] = {"name",     "isJS",	     "relevantForJS", "resource",
						   "fileName", "lineNumber", "columnNumber",  NULL},
				 *const new_funcs[] = {"name",	 "isJS",       "relevantForJS", "resource",
						       "source", "lineNumber", "columnNumber",	NULL},
				 *const resources[] = {"lib", "name", "host", "type", NULL},
				 *const symbols[] = {"libIndex", "address", "name", "functionSize", NULL};
	bool has_sources = splice->base->version >= FIREFOX_SOURCES;
	put_empty_table(splice, "stackTable", stacks, is_due);
	put_empty_table(splice, "frameTable", frames, is_due);
	put_empty_table(splice, "funcTable", has_sources ? new_funcs : funcs, is_due);
	put_empty_table(splice, "resourceTable", resources, is_due);
	put_empty_table(splice, "nativeSymbols", symbols, is_due);
}

static struct bytes id_text(const struct annotate_id *id, const char *ending, char *out, size_t size)
{
	int len = snprintf(out, size, "%.*s%s%lld%s", (int)(id->host.len < 256 ? id->host.len : 256),
			   (const char *)id->host.data, id->host.len ? ":" : "", (long long)id->number, ending);
	return (struct bytes){(const uint8_t *)out, (size_t)len};
}

/* The viewer wants tids to differ: "17.1" is the second of that number. */
static void put_thread_ids(struct splice *splice, const struct annotate_thread *thread, bool *is_due)
{
	char text[320], ending[24] = "";
	uint64_t same = 0;
	map64_get(&splice->tids, (uint64_t)thread->tid.number, &same);
	if (splice->scan.error == 0 && map64_add(&splice->tids, (uint64_t)thread->tid.number, 1) < 0)
		splice->scan.error = error_nomem(splice->err);
	if (same)
		snprintf(ending, sizeof(ending), ".%llu", (unsigned long long)same);
	put_key(splice, "pid", is_due);
	put_text(splice,
		 thread->pid.is_known ? id_text(&thread->pid, "", text, sizeof(text)) : bytes_of_string(FIREFOX_NO_PID));
	put_key(splice, "tid", is_due);
	if (thread->tid.is_known && !same && !thread->tid.host.len)
		put_number(splice, (uint64_t)thread->tid.number);
	else
		put_text(splice, id_text(&thread->tid, ending, text, sizeof(text)));
}

static void put_thread_names(struct splice *splice, const struct annotate_thread *thread, bool *is_due)
{
	char text[40];
	struct bytes name = thread->name, process = thread->process;
	const struct base_thread *other = NULL;
	uint64_t place;
	if (thread->pid.is_known && map64_get(&splice->processes, (uint64_t)thread->pid.number, &place))
		other = &splice->base->threads[place];
	if (!name.len) {
		snprintf(text, sizeof(text), "Thread %lld", (long long)thread->tid.number);
		name = bytes_of_string(text);
	}
	if (!process.len)
		process = other && other->process.len ? other->process : name;
	put_key(splice, "name", is_due);
	put_text(splice, name);
	put_key(splice, "processName", is_due);
	put_text(splice, process);
	put_key(splice, "isMainThread", is_due);
	put_cstring(splice, thread->is_main && !(other && other->is_main) ? "true" : "false");
}

/* What new threads are to differ from, and belong to. */
static int know_threads(struct splice *splice)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < splice->base->thread_count; i++) {
		const struct base_thread *thread = &splice->base->threads[i];
		uint64_t known;
		if (thread->tid.is_known)
			r = map64_add(&splice->tids, (uint64_t)thread->tid.number, 1);
		if (r == 0 && thread->pid.is_known &&
		    (!map64_get(&splice->processes, (uint64_t)thread->pid.number, &known) ||
		     (thread->is_main && !splice->base->threads[known].is_main)))
			r = map64_put(&splice->processes, (uint64_t)thread->pid.number, i);
	}
	return r < 0 ? error_nomem(splice->err) : 0;
}

static int put_new_thread(struct splice *splice, uint32_t number)
{
	static const char *const samples[] = {"stack", "time", "weight", NULL};
	struct annotate_thread *thread = &splice->annotate->threads[number];
	bool is_due = false, comma = false;
	if (!splice->base->has_shared_strings) {
		begin_strings(splice, 0, 0, 0);
		number_strings_of(splice, thread);
	}
	put_cstring(splice, "{");
	put_key(splice, "processType", &is_due);
	put_cstring(splice, "\"default\"");
	put_thread_names(splice, thread, &is_due);
	put_thread_ids(splice, thread, &is_due);
	put_cstring(splice, ",\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":");
	put_time(splice, thread->start_ns > 0 ? thread->start_ns : 0);
	put_cstring(splice, ",\"unregisterTime\":null,\"pausedRanges\":[],\"showMarkersInTimeline\":true,\"samples\":{");
	for (const char *const *column = samples; *column; column++) {
		put_key(splice, *column, &comma);
		put_cstring(splice, "[]");
	}
	put_cstring(splice, ",\"weightType\":\"samples\",\"length\":0}");
	if (splice->base->version < FIREFOX_SHARED_TABLES)
		put_own_tables(splice, &is_due);
	if (!splice->base->has_shared_strings) {
		put_key(splice, "stringArray", &is_due);
		put_cstring(splice, "[");
		put_new_strings(splice, false);
		put_cstring(splice, "]");
	}
	put_key(splice, "markers", &is_due);
	put_markers(splice, number);
	put_cstring(splice, "}");
	if (!splice->base->has_shared_strings)
		end_strings(splice, 0, 0);
	return drain(splice);
}

static int splice_threads(struct splice *splice)
{
	struct json_scan *scan = &splice->scan;
	const struct annotate *annotate = splice->annotate;
	int r = json_scan_open(scan, '[');
	while (r == 0) {
		if (json_scan_is_last(scan)) {
			bool is_due = json_scan_has_items(scan);
			json_scan_copy(scan, false);
			for (uint32_t i = 0; i < annotate->thread_count; i++) {
				if (!annotate->threads[i].kept || annotate->threads[i].base != ANNOTATE_NONE)
					continue;
				put_comma(splice, &is_due);
				put_new_thread(splice, i);
			}
			json_scan_copy(scan, true);
		}
		r = json_scan_item(scan);
		if (r <= 0)
			break;
		if (splice->thread == splice->base->thread_count)
			return json_scan_fail(scan, "the file changed while it was read");
		r = splice_thread(splice);
	}
	return r;
}

/* ---- counters ---- */

/* Rows in the profile's time; what a counter gained before it counts to the first of them, so that its height is right. */
static void put_rows(struct splice *splice, const struct annotate_counter *counter, struct json_writer *json)
{
	const struct json_node *samples = json_node_get(counter->node, "samples"), *times = json_node_get(samples, "time"),
			       *counts = json_node_get(samples, "count"), *display = json_node_get(counter->node, "display");
	const struct base *base = splice->base;
	bool is_level = bytes_equal_string(json_node_bytes(json_node_get(display, "graphType")), "line-accumulated") ||
			(!display && bytes_equal_string(json_node_bytes(json_node_get(counter->node, "category")), "Memory"));
	size_t rows = 0;
	for (int column = 0; column < 2; column++) {
		double gained = 0;
		json_member_array(json, column ? "count" : "time");
		for (size_t i = 0; i < json_node_count(times); i++) {
			double time, count;
			if (!json_node_real(json_node_at(times, i), &time) || !(time > -1e12 && time < 1e12) ||
			    !json_node_real(json_node_at(counts, i), &count))
				continue;
			int64_t ns = (int64_t)(time * 1e6 + (time < 0 ? -0.5 : 0.5)) +
				     splice->annotate->sources[counter->source].shift_ns;
			gained += count;
			if (base->first_ns != ANNOTATE_UNKNOWN && (ns < base->first_ns || ns > base->last_ns)) {
				gained = is_level ? gained : 0;
				continue;
			}
			if (column)
				json_double(json, gained);
			else
				json_decimal(json, ns, 6);
			gained = 0;
			rows += (size_t)!column;
		}
		json_end_array(json);
	}
	json_member_uint(json, "length", rows);
}

static int put_counter(struct splice *splice, const struct annotate_counter *counter, size_t place)
{
	const struct json_node *node = counter->node, *color = json_node_get(json_node_get(node, "display"), "color");
	struct json_writer json;
	char text[320];
	if (splice->scan.error)
		return splice->scan.error;
	struct annotate_id pid = counter->pid;
	if (place < splice->base->thread_count)
		pid = splice->base->threads[place].pid;
	json_init(&json, splice->sink->out);
	json_begin_object(&json);
	for (uint32_t i = 0; i < node->count; i++) {
		struct bytes key = json_node_bytes(&node->items[2 * i]);
		bool is_ours = bytes_equal_string(key, "pid") || bytes_equal_string(key, "mainThreadIndex") ||
			       bytes_equal_string(key, "samples") || bytes_equal_string(key, "color");
		if (is_ours)
			continue;
		json_key(&json, node->items[2 * i].text);
		put_node(&json, &node->items[2 * i + 1], 0);
	}
	color = color ? color : json_node_get(node, "color");
	if (splice->base->version < SINCE_DISPLAY && color) {
		json_key(&json, "color");
		put_node(&json, color, 0);
	}
	json_member_bytes(&json, "pid", id_text(&pid, "", text, sizeof(text)));
	json_member_uint(&json, "mainThreadIndex", place);
	json_member_object(&json, "samples");
	put_rows(splice, counter, &json);
	json_end_object(&json);
	json_end_object(&json);
	splice->stats->counters++;
	return finish_writer(splice, &json);
}

static void put_counters(struct splice *splice, bool is_due)
{
	const struct annotate *annotate = splice->annotate;
	for (size_t i = 0; i < annotate->counter_count; i++) {
		size_t place = annotate_place_of_counter(annotate, splice->base, &annotate->counters[i]);
		/* Of a process that has no track. */
		if (place == SIZE_MAX)
			continue;
		put_comma(splice, &is_due);
		put_counter(splice, &annotate->counters[i], place);
	}
}

static int splice_counters(struct splice *splice)
{
	bool is_due;
	int r = copy_items(splice, &is_due);
	if (r == 0)
		put_counters(splice, is_due);
	return r < 0 ? r : end_items(splice);
}

/* ---- meta ---- */

static void put_category(struct splice *splice, struct bytes name, struct bytes color, bool *is_due)
{
	put_comma(splice, is_due);
	put_cstring(splice, "{\"name\":");
	put_text(splice, name);
	put_cstring(splice, ",\"color\":");
	put_text(splice, color.len ? color : bytes_of_string("grey"));
	put_cstring(splice, ",\"subcategories\":[\"Other\"]}");
}

static void put_categories(struct splice *splice, bool is_due)
{
	const struct annotate *annotate = splice->annotate;
	for (size_t i = 1; i < annotate->category_count; i++)
		if (annotate->categories[i].is_new)
			put_category(splice, annotate->categories[i].name, annotate->categories[i].color, &is_due);
}

/* One of ours, as this version has them. */
static int put_schema(struct splice *splice, const struct annotate_schema *schema, struct bytes name)
{
	struct json_writer json;
	if (splice->scan.error)
		return splice->scan.error;
	json_init(&json, splice->sink->out);
	json_begin_object(&json);
	for (uint32_t i = 0; i < schema->node->count; i++) {
		const struct json_node *key = &schema->node->items[2 * i];
		struct bytes text = json_node_bytes(key);
		if (bytes_equal_string(text, "name") || bytes_equal_string(text, "fields") || bytes_equal_string(text, "data"))
			continue;
		json_key(&json, key->text);
		put_node(&json, key + 1, 0);
	}
	json_member_bytes(&json, "name", name);
	const struct json_node *fields = annotate_schema_fields(schema->node);
	json_key(&json, splice->base->version < FIELDS_SINCE ? "data" : "fields");
	if (json_node_is(fields, JSON_NODE_ARRAY)) {
		put_node(&json, fields, 0);
	} else {
		json_begin_array(&json);
		json_end_array(&json);
	}
	json_end_object(&json);
	return finish_writer(splice, &json);
}

static void put_schemas(struct splice *splice, bool is_due)
{
	const struct annotate *annotate = splice->annotate;
	for (size_t i = 1; i < annotate->schema_count; i++) {
		const struct annotate_schema *schema = &annotate->schemas[i];
		if (!schema->is_used || schema->base != ANNOTATE_NONE)
			continue;
		put_comma(splice, &is_due);
		put_schema(splice, schema, schema->final);
	}
}

static int splice_schemas(struct splice *splice)
{
	struct json_scan *scan = &splice->scan;
	const struct json_node *schemas = json_node_get(splice->base->meta, "markerSchema");
	int r = json_scan_open(scan, '[');
	for (size_t i = 0; r == 0; i++) {
		if (json_scan_is_last(scan)) {
			bool is_due = json_scan_has_items(scan);
			json_scan_copy(scan, false);
			put_schemas(splice, is_due);
			json_scan_copy(scan, true);
		}
		r = json_scan_item(scan);
		if (r <= 0)
			break;
		uint32_t ours = i < json_node_count(schemas) ? splice->base->schema_of[i] : ANNOTATE_NONE;
		if (ours == ANNOTATE_NONE) {
			r = json_scan_skip(scan);
			continue;
		}
		/* The comma before it is passed, and copied; the value is not. */
		json_scan_peek(scan);
		r = replace(splice);
		put_schema(splice, &splice->annotate->schemas[ours], splice->annotate->schemas[ours].final);
		json_scan_copy(scan, true);
	}
	return r;
}

/* Recorders say which tracks are shown at first: those with markers are, too. */
static int splice_visible(struct splice *splice)
{
	const struct annotate *annotate = splice->annotate;
	const struct json_node *shown = json_node_get(splice->base->meta, "initialVisibleThreads");
	size_t threads = splice->base->thread_count, added = threads;
	bool is_due;
	_cleanup_(mem_freep) bool *is_shown = mem_zalloc_array(threads, sizeof(*is_shown));
	if (!is_shown)
		return splice->scan.error = error_nomem(splice->err);
	for (size_t i = 0; i < json_node_count(shown); i++) {
		int64_t number;
		if (json_node_integer(json_node_at(shown, i), &number) && number >= 0 && (uint64_t)number < threads)
			is_shown[number] = true;
	}
	int r = copy_items(splice, &is_due);
	for (size_t i = 0; r == 0 && i < threads; i++) {
		if (is_shown[i] || !gets_markers(splice, &splice->base->threads[i]))
			continue;
		put_comma(splice, &is_due);
		put_number(splice, i);
	}
	for (size_t i = 0; r == 0 && i < annotate->thread_count; i++) {
		if (!annotate->threads[i].kept || annotate->threads[i].base != ANNOTATE_NONE)
			continue;
		put_comma(splice, &is_due);
		put_number(splice, added++);
	}
	return r < 0 ? r : end_items(splice);
}

/* What there was no member for. */
static void put_missing_meta(struct splice *splice, bool is_due)
{
	const struct json_node *meta = splice->base->meta;
	if (splice->options->title && !json_node_get(meta, "product")) {
		put_key(splice, "product", &is_due);
		put_text(splice, bytes_of_string(splice->options->title));
	}
	if (!json_node_is(json_node_get(meta, "categories"), JSON_NODE_ARRAY)) {
		bool comma = false;
		put_key(splice, "categories", &is_due);
		put_cstring(splice, "[");
		put_category(splice, bytes_of_string("Other"), bytes_of_string("grey"), &comma);
		put_categories(splice, comma);
		put_cstring(splice, "]");
	}
	if (!json_node_is(json_node_get(meta, "markerSchema"), JSON_NODE_ARRAY)) {
		put_key(splice, "markerSchema", &is_due);
		put_cstring(splice, "[");
		put_schemas(splice, false);
		put_cstring(splice, "]");
	}
}

static int splice_meta_member(struct splice *splice, struct bytes key)
{
	struct json_scan *scan = &splice->scan;
	bool is_array = json_scan_peek(scan) == '[', is_due;
	if (bytes_equal_string(key, "product") && splice->options->title)
		return put_replaced(splice, bytes_of_string(splice->options->title));
	if (bytes_equal_string(key, "categories") && is_array) {
		int r = copy_items(splice, &is_due);
		if (r == 0)
			put_categories(splice, is_due);
		return r < 0 ? r : end_items(splice);
	}
	if (bytes_equal_string(key, "markerSchema") && is_array)
		return splice_schemas(splice);
	if (bytes_equal_string(key, "initialVisibleThreads") && is_array)
		return splice_visible(splice);
	return json_scan_skip(scan);
}

static int splice_meta(struct splice *splice)
{
	struct json_scan *scan = &splice->scan;
	struct bytes key;
	int r = json_scan_open(scan, '{');
	while (r == 0) {
		if (json_scan_is_last(scan)) {
			bool is_due = json_scan_has_items(scan);
			json_scan_copy(scan, false);
			put_missing_meta(splice, is_due);
			json_scan_copy(scan, true);
		}
		r = json_scan_member(scan, &key);
		if (r <= 0)
			break;
		r = splice_meta_member(splice, key);
	}
	return r;
}

/* ---- the whole ---- */

static int splice_shared(struct splice *splice)
{
	struct json_scan *scan = &splice->scan;
	struct bytes key;
	int r = json_scan_open(scan, '{');
	while (r == 0 && (r = json_scan_member(scan, &key)) > 0)
		r = bytes_equal_string(key, "stringArray") && json_scan_peek(scan) == '[' ? splice_strings(splice)
											  : json_scan_skip(scan);
	return r;
}

static int splice_root(struct splice *splice)
{
	struct json_scan *scan = &splice->scan;
	struct bytes key;
	int r = json_scan_open(scan, '{');
	while (r == 0) {
		if (json_scan_is_last(scan) && !splice->base->has_counters && splice->annotate->counter_count) {
			bool is_due = json_scan_has_items(scan);
			json_scan_copy(scan, false);
			put_key(splice, "counters", &is_due);
			put_cstring(splice, "[");
			put_counters(splice, false);
			put_cstring(splice, "]");
			json_scan_copy(scan, true);
		}
		r = json_scan_member(scan, &key);
		if (r <= 0)
			break;
		char kind = json_scan_peek(scan);
		if (bytes_equal_string(key, "meta") && kind == '{')
			r = splice_meta(splice);
		else if (bytes_equal_string(key, "shared") && kind == '{' && splice->base->has_shared_strings)
			r = splice_shared(splice);
		else if (bytes_equal_string(key, "threads") && kind == '[')
			r = splice_threads(splice);
		else if (bytes_equal_string(key, "counters") && kind == '[')
			r = splice_counters(splice);
		else
			r = json_scan_skip(scan);
	}
	return r < 0 ? r : json_scan_finish(scan);
}

static int begin_all(struct splice *splice)
{
	const struct annotate *annotate = splice->annotate;
	const struct base *base = splice->base;
	splice->numbers = mem_alloc_array(annotate->strings.count, sizeof(*splice->numbers));
	splice->added = mem_alloc_array(annotate->strings.count, sizeof(*splice->added));
	if (!splice->numbers || !splice->added)
		return error_nomem(splice->err);
	for (size_t i = 0; i < annotate->strings.count; i++)
		splice->numbers[i] = ANNOTATE_NONE;
	if (base->has_shared_strings) {
		begin_strings(splice, base->shared_first, base->shared_count, base->string_count);
		for (size_t i = 0; i < annotate->thread_count; i++)
			number_strings_of(splice, &annotate->threads[i]);
	}
	return know_threads(splice);
}

static int splice_all(struct splice *splice, struct input *input)
{
	map64_init_guarded(&splice->tids);
	map64_init_guarded(&splice->processes);
	int r = begin_all(splice);
	if (r == 0)
		r = json_scan_init(&splice->scan, input, splice->err);
	json_scan_set_sink(&splice->scan, copy_out, splice);
	if (r == 0)
		r = json_scan_copy(&splice->scan, true);
	if (r == 0)
		r = splice_root(splice);
	json_scan_release(&splice->scan);
	mem_free(splice->numbers);
	mem_free(splice->added);
	map64_release(&splice->tids);
	map64_release(&splice->processes);
	return r < 0 ? r : format_sink_drain(splice->sink, true, splice->err);
}

int annotate_write(struct annotate *annotate, struct input *base, const struct annotate_options *options,
		   struct format_sink *sink, struct annotate_stats *ret_stats, struct error *err)
{
	struct base known;
	*ret_stats = (struct annotate_stats){.malformed = annotate->malformed};
	int r = annotate_read_base(annotate, base, &known, err);
	if (r == 0)
		r = annotate_match(annotate, &known, options, ret_stats, err);
	if (r == 0) {
		struct splice splice = {
			.annotate = annotate, .base = &known, .options = options, .stats = ret_stats, .sink = sink, .err = err};
		r = splice_all(&splice, base);
	}
	base_release(&known);
	return r;
}
