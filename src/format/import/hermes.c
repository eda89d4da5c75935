/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling profiles of Hermes, React Native's JavaScript engine (lib/VM/Profiler/ChromeTraceSerializer.cpp), which are Trace
 * Event files whose samples stand beside the events:
 *
 *   {"traceEvents": [...], "samples": [{"cpu", "name", "ts": us, "pid", "tid", "weight", "sf": FRAME} ...],
 *    "stackFrames": {"FRAME": {"name", "category", "line", "column", "funcLine", "funcColumn", "parent": FRAME} ...}}
 *
 * Numbers may be texts. A frame's name is "function(file:line:column)". A sample lasts until the next one of its thread; the
 * last one's length is not known. The root frame, which has no parent, is "[root]" and no function.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/json_tree.h"
#include "format/format_int.h"

struct frame {
	const struct json_node *node;
	uint32_t stack;
	bool done;
};

struct reader {
	struct profile *profile;
	struct frame *frames;
	size_t frame_count, frame_capacity;
	struct map64 frame_of_id, last_of_thread; /* the latter: by tid, number of its latest sample + 1 */
	uint32_t path[LIMIT_STACK_DEPTH];
	int64_t *ends; /* by sample of the file; when the next of its thread is */
	uint32_t tid_key, pid_key, name_key;
	struct map64 name_of_tid; /* strings */
	int64_t first_us, last_us;
	uint64_t stray, parents, events;
};

/* A number, also as a text with a fraction. */
static bool number_of(const struct json_node *node, int64_t *ret)
{
	double real;
	if (json_node_integer(node, ret))
		return true;
	if (!json_node_real(node, &real) && (!json_node_text(node) || text_parse_double(json_node_text(node), &real, NULL) < 0))
		return false;
	if (!(real > -9e15 && real < 9e15))
		return false;
	*ret = (int64_t)real;
	return true;
}

/* Microseconds, which fit 64 bits as nanoseconds, too. */
static bool time_of(const struct json_node *sample, int64_t *ret)
{
	return number_of(json_node_get(sample, "ts"), ret) && *ret >= 0 && *ret <= INT64_MAX / NS_PER_US;
}

/* ---- frames ---- */

static int add_frames(struct reader *reader, const struct json_node *frames, struct error *err)
{
	for (size_t i = 0; i < frames->count; i++) {
		int64_t id;
		if (!number_of(&frames->items[2 * i], &id))
			return error_set(err, -EBADMSG, "a frame has the id \"%.40s\"", json_node_text(&frames->items[2 * i]));
		if (map64_put(&reader->frame_of_id, (uint64_t)id, reader->frame_count) < 0 ||
		    array_push(&reader->frames, &reader->frame_count, &reader->frame_capacity, UINT32_MAX,
			       (struct frame){.node = &frames->items[2 * i + 1]}) < 0)
			return error_nomem(err);
	}
	return 0;
}

/* "f(a/b.js:12:3)": the file, without line and column. */
static void split_name(struct bytes text, struct bytes *ret_name, struct bytes *ret_file)
{
	const uint8_t *open = text.len > 0 && text.data[text.len - 1] == ')' ? memchr(text.data, '(', text.len) : NULL;
	*ret_name = text;
	*ret_file = (struct bytes){0};
	if (!open)
		return;
	size_t at = (size_t)(open - text.data);
	*ret_name = (struct bytes){text.data, at};
	*ret_file = (struct bytes){open + 1, text.len - at - 2};
	for (unsigned i = 0; i < 2; i++) {
		size_t len = ret_file->len;
		while (len > 0 && text_is_digit(ret_file->data[len - 1]))
			len--;
		if (len > 0 && len < ret_file->len && ret_file->data[len - 1] == ':')
			ret_file->len = len - 1;
	}
}

static int64_t place_of(const struct json_node *node, const char *name)
{
	int64_t number;
	return number_of(json_node_get(node, name), &number) && number > 0 && number < INT32_MAX ? number : 0;
}

static int add_location(struct reader *reader, const struct json_node *node, uint32_t *ret, struct error *err)
{
	struct format_frame frame = {
		.start_line = place_of(node, "funcLine"), .line = place_of(node, "line"), .column = place_of(node, "column")};
	split_name(json_node_bytes(json_node_get(node, "name")), &frame.name, &frame.file);
	frame.name = frame.name.len ? frame.name : bytes_of_string("(anonymous)");
	frame.type = frame.file.len ? PROFILE_FRAME_INTERPRETED : PROFILE_FRAME_UNKNOWN;
	return format_add_frame(reader->profile, &frame, ret, err);
}

