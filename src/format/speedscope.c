/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speedscope's file format (https://www.speedscope.app/file-format-schema.json): frames that all share, and profiles, each of
 * one unit, either "sampled" (stacks root first, and a weight for each) or "evented" (frames opened and closed at times).
 *
 * Reading. Each sample keeps its weight; time units become nanoseconds, rounded. Of an evented profile each stretch between two
 * events is a sample, with its time, which counts from 1970, since the file has no date. A file of several profiles tells
 * their samples apart by the label thread.name. Events that do not nest, or go back in time, or leave frames open are refused,
 * as speedscope itself does.
 *
 * Writing. A profile for each thread and value, of the name "TYPE: THREAD [TID]". Units that the format does not know are
 * "none"; a member "wick", which other programs ignore, has type, unit and thread, so that they come back as they were.
 * Samples of a thread come in the order of their times, if they have any; how far they are apart has no place. The largest
 * profiles come first, since speedscope shows the first, and people look at a few.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "codec/json.h"
#include "codec/json_tree.h"
#include "format/format_int.h"

#define SCHEMA	 "https://www.speedscope.app/file-format-schema.json"
#define EXPORTER "wick"
#define OWN	 "wick" /* of a profile: what the format has no place for; others ignore it */

/* What of a thread stands there. */
static const char *const own_labels[] = {"process.pid", "thread.id", "process.executable.name", "thread.name"};
#define OWN_LABELS (sizeof(own_labels) / sizeof(own_labels[0]))

/* ---- units ---- */

static const struct unit {
	const char *name, *type, *unit; /* in the file, here */
	double scale;
} units[] = {
	{"none", "samples", "count", 1},
	{"nanoseconds", "time", "nanoseconds", 1},
	{"microseconds", "time", "nanoseconds", 1e3},
	{"milliseconds", "time", "nanoseconds", 1e6},
	{"seconds", "time", "nanoseconds", 1e9},
	{"bytes", "space", "bytes", 1},
};

static const struct unit *find_unit(const char *name)
{
	for (size_t i = 0; name && i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(units[i].name, name) == 0)
			return &units[i];
	return NULL;
}

/* ---- reading ---- */

struct reader {
	struct profile *profile;
	const struct json_node *profiles;
	uint32_t *locations; /* by frame of the file */
	size_t frame_count;
	int64_t *values; /* of a sample */
	uint32_t thread_key;
	struct {
		uint32_t type, unit;
	} kinds[LIMIT_SAMPLE_TYPES];
	size_t kind_count;
	/* of the profile being read */
	const struct unit *unit;
	size_t kind;
	uint32_t labels;
	uint32_t stack[LIMIT_STACK_DEPTH]; /* trie nodes of the frames that are open, and their frames */
	uint64_t open[LIMIT_STACK_DEPTH];
	uint64_t missing; /* frames that stacks refer to */
};

static int read_frame(struct reader *reader, const struct json_node *frame, uint32_t *ret, struct error *err)
{
	struct profile_function function = {0};
	struct profile_line line = {0};
	struct profile_location location = {0};
	if (!json_node_text(json_node_get(frame, "name")))
		return error_set(err, -EBADMSG, "no name");
	const struct format_string texts[] = {{"name", &function.name}, {"file", &function.file_name}};
	int r = format_add_members(reader->profile, frame, texts, 2, err);
	if (r == 0)
		r = profile_add_function(reader->profile, &function, &line.function, err);
	if (r < 0)
		return r;
	json_node_integer(json_node_get(frame, "line"), &line.line);
	json_node_integer(json_node_get(frame, "col"), &line.column);
	return profile_add_location(reader->profile, &location, &line, 1, ret, err);
}

