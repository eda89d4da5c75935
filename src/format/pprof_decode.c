/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding pprof (perftools.profiles.Profile, github.com/google/pprof/proto/profile.proto).
 *
 *   Profile   1 sample_type  2 sample  3 mapping  4 location  5 function  6 string_table  7 drop_frames  8 keep_frames
 *             9 time_nanos  10 duration_nanos  11 period_type  12 period  13 comment  14 default_sample_type  15 doc_url
 *   ValueType 1 type  2 unit                     Sample   1 location_id (leaf first)  2 value  3 label
 *   Label     1 key  2 str  3 num  4 num_unit    Function 1 id  2 name  3 system_name  4 filename  5 start_line
 *   Mapping   1 id  2 start  3 limit  4 offset  5 filename  6 build_id  7-10 has_functions, filenames, line_numbers, inline
 *   Location  1 id  2 mapping_id  3 address  4 line { 1 function_id  2 line  3 column }  5 is_folded
 *
 * Fields may come in any order, and everything refers to something else, so the message is walked more than once: first over
 * the top level, which finds the string table and where the fields of each number begin and end; then mappings, functions,
 * locations and samples, in the order in which they refer to each other, each over its own range. Writers group fields by
 * number, so each byte is looked at about twice. Keeping a list of all fields instead was rejected: it takes more memory than
 * the samples themselves.
 *
 * Identifiers are arbitrary 64-bit numbers in theory and 1, 2, 3 ... in nearly every file: the latter go to an array, the rest
 * to a hash table, a guarded one so that a file cannot be made to collide.
 *
 * Consecutive samples mostly share the callers: the previous stack is kept, and the trie is asked only from the first frame on
 * that differs, which halves the time to decode.
 *
 * What came before protocol buffers is read in legacy/.
 *
 * What is refused and accepted follows google/pprof's own reader, but for functions of which none has an id (borrow_id). Where
 * it is more lenient, since it never looks at a string index that does not matter, this one is not: an index outside the table
 * is refused wherever it stands.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "codec/protobuf.h"
#include "format/format_int.h"
#include "format/legacy/legacy.h"
#include "profile/runtimes.h"

#define FIELD_MAX 15

/* The part of the input that holds all fields of one number. */
struct field_range {
	const uint8_t *first, *end;
};

/* Identifiers of one table to ids of the profile. */
struct id_table {
	uint32_t *dense; /* ids 1 .. dense_count */
	size_t dense_count, dense_capacity;
	struct map64 sparse;
};

struct decoder {
	const uint8_t *start, *end; /* of the input */
	struct profile *profile;
	struct field_range ranges[FIELD_MAX + 1];
	size_t counts[FIELD_MAX + 1]; /* fields of each number */
	/* By index in the string table: the offset of the string's length in the input, or, once used, STRING_KNOWN + its id.
	 */
	uint32_t *strings;
	size_t string_count, string_capacity;
	struct id_table mappings, functions, locations;
	/* Ids of locations in their order, which functions without any get; NULL = they have their own. */
	uint64_t *borrowed_ids;
	size_t borrowed_count, borrowed_capacity, function_count;
	/* Indexes in the string table */
	uint64_t drop_frames, keep_frames, default_sample_type, doc_url;
	struct bytes period_type;

	/* Scratch for one location or sample */
	struct profile_line *lines;
	size_t line_count, line_capacity;
	struct profile_label *labels;
	size_t label_count, label_capacity;
	size_t location_count, value_count;
	int64_t values[LIMIT_SAMPLE_TYPES];
	uint32_t sample_locations[LIMIT_STACK_DEPTH]; /* leaf first */
	/* The stack of the sample before, root first */
	size_t previous_count;
	uint32_t previous_locations[LIMIT_STACK_DEPTH], previous_stacks[LIMIT_STACK_DEPTH];
};

#define STRING_KNOWN	(1u << 31)
#define INPUT_BYTES_MAX (STRING_KNOWN - 1)

/* ---- strings and identifiers ---- */

