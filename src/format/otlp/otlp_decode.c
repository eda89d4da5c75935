/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding OTLP profiles (opentelemetry.proto.profiles.v1development, and the collector's request, which is the same message):
 *
 *   ProfilesData      1 resource_profiles  2 dictionary (otlp_dictionary.c)
 *   ResourceProfiles  1 resource { 1 attributes  3 entity_refs { 2 type  4 description_keys } }  2 scope_profiles
 *   ScopeProfiles     1 scope  2 profiles
 *   Profile           1 sample_type  2 samples  3 time (fixed64)  4 duration  5 period_type  6 period
 *
 * Two layouts of what comes then are in use:
 *
 *   from 1.10   Profile  7 profile_id  8 dropped  9, 10 original payload  11 attributes
 *               Sample   1 stack  2 attributes  3 link  4 values  5 timestamps (fixed64)
 *   1.8, 1.9    Profile  7 comments  8 profile_id  9 dropped  10, 11 original payload  12 attributes
 *               Sample   1 stack  2 values  3 attributes  4 link  5 timestamps
 *
 * A request does not say which it is, but a field whose wire type fits only one of them does: Sample 3 and 4 and Profile 8. The
 * first such field decides for the whole request; if there is none, it is the newer one. Lists may be written packed or as
 * single numbers (async-profiler's are), so a number in Sample 3 or 4 is a link's only if there is such a link.
 *
 * Samples of one profile all have the same shape: one value; or timestamps, each of which counts as 1; or as many values as
 * timestamps. With timestamps, each becomes a sample of its own.
 *
 * Attributes that an entity of the type "host" names as its description are host_labels of the profile as well.
 *
 * Fields may come in any order (some writers emit them backwards), so a message whose parts depend on each other is walked
 * twice. The original payload is not looked at.
 */
#include <errno.h>

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/map.h"
#include "format/format_int.h"
#include "format/otlp/otlp_int.h"

/* Offsets into the input are 32 bits. */
#define INPUT_BYTES_MAX (UINT32_MAX / 2)
#define SAMPLE_COST	64

enum layout { LAYOUT_UNKNOWN, LAYOUT_1_9, LAYOUT_1_10 };

/* A resource's attribute, a view of the input. */
struct resource_attribute {
	struct bytes key, value;
	bool describes_host;
};

enum shape { SHAPE_NONE, SHAPE_VALUES_ONLY, SHAPE_TIMESTAMPS_ONLY, SHAPE_BOTH };
static const char *const shape_names[] = {"", "values only", "timestamps only", "values and timestamps"};

/* A list of attributes that a sample has had. Samples of one thread, or pod, have the same: it becomes a label set once. */
struct seen_list {
	uint32_t epoch; /* of the dictionary: of which profile */
	uint32_t labels;
	size_t first, count; /* in decoder->seen_attributes */
};

struct decoder {
	struct otlp_dictionary dictionary;
	enum layout layout;
	struct otlp_request *request;

	struct resource_attribute *resource;
	size_t resource_count, resource_capacity;
	struct bytes described[LIMIT_LABELS_PER_SERIES]; /* keys of attributes that describe the host */
	size_t described_count;

	struct seen_list *seen;
	struct index32 seen_index;
	uint32_t *seen_attributes;
	size_t seen_count, seen_capacity, seen_attribute_count, seen_attribute_capacity;

	/* Of the profile being read */
	enum shape shape;
	struct otlp_indexes attributes;
	uint64_t *values, *times;
	size_t value_count, value_capacity, time_count, time_capacity;
};

/* ---- walking ---- */

typedef int (*message_fn)(struct decoder *decoder, struct pb_cursor cursor, struct error *err);

/* Calls `each` for every submessage with this number; other fields are passed over. */
static int for_each(struct decoder *decoder, struct pb_cursor cursor, uint32_t number, const char *name, message_fn each,
		    struct error *err)
{
	struct pb_field field;
	size_t ordinal = 0;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number != number)
			continue;
		r = pb_expect(&cursor, &field, PB_BYTES, name, err);
		if (r != 0)
			return r;
		r = each(decoder, pb_open_nested(&cursor, field.bytes), err);
		if (r != 0)
			return r < 0 ? error_prefix(err, r, "%s[%zu]", name, ordinal) : r;
		ordinal++;
	}
	return r;
}

