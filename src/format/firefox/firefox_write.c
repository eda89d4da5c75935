/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing. Every table is written column by column, from tables that a profile has anyway, and drained into the sink on the
 * way, so that the output is never in memory as a whole.
 *
 * A sample has one weight in the format, so one value of the profile is chosen; and CPU time since the sample before of the
 * thread, for the graph of a thread's use of the CPU, which is written too if the profile has it and times.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/sorted.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/json.h"
#include "format/firefox/firefox_markers.h"

#define GECKO_VERSION 36 /* of what Firefox itself writes; of no meaning here, but expected */
#define ROWS_A_DRAIN  1024
#define REUSES_MAX    64 /* owners of one tid that a counter is looked for among */
#define PLACES_NS     6	 /* of milliseconds */
#define HOSTS_NAMED   8

/* Where the line between samples of unknown time is drawn: one a millisecond, as Firefox Profiler's own importer of folded
 * stacks does. */
#define UNTIMED_NS NS_PER_MS

struct unit {
	const char *name, *weight;
	int64_t scale;
	unsigned places;
};
static const struct unit units[] = {
	{"nanoseconds", "tracing-ms", 1, 6},
	{"microseconds", "tracing-ms", 1, 3},
	{"milliseconds", "tracing-ms", 1, 0},
	{"seconds", "tracing-ms", 1000, 0},
	{"bytes", "bytes", 1, 0},
	{"count", "samples", 1, 0},
};

struct writer {
	const struct profile *profile;
	struct format_sink *sink;
	struct json_writer json;
	struct error *err;
	int error; /* of the sink */
	unsigned version;
	size_t type, cpu_type; /* cpu_type: SIZE_MAX = there is none */
	const struct unit *unit;
	bool is_timed, is_symbolicated;
	int64_t start_ns; /* what times are relative to; whole milliseconds */
	int64_t end_ns;	  /* the latest time of all; 0 = unknown */
	struct firefox_tables tables;
	struct sample_threads threads;
	struct firefox_markers markers;
	struct buffer text, hosts; /* hosts: their names, if there are several */
	/* The thread that is written */
	size_t thread_number;
	const uint32_t *order;
	size_t order_count;
	const uint32_t *marker_order;
};

/* ---- columns ---- */

static void drain(struct writer *writer)
{
	if (writer->error == 0)
		writer->error = format_sink_drain(writer->sink, false, writer->err);
}

/* What is in a column's cells. */
enum cell {
	CELL_NULL,
	CELL_ZERO,
	CELL_ONE,
	CELL_FALSE,
	FRAME_FLAGS,
	FRAME_DEPTH,
	FRAME_ADDRESS,
	FRAME_LIB,
	FRAME_CATEGORY,
	FRAME_FUNC,
	FRAME_SYMBOL,
	FRAME_LINE,
	FRAME_COLUMN,
	FRAME_ORIGINAL,
	FUNC_FLAGS,
	FUNC_NAME,
	FUNC_RESOURCE,
	FUNC_SOURCE,
	FUNC_LINE,
	FUNC_NOTHING,
	RESOURCE_LIB,
	RESOURCE_NAME,
	SYMBOL_LIB,
	SYMBOL_ADDRESS,
	SYMBOL_NAME,
	SYMBOL_SIZE,
	SOURCE_NAME,
	TEXT,
	LIB,
	SAMPLE_STACK,
	SAMPLE_TIME,
	SAMPLE_WEIGHT,
	SAMPLE_CPU,
	MARKER_DATA,
	MARKER_NAME,
	MARKER_START,
	MARKER_END,
	MARKER_PHASE,
	MARKER_CATEGORY,
};
/* Of the cells behind CELL_FALSE. */
typedef void put_function(struct writer *writer, enum cell cell, size_t row);

static void put_cell(struct writer *writer, enum cell cell, size_t row, put_function *put)
{
	switch (cell) {
	case CELL_NULL: json_nil(&writer->json); break;
	case CELL_ZERO: json_int(&writer->json, 0); break;
	case CELL_ONE: json_int(&writer->json, 1); break;
	case CELL_FALSE: json_bool(&writer->json, false); break;
	default: put(writer, cell, row);
	}
}

static void put_column(struct writer *writer, const char *name, size_t rows, enum cell cell, put_function *put)
{
	json_member_array(&writer->json, name);
	for (size_t i = 0; i < rows && writer->error == 0; i++) {
		put_cell(writer, cell, i, put);
		if (i % ROWS_A_DRAIN == ROWS_A_DRAIN - 1)
			drain(writer);
	}
	json_end_array(&writer->json);
	drain(writer);
}

struct column {
	const char *name;
	enum cell cell;
	unsigned since, before; /* the versions that have it; 0 = all */
};

/* columns: up to one without a name. */
static void put_table(struct writer *writer, const char *name, size_t rows, const struct column *columns, put_function *put)
{
	json_member_object(&writer->json, name);
	for (; columns->name; columns++)
		if (writer->version >= columns->since && (!columns->before || writer->version < columns->before))
			put_column(writer, columns->name, rows, columns->cell, put);
	json_member_uint(&writer->json, "length", rows);
	json_end_object(&writer->json);
}

/* What says "none" where a table has flags, null where it has not. */
static void put_optional(struct writer *writer, bool is_there, int64_t value, unsigned flags_since)
{
	if (is_there || writer->version >= flags_since)
		json_int(&writer->json, is_there ? value : 0);
	else
		json_nil(&writer->json);
}

/* The number of a text that is in stringArray. */
static void put_text_number(struct writer *writer, struct bytes text)
{
	uint32_t id = 0;
	intern_find(&writer->tables.texts, text.data, text.len, &id);
	json_uint(&writer->json, id);
}

/* ---- frameTable ---- */