/* The string at an index of the string table, interned when it is first used. */
static int get_string(struct decoder *decoder, uint64_t index, const char *name, uint32_t *ret, struct error *err)
{
	if (index >= decoder->string_count)
		return error_set(err, -EBADMSG, "%s: string index %lld is outside the string table of %zu entries", name,
				 (long long)index, decoder->string_count);
	uint32_t slot = decoder->strings[index];
	if (slot & STRING_KNOWN) {
		*ret = slot & ~STRING_KNOWN;
		return 0;
	}
	struct pb_cursor cursor = {decoder->start + slot, decoder->end, decoder->start};
	uint64_t len;
	int r = pb_packed_varint(&cursor, &len, err);
	if (r < 0)
		return r;
	r = profile_add_string(decoder->profile, cursor.at, len, ret, err);
	if (r == 0)
		decoder->strings[index] = STRING_KNOWN | *ret;
	return r;
}

static void id_table_init(struct id_table *table)
{
	map64_init_guarded(&table->sparse);
}

static void id_table_release(struct id_table *table)
{
	mem_free(table->dense);
	map64_release(&table->sparse);
}

static inline bool id_table_get(const struct id_table *table, uint64_t id, uint32_t *ret)
{
	if (__builtin_expect(id - 1 < table->dense_count, 1)) {
		*ret = table->dense[id - 1];
		return true;
	}
	uint64_t value;
	if (!map64_get(&table->sparse, id, &value))
		return false;
	*ret = (uint32_t)value;
	return true;
}

static int id_table_add(struct id_table *table, uint64_t id, uint32_t value, const char *what, struct error *err)
{
	uint32_t other;
	if (id == 0)
		return error_set(err, -EBADMSG, "%s has the reserved id 0", what);
	if (id_table_get(table, id, &other))
		return error_set(err, -EBADMSG, "several %ss have the id %llu", what, (unsigned long long)id);
	if (id - 1 != table->dense_count)
		return map64_put(&table->sparse, id, value) < 0 ? error_nomem(err) : 0;
	int r = array_push(&table->dense, &table->dense_count, &table->dense_capacity, SIZE_MAX, value);
	return r < 0 ? error_nomem(err) : 0;
}

/* ---- the top level ---- */

/* Most profiles have more strings than an array begins with. */
#define STRINGS_FIRST 512

static int add_string_offset(struct decoder *decoder, const struct pb_field *field, struct error *err)
{
	size_t need = decoder->string_count < STRINGS_FIRST ? STRINGS_FIRST : decoder->string_count + 1;
	int r = decoder->string_count < decoder->string_capacity
			? 0
			: array_reserve(&decoder->strings, &decoder->string_capacity, need, LIMIT_PROFILE_ENTITIES);
	if (r == -E2BIG)
		return error_set(err, r, "more than %u strings, the limit", LIMIT_PROFILE_ENTITIES);
	if (r < 0)
		return error_nomem(err);
	/* The length stands before the bytes; written in the fewest bytes or not, its last byte is the only one below 0x80. */
	const uint8_t *at = field->bytes.data - 1;
	while (at > decoder->start && (at[-1] & 0x80))
		at--;
	decoder->strings[decoder->string_count++] = (uint32_t)(at - decoder->start);
	return 0;
}

static const char *const field_names[FIELD_MAX + 1] = {
	"",
	"Profile.sample_type",
	"Profile.sample",
	"Profile.mapping",
	"Profile.location",
	"Profile.function",
	"Profile.string_table",
	"Profile.drop_frames",
	"Profile.keep_frames",
	"Profile.time_nanos",
	"Profile.duration_nanos",
	"Profile.period_type",
	"Profile.period",
	"Profile.comment",
	"Profile.default_sample_type",
	"Profile.doc_url",
};

/* Submessages and strings are 1-6 and 11; comments may be packed or not. */
static bool field_is_bytes(uint32_t number)
{
	return number <= 6 || number == 11;
}

static int set_time(struct decoder *decoder, uint64_t value, struct error *err)
{
	if (decoder->profile->time_ns != 0)
		return error_set(err, -EBADMSG, "Profile.time_nanos is set twice: concatenated profiles; merge them first");
	decoder->profile->time_ns = (int64_t)value;
	return 0;
}

