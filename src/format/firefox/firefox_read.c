/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: meta, threads and their samples. The tables behind stacks are read in firefox_stacks.c. */
#include "format/firefox/firefox_read.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"

#define OWN_NAME "Wick"

static const struct firefox_value weights[] = {
	{"samples", "samples", "count", 1},
	{"tracing-ms", "wall", "nanoseconds", 1e6},
	{"bytes", "space", "bytes", 1},
};
static const struct {
	const char *name;
	struct firefox_value value;
} cpu_units[] = {
	{"ns", {NULL, "cpu", "nanoseconds", 1}},
	{"µs", {NULL, "cpu", "nanoseconds", 1e3}},
	{"us", {NULL, "cpu", "nanoseconds", 1e3}},
	{"variable CPU cycles", {NULL, "cpu", "cycles", 1}},
};

static const struct json_node *own(const struct firefox_reader *reader, const char *name)
{
	return reader->is_own ? json_node_get(json_node_get(reader->meta, "wick"), name) : NULL;
}

/* ---- meta ---- */

static int check_version(struct firefox_reader *reader, struct error *err)
{
	int64_t version;
	if (!json_node_is(reader->meta, JSON_NODE_OBJECT))
		return error_set(err, -EBADMSG, "no object meta");
	if (!json_node_integer(json_node_get(reader->meta, "preprocessedProfileVersion"), &version))
		return error_set(
			err, -EBADMSG,
			"meta has no preprocessedProfileVersion: it is not a processed profile (what Firefox itself writes is "
			"the format gecko)");
	if (version < FIREFOX_READ_FIRST || version > FIREFOX_LAST)
		return error_set(err, -ENOTSUP, "version %lld of the processed format is not supported; %d to %d are%s",
				 (long long)version, FIREFOX_READ_FIRST, FIREFOX_LAST,
				 version < FIREFOX_READ_FIRST ? "; save it in a newer one with profiler.firefox.com" : "");
	reader->version = (unsigned)version;
	return 0;
}

static uint32_t type_of_category(struct bytes name)
{
	static const struct {
		const char *name;
		uint32_t type;
	} others[] = {
		{"Native", PROFILE_FRAME_NATIVE},
		{"JavaScript", PROFILE_FRAME_JIT},
	};
	for (uint32_t i = 0; i < FIREFOX_CATEGORIES; i++)
		if (bytes_equal_string(name, firefox_categories[i].name))
			return i;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (bytes_equal_string(name, others[i].name))
			return others[i].type;
	return FIREFOX_NONE;
}

static int read_categories(struct firefox_reader *reader, struct error *err)
{
	const struct json_node *categories = json_node_get(reader->meta, "categories");
	reader->category_count = json_node_is(categories, JSON_NODE_ARRAY) ? categories->count : 0;
	reader->frame_types = mem_alloc_array(reader->category_count, sizeof(*reader->frame_types));
	if (!reader->frame_types)
		return error_nomem(err);
	for (size_t i = 0; i < reader->category_count; i++) {
		struct bytes name = json_node_bytes(json_node_get(json_node_at(categories, i), "name"));
		reader->frame_types[i] = type_of_category(name);
		/* Everything that no other category is for, also native code; our own writer means that nothing is known. */
		if (reader->frame_types[i] == PROFILE_FRAME_UNKNOWN && !reader->is_own)
			reader->frame_types[i] = FIREFOX_NONE;
	}
	return 0;
}

uint32_t firefox_frame_type(const struct firefox_reader *reader, int64_t category)
{
	return category >= 0 && (uint64_t)category < reader->category_count ? reader->frame_types[category] : FIREFOX_NONE;
}

/* Of our own files: what the viewer shows about the profile as a whole. */
static int read_extras(struct firefox_reader *reader, struct error *err)
{
	const struct json_node *entries = json_node_get(json_node_at(json_node_get(reader->meta, "extra"), 0), "entries");
	_cleanup_(mem_freep) struct profile_label *labels = mem_alloc_array(json_node_count(entries), sizeof(*labels));
	size_t label_count = 0;
	int r = labels ? 0 : error_nomem(err);
	for (size_t i = reader->is_timed ? 2 : 3; r == 0 && reader->is_own && i < json_node_count(entries); i++) {
		struct bytes name = json_node_bytes(json_node_get(json_node_at(entries, i), "label")),
			     text = json_node_bytes(json_node_get(json_node_at(entries, i), "value"));
		struct profile_label label = {0};
		uint32_t value;
		r = profile_add_bytes(reader->profile, text, &value, err);
		if (r == 0 && bytes_equal_string(name, "Comment")) {
			r = profile_add_comment(reader->profile, value, err);
			continue;
		}
		label.value = value;
		if (r == 0)
			r = profile_add_bytes(reader->profile, name, &label.key, err);
		labels[label_count++] = label;
	}
	if (r == 0 && label_count > 0)
		r = profile_add_label_set(reader->profile, labels, label_count, &reader->profile->resource_labels, err);
	return r;
}