/* The frame above; false at the root, and where that is not there. */
static bool parent_of(struct reader *reader, const struct frame *frame, uint32_t *ret)
{
	const struct json_node *parent = json_node_get(frame->node, "parent");
	int64_t id;
	uint32_t number;
	if (!parent || parent->kind == JSON_NODE_NULL)
		return false;
	if (!number_of(parent, &id) || !format_known(&reader->frame_of_id, (uint64_t)id, &number)) {
		reader->parents++;
		return false;
	}
	*ret = number;
	return true;
}

static bool is_root(const struct json_node *node)
{
	return bytes_equal_string(json_node_bytes(json_node_get(node, "name")), "[root]");
}

static int stack_of(struct reader *reader, uint32_t at, uint32_t *ret, struct error *err)
{
	size_t depth = 0;
	uint32_t stack = 0;
	for (bool more = true; more && !reader->frames[at].done;) {
		if (depth == LIMIT_STACK_DEPTH)
			return error_set(err, -E2BIG, "a stack is deeper than %d frames, the limit, or its own parent",
					 LIMIT_STACK_DEPTH);
		reader->path[depth++] = at;
		more = parent_of(reader, &reader->frames[at], &at);
	}
	if (depth == 0 || reader->frames[at].done)
		stack = reader->frames[at].stack;
	while (depth-- > 0) {
		struct frame *frame = &reader->frames[reader->path[depth]];
		uint32_t location;
		int r = is_root(frame->node) ? 0 : add_location(reader, frame->node, &location, err);
		if (r == 0 && !is_root(frame->node))
			r = profile_add_stack(reader->profile, stack, location, &stack, err);
		if (r < 0)
			return r;
		frame->stack = stack;
		frame->done = true;
	}
	*ret = stack;
	return 0;
}

/* ---- samples ---- */

/* Names of threads stand in events {"ph": "M", "name": "thread_name", "tid", "args": {"name"}}. */
static int read_events(struct reader *reader, const struct json_node *events, struct error *err)
{
	for (size_t i = 0; json_node_is(events, JSON_NODE_ARRAY) && i < events->count; i++) {
		const struct json_node *event = json_node_at(events, i);
		int64_t tid;
		uint32_t name;
		bool is_name = bytes_equal_string(json_node_bytes(json_node_get(event, "name")), "thread_name") &&
			       number_of(json_node_get(event, "tid"), &tid);
		reader->events += !is_name;
		if (!is_name)
			continue;
		int r = profile_add_bytes(reader->profile, json_node_bytes(json_node_get(json_node_get(event, "args"), "name")),
					  &name, err);
		if (r < 0)
			return r;
		if (map64_put(&reader->name_of_tid, (uint64_t)tid, name) < 0)
			return error_nomem(err);
	}
	return 0;
}

static int add_labels(struct reader *reader, int64_t pid, int64_t tid, uint32_t *ret, struct error *err)
{
	struct profile_label labels[3];
	size_t count = 0;
	uint32_t name;
	int r = profile_number_label(reader->profile, reader->tid_key, tid, &labels[count++], err);
	if (r == 0)
		r = profile_number_label(reader->profile, reader->pid_key, pid, &labels[count++], err);
	if (format_known(&reader->name_of_tid, (uint64_t)tid, &name) && name)
		labels[count++] = (struct profile_label){.key = reader->name_key, .value = name};
	return r < 0 ? r : profile_add_label_set(reader->profile, labels, count, ret, err);
}

/* When each sample ends. */
static int find_ends(struct reader *reader, const struct json_node *samples, struct error *err)
{
	reader->ends = mem_zalloc_array(samples->count + 1, sizeof(*reader->ends));
	if (!reader->ends)
		return error_nomem(err);
	for (size_t i = samples->count; i-- > 0;) {
		int64_t tid = 0, at = 0;
		uint64_t next;
		number_of(json_node_get(json_node_at(samples, i), "tid"), &tid);
		if (!time_of(json_node_at(samples, i), &at))
			continue; /* add_sample() leaves it out */
		reader->ends[i] = at;
		if (map64_get(&reader->last_of_thread, (uint64_t)tid, &next) && (int64_t)next > at)
			reader->ends[i] = (int64_t)next;
		if (map64_put(&reader->last_of_thread, (uint64_t)tid, (uint64_t)at) < 0)
			return error_nomem(err);
	}
	return 0;
}

