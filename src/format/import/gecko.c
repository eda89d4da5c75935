/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Firefox itself writes: raw profiles, as MOZ_PROFILER_SHUTDOWN saves them and as about:profiling hands them to
 * profiler.firefox.com (tools/profiler/core/ProfileBufferEntry.h), which makes the processed format of them.
 *
 *   meta       version, startTime (ms since 1970), sampleUnits {threadCPUDelta}
 *   libs       [{start, end, offset, path, codeId, breakpadId} ...]
 *   threads    [{name, tid, pid, processName, samples, stackTable, frameTable, markers, stringTable} ...]
 *   processes  [the same, of child processes ...]
 *
 * A table is {"schema": {COLUMN: place ...}, "data": [[...] ...]}; rows may be shorter than the schema. Samples have a stack
 * and a time (ms since startTime), stacks a prefix and a frame, frames a location: "0x7f12", an address; "f (URL:LINE:COLUMN)",
 * a function of JavaScript (its implementation says whether it was compiled); or any other text, a label of Firefox's code.
 *
 * DevTools' recordings of before 2022 have this in "profile".
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sorted.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/json_tree.h"
#include "format/format_int.h"

#define LIBS_MAX      65536
#define PROCESSES_MAX 4096
#define COLUMNS_MAX   64

struct table {
	const struct json_node *schema, *data;
};
struct lib {
	uint64_t start, end, base;
	uint32_t mapping;
};
struct reader {
	struct profile *profile;
	struct lib *libs; /* of the process, by start */
	size_t lib_count, lib_capacity;
	double start_ms, cpu_scale; /* cpu_scale 0 = no CPU times */
	uint32_t tid_key, pid_key, name_key, process_key;
	/* Of the thread */
	const struct json_node *strings;
	struct table frames, stacks;
	uint32_t *stack_ids, *depths; /* by row of stacks; UINT32_MAX = not yet */
	size_t processes;
	uint64_t dangling, markers, without_time, counters;
};

/* ---- tables ---- */

static struct table table_of(const struct json_node *thread, const char *name)
{
	const struct json_node *node = json_node_get(thread, name);
	return (struct table){json_node_get(node, "schema"), json_node_get(node, "data")};
}

static const struct json_node *cell(const struct table *table, size_t row, const char *column)
{
	int64_t place;
	if (!json_node_integer(json_node_get(table->schema, column), &place) || place < 0)
		return NULL;
	return json_node_at(json_node_at(table->data, row), (size_t)place);
}

static struct bytes string_at(const struct reader *reader, const struct json_node *index)
{
	int64_t number;
	if (!json_node_integer(index, &number) || number < 0)
		return (struct bytes){0};
	return json_node_bytes(json_node_at(reader->strings, (size_t)number));
}

/* ---- libraries ---- */

static int add_lib(struct reader *reader, const struct json_node *node, struct error *err)
{
	int64_t start = 0, end = 0, offset = 0;
	struct profile_mapping mapping = {0};
	struct bytes id = json_node_bytes(json_node_get(node, "codeId"));
	struct lib lib;
	if (!json_node_integer(json_node_get(node, "start"), &start) || !json_node_integer(json_node_get(node, "end"), &end) ||
	    end <= start)
		return 0;
	json_node_integer(json_node_get(node, "offset"), &offset);
	lib = (struct lib){.start = (uint64_t)start, .end = (uint64_t)end, .base = (uint64_t)start - (uint64_t)offset};
	mapping.limit = lib.end - lib.base;
	int r = profile_add_bytes(reader->profile, json_node_bytes(json_node_get(node, "path")), &mapping.file_name, err);
	if (r == 0)
		r = profile_add_bytes(reader->profile, id, &mapping.build_id, err);
	if (r == 0)
		r = profile_add_mapping(reader->profile, &mapping, &lib.mapping, err);
	if (r < 0)
		return r;
	r = array_push(&reader->libs, &reader->lib_count, &reader->lib_capacity, LIBS_MAX, lib);
	return r == -E2BIG ? error_set(err, r, "more than %d libraries", LIBS_MAX) : r < 0 ? error_nomem(err) : 0;
}

DEFINE_ORDER(compare_libs, struct lib, ORDER(a->start, b->start) ?: ORDER(a->end, b->end));

/* The last one that begins at or before the address: they do not overlap. */
static const struct lib *find_lib(const struct reader *reader, uint64_t address)
{
	size_t count = sorted_count_up_to(reader->libs, reader->lib_count, start, address);
	return count > 0 && address < reader->libs[count - 1].end ? &reader->libs[count - 1] : NULL;
}

/* ---- frames ---- */