static int read_period(struct firefox_reader *reader, struct error *err)
{
	struct profile *profile = reader->profile;
	const char *type = json_node_text(own(reader, "periodType")), *unit = json_node_text(own(reader, "periodUnit"));
	double interval;
	if (own(reader, "sampleType") && !type)
		return 0;
	json_node_integer(own(reader, "period"), &profile->period);
	if (!type) {
		if (!json_node_real(json_node_get(reader->meta, "interval"), &interval) || !(interval > 0 && interval < 1e9))
			return 0;
		profile->period = llround(interval * (double)NS_PER_MS);
	}
	return format_set_period_type(profile, type ? type : "wall", unit ? unit : "nanoseconds", err);
}

static int read_meta(struct firefox_reader *reader, struct error *err)
{
	const char *exporter = json_node_text(json_node_get(reader->meta, "importedFrom"));
	reader->is_own = exporter && strcmp(exporter, OWN_NAME) == 0;
	const struct json_node *has_times = own(reader, "hasTimes");
	reader->is_timed = !json_node_is(has_times, JSON_NODE_BOOLEAN) || has_times->boolean;
	/* Later than 2200 is no time. */
	if (!json_node_real(json_node_get(reader->meta, "startTime"), &reader->start_ms) ||
	    !(reader->start_ms >= 0 && reader->start_ms < 7.3e12))
		reader->start_ms = 0;
	reader->profile->time_ns = llround(reader->start_ms) * NS_PER_MS;
	if (!json_node_integer(own(reader, "durationNs"), &reader->profile->duration_ns) || reader->profile->duration_ns < 0)
		reader->profile->duration_ns = 0;
	const struct json_node *monotonic = json_node_get(reader->meta, "startTimeAsClockMonotonicNanosecondsSinceBoot");
	if (!json_node_integer(monotonic, &reader->profile->monotonic_ns) || reader->profile->monotonic_ns < 0)
		reader->profile->monotonic_ns = 0;
	int r = read_categories(reader, err);
	if (r == 0)
		r = read_period(reader, err);
	if (r == 0)
		r = firefox_read_hosts(reader, err);
	return r < 0 ? r : read_extras(reader, err);
}

/* ---- values ---- */

static bool same_value(const struct firefox_value *a, const struct firefox_value *b)
{
	return a->weight && b->weight ? strcmp(a->weight, b->weight) == 0 : a->weight == b->weight;
}

static int add_value(struct firefox_reader *reader, const struct firefox_value *value, struct error *err)
{
	for (size_t i = 0; i < reader->value_count; i++)
		if (same_value(&reader->values[i], value))
			return 0;
	struct firefox_value *added = &reader->values[reader->value_count++];
	*added = *value;
	/* Our own files say what the weight was before it became one. */
	const char *type = json_node_text(own(reader, "sampleType")), *unit = json_node_text(own(reader, "sampleUnit"));
	if (value->weight && type && unit) {
		added->type = type;
		added->unit = unit;
		added->scale = strcmp(unit, "microseconds") == 0  ? 1e3
			       : strcmp(unit, "seconds") == 0	  ? 1e-3
			       : strcmp(unit, "nanoseconds") == 0 ? 1e6
								  : 1;
	}
	return profile_add_named_type(reader->profile, added->type, added->unit, err);
}

static const struct firefox_value *weight_of(const struct json_node *weight_type)
{
	const char *name = json_node_text(weight_type);
	for (size_t i = 0; name && i < sizeof(weights) / sizeof(weights[0]); i++)
		if (strcmp(weights[i].weight, name) == 0)
			return &weights[i];
	return &weights[0];
}

