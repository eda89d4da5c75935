/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stackprof, the sampling profiler of Ruby (github.com/tmm1/stackprof): the hash that StackProf.results gives, as JSON or as
 * Ruby's Marshal has it (ruby_marshal.c).
 *
 *   version 1.x, mode (wall, cpu, object, custom), interval (us; of mode object: allocations), samples, gc_samples,
 *   missed_samples, frames: {ID: {name, file, line, samples, total_samples, edges, lines}},
 *   raw: [depth, ID ... (the root first), count, depth ...], raw_timestamp_deltas, raw_sample_timestamps (us, one a sample)
 *
 * Stacks are in raw only, which `raw: true` records; without it there are functions by themselves.
 */
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/map.h"
#include "base/time.h"
#include "codec/json_tree.h"
#include "format/format_int.h"
#include "format/import/ruby_marshal.h"

#define DETECT_BYTES (64 * KIB)
#define JSON_TIMES   16 /* how much longer Marshal may get as JSON */

struct reader {
	struct profile *profile;
	struct map64 location_of_frame;
	int64_t interval;
	bool is_timed, is_objects;
	const struct json_node *times; /* of samples; NULL = not told */
	size_t sample_number;
	int64_t first_us, last_us;
	uint64_t missing, missed, without_stack;
};

static int add_frame(struct reader *reader, int64_t id, const struct json_node *node, struct error *err)
{
	struct format_frame frame = {.name = json_node_bytes(json_node_get(node, "name")),
				     .file = json_node_bytes(json_node_get(node, "file")),
				     .type = PROFILE_FRAME_INTERPRETED};
	uint32_t location_id;
	int64_t start;
	if (frame.file.len == 0)
		frame.type = PROFILE_FRAME_UNKNOWN; /* "(garbage collection)", functions in C */
	if (json_node_integer(json_node_get(node, "line"), &start) && start > 0 && start < INT32_MAX)
		frame.start_line = frame.line = start;
	int r = format_add_frame(reader->profile, &frame, &location_id, err);
	return r == 0 && map64_put(&reader->location_of_frame, (uint64_t)id, location_id) < 0 ? error_nomem(err) : r;
}

static int add_frames(struct reader *reader, const struct json_node *frames, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < frames->count; i++) {
		int64_t id;
		if (!json_node_integer(&frames->items[2 * i], &id))
			return error_set(err, -EBADMSG, "a frame has the id \"%.40s\"", json_node_text(&frames->items[2 * i]));
		r = add_frame(reader, id, &frames->items[2 * i + 1], err);
	}
	return r;
}

/* ---- samples ---- */

static int add_sample(struct reader *reader, uint32_t stack, int64_t count, int64_t time_us, struct error *err)
{
	struct profile_sample sample = {.stack = stack};
	int64_t values[2] = {count, 0};
	if (__builtin_mul_overflow(count, reader->interval, &values[1]) ||
	    (reader->is_timed && __builtin_mul_overflow(values[1], NS_PER_US, &values[1])))
		return error_set(err, -EBADMSG, "a count of %lld samples is out of range", (long long)count);
	if (time_us > 0 && time_us < INT64_MAX / NS_PER_US) {
		sample.time_ns = time_us * NS_PER_US;
		reader->first_us = reader->first_us && reader->first_us < time_us ? reader->first_us : time_us;
		reader->last_us = time_us > reader->last_us ? time_us : reader->last_us;
	}
	return profile_add_sample(reader->profile, &sample, values, err);
}

/* Each with its time, where there are times for all of them. */
static int add_samples(struct reader *reader, uint32_t stack, int64_t count, struct error *err)
{
	int r = 0;
	if ((uint64_t)count > json_node_count(reader->times) - reader->sample_number) {
		reader->sample_number = json_node_count(reader->times);
		return add_sample(reader, stack, count, 0, err);
	}
	for (int64_t i = 0; r == 0 && i < count; i++) {
		int64_t time_us = 0;
		json_node_integer(json_node_at(reader->times, reader->sample_number++), &time_us);
		r = add_sample(reader, stack, 1, time_us, err);
	}
	return r;
}