static int read_frames(struct reader *reader, const struct json_node *frames, struct error *err)
{
	if (!json_node_is(frames, JSON_NODE_ARRAY))
		return error_set(err, -EBADMSG, "no array shared.frames");
	reader->frame_count = frames->count;
	reader->locations = mem_alloc_array(frames->count, sizeof(*reader->locations));
	if (!reader->locations)
		return error_nomem(err);
	for (size_t i = 0; i < frames->count; i++) {
		int r = read_frame(reader, json_node_at(frames, i), &reader->locations[i], err);
		if (r < 0)
			return error_prefix(err, r, "frame %zu", i);
	}
	return 0;
}

/* The value that a profile of the file has, added when it is the first of its kind. */
static int find_kind(struct reader *reader, struct bytes type, struct bytes unit, size_t *ret, struct error *err)
{
	uint32_t type_id, unit_id;
	int r = profile_add_bytes(reader->profile, type, &type_id, err);
	if (r == 0)
		r = profile_add_bytes(reader->profile, unit, &unit_id, err);
	if (r < 0)
		return r;
	for (*ret = 0; *ret < reader->kind_count; ++*ret)
		if (reader->kinds[*ret].type == type_id && reader->kinds[*ret].unit == unit_id)
			return 0;
	if (reader->kind_count == LIMIT_SAMPLE_TYPES)
		return error_set(err, -E2BIG, "profiles of more than %d kinds", LIMIT_SAMPLE_TYPES);
	reader->kinds[reader->kind_count].type = type_id;
	reader->kinds[reader->kind_count++].unit = unit_id;
	return 0;
}

/* What we ourselves wrote of a thread. */
static int read_own_labels(struct reader *reader, const struct json_node *own, struct error *err)
{
	struct profile_label labels[OWN_LABELS] = {0};
	size_t count = 0;
	for (size_t i = 0; i < OWN_LABELS; i++) {
		const struct json_node *node = json_node_get(own, own_labels[i]);
		struct profile_label *label = &labels[count];
		int64_t number;
		bool is_text = json_node_text(node);
		if (!is_text && !json_node_integer(node, &number))
			continue;
		int r = profile_add_cstring(reader->profile, own_labels[i], &label->key, err);
		if (r == 0 && is_text)
			r = profile_add_bytes(reader->profile, json_node_bytes(node), &label->value, err);
		else if (r == 0)
			r = profile_number_label(reader->profile, label->key, number, label, err);
		if (r < 0)
			return r;
		count++;
	}
	return profile_add_label_set(reader->profile, labels, count, &reader->labels, err);
}

/* Its unit, kind and labels. */
static int begin_profile(struct reader *reader, const struct json_node *node, struct error *err)
{
	static const struct unit own_unit = {"", "", "", 1};
	const struct json_node *own = json_node_get(node, OWN);
	struct bytes name = json_node_bytes(json_node_get(node, "name"));
	const char *unit = json_node_text(json_node_get(node, "unit"));
	struct profile_label label = {.key = reader->thread_key};
	if (json_node_is(own, JSON_NODE_OBJECT)) {
		reader->unit = &own_unit;
		int r = find_kind(reader, json_node_bytes(json_node_get(own, "type")),
				  json_node_bytes(json_node_get(own, "unit")), &reader->kind, err);
		return r < 0 ? r : read_own_labels(reader, own, err);
	}
	reader->unit = find_unit(unit ? unit : "none");
	if (!reader->unit)
		return error_set(err, -EBADMSG, "the unit '%.40s' is unknown", unit);
	int r = find_kind(reader, bytes_of_string(reader->unit->type), bytes_of_string(reader->unit->unit), &reader->kind, err);
	if (r == 0)
		r = profile_add_bytes(reader->profile, name, &label.value, err);
	bool labelled = reader->profiles->count > 1 && name.len > 0;
	return r < 0 ? r : profile_add_label_set(reader->profile, &label, labelled, &reader->labels, err);
}

/* A weight or a time of the file, here. */
static int convert(const struct reader *reader, const struct json_node *node, int64_t *ret, struct error *err)
{
	double value;
	if (json_node_is(node, JSON_NODE_INTEGER) && reader->unit->scale == 1) {
		*ret = node->integer;
		return 0;
	}
	if (!json_node_real(node, &value))
		return error_set(err, -EBADMSG, "a weight or time is not a number");
	value = round(value * reader->unit->scale);
	if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0))
		return error_set(err, -EBADMSG, "a weight or time is out of range");
	*ret = (int64_t)value;
	return 0;
}