static int add_sample(struct reader *reader, const struct json_node *from, int64_t end_us, struct error *err)
{
	int64_t frame, at = 0, pid = 0, tid = 0;
	struct profile_sample sample = {0};
	uint32_t number;
	if (!number_of(json_node_get(from, "sf"), &frame) || !format_known(&reader->frame_of_id, (uint64_t)frame, &number) ||
	    !time_of(from, &at)) {
		reader->stray++;
		return 0;
	}
	number_of(json_node_get(from, "pid"), &pid);
	number_of(json_node_get(from, "tid"), &tid);
	int64_t values[2] = {1, (end_us - at) * NS_PER_US};
	sample.time_ns = at * NS_PER_US;
	reader->first_us = !reader->first_us || at < reader->first_us ? at : reader->first_us;
	reader->last_us = end_us > reader->last_us ? end_us : reader->last_us;
	int r = stack_of(reader, number, &sample.stack, err);
	if (r == 0)
		r = add_labels(reader, pid, tid, &sample.labels, err);
	return r < 0 ? r : profile_add_sample(reader->profile, &sample, values, err);
}

static int read_all(struct reader *reader, const struct json_node *root, struct error *err)
{
	const struct json_node *samples = json_node_get(root, "samples"), *frames = json_node_get(root, "stackFrames");
	const struct format_string keys[] = {
		{"thread.id", &reader->tid_key}, {"process.pid", &reader->pid_key}, {"thread.name", &reader->name_key}};
	if (!json_node_is(samples, JSON_NODE_ARRAY) || !json_node_is(frames, JSON_NODE_OBJECT))
		return error_set(err, -EBADMSG, "no samples and stackFrames");
	int r = format_add_strings(reader->profile, keys, sizeof(keys) / sizeof(keys[0]), err);
	if (r == 0)
		r = profile_add_named_type(reader->profile, "samples", "count", err);
	if (r == 0)
		r = profile_add_named_type(reader->profile, "wall", "nanoseconds", err);
	if (r == 0)
		r = read_events(reader, json_node_get(root, "traceEvents"), err);
	if (r == 0)
		r = add_frames(reader, frames, err);
	if (r == 0)
		r = find_ends(reader, samples, err);
	for (size_t i = 0; r == 0 && i < samples->count; i++)
		r = add_sample(reader, json_node_at(samples, i), reader->ends[i], err);
	if (r == 0)
		reader->profile->duration_ns = (reader->last_us - reader->first_us) * NS_PER_US;
	return r;
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *json = NULL;
	struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	map64_init_guarded(&reader->frame_of_id);
	map64_init_guarded(&reader->last_of_thread);
	map64_init_guarded(&reader->name_of_tid);
	int r = format_begin_json(input, &json, &reader->profile, err);
	if (r == 0)
		r = read_all(reader, json_tree_root(json), err);
	const struct format_left_out left_out[] = {
		{reader->stray, "samples without a time, or of frames that are not in the file"},
		{reader->parents, "frames: callers, since the parent is not in the file"},
		{reader->events, "events beside the samples"},
	};
	if (r == 0)
		r = format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
	r = format_finish(r, reader->profile, ret);
	map64_release(&reader->frame_of_id);
	map64_release(&reader->last_of_thread);
	map64_release(&reader->name_of_tid);
	mem_free(reader->frames);
	mem_free(reader->ends);
	mem_free(reader);
	return r;
}

/* Frames come last, after any number of samples: "sf" is what samples of no other format have. */
static bool detect(struct bytes input)
{
	return json_looks_like_object(input) && memmem(input.data, input.len, "\"stackFrames\"", 13) &&
	       memmem(input.data, input.len, "\"sf\"", 4);
}

const struct format format_hermes = {
	.name = "hermes",
	.extensions = ".hermes.cpuprofile",
	.description = "sampling profiles of React Native's Hermes",
	.detect = detect,
	.decode = decode,
};