static const struct column frame_columns[] = {
	{"flags", FRAME_FLAGS, .since = FIREFOX_FRAME_FLAGS},
	{"inlineDepth", FRAME_DEPTH, .before = FIREFOX_FRAME_FLAGS},
	{"address", FRAME_ADDRESS},
	{"lib", FRAME_LIB, .since = FIREFOX_FRAME_LIBS},
	{"category", FRAME_CATEGORY},
	{"subcategory", CELL_ZERO},
	{"func", FRAME_FUNC},
	{"nativeSymbol", FRAME_SYMBOL},
	{"innerWindowID", CELL_ZERO},
	{"line", FRAME_LINE},
	{"column", FRAME_COLUMN},
	{"originalLocation", FRAME_ORIGINAL, .since = FIREFOX_SOURCE_LOCATIONS},
	{0},
};

/* The symbol is of the function that the others are inlined into. */
static uint32_t symbol_of(const struct writer *writer, const struct firefox_frame *frame)
{
	return writer->tables.funcs[writer->tables.frames[writer->tables.first_frame[frame->location]].func].symbol;
}

static void put_frame_cell(struct writer *writer, enum cell cell, size_t row)
{
	static const struct profile_line no_line;
	const struct firefox_frame *frame = &writer->tables.frames[row];
	const struct profile_line *line = frame->line == FIREFOX_NONE ? &no_line : &writer->profile->lines[frame->line];
	bool has_flags = writer->version >= FIREFOX_FRAME_FLAGS;
	uint32_t lib = firefox_lib(&writer->tables, frame->location), symbol = symbol_of(writer, frame),
		 type = writer->profile->locations[frame->location].frame_type;
	uint64_t address = 0;
	bool has_address = firefox_address(&writer->tables, frame->location, &address),
	     has_lib = has_address && lib != FIREFOX_NONE;
	unsigned flags = FIREFOX_FRAME_HAS_CATEGORY;
	flags |= frame->depth > 0 ? FIREFOX_FRAME_IS_INLINED : 0u;
	flags |= has_lib ? FIREFOX_FRAME_HAS_ADDRESS : 0u;
	flags |= symbol != FIREFOX_NONE ? FIREFOX_FRAME_HAS_SYMBOL : 0u;
	flags |= line->line > 0 ? FIREFOX_FRAME_HAS_LINE : 0u;
	flags |= line->column > 0 ? FIREFOX_FRAME_HAS_COLUMN : 0u;
	switch (cell) {
	case FRAME_FLAGS: json_uint(&writer->json, flags); break;
	case FRAME_DEPTH: json_uint(&writer->json, frame->depth); break;
	case FRAME_ADDRESS:
		if (has_flags)
			json_uint(&writer->json, has_lib ? address : 0);
		else
			json_int(&writer->json, has_address ? (int64_t)address : -1);
		break;
	case FRAME_LIB:
		if (has_flags)
			json_uint(&writer->json, has_lib ? lib : 0);
		else
			json_int(&writer->json, lib == FIREFOX_NONE ? -1 : (int64_t)lib);
		break;
	case FRAME_CATEGORY: json_uint(&writer->json, type < FIREFOX_CATEGORIES ? type : 0); break;
	case FRAME_FUNC: json_uint(&writer->json, frame->func); break;
	case FRAME_SYMBOL: put_optional(writer, symbol != FIREFOX_NONE, symbol, FIREFOX_FRAME_FLAGS); break;
	case FRAME_LINE: put_optional(writer, line->line > 0, line->line, FIREFOX_FRAME_FLAGS); break;
	case FRAME_COLUMN: put_optional(writer, line->column > 0, line->column, FIREFOX_FRAME_FLAGS); break;
	default: put_optional(writer, false, 0, FIREFOX_FRAME_FLAGS); /* FRAME_ORIGINAL */
	}
}

/* ---- stackTable ---- */

/* The row of the innermost frame of a stack. */
static uint32_t row_of_stack(const struct writer *writer, uint32_t stack)
{
	uint32_t location = writer->profile->stacks[stack].location;
	return (uint32_t)(firefox_first_row(&writer->tables, stack) + firefox_frames_of(&writer->tables, location) - 1);
}

static void put_stack_columns(struct writer *writer, bool frames)
{
	const struct profile *profile = writer->profile;
	const struct firefox_tables *tables = &writer->tables;
	bool offsets = writer->version >= FIREFOX_PREFIX_OFFSETS;
	json_member_array(&writer->json, frames ? "frame" : offsets ? "prefixOffset" : "prefix");
	uint32_t row = 0;
	for (uint32_t i = 1; i < profile->stack_count && writer->error == 0; i++) {
		const struct profile_stack *stack = &profile->stacks[i];
		size_t count = firefox_frames_of(tables, stack->location);
		for (uint32_t depth = 0; depth < count; depth++, row++) {
			uint32_t prefix = FIREFOX_NONE;
			if (depth > 0)
				prefix = row - 1;
			else if (stack->parent && !frames)
				prefix = row_of_stack(writer, stack->parent);
			if (frames)
				json_uint(&writer->json, tables->first_frame[stack->location] + depth);
			else if (offsets)
				json_uint(&writer->json, prefix == FIREFOX_NONE ? 0 : row - prefix);
			else if (prefix == FIREFOX_NONE)
				json_nil(&writer->json);
			else
				json_uint(&writer->json, prefix);
		}
		if (i % ROWS_A_DRAIN == 0)
			drain(writer);
	}
	json_end_array(&writer->json);
	drain(writer);
}

static void put_stacks(struct writer *writer)
{
	json_member_object(&writer->json, "stackTable");
	put_stack_columns(writer, true);
	put_stack_columns(writer, false);
	json_member_uint(&writer->json, "length", writer->tables.stack_rows);
	json_end_object(&writer->json);
}

/* ---- funcTable, resourceTable, nativeSymbols, sources ---- */

static const struct column func_columns[] = {
	{"flags", FUNC_FLAGS, .since = FIREFOX_FUNC_FLAGS},
	{"isJS", CELL_FALSE, .before = FIREFOX_FUNC_FLAGS},
	{"relevantForJS", CELL_FALSE, .before = FIREFOX_FUNC_FLAGS},
	{"name", FUNC_NAME},
	{"resource", FUNC_RESOURCE},
	{"source", FUNC_SOURCE},
	{"lineNumber", FUNC_LINE},
	{"columnNumber", FUNC_NOTHING},
	{"originalLocation", FUNC_NOTHING, .since = FIREFOX_SOURCE_LOCATIONS},
	{0},
};