static int add_sample(struct reader *reader, uint32_t stack, int64_t time_ns, int64_t value, struct error *err)
{
	struct profile_sample sample = {.stack = stack, .labels = reader->labels, .time_ns = time_ns};
	if (value == 0)
		return 0;
	reader->values[reader->kind] = value;
	int r = profile_add_sample(reader->profile, &sample, reader->values, err);
	reader->values[reader->kind] = 0;
	return r;
}

static int push_frame(struct reader *reader, const struct json_node *node, uint32_t parent, uint32_t *ret, struct error *err)
{
	int64_t frame;
	if (!json_node_integer(node, &frame) || frame < 0 || (uint64_t)frame >= reader->frame_count) {
		reader->missing++;
		*ret = parent;
		return 0;
	}
	return profile_add_stack(reader->profile, parent, reader->locations[frame], ret, err);
}

static int read_sampled(struct reader *reader, const struct json_node *node, struct error *err)
{
	const struct json_node *samples = json_node_get(node, "samples"), *weights = json_node_get(node, "weights");
	if (!json_node_is(samples, JSON_NODE_ARRAY) || !json_node_is(weights, JSON_NODE_ARRAY))
		return error_set(err, -EBADMSG, "no arrays samples and weights");
	if (samples->count != weights->count)
		return error_set(err, -EBADMSG, "%u samples, but %u weights", samples->count, weights->count);
	for (size_t i = 0; i < samples->count; i++) {
		const struct json_node *frames = json_node_at(samples, i);
		uint32_t stack = 0;
		int64_t value;
		int r = convert(reader, json_node_at(weights, i), &value, err);
		if (r == 0 && !json_node_is(frames, JSON_NODE_ARRAY))
			r = error_set(err, -EBADMSG, "a stack is not an array");
		if (r == 0 && frames->count > LIMIT_STACK_DEPTH)
			r = error_set(err, -E2BIG, "the stack is deeper than %d frames, the limit", LIMIT_STACK_DEPTH);
		for (size_t k = 0; r == 0 && k < frames->count; k++)
			r = push_frame(reader, json_node_at(frames, k), stack, &stack, err);
		if (r == 0)
			r = add_sample(reader, stack, 0, value, err);
		if (r < 0)
			return error_prefix(err, r, "sample %zu", i);
	}
	return 0;
}

/* Opens or closes a frame. */
static int read_event(struct reader *reader, const struct json_node *event, size_t *depth, struct error *err)
{
	const char *type = json_node_text(json_node_get(event, "type"));
	const struct json_node *frame = json_node_get(event, "frame");
	int64_t number = -1;
	if (type && strcmp(type, "O") == 0) {
		if (*depth == LIMIT_STACK_DEPTH)
			return error_set(err, -E2BIG, "the stack is deeper than %d frames, the limit", LIMIT_STACK_DEPTH);
		int r = push_frame(reader, frame, *depth ? reader->stack[*depth - 1] : 0, &reader->stack[*depth], err);
		json_node_integer(frame, &number);
		reader->open[(*depth)++] = (uint64_t)number;
		return r;
	}
	if (!type || strcmp(type, "C") != 0)
		return error_set(err, -EBADMSG, "it neither opens nor closes a frame");
	if (!json_node_integer(frame, &number) || *depth == 0 || reader->open[*depth - 1] != (uint64_t)number)
		return error_set(err, -EBADMSG, "it closes a frame that is not the innermost one");
	--*depth;
	return 0;
}