/* Columns must be known before the first sample. CPU time that is the weight as well is one value. */
static int read_values(struct firefox_reader *reader, const struct json_node *threads, struct error *err)
{
	const char *unit = json_node_text(json_node_get(json_node_get(reader->meta, "sampleUnits"), "threadCPUDelta"));
	const struct firefox_value *cpu = &cpu_units[0].value;
	bool has_cpu = false;
	int r = 0;
	for (size_t i = 0; unit && i < sizeof(cpu_units) / sizeof(cpu_units[0]); i++)
		if (strcmp(cpu_units[i].name, unit) == 0)
			cpu = &cpu_units[i].value;
	for (size_t i = 0; r == 0 && i < json_node_count(threads); i++) {
		const struct json_node *samples = json_node_get(json_node_at(threads, i), "samples");
		r = add_value(reader, weight_of(json_node_get(samples, "weightType")), err);
		has_cpu |= json_node_count(json_node_get(samples, "threadCPUDelta")) > 0;
	}
	if (r == 0 && reader->value_count == 0)
		r = add_value(reader, &weights[0], err);
	for (size_t i = 0; i < reader->value_count; i++)
		if (strcmp(reader->values[i].type, cpu->type) == 0 && strcmp(reader->values[i].unit, cpu->unit) == 0)
			has_cpu = false;
	if (r == 0 && has_cpu)
		r = add_value(reader, cpu, err);
	if (r == 0)
		reader->profile->default_sample_type = reader->profile->sample_types[0].type;
	return r;
}

/* ---- samples ---- */

/* A number of the file as an integer of ours; what does not fit is malformed. */
static int to_integer(double value, const char *what, int64_t *ret, struct error *err)
{
	if (!(value > -9.2e18 && value < 9.2e18))
		return error_set(err, -EBADMSG, "%s is out of range", what);
	*ret = llround(value);
	return 0;
}

