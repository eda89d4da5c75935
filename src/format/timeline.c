/* SPDX-License-Identifier: Apache-2.0 */
/* What is small here and what is large there: see timeline.h. Texts are numbered when they are first used. */
#include "format/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/order.h"
#include "base/text.h"
#include "codec/protobuf.h"
#include "format/format_int.h"
#include "profile/markers.h"

enum { KIND_FLOW_ENDS = 4, KIND_OF_PROCESS = 8 };

/* What is later than end_ns is left out, and of what is at end_ns those whose number is not below number_end. */
struct limit {
	int64_t end_ns;
	uint32_t number_end;
};

struct timeline {
	const struct profile *profile;
	struct sample_threads threads;
	int64_t start_ns, end_ns;
	struct limit sample_limit, marker_limit;
	uint32_t untimed_end; /* of samples without a time, those from this number on are left out */
	size_t samples, markers, samples_out, untimed_out, markers_out;
	uint32_t *number_of_stack; /* + 1 */
	uint32_t *stacks;
	size_t stack_count;
	uint32_t *number_of_string; /* + 1 */
	uint32_t *strings;
	size_t string_count;
	struct map64 flows;
};

struct timeline *timeline_free(struct timeline *timeline)
{
	if (!timeline)
		return NULL;
	sample_threads_release(&timeline->threads);
	mem_free(timeline->number_of_stack);
	mem_free(timeline->stacks);
	mem_free(timeline->number_of_string);
	mem_free(timeline->strings);
	map64_release(&timeline->flows);
	return mem_free(timeline);
}

/* ---- what is in it ---- */

static const struct profile_marker *marker_at(const struct timeline *timeline, uint32_t number)
{
	return &timeline->profile->markers->markers[number];
}

static int64_t time_of_marker(const struct profile_marker *marker)
{
	return marker->phase == PROFILE_MARKER_END ? marker->end_ns : marker->start_ns;
}

static bool is_within(const struct limit *limit, int64_t time_ns, uint32_t number)
{
	return time_ns < limit->end_ns || (time_ns == limit->end_ns && number < limit->number_end);
}

static bool has_sample(const struct timeline *timeline, uint32_t sample)
{
	int64_t time_ns = timeline->profile->samples[sample].time_ns;
	return time_ns ? is_within(&timeline->sample_limit, time_ns, sample) : sample < timeline->untimed_end;
}

static bool has_marker(const struct timeline *timeline, uint32_t number)
{
	return is_within(&timeline->marker_limit, time_of_marker(marker_at(timeline, number)), number);
}

/* False: it has none. */
typedef bool (*time_function)(const struct timeline *timeline, uint32_t number, int64_t *ret_ns);

static bool time_if_sample(const struct timeline *timeline, uint32_t number, int64_t *ret_ns)
{
	*ret_ns = timeline->profile->samples[number].time_ns;
	return *ret_ns != 0;
}

static bool time_if_marker(const struct timeline *timeline, uint32_t number, int64_t *ret_ns)
{
	*ret_ns = time_of_marker(marker_at(timeline, number));
	return true;
}

DEFINE_ORDER(compare_numbers, int64_t, ORDER(*a, *b));

/* The limit that keeps the `max` earliest of those with a time. times: room for `count`. Returns how many have a time. */
static size_t find_limit(const struct timeline *timeline, uint32_t count, size_t max, time_function time_of, int64_t *times,
			 struct limit *ret)
{
	size_t timed = 0, earlier = 0;
	int64_t time_ns;
	for (uint32_t i = 0; i < count; i++)
		timed += time_of(timeline, i, &times[timed]);
	*ret = (struct limit){INT64_MAX, UINT32_MAX};
	if (timed <= max)
		return timed;
	sort_array(times, timed, compare_numbers);
	ret->end_ns = times[max];
	while (earlier < max && times[earlier] < ret->end_ns)
		earlier++;
	/* So many of one moment that not all of them fit. */
	size_t room = max - earlier;
	for (uint32_t i = 0; i < count; i++)
		if (time_of(timeline, i, &time_ns) && time_ns == ret->end_ns && room-- == 0) {
			ret->number_end = i;
			break;
		}
	return timed;
}

/* They have no place on the time line, only in what is shown of a thread: what has a time goes first. */
static void choose_untimed(struct timeline *timeline, size_t room)
{
	const struct profile *profile = timeline->profile;
	timeline->untimed_end = (uint32_t)profile->sample_count;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		if (profile->samples[i].time_ns)
			continue;
		if (room == 0 && timeline->untimed_out++ == 0)
			timeline->untimed_end = i;
		room -= room > 0;
	}
}

