/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace Event files ("Trace Event Format", Google, 2016): what Chrome's DevTools save of a recording, what node writes with
 * --trace-event-categories, and what many a program writes because about://tracing and Perfetto show it. A JSON array of
 * events, whose closing bracket may be missing, or an object that has it under "traceEvents". An event tells by "ph" what it
 * is, by "pid" and "tid" whose, and by "ts" when, in microseconds.
 *
 *   B, E      the begin and the end of something on a thread
 *   X         both in one, with a duration "dur"
 *   M         metadata: names of threads and processes
 *   P, I      of the names Profile and ProfileChunk: a V8 call tree and its samples in parts (cpuprofile.c), which belong
 *             together by "pid" and "id"; of the name CpuProfile: one in a piece, as older versions wrote it
 *
 * What comes of it: the values "samples" and "wall" of the CPU profiles, and "time" of the events, each if there is such a
 * thing, since both tell of the same time and must not be added up. Events of a thread that lie within each other are a stack;
 * of each stretch between two of their edges the innermost one is the leaf, and the stretch a sample. One that outlasts the one
 * that it began in is cut there. Ends without a begin are left out; what has not ended ends with its thread. Times count from
 * an origin that files do not tell. Everything else (counters, instants, asynchronous events, flows, objects) is left out, and
 * counted.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/order.h"
#include "base/time.h"
#include "format/cpuprofile.h"

#define MISMATCH_MAX	 32 /* how far up an end looks for its begin */
#define DETECT_ARRAY_MAX (16 * 1024)
#define PROFILES_MAX	 4096

/* A pid or tid: a number, or a text where somebody found that nicer. */
struct id {
	int64_t number;
	uint32_t text;	    /* string; 0 = none */
	uint32_t is_number; /* 0 is one, too; as wide as `text`, so that there is no padding in a key */
};

struct thread {
	struct {
		struct id pid, tid;
	} key;
	uint32_t name, labels;
};

struct event {
	int64_t from_ns, to_ns;
	uint32_t thread, name; /* name: a string */
	uint32_t number;       /* in the file */
	char phase;	       /* B, E or X */
};

/* A CPU profile that comes in parts. */
struct cpu_profile {
	struct cpuprofile_tree *tree;
	uint32_t thread;
	int64_t end_us;
};

struct reader {
	struct profile *profile;
	struct thread *threads;
	size_t thread_count, thread_capacity;
	struct index32 thread_index;
	struct map64 process_names; /* by hash of the pid */
	struct event *events;
	size_t event_count, event_capacity;
	struct cpu_profile *cpu_profiles;
	size_t cpu_profile_count, cpu_profile_capacity;
	struct map64 cpu_profile_of; /* by hash of pid and id */
	struct event *open[LIMIT_STACK_DEPTH];
	uint32_t stacks[LIMIT_STACK_DEPTH];
	size_t time_column;
	uint64_t others, unmatched, unended, cut;
	struct cpuprofile_missing missing; /* in all of the CPU profiles */
};

/* ---- threads ---- */

static int read_id(struct reader *reader, const struct json_node *node, struct id *ret, struct error *err)
{
	*ret = (struct id){0};
	ret->is_number = json_node_integer(node, &ret->number);
	return ret->is_number ? 0 : profile_add_bytes(reader->profile, json_node_bytes(node), &ret->text, err);
}

static int find_thread(struct reader *reader, const struct json_node *event, uint32_t *ret, struct error *err)
{
	struct thread thread = {0};
	int r = read_id(reader, json_node_get(event, "pid"), &thread.key.pid, err);
	if (r == 0)
		r = read_id(reader, json_node_get(event, "tid"), &thread.key.tid, err);
	if (r < 0)
		return r;
	uint64_t hash = hash64_guarded(&thread.key, sizeof(thread.key));
	for (size_t at = index32_first(&reader->thread_index, hash); index32_at(&reader->thread_index, hash, &at, ret); at++)
		if (memcmp(&reader->threads[*ret].key, &thread.key, sizeof(thread.key)) == 0)
			return 0;
	*ret = (uint32_t)reader->thread_count;
	if (array_reserve(&reader->threads, &reader->thread_capacity, reader->thread_count + 1, UINT32_MAX) < 0 ||
	    index32_add(&reader->thread_index, hash, *ret) < 0)
		return error_nomem(err);
	reader->threads[reader->thread_count++] = thread;
	return 0;
}

