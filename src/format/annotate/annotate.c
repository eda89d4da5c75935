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
	struct json_writer json; /* of what comes between what is copied */
	struct error *err;
	uint32_t *numbers; /* of strings, in the table at hand; NONE = it is not there */
	uint32_t *added;   /* those that come behind it */
	size_t string_count, added_count;
	struct map64 tids;	/* how many threads have each, so far */
	struct map64 processes; /* by pid, a thread of the profile; the main one if it has it */
	size_t thread;		/* how many were begun */
	int column;		/* of markers, the one at hand */
};

/* ---- writing ---- */

static int drain(struct splice *splice)
{
	struct json_scan *scan = &splice->scan;
	int r = buffer_status(splice->sink->out);
	if (scan->error == 0 && r < 0)
		scan->error = format_buffer_error(r, splice->sink->out, "the profile", splice->err);
	if (scan->error == 0)
		scan->error = format_sink_drain(splice->sink, false, splice->err);
	return scan->error;
}

static int copy_out(void *context, struct bytes bytes, struct error *err)
{
	struct splice *splice = context;
	int r = buffer_append(splice->sink->out, bytes.data, bytes.len);
	if (r < 0)
		return format_buffer_error(r, splice->sink->out, "the profile", err);
	return format_sink_drain(splice->sink, false, err);
}