static int choose(struct timeline *timeline, size_t samples_max, size_t markers_max)
{
	const struct profile *profile = timeline->profile;
	size_t markers = profile_marker_count(profile),
	       most = profile->sample_count > markers ? profile->sample_count : markers;
	_cleanup_(mem_freep) int64_t *times = mem_alloc_array(most + 1, sizeof(*times));
	if (!times)
		return -ENOMEM;
	size_t timed = find_limit(timeline, (uint32_t)profile->sample_count, samples_max, time_if_sample, times,
				  &timeline->sample_limit);
	choose_untimed(timeline, timed < samples_max ? samples_max - timed : 0);
	find_limit(timeline, (uint32_t)markers, markers_max, time_if_marker, times, &timeline->marker_limit);
	for (uint32_t i = 0; i < profile->sample_count; i++)
		timeline->samples += has_sample(timeline, i);
	for (uint32_t i = 0; i < markers; i++)
		timeline->markers += has_marker(timeline, i);
	timeline->samples_out = profile->sample_count - timeline->samples - timeline->untimed_out;
	timeline->markers_out = markers - timeline->markers;
	return 0;
}

static void widen(struct timeline *timeline, int64_t time_ns)
{
	if (time_ns < timeline->start_ns)
		timeline->start_ns = time_ns;
	if (time_ns > timeline->end_ns)
		timeline->end_ns = time_ns;
}

/* Times that are further than this from the first one are no times that anybody meant; and a double counts nanoseconds exactly
 * up to it. */
#define LENGTH_MAX (1ll << 53)

static void find_range(struct timeline *timeline)
{
	const struct profile *profile = timeline->profile;
	timeline->start_ns = INT64_MAX;
	timeline->end_ns = INT64_MIN;
	for (size_t i = 0; i < profile->sample_count; i++)
		if (profile->samples[i].time_ns)
			widen(timeline, profile->samples[i].time_ns);
	for (uint32_t i = 0; i < profile_marker_count(profile); i++) {
		widen(timeline, time_of_marker(marker_at(timeline, i)));
		if (marker_at(timeline, i)->phase == PROFILE_MARKER_INTERVAL)
			widen(timeline, marker_at(timeline, i)->end_ns);
	}
	if (timeline->end_ns < timeline->start_ns)
		timeline->start_ns = timeline->end_ns = profile->time_ns;
	if ((uint64_t)timeline->end_ns - (uint64_t)timeline->start_ns > LENGTH_MAX)
		timeline->end_ns = timeline->start_ns + LENGTH_MAX;
}

static int number_stacks(struct timeline *timeline)
{
	const struct profile *profile = timeline->profile;
	timeline->number_of_stack = mem_zalloc_array(profile->stack_count, sizeof(uint32_t));
	timeline->stacks = mem_alloc_array(profile->stack_count, sizeof(uint32_t));
	timeline->number_of_string = mem_zalloc_array(profile->strings.count, sizeof(uint32_t));
	timeline->strings = mem_alloc_array(profile->strings.count, sizeof(uint32_t));
	if (!timeline->number_of_stack || !timeline->stacks || !timeline->number_of_string || !timeline->strings)
		return -ENOMEM;
	for (size_t i = 0; i < profile->sample_count; i++) {
		uint32_t sample = timeline->threads.order[i], stack = profile->samples[sample].stack;
		if (!has_sample(timeline, sample) || timeline->number_of_stack[stack])
			continue;
		timeline->stacks[timeline->stack_count++] = stack;
		timeline->number_of_stack[stack] = (uint32_t)timeline->stack_count;
	}
	return 0;
}

static bool is_worth_it(const struct timeline *timeline)
{
	const struct profile *profile = timeline->profile;
	bool timed = false;
	for (size_t i = 0; !timed && i < profile->sample_count; i++)
		timed = profile->samples[i].time_ns != 0;
	return timed || profile_marker_count(profile) > 0 || timeline->threads.count > 1;
}

/* sample_threads_add_markers() makes main threads where there are none. */
static void drop_empty_threads(struct sample_threads *threads)
{
	size_t kept = 0;
	for (size_t i = 0; i < threads->count; i++)
		if (threads->items[i].count > 0 || threads->items[i].marker_count > 0)
			threads->items[kept++] = threads->items[i];
	threads->count = kept;
}

