/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload of a log record.
 *
 * The log could have kept the bytes that the client sent, but they come in several formats with several versions, and replaying
 * would then depend on every decoder staying as it is. Instead this is the profile's own tables, column after column, which
 * costs little to write (a few ns a value), compresses well, and is read by one decoder.
 *
 *   version varint = 1
 *   id[16], received_ns zigzag
 *   name: varint 0, or 1 and a string          string: varint length, bytes
 *   labels: count, then (name string, value string)...
 *   time_ns, duration_ns, period zigzag; period type: type, unit; resource labels
 *   strings:    count, the lengths, the bytes
 *   mappings:   count, start, limit - start, offset, file name, build-id, flags
 *   functions:  count, name, system name, file name, start line (zigzag)
 *   locations:  count, mapping, address (zigzag delta), frame type * 2 + folded, number of lines
 *   lines:      function, line, column (zigzag)                    as many as the locations say
 *   stacks:     count, distance to the parent, location
 *   label sets: count, number of labels
 *   labels:     key, value, unit, number (zigzag)                  as many as the label sets say
 *   links:      count, trace id[16], span id[8]
 *   types:      count, type, unit
 *   samples:    count, stack (zigzag delta), label set, link, time (zigzag delta), values (zigzag), a column a sample type
 *
 * Everything is a varint unless said otherwise. Each table is a run of columns (all starts, then all limits ...), and leaves
 * out entry 0, which is always the same. References are ids; an id must exist, a parent must come before its child.
 *
 * Left out: comments, drop_frames, keep_frames, default_sample_type and doc_url, which describe one file and are not stored.
 *
 * Decoding trusts nothing, although a checksum stands before it: the log may have been written by a broken machine.
 */
#include "store/record.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"

#define RECORD_VERSION 1
#define VARINT_MAX     10

/* ---- writing ---- */

/* The caller has reserved the room. */
static inline void put_unchecked(struct buffer *out, uint64_t value)
{
	uint8_t *at = out->data + out->len;
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	out->len = (size_t)(at - out->data);
}

static inline uint64_t zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static int put(struct buffer *out, uint64_t value)
{
	int r = buffer_reserve(out, VARINT_MAX);
	if (r == 0)
		put_unchecked(out, value);
	return r;
}

static int put_string(struct buffer *out, struct bytes text)
{
	int r = put(out, text.len);
	return r == 0 ? buffer_append(out, text.data, text.len) : r;
}

/* One column: `expression` for i = first .. count-1. */
#define PUT_COLUMN(out, first, count, expression)                                                                              \
	({                                                                                                                     \
		int put_column_r = buffer_reserve((out), ((size_t)(count) - (size_t)(first)) * VARINT_MAX);                    \
		for (size_t i = (first); put_column_r == 0 && i < (count); i++)                                                \
			put_unchecked((out), (expression));                                                                    \
		put_column_r;                                                                                                  \
	})

/* Text is nearly always ASCII; eight bytes at a time. */
static bool is_ascii(struct bytes text)
{
	uint64_t word, any = 0;
	size_t i = 0;
	for (; i + 8 <= text.len; i += 8) {
		memcpy(&word, text.data + i, 8);
		any |= word;
	}
	for (; i < text.len; i++)
		any |= (uint64_t)text.data[i];
	return !(any & 0x8080808080808080ull);
}

static bool is_clean(struct bytes text)
{
	return is_ascii(text) || text_is_utf8(text);
}

static int put_repaired_strings(const struct profile *profile, struct buffer *out)
{
	_cleanup_(buffer_release) struct buffer text;
	buffer_init(&text, out->max);
	int r = 0;
	/* Repairing twice is simpler than keeping the result, and rare. */
	for (size_t i = 1; r == 0 && i < profile->strings.count; i++) {
		size_t before = text.len;
		r = text_append_utf8(&text, profile_string_bytes(profile, (uint32_t)i));
		if (r == 0)
			r = put(out, text.len - before);
	}
	return r == 0 ? buffer_append(out, text.data, text.len) : r;
}

