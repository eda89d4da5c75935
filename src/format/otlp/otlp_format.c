/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP as a file format, where one file is one profile.
 *
 * A file holds one request, or, as the collector's file exporter writes them, several, each behind its length in four bytes,
 * big-endian; or requests in JSON, one a line. All their profiles become one: those of the same type are merged, and those of
 * different types (which OTLP keeps apart, even if they came from the same samples) become the columns of one profile. Its
 * period is that of the first profile that has one: OpenTelemetry's profiler sends off-CPU time, which has none, beside CPU
 * samples. The periods of others are left out, and reported.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "format/format_int.h"
#include "format/otlp/otlp_int.h"
#include "profile/merge.h"

#define FRAME_HEAD 4

/* ---- reading ---- */

static size_t frame_length(struct bytes input)
{
	return (size_t)input.data[0] << 24 | (size_t)input.data[1] << 16 | (size_t)input.data[2] << 8 | input.data[3];
}

/* Protocol buffers never start with a zero byte; the length of a message below 16 MiB does. */
static bool is_framed(struct bytes input)
{
	if (input.len <= FRAME_HEAD || input.data[0] != 0)
		return false;
	size_t len = frame_length(input);
	uint8_t tag = input.data[FRAME_HEAD];
	return len > 0 && len <= input.len - FRAME_HEAD && (tag == 0x0a || tag == 0x12);
}

static int append_profiles(struct otlp_request *to, struct otlp_request *from, struct error *err)
{
	if (array_reserve(&to->profiles, &to->capacity, to->count + from->count, SIZE_MAX) < 0)
		return error_nomem(err);
	if (from->count > 0)
		memcpy(to->profiles + to->count, from->profiles, from->count * sizeof(*from->profiles));
	to->count += from->count;
	to->odd_tables |= from->odd_tables;
	to->filled_tables |= from->filled_tables;
	from->count = 0;
	return 0;
}

static int decode_frames(struct bytes input, const struct format_options *options, struct otlp_request *ret, struct error *err)
{
	size_t at = 0;
	while (at < input.len) {
		struct bytes rest = {input.data + at, input.len - at};
		if (rest.len < FRAME_HEAD || frame_length(rest) > rest.len - FRAME_HEAD)
			return error_set(err, -EBADMSG, "truncated: the message at byte %zu is longer than the file", at);
		struct bytes message = {rest.data + FRAME_HEAD, frame_length(rest)};
		struct otlp_request request = {0};
		int r = otlp_decode(message, options, &request, err);
		if (r == 0)
			r = append_profiles(ret, &request, err);
		otlp_request_release(&request);
		if (r < 0)
			return error_prefix(err, r, "message at byte %zu", at);
		at += FRAME_HEAD + message.len;
	}
	return 0;
}

static int decode_json(struct bytes input, const struct format_options *options, struct otlp_request *ret, struct error *err)
{
	struct bytes rest = input;
	int r = 0;
	while (rest.len > 0 && !r) {
		_cleanup_(otlp_request_release) struct otlp_request request = {0};
		struct bytes json = otlp_json_next(&rest);
		/* Numbers and names take less room in protobuf. */
		_cleanup_(buffer_release) struct buffer message = {.max = json.len + KIB};
		r = json.len ? otlp_json_to_binary(json, &message, err) : 0;
		if (!r)
			r = otlp_decode(buffer_bytes(&message), options, &request, err);
		if (!r)
			r = append_profiles(ret, &request, err);
		if (r < 0)
			return error_prefix(err, r, "request at byte %zu", (size_t)(json.data - input.data));
	}
	return r;
}

/* ---- many profiles become one ---- */

struct joiner {
	const struct otlp_request *request;
	struct profile *columns;	/* the sample types of all of them, nothing else */
	const struct profile *periodic; /* whose period the result has */
	struct profile *result;
};

static bool has_period(const struct profile *profile)
{
	return profile->period_type.type || profile->period_type.unit;
}

static bool same_period_type(const struct profile *a, const struct profile *b)
{
	return bytes_equal(profile_string_bytes(a, a->period_type.type), profile_string_bytes(b, b->period_type.type)) &&
	       bytes_equal(profile_string_bytes(a, a->period_type.unit), profile_string_bytes(b, b->period_type.unit));
}

/* The first profile with a period; *ret_same: all have that one. */
static const struct profile *find_periodic(const struct otlp_request *request, bool *ret_same)
{
	size_t first = 0;
	while (first < request->count - 1 && !has_period(request->profiles[first]))
		first++;
	const struct profile *found = request->profiles[first];
	*ret_same = true;
	for (size_t i = 0; i < request->count; i++)
		*ret_same &= same_period_type(found, request->profiles[i]);
	return found;
}