int timeline_new(const struct profile *profile, size_t samples_max, size_t markers_max, struct timeline **ret,
		 struct error *err)
{
	_cleanup_(timeline_freep) struct timeline *timeline = mem_zalloc(sizeof(*timeline));
	*ret = NULL;
	if (!timeline)
		return error_nomem(err);
	timeline->profile = profile;
	map64_init_guarded(&timeline->flows);
	int r = sample_threads_build(profile, &timeline->threads, err);
	if (r == 0)
		r = sample_threads_add_markers(profile, &timeline->threads, err);
	if (r < 0)
		return r;
	drop_empty_threads(&timeline->threads);
	if (!is_worth_it(timeline))
		return 0;
	find_range(timeline);
	if (choose(timeline, samples_max, markers_max) < 0 || number_stacks(timeline) < 0)
		return error_nomem(err);
	*ret = TAKE(timeline);
	return 0;
}

/* ---- JSON ---- */

static uint32_t number_string(struct timeline *timeline, uint32_t string)
{
	if (!timeline->number_of_string[string]) {
		timeline->strings[timeline->string_count++] = string;
		timeline->number_of_string[string] = (uint32_t)timeline->string_count;
	}
	return timeline->number_of_string[string] - 1;
}

static void put_text(const struct timeline *timeline, uint32_t string, struct json_writer *json)
{
	struct bytes text = profile_string_bytes(timeline->profile, string);
	text.len = text_cut(text, TIMELINE_TEXT_BYTES_MAX);
	json_bytes(json, text);
}

static void put_thread(const struct timeline *timeline, const struct sample_thread *thread, struct json_writer *json)
{
	size_t samples = 0, markers = 0;
	for (size_t i = 0; i < thread->count; i++)
		samples += has_sample(timeline, timeline->threads.order[thread->first + i]);
	for (size_t i = 0; i < thread->marker_count; i++)
		markers += has_marker(timeline, timeline->threads.marker_order[thread->marker_first + i]);
	json_begin_object(json);
	json_key(json, "name");
	put_text(timeline, thread->name, json);
	json_key(json, "process");
	put_text(timeline, thread->process, json);
	json_key(json, "host");
	put_text(timeline, thread->host, json);
	json_key(json, "pid");
	thread->has_pid ? json_int(json, thread->pid) : json_nil(json);
	json_key(json, "tid");
	thread->has_tid ? json_int(json, thread->tid) : json_nil(json);
	json_member_uint(json, "samples", samples);
	json_member_uint(json, "markers", markers);
	json_end_object(json);
}

static void put_schema(struct timeline *timeline, const struct profile_marker_schema *schema, struct json_writer *json)
{
	const struct profile_marker_field *fields = timeline->profile->markers->fields;
	json_begin_object(json);
	json_member_uint(json, "name", number_string(timeline, schema->name));
	json_member_array(json, "fields");
	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct profile_marker_field *field = &fields[schema->field_first + i];
		json_begin_array(json);
		json_uint(json, number_string(timeline, field->key));
		json_uint(json, number_string(timeline, field->label));
		json_uint(json, field->format);
		json_end_array(json);
	}
	json_end_array(json);
	json_end_object(json);
}

static void put_schemas(struct timeline *timeline, struct json_writer *json)
{
	const struct profile_markers *markers = timeline->profile->markers;
	json_member_array(json, "categories");
	for (size_t i = 0; markers && i < markers->category_count; i++) {
		json_begin_array(json);
		json_uint(json, number_string(timeline, markers->categories[i].name));
		json_uint(json, number_string(timeline, markers->categories[i].color));
		json_end_array(json);
	}
	json_end_array(json);
	json_member_array(json, "schemas");
	for (size_t i = 0; markers && i < markers->schema_count; i++)
		put_schema(timeline, &markers->schemas[i], json);
	json_end_array(json);
}

/* Those of markers are numbered here already, so that all are known when the texts are written. */
static void number_marker_strings(struct timeline *timeline)
{
	const struct profile_markers *markers = timeline->profile->markers;
	for (uint32_t i = 0; i < profile_marker_count(timeline->profile); i++) {
		const struct profile_marker *marker = &markers->markers[i];
		if (!has_marker(timeline, i))
			continue;
		number_string(timeline, marker->name);
		for (uint32_t k = 0; k < markers->schemas[marker->schema].field_count; k++) {
			const struct profile_marker_value *value = &markers->values[marker->value_first + k];
			if (value->kind == PROFILE_VALUE_STRING)
				number_string(timeline, value->string);
		}
	}
}