static int put_strings(const struct profile *profile, struct buffer *out, bool *ret_repaired)
{
	size_t count = profile->strings.count, total = 0;
	const struct bytes *strings = profile->strings.strings;
	bool clean = true;
	for (size_t i = 1; i < count; i++) {
		clean &= is_clean(strings[i]);
		total += strings[i].len;
	}
	*ret_repaired = !clean;
	int r = put(out, count - 1);
	if (r == 0 && !clean)
		return put_repaired_strings(profile, out);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, strings[i].len);
	if (r == 0)
		r = buffer_reserve(out, total);
	for (size_t i = 1; r == 0 && i < count; i++)
		r = buffer_append(out, strings[i].data, strings[i].len);
	return r;
}

static int put_mappings(const struct profile *profile, struct buffer *out)
{
	const struct profile_mapping *m = profile->mappings;
	size_t count = profile->mapping_count;
	int r = put(out, count - 1);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, m[i].start);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, m[i].limit - m[i].start);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, m[i].offset);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, m[i].file_name);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, m[i].build_id);
	return r == 0 ? PUT_COLUMN(out, 1, count, m[i].flags) : r;
}

static int put_functions(const struct profile *profile, struct buffer *out)
{
	const struct profile_function *f = profile->functions;
	size_t count = profile->function_count;
	int r = put(out, count - 1);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, f[i].name);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, f[i].system_name);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, f[i].file_name);
	return r == 0 ? PUT_COLUMN(out, 1, count, zigzag(f[i].start_line)) : r;
}

/* Lines go out location by location: their order in the profile's array is its own business. */
static int put_lines(const struct profile *profile, struct buffer *out)
{
	for (int column = 0; column < 3; column++) {
		for (size_t l = 1; l < profile->location_count; l++) {
			const struct profile_location *location = &profile->locations[l];
			const struct profile_line *line = profile->lines + location->line_first;
			int r;
			if (column == 0)
				r = PUT_COLUMN(out, 0, location->line_count, line[i].function);
			else if (column == 1)
				r = PUT_COLUMN(out, 0, location->line_count, zigzag(line[i].line));
			else
				r = PUT_COLUMN(out, 0, location->line_count, zigzag(line[i].column));
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int put_locations(const struct profile *profile, struct buffer *out)
{
	const struct profile_location *l = profile->locations;
	size_t count = profile->location_count;
	int r = put(out, count - 1);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, l[i].mapping);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, zigzag((int64_t)(l[i].address - l[i - 1].address)));
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, l[i].frame_type * 2 + l[i].folded);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, l[i].line_count);
	return r == 0 ? put_lines(profile, out) : r;
}

static int put_stacks(const struct profile *profile, struct buffer *out)
{
	const struct profile_stack *s = profile->stacks;
	size_t count = profile->stack_count;
	int r = put(out, count - 1);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, i - s[i].parent);
	return r == 0 ? PUT_COLUMN(out, 1, count, s[i].location) : r;
}

static int put_label_column(const struct profile *profile, int column, struct buffer *out)
{
	for (size_t set = 1; set < profile->label_set_count; set++) {
		const struct profile_label *label = profile->labels + profile->label_sets[set].first;
		size_t count = profile->label_sets[set].count;
		int r;
		if (column == 0)
			r = PUT_COLUMN(out, 0, count, label[i].key);
		else if (column == 1)
			r = PUT_COLUMN(out, 0, count, label[i].value);
		else if (column == 2)
			r = PUT_COLUMN(out, 0, count, label[i].unit);
		else
			r = PUT_COLUMN(out, 0, count, zigzag(label[i].number));
		if (r < 0)
			return r;
	}
	return 0;
}

static int put_label_sets(const struct profile *profile, struct buffer *out)
{
	size_t count = profile->label_set_count;
	int r = put(out, count - 1);
	if (r == 0)
		r = PUT_COLUMN(out, 1, count, profile->label_sets[i].count);
	for (int column = 0; r == 0 && column < 4; column++)
		r = put_label_column(profile, column, out);
	return r;
}

static int put_links(const struct profile *profile, struct buffer *out)
{
	int r = put(out, profile->link_count - 1);
	for (size_t i = 1; r == 0 && i < profile->link_count; i++) {
		r = buffer_append(out, profile->links[i].trace_id, 16);
		if (r == 0)
			r = buffer_append(out, profile->links[i].span_id, 8);
	}
	return r;
}