static int top_level_field(struct decoder *decoder, const struct pb_field *field, struct error *err)
{
	struct profile *profile = decoder->profile;
	switch (field->number) {
	case 6: return add_string_offset(decoder, field, err);
	case 7: decoder->drop_frames = field->value; break;
	case 8: decoder->keep_frames = field->value; break;
	case 9: return set_time(decoder, field->value, err);
	case 10: profile->duration_ns = (int64_t)field->value; break;
	case 11: decoder->period_type = field->bytes; break;
	case 12: profile->period = (int64_t)field->value; break;
	case 14: decoder->default_sample_type = field->value; break;
	case 15: decoder->doc_url = field->value; break;
	}
	return 0;
}

static int walk_top_level(struct decoder *decoder, struct bytes input, struct error *err)
{
	struct pb_field field;
	struct pb_cursor cursor = pb_open(input);
	int r;
	decoder->start = cursor.start;
	decoder->end = cursor.end;
	const uint8_t *before = cursor.at;
	for (; (r = pb_next(&cursor, &field, err)) > 0; before = cursor.at) {
		if (field.number > FIELD_MAX)
			continue;
		if (field.number != 13 || field.wire != PB_BYTES) {
			enum pb_wire wire = field_is_bytes(field.number) ? PB_BYTES : PB_VARINT;
			r = pb_expect(&cursor, &field, wire, field_names[field.number], err);
			if (r < 0)
				return r;
		}
		struct field_range *range = &decoder->ranges[field.number];
		if (!range->first)
			range->first = before;
		range->end = cursor.at;
		decoder->counts[field.number]++;
		r = top_level_field(decoder, &field, err);
		if (r < 0)
			return r;
	}
	return r;
}

static int reserve_ids(struct id_table *table, size_t count)
{
	return array_reserve(&table->dense, &table->dense_capacity, count < PROFILE_ROOM_MAX ? count : PROFILE_ROOM_MAX,
			     SIZE_MAX);
}

/* A frame of a sample takes two bytes, and of four frames it shares three with other samples. */
#define SAMPLE_BYTES_PER_STACK 8

/* As many entries as there are fields: nearly all that is in a file is used, and used once. */
static int make_room(struct decoder *decoder, struct error *err)
{
	const size_t *counts = decoder->counts;
	const struct field_range *samples = &decoder->ranges[2];
	const struct profile_room room = {
		.strings = counts[6],
		.functions = counts[5],
		.locations = counts[4],
		.lines = counts[4],
		.stacks = samples->first ? (size_t)(samples->end - samples->first) / SAMPLE_BYTES_PER_STACK : 0,
		.samples = counts[2],
	};
	if (reserve_ids(&decoder->functions, counts[5]) < 0 || reserve_ids(&decoder->locations, counts[4]) < 0)
		return error_nomem(err);
	return profile_make_room(decoder->profile, &room, err);
}

static int check_string_table(const struct decoder *decoder, struct error *err)
{
	if (decoder->string_count == 0)
		return error_set(err, -EBADMSG, "no string table: not a pprof profile, or truncated");
	if (decoder->start[decoder->strings[0]] != 0) {
		/* An empty string's length is 0 unless it was written in more bytes than it needs. */
		struct pb_cursor cursor = {decoder->start + decoder->strings[0], decoder->end, decoder->start};
		uint64_t len = 1;
		if (pb_packed_varint(&cursor, &len, NULL) < 0 || len != 0)
			return error_set(err, -EBADMSG, "the first entry of the string table is not empty");
	}
	return 0;
}

typedef int each_function(struct decoder *decoder, struct pb_cursor *cursor, const struct pb_field *field, struct error *err);

/* Calls `each` for every field of one number. */
static int for_each(struct decoder *decoder, uint32_t number, each_function *each, struct error *err)
{
	const struct field_range *range = &decoder->ranges[number];
	if (!range->first)
		return 0;
	struct pb_cursor cursor = {range->first, range->end, decoder->start};
	struct pb_field field;
	size_t ordinal = 0;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number != number)
			continue;
		struct pb_cursor nested = {field.bytes.data, field.bytes.data + field.bytes.len, decoder->start};
		r = each(decoder, &nested, &field, err);
		if (r < 0)
			return error_prefix(err, r, "%s %zu", field_names[number], ordinal);
		ordinal++;
	}
	return r;
}