void timeline_put_json(struct timeline *timeline, struct json_writer *json)
{
	char start[24];
	int64_t sample_ns = timeline->sample_limit.end_ns, marker_ns = timeline->marker_limit.end_ns,
		until = sample_ns < marker_ns ? sample_ns : marker_ns;
	snprintf(start, sizeof(start), "%" PRId64, timeline->start_ns);
	json_begin_object(json);
	json_member_cstring(json, "start_ns", start);
	json_member_uint(json, "length_ns", (uint64_t)timeline->end_ns - (uint64_t)timeline->start_ns);
	json_member_array(json, "threads");
	for (size_t i = 0; i < timeline->threads.count; i++)
		put_thread(timeline, &timeline->threads.items[i], json);
	json_end_array(json);
	put_schemas(timeline, json);
	number_marker_strings(timeline);
	json_member_array(json, "strings");
	for (size_t i = 0; i < timeline->string_count; i++)
		put_text(timeline, timeline->strings[i], json);
	json_end_array(json);
	json_member_uint(json, "stacks", timeline->stack_count);
	json_member_uint(json, "samples", timeline->samples);
	json_member_uint(json, "markers", timeline->markers);
	json_member_uint(json, "samples_out", timeline->samples_out);
	json_member_uint(json, "untimed_out", timeline->untimed_out);
	json_member_uint(json, "markers_out", timeline->markers_out);
	json_member_uint(json, "until_ns",
			 until == INT64_MAX || until <= timeline->start_ns ? 0 : (uint64_t)(until - timeline->start_ns) - 1);
	json_end_object(json);
}

/* ---- columns ---- */

/* Its length stands before it, which is known at its end. */
static size_t begin_column(struct buffer *out)
{
	static const uint8_t length[4];
	size_t begin = out->len;
	buffer_append(out, length, sizeof(length));
	return begin;
}

static int end_column(struct buffer *out, size_t begin, struct error *err)
{
	size_t len = out->len - begin - 4;
	int r = buffer_status(out);
	if (r == -E2BIG || (r == 0 && len > UINT32_MAX))
		return error_set(err, -E2BIG, "samples and markers need more than %zu bytes, the limit of a page", out->max);
	if (r < 0)
		return error_nomem(err);
	for (unsigned i = 0; i < 4; i++)
		out->data[begin + i] = (uint8_t)(len >> 8 * i);
	return 0;
}

static void put_signed(struct buffer *out, int64_t number)
{
	pb_write_raw_varint(out, (uint64_t)number << 1 ^ (uint64_t)(number >> 63));
}

/* Since the start, within the range. */
static int64_t since_start(const struct timeline *timeline, int64_t time_ns)
{
	if (time_ns <= timeline->start_ns)
		return 0;
	if (time_ns > timeline->end_ns)
		time_ns = timeline->end_ns;
	return (int64_t)((uint64_t)time_ns - (uint64_t)timeline->start_ns);
}

int timeline_put_samples(const struct timeline *timeline, struct buffer *out, struct error *err)
{
	const struct profile *profile = timeline->profile;
	size_t times = begin_column(out);
	for (size_t t = 0; t < timeline->threads.count; t++) {
		const struct sample_thread *thread = &timeline->threads.items[t];
		int64_t before = 0;
		for (size_t i = 0; i < thread->count; i++) {
			uint32_t sample = timeline->threads.order[thread->first + i];
			int64_t time_ns = profile->samples[sample].time_ns,
				now = time_ns ? since_start(timeline, time_ns) + 1 : 0;
			if (!has_sample(timeline, sample))
				continue;
			put_signed(out, now - before);
			before = now;
		}
	}
	int r = end_column(out, times, err);
	if (r < 0)
		return r;
	size_t stacks = begin_column(out);
	for (size_t t = 0; t < timeline->threads.count; t++)
		for (size_t i = 0; i < timeline->threads.items[t].count; i++) {
			uint32_t sample = timeline->threads.order[timeline->threads.items[t].first + i];
			if (has_sample(timeline, sample))
				pb_write_raw_varint(out, timeline->number_of_stack[profile->samples[sample].stack] - 1);
		}
	return end_column(out, stacks, err);
}