/* Nanoseconds as milliseconds. */
static void put_time(struct splice *splice, int64_t ns)
{
	if (ns == ANNOTATE_UNKNOWN)
		json_nil(&splice->json);
	else
		json_decimal(&splice->json, ns, 6);
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

/* Before the closing bracket of what is at hand: what is written until end_insert() comes behind the items that are there. */
static void begin_insert(struct splice *splice, bool object)
{
	bool has_items = json_scan_has_items(&splice->scan);
	json_scan_copy(&splice->scan, false);
	json_init_within(&splice->json, splice->sink->out, object, has_items);
}

/* The next value is not copied: what is written until end_insert() comes instead. */
static int begin_replacement(struct splice *splice)
{
	json_scan_copy(&splice->scan, false);
	splice->json = (struct json_writer){.out = splice->sink->out};
	return json_scan_skip(&splice->scan);
}

static int end_insert(struct splice *splice)
{
	drain(splice);
	return json_scan_copy(&splice->scan, true);
}

/* To the next item or, with a key, member; before the closing bracket `add` may write more. */
static int next(struct splice *splice, struct bytes *ret_key, void (*add)(struct splice *splice))
{
	if (json_scan_is_last(&splice->scan)) {
		begin_insert(splice, ret_key);
		add(splice);
		end_insert(splice);
	}
	return ret_key ? json_scan_member(&splice->scan, ret_key) : json_scan_item(&splice->scan);
}

/* Copies an array with what `add` writes behind its items. */
static int extend_array(struct splice *splice, void (*add)(struct splice *splice))
{
	int r = json_scan_open(&splice->scan, '[');
	while (r == 0 && (r = next(splice, NULL, add)) > 0)
		r = json_scan_skip(&splice->scan);
	return r;
}

static int replace_text(struct splice *splice, struct bytes text)
{
	int r = begin_replacement(splice);
	json_bytes(&splice->json, text);
	return r < 0 ? r : end_insert(splice);
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

/* Strings that are not there yet. */
static void put_new_strings(struct splice *splice)
{
	for (size_t i = 0; i < splice->added_count && splice->scan.error == 0; i++) {
		json_bytes(&splice->json, intern_get(&splice->annotate->strings, splice->added[i]));
		if (i % ROWS_A_DRAIN == 0)
			drain(splice);
	}
}

/* ---- columns of markers ---- */

/* The members of a marker's data are JSON already, but for the numbers of strings. */
static void put_data(struct splice *splice, const struct annotate_marker *marker)
{
	const struct annotate *annotate = splice->annotate;
	struct json_writer *json = &splice->json;
	struct buffer *out = splice->sink->out;
	if (!marker->schema) {
		json_nil(json);
		return;
	}
	json_begin_object(json);
	json_member_bytes(json, "type", annotate->schemas[marker->schema].final);
	const uint8_t *at = annotate->data.data ? annotate->data.data + marker->data_at : (const uint8_t *)"",
		      *end = at + marker->data_len;
	while (at < end) {
		const uint8_t *mark = memchr(at, ANNOTATE_STRING_MARK, (size_t)(end - at));
		buffer_append(out, at, (size_t)((mark ? mark : end) - at));
		if (!mark)
			break;
		uint32_t id;
		memcpy(&id, mark + 1, sizeof(id));
		buffer_printf(out, "%u", splice->numbers[id]);
		at = mark + 1 + sizeof(id);
	}
	json_end_object(json);
}

static void put_cell(struct splice *splice, int column, const struct annotate_marker *marker)
{
	switch (column) {
	case DATA: put_data(splice, marker); break;
	case NAME: json_uint(&splice->json, splice->numbers[marker->name]); break;
	case START: put_time(splice, marker->start_ns); break;
	case END: put_time(splice, marker->end_ns); break;
	case PHASE: json_uint(&splice->json, marker->phase); break;
	case CATEGORY: json_uint(&splice->json, splice->annotate->categories[marker->category].number); break;
	default: json_nil(&splice->json);
	}
}

/* Of a thread and of those that go to the same one. */
static void put_cells(struct splice *splice, int column, uint32_t first)
{
	const struct annotate *annotate = splice->annotate;
	for (uint32_t t = first; t != ANNOTATE_NONE; t = annotate->threads[t].next) {
		const struct annotate_thread *thread = &annotate->threads[t];
		for (size_t i = thread->first; i < thread->first + thread->count && splice->scan.error == 0; i++) {
			if (annotate->markers[i].phase == ANNOTATE_LEFT_OUT)
				continue;
			put_cell(splice, column, &annotate->markers[i]);
			if (i % ROWS_A_DRAIN == 0)
				drain(splice);
		}
		drain(splice);
	}
}

static size_t count_kept(const struct splice *splice, uint32_t first)
{
	size_t rows = 0;
	for (uint32_t i = first; i != ANNOTATE_NONE; i = splice->annotate->threads[i].next)
		rows += splice->annotate->threads[i].kept;
	return rows;
}

/* A table of its own. */
static void put_markers(struct splice *splice, uint32_t first)
{
	json_member_object(&splice->json, "markers");
	for (int column = 0; column < COLUMNS; column++) {
		json_member_array(&splice->json, annotate_column_names[column]);
		put_cells(splice, column, first);
		json_end_array(&splice->json);
	}
	json_member_uint(&splice->json, "length", count_kept(splice, first));
	json_end_object(&splice->json);
}

/* Of the column and the profile's thread at hand. */
static void put_more_cells(struct splice *splice)
{
	put_cells(splice, splice->column, splice->base->threads[splice->thread - 1].marked);
}

static int splice_length(struct splice *splice, uint32_t first)
{
	int64_t length = 0;
	json_scan_copy(&splice->scan, false);
	int r = json_scan_integer(&splice->scan, &length);
	splice->json = (struct json_writer){.out = splice->sink->out};
	json_uint(&splice->json, (uint64_t)length + count_kept(splice, first));
	return r < 0 ? r : end_insert(splice);
}

static int splice_markers(struct splice *splice, uint32_t first)
{
	struct json_scan *scan = &splice->scan;
	struct bytes key;
	int r = json_scan_open(scan, '{');
	while (r == 0 && (r = json_scan_member(scan, &key)) > 0) {
		bool is_length = bytes_equal_string(key, "length");
		splice->column = annotate_find_column(key);
		r = json_scan_peek(scan) == '[' ? extend_array(splice, put_more_cells)
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

static int splice_member(struct splice *splice, struct bytes key, const struct base_thread *thread)
{
	struct json_scan *scan = &splice->scan;
	bool gets = gets_markers(splice, thread);
	if (bytes_equal_string(key, "name") && thread->new_name.len)
		return replace_text(splice, thread->new_name);
	if (bytes_equal_string(key, "processName") && thread->new_process.len)
		return replace_text(splice, thread->new_process);
	if (bytes_equal_string(key, "showMarkersInTimeline") && gets) {
		int r = begin_replacement(splice);
		json_bool(&splice->json, true);
		return r < 0 ? r : end_insert(splice);
	}
	if (bytes_equal_string(key, "stringArray") && !splice->base->has_shared_strings && gets && json_scan_peek(scan) == '[')
		return extend_array(splice, put_new_strings);
	if (bytes_equal_string(key, "markers") && gets)
		return splice_markers(splice, thread->marked);
	return json_scan_skip(scan);
}

static void put_missing_members(struct splice *splice)
{
	const struct base_thread *thread = &splice->base->threads[splice->thread - 1];
	bool gets = gets_markers(splice, thread);
	if (gets && !thread->has_shown)
		json_member_bool(&splice->json, "showMarkersInTimeline", true);
	if (gets && !thread->has_markers)
		put_markers(splice, thread->marked);
}

static int splice_thread(struct splice *splice)
{
	const struct base_thread *thread = &splice->base->threads[splice->thread++];
	bool gets = gets_markers(splice, thread), has_strings = gets && !splice->base->has_shared_strings;
	struct bytes key;
	if (!gets && !thread->new_name.len && !thread->new_process.len)
		return json_scan_skip(&splice->scan);
	if (has_strings) {
		begin_strings(splice, thread->known_first, thread->known_count, thread->string_count);
		for (uint32_t i = thread->marked; i != ANNOTATE_NONE; i = splice->annotate->threads[i].next)
			number_strings_of(splice, &splice->annotate->threads[i]);
	}
	int r = json_scan_open(&splice->scan, '{');
	while (r == 0 && (r = next(splice, &key, put_missing_members)) > 0)
		r = splice_member(splice, key, thread);
	if (has_strings)
		end_strings(splice, thread->known_first, thread->known_count);
	return r;
}

static void put_empty_columns(struct splice *splice, const char *const *columns)
{
	for (; *columns; columns++) {
		json_member_array(&splice->json, *columns);
		json_end_array(&splice->json);
	}
}

/* Before version 60 each thread has all tables; a column too many does no harm. */
static void put_own_tables(struct splice *splice)
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
	const struct {
		const char *name;
		const char *const *columns;
	} tables[] = {
		{"stackTable", stacks},
		{"frameTable", frames},
		{"funcTable", splice->base->version >= FIREFOX_SOURCES ? new_funcs : funcs},
		{"resourceTable", resources},
		{"nativeSymbols", symbols},
	};
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		json_member_object(&splice->json, tables[i].name);
		put_empty_columns(splice, tables[i].columns);
		json_member_uint(&splice->json, "length", 0);
		json_end_object(&splice->json);
	}
}

static struct bytes id_text(const struct annotate_id *id, const char *ending, char *out, size_t size)
{
	int len = snprintf(out, size, "%.*s%s%lld%s", (int)(id->host.len < 256 ? id->host.len : 256),
			   (const char *)id->host.data, id->host.len ? ":" : "", (long long)id->number, ending);
	return (struct bytes){(const uint8_t *)out, (size_t)len};
}

/* The viewer wants tids to differ: "17.1" is the second of that number. */
static void put_thread_ids(struct splice *splice, const struct annotate_thread *thread)
{
	char text[320], ending[24] = "";
	uint64_t same = 0;
	map64_get(&splice->tids, (uint64_t)thread->tid.number, &same);
	if (splice->scan.error == 0 && map64_add(&splice->tids, (uint64_t)thread->tid.number, 1) < 0)
		splice->scan.error = error_nomem(splice->err);
	if (same)
		snprintf(ending, sizeof(ending), ".%llu", (unsigned long long)same);
	json_member_bytes(&splice->json, "pid",
			  thread->pid.is_known ? id_text(&thread->pid, "", text, sizeof(text))
					       : bytes_of_string(FIREFOX_NO_PID));
	if (thread->tid.is_known && !same && !thread->tid.host.len)
		json_member_uint(&splice->json, "tid", (uint64_t)thread->tid.number);
	else
		json_member_bytes(&splice->json, "tid", id_text(&thread->tid, ending, text, sizeof(text)));
}

static void put_thread_names(struct splice *splice, const struct annotate_thread *thread)
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
	json_member_bytes(&splice->json, "name", name);
	json_member_bytes(&splice->json, "processName", process);
	json_member_bool(&splice->json, "isMainThread", thread->is_main && !(other && other->is_main));
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

static void put_new_thread(struct splice *splice, uint32_t number)
{
	static const char *const samples[] = {"stack", "time", "weight", NULL};
	struct annotate_thread *thread = &splice->annotate->threads[number];
	struct json_writer *json = &splice->json;
	bool has_strings = !splice->base->has_shared_strings;
	if (has_strings) {
		begin_strings(splice, 0, 0, 0);
		number_strings_of(splice, thread);
	}
	json_begin_object(json);
	json_member_cstring(json, "processType", "default");
	put_thread_names(splice, thread);
	put_thread_ids(splice, thread);
	json_member_uint(json, "processStartupTime", 0);
	json_member_null(json, "processShutdownTime");
	json_key(json, "registerTime");
	put_time(splice, thread->start_ns > 0 ? thread->start_ns : 0);
	json_member_null(json, "unregisterTime");
	json_member_array(json, "pausedRanges");
	json_end_array(json);
	json_member_bool(json, "showMarkersInTimeline", true);
	json_member_object(json, "samples");
	put_empty_columns(splice, samples);
	json_member_cstring(json, "weightType", "samples");
	json_member_uint(json, "length", 0);
	json_end_object(json);
	if (splice->base->version < FIREFOX_SHARED_TABLES)
		put_own_tables(splice);
	if (has_strings) {
		json_member_array(json, "stringArray");
		put_new_strings(splice);
		json_end_array(json);
	}
	put_markers(splice, number);
	json_end_object(json);
	if (has_strings)
		end_strings(splice, 0, 0);
	drain(splice);
}

static bool is_new(const struct annotate_thread *thread)
{
	return thread->kept && thread->base == ANNOTATE_NONE;
}

static void put_new_threads(struct splice *splice)
{
	const struct annotate *annotate = splice->annotate;
	for (uint32_t i = 0; i < annotate->thread_count; i++)
		if (is_new(&annotate->threads[i]))
			put_new_thread(splice, i);
}

static int splice_threads(struct splice *splice)
{
	struct json_scan *scan = &splice->scan;
	int r = json_scan_open(scan, '[');
	while (r == 0 && (r = next(splice, NULL, put_new_threads)) > 0) {
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

static void put_counter(struct splice *splice, const struct annotate_counter *counter, size_t place)
{
	const struct json_node *node = counter->node, *color = json_node_get(json_node_get(node, "display"), "color");
	struct json_writer *json = &splice->json;
	char text[320];
	struct annotate_id pid = counter->pid;
	if (place < splice->base->thread_count)
		pid = splice->base->threads[place].pid;
	json_begin_object(json);
	for (uint32_t i = 0; i < node->count; i++) {
		struct bytes key = json_node_bytes(&node->items[2 * i]);
		bool is_ours = bytes_equal_string(key, "pid") || bytes_equal_string(key, "mainThreadIndex") ||
			       bytes_equal_string(key, "samples") || bytes_equal_string(key, "color");
		if (is_ours)
			continue;
		json_key(json, node->items[2 * i].text);
		put_node(json, &node->items[2 * i + 1], 0);
	}
	color = color ? color : json_node_get(node, "color");
	if (splice->base->version < SINCE_DISPLAY && color) {
		json_key(json, "color");
		put_node(json, color, 0);
	}
	json_member_bytes(json, "pid", id_text(&pid, "", text, sizeof(text)));
	json_member_uint(json, "mainThreadIndex", place);
	json_member_object(json, "samples");
	put_rows(splice, counter, json);
	json_end_object(json);
	json_end_object(json);
	splice->stats->counters++;
	drain(splice);
}

static void put_counters(struct splice *splice)
{
	const struct annotate *annotate = splice->annotate;
	for (size_t i = 0; i < annotate->counter_count && splice->scan.error == 0; i++) {
		size_t place = annotate_place_of_counter(annotate, splice->base, &annotate->counters[i]);
		/* Of a process that has no track. */
		if (place != SIZE_MAX)
			put_counter(splice, &annotate->counters[i], place);
	}
}

/* ---- meta ---- */

static void put_category(struct splice *splice, struct bytes name, struct bytes color)
{
	struct json_writer *json = &splice->json;
	json_begin_object(json);
	json_member_bytes(json, "name", name);
	json_member_bytes(json, "color", color.len ? color : bytes_of_string("grey"));
	json_member_array(json, "subcategories");
	json_cstring(json, "Other");
	json_end_array(json);
	json_end_object(json);
}

static void put_categories(struct splice *splice)
{
	const struct annotate *annotate = splice->annotate;
	for (size_t i = 1; i < annotate->category_count; i++)
		if (annotate->categories[i].is_new)
			put_category(splice, annotate->categories[i].name, annotate->categories[i].color);
}

/* One of ours, as this version has them. */
static void put_schema(struct splice *splice, const struct annotate_schema *schema)
{
	struct json_writer *json = &splice->json;
	json_begin_object(json);
	for (uint32_t i = 0; i < schema->node->count; i++) {
		const struct json_node *key = &schema->node->items[2 * i];
		struct bytes text = json_node_bytes(key);
		if (bytes_equal_string(text, "name") || bytes_equal_string(text, "fields") || bytes_equal_string(text, "data"))
			continue;
		json_key(json, key->text);
		put_node(json, key + 1, 0);
	}
	json_member_bytes(json, "name", schema->final);
	const struct json_node *fields = annotate_schema_fields(schema->node);
	json_key(json, splice->base->version < FIELDS_SINCE ? "data" : "fields");
	if (json_node_is(fields, JSON_NODE_ARRAY)) {
		put_node(json, fields, 0);
	} else {
		json_begin_array(json);
		json_end_array(json);
	}
	json_end_object(json);
	drain(splice);
}

static void put_schemas(struct splice *splice)
{
	const struct annotate *annotate = splice->annotate;
	for (size_t i = 1; i < annotate->schema_count; i++)
		if (annotate->schemas[i].is_used && annotate->schemas[i].base == ANNOTATE_NONE)
			put_schema(splice, &annotate->schemas[i]);
}

static int splice_schemas(struct splice *splice)
{
	struct json_scan *scan = &splice->scan;
	const struct json_node *schemas = json_node_get(splice->base->meta, "markerSchema");
	int r = json_scan_open(scan, '[');
	for (size_t i = 0; r == 0 && (r = next(splice, NULL, put_schemas)) > 0; i++) {
		uint32_t ours = i < json_node_count(schemas) ? splice->base->schema_of[i] : ANNOTATE_NONE;
		if (ours == ANNOTATE_NONE) {
			r = json_scan_skip(scan);
			continue;
		}
		/* The comma before it is passed, and copied; the value is not. */
		json_scan_peek(scan);
		r = begin_replacement(splice);
		put_schema(splice, &splice->annotate->schemas[ours]);
		r = r < 0 ? r : end_insert(splice);
	}
	return r;
}

/* Recorders say which tracks are shown at first: those with markers are, too. */
static void put_visible(struct splice *splice)
{
	const struct annotate *annotate = splice->annotate;
	const struct json_node *shown = json_node_get(splice->base->meta, "initialVisibleThreads");
	size_t threads = splice->base->thread_count, added = threads;
	_cleanup_(mem_freep) bool *is_shown = mem_zalloc_array(threads, sizeof(*is_shown));
	if (!is_shown) {
		splice->scan.error = error_nomem(splice->err);
		return;
	}
	for (size_t i = 0; i < json_node_count(shown); i++) {
		int64_t number;
		if (json_node_integer(json_node_at(shown, i), &number) && number >= 0 && (uint64_t)number < threads)
			is_shown[number] = true;
	}
	for (size_t i = 0; i < threads; i++)
		if (!is_shown[i] && gets_markers(splice, &splice->base->threads[i]))
			json_uint(&splice->json, i);
	for (size_t i = 0; i < annotate->thread_count; i++)
		if (is_new(&annotate->threads[i]))
			json_uint(&splice->json, added++);
}

/* What there was no member for. */
static void put_missing_meta(struct splice *splice)
{
	const struct json_node *meta = splice->base->meta;
	struct json_writer *json = &splice->json;
	if (splice->options->title && !json_node_get(meta, "product"))
		json_member_cstring(json, "product", splice->options->title);
	if (!json_node_is(json_node_get(meta, "categories"), JSON_NODE_ARRAY)) {
		json_member_array(json, "categories");
		put_category(splice, bytes_of_string("Other"), bytes_of_string("grey"));
		put_categories(splice);
		json_end_array(json);
	}
	if (!json_node_is(json_node_get(meta, "markerSchema"), JSON_NODE_ARRAY)) {
		json_member_array(json, "markerSchema");
		put_schemas(splice);
		json_end_array(json);
	}
}

static int splice_meta_member(struct splice *splice, struct bytes key)
{
	struct json_scan *scan = &splice->scan;
	bool is_array = json_scan_peek(scan) == '[';
	if (bytes_equal_string(key, "product") && splice->options->title)
		return replace_text(splice, bytes_of_string(splice->options->title));
	if (bytes_equal_string(key, "categories") && is_array)
		return extend_array(splice, put_categories);
	if (bytes_equal_string(key, "markerSchema") && is_array)
		return splice_schemas(splice);
	if (bytes_equal_string(key, "initialVisibleThreads") && is_array)
		return extend_array(splice, put_visible);
	return json_scan_skip(scan);
}

static int splice_meta(struct splice *splice)
{
	struct bytes key;
	int r = json_scan_open(&splice->scan, '{');
	while (r == 0 && (r = next(splice, &key, put_missing_meta)) > 0)
		r = splice_meta_member(splice, key);
	return r;
}

/* ---- the whole ---- */

static int splice_shared(struct splice *splice)
{
	struct json_scan *scan = &splice->scan;
	struct bytes key;
	int r = json_scan_open(scan, '{');
	while (r == 0 && (r = json_scan_member(scan, &key)) > 0)
		r = bytes_equal_string(key, "stringArray") && json_scan_peek(scan) == '['
			    ? extend_array(splice, put_new_strings)
			    : json_scan_skip(scan);
	return r;
}

static void put_missing_root(struct splice *splice)
{
	if (splice->base->has_counters || !splice->annotate->counter_count)
		return;
	json_member_array(&splice->json, "counters");
	put_counters(splice);
	json_end_array(&splice->json);
}

static int splice_root(struct splice *splice)
{
	struct json_scan *scan = &splice->scan;
	struct bytes key;
	int r = json_scan_open(scan, '{');
	while (r == 0 && (r = next(splice, &key, put_missing_root)) > 0) {
		char kind = json_scan_peek(scan);
		if (bytes_equal_string(key, "meta") && kind == '{')
			r = splice_meta(splice);
		else if (bytes_equal_string(key, "shared") && kind == '{' && splice->base->has_shared_strings)
			r = splice_shared(splice);
		else if (bytes_equal_string(key, "threads") && kind == '[')
			r = splice_threads(splice);
		else if (bytes_equal_string(key, "counters") && kind == '[')
			r = extend_array(splice, put_counters);
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
