/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload of a log record up to version 3, which holds a whole profile. Since version 4 records hold what an append adds to
 * the head (delta.c); these are read, and written only to repair strings on the way in.
 *
 * The log could have kept the bytes that the client sent, but they come in several formats with several versions, and replaying
 * would then depend on every decoder staying as it is. Instead this is the profile's own tables, column after column, which
 * costs little to write (a few ns a value), compresses well, and is read by one decoder.
 *
 *   version varint = 2, or 3 if samples have numbers
 *   id[16], received_ns zigzag
 *   least_ns, most_ns zigzag                   since version 2: samples outside were refused when it was written
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
 *   numbers:    label set                      since version 3: of each sample, its numbers
 *
 * Everything is a varint unless said otherwise. Each table is a run of columns (all starts, then all limits ...), and leaves
 * out entry 0, which is always the same. References are ids; an id must exist, a parent must come before its child.
 *
 * Left out: comments, drop_frames, keep_frames, default_sample_type and doc_url, which describe one file and are not stored.
 *
 * Decoding trusts nothing, although a checksum stands before it: the log may have been written by a broken machine.
 */
#include "store/head/record.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "store/head/record_int.h"

#define RECORD_VERSION	       3 /* of whole profiles; 4: delta.h */
#define RECORD_WITHOUT_NUMBERS 2

/* ---- writing ---- */

/* Text is nearly always ASCII; eight bytes at a time, the last eight of them perhaps again. */
static bool is_ascii(struct bytes text)
{
	uint64_t word, any = 0;
	size_t i = 0;
	for (; i + 8 <= text.len; i += 8) {
		memcpy(&word, text.data + i, 8);
		any |= word;
	}
	if (text.len >= 8) {
		memcpy(&word, text.data + text.len - 8, 8);
		any |= word;
	}
	for (; i < text.len && text.len < 8; i++)
		any |= (uint64_t)text.data[i];
	return !(any & 0x8080808080808080ull);
}

static bool is_clean(struct bytes text)
{
	return is_ascii(text) || text_is_utf8(text);
}

static void put_repaired_strings(const struct profile *profile, struct buffer *out)
{
	_cleanup_(buffer_release) struct buffer text = {.max = out->max};
	/* Repairing twice is simpler than keeping the result, and rare. */
	for (size_t i = 1; i < profile->strings.count && buffer_status(&text) == 0; i++) {
		size_t before = text.len;
		text_append_utf8(&text, profile_string_bytes(profile, (uint32_t)i));
		put(out, text.len - before);
	}
	if (buffer_status(&text) < 0)
		buffer_fail(out, buffer_status(&text));
	buffer_append(out, text.data, text.len);
}

bool record_is_clean(const struct profile *profile)
{
	bool clean = true;
	for (size_t i = 1; i < profile->strings.count && clean; i++)
		clean = is_clean(profile->strings.strings[i]);
	return clean;
}

static void put_strings(const struct profile *profile, struct buffer *out, bool *ret_repaired)
{
	size_t count = profile->strings.count, total = 0;
	const struct bytes *strings = profile->strings.strings;
	bool clean = true;
	for (size_t i = 1; i < count; i++) {
		clean &= is_clean(strings[i]);
		total += strings[i].len;
	}
	*ret_repaired = !clean;
	put(out, count - 1);
	if (!clean) {
		put_repaired_strings(profile, out);
		return;
	}
	PUT_COLUMN(out, 1, count, strings[i].len);
	buffer_reserve(out, total);
	for (size_t i = 1; i < count; i++)
		buffer_append(out, strings[i].data, strings[i].len);
}

static void put_mappings(const struct profile *profile, struct buffer *out)
{
	const struct profile_mapping *m = profile->mappings;
	size_t count = profile->mapping_count;
	put(out, count - 1);
	PUT_COLUMN(out, 1, count, m[i].start);
	PUT_COLUMN(out, 1, count, m[i].limit - m[i].start);
	PUT_COLUMN(out, 1, count, m[i].offset);
	PUT_COLUMN(out, 1, count, m[i].file_name);
	PUT_COLUMN(out, 1, count, m[i].build_id);
	PUT_COLUMN(out, 1, count, m[i].flags);
}