/* ---- which layout ---- */

/* Field 3 is a link in the newer one and attributes in the older, field 4 values in the newer and a link in the older. */
static enum layout layout_of_field(const struct decoder *decoder, const struct pb_field *field)
{
	bool is_list = field->wire == PB_BYTES;
	if ((field->number != 3 && field->number != 4) || (!is_list && (field->wire != PB_VARINT || field->value == 0)))
		return LAYOUT_UNKNOWN;
	is_list = is_list || field->value >= decoder->dictionary.tables[OTLP_LINKS].count;
	return is_list == (field->number == 3) ? LAYOUT_1_9 : LAYOUT_1_10;
}

/* These return 1 when the layout is known, to stop the walk. */
static int sniff_sample(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		decoder->layout = layout_of_field(decoder, &field);
		if (decoder->layout != LAYOUT_UNKNOWN)
			return 1;
	}
	return r;
}

static int sniff_profile(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	struct pb_cursor again = cursor;
	int r = for_each(decoder, cursor, 2, "samples", sniff_sample, err);
	if (r != 0)
		return r;
	struct pb_field field;
	while ((r = pb_next(&again, &field, err)) > 0) {
		if (field.number != 8)
			continue;
		decoder->layout = field.wire == PB_BYTES ? LAYOUT_1_9 : LAYOUT_1_10;
		return 1;
	}
	return r;
}

static int sniff_scope(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	return for_each(decoder, cursor, 2, "profiles", sniff_profile, err);
}

static int sniff_resource(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	return for_each(decoder, cursor, 2, "scope_profiles", sniff_scope, err);
}

/* ---- the resource ---- */

/* A KeyValue; the key may be in the dictionary. An empty value counts as absent. */
static int read_resource_attribute(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	static const enum pb_wire wires[] = {0, PB_BYTES, PB_BYTES, PB_VARINT};
	static const char *const names[] = {"", "KeyValue.key", "KeyValue.value", "KeyValue.key_strindex"};
	struct resource_attribute attribute = {{cursor.end, 0}, {cursor.end, 0}, false};
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number > 3)
			continue;
		r = pb_expect(&cursor, &field, wires[field.number], names[field.number], err);
		if (r < 0)
			return r;
		size_t strings = decoder->dictionary.tables[OTLP_STRINGS].count;
		if (field.number == 1)
			attribute.key = field.bytes;
		else if (field.number == 2)
			attribute.value = field.bytes;
		else if (field.value >= strings && field.value != 0)
			return error_set(err, -EBADMSG, "%s: index %lld is outside string_table of %zu entries", names[3],
					 (long long)field.value, strings);
		else if (field.value != 0)
			attribute.key = otlp_string_bytes(&decoder->dictionary, field.value);
	}
	if (r < 0)
		return r;
	r = array_push(&decoder->resource, &decoder->resource_count, &decoder->resource_capacity, LIMIT_PROFILE_ENTITIES,
		       attribute);
	return r < 0 ? error_nomem(err) : 0;
}

/* An EntityRef. Of very many keys the first count. */
static int read_entity(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	struct pb_field field;
	size_t before = decoder->described_count;
	bool is_host = false;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number != 2 && field.number != 4)
			continue;
		r = pb_expect(&cursor, &field, PB_BYTES, field.number == 2 ? "EntityRef.type" : "EntityRef.description_keys",
			      err);
		if (r < 0)
			return r;
		if (field.number == 2)
			is_host = bytes_equal_string(field.bytes, "host");
		else if (decoder->described_count < LIMIT_LABELS_PER_SERIES)
			decoder->described[decoder->described_count++] = field.bytes;
	}
	if (!is_host)
		decoder->described_count = before;
	return r;
}