static int read_evented(struct reader *reader, const struct json_node *node, struct error *err)
{
	const struct json_node *events = json_node_get(node, "events");
	bool is_time = strcmp(reader->unit->type, "time") == 0;
	size_t depth = 0;
	int64_t before = INT64_MIN;
	if (!json_node_is(events, JSON_NODE_ARRAY))
		return error_set(err, -EBADMSG, "no array events");
	for (size_t i = 0; i < events->count; i++) {
		const struct json_node *event = json_node_at(events, i);
		int64_t at, value;
		int r = convert(reader, json_node_get(event, "at"), &at, err);
		if (r == 0 && at < before)
			r = error_set(err, -EBADMSG, "it is earlier than the previous event");
		if (r == 0 && depth > 0 && __builtin_sub_overflow(at, before, &value))
			r = error_set(err, -EBADMSG, "a time is out of range");
		if (r == 0 && depth > 0)
			r = add_sample(reader, reader->stack[depth - 1], is_time && before > 0 ? before : 0, value, err);
		if (r == 0)
			r = read_event(reader, event, &depth, err);
		if (r < 0)
			return error_prefix(err, r, "event %zu", i);
		before = at;
	}
	return depth == 0 ? 0 : error_set(err, -EBADMSG, "%zu frames are open at its end", depth);
}

static int read_profile(struct reader *reader, const struct json_node *node, struct error *err)
{
	const char *type = json_node_text(json_node_get(node, "type"));
	int r = begin_profile(reader, node, err);
	if (r < 0)
		return r;
	if (type && strcmp(type, "sampled") == 0)
		return read_sampled(reader, node, err);
	if (type && strcmp(type, "evented") == 0)
		return read_evented(reader, node, err);
	return error_set(err, -EBADMSG, "its type must be sampled or evented");
}

/* Values have as many columns as there are kinds, which must be known before the first sample. The profile that speedscope
 * would show first has the kind that is shown first here. */
static int read_kinds(struct reader *reader, int64_t active, struct error *err)
{
	size_t shown = 0;
	for (size_t i = 0; i < reader->profiles->count; i++) {
		int r = begin_profile(reader, json_node_at(reader->profiles, i), err);
		if (r < 0)
			return error_prefix(err, r, "profile %zu", i);
		shown = (int64_t)i == active ? reader->kind : shown;
	}
	reader->profile->default_sample_type = reader->kinds[shown].type;
	for (size_t i = 0; i < reader->kind_count; i++) {
		int r = profile_add_sample_type(reader->profile, reader->kinds[i].type, reader->kinds[i].unit, err);
		if (r < 0)
			return r;
	}
	reader->values = mem_zalloc_array(reader->kind_count, sizeof(*reader->values));
	return reader->values ? 0 : error_nomem(err);
}

static int read_all(struct reader *reader, const struct json_node *root, struct error *err)
{
	int64_t active = 0;
	json_node_integer(json_node_get(root, "activeProfileIndex"), &active);
	reader->profiles = json_node_get(root, "profiles");
	if (!json_node_is(reader->profiles, JSON_NODE_ARRAY) || reader->profiles->count == 0)
		return error_set(err, -EBADMSG, "no array of profiles");
	int r = profile_add_cstring(reader->profile, "thread.name", &reader->thread_key, err);
	if (r == 0)
		r = read_frames(reader, json_node_get(json_node_get(root, "shared"), "frames"), err);
	if (r == 0)
		r = read_kinds(reader, active, err);
	for (size_t i = 0; r == 0 && i < reader->profiles->count; i++) {
		r = read_profile(reader, json_node_at(reader->profiles, i), err);
		if (r < 0)
			return error_prefix(err, r, "profile %zu", i);
	}
	/* Our own files have a profile for each value of the same samples. */
	return r < 0 || reader->kind_count == 1 ? r : profile_aggregate(reader->profile, err);
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	int r = format_begin_json(input, &tree, &reader->profile, err);
	if (r == 0)
		r = read_all(reader, json_tree_root(tree), err);
	if (r == 0)
		r = format_note(options, &(struct format_left_out){reader->missing, "frames of stacks that are missing"}, 1,
				err);
	r = format_finish(r, reader->profile, ret);
	mem_free(reader->locations);
	mem_free(reader->values);
	mem_free(reader);
	return r;
}