static void put_functions(const struct profile *profile, struct buffer *out)
{
	const struct profile_function *f = profile->functions;
	size_t count = profile->function_count;
	put(out, count - 1);
	PUT_COLUMN(out, 1, count, f[i].name);
	PUT_COLUMN(out, 1, count, f[i].system_name);
	PUT_COLUMN(out, 1, count, f[i].file_name);
	PUT_COLUMN(out, 1, count, zigzag(f[i].start_line));
}

static uint64_t line_value(const struct profile_line *line, int column)
{
	return column == 0 ? line->function : zigzag(column == 1 ? line->line : line->column);
}

static void put_locations(const struct profile *profile, struct buffer *out)
{
	const struct profile_location *l = profile->locations;
	size_t count = profile->location_count;
	put(out, count - 1);
	PUT_COLUMN(out, 1, count, l[i].mapping);
	PUT_COLUMN(out, 1, count, zigzag((int64_t)(l[i].address - l[i - 1].address)));
	PUT_COLUMN(out, 1, count, l[i].frame_type * 2 + l[i].folded);
	PUT_COLUMN(out, 1, count, l[i].line_count);
	/* Lines go out location by location: their order in the profile's array is its own business. */
	for (int column = 0; column < 3; column++) {
		for (size_t k = 1; k < count; k++) {
			size_t first = l[k].line_first;
			PUT_COLUMN(out, 0, l[k].line_count, line_value(&profile->lines[first + i], column));
		}
	}
}

static void put_stacks(const struct profile *profile, struct buffer *out)
{
	const struct profile_stack *s = profile->stacks;
	size_t count = profile->stack_count;
	put(out, count - 1);
	PUT_COLUMN(out, 1, count, i - s[i].parent);
	PUT_COLUMN(out, 1, count, s[i].location);
}

static uint64_t label_value(const struct profile_label *label, int column)
{
	switch (column) {
	case 0: return label->key;
	case 1: return label->value;
	case 2: return label->unit;
	default: return zigzag(label->number);
	}
}

static void put_label_sets(const struct profile *profile, struct buffer *out)
{
	const struct profile_label_set *sets = profile->label_sets;
	size_t count = profile->label_set_count;
	put(out, count - 1);
	PUT_COLUMN(out, 1, count, sets[i].count);
	for (int column = 0; column < 4; column++)
		for (size_t k = 1; k < count; k++)
			PUT_COLUMN(out, 0, sets[k].count, label_value(&profile->labels[sets[k].first + i], column));
}

static void put_links(const struct profile *profile, struct buffer *out)
{
	put(out, profile->link_count - 1);
	for (size_t i = 1; i < profile->link_count; i++) {
		buffer_append(out, profile->links[i].trace_id, 16);
		buffer_append(out, profile->links[i].span_id, 8);
	}
}

static void put_samples(const struct profile *profile, struct buffer *out)
{
	const struct profile_sample *s = profile->samples;
	size_t count = profile->sample_count, types = profile->sample_type_count;
	put(out, types);
	PUT_COLUMN(out, 0, types, profile->sample_types[i].type);
	PUT_COLUMN(out, 0, types, profile->sample_types[i].unit);
	put(out, count);
	PUT_COLUMN(out, 0, count, zigzag((int64_t)s[i].stack - (i ? (int64_t)s[i - 1].stack : 0)));
	PUT_COLUMN(out, 0, count, s[i].labels);
	PUT_COLUMN(out, 0, count, s[i].link);
	PUT_COLUMN(out, 0, count, zigzag((int64_t)((uint64_t)s[i].time_ns - (i ? (uint64_t)s[i - 1].time_ns : 0))));
	for (size_t type = 0; type < types; type++)
		PUT_COLUMN(out, 0, count, zigzag(profile->values[i * types + type]));
}

static bool has_numbers(const struct profile *profile)
{
	uint32_t any = 0;
	for (size_t i = 0; i < profile->sample_count; i++)
		any |= profile->samples[i].numbers;
	return any != 0;
}

static void put_options(const struct store_append_options *options, uint64_t version, struct buffer *out)
{
	size_t count = options->labels ? options->labels->count : 0;
	put(out, version);
	buffer_append(out, options->id, sizeof(options->id));
	put(out, zigzag(options->received_ns));
	put(out, zigzag(options->least_ns));
	put(out, zigzag(options->most_ns));
	put(out, options->name != NULL);
	if (options->name)
		put_string(out, bytes_of_string(options->name));
	put(out, count);
	for (size_t i = 0; i < count; i++) {
		put_string(out, bytes_of_string(options->labels->items[i].name));
		put_string(out, bytes_of_string(options->labels->items[i].value));
	}
}