static int read_resource(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	int r = for_each(decoder, cursor, 1, "attributes", read_resource_attribute, err);
	return r < 0 ? r : for_each(decoder, cursor, 3, "entity_refs", read_entity, err);
}

static bool describes_host(const struct decoder *decoder, struct bytes key)
{
	for (size_t i = 0; i < decoder->described_count; i++)
		if (bytes_equal(decoder->described[i], key))
			return true;
	return false;
}

/* Refuses keys that come twice, then forgets attributes without a value, so that no profile of the resource looks at them. */
static int check_resource(struct decoder *decoder, struct error *err)
{
	_cleanup_(intern_release) struct intern keys = {0};
	if (intern_init(&keys, SIZE_MAX) < 0)
		return error_nomem(err);
	int r = 0;
	size_t kept = 0;
	for (size_t i = 0; i < decoder->resource_count && r == 0; i++) {
		struct resource_attribute attribute = decoder->resource[i];
		uint32_t known = (uint32_t)keys.count, id;
		if (intern_add(&keys, attribute.key.data, attribute.key.len, &id) < 0)
			r = error_nomem(err);
		else if (attribute.key.len > 0 && id != known)
			r = error_set(err, -EBADMSG, "resource: duplicate attribute key \"%s\"", intern_string(&keys, id));
		attribute.describes_host = describes_host(decoder, attribute.key);
		if (!otlp_value_is_empty(pb_open(attribute.value)))
			decoder->resource[kept++] = attribute;
	}
	decoder->resource_count = kept;
	return r;
}

/* The resource's attributes, and the profile's own, which win. */
static int add_resource_labels(struct decoder *decoder, struct profile *profile, struct error *err)
{
	struct otlp_dictionary *dictionary = &decoder->dictionary;
	dictionary->label_count = 0;
	int r = otlp_get_attributes(dictionary, &decoder->attributes, err);
	size_t own = dictionary->label_count;
	for (size_t i = 0; i < decoder->resource_count && r == 0; i++) {
		struct bytes name = decoder->resource[i].key;
		uint32_t key = 0;
		r = otlp_spend(dictionary, name.len + 48 + 8 * own, err);
		if (r == 0)
			r = profile_add_bytes(profile, name, &key, err);
		if (r == 0 && !profile_has_key(dictionary->labels, own, key))
			r = otlp_add_value(dictionary, key, pb_open(decoder->resource[i].value), 0, err);
	}
	return r < 0 ? r
		     : profile_add_label_set(profile, dictionary->labels, dictionary->label_count, &profile->resource_labels,
					     err);
}

static int add_host_labels(struct decoder *decoder, struct profile *profile, struct error *err)
{
	struct otlp_dictionary *dictionary = &decoder->dictionary;
	dictionary->label_count = 0;
	int r = 0;
	for (size_t i = 0; decoder->described_count && i < decoder->resource_count && r == 0; i++) {
		struct bytes name = decoder->resource[i].key;
		uint32_t key = 0;
		if (!decoder->resource[i].describes_host)
			continue;
		r = otlp_spend(dictionary, name.len + 48, err);
		if (r == 0)
			r = profile_add_bytes(profile, name, &key, err);
		if (r == 0)
			r = otlp_add_value(dictionary, key, pb_open(decoder->resource[i].value), 0, err);
	}
	return r < 0 ? r
		     : profile_add_label_set(profile, dictionary->labels, dictionary->label_count, &profile->host_labels, err);
}

/* ---- samples ---- */

static int add_number(uint64_t **array, size_t *count, size_t *capacity, uint64_t value, struct error *err)
{
	return array_push(array, count, capacity, SIZE_MAX, value) < 0 ? error_nomem(err) : 0;
}