static int put_samples(const struct profile *profile, struct buffer *out)
{
	const struct profile_sample *s = profile->samples;
	size_t count = profile->sample_count, types = profile->sample_type_count;
	int r = put(out, types);
	if (r == 0)
		r = PUT_COLUMN(out, 0, types, profile->sample_types[i].type);
	if (r == 0)
		r = PUT_COLUMN(out, 0, types, profile->sample_types[i].unit);
	if (r == 0)
		r = put(out, count);
	if (r == 0)
		r = PUT_COLUMN(out, 0, count, zigzag((int64_t)s[i].stack - (i ? (int64_t)s[i - 1].stack : 0)));
	if (r == 0)
		r = PUT_COLUMN(out, 0, count, s[i].labels);
	if (r == 0)
		r = PUT_COLUMN(out, 0, count, s[i].link);
	if (r == 0)
		r = PUT_COLUMN(out, 0, count, zigzag((int64_t)((uint64_t)s[i].time_ns - (i ? (uint64_t)s[i - 1].time_ns : 0))));
	for (size_t type = 0; r == 0 && type < types; type++)
		r = PUT_COLUMN(out, 0, count, zigzag(profile->values[i * types + type]));
	return r;
}

static int put_options(const struct store_append_options *options, struct buffer *out)
{
	int r = put(out, RECORD_VERSION);
	if (r == 0)
		r = buffer_append(out, options->id, sizeof(options->id));
	if (r == 0)
		r = put(out, zigzag(options->received_ns));
	if (r == 0)
		r = put(out, options->name != NULL);
	if (r == 0 && options->name)
		r = put_string(out, bytes_of_string(options->name));
	size_t count = options->labels ? options->labels->count : 0;
	if (r == 0)
		r = put(out, count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = put_string(out, bytes_of_string(options->labels->items[i].name));
		if (r == 0)
			r = put_string(out, bytes_of_string(options->labels->items[i].value));
	}
	return r;
}

static int put_profile_head(const struct profile *profile, struct buffer *out)
{
	const uint64_t values[] = {zigzag(profile->time_ns),  zigzag(profile->duration_ns), zigzag(profile->period),
				   profile->period_type.type, profile->period_type.unit,    profile->resource_labels};
	return PUT_COLUMN(out, 0, sizeof(values) / sizeof(*values), values[i]);
}

int record_encode(const struct profile *profile, const struct store_append_options *options, struct buffer *out,
		  bool *ret_repaired, struct error *err)
{
	int r = put_options(options, out);
	if (r == 0)
		r = put_profile_head(profile, out);
	if (r == 0)
		r = put_strings(profile, out, ret_repaired);
	if (r == 0)
		r = put_mappings(profile, out);
	if (r == 0)
		r = put_functions(profile, out);
	if (r == 0)
		r = put_locations(profile, out);
	if (r == 0)
		r = put_stacks(profile, out);
	if (r == 0)
		r = put_label_sets(profile, out);
	if (r == 0)
		r = put_links(profile, out);
	if (r == 0)
		r = put_samples(profile, out);
	if (r == -E2BIG)
		return error_set(err, r, "the profile is too large: its log record would pass %zu bytes; send it in parts",
				 out->max);
	return r < 0 ? error_nomem(err) : 0;
}

/* ---- reading ---- */

/* Keeps the first error; reads give 0 afterwards. */
struct decoder {
	const uint8_t *at, *end;
	int error;
	const char *fault;
	struct error *err;
	struct profile *profile;
	/* id in the record -> id in the profile, which may have met an equal entry */
	uint32_t *strings, *mappings, *functions, *locations, *stacks, *label_sets, *links;
	size_t string_count, mapping_count, function_count, location_count, stack_count, label_set_count, link_count;
};

static void fail(struct decoder *decoder, const char *fault)
{
	if (decoder->error)
		return;
	decoder->error = -EBADMSG;
	decoder->fault = fault;
}

/* From profile_add_*(), which has set the message. */
static void fail_code(struct decoder *decoder, int code)
{
	if (code < 0 && !decoder->error)
		decoder->error = code;
}

static void fail_memory(struct decoder *decoder)
{
	if (!decoder->error)
		decoder->error = error_nomem(decoder->err);
}

static uint64_t get(struct decoder *decoder)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 70 && !decoder->error; shift += 7) {
		if (decoder->at == decoder->end)
			break;
		uint8_t byte = *decoder->at++;
		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	fail(decoder, "a number is truncated or too long");
	return 0;
}