/* Without the schema's address it would be any JSON. It stands first or last; frames may come before it. */
static bool detect(struct bytes input)
{
	return json_looks_like_object(input) && memmem(input.data, input.len, SCHEMA, strlen(SCHEMA));
}

/* ---- writing ---- */

/* A frame of the file: a line, or a location without lines. */
struct frame {
	uint32_t function, location; /* one of them is 0 */
	int64_t line, column;
};

struct writer {
	const struct profile *profile;
	struct json_writer json;
	struct format_sink *sink;
	int flushed; /* what the sink returned last */
	struct error *err;
	struct frame *frames;
	size_t frame_count, frame_capacity;
	struct index32 frame_index;
	uint32_t *frame_of_line, *frame_of_location; /* by number + 1 and id; lines: [i] is of profile->lines[i] */
	struct sample_threads threads;
	uint32_t stack[LIMIT_STACK_DEPTH];
	struct buffer text;
};

static int add_frame(struct writer *writer, const struct frame *frame, uint32_t *ret)
{
	uint64_t parts[3] = {(uint64_t)frame->function << 32 | frame->location, (uint64_t)frame->line, (uint64_t)frame->column};
	uint64_t hash = hash64_guarded(parts, sizeof(parts));
	for (size_t at = index32_first(&writer->frame_index, hash); index32_at(&writer->frame_index, hash, &at, ret); at++) {
		const struct frame *known = &writer->frames[*ret];
		if (known->function == frame->function && known->location == frame->location && known->line == frame->line &&
		    known->column == frame->column)
			return 0;
	}
	int r = array_reserve(&writer->frames, &writer->frame_capacity, writer->frame_count + 1, UINT32_MAX);
	if (r == 0)
		r = index32_add(&writer->frame_index, hash, (uint32_t)writer->frame_count);
	if (r < 0)
		return r;
	*ret = (uint32_t)writer->frame_count;
	writer->frames[writer->frame_count++] = *frame;
	return 0;
}

static int number_frames(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	writer->frame_of_line = mem_alloc_array(profile->line_count, sizeof(*writer->frame_of_line));
	writer->frame_of_location = mem_alloc_array(profile->location_count, sizeof(*writer->frame_of_location));
	if (!writer->frame_of_line || !writer->frame_of_location)
		return -ENOMEM;
	int r = 0;
	for (uint32_t i = 1; r == 0 && i < profile->location_count; i++) {
		const struct profile_location *location = &profile->locations[i];
		if (location->line_count == 0)
			r = add_frame(writer, &(struct frame){.location = i}, &writer->frame_of_location[i]);
		for (uint32_t k = 0; r == 0 && k < location->line_count; k++) {
			const struct profile_line *line = &profile->lines[location->line_first + k];
			r = add_frame(writer, &(struct frame){line->function, 0, line->line, line->column},
				      &writer->frame_of_line[location->line_first + k]);
		}
	}
	return r;
}

static void write_frame(struct writer *writer, const struct frame *frame)
{
	const struct profile *profile = writer->profile;
	struct json_writer *json = &writer->json;
	buffer_clear(&writer->text);
	buffer_fail(json->out, frame->location ? format_append_address(profile, frame->location, &writer->text)
					       : format_append_function(profile, frame->function, &writer->text));
	json_begin_object(json);
	json_member_bytes(json, "name", buffer_bytes(&writer->text));
	uint32_t file = frame->location ? 0 : profile->functions[frame->function].file_name;
	if (file)
		json_member_bytes(json, "file", profile_string_bytes(profile, file));
	if (frame->line)
		json_member_int(json, "line", frame->line);
	if (frame->line && frame->column)
		json_member_int(json, "col", frame->column);
	json_end_object(json);
}