static int read_values(struct decoder *decoder, const struct pb_cursor *cursor, const struct pb_field *field, struct error *err)
{
	if (field->wire == PB_VARINT)
		return add_number(&decoder->values, &decoder->value_count, &decoder->value_capacity, field->value, err);
	int r = pb_expect(cursor, field, PB_BYTES, "values", err);
	if (r < 0)
		return r;
	struct pb_cursor packed = pb_open_nested(cursor, field->bytes);
	while (r == 0 && packed.at < packed.end) {
		uint64_t value = 0;
		r = pb_packed_varint(&packed, &value, err);
		if (r == 0)
			r = add_number(&decoder->values, &decoder->value_count, &decoder->value_capacity, value, err);
	}
	return r;
}

static int add_time(struct decoder *decoder, uint64_t time, struct error *err)
{
	if (time > INT64_MAX)
		return error_set(err, -EBADMSG, "timestamps_unix_nano: %llu is too large", (unsigned long long)time);
	return add_number(&decoder->times, &decoder->time_count, &decoder->time_capacity, time, err);
}

static int read_times(struct decoder *decoder, const struct pb_cursor *cursor, const struct pb_field *field, struct error *err)
{
	if (field->wire == PB_FIXED64)
		return add_time(decoder, field->value, err);
	int r = pb_expect(cursor, field, PB_BYTES, "timestamps_unix_nano", err);
	if (r < 0)
		return r;
	if (field->bytes.len % 8 != 0)
		return error_set(err, -EBADMSG, "timestamps_unix_nano: %zu bytes are not a multiple of 8", field->bytes.len);
	for (size_t at = 0; at < field->bytes.len && r == 0; at += 8) {
		uint64_t time = 0;
		for (unsigned i = 0; i < 8; i++)
			time |= (uint64_t)field->bytes.data[at + i] << (8 * i);
		r = add_time(decoder, time, err);
	}
	return r;
}

/* What a field of a sample is in the request's layout. */
enum sample_part { PART_OTHER, PART_STACK, PART_ATTRIBUTES, PART_LINK, PART_VALUES, PART_TIMES };

static enum sample_part part_of(enum layout layout, uint32_t number)
{
	static const enum sample_part old[] = {PART_OTHER, PART_STACK, PART_VALUES, PART_ATTRIBUTES, PART_LINK, PART_TIMES};
	static const enum sample_part new[] = {PART_OTHER, PART_STACK, PART_ATTRIBUTES, PART_LINK, PART_VALUES, PART_TIMES};
	if (number > 5)
		return PART_OTHER;
	return layout == LAYOUT_1_9 ? old[number] : new[number];
}

static int read_sample_field(struct decoder *decoder, const struct pb_cursor *cursor, const struct pb_field *field,
			     struct profile_sample *sample, struct error *err)
{
	struct otlp_dictionary *dictionary = &decoder->dictionary;
	int r;
	switch (part_of(decoder->layout, field->number)) {
	case PART_STACK:
		r = pb_expect(cursor, field, PB_VARINT, "stack_index", err);
		return r < 0 ? r : otlp_get(dictionary, OTLP_STACKS, field->value, "stack_index", &sample->stack, err);
	case PART_LINK:
		r = pb_expect(cursor, field, PB_VARINT, "link_index", err);
		return r < 0 ? r : otlp_get(dictionary, OTLP_LINKS, field->value, "link_index", &sample->link, err);
	case PART_ATTRIBUTES:
		return otlp_read_indexes(dictionary, &decoder->attributes, cursor, field, OTLP_ATTRIBUTES, "attribute_indices",
					 err);
	case PART_VALUES: return read_values(decoder, cursor, field, err);
	case PART_TIMES: return read_times(decoder, cursor, field, err);
	default: return 0;
	}
}