static int read_weight(const struct firefox_reader *reader, struct firefox_table *samples, size_t row, int64_t *values,
		       struct error *err)
{
	const struct firefox_value *weight = weight_of(firefox_column(samples, "weightType"));
	for (size_t i = 0; i < reader->value_count; i++) {
		const struct firefox_value *value = &reader->values[i];
		const struct json_node *column = firefox_column(samples, value->weight ? "weight" : "threadCPUDelta");
		double number = value->weight ? 1 : 0;
		values[i] = 0;
		if (value->weight && !same_value(value, weight))
			continue;
		if (json_node_is(column, JSON_NODE_ARRAY) && !json_node_real(json_node_at(column, row), &number))
			number = 0;
		int r = to_integer(number * value->scale, value->weight ? "weight" : "threadCPUDelta", &values[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

bool firefox_wall_ns(const struct firefox_reader *reader, double since_start_ms, int64_t *ret)
{
	if (!(since_start_ms > -1e12 && since_start_ms < 1e12))
		return false;
	double whole = floor(reader->start_ms);
	int64_t time = (int64_t)whole * NS_PER_MS + llround((reader->start_ms - whole + since_start_ms) * (double)NS_PER_MS);
	*ret = time > 0 ? time : 0;
	return true;
}

/* Times are since the start; their whole milliseconds and the rest are converted apart, for a double cannot hold nanoseconds
 * since 1970. */
static int read_time(struct firefox_reader *reader, struct firefox_table *samples, size_t row, double *since_start,
		     int64_t *ret, struct error *err)
{
	const struct json_node *times = firefox_column(samples, "time");
	double number;
	*ret = 0;
	if (times && json_node_real(json_node_at(times, row), &number))
		*since_start = number;
	else if (!times && json_node_real(json_node_at(firefox_column(samples, "timeDeltas"), row), &number))
		*since_start += number;
	else {
		reader->without_time++;
		return 0;
	}
	if (!(*since_start > -1e12 && *since_start < 1e12))
		return error_set(err, -EBADMSG, "time is out of range");
	if (reader->is_timed)
		firefox_wall_ns(reader, *since_start, ret);
	return 0;
}

static int add_text_label(struct firefox_reader *reader, uint32_t key, struct bytes text, struct profile_label *label,
			  struct error *err)
{
	*label = (struct profile_label){.key = key};
	return profile_add_bytes(reader->profile, text, &label->value, err);
}

static int number_or_text(struct firefox_reader *reader, uint32_t key, struct firefox_id id, struct profile_label *label,
			  struct error *err)
{
	if (id.is_number)
		return profile_number_label(reader->profile, key, id.number, label, err);
	return add_text_label(reader, key, id.text, label, err);
}

/* Names that stand where none was known: "Thread 17", and for threads without an id, which ours call PID-NUMBER, what the
 * process is called. */
bool firefox_is_named(const struct firefox_reader *reader, const struct json_node *thread, struct bytes name)
{
	char standing_in[TEXT_NUMBER_MAX + 8];
	struct firefox_id tid = firefox_read_id(reader, json_node_get(thread, "tid"));
	if (name.len == 0)
		return false;
	if (!tid.is_number)
		return !reader->is_own || !bytes_equal(name, firefox_process_name(reader, thread));
	snprintf(standing_in, sizeof(standing_in), "Thread %lld", (long long)tid.number);
	return !bytes_equal_string(name, standing_in);
}

static int read_labels(struct firefox_reader *reader, const struct json_node *thread, uint32_t *ret, struct error *err)
{
	struct profile_label labels[5];
	size_t count = 0;
	struct firefox_id pid = firefox_read_id(reader, json_node_get(thread, "pid")),
			  tid = firefox_read_id(reader, json_node_get(thread, "tid"));
	struct bytes name = json_node_bytes(json_node_get(thread, "name")), process = firefox_process_name(reader, thread);
	bool is_nobody = reader->is_own && bytes_equal_string(pid.text, FIREFOX_NO_PID);
	int r = 0;
	if (pid.host.len)
		r = add_text_label(reader, reader->host_key, pid.host, &labels[count++], err);
	if (r == 0 && json_node_get(thread, "pid") && !is_nobody)
		r = number_or_text(reader, reader->pid_key, pid, &labels[count++], err);
	if (r == 0 && json_node_get(thread, "tid") && (tid.is_number || !reader->is_own))
		r = number_or_text(reader, reader->tid_key, tid, &labels[count++], err);
	if (r == 0 && firefox_is_named(reader, thread, name))
		r = add_text_label(reader, reader->name_key, name, &labels[count++], err);
	if (r == 0 && process.len && !is_nobody)
		r = add_text_label(reader, reader->process_key, process, &labels[count++], err);
	return r < 0 ? r : profile_add_label_set(reader->profile, labels, count, ret, err);
}

/* Marks the rows of stackTable that samples end in. */
static int mark_rows(const struct json_node *thread, uint32_t *stacks, size_t count, struct error *err)
{
	const struct json_node *column = json_node_get(json_node_get(thread, "samples"), "stack");
	if (!json_node_is(column, JSON_NODE_ARRAY))
		return error_set(err, -EBADMSG, "samples has no column stack");
	for (size_t i = 0; i < column->count; i++) {
		int64_t row;
		if (!json_node_integer(json_node_at(column, i), &row))
			continue;
		if (row >= 0 && (uint64_t)row < count)
			stacks[row] = FIREFOX_NONE;
	}
	return 0;
}

/* The stack of a sample; none where its row is not there. */
static uint32_t stack_of(struct firefox_reader *reader, const struct json_node *row, const uint32_t *stacks, size_t count)
{
	int64_t number;
	if (!json_node_integer(row, &number))
		return 0;
	if (number >= 0 && (uint64_t)number < count)
		return stacks[number];
	reader->dangling++;
	return 0;
}

static int read_samples(struct firefox_reader *reader, const struct json_node *thread, const uint32_t *stacks,
			size_t stack_count, struct error *err)
{
	struct firefox_table samples = {.node = json_node_get(thread, "samples")};
	const struct json_node *column = firefox_column(&samples, "stack");
	struct profile_sample sample = {0};
	int64_t values[FIREFOX_VALUES_MAX];
	double since_start = 0;
	size_t count;
	int r = firefox_table_length(samples.node, "samples", "stack", &count, err);
	if (r == 0)
		r = read_labels(reader, thread, &sample.labels, err);
	for (size_t i = 0; r == 0 && i < count; i++) {
		sample.stack = stack_of(reader, json_node_at(column, i), stacks, stack_count);
		r = read_time(reader, &samples, i, &since_start, &sample.time_ns, err);
		if (r == 0)
			r = read_weight(reader, &samples, i, values, err);
		if (r < 0)
			return error_prefix(err, r, "sample %zu", i);
		r = profile_add_sample(reader->profile, &sample, values, err);
	}
	return r;
}

static void count_left_out(struct firefox_reader *reader, const struct json_node *thread)
{
	reader->allocations += json_node_count(json_node_get(json_node_get(thread, "jsAllocations"), "stack")) +
			       json_node_count(json_node_get(json_node_get(thread, "nativeAllocations"), "stack"));
}

/* ---- threads ---- */

static void find_source(const struct firefox_reader *reader, const struct json_node *thread, struct firefox_source *ret)
{
	const struct json_node *shared = json_node_get(reader->root, "shared"),
			       *tables = reader->version >= FIREFOX_SHARED_TABLES ? shared : thread;
	*ret = (struct firefox_source){
		.strings = json_node_get(reader->version >= FIREFOX_SHARED_STRINGS ? shared : thread, "stringArray"),
		.sources.node = json_node_get(shared, "sources"),
		.stacks.node = json_node_get(tables, "stackTable"),
		.frames.node = json_node_get(tables, "frameTable"),
		.funcs.node = json_node_get(tables, "funcTable"),
		.resources.node = json_node_get(tables, "resourceTable"),
	};
}

/* Threads [first, first + count), which share their tables. */
static int read_threads(struct firefox_reader *reader, const struct json_node *threads, size_t first, size_t count,
			struct error *err)
{
	struct firefox_source source;
	size_t rows;
	find_source(reader, json_node_at(threads, first), &source);
	int r = firefox_table_length(source.stacks.node, "stackTable", "frame", &rows, err);
	if (r < 0)
		return r;
	_cleanup_(mem_freep) uint32_t *stacks = mem_zalloc_array(rows, sizeof(*stacks));
	if (!stacks)
		return error_nomem(err);
	for (size_t i = first; r == 0 && i < first + count; i++) {
		r = mark_rows(json_node_at(threads, i), stacks, rows, err);
		if (r < 0)
			return error_prefix(err, r, "thread %zu", i);
	}
	r = firefox_read_stacks(reader, &source, stacks, rows, err);
	for (size_t i = first; r == 0 && i < first + count; i++) {
		r = read_samples(reader, json_node_at(threads, i), stacks, rows, err);
		if (r == 0)
			r = firefox_read_markers(reader, json_node_at(threads, i), source.strings, err);
		if (r == 0)
			r = firefox_read_lifetime(reader, json_node_at(threads, i), err);
		if (r < 0)
			return error_prefix(err, r, "thread %zu", i);
		count_left_out(reader, json_node_at(threads, i));
	}
	return r;
}

static int add_keys(struct firefox_reader *reader, struct error *err)
{
	const struct format_string keys[] = {{"thread.name", &reader->name_key},
					     {"thread.id", &reader->tid_key},
					     {"process.pid", &reader->pid_key},
					     {"host.name", &reader->host_key},
					     {"process.executable.name", &reader->process_key}};
	return format_add_strings(reader->profile, keys, sizeof(keys) / sizeof(keys[0]), err);
}

static int read_all(struct firefox_reader *reader, struct error *err)
{
	const struct json_node *threads = json_node_get(reader->root, "threads");
	reader->meta = json_node_get(reader->root, "meta");
	int r = check_version(reader, err);
	if (r == 0 && !json_node_is(threads, JSON_NODE_ARRAY))
		r = error_set(err, -EBADMSG, "no array threads");
	if (r == 0)
		r = add_keys(reader, err);
	if (r == 0)
		r = read_meta(reader, err);
	if (r == 0)
		r = firefox_read_libs(reader, err);
	if (r == 0)
		r = read_values(reader, threads, err);
	if (r == 0)
		r = firefox_read_schemas(reader, err);
	if (r == 0 && reader->version >= FIREFOX_SHARED_TABLES)
		r = read_threads(reader, threads, 0, threads->count, err);
	for (size_t i = 0; r == 0 && reader->version < FIREFOX_SHARED_TABLES && i < threads->count; i++) {
		r = read_threads(reader, threads, i, 1, err);
		if (r < 0)
			return error_prefix(err, r, "thread %zu", i);
	}
	return r < 0 ? r : firefox_read_counters(reader, threads, err);
}

static int add_notes(const struct firefox_reader *reader, const struct format_options *options, struct error *err)
{
	const struct format_left_out left_out[] = {{reader->markers, "markers without a time"},
						   {reader->allocations, "allocations"},
						   {reader->without_time, "times of samples that have none"},
						   {reader->dangling, "references to missing rows of tables"}};
	return format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
}

int firefox_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	struct firefox_reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	int r = format_begin_json(input, &tree, &reader->profile, err);
	if (r == 0) {
		reader->root = json_tree_root(tree);
		r = read_all(reader, err);
	}
	if (r == 0)
		r = add_notes(reader, options, err);
	r = format_finish(r, reader->profile, ret);
	mem_free(reader->mappings);
	mem_free(reader->schemas);
	map64_release(&reader->schema_by_name);
	mem_free(reader->frame_types);
	mem_free(reader);
	return r;
}