/* Root first; the outermost function of a location before those that are inlined into it. */
static void write_stack(struct writer *writer, uint32_t stack)
{
	const struct profile *profile = writer->profile;
	size_t depth = profile_stack_locations(profile, stack, writer->stack, LIMIT_STACK_DEPTH);
	json_begin_array(&writer->json);
	for (size_t i = depth < LIMIT_STACK_DEPTH ? depth : LIMIT_STACK_DEPTH; i-- > 0;) {
		const struct profile_location *location = &profile->locations[writer->stack[i]];
		if (location->line_count == 0)
			json_uint(&writer->json, writer->frame_of_location[writer->stack[i]]);
		for (uint32_t k = location->line_count; k-- > 0;)
			json_uint(&writer->json, writer->frame_of_line[location->line_first + k]);
	}
	json_end_array(&writer->json);
}

static void append_thread_name(struct writer *writer, const struct sample_thread *thread)
{
	struct buffer *out = &writer->text;
	struct bytes name = profile_string_bytes(writer->profile, thread->name ? thread->name : thread->process),
		     host = profile_string_bytes(writer->profile, thread->host);
	int64_t id = thread->has_tid ? thread->tid : thread->pid;
	bool has_id = thread->has_tid || thread->has_pid;
	if (name.len == 0 && !has_id)
		return;
	buffer_append_string(out, ": ");
	if (host.len)
		buffer_printf(out, "%.*s: ", (int)host.len, (const char *)host.data);
	buffer_append(out, name.data, name.len);
	if (has_id)
		buffer_printf(out, "%s[%lld]", name.len ? " " : "", (long long)id);
}

static const char *unit_name(const struct profile *profile, size_t type)
{
	const char *unit = profile_string(profile, profile->sample_types[type].unit);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(units[i].name, unit) == 0)
			return units[i].name;
	return "none";
}

static int64_t value_of(const struct writer *writer, size_t sample, size_t type)
{
	return writer->profile->values[sample * writer->profile->sample_type_count + type];
}

static void write_own(struct writer *writer, const struct sample_thread *thread, size_t type)
{
	const struct profile *profile = writer->profile;
	struct json_writer *json = &writer->json;
	const int64_t numbers[] = {thread->pid, thread->tid};
	const bool has_number[] = {thread->has_pid, thread->has_tid};
	const uint32_t texts[] = {thread->process_is_comm ? 0 : thread->process, thread->name};
	json_member_object(json, OWN);
	json_member_bytes(json, "type", profile_string_bytes(profile, profile->sample_types[type].type));
	json_member_bytes(json, "unit", profile_string_bytes(profile, profile->sample_types[type].unit));
	for (size_t i = 0; i < 2; i++) {
		if (has_number[i])
			json_member_int(json, own_labels[i], numbers[i]);
		if (texts[i])
			json_member_bytes(json, own_labels[2 + i], profile_string_bytes(profile, texts[i]));
	}
	json_end_object(json);
}

static void write_profile(struct writer *writer, const struct sample_thread *thread, size_t type)
{
	const struct profile *profile = writer->profile;
	const uint32_t *order = writer->threads.order + thread->first;
	struct json_writer *json = &writer->json;
	int64_t end = 0;
	buffer_clear(&writer->text);
	struct bytes kind = profile_string_bytes(profile, profile->sample_types[type].type);
	buffer_append(&writer->text, kind.data, kind.len);
	append_thread_name(writer, thread);
	buffer_fail(json->out, buffer_status(&writer->text));
	json_begin_object(json);
	json_member_cstring(json, "type", "sampled");
	json_member_bytes(json, "name", buffer_bytes(&writer->text));
	json_member_cstring(json, "unit", unit_name(profile, type));
	write_own(writer, thread, type);
	json_member_array(json, "samples");
	for (size_t i = 0; i < thread->count; i++)
		if (value_of(writer, order[i], type))
			write_stack(writer, profile->samples[order[i]].stack);
	json_end_array(json);
	json_member_array(json, "weights");
	for (size_t i = 0; i < thread->count; i++) {
		int64_t value = value_of(writer, order[i], type);
		sum_to(&end, value);
		if (value)
			json_int(json, value);
	}
	json_end_array(json);
	json_member_int(json, "startValue", 0);
	json_member_int(json, "endValue", end);
	json_end_object(json);
}