static int check_shape(struct decoder *decoder, struct error *err)
{
	enum shape shape;
	if (decoder->time_count == 0 && decoder->value_count == 0)
		return error_set(err, -EBADMSG, "has neither values nor timestamps");
	if (decoder->time_count == 0 && decoder->value_count != 1)
		return error_set(err, -EBADMSG, "has %zu values, but without timestamps there must be one",
				 decoder->value_count);
	if (decoder->time_count > 0 && decoder->value_count > 0 && decoder->time_count != decoder->value_count)
		return error_set(err, -EBADMSG, "has %zu values for %zu timestamps", decoder->value_count, decoder->time_count);
	if (decoder->time_count == 0)
		shape = SHAPE_VALUES_ONLY;
	else
		shape = decoder->value_count == 0 ? SHAPE_TIMESTAMPS_ONLY : SHAPE_BOTH;
	if (decoder->shape != SHAPE_NONE && decoder->shape != shape)
		return error_set(err, -EBADMSG, "has %s, the samples before it have %s", shape_names[shape],
				 shape_names[decoder->shape]);
	decoder->shape = shape;
	return 0;
}

static int add_samples(struct decoder *decoder, struct profile_sample sample, struct error *err)
{
	struct profile *profile = decoder->dictionary.profile;
	size_t count = decoder->time_count ? decoder->time_count : 1;
	int r = otlp_spend(&decoder->dictionary, SAMPLE_COST * count, err);
	for (size_t i = 0; i < count && r == 0; i++) {
		int64_t value = decoder->value_count ? (int64_t)decoder->values[i] : 1;
		sample.time_ns = decoder->time_count ? (int64_t)decoder->times[i] : 0;
		r = profile_add_sample(profile, &sample, &value, err);
	}
	return r;
}

static bool find_list(const struct decoder *decoder, uint64_t hash, uint32_t *ret_labels)
{
	const struct otlp_indexes *list = &decoder->attributes;
	uint32_t id;
	for (size_t at = index32_first(&decoder->seen_index, hash); index32_at(&decoder->seen_index, hash, &at, &id); at++) {
		const struct seen_list *seen = &decoder->seen[id];
		if (seen->epoch != decoder->dictionary.epoch || seen->count != list->count ||
		    memcmp(decoder->seen_attributes + seen->first, list->items, list->count * sizeof(*list->items)) != 0)
			continue;
		*ret_labels = seen->labels;
		return true;
	}
	return false;
}

#define SEEN_COST 64

/* Those of all profiles together: never more than the lists in the input, so nothing is cleared between two profiles. */
static int remember_list(struct decoder *decoder, uint64_t hash, uint32_t labels, struct error *err)
{
	const struct otlp_indexes *list = &decoder->attributes;
	size_t first = decoder->seen_attribute_count;
	int r = otlp_spend(&decoder->dictionary, SEEN_COST + list->count * sizeof(*list->items), err);
	if (r < 0)
		return r;
	if (array_reserve(&decoder->seen_attributes, &decoder->seen_attribute_capacity, first + list->count, SIZE_MAX) < 0 ||
	    array_push(&decoder->seen, &decoder->seen_count, &decoder->seen_capacity, UINT32_MAX - 1,
		       (struct seen_list){decoder->dictionary.epoch, labels, first, list->count}) < 0)
		return error_nomem(err);
	memcpy(decoder->seen_attributes + first, list->items, list->count * sizeof(*list->items));
	decoder->seen_attribute_count += list->count;
	return index32_add(&decoder->seen_index, hash, (uint32_t)decoder->seen_count - 1) < 0 ? error_nomem(err) : 0;
}

/* The label set of decoder->attributes. */
static int get_label_set(struct decoder *decoder, uint32_t *ret, struct error *err)
{
	struct otlp_dictionary *dictionary = &decoder->dictionary;
	const struct otlp_indexes *list = &decoder->attributes;
	if (list->count == 0)
		return 0;
	uint64_t hash = hash64_guarded(list->items, list->count * sizeof(*list->items)) ^ hash64_mix(dictionary->epoch);
	if (find_list(decoder, hash, ret))
		return 0;
	dictionary->label_count = 0;
	int r = otlp_get_attributes(dictionary, list, err);
	if (r == 0)
		r = profile_add_label_set(dictionary->profile, dictionary->labels, dictionary->label_count, ret, err);
	return r < 0 ? r : remember_list(decoder, hash, *ret, err);
}