int timeline_put_type(const struct timeline *timeline, size_t type, const uint32_t *places, struct buffer *out,
		      struct error *err)
{
	const struct profile *profile = timeline->profile;
	size_t values = begin_column(out);
	for (size_t t = 0; t < timeline->threads.count; t++)
		for (size_t i = 0; i < timeline->threads.items[t].count; i++) {
			uint32_t sample = timeline->threads.order[timeline->threads.items[t].first + i];
			if (has_sample(timeline, sample))
				put_signed(out, profile->values[sample * profile->sample_type_count + type]);
		}
	int r = end_column(out, values, err);
	if (r < 0)
		return r;
	size_t nodes = begin_column(out);
	for (size_t i = 0; i < timeline->stack_count; i++)
		pb_write_raw_varint(out, places[timeline->stacks[i]]);
	return end_column(out, nodes, err);
}

/* In the order of the columns. */
enum column {
	COLUMN_SCHEMA,
	COLUMN_NAME,
	COLUMN_CATEGORY,
	COLUMN_KIND,
	COLUMN_START,
	COLUMN_LENGTH,
	COLUMN_FLOW,
	COLUMN_VALUES,
	COLUMNS,
};

static void put_flow(struct timeline *timeline, uint64_t flow, struct buffer *out)
{
	uint64_t number = 0;
	if (flow && !map64_get(&timeline->flows, flow, &number)) {
		number = timeline->flows.count + 1;
		buffer_fail(out, map64_put(&timeline->flows, flow, number));
	}
	pb_write_raw_varint(out, number);
}

static void put_values(struct timeline *timeline, const struct profile_marker *marker, struct buffer *out)
{
	const struct profile_markers *markers = timeline->profile->markers;
	for (uint32_t i = 0; i < markers->schemas[marker->schema].field_count; i++) {
		const struct profile_marker_value *value = &markers->values[marker->value_first + i];
		pb_write_raw_varint(out, value->kind);
		if (value->kind == PROFILE_VALUE_STRING)
			pb_write_raw_varint(out, number_string(timeline, value->string));
		else if (value->kind == PROFILE_VALUE_NUMBER)
			put_signed(out, value->number);
		else if (value->kind == PROFILE_VALUE_REAL)
			buffer_append(out, &value->real, sizeof(value->real));
	}
}

/* before: the time of the marker before. */
static void put_cell(struct timeline *timeline, enum column column, const struct profile_marker *marker, int64_t *before,
		     struct buffer *out)
{
	int64_t now = since_start(timeline, time_of_marker(marker)), length = 0;
	if (marker->phase == PROFILE_MARKER_INTERVAL)
		length = since_start(timeline, marker->end_ns) - since_start(timeline, marker->start_ns);
	switch (column) {
	case COLUMN_SCHEMA: pb_write_raw_varint(out, marker->schema); break;
	case COLUMN_NAME: pb_write_raw_varint(out, number_string(timeline, marker->name)); break;
	case COLUMN_CATEGORY: pb_write_raw_varint(out, marker->category); break;
	case COLUMN_KIND:
		pb_write_raw_varint(out, (uint64_t)marker->phase + (marker->flow_ends ? KIND_FLOW_ENDS : 0) +
						 (marker->of_process ? KIND_OF_PROCESS : 0));
		break;
	case COLUMN_START: put_signed(out, now - *before); break;
	case COLUMN_LENGTH: pb_write_raw_varint(out, length > 0 ? (uint64_t)length : 0); break;
	case COLUMN_FLOW: put_flow(timeline, marker->flow, out); break;
	default: put_values(timeline, marker, out); /* COLUMN_VALUES */
	}
	*before = now;
}

int timeline_put_markers(struct timeline *timeline, struct buffer *out, struct error *err)
{
	int r = 0;
	for (enum column c = 0; r == 0 && c < COLUMNS; c++) {
		size_t begin = begin_column(out);
		for (size_t t = 0; t < timeline->threads.count; t++) {
			const struct sample_thread *thread = &timeline->threads.items[t];
			int64_t before = 0;
			for (size_t i = 0; i < thread->marker_count; i++) {
				uint32_t marker = timeline->threads.marker_order[thread->marker_first + i];
				if (has_marker(timeline, marker))
					put_cell(timeline, c, marker_at(timeline, marker), &before, out);
			}
		}
		r = end_column(out, begin, err);
	}
	return r;
}