static void put_func_cell(struct writer *writer, enum cell cell, size_t row)
{
	const struct firefox_func *func = &writer->tables.funcs[row];
	uint32_t source = writer->tables.source_of_string[func->source];
	unsigned flags = func->lib == FIREFOX_NONE ? 0 : FIREFOX_FUNC_HAS_RESOURCE;
	flags |= func->source ? FIREFOX_FUNC_HAS_SOURCE : 0u;
	flags |= func->start_line > 0 ? FIREFOX_FUNC_HAS_LINE : 0u;
	switch (cell) {
	case FUNC_FLAGS: json_uint(&writer->json, flags); break;
	case FUNC_NAME: json_uint(&writer->json, func->name); break;
	case FUNC_RESOURCE:
		if (func->lib == FIREFOX_NONE)
			json_int(&writer->json, writer->version >= FIREFOX_FUNC_FLAGS ? 0 : -1);
		else
			json_uint(&writer->json, func->lib);
		break;
	case FUNC_SOURCE: put_optional(writer, func->source != 0, (int64_t)source - 1, FIREFOX_FUNC_FLAGS); break;
	case FUNC_LINE: put_optional(writer, func->start_line > 0, func->start_line, FIREFOX_FUNC_FLAGS); break;
	default: put_optional(writer, false, 0, FIREFOX_FUNC_FLAGS); /* FUNC_NOTHING */
	}
}

static const struct profile_mapping *mapping_of_lib(const struct writer *writer, size_t lib)
{
	return &writer->profile->mappings[writer->tables.libs[lib]];
}

/* The file's name without its directories; the build-id where there is no name. */
static struct bytes lib_name(const struct writer *writer, size_t lib)
{
	const struct profile_mapping *mapping = mapping_of_lib(writer, lib);
	struct bytes name = profile_string_bytes(writer->profile, mapping->file_name);
	return name.len ? text_base_name_of(name) : profile_string_bytes(writer->profile, mapping->build_id);
}

/* Resources are the libs, one by one; their names were put at the end of the texts. */
static const struct column resource_columns[] = {
	{"lib", RESOURCE_LIB, .before = FIREFOX_FRAME_LIBS},
	{"name", RESOURCE_NAME},
	{"host", CELL_NULL},
	{"type", CELL_ONE}, /* a library */
	{0},
};
static const struct column symbol_columns[] = {
	{"libIndex", SYMBOL_LIB}, {"address", SYMBOL_ADDRESS}, {"name", SYMBOL_NAME}, {"functionSize", SYMBOL_SIZE}, {0},
};
static const struct column source_columns[] = {
	{"id", CELL_NULL, .since = FIREFOX_SOURCE_STARTS},
	{"uuid", CELL_NULL, .before = FIREFOX_SOURCE_STARTS},
	{"filename", SOURCE_NAME},
	{"startLine", CELL_ONE, .since = FIREFOX_SOURCE_STARTS},
	{"startColumn", CELL_ONE, .since = FIREFOX_SOURCE_STARTS},
	{"sourceMapURL", CELL_NULL, .since = FIREFOX_SOURCE_STARTS},
	{"content", CELL_NULL, .since = FIREFOX_SOURCE_LOCATIONS},
	{0},
};
static const struct column source_location_columns[] = {{"source", CELL_NULL}, {"line", CELL_NULL}, {"column", CELL_NULL}, {0}};

static void put_small_cell(struct writer *writer, enum cell cell, size_t row)
{
	const struct firefox_tables *tables = &writer->tables;
	switch (cell) {
	case RESOURCE_LIB: json_uint(&writer->json, row); break;
	case RESOURCE_NAME: put_text_number(writer, lib_name(writer, row)); break;
	case SYMBOL_LIB: json_uint(&writer->json, tables->funcs[tables->symbols[row]].lib); break;
	case SYMBOL_ADDRESS: json_uint(&writer->json, tables->funcs[tables->symbols[row]].address); break;
	case SYMBOL_NAME: json_uint(&writer->json, tables->funcs[tables->symbols[row]].name); break;
	case SYMBOL_SIZE:
		if (writer->version >= FIREFOX_SYMBOL_SIZES)
			json_int(&writer->json, -1);
		else
			json_nil(&writer->json);
		break;
	case SOURCE_NAME: put_text_number(writer, profile_string_bytes(writer->profile, tables->sources[row])); break;
	default: json_bytes(&writer->json, intern_get(&tables->texts, (uint32_t)row)); /* TEXT */
	}
}

static void put_shared(struct writer *writer)
{
	const struct firefox_tables *tables = &writer->tables;
	json_member_object(&writer->json, "shared");
	put_column(writer, "stringArray", tables->texts.count, TEXT, put_small_cell);
	put_table(writer, "sources", tables->source_count, source_columns, put_small_cell);
	if (writer->version >= FIREFOX_SOURCE_LOCATIONS)
		put_table(writer, "sourceLocationTable", 0, source_location_columns, put_small_cell);
	put_table(writer, "resourceTable", tables->lib_count, resource_columns, put_small_cell);
	put_table(writer, "nativeSymbols", tables->symbol_count, symbol_columns, put_small_cell);
	put_table(writer, "funcTable", tables->func_count, func_columns, put_func_cell);
	put_table(writer, "frameTable", tables->frame_count, frame_columns, put_frame_cell);
	put_stacks(writer);
	json_end_object(&writer->json);
}

/* Texts that are not names of functions. */
static int add_texts(struct writer *writer)
{
	uint32_t id;
	int r = 0;
	for (size_t i = 0; r == 0 && i < writer->tables.lib_count; i++) {
		struct bytes name = lib_name(writer, i);
		r = intern_add(&writer->tables.texts, name.data, name.len, &id);
	}
	for (size_t i = 0; r == 0 && i < writer->tables.source_count; i++) {
		struct bytes name = profile_string_bytes(writer->profile, writer->tables.sources[i]);
		r = intern_add(&writer->tables.texts, name.data, name.len, &id);
	}
	return r;
}