/* A number behind a colon at the end of the text, which is taken off; 0 = there is none. */
static int64_t take_number(struct bytes *text)
{
	size_t at = text->len;
	int64_t value = 0;
	while (at > 0 && text_is_digit(text->data[at - 1]) && text->len - at < 9)
		at--;
	if (at == text->len || at == 0 || text->data[at - 1] != ':')
		return 0;
	for (size_t i = at; i < text->len; i++)
		value = value * 10 + (text->data[i] - '0');
	text->len = at - 1;
	return value;
}

/* "f (URL:LINE:COLUMN)", and perhaps "[SOURCE]" behind it; loaders put "A -> " before URLs. False for labels. */
static bool split_script(struct bytes text, struct format_frame *ret)
{
	if (text.len > 0 && text.data[text.len - 1] == ']') {
		size_t at = text.len - 1;
		while (at > 0 && text_is_digit(text.data[at - 1]))
			at--;
		if (at > 1 && text.data[at - 1] == '[' && text.data[at - 2] == ')')
			text.len = at - 1;
	}
	size_t open = format_find_parentheses(text);
	if (open == SIZE_MAX || text.data[text.len - 1] != ')')
		return false;
	struct bytes url = {text.data + open + 1, text.len - open - 2};
	int64_t last = take_number(&url), before = take_number(&url);
	if (!last)
		return false;
	ret->line = before ? before : last;
	ret->column = before ? last : 0;
	for (size_t at = 0; at + 4 <= url.len; at++)
		if (memcmp(url.data + at, " -> ", 4) == 0) {
			url = bytes_skip(url, at + 4);
			at = 0;
		}
	ret->file = url;
	ret->name = (struct bytes){text.data, open};
	while (ret->name.len > 0 && ret->name.data[ret->name.len - 1] == ' ')
		ret->name.len--;
	return true;
}

static int add_frame(struct reader *reader, size_t row, uint32_t *ret, struct error *err)
{
	struct bytes text = string_at(reader, cell(&reader->frames, row, "location"));
	struct format_frame frame = {0};
	int64_t number;
	uint64_t address;
	if (bytes_start_with(text, "0x") && format_parse_address(text, &address)) {
		const struct lib *lib = find_lib(reader, address);
		struct profile_location location = {.address = lib ? address - lib->base : address,
						    .mapping = lib ? lib->mapping : 0,
						    .frame_type = PROFILE_FRAME_NATIVE};
		return profile_add_location(reader->profile, &location, NULL, 0, ret, err);
	}
	if (split_script(text, &frame)) {
		bool is_compiled = string_at(reader, cell(&reader->frames, row, "implementation")).len > 0;
		frame.type = is_compiled ? PROFILE_FRAME_JIT : PROFILE_FRAME_INTERPRETED;
		frame.name = frame.name.len ? frame.name : bytes_of_string("(anonymous)");
	} else {
		frame.name = text;
	}
	/* The function's line becomes that of the frame, if it is known. */
	if (json_node_integer(cell(&reader->frames, row, "line"), &number) && number > 0 && number < INT32_MAX) {
		frame.line = number;
		frame.column = 0;
	}
	if (json_node_integer(cell(&reader->frames, row, "column"), &number) && number > 0 && number < INT32_MAX)
		frame.column = number;
	frame.start_line = frame.line;
	return format_add_frame(reader->profile, &frame, ret, err);
}

/* Prefixes are of earlier rows. */
static int add_stack(struct reader *reader, size_t row, struct error *err)
{
	int64_t frame, prefix;
	uint32_t parent = 0, location;
	reader->depths[row] = 1;
	if (json_node_integer(cell(&reader->stacks, row, "prefix"), &prefix)) {
		bool is_good = prefix >= 0 && (uint64_t)prefix < row;
		reader->dangling += !is_good;
		parent = is_good ? reader->stack_ids[prefix] : 0;
		reader->depths[row] = is_good ? reader->depths[prefix] + 1 : 1;
	}
	if (reader->depths[row] > LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "stack %zu is deeper than %d frames, the limit", row, LIMIT_STACK_DEPTH);
	if (!json_node_integer(cell(&reader->stacks, row, "frame"), &frame) || frame < 0 ||
	    (uint64_t)frame >= json_node_count(reader->frames.data)) {
		reader->dangling++;
		reader->stack_ids[row] = parent;
		return 0;
	}
	int r = add_frame(reader, (size_t)frame, &location, err);
	return r < 0 ? r : profile_add_stack(reader->profile, parent, location, &reader->stack_ids[row], err);
}

/* ---- threads ---- */