static int copy_type(struct profile *to, const struct profile *from, struct profile_value_type type,
		     struct profile_value_type *ret, struct error *err)
{
	struct bytes name = profile_string_bytes(from, type.type), unit = profile_string_bytes(from, type.unit);
	int r = profile_add_bytes(to, name, &ret->type, err);
	return r < 0 ? r : profile_add_bytes(to, unit, &ret->unit, err);
}

/* The column of a type of `to`, sample_type_count if it has none. */
static size_t find_column(const struct profile *to, struct profile_value_type type)
{
	size_t column = 0;
	while (column < to->sample_type_count &&
	       (to->sample_types[column].type != type.type || to->sample_types[column].unit != type.unit))
		column++;
	return column;
}

/* Adds the types of `from` that `to` does not have yet. */
static int add_columns(struct profile *to, const struct profile *from, struct error *err)
{
	for (size_t i = 0; i < from->sample_type_count; i++) {
		struct profile_value_type type;
		int r = copy_type(to, from, from->sample_types[i], &type, err);
		if (r == 0 && find_column(to, type) == to->sample_type_count)
			r = profile_add_sample_type(to, type.type, type.unit, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int copy_samples(struct profile *to, const struct profile *from, size_t column, struct error *err)
{
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	_cleanup_(mem_freep) int64_t *values = mem_zalloc_array(to->sample_type_count, sizeof(*values));
	if (!values)
		return error_nomem(err);
	int r = profile_copy_new(to, from, &copy, err);
	if (r == 0)
		r = profile_copy_label_set(copy, from->resource_labels, &to->resource_labels, err);
	if (r == 0)
		r = profile_copy_label_set(copy, from->host_labels, &to->host_labels, err);
	for (size_t i = 0; i < from->sample_count && r == 0; i++) {
		struct profile_sample sample = from->samples[i];
		r = profile_copy_stack(copy, sample.stack, &sample.stack, err);
		if (r == 0)
			r = profile_copy_label_set(copy, sample.labels, &sample.labels, err);
		if (r == 0)
			r = profile_add_link(to, &from->links[sample.link], &sample.link, err);
		if (r == 0)
			r = profile_copy_label_set(copy, sample.numbers, &sample.numbers, err);
		values[column] = from->values[i];
		if (r == 0)
			r = profile_add_sample(to, &sample, values, err);
	}
	return r;
}

/* The profile with all the columns of the request, its values in the one that is its own; merged into the result. */
static int join_widened(struct joiner *joiner, const struct profile *profile, struct error *err)
{
	_cleanup_(profile_freep) struct profile *wide = NULL;
	struct profile_value_type type = {0};
	int r = profile_new(&wide, err);
	if (r == 0)
		r = add_columns(wide, joiner->columns, err);
	if (r == 0)
		r = copy_type(wide, joiner->periodic, joiner->periodic->period_type, &wide->period_type, err);
	if (r == 0)
		r = copy_type(wide, profile, profile->sample_types[0], &type, err);
	if (r == 0)
		r = copy_samples(wide, profile, find_column(wide, type), err);
	if (r < 0)
		return r;
	wide->period = same_period_type(profile, joiner->periodic) ? profile->period : 0;
	wide->time_ns = profile->time_ns;
	return profile_merge(joiner->result, wide, false, err);
}

/* Profiles of one file cover the same time together, they do not follow each other: the duration is from the earliest start to
 * the latest end. */
static void set_time_range(struct joiner *joiner)
{
	int64_t start = 0, end = 0, longest = 0;
	for (size_t i = 0; i < joiner->request->count; i++) {
		const struct profile *profile = joiner->request->profiles[i];
		int64_t stop;
		if (profile->duration_ns > longest)
			longest = profile->duration_ns;
		if (profile->time_ns == 0 || __builtin_add_overflow(profile->time_ns, profile->duration_ns, &stop))
			continue;
		if (start == 0 || profile->time_ns < start)
			start = profile->time_ns;
		if (stop > end)
			end = stop;
	}
	joiner->result->time_ns = start;
	joiner->result->duration_ns = start ? end - start : longest;
}

/* Periods that the joined profile has no place for. */
static int note_periods(const struct joiner *joiner, const struct format_options *options, struct error *err)
{
	struct format_left_out left_out = {0, "profiles: period, of another type than that of the first"};
	for (size_t i = 0; i < joiner->request->count; i++) {
		const struct profile *profile = joiner->request->profiles[i];
		left_out.count += has_period(profile) && !same_period_type(profile, joiner->periodic);
	}
	return format_note(options, &left_out, 1, err);
}

static int join_profiles(const struct otlp_request *request, const struct format_options *options, struct profile **ret,
			 struct error *err)
{
	_cleanup_(profile_freep) struct profile *columns = NULL;
	_cleanup_(profile_freep) struct profile *result = NULL;
	bool same;
	const struct profile *periodic = find_periodic(request, &same);
	int r = profile_new(&columns, err);
	if (r == 0)
		r = profile_new(&result, err);
	for (size_t i = 0; i < request->count && r == 0; i++)
		r = add_columns(columns, request->profiles[i], err);
	struct joiner joiner = {request, columns, periodic, result};
	for (size_t i = 0; i < request->count && r == 0; i++)
		r = columns->sample_type_count == 1 && same ? profile_merge(result, request->profiles[i], false, err)
							    : join_widened(&joiner, request->profiles[i], err);
	if (r == 0)
		r = note_periods(&joiner, options, err);
	if (r < 0)
		return r;
	set_time_range(&joiner);
	*ret = TAKE(result);
	return 0;
}

/* What entries 0 that are no zero value have, and references do not: see otlp_dictionary.c. */
static int note_dropped(const struct otlp_request *request, const struct format_options *options, struct error *err)
{
	static const struct {
		enum otlp_table_number table;
		const char *text;
	} dropped[] = {
		{OTLP_LINKS, "the trace and span id in entry 0 of link_table, which stands for none\n"},
		{OTLP_STRINGS, "the text in entry 0 of string_table, which stands for none, but where there must be a name\n"},
		{OTLP_MAPPINGS, "the mapping in entry 0 of mapping_table, which stands for none, but of addresses in it\n"},
	};
	struct buffer *notes = options ? options->notes : NULL;
	for (size_t i = 0; notes && i < sizeof(dropped) / sizeof(dropped[0]); i++)
		if (request->filled_tables & 1u << dropped[i].table)
			buffer_append_string(notes, dropped[i].text);
	return notes ? format_note_status(notes, err) : 0;
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	_cleanup_(otlp_request_release) struct otlp_request request = {0};
	int r = is_framed(input)	  ? decode_frames(input, options, &request, err)
		: otlp_json_detect(input) ? decode_json(input, options, &request, err)
					  : otlp_decode(input, options, &request, err);
	if (r == 0)
		r = note_dropped(&request, options, err);
	if (r < 0)
		return r;
	if (request.count == 0)
		return error_set(err, -EBADMSG, "the OTLP input has no profiles");
	if (request.count == 1) {
		*ret = request.profiles[0];
		request.count = 0;
		return 0;
	}
	return join_profiles(&request, options, ret, err);
}

static int encode(const struct profile *profile, const struct format_options *options, struct buffer *out, struct error *err)
{
	return otlp_encode(&profile, 1, out, err);
}

/* Nothing but fields 1 and 2, both messages, with messages (or nothing) inside. */
static bool detect(struct bytes input)
{
	struct pb_cursor nested;
	struct pb_field field, inner;
	int r;
	if (is_framed(input) || otlp_json_detect(input))
		return true;
	struct pb_cursor cursor = pb_open(input);
	while ((r = pb_next(&cursor, &field, NULL)) > 0) {
		if (field.number > 2 || field.wire != PB_BYTES)
			return false;
		nested = pb_open_nested(&cursor, field.bytes);
		if (field.bytes.len > 0 && (pb_next(&nested, &inner, NULL) <= 0 || inner.wire != PB_BYTES))
			return false;
	}
	return r == 0 && input.len > 0;
}

const struct format format_otlp = {
	.name = "otlp",
	.extensions = ".otlp .otlp.pb .otlp.json",
	.description = "OpenTelemetry profiles, protobuf or JSON: collectors, eBPF profilers",
	.holds = FORMAT_HOLDS_TYPES | FORMAT_HOLDS_TIMES | FORMAT_HOLDS_THREADS | FORMAT_HOLDS_LABELS | FORMAT_HOLDS_LINKS |
		 FORMAT_HOLDS_FILES | FORMAT_HOLDS_LINES | FORMAT_HOLDS_INLINES | FORMAT_HOLDS_ADDRESSES |
		 FORMAT_HOLDS_SYSTEM_NAMES | FORMAT_HOLDS_FRAME_TYPES,
	.detect = detect,
	.decode = decode,
	.encode = encode,
};