/* ---- small messages ---- */

static int read_value_type(struct decoder *decoder, struct pb_cursor *cursor, struct profile_value_type *ret, struct error *err)
{
	static const char *const names[] = {"", "ValueType.type", "ValueType.unit"};
	uint64_t indexes[3] = {0};
	struct pb_field field;
	int r;
	while ((r = pb_next(cursor, &field, err)) > 0) {
		if (field.number > 2)
			continue;
		r = pb_expect(cursor, &field, PB_VARINT, names[field.number], err);
		if (r < 0)
			return r;
		indexes[field.number] = field.value;
	}
	if (r == 0)
		r = get_string(decoder, indexes[1], names[1], &ret->type, err);
	if (r == 0)
		r = get_string(decoder, indexes[2], names[2], &ret->unit, err);
	return r;
}

static int read_sample_type(struct decoder *decoder, struct pb_cursor *cursor, const struct pb_field *field, struct error *err)
{
	struct profile_value_type type = {0};
	int r = read_value_type(decoder, cursor, &type, err);
	return r < 0 ? r : profile_add_sample_type(decoder->profile, type.type, type.unit, err);
}

static int add_comment(struct decoder *decoder, uint64_t index, struct error *err)
{
	uint32_t text = 0;
	int r = get_string(decoder, index, "Profile.comment", &text, err);
	return r < 0 ? r : profile_add_comment(decoder->profile, text, err);
}