/* ---- threads ---- */

static int64_t value_at(const struct writer *writer, size_t row, size_t type)
{
	return writer->profile->values[writer->order[row] * writer->profile->sample_type_count + type];
}

static void put_sample_weight(struct writer *writer, size_t row)
{
	int64_t value = value_at(writer, row, writer->type), scaled;
	if (__builtin_mul_overflow(value, writer->unit->scale, &scaled))
		json_double(&writer->json, (double)value * (double)writer->unit->scale);
	else
		json_decimal(&writer->json, scaled, writer->unit->places);
}

static void put_sample_cell(struct writer *writer, enum cell cell, size_t row)
{
	const struct profile_sample *sample = &writer->profile->samples[writer->order[row]];
	int64_t time_ns = !writer->is_timed	? (int64_t)row * UNTIMED_NS
			  : sample->time_ns > 0 ? sample->time_ns - writer->start_ns
						: 0;
	switch (cell) {
	case SAMPLE_STACK:
		if (sample->stack)
			json_uint(&writer->json, row_of_stack(writer, sample->stack));
		else
			json_nil(&writer->json);
		break;
	case SAMPLE_TIME: json_decimal(&writer->json, time_ns, PLACES_NS); break;
	case SAMPLE_WEIGHT: put_sample_weight(writer, row); break;
	default: json_int(&writer->json, value_at(writer, row, writer->cpu_type)); /* SAMPLE_CPU */
	}
}

static void put_samples(struct writer *writer)
{
	size_t rows = writer->order_count;
	json_member_object(&writer->json, "samples");
	put_column(writer, "stack", rows, SAMPLE_STACK, put_sample_cell);
	put_column(writer, "time", rows, SAMPLE_TIME, put_sample_cell);
	put_column(writer, "weight", rows, SAMPLE_WEIGHT, put_sample_cell);
	json_member_cstring(&writer->json, "weightType", writer->unit->weight);
	if (writer->is_timed && writer->cpu_type != SIZE_MAX)
		put_column(writer, "threadCPUDelta", rows, SAMPLE_CPU, put_sample_cell);
	json_member_uint(&writer->json, "length", rows);
	json_end_object(&writer->json);
}

static const struct column marker_columns[] = {
	{"data", MARKER_DATA},
	{"name", MARKER_NAME},
	{"startTime", MARKER_START},
	{"endTime", MARKER_END},
	{"phase", MARKER_PHASE},
	{"category", MARKER_CATEGORY},
	{0},
};

static void put_marker_time(struct writer *writer, int64_t time_ns)
{
	json_decimal(&writer->json, time_ns > writer->start_ns ? time_ns - writer->start_ns : 0, PLACES_NS);
}

static void put_marker_cell(struct writer *writer, enum cell cell, size_t row)
{
	const struct profile_marker *marker = &writer->markers.markers->markers[writer->marker_order[row]];
	bool has_start = marker->phase != PROFILE_MARKER_END,
	     has_end = marker->phase == PROFILE_MARKER_INTERVAL || marker->phase == PROFILE_MARKER_END;
	switch (cell) {
	case MARKER_DATA: firefox_put_marker_data(&writer->markers, writer->marker_order[row], &writer->json); break;
	case MARKER_NAME: put_text_number(writer, profile_string_bytes(writer->profile, marker->name)); break;
	case MARKER_START:
	case MARKER_END:
		if (cell == MARKER_START ? has_start : has_end)
			put_marker_time(writer, cell == MARKER_START ? marker->start_ns : marker->end_ns);
		else
			json_nil(&writer->json);
		break;
	case MARKER_PHASE: json_uint(&writer->json, marker->phase); break;
	default: json_uint(&writer->json, writer->markers.categories[marker->category]); /* MARKER_CATEGORY */
	}
}

static void put_markers(struct writer *writer, const struct sample_thread *thread)
{
	writer->marker_order = thread->marker_count ? writer->threads.marker_order + thread->marker_first : NULL;
	put_table(writer, "markers", thread->marker_count, marker_columns, put_marker_cell);
}

/* The process of all threads, 0 = unknown; false if there are several. Several hosts may run one program each. */
static bool find_process(const struct writer *writer, uint32_t *ret_name)
{
	const struct sample_threads *threads = &writer->threads;
	*ret_name = threads->count ? threads->items[0].process : 0;
	for (size_t i = 1; threads->has_hosts && i < threads->count; i++)
		if (threads->items[i].process != *ret_name)
			return false;
	return threads->has_hosts || threads->count == 0 ||
	       (threads->items[0].pid == threads->items[threads->count - 1].pid && !threads->items[threads->count - 1].exec);
}

/* "alpha, beta, gamma and 5 more"; threads stand by host. */
static int name_hosts(struct writer *writer)
{
	struct buffer *out = &writer->hosts;
	size_t count = 0;
	for (size_t i = 0; i < writer->threads.count; i++) {
		const struct sample_thread *thread = &writer->threads.items[i];
		struct bytes name = profile_string_bytes(writer->profile, thread->host);
		if (!name.len || (i > 0 && thread->host == thread[-1].host) || count++ >= HOSTS_NAMED)
			continue;
		buffer_append_string(out, count > 1 ? ", " : "");
		buffer_append(out, name.data, name.len);
	}
	if (count > HOSTS_NAMED)
		buffer_printf(out, " and %zu more", count - HOSTS_NAMED);
	return buffer_status(out);
}

/* What the profile is of. */
static struct bytes name_of_profile(const struct writer *writer)
{
	const struct profile *profile = writer->profile;
	static const char *const keys[] = {"service.name", "host.name"};
	uint32_t process;
	bool is_one = find_process(writer, &process);
	if (is_one && process)
		return profile_string_bytes(profile, process);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *name = profile_label_value(profile, profile->resource_labels, keys[i]);
		if (name && *name)
			return bytes_of_string(name);
	}
	if (writer->threads.has_hosts)
		return buffer_bytes(&writer->hosts);
	/* By convention a pprof's first mapping is the program. */
	if (is_one && writer->tables.lib_count > 0 && writer->tables.libs[0] == 1)
		return lib_name(writer, 0);
	return bytes_of_string("profile");
}