static void put_profile_head(const struct profile *profile, struct buffer *out)
{
	const uint64_t values[] = {zigzag(profile->time_ns),  zigzag(profile->duration_ns), zigzag(profile->period),
				   profile->period_type.type, profile->period_type.unit,    profile->resource_labels};
	PUT_COLUMN(out, 0, sizeof(values) / sizeof(*values), values[i]);
}

int record_encode(const struct profile *profile, const struct store_append_options *options, struct buffer *out,
		  bool *ret_repaired, struct error *err)
{
	uint64_t version = has_numbers(profile) ? RECORD_VERSION : RECORD_WITHOUT_NUMBERS;
	put_options(options, version, out);
	put_profile_head(profile, out);
	put_strings(profile, out, ret_repaired);
	put_mappings(profile, out);
	put_functions(profile, out);
	put_locations(profile, out);
	put_stacks(profile, out);
	put_label_sets(profile, out);
	put_links(profile, out);
	put_samples(profile, out);
	if (version == RECORD_VERSION)
		PUT_COLUMN(out, 0, profile->sample_count, profile->samples[i].numbers);
	int r = buffer_status(out);
	if (r == -E2BIG)
		return error_set(err, r, "the profile is too large: its log record would exceed %zu bytes; send it in parts",
				 out->max);
	return r < 0 ? error_nomem(err) : 0;
}

/* ---- reading ---- */

/* The tables are filled in as they are, without the hash tables that adding to a profile needs: entries were interned when the
 * record was written, the head interns them again, and doing it a third time in between would double the time of a start. */

#define GET_STRING(decoder) get_reference((decoder), (decoder)->profile->strings.count)

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
			fail_memory(decoder);
		else if (r < 0)
			fail(decoder, "a label is not valid");
	}
}

static void get_options(struct decoder *decoder, struct record *record)
{
	uint64_t version = decoder->version = get(decoder);
	if (!decoder->error && (version == 0 || version > RECORD_VERSION)) {
		decoder->error = error_set(decoder->err, -ENOTSUP, "log record of version %lu; this program supports up to %d",
					   (unsigned long)version, RECORD_VERSION);
		return;
	}
	struct bytes id = get_bytes(decoder, sizeof(record->id));
	if (id.len == sizeof(record->id))
		memcpy(record->id, id.data, id.len);
	record->received_ns = get_signed(decoder);
	record->least_ns = version >= 2 ? get_signed(decoder) : 0;
	record->most_ns = version >= 2 ? get_signed(decoder) : 0;
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
	struct intern *strings = &decoder->profile->strings;
	arena_init(&strings->arena, SIZE_MAX);
	strings->strings = new_table(decoder, count, sizeof(*strings->strings));
	if (!strings->strings)
		return;
	strings->strings[0] = (struct bytes){(const uint8_t *)"", 0};
	strings->count = count + 1;
	GET_COLUMN(1, count + 1, strings->strings[i].len, get(decoder));
	for (size_t i = 1; i <= count; i++) {
		struct bytes text = get_bytes(decoder, strings->strings[i].len);
		char *copy = decoder->error ? NULL : arena_strndup(&strings->arena, (const char *)text.data, text.len);
		strings->strings[i] = (struct bytes){(const uint8_t *)copy, text.len};
		if (!copy) {
			fail_memory(decoder);
			return;
		}
	}
}

static void get_mappings(struct decoder *decoder)
{
	size_t count = get_count(decoder, 6);
	struct profile_mapping *m = decoder->profile->mappings = new_table(decoder, count, sizeof(*m));
	if (!m)
		return;
	decoder->profile->mapping_count = count + 1;
	GET_COLUMN(1, count + 1, m[i].start, get(decoder));
	GET_COLUMN(1, count + 1, m[i].limit, m[i].start + get(decoder));
	GET_COLUMN(1, count + 1, m[i].offset, get(decoder));
	GET_COLUMN(1, count + 1, m[i].file_name, GET_STRING(decoder));
	GET_COLUMN(1, count + 1, m[i].build_id, GET_STRING(decoder));
	GET_COLUMN(1, count + 1, m[i].flags, get_small(decoder));
}