static int read_labels(struct reader *reader, const struct json_node *thread, uint32_t *ret, struct error *err)
{
	struct profile_label labels[4];
	size_t count = 0;
	int64_t number;
	uint32_t text;
	const struct {
		const char *member;
		uint32_t key;
	} numbers[] = {{"tid", reader->tid_key}, {"pid", reader->pid_key}},
	  texts[] = {{"name", reader->name_key}, {"processName", reader->process_key}};
	int r = 0;
	for (size_t i = 0; r == 0 && i < 2; i++)
		if (json_node_integer(json_node_get(thread, numbers[i].member), &number))
			r = profile_number_label(reader->profile, numbers[i].key, number, &labels[count++], err);
	for (size_t i = 0; r == 0 && i < 2; i++) {
		r = profile_add_bytes(reader->profile, json_node_bytes(json_node_get(thread, texts[i].member)), &text, err);
		if (r == 0 && text)
			labels[count++] = (struct profile_label){.key = texts[i].key, .value = text};
	}
	return r < 0 ? r : profile_add_label_set(reader->profile, labels, count, ret, err);
}

static int read_sample(struct reader *reader, const struct table *samples, size_t row, uint32_t labels, struct error *err)
{
	struct profile_sample sample = {.labels = labels};
	int64_t values[2] = {1, 0}, stack;
	double time, cpu;
	if (json_node_integer(cell(samples, row, "stack"), &stack)) {
		bool is_good = stack >= 0 && (uint64_t)stack < json_node_count(reader->stacks.data);
		reader->dangling += !is_good;
		sample.stack = is_good ? reader->stack_ids[stack] : 0;
	}
	if (json_node_real(cell(samples, row, "time"), &time) && fabs(reader->start_ms + time) < 9e12 &&
	    reader->start_ms + time > 0)
		sample.time_ns = (int64_t)floor(reader->start_ms) * NS_PER_MS +
				 llround((reader->start_ms - floor(reader->start_ms) + time) * (double)NS_PER_MS);
	else
		reader->without_time++;
	if (reader->cpu_scale > 0 && json_node_real(cell(samples, row, "threadCPUDelta"), &cpu) && cpu > 0 && cpu < 1e15)
		values[1] = llround(cpu * reader->cpu_scale);
	return profile_add_sample(reader->profile, &sample, values, err);
}

static int read_thread(struct reader *reader, const struct json_node *thread, struct error *err)
{
	struct table samples = table_of(thread, "samples"), markers = table_of(thread, "markers");
	size_t rows;
	uint32_t labels;
	reader->strings = json_node_get(thread, "stringTable");
	reader->frames = table_of(thread, "frameTable");
	reader->stacks = table_of(thread, "stackTable");
	if (!json_node_is(samples.data, JSON_NODE_ARRAY) || !json_node_is(reader->stacks.data, JSON_NODE_ARRAY) ||
	    !json_node_is(reader->frames.data, JSON_NODE_ARRAY))
		return error_set(err, -EBADMSG, "no samples, stackTable or frameTable");
	/* Columns are looked for in each row. */
	if (json_node_count(samples.schema) > COLUMNS_MAX || json_node_count(reader->stacks.schema) > COLUMNS_MAX ||
	    json_node_count(reader->frames.schema) > COLUMNS_MAX)
		return error_set(err, -E2BIG, "a table has more than %d columns", COLUMNS_MAX);
	reader->markers += json_node_count(markers.data);
	rows = reader->stacks.data->count;
	_cleanup_(mem_freep) uint32_t *ids = mem_zalloc_array(rows + 1, sizeof(*ids));
	_cleanup_(mem_freep) uint32_t *depths = mem_zalloc_array(rows + 1, sizeof(*depths));
	if (!ids || !depths)
		return error_nomem(err);
	reader->stack_ids = ids;
	reader->depths = depths;
	int r = read_labels(reader, thread, &labels, err);
	for (size_t i = 0; r == 0 && i < rows; i++)
		r = add_stack(reader, i, err);
	for (size_t i = 0; r == 0 && i < samples.data->count; i++)
		r = read_sample(reader, &samples, i, labels, err);
	reader->stack_ids = reader->depths = NULL;
	return r;
}

/* ---- processes ---- */

static double cpu_scale_of(const struct json_node *meta)
{
	struct bytes unit = json_node_bytes(json_node_get(json_node_get(meta, "sampleUnits"), "threadCPUDelta"));
	if (bytes_equal_string(unit, "ns"))
		return 1;
	/* The micro sign, and the letter mu. */
	return bytes_equal_string(unit, "\302\265s") || bytes_equal_string(unit, "\316\274s") ? 1e3 : 0;
}