/* writer->text, when it is complete. */
static struct bytes written_text(struct writer *writer)
{
	buffer_fail(writer->json.out, buffer_status(&writer->text));
	return buffer_bytes(&writer->text);
}

static void put_process_name(struct writer *writer, const struct sample_thread *thread, struct bytes process)
{
	struct bytes host = profile_string_bytes(writer->profile, thread->host);
	if (host.len) {
		buffer_clear(&writer->text);
		buffer_printf(&writer->text, "%.*s (%.*s)", (int)process.len, (const char *)process.data, (int)host.len,
			      (const char *)host.data);
		process = written_text(writer);
	}
	json_member_bytes(&writer->json, "processName", process);
}

static void put_thread_names(struct writer *writer, const struct sample_thread *thread, bool is_main)
{
	struct bytes name = profile_string_bytes(writer->profile, thread->name),
		     process = profile_string_bytes(writer->profile, thread->process);
	if (process.len == 0)
		process = is_main && name.len && thread->has_pid ? name
			  : thread->host			 ? profile_string_bytes(writer->profile, thread->host)
								 : name_of_profile(writer);
	json_key(&writer->json, "name");
	if (name.len == 0 && thread->has_tid && !is_main) {
		buffer_clear(&writer->text);
		buffer_printf(&writer->text, "Thread %lld", (long long)thread->tid);
		name = written_text(writer);
	}
	json_bytes(&writer->json, name.len ? name : process);
	put_process_name(writer, thread, process);
	json_member_bool(&writer->json, "isMainThread", is_main);
}

/* An id as firefox_hosts.c says; valid until the next one. */
static struct bytes id_of(struct writer *writer, uint32_t host, const char *id)
{
	struct bytes name = profile_string_bytes(writer->profile, writer->threads.has_hosts ? host : 0);
	buffer_clear(&writer->text);
	buffer_append(&writer->text, name.data, name.len);
	buffer_append_string(&writer->text, name.len ? ":" : "");
	buffer_append_string(&writer->text, id);
	return written_text(writer);
}

/* 0 = it has none: it was there before, or was there to the end. */
static void put_lifetime(struct writer *writer, const char *start, int64_t start_ns, const char *end, int64_t end_ns)
{
	json_key(&writer->json, start);
	if (start_ns)
		put_marker_time(writer, start_ns);
	else
		json_int(&writer->json, 0);
	json_key(&writer->json, end);
	if (end_ns)
		put_marker_time(writer, end_ns);
	else
		json_nil(&writer->json);
}

/* A thread of which only the process is known ends with it. */
static void put_lifetimes(struct writer *writer, const struct sample_thread *thread)
{
	static const struct profile_lifetime unknown;
	const struct profile_markers *markers = writer->markers.markers;
	const struct profile_lifetime *process = markers ? &markers->lifetimes[thread->process_lifetime] : &unknown,
				      *own = markers ? &markers->lifetimes[thread->lifetime] : &unknown;
	int64_t start_ns = own->start_ns ? own->start_ns
			   : markers	 ? markers->threads[thread->marked].start_ns
					 : 0,
		end_ns = own->end_ns ? own->end_ns : process->end_ns,
		last_ns = thread->count
				  ? writer->profile->samples[writer->threads.order[thread->first + thread->count - 1]].time_ns
				  : 0;
	/* The kernel reports an end before the last of it is done. */
	end_ns = end_ns && end_ns < last_ns ? last_ns : end_ns;
	put_lifetime(writer, "processStartupTime", process->start_ns, "processShutdownTime",
		     own == process ? end_ns : process->end_ns);
	put_lifetime(writer, "registerTime", start_ns, "unregisterTime", end_ns);
}

/* The programs of one process after the first are processes to the viewer. */
static void print_pid(const struct sample_thread *thread, char ret[static 2 * TEXT_NUMBER_MAX])
{
	if (thread->exec)
		snprintf(ret, 2 * TEXT_NUMBER_MAX, "%lld.%u", (long long)thread->pid, thread->exec);
	else
		snprintf(ret, 2 * TEXT_NUMBER_MAX, "%lld", (long long)thread->pid);
}

static void put_thread(struct writer *writer, const struct sample_thread *thread, bool is_main)
{
	char pid[2 * TEXT_NUMBER_MAX] = FIREFOX_NO_PID, tid[3 * TEXT_NUMBER_MAX];
	if (thread->has_pid)
		print_pid(thread, pid);
	snprintf(tid, sizeof(tid), "%s-%zu", pid, ++writer->thread_number);
	json_begin_object(&writer->json);
	json_member_cstring(&writer->json, "processType", "default");
	put_thread_names(writer, thread, is_main);
	json_member_bytes(&writer->json, "pid", id_of(writer, thread->host, pid));
	/* The viewer wants them to differ. */
	if (thread->has_tid && thread->reuse)
		snprintf(tid, sizeof(tid), "%lld.%u", (long long)thread->tid, thread->reuse);
	else if (thread->has_tid)
		snprintf(tid, sizeof(tid), "%lld", (long long)thread->tid);
	if (thread->has_tid && !thread->reuse && !(writer->threads.has_hosts && thread->host))
		json_member_int(&writer->json, "tid", thread->tid);
	else
		json_member_bytes(&writer->json, "tid", id_of(writer, thread->host, tid));
	put_lifetimes(writer, thread);
	json_member_array(&writer->json, "pausedRanges");
	json_end_array(&writer->json);
	put_samples(writer);
	put_markers(writer, thread);
	json_end_object(&writer->json);
	drain(writer);
}

/* Samples whose value is 0 are not written: the tables of others (off the CPU beside on it) would be full of them. */
static size_t keep_samples(struct writer *writer, uint32_t *order, size_t count)
{
	size_t kept = 0, types = writer->profile->sample_type_count;
	for (size_t i = 0; i < count; i++)
		if (writer->profile->values[order[i] * types + writer->type])
			order[kept++] = order[i];
	return kept;
}