static void get_functions(struct decoder *decoder)
{
	size_t count = get_count(decoder, 4);
	struct profile_function *f = decoder->profile->functions = new_table(decoder, count, sizeof(*f));
	if (!f)
		return;
	decoder->profile->function_count = count + 1;
	GET_COLUMN(1, count + 1, f[i].name, GET_STRING(decoder));
	GET_COLUMN(1, count + 1, f[i].system_name, GET_STRING(decoder));
	GET_COLUMN(1, count + 1, f[i].file_name, GET_STRING(decoder));
	GET_COLUMN(1, count + 1, f[i].start_line, get_signed(decoder));
}

static void get_lines(struct decoder *decoder, size_t count)
{
	struct profile *profile = decoder->profile;
	struct profile_line *lines = profile->lines = new_table(decoder, count, sizeof(*lines));
	if (!lines)
		return;
	profile->line_count = count;
	GET_COLUMN(0, count, lines[i].function, get_reference(decoder, profile->function_count));
	GET_COLUMN(0, count, lines[i].line, get_signed(decoder));
	GET_COLUMN(0, count, lines[i].column, get_signed(decoder));
}

/* The sum of what `count` entries want of another table, whose entries take `least` bytes or more. */
static bool fits(struct decoder *decoder, uint64_t total, size_t least)
{
	if (total > (uint64_t)(decoder->end - decoder->at) / least)
		fail(decoder, "a table is longer than the record");
	return !decoder->error;
}

static void get_locations(struct decoder *decoder)
{
	size_t count = get_count(decoder, 4);
	uint64_t total = 0;
	struct profile_location *l = decoder->profile->locations = new_table(decoder, count, sizeof(*l));
	if (!l)
		return;
	decoder->profile->location_count = count + 1;
	GET_COLUMN(1, count + 1, l[i].mapping, get_reference(decoder, decoder->profile->mapping_count));
	GET_COLUMN(1, count + 1, l[i].address, (uint64_t)get_signed(decoder) + l[i - 1].address);
	for (size_t i = 1; i <= count; i++) {
		uint32_t word = get_small(decoder);
		l[i].frame_type = word / 2;
		l[i].folded = word & 1;
	}
	for (size_t i = 1; i <= count; i++) {
		l[i].line_first = (uint32_t)total;
		l[i].line_count = get_small(decoder);
		total += l[i].line_count;
	}
	if (fits(decoder, total, 3))
		get_lines(decoder, total);
}

static void get_stacks(struct decoder *decoder)
{
	size_t count = get_count(decoder, 2);
	struct profile_stack *s = decoder->profile->stacks = new_table(decoder, count, sizeof(*s));
	_cleanup_(mem_freep) uint16_t *depths = new_table(decoder, count, sizeof(*depths));
	if (!s || !depths)
		return;
	decoder->profile->stack_count = count + 1;
	for (size_t i = 1; i <= count; i++) {
		uint64_t distance = get(decoder);
		if (distance == 0 || distance > i) {
			fail(decoder, "a stack's parent does not come before it");
			return;
		}
		s[i].parent = (uint32_t)(i - distance);
		depths[i] = depths[s[i].parent] + 1;
		if (depths[i] > LIMIT_STACK_DEPTH) {
			fail(decoder, "a stack is too deep");
			return;
		}
	}
	GET_COLUMN(1, count + 1, s[i].location, get_reference(decoder, decoder->profile->location_count));
}

static void get_label_entries(struct decoder *decoder, size_t count)
{
	struct profile_label *labels = decoder->profile->labels = new_table(decoder, count, sizeof(*labels));
	if (!labels)
		return;
	decoder->profile->label_count = count;
	GET_COLUMN(0, count, labels[i].key, GET_STRING(decoder));
	GET_COLUMN(0, count, labels[i].value, GET_STRING(decoder));
	GET_COLUMN(0, count, labels[i].unit, GET_STRING(decoder));
	GET_COLUMN(0, count, labels[i].number, get_signed(decoder));
}