static int read_comment(struct decoder *decoder, struct pb_cursor *cursor, const struct pb_field *field, struct error *err)
{
	if (field->wire == PB_VARINT)
		return add_comment(decoder, field->value, err);
	while (cursor->at < cursor->end) {
		uint64_t index = 0;
		int r = pb_packed_varint(cursor, &index, err);
		if (r == 0)
			r = add_comment(decoder, index, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_scalars(struct decoder *decoder, struct error *err)
{
	struct profile *profile = decoder->profile;
	int r = get_string(decoder, decoder->drop_frames, "Profile.drop_frames", &profile->drop_frames, err);
	if (r == 0)
		r = get_string(decoder, decoder->keep_frames, "Profile.keep_frames", &profile->keep_frames, err);
	if (r == 0)
		r = get_string(decoder, decoder->default_sample_type, "Profile.default_sample_type",
			       &profile->default_sample_type, err);
	if (r == 0)
		r = get_string(decoder, decoder->doc_url, "Profile.doc_url", &profile->doc_url, err);
	if (r == 0 && decoder->period_type.data) {
		struct pb_cursor cursor = {decoder->period_type.data, decoder->period_type.data + decoder->period_type.len,
					   decoder->start};
		r = read_value_type(decoder, &cursor, &profile->period_type, err);
	}
	return r;
}

static int read_mapping(struct decoder *decoder, struct pb_cursor *cursor, const struct pb_field *field, struct error *err)
{
	uint64_t v[11] = {0};
	int r = format_read_varints(cursor, "Mapping", v, 10, err);
	if (r < 0)
		return r;
	struct profile_mapping mapping = {
		.start = v[2],
		.limit = v[3],
		.offset = v[4],
		.flags = (v[7] ? PROFILE_MAPPING_HAS_FUNCTIONS : 0u) | (v[8] ? PROFILE_MAPPING_HAS_FILENAMES : 0u) |
			 (v[9] ? PROFILE_MAPPING_HAS_LINE_NUMBERS : 0u) | (v[10] ? PROFILE_MAPPING_HAS_INLINE_FRAMES : 0u),
	};
	uint32_t id;
	r = get_string(decoder, v[5], "Mapping.filename", &mapping.file_name, err);
	if (r == 0)
		r = get_string(decoder, v[6], "Mapping.build_id", &mapping.build_id, err);
	if (r == 0)
		r = profile_add_mapping(decoder->profile, &mapping, &id, err);
	return r < 0 ? r : id_table_add(&decoder->mappings, v[1], id, "mapping", err);
}

static int borrow_location_id(struct decoder *decoder, struct pb_cursor *cursor, const struct pb_field *outer,
			      struct error *err)
{
	struct pb_field field;
	uint64_t id = 0;
	int r;
	while ((r = pb_next(cursor, &field, err)) > 0)
		if (field.number == 1 && field.wire == PB_VARINT)
			id = field.value;
	if (r < 0)
		return r;
	r = array_push(&decoder->borrowed_ids, &decoder->borrowed_count, &decoder->borrowed_capacity, LIMIT_PROFILE_ENTITIES,
		       id);
	return r == -E2BIG ? error_set(err, r, "more than %u locations, the limit", LIMIT_PROFILE_ENTITIES)
	       : r < 0	   ? error_nomem(err)
			   : 0;
}

/* A function without an id. Old versions of Pyroscope's client for .NET write none at all, and one function a location, to
 * which the location refers by its own id: so says Pyroscope, which repairs them. */
static int borrow_id(struct decoder *decoder, uint64_t *id, struct error *err)
{
	size_t ordinal = decoder->function_count - 1;
	if (ordinal == 0) {
		int r = for_each(decoder, 4, borrow_location_id, err);
		if (r < 0)
			return r;
	}
	if (ordinal < decoder->borrowed_count)
		*id = decoder->borrowed_ids[ordinal];
	return 0;
}

static int read_function(struct decoder *decoder, struct pb_cursor *cursor, const struct pb_field *field, struct error *err)
{
	uint64_t v[6] = {0};
	int r = format_read_varints(cursor, "Function", v, 5, err);
	decoder->function_count++;
	if (r == 0 && v[1] == 0)
		r = borrow_id(decoder, &v[1], err);
	else if (r == 0 && decoder->borrowed_ids)
		r = error_set(err, -EBADMSG, "functions before it have the reserved id 0");
	if (r < 0)
		return r;
	struct profile_function function = {.start_line = (int64_t)v[5]};
	uint32_t id;
	r = get_string(decoder, v[2], "Function.name", &function.name, err);
	if (r == 0)
		r = get_string(decoder, v[3], "Function.system_name", &function.system_name, err);
	if (r == 0)
		r = get_string(decoder, v[4], "Function.filename", &function.file_name, err);
	if (r == 0)
		r = profile_add_function(decoder->profile, &function, &id, err);
	return r < 0 ? r : id_table_add(&decoder->functions, v[1], id, "function", err);
}

/* ---- locations ---- */

static int read_line(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	uint64_t v[4] = {0};
	int r = format_read_varints(&cursor, "Line", v, 3, err);
	if (r < 0)
		return r;
	struct profile_line line = {.line = (int64_t)v[2], .column = (int64_t)v[3]};
	if (!id_table_get(&decoder->functions, v[1], &line.function))
		return error_set(err, -EBADMSG, "a line refers to function %llu, which does not exist",
				 (unsigned long long)v[1]);
	/* Lines are frames, those of functions inlined here. */
	r = array_push(&decoder->lines, &decoder->line_count, &decoder->line_capacity, LIMIT_STACK_DEPTH, line);
	if (r == -E2BIG)
		return error_set(err, r, "more than %d lines, the limit", LIMIT_STACK_DEPTH);
	return r < 0 ? error_nomem(err) : 0;
}

static enum profile_frame_type frame_type_of(const struct profile *profile, const struct profile_location *location)
{
	if (location->mapping == 0)
		return PROFILE_FRAME_UNKNOWN;
	struct bytes file_name = profile_string_bytes(profile, profile->mappings[location->mapping].file_name);
	if (format_is_kernel_file(file_name))
		return PROFILE_FRAME_KERNEL;
	if (location->address)
		return PROFILE_FRAME_NATIVE;
	/* The format has no frame types; the agent's mapping says it. */
	const struct profile_runtime *runtime = profile_runtime_of(file_name);
	return runtime ? runtime->type : PROFILE_FRAME_UNKNOWN;
}

static int read_location(struct decoder *decoder, struct pb_cursor *cursor, const struct pb_field *outer, struct error *err)
{
	uint64_t v[6] = {0};
	struct pb_field field;
	int r;
	decoder->line_count = 0;
	while ((r = pb_next(cursor, &field, err)) > 0) {
		if (field.number > 5)
			continue;
		r = pb_expect(cursor, &field, field.number == 4 ? PB_BYTES : PB_VARINT, "Location", err);
		if (r == 0 && field.number == 4)
			r = read_line(decoder, pb_open_nested(cursor, field.bytes), err);
		if (r < 0)
			return r;
		v[field.number] = field.value;
	}
	if (r < 0)
		return r;
	struct profile_location location = {.address = v[3], .folded = v[5] != 0};
	/* A mapping that does not exist is none. */
	if (v[2] && !id_table_get(&decoder->mappings, v[2], &location.mapping))
		location.mapping = 0;
	location.frame_type = frame_type_of(decoder->profile, &location);
	uint32_t id;
	r = profile_add_location(decoder->profile, &location, decoder->lines, decoder->line_count, &id, err);
	return r < 0 ? r : id_table_add(&decoder->locations, v[1], id, "location", err);
}

/* ---- samples ---- */

static int add_location_reference(struct decoder *decoder, uint64_t id, struct error *err)
{
	if (decoder->location_count == LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "the stack is deeper than %d frames, the limit", LIMIT_STACK_DEPTH);
	if (!id_table_get(&decoder->locations, id, &decoder->sample_locations[decoder->location_count]))
		return error_set(err, -EBADMSG, "refers to location %llu, which does not exist", (unsigned long long)id);
	decoder->location_count++;
	return 0;
}

/* The bulk of a profile is these: as many as are dense ids of one to three bytes, without a call. The general case takes what
 * is left. */
static void add_easy_references(struct decoder *decoder, struct pb_cursor *packed)
{
	const uint8_t *at = packed->at, *end = packed->end;
	const uint32_t *dense = decoder->locations.dense;
	size_t dense_count = decoder->locations.dense_count, count = decoder->location_count;
	while (end - at >= 3 && count < LIMIT_STACK_DEPTH) {
		uint32_t id = at[0];
		unsigned len = 1;
		if (id >= 0x80) {
			id = (id & 0x7f) | (uint32_t)at[1] << 7;
			len = 2;
			if (at[1] >= 0x80) {
				id = (id & 0x3fff) | (uint32_t)at[2] << 14;
				len = 3;
				if (at[2] >= 0x80)
					break;
			}
		}
		if (id - 1u >= dense_count)
			break;
		decoder->sample_locations[count++] = dense[id - 1];
		at += len;
	}
	packed->at = at;
	decoder->location_count = count;
}

static int read_location_references(struct decoder *decoder, struct pb_cursor *cursor, const struct pb_field *field,
				    struct error *err)
{
	if (field->wire == PB_VARINT)
		return add_location_reference(decoder, field->value, err);
	int r = pb_expect(cursor, field, PB_BYTES, "Sample.location_id", err);
	if (r < 0)
		return r;
	struct pb_cursor packed = pb_open_nested(cursor, field->bytes);
	add_easy_references(decoder, &packed);
	while (r == 0 && packed.at < packed.end) {
		uint64_t id = 0;
		r = pb_packed_varint(&packed, &id, err);
		if (r == 0)
			r = add_location_reference(decoder, id, err);
	}
	return r;
}

/* Values beyond the number of sample types are counted, to be named in the message, and not kept. */
static void add_value(struct decoder *decoder, uint64_t value)
{
	if (decoder->value_count < LIMIT_SAMPLE_TYPES)
		decoder->values[decoder->value_count] = (int64_t)value;
	decoder->value_count++;
}

static int read_values(struct decoder *decoder, struct pb_cursor *cursor, const struct pb_field *field, struct error *err)
{
	if (field->wire == PB_VARINT) {
		add_value(decoder, field->value);
		return 0;
	}
	int r = pb_expect(cursor, field, PB_BYTES, "Sample.value", err);
	if (r < 0)
		return r;
	struct pb_cursor packed = pb_open_nested(cursor, field->bytes);
	while (r == 0 && packed.at < packed.end) {
		uint64_t value = 0;
		r = pb_packed_varint(&packed, &value, err);
		add_value(decoder, value);
	}
	return r;
}

static int read_label(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	uint64_t v[5] = {0};
	struct profile_label label = {0};
	int r = format_read_varints(&cursor, "Label", v, 4, err);
	if (r == 0)
		r = get_string(decoder, v[1], "Label.key", &label.key, err);
	if (r == 0)
		r = get_string(decoder, v[2], "Label.str", &label.value, err);
	if (r == 0)
		r = get_string(decoder, v[4], "Label.num_unit", &label.unit, err);
	if (r < 0)
		return r;
	if (label.value)
		label.unit = 0;
	else
		label.number = (int64_t)v[3];
	if (!label.value && !label.number && !label.unit)
		return 0;
	r = array_push(&decoder->labels, &decoder->label_count, &decoder->label_capacity, LIMIT_PROFILE_ENTITIES, label);
	return r < 0 ? error_nomem(err) : 0;
}

static int read_sample_fields(struct decoder *decoder, struct pb_cursor *cursor, struct error *err)
{
	struct pb_field field;
	int r;
	while ((r = pb_next(cursor, &field, err)) > 0) {
		switch (field.number) {
		case 1: r = read_location_references(decoder, cursor, &field, err); break;
		case 2: r = read_values(decoder, cursor, &field, err); break;
		case 3:
			r = pb_expect(cursor, &field, PB_BYTES, "Sample.label", err);
			if (r == 0)
				r = read_label(decoder, pb_open_nested(cursor, field.bytes), err);
			break;
		default: continue;
		}
		if (r < 0)
			return r;
	}
	return r;
}

/* The stack of decoder->sample_locations; frames that it shares with the sample before are not looked up again. */
static int add_stack(struct decoder *decoder, uint32_t *ret, struct error *err)
{
	size_t count = decoder->location_count, depth = 0;
	size_t shared_max = count < decoder->previous_count ? count : decoder->previous_count;
	while (depth < shared_max && decoder->previous_locations[depth] == decoder->sample_locations[count - 1 - depth])
		depth++;
	uint32_t stack = depth ? decoder->previous_stacks[depth - 1] : 0;
	for (size_t i = depth; i < count; i++)
		decoder->previous_locations[i] = decoder->sample_locations[count - 1 - i];
	int r = profile_add_stack_frames(decoder->profile, stack, decoder->previous_locations + depth, count - depth,
					 decoder->previous_stacks + depth, err);
	if (r < 0)
		return r;
	decoder->previous_count = count;
	*ret = count ? decoder->previous_stacks[count - 1] : 0;
	return 0;
}

static int read_sample(struct decoder *decoder, struct pb_cursor *cursor, const struct pb_field *field, struct error *err)
{
	struct profile *profile = decoder->profile;
	decoder->location_count = 0;
	decoder->value_count = 0;
	decoder->label_count = 0;
	int r = read_sample_fields(decoder, cursor, err);
	if (r < 0)
		return r;
	if (profile->sample_type_count == 0)
		return error_set(err, -EBADMSG, "the profile has samples but no sample types");
	if (decoder->value_count != profile->sample_type_count)
		return error_set(err, -EBADMSG, "has %zu values, the profile has %zu sample types", decoder->value_count,
				 profile->sample_type_count);
	struct profile_sample sample = {0};
	r = add_stack(decoder, &sample.stack, err);
	if (r == 0 && decoder->label_count > 0)
		r = profile_add_label_set(profile, decoder->labels, decoder->label_count, &sample.labels, err);
	return r < 0 ? r : profile_add_sample(profile, &sample, decoder->values, err);
}

/* ---- the whole ---- */

static int decode(struct decoder *decoder, struct bytes input, struct error *err)
{
	static const struct {
		uint32_t number;
		each_function *read;
	} passes[] = {{1, read_sample_type}, {13, read_comment}, {3, read_mapping},
		      {5, read_function},    {4, read_location}, {2, read_sample}};
	int r = profile_new(&decoder->profile, err);
	if (r == 0)
		r = walk_top_level(decoder, input, err);
	if (r == 0)
		r = check_string_table(decoder, err);
	if (r == 0)
		r = make_room(decoder, err);
	if (r == 0)
		r = read_scalars(decoder, err);
	for (size_t i = 0; r == 0 && i < sizeof(passes) / sizeof(passes[0]); i++) {
		r = for_each(decoder, passes[i].number, passes[i].read, err);
		if (r == 0 && passes[i].number == 5 && decoder->borrowed_count != 0 &&
		    decoder->borrowed_count != decoder->function_count)
			r = error_set(err, -EBADMSG, "functions have the reserved id 0");
	}
	return r;
}

int pprof_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	if (input.len == 0)
		return error_set(err, -EBADMSG, "the pprof input is empty");
	if (input.len > INPUT_BYTES_MAX)
		return error_set(err, -E2BIG, "a pprof profile of %zu bytes is too large, the limit is %u", input.len,
				 INPUT_BYTES_MAX);
	if (legacy_kind(input))
		return legacy_decode(input, options, ret, err);
	struct decoder *decoder = mem_zalloc(sizeof(*decoder));
	if (!decoder)
		return error_nomem(err);
	id_table_init(&decoder->mappings);
	id_table_init(&decoder->functions);
	id_table_init(&decoder->locations);
	int r = decode(decoder, input, err);
	r = format_finish(r, decoder->profile, ret);
	id_table_release(&decoder->mappings);
	id_table_release(&decoder->functions);
	id_table_release(&decoder->locations);
	mem_free(decoder->strings);
	mem_free(decoder->borrowed_ids);
	mem_free(decoder->lines);
	mem_free(decoder->labels);
	mem_free(decoder);
	return r;
}

/* Protocol buffers of more than a few bytes hold control characters, text does not. */
static bool is_text(struct bytes input)
{
	for (size_t i = 0; i < input.len && i < 256; i++)
		if (input.data[i] < 0x20 && input.data[i] != '\t' && input.data[i] != '\n' && input.data[i] != '\r')
			return false;
	return true;
}

/* A pprof message has a field beyond 2 somewhere, its string table at the least; one that has not may be OTLP. What is damaged
 * behind a good beginning is taken for pprof too, so that decoding it says what is wrong. */
static bool detect(struct bytes input)
{
	struct pb_field field;
	size_t count = 0, enough = 1;
	int r;
	if (input.len == 0 || legacy_kind(input))
		return input.len > 0;
	if (is_text(input))
		return false;
	struct pb_cursor cursor = pb_open(input);
	for (; (r = pb_next(&cursor, &field, NULL)) > 0; count++) {
		bool fits = field.number <= FIELD_MAX && field.wire == (field_is_bytes(field.number) ? PB_BYTES : PB_VARINT);
		/* Numbers alone say little: other formats' magic bytes look like them. */
		if (count == 0 && field.wire != PB_BYTES)
			enough = 3;
		if (count >= enough && (!fits || field.number > 2))
			return true;
		if (!fits)
			return false;
	}
	return r < 0 && (count >= enough || input.data[0] == 0x0a || input.data[0] == 0x12);
}

const struct format format_pprof = {
	.name = "pprof",
	.extensions = ".pb.gz .pb .pprof",
	.description = "pprof, gzip'ed protocol buffers: Go, go tool pprof, most profilers",
	.holds = FORMAT_HOLDS_TYPES | FORMAT_HOLDS_THREADS | FORMAT_HOLDS_LABELS | FORMAT_HOLDS_FILES | FORMAT_HOLDS_LINES |
		 FORMAT_HOLDS_INLINES | FORMAT_HOLDS_ADDRESSES | FORMAT_HOLDS_SYSTEM_NAMES | FORMAT_HOLDS_COMMENTS,
	.detect = detect,
	.decode = pprof_decode,
	.encode = pprof_encode,
};