static bool is_same_process(const struct sample_thread *a, const struct sample_thread *b)
{
	return a->host == b->host && a->has_pid == b->has_pid && a->pid == b->pid && a->exec == b->exec;
}

static bool is_main_thread(const struct sample_thread *thread)
{
	return thread->has_pid && thread->has_tid && thread->tid == thread->pid;
}

static void put_threads(struct writer *writer)
{
	json_member_array(&writer->json, "threads");
	for (size_t i = 0; i < writer->threads.count; i++) {
		const struct sample_thread *thread = &writer->threads.items[i];
		uint32_t *order = writer->threads.order + thread->first;
		bool first = i == 0 || !is_same_process(thread, thread - 1);
		writer->order = order;
		writer->order_count = keep_samples(writer, order, thread->count);
		put_thread(writer, thread, is_main_thread(thread) || (first && !(thread->has_pid && thread->has_tid)));
	}
	json_end_array(&writer->json);
}

/* exec: of which program of the process. */
static uint64_t place_key(uint32_t host, int64_t pid, int64_t tid, uint32_t exec)
{
	int64_t parts[] = {host, pid, tid, exec};
	return hash64(parts, sizeof(parts));
}

#define ANY_THREAD INT64_MIN
#define ALL_ENDED  (INT64_MIN + 1)

/* The place of the first thread of each host, pid and tid under each program, of the first of each host and pid, and behind the
 * last one. */
static int find_places(const struct writer *writer, struct map64 *places)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < writer->threads.count; i++) {
		const struct sample_thread *thread = &writer->threads.items[i];
		uint64_t own = place_key(thread->host, thread->pid, thread->tid, thread->exec),
			 key = place_key(thread->host, thread->pid, ANY_THREAD, 0), there;
		if (thread->has_pid && thread->has_tid && !map64_get(places, own, &there))
			r = map64_put(places, own, i);
		if (r == 0 && thread->has_pid && !map64_get(places, key, &there))
			r = map64_put(places, key, i);
		if (r == 0 && thread->has_pid)
			r = map64_put(places, place_key(thread->host, thread->pid, ALL_ENDED, 0), i + 1);
	}
	return r;
}

/* As threads say it. */
static uint32_t host_of_counter(const struct writer *writer, const struct profile_counter *counter)
{
	const struct profile_markers *markers = writer->profile->markers;
	uint32_t host = counter->thread ? markers->threads[counter->thread].host : counter->host;
	return writer->threads.has_hosts ? markers->hosts[host].name : 0;
}

/* Of a thread its own place, of a process that of its main thread, or of the first there is. first: of its program. */
static size_t place_of_counter(const struct writer *writer, const struct map64 *places, const struct profile_counter *counter,
			       size_t first)
{
	const struct profile_thread *of = &writer->profile->markers->threads[counter->thread];
	uint32_t host = host_of_counter(writer, counter), exec = writer->threads.items[first].exec;
	uint64_t place = 0;
	if (!map64_get(places, place_key(host, counter->pid, counter->thread ? of->tid : counter->pid, exec), &place))
		return first;
	/* Those who had its tid after it stand behind it; a file may say that there were many. */
	for (size_t i = (size_t)place; counter->thread && i < writer->threads.count && i - place < REUSES_MAX; i++) {
		if (writer->threads.items[i].marked == counter->thread)
			return i;
		if (writer->threads.items[i].tid != of->tid)
			break;
	}
	return (size_t)place;
}

static int64_t start_of(const struct writer *writer, size_t place)
{
	return writer->profile->markers->lifetimes[writer->threads.items[place].process_lifetime].start_ns;
}

/* The first place from `first` on, and before `end`, of a program that begins after the time. */
static size_t find_program_after(const struct writer *writer, size_t first, size_t end, int64_t time_ns)
{
	uint32_t exec = writer->threads.items[first].exec;
	return first +
	       sorted_count_while(end - first, i,
				  writer->threads.items[first + i].exec == exec || start_of(writer, first + i) <= time_ns);
}

/* A counter of a process that became another program is one of each. Viewers fail on those of processes that are not there. */
static void put_counter(struct writer *writer, const struct map64 *places, uint32_t number)
{
	const struct profile_counter *counter = &writer->profile->markers->counters[number];
	const struct firefox_markers *markers = &writer->markers;
	uint32_t host = host_of_counter(writer, counter);
	uint64_t first, end;
	char pid[2 * TEXT_NUMBER_MAX];
	if (!map64_get(places, place_key(host, counter->pid, ANY_THREAD, 0), &first) ||
	    !map64_get(places, place_key(host, counter->pid, ALL_ENDED, 0), &end))
		return;
	size_t row = markers->row_first[number], row_end = markers->row_first[number + 1];
	do {
		int64_t row_ns = row < row_end ? markers->markers->rows[markers->row_order[row]].time_ns : 0;
		size_t next = find_program_after(writer, first, end, row_ns), behind = row;
		/* Not that of the row, but the last before it. */
		const struct sample_thread *of = &writer->threads.items[next - 1];
		uint64_t place = first;
		map64_get(places, place_key(host, counter->pid, of->tid, of->exec), &place);
		while (behind < row_end &&
		       (next == end || markers->markers->rows[markers->row_order[behind]].time_ns < start_of(writer, next)))
			behind++;
		print_pid(of, pid);
		firefox_put_counter(markers, number, (struct firefox_rows){row, behind}, id_of(writer, host, pid),
				    place_of_counter(writer, places, counter, (size_t)place), writer->version, &writer->json);
		drain(writer);
		row = behind;
	} while (row < row_end && writer->error == 0);
}

static void put_counters(struct writer *writer)
{
	const struct profile_markers *markers = writer->profile->markers;
	if (profile_counter_count(writer->profile) == 0)
		return;
	_cleanup_(map64_release) struct map64 places = {0};
	if (writer->error == 0 && find_places(writer, &places) < 0)
		writer->error = -ENOMEM;
	json_member_array(&writer->json, "counters");
	for (uint32_t i = 1; i < markers->counter_count && writer->error == 0; i++)
		put_counter(writer, &places, i);
	json_end_array(&writer->json);
}

/* ---- meta, libs ---- */