static uint64_t key_of_process(const struct thread *thread)
{
	return hash64_guarded(&thread->key.pid, sizeof(thread->key.pid));
}

static int read_metadata(struct reader *reader, const struct json_node *event, const char *name, struct error *err)
{
	const struct json_node *text = json_node_get(json_node_get(event, "args"), "name");
	uint32_t thread, id;
	if (!json_node_text(text))
		return 0;
	int r = find_thread(reader, event, &thread, err);
	if (r == 0)
		r = profile_add_bytes(reader->profile, json_node_bytes(text), &id, err);
	if (r < 0)
		return r;
	if (strcmp(name, "thread_name") == 0)
		reader->threads[thread].name = id;
	else if (strcmp(name, "process_name") == 0 &&
		 map64_put(&reader->process_names, key_of_process(&reader->threads[thread]), id) < 0)
		return error_nomem(err);
	return 0;
}

static int add_label(struct reader *reader, const char *name, struct profile_label label, struct profile_label *ret,
		     struct error *err)
{
	int r = profile_add_cstring(reader->profile, name, &label.key, err);
	*ret = label;
	return r < 0 || label.value ? r : profile_number_label(reader->profile, label.key, label.number, ret, err);
}

static int label_thread(struct reader *reader, struct thread *thread, struct error *err)
{
	const struct id pid = thread->key.pid, tid = thread->key.tid;
	uint64_t process = 0;
	map64_get(&reader->process_names, key_of_process(thread), &process);
	const struct {
		const char *name;
		bool is_known;
		struct profile_label label;
	} known[] = {
		{"process.pid", pid.is_number, {.number = pid.number}},
		{"thread.id", tid.is_number, {.number = tid.number}},
		{"process.executable.name", process || pid.text, {.value = process ? (uint32_t)process : pid.text}},
		{"thread.name", thread->name || tid.text, {.value = thread->name ? thread->name : tid.text}},
	};
	struct profile_label labels[sizeof(known) / sizeof(known[0])];
	size_t count = 0;
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].is_known)
			r = add_label(reader, known[i].name, known[i].label, &labels[count++], err);
	return r < 0 ? r : profile_add_label_set(reader->profile, labels, count, &thread->labels, err);
}

/* ---- CPU profiles ---- */