static int read_sample(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	struct profile_sample sample = {0};
	struct pb_field field;
	int r;
	decoder->attributes.count = 0;
	decoder->value_count = 0;
	decoder->time_count = 0;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		r = read_sample_field(decoder, &cursor, &field, &sample, err);
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = check_shape(decoder, err);
	if (r == 0)
		r = get_label_set(decoder, &sample.labels, err);
	return r < 0 ? r : add_samples(decoder, sample, err);
}

/* ---- profiles ---- */

static int read_value_type(struct decoder *decoder, const struct pb_cursor *outer, struct bytes message, const char *name,
			   struct profile_value_type *ret, struct error *err)
{
	uint64_t v[3] = {0};
	struct pb_cursor cursor = pb_open_nested(outer, message);
	int r = format_read_varints(&cursor, name, v, 2, err);
	if (r == 0)
		r = otlp_get_name(&decoder->dictionary, v[1], name, &ret->type, err);
	return r < 0 ? r : otlp_get(&decoder->dictionary, OTLP_STRINGS, v[2], name, &ret->unit, err);
}

static int read_profile_field(struct decoder *decoder, const struct pb_cursor *cursor, const struct pb_field *field,
			      struct profile_value_type *sample_type, struct error *err)
{
	static const enum pb_wire wires[] = {0, PB_BYTES, PB_BYTES, PB_FIXED64, PB_VARINT, PB_BYTES, PB_VARINT};
	static const char *const names[] = {"",	     "sample_type", "samples", "time_unix_nano", "duration_nano", "period_type",
					    "period"};
	struct profile *profile = decoder->dictionary.profile;
	if (field->number == (decoder->layout == LAYOUT_1_9 ? 12u : 11u))
		return otlp_read_indexes(&decoder->dictionary, &decoder->attributes, cursor, field, OTLP_ATTRIBUTES,
					 "attribute_indices", err);
	if (field->number > 6)
		return 0;
	int r = pb_expect(cursor, field, wires[field->number], names[field->number], err);
	if (r < 0)
		return r;
	if ((field->number == 3 || field->number == 4) && field->value > INT64_MAX)
		return error_set(err, -EBADMSG, "%s: %llu is too large", names[field->number],
				 (unsigned long long)field->value);
	switch (field->number) {
	case 1: return read_value_type(decoder, cursor, field->bytes, names[1], sample_type, err);
	case 3: profile->time_ns = (int64_t)field->value; break;
	case 4: profile->duration_ns = (int64_t)field->value; break;
	case 5: return read_value_type(decoder, cursor, field->bytes, names[5], &profile->period_type, err);
	case 6: profile->period = (int64_t)field->value; break;
	}
	return 0;
}

static int fill_profile(struct decoder *decoder, struct profile *profile, struct pb_cursor cursor, struct error *err)
{
	struct pb_cursor again = cursor;
	struct profile_value_type type = {0};
	struct pb_field field;
	decoder->shape = SHAPE_NONE;
	decoder->attributes.count = 0;
	int r = otlp_dictionary_begin(&decoder->dictionary, profile, (size_t)(cursor.end - cursor.at), err);
	while (r == 0 && (r = pb_next(&cursor, &field, err)) > 0)
		r = read_profile_field(decoder, &cursor, &field, &type, err);
	if (r == 0)
		r = profile_add_sample_type(profile, type.type, type.unit, err);
	if (r == 0)
		r = add_resource_labels(decoder, profile, err);
	if (r == 0)
		r = add_host_labels(decoder, profile, err);
	return r < 0 ? r : for_each(decoder, again, 2, "samples", read_sample, err);
}