static void put_categories(struct writer *writer)
{
	json_member_array(&writer->json, "categories");
	for (size_t i = 0; i < FIREFOX_CATEGORIES; i++) {
		json_begin_object(&writer->json);
		json_member_cstring(&writer->json, "name", firefox_categories[i].name);
		json_member_cstring(&writer->json, "color", firefox_categories[i].color);
		json_member_array(&writer->json, "subcategories");
		json_cstring(&writer->json, "Other");
		json_end_array(&writer->json);
		json_end_object(&writer->json);
	}
	firefox_put_marker_categories(&writer->markers, &writer->json);
	json_end_array(&writer->json);
}

static void put_extra(struct writer *writer, const char *label, struct bytes value)
{
	json_begin_object(&writer->json);
	json_member_cstring(&writer->json, "label", label);
	json_member_cstring(&writer->json, "format", "string");
	json_member_bytes(&writer->json, "value", value);
	json_end_object(&writer->json);
}

/* What the viewer shows about the profile as a whole. */
static void put_extras(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	const struct profile_label_set *labels = &profile->label_sets[profile->resource_labels];
	json_member_array(&writer->json, "extra");
	json_begin_object(&writer->json);
	json_member_cstring(&writer->json, "label", "Profile");
	json_member_array(&writer->json, "entries");
	put_extra(writer, "Samples are of", profile_string_bytes(profile, profile->sample_types[writer->type].type));
	put_extra(writer, "Unit", profile_string_bytes(profile, profile->sample_types[writer->type].unit));
	if (!writer->is_timed)
		put_extra(writer, "Times",
			  bytes_of_string("unknown: samples are put in a row, a millisecond apart, in no meaningful order"));
	for (uint32_t i = 0; i < labels->count; i++) {
		const struct profile_label *label = &profile->labels[labels->first + i];
		buffer_clear(&writer->text);
		format_append_label_value(profile, label, &writer->text);
		put_extra(writer, profile_string(profile, label->key), written_text(writer));
	}
	for (size_t i = 0; i < profile->comment_count; i++)
		put_extra(writer, "Comment", profile_string_bytes(profile, profile->comments[i]));
	json_end_array(&writer->json);
	json_end_object(&writer->json);
	firefox_put_host_section(profile, &writer->json);
	json_end_array(&writer->json);
}

/* What the format has no place for and our own reader wants: the viewer does not look at it. */
static void put_own(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	json_member_object(&writer->json, "wick");
	json_member_bytes(&writer->json, "sampleType", profile_string_bytes(profile, profile->sample_types[writer->type].type));
	json_member_bytes(&writer->json, "sampleUnit", profile_string_bytes(profile, profile->sample_types[writer->type].unit));
	json_member_bool(&writer->json, "hasTimes", writer->is_timed);
	if (profile->period_type.type) {
		json_member_bytes(&writer->json, "periodType", profile_string_bytes(profile, profile->period_type.type));
		json_member_bytes(&writer->json, "periodUnit", profile_string_bytes(profile, profile->period_type.unit));
		json_member_int(&writer->json, "period", profile->period);
	}
	if (profile->duration_ns > 0)
		json_member_int(&writer->json, "durationNs", profile->duration_ns);
	firefox_put_hosts(profile, writer->threads.has_hosts, &writer->json);
	json_end_object(&writer->json);
}

static void put_interval(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	const char *unit = profile_string(profile, profile->period_type.unit);
	int64_t period = profile->period;
	json_key(&writer->json, "interval");
	if (period > 0 && strcmp(unit, "nanoseconds") == 0)
		json_decimal(&writer->json, period, PLACES_NS);
	else if (period > 0 && strcmp(unit, "microseconds") == 0)
		json_decimal(&writer->json, period, 3);
	else
		json_int(&writer->json, 1);
}

/* Where a thread has samples the viewer shows the time that they span, without the markers before and behind it, unless it is
 * told from when to when the profile is. */
static void put_range(struct writer *writer)
{
	bool has_rows = profile_marker_count(writer->profile) || profile_counter_count(writer->profile);
	if (!has_rows || writer->end_ns <= writer->start_ns || (!writer->is_timed && writer->profile->sample_count))
		return;
	json_member_int(&writer->json, "profilingStartTime", 0);
	/* Behind the last, for the end itself is not in a range. */
	json_member_int(&writer->json, "profilingEndTime", (writer->end_ns - writer->start_ns) / NS_PER_MS + 1);
}

/* As samply says it. It relates the times of two files of one machine better than the wall clock, which can be set. */
static void put_monotonic(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	int64_t since, at;
	if (profile->monotonic_ns > 0 && profile->time_ns > 0 &&
	    !__builtin_sub_overflow(writer->start_ns, profile->time_ns, &since) &&
	    !__builtin_add_overflow(profile->monotonic_ns, since, &at) && at >= 0)
		json_member_int(&writer->json, "startTimeAsClockMonotonicNanosecondsSinceBoot", at);
}

static void put_meta(struct writer *writer)
{
	json_member_object(&writer->json, "meta");
	put_interval(writer);
	json_key(&writer->json, "startTime");
	json_decimal(&writer->json, writer->start_ns, PLACES_NS);
	put_monotonic(writer);
	put_range(writer);
	json_member_int(&writer->json, "processType", 0);
	struct bytes product = firefox_product(writer->profile);
	json_member_bytes(&writer->json, "product", product.len ? product : name_of_profile(writer));
	firefox_put_machine(writer->profile, &writer->json);
	json_member_cstring(&writer->json, "importedFrom", "Wick");
	json_member_int(&writer->json, "stackwalk", 1);
	json_member_int(&writer->json, "version", GECKO_VERSION);
	json_member_int(&writer->json, "preprocessedProfileVersion", writer->version);
	json_member_bool(&writer->json, "symbolicated", writer->is_symbolicated);
	json_member_bool(&writer->json, "usesOnlyOneStackType", true);
	json_member_bool(&writer->json, "sourceCodeIsNotOnSearchfox", true);
	json_member_object(&writer->json, "sampleUnits");
	json_member_cstring(&writer->json, "time", "ms");
	json_member_cstring(&writer->json, "eventDelay", "ms");
	json_member_cstring(&writer->json, "threadCPUDelta", "ns");
	json_end_object(&writer->json);
	put_categories(writer);
	json_member_array(&writer->json, "markerSchema");
	firefox_put_marker_schemas(&writer->markers, &writer->json);
	json_end_array(&writer->json);
	put_extras(writer);
	put_own(writer);
	json_end_object(&writer->json);
}