static int64_t get_signed(struct decoder *decoder)
{
	uint64_t value = get(decoder);
	return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

static struct bytes get_bytes(struct decoder *decoder, uint64_t len)
{
	if (len > (uint64_t)(decoder->end - decoder->at)) {
		fail(decoder, "a length passes the end");
		len = 0;
	}
	struct bytes bytes = {decoder->at, decoder->error ? 0 : len};
	decoder->at += bytes.len;
	return bytes;
}

/* The number of entries of a table; each takes `least` bytes or more. */
static size_t get_count(struct decoder *decoder, size_t least)
{
	uint64_t count = get(decoder);
	if (count > (uint64_t)(decoder->end - decoder->at) / least) {
		fail(decoder, "a table is longer than the record");
		return 0;
	}
	return decoder->error ? 0 : count;
}

static uint32_t get_small(struct decoder *decoder)
{
	uint64_t value = get(decoder);
	if (value > UINT32_MAX) {
		fail(decoder, "a number is out of range");
		return 0;
	}
	return (uint32_t)value;
}

/* A reference into a table of `count` entries, translated. */
static uint32_t get_reference(struct decoder *decoder, const uint32_t *ids, size_t count)
{
	uint64_t value = get(decoder);
	if (value >= count) {
		fail(decoder, "a reference is out of range");
		return 0;
	}
	return ids ? ids[value] : (uint32_t)value;
}

#define GET_STRING(decoder) get_reference((decoder), (decoder)->strings, (decoder)->string_count)

/* Translation for a table of `count` entries and entry 0. */
static uint32_t *new_ids(struct decoder *decoder, size_t count)
{
	uint32_t *ids = mem_zalloc_array(count + 1, sizeof(*ids));
	if (!ids)
		fail_memory(decoder);
	return ids;
}

static char *get_text(struct decoder *decoder)
{
	struct bytes text = get_bytes(decoder, get(decoder));
	if (text.len && memchr(text.data, 0, text.len))
		fail(decoder, "a text holds a NUL");
	char *copy = decoder->error ? NULL : mem_strndup((const char *)text.data, text.len);
	if (!copy)
		fail_memory(decoder);
	return copy;
}

static void get_labels(struct decoder *decoder, struct labels *labels)
{
	size_t count = get_count(decoder, 2);
	for (size_t i = 0; i < count && !decoder->error; i++) {
		_cleanup_(mem_freep) char *name = get_text(decoder);
		_cleanup_(mem_freep) char *value = get_text(decoder);
		if (decoder->error)
			return;
		int r = labels_set(labels, name, value, decoder->err);
		if (r == -ENOMEM)
			fail_code(decoder, r);
		else if (r < 0)
			fail(decoder, "a label is not valid");
	}
}

static void get_options(struct decoder *decoder, struct record *record)
{
	uint64_t version = get(decoder);
	if (!decoder->error && version != RECORD_VERSION) {
		decoder->error = error_set(decoder->err, -ENOTSUP, "log record of version %lu; this program knows version %d",
					   (unsigned long)version, RECORD_VERSION);
		return;
	}
	struct bytes id = get_bytes(decoder, sizeof(record->id));
	if (id.len == sizeof(record->id))
		memcpy(record->id, id.data, id.len);
	record->received_ns = get_signed(decoder);
	uint64_t has_name = get(decoder);
	if (has_name > 1)
		fail(decoder, "a flag is neither 0 nor 1");
	if (has_name == 1)
		record->name = get_text(decoder);
	get_labels(decoder, &record->labels);
}

static void get_strings(struct decoder *decoder)
{
	size_t count = get_count(decoder, 1);
	decoder->strings = new_ids(decoder, count);
	_cleanup_(mem_freep) uint64_t *lengths = decoder->error ? NULL : mem_alloc_array(count, sizeof(*lengths));
	if (!lengths) {
		fail_memory(decoder);
		return;
	}
	decoder->string_count = count + 1;
	for (size_t i = 0; i < count; i++)
		lengths[i] = get(decoder);
	for (size_t i = 0; i < count && !decoder->error; i++) {
		struct bytes text = get_bytes(decoder, lengths[i]);
		if (!decoder->error)
			fail_code(decoder, profile_add_string(decoder->profile, text.data, text.len, &decoder->strings[i + 1],
							      decoder->err));
	}
}

static void get_mappings(struct decoder *decoder)
{
	size_t count = get_count(decoder, 6);
	decoder->mappings = new_ids(decoder, count);
	_cleanup_(mem_freep) struct profile_mapping *m = decoder->error ? NULL : mem_zalloc_array(count, sizeof(*m));
	if (!m) {
		fail_memory(decoder);
		return;
	}
	decoder->mapping_count = count + 1;
	for (size_t i = 0; i < count; i++)
		m[i].start = get(decoder);
	for (size_t i = 0; i < count; i++)
		m[i].limit = m[i].start + get(decoder);
	for (size_t i = 0; i < count; i++)
		m[i].offset = get(decoder);
	for (size_t i = 0; i < count; i++)
		m[i].file_name = GET_STRING(decoder);
	for (size_t i = 0; i < count; i++)
		m[i].build_id = GET_STRING(decoder);
	for (size_t i = 0; i < count; i++)
		m[i].flags = get_small(decoder);
	for (size_t i = 0; i < count && !decoder->error; i++)
		fail_code(decoder, profile_add_mapping(decoder->profile, &m[i], &decoder->mappings[i + 1], decoder->err));
}

static void get_functions(struct decoder *decoder)
{
	size_t count = get_count(decoder, 4);
	decoder->functions = new_ids(decoder, count);
	_cleanup_(mem_freep) struct profile_function *f = decoder->error ? NULL : mem_zalloc_array(count, sizeof(*f));
	if (!f) {
		fail_memory(decoder);
		return;
	}
	decoder->function_count = count + 1;
	for (size_t i = 0; i < count; i++)
		f[i].name = GET_STRING(decoder);
	for (size_t i = 0; i < count; i++)
		f[i].system_name = GET_STRING(decoder);
	for (size_t i = 0; i < count; i++)
		f[i].file_name = GET_STRING(decoder);
	for (size_t i = 0; i < count; i++)
		f[i].start_line = get_signed(decoder);
	for (size_t i = 0; i < count && !decoder->error; i++)
		fail_code(decoder, profile_add_function(decoder->profile, &f[i], &decoder->functions[i + 1], decoder->err));
}

/* `total` lines for the locations, whose line_count is known; then the locations. */
static void add_locations(struct decoder *decoder, const struct profile_location *l, size_t count, size_t total)
{
	_cleanup_(mem_freep) struct profile_line *lines = mem_zalloc_array(total, sizeof(*lines));
	if (!lines) {
		fail_memory(decoder);
		return;
	}
	for (size_t i = 0; i < total; i++)
		lines[i].function = get_reference(decoder, decoder->functions, decoder->function_count);
	for (size_t i = 0; i < total; i++)
		lines[i].line = get_signed(decoder);
	for (size_t i = 0; i < total; i++)
		lines[i].column = get_signed(decoder);
	size_t line = 0;
	for (size_t i = 0; i < count && !decoder->error; i++) {
		fail_code(decoder, profile_add_location(decoder->profile, &l[i], lines + line, l[i].line_count,
							&decoder->locations[i + 1], decoder->err));
		line += l[i].line_count;
	}
}

static void get_locations(struct decoder *decoder)
{
	size_t count = get_count(decoder, 4), total = 0;
	decoder->locations = new_ids(decoder, count);
	_cleanup_(mem_freep) struct profile_location *l = decoder->error ? NULL : mem_zalloc_array(count, sizeof(*l));
	if (!l) {
		fail_memory(decoder);
		return;
	}
	decoder->location_count = count + 1;
	for (size_t i = 0; i < count; i++)
		l[i].mapping = get_reference(decoder, decoder->mappings, decoder->mapping_count);
	for (size_t i = 0; i < count; i++)
		l[i].address = (uint64_t)get_signed(decoder) + (i ? l[i - 1].address : 0);
	for (size_t i = 0; i < count; i++) {
		uint32_t word = get_small(decoder);
		l[i].frame_type = word / 2;
		l[i].folded = word & 1;
	}
	for (size_t i = 0; i < count; i++) {
		l[i].line_count = get_small(decoder);
		total += l[i].line_count;
	}
	if (total > (size_t)(decoder->end - decoder->at) / 3)
		fail(decoder, "a table is longer than the record");
	if (!decoder->error)
		add_locations(decoder, l, count, total);
}

static void get_stacks(struct decoder *decoder)
{
	size_t count = get_count(decoder, 2);
	decoder->stacks = new_ids(decoder, count);
	_cleanup_(mem_freep) struct profile_stack *s = decoder->error ? NULL : mem_zalloc_array(count, sizeof(*s));
	if (!s) {
		fail_memory(decoder);
		return;
	}
	decoder->stack_count = count + 1;
	for (size_t i = 0; i < count; i++) {
		uint64_t distance = get(decoder);
		if (distance == 0 || distance > i + 1) {
			fail(decoder, "a stack's parent does not come before it");
			return;
		}
		s[i].parent = (uint32_t)(i + 1 - distance);
	}
	for (size_t i = 0; i < count; i++)
		s[i].location = get_reference(decoder, decoder->locations, decoder->location_count);
	for (size_t i = 0; i < count && !decoder->error; i++)
		fail_code(decoder, profile_add_stack(decoder->profile, decoder->stacks[s[i].parent], s[i].location,
						     &decoder->stacks[i + 1], decoder->err));
}

static void add_label_sets(struct decoder *decoder, const uint32_t *counts, size_t count, size_t total)
{
	_cleanup_(mem_freep) struct profile_label *labels = mem_zalloc_array(total, sizeof(*labels));
	if (!labels) {
		fail_memory(decoder);
		return;
	}
	for (size_t i = 0; i < total; i++)
		labels[i].key = GET_STRING(decoder);
	for (size_t i = 0; i < total; i++)
		labels[i].value = GET_STRING(decoder);
	for (size_t i = 0; i < total; i++)
		labels[i].unit = GET_STRING(decoder);
	for (size_t i = 0; i < total; i++)
		labels[i].number = get_signed(decoder);
	size_t label = 0;
	for (size_t i = 0; i < count && !decoder->error; i++) {
		fail_code(decoder, profile_add_label_set(decoder->profile, labels + label, counts[i],
							 &decoder->label_sets[i + 1], decoder->err));
		label += counts[i];
	}
}

static void get_label_sets(struct decoder *decoder)
{
	size_t count = get_count(decoder, 1), total = 0;
	decoder->label_sets = new_ids(decoder, count);
	_cleanup_(mem_freep) uint32_t *counts = decoder->error ? NULL : mem_alloc_array(count, sizeof(*counts));
	if (!counts) {
		fail_memory(decoder);
		return;
	}
	decoder->label_set_count = count + 1;
	for (size_t i = 0; i < count; i++) {
		counts[i] = get_small(decoder);
		total += counts[i];
	}
	if (total > (size_t)(decoder->end - decoder->at) / 4)
		fail(decoder, "a table is longer than the record");
	if (!decoder->error)
		add_label_sets(decoder, counts, count, total);
}

static void get_links(struct decoder *decoder)
{
	size_t count = get_count(decoder, 24);
	decoder->links = new_ids(decoder, count);
	decoder->link_count = count + 1;
	for (size_t i = 0; i < count && !decoder->error; i++) {
		struct profile_link link;
		struct bytes bytes = get_bytes(decoder, 24);
		if (decoder->error)
			return;
		memcpy(link.trace_id, bytes.data, 16);
		memcpy(link.span_id, bytes.data + 16, 8);
		fail_code(decoder, profile_add_link(decoder->profile, &link, &decoder->links[i + 1], decoder->err));
	}
}

static size_t get_types(struct decoder *decoder)
{
	struct profile_value_type types[LIMIT_SAMPLE_TYPES];
	size_t count = get_count(decoder, 2);
	if (count > LIMIT_SAMPLE_TYPES)
		fail(decoder, "too many sample types");
	for (size_t i = 0; i < count && !decoder->error; i++)
		types[i].type = GET_STRING(decoder);
	for (size_t i = 0; i < count && !decoder->error; i++)
		types[i].unit = GET_STRING(decoder);
	for (size_t i = 0; i < count && !decoder->error; i++)
		fail_code(decoder, profile_add_sample_type(decoder->profile, types[i].type, types[i].unit, decoder->err));
	return decoder->error ? 0 : count;
}

static void get_sample_columns(struct decoder *decoder, struct profile_sample *s, int64_t *values, size_t count, size_t types)
{
	int64_t stack = 0;
	for (size_t i = 0; i < count; i++) {
		stack = (int64_t)((uint64_t)stack + (uint64_t)get_signed(decoder));
		if (stack < 0 || (uint64_t)stack >= decoder->stack_count) {
			fail(decoder, "a reference is out of range");
			return;
		}
		s[i].stack = decoder->stacks[stack];
	}
	for (size_t i = 0; i < count; i++)
		s[i].labels = get_reference(decoder, decoder->label_sets, decoder->label_set_count);
	for (size_t i = 0; i < count; i++)
		s[i].link = get_reference(decoder, decoder->links, decoder->link_count);
	for (size_t i = 0; i < count; i++)
		s[i].time_ns = (int64_t)((uint64_t)get_signed(decoder) + (i ? (uint64_t)s[i - 1].time_ns : 0));
	for (size_t type = 0; type < types; type++)
		for (size_t i = 0; i < count; i++)
			values[i * types + type] = get_signed(decoder);
}

static void get_samples(struct decoder *decoder)
{
	size_t types = get_types(decoder);
	size_t count = get_count(decoder, 4 + types);
	_cleanup_(mem_freep) struct profile_sample *s = decoder->error ? NULL : mem_zalloc_array(count, sizeof(*s));
	_cleanup_(mem_freep) int64_t *values = decoder->error ? NULL : mem_alloc_array(count, types * sizeof(*values));
	if (!s || !values) {
		fail_memory(decoder);
		return;
	}
	get_sample_columns(decoder, s, values, count, types);
	for (size_t i = 0; i < count && !decoder->error; i++)
		fail_code(decoder, profile_add_sample(decoder->profile, &s[i], values + i * types, decoder->err));
}

static void get_profile(struct decoder *decoder)
{
	struct profile *profile = decoder->profile;
	profile->time_ns = get_signed(decoder);
	profile->duration_ns = get_signed(decoder);
	profile->period = get_signed(decoder);
	uint64_t period_type = get(decoder), period_unit = get(decoder), resource_labels = get(decoder);
	static void (*const tables[])(struct decoder *) = {get_strings, get_mappings,	get_functions, get_locations,
							   get_stacks,	get_label_sets, get_links,     get_samples};
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables) && !decoder->error; i++)
		tables[i](decoder);
	if (decoder->error)
		return;
	if (period_type >= decoder->string_count || period_unit >= decoder->string_count ||
	    resource_labels >= decoder->label_set_count) {
		fail(decoder, "a reference is out of range");
		return;
	}
	profile->period_type =
		(struct profile_value_type){.type = decoder->strings[period_type], .unit = decoder->strings[period_unit]};
	profile->resource_labels = decoder->label_sets[resource_labels];
	if (decoder->at != decoder->end)
		fail(decoder, "bytes are left over");
}