static int read_raw(struct reader *reader, const struct json_node *raw, struct error *err)
{
	for (size_t at = 0; at < raw->count;) {
		int64_t depth, id, count;
		uint32_t stack = 0, location;
		if (!json_node_integer(json_node_at(raw, at++), &depth) || depth < 0 || (uint64_t)depth >= raw->count - at)
			return error_set(err, -EBADMSG, "raw, entry %zu: the stack does not fit", at - 1);
		if (depth > LIMIT_STACK_DEPTH)
			return error_set(err, -E2BIG, "the stack is deeper than %d frames, the limit", LIMIT_STACK_DEPTH);
		for (int64_t i = 0; i < depth; i++) {
			bool is_known = json_node_integer(json_node_at(raw, at++), &id) &&
					format_known(&reader->location_of_frame, (uint64_t)id, &location);
			reader->missing += !is_known;
			int r = is_known ? profile_add_stack(reader->profile, stack, location, &stack, err) : 0;
			if (r < 0)
				return r;
		}
		if (!json_node_integer(json_node_at(raw, at++), &count) || count < 0)
			return error_set(err, -EBADMSG, "raw, entry %zu: the count is no number", at - 1);
		int r = count ? add_samples(reader, stack, count, err) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

/* Functions by themselves. */
static int read_functions(struct reader *reader, const struct json_node *frames, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < frames->count; i++) {
		int64_t id, count;
		uint32_t stack, location;
		if (!json_node_integer(json_node_get(&frames->items[2 * i + 1], "samples"), &count) || count <= 0 ||
		    !json_node_integer(&frames->items[2 * i], &id) ||
		    !format_known(&reader->location_of_frame, (uint64_t)id, &location))
			continue;
		reader->without_stack += (uint64_t)count;
		r = profile_add_stack(reader->profile, 0, location, &stack, err);
		if (r == 0)
			r = add_sample(reader, stack, count, 0, err);
	}
	return r;
}

/* ---- all ---- */

static int add_types(struct reader *reader, const struct json_node *root, struct error *err)
{
	struct bytes mode = json_node_bytes(json_node_get(root, "mode"));
	struct profile_value_type type;
	if (!json_node_integer(json_node_get(root, "interval"), &reader->interval) || reader->interval <= 0)
		reader->interval = 1;
	reader->is_objects = bytes_equal_string(mode, "object");
	reader->is_timed = bytes_equal_string(mode, "wall") || bytes_equal_string(mode, "cpu");
	int r = profile_add_named_type(reader->profile, "samples", "count", err);
	if (r == 0 && reader->is_objects)
		mode = bytes_of_string("alloc_objects");
	if (r == 0)
		r = profile_add_bytes(reader->profile, mode.len ? mode : bytes_of_string("events"), &type.type, err);
	if (r == 0)
		r = profile_add_cstring(reader->profile, reader->is_timed ? "nanoseconds" : "count", &type.unit, err);
	if (r == 0)
		r = profile_add_sample_type(reader->profile, type.type, type.unit, err);
	if (r < 0)
		return r;
	reader->profile->period_type = type;
	reader->profile->period = reader->interval;
	if (reader->is_timed && __builtin_mul_overflow(reader->interval, NS_PER_US, &reader->profile->period))
		return error_set(err, -EBADMSG, "an interval of %lld us is out of range", (long long)reader->interval);
	return 0;
}

static int read_all(struct reader *reader, const struct json_node *root, struct error *err)
{
	const struct json_node *frames = json_node_get(root, "frames"), *raw = json_node_get(root, "raw");
	const struct json_node *times = json_node_get(root, "raw_sample_timestamps");
	int64_t missed = 0;
	if (!json_node_is(frames, JSON_NODE_OBJECT))
		return error_set(err, -EBADMSG, "no object frames");
	json_node_integer(json_node_get(root, "missed_samples"), &missed);
	reader->missed = missed > 0 ? (uint64_t)missed : 0;
	if (json_node_is(times, JSON_NODE_ARRAY) && times->count > 0)
		reader->times = times;
	int r = add_types(reader, root, err);
	if (r == 0)
		r = add_frames(reader, frames, err);
	if (r == 0)
		r = json_node_is(raw, JSON_NODE_ARRAY) ? read_raw(reader, raw, err) : read_functions(reader, frames, err);
	if (r == 0 && reader->last_us) {
		reader->profile->duration_ns = (reader->last_us - reader->first_us) * NS_PER_US;
		reader->profile->monotonic_ns = PROFILE_OTHER_CLOCK;
	}
	return r;
}

static int note(const struct reader *reader, const struct format_options *options, struct error *err)
{
	const struct format_left_out left_out[] = {
		{reader->missed, "samples that were missed while recording"},
		{reader->missing, "frames of stacks that are not in the file"},
		{reader->without_stack, "samples: callers, which the file does not have (raw: true records them)"},
	};
	return format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *json = NULL;
	size_t most = options && options->decompressed_max ? options->decompressed_max : LIMIT_PROFILE_INPUT_BYTES;
	_cleanup_(buffer_release) struct buffer text = {.max = input.len < most / JSON_TIMES ? input.len * JSON_TIMES + KIB
											     : most};
	struct reader reader = {0};
	int r = 0;
	map64_init_guarded(&reader.location_of_frame);
	if (ruby_marshal_detect(input)) {
		r = ruby_marshal_to_json(input, &text, err);
		input = buffer_bytes(&text);
	}
	if (r == 0)
		r = format_begin_json(input, &json, &reader.profile, err);
	if (r == 0)
		r = read_all(&reader, json_tree_root(json), err);
	if (r == 0)
		r = note(&reader, options, err);
	map64_release(&reader.location_of_frame);
	return format_finish(r, reader.profile, ret);
}

static bool detect(struct bytes input)
{
	size_t len = input.len < DETECT_BYTES ? input.len : DETECT_BYTES;
	if (!ruby_marshal_detect(input) && !json_looks_like_object(input))
		return false;
	return memmem(input.data, len, "gc_samples", 10) && memmem(input.data, len, "missed_samples", 14);
}

const struct format format_stackprof = {
	.name = "stackprof",
	.extensions = ".stackprof .dump",
	.description = "stackprof, of Ruby: JSON, or Marshal",
	.detect = detect,
	.decode = decode,
};