static void get_label_sets(struct decoder *decoder)
{
	size_t count = get_count(decoder, 1);
	uint64_t total = 0;
	struct profile_label_set *sets = decoder->profile->label_sets = new_table(decoder, count, sizeof(*sets));
	if (!sets)
		return;
	decoder->profile->label_set_count = count + 1;
	for (size_t i = 1; i <= count; i++) {
		sets[i].first = (uint32_t)total;
		sets[i].count = get_small(decoder);
		total += sets[i].count;
	}
	if (fits(decoder, total, 4))
		get_label_entries(decoder, total);
}

static void get_links(struct decoder *decoder)
{
	size_t count = get_count(decoder, 24);
	struct profile_link *links = decoder->profile->links = new_table(decoder, count, sizeof(*links));
	if (!links)
		return;
	decoder->profile->link_count = count + 1;
	for (size_t i = 1; i <= count; i++) {
		struct bytes bytes = get_bytes(decoder, 24);
		if (decoder->error)
			return;
		memcpy(links[i].trace_id, bytes.data, 16);
		memcpy(links[i].span_id, bytes.data + 16, 8);
	}
}

static void get_types(struct decoder *decoder)
{
	size_t count = get_count(decoder, 2);
	struct profile_value_type *types = decoder->profile->sample_types = new_table(decoder, count, sizeof(*types));
	if (count > LIMIT_SAMPLE_TYPES)
		fail(decoder, "too many sample types");
	if (!types)
		return;
	decoder->profile->sample_type_count = count;
	GET_COLUMN(0, count, types[i].type, GET_STRING(decoder));
	GET_COLUMN(0, count, types[i].unit, GET_STRING(decoder));
}

static void get_sample_columns(struct decoder *decoder, size_t count)
{
	struct profile *profile = decoder->profile;
	struct profile_sample *s = profile->samples;
	size_t types = profile->sample_type_count;
	uint64_t stack = 0;
	for (size_t i = 0; i < count; i++) {
		stack += (uint64_t)get_signed(decoder);
		if (stack >= profile->stack_count) {
			fail(decoder, "a reference is out of range");
			return;
		}
		s[i].stack = (uint32_t)stack;
	}
	GET_COLUMN(0, count, s[i].labels, get_reference(decoder, profile->label_set_count));
	GET_COLUMN(0, count, s[i].link, get_reference(decoder, profile->link_count));
	GET_COLUMN(0, count, s[i].time_ns, (int64_t)((uint64_t)get_signed(decoder) + (i ? (uint64_t)s[i - 1].time_ns : 0)));
	for (size_t type = 0; type < types; type++)
		for (size_t i = 0; i < count; i++)
			profile->values[i * types + type] = get_signed(decoder);
	if (decoder->version >= 3)
		GET_COLUMN(0, count, s[i].numbers, get_reference(decoder, profile->label_set_count));
}

static void get_samples(struct decoder *decoder)
{
	struct profile *profile = decoder->profile;
	get_types(decoder);
	size_t count = get_count(decoder, 4 + profile->sample_type_count);
	profile->samples = new_table(decoder, count, sizeof(*profile->samples));
	profile->values = new_table(decoder, count, profile->sample_type_count * sizeof(*profile->values));
	if (decoder->error)
		return;
	profile->sample_count = count;
	get_sample_columns(decoder, count);
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
	if (period_type >= profile->strings.count || period_unit >= profile->strings.count ||
	    resource_labels >= profile->label_set_count) {
		fail(decoder, "a reference is out of range");
		return;
	}
	profile->period_type = (struct profile_value_type){.type = (uint32_t)period_type, .unit = (uint32_t)period_unit};
	profile->resource_labels = (uint32_t)resource_labels;
	if (decoder->at != decoder->end)
		fail(decoder, "trailing bytes");
}

int record_decode(struct bytes payload, struct record *ret, struct error *err)
{
	struct decoder decoder = {.at = payload.data, .end = payload.data + payload.len, .err = err};
	*ret = (struct record){0};
	get_options(&decoder, ret);
	if (!decoder.error)
		ret->profile = decoder.profile = mem_zalloc(sizeof(*ret->profile));
	if (decoder.profile)
		get_profile(&decoder);
	else
		fail_memory(&decoder);
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
	struct store_append_options options = {.name = record->name,
					       .labels = &record->labels,
					       .received_ns = record->received_ns,
					       .least_ns = record->least_ns,
					       .most_ns = record->most_ns};
	memcpy(options.id, record->id, sizeof(options.id));
	return options;
}