static void put_lib(struct writer *writer, enum cell cell, size_t row)
{
	const struct profile_mapping *mapping = mapping_of_lib(writer, row);
	struct bytes path = profile_string_bytes(writer->profile, mapping->file_name), name = lib_name(writer, row),
		     build_id = profile_string_bytes(writer->profile, mapping->build_id);
	buffer_clear(&writer->text);
	buffer_fail(&writer->text, firefox_append_breakpad_id(build_id, &writer->text));
	json_begin_object(&writer->json);
	json_member_cstring(&writer->json, "arch", "");
	json_member_bytes(&writer->json, "name", name);
	json_member_bytes(&writer->json, "path", path);
	json_member_bytes(&writer->json, "debugName", name);
	json_member_bytes(&writer->json, "debugPath", path);
	json_member_bytes(&writer->json, "breakpadId", written_text(writer));
	json_key(&writer->json, "codeId");
	if (build_id.len)
		json_bytes(&writer->json, build_id);
	else
		json_nil(&writer->json);
	json_end_object(&writer->json);
}

/* ---- the whole ---- */

static void choose_units(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	const char *unit = profile_string(profile, profile->sample_types[writer->type].unit);
	writer->unit = &units[sizeof(units) / sizeof(units[0]) - 1];
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(units[i].name, unit) == 0)
			writer->unit = &units[i];
	writer->cpu_type = SIZE_MAX;
	for (size_t i = 0; i < profile->sample_type_count; i++)
		if (strcmp(profile_string(profile, profile->sample_types[i].type), "cpu") == 0 &&
		    strcmp(profile_string(profile, profile->sample_types[i].unit), "nanoseconds") == 0)
			writer->cpu_type = i;
}

static void find_times(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	int64_t first = INT64_MAX, last = 0;
	for (size_t i = 0; i < profile->sample_count; i++) {
		int64_t time_ns = profile->samples[i].time_ns;
		if (time_ns > 0 && time_ns < first)
			first = time_ns;
		if (time_ns > last)
			last = time_ns;
	}
	writer->is_timed = first != INT64_MAX;
	firefox_markers_widen(profile, &first, &last);
	writer->end_ns = last;
	if (first == INT64_MAX || (profile->time_ns > 0 && profile->time_ns < first))
		first = profile->time_ns > 0 ? profile->time_ns : 0;
	writer->start_ns = first - first % NS_PER_MS;
}

static int write_all(struct writer *writer)
{
	struct json_writer *json = &writer->json;
	json_begin_object(json);
	put_meta(writer);
	put_column(writer, "libs", writer->tables.lib_count, LIB, put_lib);
	put_column(writer, "pages", 0, CELL_NULL, put_lib);
	put_shared(writer);
	put_counters(writer);
	put_threads(writer);
	json_end_object(json);
	if (writer->error == 0)
		writer->error = json_finish(json, NULL);
	return writer->error;
}

/* Without them, viewers ask a symbol server: the one of whoever serves the profile, or Mozilla's, which would learn what
 * binaries there are. So only who has a server says that names are missing. */
static bool has_all_names(const struct profile *profile)
{
	for (size_t i = 1; i < profile->location_count; i++)
		if (profile->locations[i].line_count == 0 && profile->locations[i].mapping)
			return false;
	return true;
}

static int prepare(struct writer *writer, const struct format_options *options, struct error *err)
{
	const struct profile *profile = writer->profile;
	writer->version = options && options->version ? options->version : FIREFOX_DEFAULT;
	writer->is_symbolicated = !options || !options->symbol_server || has_all_names(writer->profile);
	if (writer->version < FIREFOX_WRITE_FIRST || writer->version > FIREFOX_LAST)
		return error_set(err, -EINVAL, "version %u of the Firefox Profiler format cannot be written; choose %d to %d",
				 writer->version, FIREFOX_WRITE_FIRST, FIREFOX_LAST);
	if (profile->sample_type_count == 0)
		return error_set(err, -EINVAL, "the profile has no values");
	int r = profile_find_sample_type(profile, options ? options->sample_type : NULL, &writer->type, err);
	if (r < 0)
		return r;
	choose_units(writer);
	find_times(writer);
	r = firefox_tables_build(profile, &writer->tables, err);
	if (r == 0)
		r = sample_threads_build(profile, &writer->threads, err);
	if (r == 0)
		r = sample_threads_add_markers(profile, &writer->threads, err);
	if (r == 0 && (name_hosts(writer) < 0 || add_texts(writer) < 0 ||
		       firefox_markers_build(profile, &writer->tables.texts, &writer->markers) < 0))
		r = error_nomem(err);
	writer->markers.start_ns = writer->start_ns;
	return r;
}

int firefox_write(const struct profile *profile, const struct format_options *options, struct format_sink *sink,
		  struct error *err)
{
	struct writer *writer = mem_zalloc(sizeof(*writer));
	if (!writer)
		return error_nomem(err);
	writer->profile = profile;
	writer->sink = sink;
	writer->err = err;
	buffer_init(&writer->text, SIZE_MAX);
	buffer_init(&writer->hosts, SIZE_MAX);
	writer->json = (struct json_writer){.out = sink->out};
	int r = prepare(writer, options, err);
	if (r == 0) {
		r = write_all(writer);
		if (r == -ENOMEM || r == -E2BIG)
			r = format_buffer_error(r, sink->out, "the Firefox Profiler output", err);
	}
	sample_threads_release(&writer->threads);
	firefox_markers_release(&writer->markers);
	firefox_tables_release(&writer->tables);
	buffer_release(&writer->text);
	buffer_release(&writer->hosts);
	mem_free(writer);
	return r;
}