static int read_profile(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	struct otlp_request *request = decoder->request;
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = profile_new(&profile, err);
	if (r == 0)
		r = fill_profile(decoder, profile, cursor, err);
	if (r < 0)
		return r;
	r = array_push(&request->profiles, &request->count, &request->capacity, LIMIT_PROFILE_ENTITIES, TAKE(profile));
	return r < 0 ? error_nomem(err) : 0;
}

static int read_scope(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	return for_each(decoder, cursor, 2, "profiles", read_profile, err);
}

static int read_resource_profiles(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	decoder->resource_count = decoder->described_count = 0;
	int r = for_each(decoder, cursor, 1, "resource", read_resource, err);
	if (r == 0)
		r = check_resource(decoder, err);
	return r < 0 ? r : for_each(decoder, cursor, 2, "scope_profiles", read_scope, err);
}

/* ---- the request ---- */

static int read_dictionary(struct decoder *decoder, struct pb_cursor cursor, struct error *err)
{
	return otlp_dictionary_add(&decoder->dictionary, &cursor, (struct bytes){cursor.at, (size_t)(cursor.end - cursor.at)},
				   err);
}

static int decode(struct decoder *decoder, struct bytes input, struct error *err)
{
	struct pb_cursor cursor = pb_open(input);
	int r = for_each(decoder, cursor, 2, "dictionary", read_dictionary, err);
	if (r == 0)
		r = otlp_dictionary_check(&decoder->dictionary, err);
	if (r == 0)
		r = for_each(decoder, cursor, 1, "resource_profiles", sniff_resource, err);
	if (r < 0)
		return r;
	decoder->request->odd_tables = decoder->dictionary.odd;
	decoder->request->filled_tables = decoder->dictionary.filled;
	r = for_each(decoder, cursor, 1, "resource_profiles", read_resource_profiles, err);
	return r < 0 ? r : otlp_join_process_stats(decoder->request, err);
}

void otlp_request_release(struct otlp_request *request)
{
	for (size_t i = 0; i < request->count; i++)
		profile_free(request->profiles[i]);
	request->profiles = mem_free(request->profiles);
	request->count = request->capacity = 0;
}

int otlp_decode(struct bytes input, const struct format_options *options, struct otlp_request *ret, struct error *err)
{
	struct otlp_request request = {0};
	if (input.len == 0)
		return 0;
	if (input.len > INPUT_BYTES_MAX)
		return error_set(err, -E2BIG, "an OTLP request of %zu bytes is too large, the limit is %u", input.len,
				 INPUT_BYTES_MAX);
	struct decoder decoder = {.request = &request};
	otlp_dictionary_init(&decoder.dictionary, input);
	int r = decode(&decoder, input, err);
	otlp_dictionary_release(&decoder.dictionary);
	otlp_indexes_release(&decoder.attributes);
	index32_release(&decoder.seen_index);
	mem_free(decoder.seen_attributes);
	mem_free(decoder.seen);
	mem_free(decoder.resource);
	mem_free(decoder.values);
	mem_free(decoder.times);
	if (r < 0) {
		otlp_request_release(&request);
		return r;
	}
	otlp_request_release(ret);
	*ret = request;
	return 0;
}

int otlp_decode_response(struct bytes input, uint64_t *ret_rejected, struct buffer *ret_message, struct error *err)
{
	struct pb_field field;
	uint64_t rejected = 0;
	struct bytes partial_success, message = {0};
	int r = pb_find_bytes(NULL, input, 1, &partial_success, err);
	if (r < 0)
		return r;
	struct pb_cursor cursor = pb_open(partial_success);
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number == 1 && field.wire == PB_VARINT)
			rejected = field.value;
		else if (field.number == 2 && field.wire == PB_BYTES)
			message = field.bytes;
	}
	if (r < 0)
		return r;
	*ret_rejected = rejected;
	if (ret_message && message.len > 0 && (r = buffer_append(ret_message, message.data, message.len)) < 0)
		return format_buffer_error(r, ret_message, "the collector's message", err);
	return 0;
}