/* Sampled on that thread; the first time difference counts from start_us. */
static int add_cpu_profile(struct reader *reader, uint32_t thread, int64_t start_us, struct cpu_profile **ret,
			   struct error *err)
{
	if (reader->cpu_profile_count == PROFILES_MAX)
		return error_set(err, -E2BIG, "more than %d CPU profiles", PROFILES_MAX);
	if (array_reserve(&reader->cpu_profiles, &reader->cpu_profile_capacity, reader->cpu_profile_count + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	*ret = &reader->cpu_profiles[reader->cpu_profile_count];
	**ret = (struct cpu_profile){.thread = thread};
	int r = cpuprofile_tree_new(reader->profile, start_us, &reader->missing, &(*ret)->tree, err);
	reader->cpu_profile_count += r == 0;
	return r;
}

static int find_cpu_profile(struct reader *reader, const struct json_node *event, struct cpu_profile **ret, struct error *err)
{
	const struct json_node *data = json_node_get(json_node_get(event, "args"), "data"), *id = json_node_get(event, "id");
	uint32_t thread;
	uint64_t known, parts[3] = {0};
	int64_t number = 0, start = 0;
	int r = find_thread(reader, event, &thread, err);
	if (r < 0)
		return r;
	struct bytes text = json_node_bytes(id);
	json_node_integer(id, &number);
	parts[0] = key_of_process(&reader->threads[thread]);
	parts[1] = (uint64_t)number;
	parts[2] = hash64_guarded(text.data, text.len);
	uint64_t key = hash64_guarded(parts, sizeof(parts));
	if (map64_get(&reader->cpu_profile_of, key, &known)) {
		*ret = &reader->cpu_profiles[known];
		return 0;
	}
	json_node_integer(json_node_get(data, "startTime"), &start);
	r = add_cpu_profile(reader, thread, start, ret, err);
	return r == 0 && map64_put(&reader->cpu_profile_of, key, reader->cpu_profile_count - 1) < 0 ? error_nomem(err) : r;
}

/* The event "Profile" is of the thread that was sampled; its parts may be of the one that samples. */
static int read_chunk(struct reader *reader, const struct json_node *event, struct error *err)
{
	const struct json_node *data = json_node_get(json_node_get(event, "args"), "data"),
			       *profile = json_node_get(data, "cpuProfile"), *deltas = json_node_get(data, "timeDeltas");
	struct cpu_profile *to = NULL;
	struct cpuprofile_part part = {
		.nodes = json_node_get(profile, "nodes"),
		.samples = json_node_get(profile, "samples"),
		.deltas = deltas ? deltas : json_node_get(profile, "timeDeltas"),
		.lines = json_node_get(data, "lines"),
		.columns = json_node_get(data, "columns"),
	};
	int r = find_cpu_profile(reader, event, &to, err);
	if (r < 0)
		return r;
	json_node_integer(json_node_get(data, "endTime"), &to->end_us);
	return cpuprofile_tree_add(to->tree, &part, err);
}

static int read_whole(struct reader *reader, const struct json_node *event, struct error *err)
{
	const struct json_node *data = json_node_get(json_node_get(event, "args"), "data"),
			       *profile = json_node_get(data, "cpuProfile");
	struct cpuprofile_part part = {
		.nodes = json_node_get(profile, "nodes"),
		.samples = json_node_get(profile, "samples"),
		.deltas = json_node_get(profile, "timeDeltas"),
	};
	struct cpu_profile *made;
	int64_t start = 0;
	uint32_t thread;
	json_node_integer(json_node_get(profile, "startTime"), &start);
	int r = find_thread(reader, event, &thread, err);
	if (r == 0)
		r = add_cpu_profile(reader, thread, start, &made, err);
	if (r < 0)
		return r;
	json_node_integer(json_node_get(profile, "endTime"), &made->end_us);
	return cpuprofile_tree_add(made->tree, &part, err);
}

static int add_cpu_profiles(struct reader *reader, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < reader->cpu_profile_count; i++) {
		struct cpu_profile *cpu = &reader->cpu_profiles[i];
		r = cpuprofile_tree_finish(cpu->tree, cpu->end_us, reader->threads[cpu->thread].labels, err);
		if (r < 0)
			return error_prefix(err, r, "CPU profile %zu", i);
	}
	return r;
}

/* ---- events ---- */

static bool read_time(const struct json_node *node, int64_t *ret_ns)
{
	double real;
	int64_t whole;
	if (json_node_is(node, JSON_NODE_REAL)) {
		real = round(node->real * NS_PER_US);
		if (!(real > -4e18 && real < 4e18))
			return false;
		*ret_ns = (int64_t)real;
		return true;
	}
	return json_node_integer(node, &whole) && whole > INT64_MIN / 4 / NS_PER_US && whole < INT64_MAX / 4 / NS_PER_US &&
	       (*ret_ns = whole * NS_PER_US, true);
}

static int read_duration(struct reader *reader, const struct json_node *node, char phase, struct error *err)
{
	struct event event = {.number = (uint32_t)reader->event_count, .phase = phase};
	int64_t lasts = 0;
	if (!read_time(json_node_get(node, "ts"), &event.from_ns))
		return error_set(err, -EBADMSG, "no time \"ts\", or one out of range");
	if (phase == 'X' && json_node_get(node, "dur") && (!read_time(json_node_get(node, "dur"), &lasts) || lasts < 0))
		return error_set(err, -EBADMSG, "its duration is not a number, negative, or out of range");
	event.to_ns = event.from_ns + lasts;
	int r = find_thread(reader, node, &event.thread, err);
	if (r == 0)
		r = profile_add_bytes(reader->profile, json_node_bytes(json_node_get(node, "name")), &event.name, err);
	if (r == 0 && array_reserve(&reader->events, &reader->event_capacity, reader->event_count + 1, UINT32_MAX) < 0)
		r = error_nomem(err);
	if (r == 0)
		reader->events[reader->event_count++] = event;
	return r;
}

static int read_event(struct reader *reader, const struct json_node *event, struct error *err)
{
	const char *phase = json_node_text(json_node_get(event, "ph")), *name = json_node_text(json_node_get(event, "name"));
	if (!json_node_is(event, JSON_NODE_OBJECT))
		return error_set(err, -EBADMSG, "not an object");
	name = name ? name : "";
	if (!phase || !phase[0] || phase[1]) {
		reader->others++;
		return 0;
	}
	if (phase[0] == 'M')
		return read_metadata(reader, event, name, err);
	if (phase[0] == 'B' || phase[0] == 'E' || phase[0] == 'X')
		return read_duration(reader, event, phase[0], err);
	if (strcmp(name, "Profile") == 0 || strcmp(name, "ProfileChunk") == 0)
		return read_chunk(reader, event, err);
	if (strcmp(name, "CpuProfile") == 0)
		return read_whole(reader, event, err);
	reader->others++;
	return 0;
}

/* By thread and time. Begins and ends keep the order of the file. */
DEFINE_ORDER(compare_in_file, struct event,
	     ORDER(a->thread, b->thread) ?: ORDER(a->from_ns, b->from_ns) ?: ORDER(a->number, b->number));

/* By thread and time; of those that begin at once the longest first. */
DEFINE_ORDER(compare_nested, struct event,
	     ORDER(a->thread, b->thread) ?: ORDER(a->from_ns, b->from_ns) ?: ORDER(b->to_ns, a->to_ns) ?:
		     ORDER(a->number, b->number));

/* An end of that name ends what was begun inside of it, too. */
static void end_event(struct reader *reader, const struct event *end, size_t *depth)
{
	size_t at = *depth;
	while (at > 0 && end->name && reader->open[at - 1]->name != end->name && *depth - at < MISMATCH_MAX)
		at--;
	if (at == 0 || (end->name && reader->open[at - 1]->name != end->name)) {
		reader->unmatched++;
		return;
	}
	while (*depth >= at)
		reader->open[--*depth]->to_ns = end->from_ns;
}

/* Gives each begin of one thread its end. */
static int pair_thread(struct reader *reader, size_t from, size_t to, struct error *err)
{
	size_t depth = 0;
	int64_t last = INT64_MIN;
	for (size_t i = from; i < to; i++) {
		struct event *event = &reader->events[i];
		last = event->to_ns > last ? event->to_ns : last;
		if (event->phase == 'E') {
			end_event(reader, event, &depth);
		} else if (event->phase == 'B') {
			if (depth == LIMIT_STACK_DEPTH)
				return error_set(err, -E2BIG, "events nest deeper than %d, the limit", LIMIT_STACK_DEPTH);
			reader->open[depth++] = event;
		}
	}
	reader->unended += depth;
	while (depth > 0)
		reader->open[--depth]->to_ns = last;
	return 0;
}

static size_t end_of_thread(const struct reader *reader, size_t from)
{
	size_t to = from;
	while (to < reader->event_count && reader->events[to].thread == reader->events[from].thread)
		to++;
	return to;
}

static int pair_events(struct reader *reader, struct error *err)
{
	int r = 0;
	size_t kept = 0;
	sort_array(reader->events, reader->event_count, compare_in_file);
	for (size_t i = 0, next; r == 0 && i < reader->event_count; i = next) {
		next = end_of_thread(reader, i);
		r = pair_thread(reader, i, next, err);
	}
	for (size_t i = 0; i < reader->event_count; i++)
		if (reader->events[i].phase != 'E')
			reader->events[kept++] = reader->events[i];
	reader->event_count = kept;
	sort_array(reader->events, kept, compare_nested);
	return r;
}

/* A stretch of time in which `stack` was the innermost one. */
static int add_stretch(struct reader *reader, uint32_t thread, uint32_t stack, int64_t from_ns, int64_t to_ns,
		       struct error *err)
{
	int64_t values[LIMIT_SAMPLE_TYPES] = {0};
	struct profile_sample sample = {
		.stack = stack, .labels = reader->threads[thread].labels, .time_ns = from_ns > 0 ? from_ns : 0};
	if (from_ns >= to_ns)
		return 0;
	values[reader->time_column] = to_ns - from_ns;
	return profile_add_sample(reader->profile, &sample, values, err);
}

/* Closes what has ended by `now`; *at is how far time is accounted for. */
static int close_events(struct reader *reader, uint32_t thread, size_t *depth, int64_t now, int64_t *at, struct error *err)
{
	int r = 0;
	while (r == 0 && *depth > 0 && reader->open[*depth - 1]->to_ns <= now) {
		--*depth;
		int64_t end = reader->open[*depth]->to_ns;
		r = add_stretch(reader, thread, reader->stacks[*depth], *at, end, err);
		*at = end > *at ? end : *at;
	}
	return r;
}

static int open_event(struct reader *reader, struct event *event, size_t *depth, struct error *err)
{
	struct profile_function function = {.name = event->name};
	struct profile_line line = {0};
	uint32_t location;
	if (*depth == LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "events nest deeper than %d, the limit", LIMIT_STACK_DEPTH);
	if (*depth > 0 && event->to_ns > reader->open[*depth - 1]->to_ns) {
		event->to_ns = reader->open[*depth - 1]->to_ns;
		reader->cut++;
	}
	int r = profile_add_function(reader->profile, &function, &line.function, err);
	if (r == 0)
		r = profile_add_location(reader->profile, &(struct profile_location){0}, &line, 1, &location, err);
	if (r == 0)
		r = profile_add_stack(reader->profile, *depth ? reader->stacks[*depth - 1] : 0, location,
				      &reader->stacks[*depth], err);
	reader->open[(*depth)++] = event;
	return r;
}

static int nest_thread(struct reader *reader, size_t from, size_t to, struct error *err)
{
	uint32_t thread = reader->events[from].thread;
	size_t depth = 0;
	int64_t at = reader->events[from].from_ns;
	int r = 0;
	for (size_t i = from; r == 0 && i < to; i++) {
		struct event *event = &reader->events[i];
		r = close_events(reader, thread, &depth, event->from_ns, &at, err);
		if (r == 0 && depth > 0)
			r = add_stretch(reader, thread, reader->stacks[depth - 1], at, event->from_ns, err);
		at = event->from_ns;
		if (r == 0)
			r = open_event(reader, event, &depth, err);
	}
	return r < 0 ? r : close_events(reader, thread, &depth, INT64_MAX, &at, err);
}

static int nest_events(struct reader *reader, struct error *err)
{
	int r = 0;
	for (size_t i = 0, next; r == 0 && i < reader->event_count; i = next) {
		next = end_of_thread(reader, i);
		r = nest_thread(reader, i, next, err);
	}
	return r;
}

/* ---- the file ---- */

static int add_values(struct reader *reader, struct error *err)
{
	struct profile *profile = reader->profile;
	int r = 0;
	if (reader->cpu_profile_count > 0)
		r = cpuprofile_add_types(profile, err);
	if (r == 0 && (reader->event_count > 0 || profile->sample_type_count == 0)) {
		reader->time_column = profile->sample_type_count;
		r = profile_add_named_type(profile, "time", "nanoseconds", err);
	}
	/* Samples say more than events do. */
	if (r == 0 && profile->sample_type_count > 2)
		profile->default_sample_type = profile->sample_types[1].type;
	return r;
}

static int read_all(struct reader *reader, const struct json_node *root, struct error *err)
{
	const struct json_node *events = json_node_is(root, JSON_NODE_ARRAY) ? root : json_node_get(root, "traceEvents");
	int r = 0;
	if (!json_node_is(events, JSON_NODE_ARRAY))
		return error_set(err, -EBADMSG, "no array of events");
	for (size_t i = 0; r == 0 && i < events->count; i++) {
		r = read_event(reader, json_node_at(events, i), err);
		if (r < 0)
			return error_prefix(err, r, "event %zu", i);
	}
	if (reader->event_count == 0 && reader->cpu_profile_count == 0)
		return error_set(err, -EBADMSG, "no CPU profiles and no events with a duration");
	for (size_t i = 0; r == 0 && i < reader->thread_count; i++)
		r = label_thread(reader, &reader->threads[i], err);
	if (r == 0)
		r = add_values(reader, err);
	if (r == 0)
		r = add_cpu_profiles(reader, err);
	if (r == 0)
		r = pair_events(reader, err);
	return r < 0 ? r : nest_events(reader, err);
}

static int note(const struct reader *reader, const struct format_options *options, struct error *err)
{
	const struct format_left_out left_out[] = {
		{reader->others, "events without a duration or a thread: instants, counters, flows and the like"},
		{reader->unmatched, "ends of events without a begin"},
		{reader->unended, "missing ends: the events last as long as their thread"},
		{reader->cut, "ends of events that outlast their parent event"},
	};
	int r = cpuprofile_note(&reader->missing, options, err);
	return r < 0 ? r : format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
}

static size_t end_before_spaces(struct bytes text, size_t from, size_t to)
{
	while (to > from && json_skip_spaces((struct bytes){text.data, to}, to - 1) == to)
		to--;
	return to;
}

/* A program that dies, or that means to be quick, does not write the last bracket, and leaves the last comma. */
static int close_array(struct bytes *input, struct buffer *copy, struct error *err)
{
	size_t first = json_skip_spaces(*input, 0), len = end_before_spaces(*input, first, input->len);
	if (first == len || input->data[first] != '[')
		return 0;
	size_t closed = len - (len > first + 1 && input->data[len - 1] == ']');
	size_t end = end_before_spaces(*input, first, closed);
	bool comma = input->data[end - 1] == ',';
	if (closed < len && !comma)
		return 0;
	buffer_init(copy, SIZE_MAX);
	if (buffer_append(copy, input->data, end - comma) < 0 || buffer_append_byte(copy, ']') < 0)
		return error_nomem(err);
	*input = buffer_bytes(copy);
	return 0;
}

static void release(struct reader *reader)
{
	for (size_t i = 0; i < reader->cpu_profile_count; i++)
		cpuprofile_tree_free(reader->cpu_profiles[i].tree);
	index32_release(&reader->thread_index);
	map64_release(&reader->process_names);
	map64_release(&reader->cpu_profile_of);
	mem_free(reader->threads);
	mem_free(reader->events);
	mem_free(reader->cpu_profiles);
	mem_free(reader);
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *json = NULL;
	_cleanup_(buffer_release) struct buffer copy = {0};
	struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	int r = close_array(&input, &copy, err);
	if (r == 0)
		r = format_begin_json(input, &json, &reader->profile, err);
	if (r == 0)
		r = read_all(reader, json_tree_root(json), err);
	if (r == 0)
		r = note(reader, options, err);
	r = format_finish(r, reader->profile, ret);
	release(reader);
	return r;
}

/* An object with an array "traceEvents", behind whatever else there is; or an array of things that have a "ph". */
static bool detect(struct bytes input)
{
	static const char key[] = "\"traceEvents\"";
	size_t at = json_skip_spaces(input, 0);
	if (at == input.len)
		return false;
	size_t max = input.len < DETECT_ARRAY_MAX ? input.len : DETECT_ARRAY_MAX;
	if (input.data[at] == '[')
		return memmem(input.data, max, "\"ph\"", 4);
	if (input.data[at] != '{')
		return false;
	const uint8_t *found = memmem(input.data, input.len, key, sizeof(key) - 1);
	if (!found)
		return false;
	for (at = (size_t)(found - input.data) + sizeof(key) - 1; at < input.len && input.data[at]; at++)
		if (!strchr(" \t\r\n:", input.data[at]))
			return input.data[at] == '[';
	return false;
}

const struct format format_chrome_trace = {
	.name = "chrome-trace",
	.extensions = ".trace.json .trace",
	.description = "Trace Event files: Chrome's DevTools, node --trace-event-categories",
	.detect = detect,
	.decode = decode,
};