static bool has_values(const struct writer *writer, const struct sample_thread *thread, size_t type)
{
	for (size_t i = 0; i < thread->count; i++)
		if (value_of(writer, writer->threads.order[thread->first + i], type))
			return true;
	return false;
}

DEFINE_ORDER(compare_counts, struct sample_thread, ORDER(b->count, a->count) ?: ORDER(a->first, b->first));

/* The default value first, for the same reason. */
static void write_profiles(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	size_t first = profile_default_sample_type(profile), written = 0;
	sort_array(writer->threads.items, writer->threads.count, compare_counts);
	for (size_t n = 0; n < profile->sample_type_count; n++) {
		size_t type = n == 0 ? first : n <= first ? n - 1 : n;
		for (size_t t = 0; t < writer->threads.count; t++) {
			if (!has_values(writer, &writer->threads.items[t], type))
				continue;
			write_profile(writer, &writer->threads.items[t], type);
			written++;
		}
	}
	/* The format demands one. */
	if (written == 0)
		write_profile(writer, &(struct sample_thread){0}, first);
}

static int write_all(struct writer *writer, struct error *err)
{
	struct json_writer *json = &writer->json;
	int r = sample_threads_build(writer->profile, &writer->threads, err);
	if (r < 0)
		return r;
	buffer_fail(json->out, number_frames(writer));
	json_begin_object(json);
	json_member_cstring(json, "$schema", SCHEMA);
	json_member_cstring(json, "exporter", EXPORTER);
	json_member_object(json, "shared");
	json_member_array(json, "frames");
	for (size_t i = 0; i < writer->frame_count; i++)
		write_frame(writer, &writer->frames[i]);
	json_end_array(json);
	json_end_object(json);
	json_member_array(json, "profiles");
	if (buffer_status(json->out) == 0)
		write_profiles(writer);
	json_end_array(json);
	json_end_object(json);
	r = json_finish(json, NULL);
	if (writer->flushed < 0) /* with an error of its own */
		return writer->flushed;
	return r < 0 ? format_buffer_error(r, json->out, "the speedscope output", err) : 0;
}

static int drain(void *context)
{
	struct writer *writer = context;
	writer->flushed = format_sink_drain(writer->sink, false, writer->err);
	return writer->flushed;
}

static int write(const struct profile *profile, const struct format_options *options, struct format_sink *sink,
		 struct error *err)
{
	struct writer *writer = mem_zalloc(sizeof(*writer));
	size_t before = sink->out->len;
	if (!writer)
		return error_nomem(err);
	writer->profile = profile;
	buffer_init(&writer->text, SIZE_MAX);
	writer->sink = sink;
	writer->err = err;
	writer->json = (struct json_writer){.out = sink->out, .drain = drain, .context = writer};
	int r = profile->sample_type_count ? write_all(writer, err) : error_set(err, -EINVAL, "the profile has no values");
	if (r < 0 && before < sink->out->len) /* some may have been drained */
		buffer_truncate(sink->out, before);
	sample_threads_release(&writer->threads);
	index32_release(&writer->frame_index);
	buffer_release(&writer->text);
	mem_free(writer->frames);
	mem_free(writer->frame_of_line);
	mem_free(writer->frame_of_location);
	mem_free(writer);
	return r;
}

const struct format format_speedscope = {
	.name = "speedscope",
	.extensions = ".speedscope.json .speedscope",
	.description = "speedscope's JSON: speedscope.app, rbspy, py-spy",
	.holds = FORMAT_HOLDS_TYPES | FORMAT_HOLDS_THREADS | FORMAT_HOLDS_FILES | FORMAT_HOLDS_LINES,
	.detect = detect,
	.decode = decode,
	.write = write,
};