int record_decode(struct bytes payload, struct record *ret, struct error *err)
{
	struct decoder decoder = {.at = payload.data, .end = payload.data + payload.len, .err = err};
	*ret = (struct record){0};
	labels_init(&ret->labels);
	get_options(&decoder, ret);
	if (!decoder.error)
		fail_code(&decoder, profile_new(&ret->profile, err));
	decoder.profile = ret->profile;
	if (!decoder.error)
		get_profile(&decoder);
	mem_free(decoder.strings);
	mem_free(decoder.mappings);
	mem_free(decoder.functions);
	mem_free(decoder.locations);
	mem_free(decoder.stacks);
	mem_free(decoder.label_sets);
	mem_free(decoder.links);
	if (decoder.error)
		record_release(ret);
	if (decoder.fault)
		return error_set(err, -EBADMSG, "malformed log record: %s", decoder.fault);
	return decoder.error;
}

void record_release(struct record *record)
{
	record->profile = profile_free(record->profile);
	labels_release(&record->labels);
	record->name = mem_free(record->name);
}

struct store_append_options record_options(const struct record *record)
{
	struct store_append_options options = {
		.name = record->name, .labels = &record->labels, .received_ns = record->received_ns};
	memcpy(options.id, record->id, sizeof(options.id));
	return options;
}