static int read_process(struct reader *reader, const struct json_node *root, struct error *err)
{
	const struct json_node *meta = json_node_get(root, "meta"), *libs = json_node_get(root, "libs"),
			       *threads = json_node_get(root, "threads");
	if (!json_node_is(threads, JSON_NODE_ARRAY))
		return error_set(err, -EBADMSG, "no array threads");
	reader->lib_count = 0;
	if (!json_node_real(json_node_get(meta, "startTime"), &reader->start_ms) ||
	    !(reader->start_ms >= 0 && reader->start_ms < 9e12))
		reader->start_ms = 0;
	reader->counters += json_node_count(json_node_get(root, "counters"));
	int r = 0;
	for (size_t i = 0; r == 0 && json_node_is(libs, JSON_NODE_ARRAY) && i < libs->count; i++)
		r = add_lib(reader, json_node_at(libs, i), err);
	sort_array(reader->libs, reader->lib_count, compare_libs);
	for (size_t i = 0; r == 0 && i < threads->count; i++) {
		r = read_thread(reader, json_node_at(threads, i), err);
		if (r < 0)
			return error_prefix(err, r, "thread %zu", i);
	}
	return r;
}

/* Child processes have none of their own. */
static int read_all(struct reader *reader, const struct json_node *root, struct error *err)
{
	const struct format_string keys[] = {{"thread.id", &reader->tid_key},
					     {"process.pid", &reader->pid_key},
					     {"thread.name", &reader->name_key},
					     {"process.executable.name", &reader->process_key}};
	const struct json_node *inner = json_node_get(root, "profile");
	if (json_node_is(inner, JSON_NODE_OBJECT))
		root = inner;
	const struct json_node *meta = json_node_get(root, "meta"), *children = json_node_get(root, "processes");
	double interval;
	if (!json_node_is(meta, JSON_NODE_OBJECT))
		return error_set(err, -EBADMSG, "no object meta");
	reader->cpu_scale = cpu_scale_of(meta);
	int r = format_add_strings(reader->profile, keys, sizeof(keys) / sizeof(keys[0]), err);
	if (r == 0)
		r = profile_add_named_type(reader->profile, "samples", "count", err);
	if (r == 0 && reader->cpu_scale > 0)
		r = profile_add_named_type(reader->profile, "cpu", "nanoseconds", err);
	if (r == 0)
		r = format_set_period_type(reader->profile, "wall", "nanoseconds", err);
	if (json_node_real(json_node_get(meta, "interval"), &interval) && interval > 0 && interval < 1e9)
		reader->profile->period = llround(interval * (double)NS_PER_MS);
	if (r == 0)
		r = read_process(reader, root, err);
	if (r == 0 && json_node_count(children) > PROCESSES_MAX)
		return error_set(err, -E2BIG, "more than %d processes", PROCESSES_MAX);
	for (size_t i = 0; r == 0 && json_node_is(children, JSON_NODE_ARRAY) && i < children->count; i++) {
		r = read_process(reader, json_node_at(children, i), err);
		if (r < 0)
			return error_prefix(err, r, "process %zu", i);
	}
	return r;
}

static void set_time_range(struct profile *profile)
{
	int64_t first = 0, last = 0;
	for (size_t i = 0; i < profile->sample_count; i++) {
		int64_t time = profile->samples[i].time_ns;
		first = time > 0 && (first == 0 || time < first) ? time : first;
		last = time > last ? time : last;
	}
	profile->time_ns = first;
	profile->duration_ns = last - first;
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *json = NULL;
	struct reader reader = {0};
	int r = format_begin_json(input, &json, &reader.profile, err);
	if (r == 0)
		r = read_all(&reader, json_tree_root(json), err);
	const struct format_left_out left_out[] = {
		{reader.markers, "markers (profiler.firefox.com keeps them when it saves the profile)"},
		{reader.counters, "counters"},
		{reader.without_time, "times of samples that have none"},
		{reader.dangling, "references to missing rows of tables"},
	};
	if (r == 0)
		r = format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
	if (r == 0)
		set_time_range(reader.profile);
	r = format_finish(r, reader.profile, ret);
	mem_free(reader.libs);
	return r;
}

/* Tables with schemas, of threads that have their own strings; the processed format has neither. */
static bool detect(struct bytes input)
{
	return json_looks_like_object(input) && memmem(input.data, input.len, "\"stackTable\"", 12) &&
	       memmem(input.data, input.len, "\"schema\"", 8) && memmem(input.data, input.len, "\"stringTable\"", 13) &&
	       memmem(input.data, input.len, "\"frameTable\"", 12);
}

const struct format format_gecko = {
	.name = "gecko",
	.extensions = ".gecko.json",
	.description = "raw profiles of Firefox itself: MOZ_PROFILER_SHUTDOWN, DevTools",
	.detect = detect,
	.decode = decode,
};
