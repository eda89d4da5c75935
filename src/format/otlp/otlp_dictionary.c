/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dictionary of an OTLP request (ProfilesDictionary): tables that all profiles of the request refer to by index.
 *
 *   1 mapping_table    1 start  2 limit  3 offset  4 file name  5 attributes
 *   2 location_table   1 mapping  2 address  3 lines { 1 function  2 line  3 column }  4 attributes
 *   3 function_table   1 name  2 system name  3 file name  4 start line
 *   4 link_table       1 trace id (16 bytes)  2 span id (8 bytes)
 *   5 string_table
 *   6 attribute_table  1 key  2 AnyValue  3 unit
 *   7 stack_table      1 locations, leaf first
 *
 * Entry 0 of each table is the zero value, so index 0 means "none". A table that is missing is taken to hold just that.
 *
 * Writers that fill entry 0 are in use: async-profiler (a link of 16 and 8 zero bytes), Pyroscope's canary (its first
 * location). A link whose bytes are all zero is the zero value. Otherwise the entry is taken where index 0 can mean nothing
 * else: in lists (frames of a stack, attributes), where it is written out; as the function of a line, the stack of a sample,
 * the name of a function, of a value type or of an attribute, which have no use for "none"; as the mapping of an address that
 * lies in it. A link stays "none", since most samples have none and proto3 does not tell 0 from absent, and so do other texts.
 * Requests with such entries are counted (struct otlp_request).
 *
 * The tables are kept as offsets into the input, four bytes an entry. Functions, locations and stacks are read once, into
 * arrays (otlp_entries.c); the few mappings, attributes and links, and the texts, when a profile first uses them: a request of
 * many profiles (one a process) uses each entry in few of them. Everything is read once before, to check all references, so
 * that a bad entry is refused whether it is used or not.
 *
 * What an entry has become in the profile at hand is noted beside it, with the number of that profile, so that nothing is
 * cleared between two.
 *
 * Expansion. A profile copies what it uses, so a request of many small profiles that use the same large entries could grow to
 * many times its size. What is built is counted in bytes against a budget that depends on the input's size (otlp_spend); real
 * requests stay far below it.
 *
 * Duplicate attribute keys are found by stamping the key's string with the number of the list, which takes no clearing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "elf/file_ids.h"
#include "format/format_int.h"
#include "format/otlp/otlp_int.h"

#define BUDGET_BASE  (256 * MIB)
#define BUDGET_TIMES 16

static const char *const table_names[OTLP_TABLE_END] = {
	"", "mapping_table", "location_table", "function_table", "link_table", "string_table", "attribute_table", "stack_table",
};

const char *otlp_table_list(unsigned tables, char out[static OTLP_TABLES_TEXT_MAX])
{
	size_t len = 0;
	out[0] = '\0';
	for (unsigned i = 1; i < OTLP_TABLE_END; i++)
		if (tables & 1u << i)
			len += (size_t)snprintf(out + len, OTLP_TABLES_TEXT_MAX - len, "%s%s", len ? ", " : "", table_names[i]);
	return out;
}

/* ---- life ---- */

void otlp_dictionary_init(struct otlp_dictionary *dictionary, struct bytes input)
{
	*dictionary = (struct otlp_dictionary){
		.start = input.data,
		.end = input.data + input.len,
		.budget = BUDGET_BASE + BUDGET_TIMES * (uint64_t)input.len,
	};
	buffer_init(&dictionary->text, LIMIT_PROFILE_INPUT_BYTES);
}

void otlp_indexes_release(struct otlp_indexes *list)
{
	list->items = mem_free(list->items);
	list->count = list->capacity = 0;
}

void otlp_dictionary_release(struct otlp_dictionary *dictionary)
{
	for (size_t i = 0; i < OTLP_TABLE_END; i++)
		mem_free(dictionary->tables[i].offsets);
	mem_free(dictionary->known);
	mem_free(dictionary->attribute_keys);
	mem_free(dictionary->frame_types);
	mem_free(dictionary->key_stamps);
	otlp_indexes_release(&dictionary->attributes);
	otlp_entries_release(dictionary);
	mem_free(dictionary->path);
	mem_free(dictionary->own_lines);
	mem_free(dictionary->labels);
	buffer_release(&dictionary->text);
}

int otlp_spend(struct otlp_dictionary *dictionary, uint64_t bytes, struct error *err)
{
	dictionary->spent += bytes;
	if (dictionary->spent <= dictionary->budget)
		return 0;
	return error_set(err, -E2BIG, "the request expands to more than %llu bytes; send fewer profiles at a time",
			 (unsigned long long)dictionary->budget);
}

/* ---- entries ---- */

struct bytes otlp_string_bytes(const struct otlp_dictionary *dictionary, uint64_t index)
{
	struct pb_cursor cursor = otlp_entry_at(dictionary, OTLP_STRINGS, index);
	return (struct bytes){cursor.at, (size_t)(cursor.end - cursor.at)};
}

/* Most tables have more entries than an array begins with. */
#define OFFSETS_FIRST 256

static int add_entry(struct otlp_dictionary *dictionary, const struct pb_field *field, struct error *err)
{
	struct otlp_table *table = &dictionary->tables[field->number];
	size_t need = table->count < OFFSETS_FIRST ? OFFSETS_FIRST : table->count + 1;
	int r = table->count < table->capacity ? 0
					       : array_reserve(&table->offsets, &table->capacity, need, LIMIT_PROFILE_ENTITIES);
	if (r == -E2BIG)
		return error_set(err, r, "%s has more than %u entries, the limit", table_names[field->number],
				 LIMIT_PROFILE_ENTITIES);
	if (r < 0)
		return error_nomem(err);
	/* Back to the first byte of the length: the tag before it ends in a byte below 0x80. */
	const uint8_t *at = field->bytes.data - 1;
	while (at > dictionary->start && (at[-1] & 0x80))
		at--;
	table->offsets[table->count++] = (uint32_t)(at - dictionary->start);
	return 0;
}

int otlp_dictionary_add(struct otlp_dictionary *dictionary, const struct pb_cursor *outer, struct bytes message,
			struct error *err)
{
	struct pb_field field;
	struct pb_cursor cursor = pb_open_nested(outer, message);
	int r;
	dictionary->bytes += message.len;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number >= OTLP_TABLE_END)
			continue;
		r = pb_expect(&cursor, &field, PB_BYTES, table_names[field.number], err);
		if (r == 0)
			r = add_entry(dictionary, &field, err);
		if (r < 0)
			break;
	}
	return r < 0 ? error_prefix(err, r, "dictionary") : 0;
}

/* ---- references ---- */

int otlp_refuse_reference(const struct otlp_dictionary *dictionary, enum otlp_table_number number, uint64_t index,
			  const char *name, struct error *err)
{
	return error_set(err, -EBADMSG, "%s: index %lld is outside %s of %zu entries", name, (long long)index,
			 table_names[number], dictionary->tables[number].count);
}

static int add_index(const struct otlp_dictionary *dictionary, struct otlp_indexes *list, uint64_t index,
		     enum otlp_table_number table, const char *name, struct error *err)
{
	int r = otlp_check_reference(dictionary, table, index, name, err);
	if (r < 0)
		return r;
	return array_push(&list->items, &list->count, &list->capacity, SIZE_MAX, (uint32_t)index) < 0 ? error_nomem(err) : 0;
}

/* The bulk of a request is these: as many as are of one or two bytes and in the table, without a call; the list has room for
 * all. The general case takes what is left. */
static void add_easy_indexes(struct otlp_indexes *list, struct pb_cursor *packed, size_t table_count)
{
	const uint8_t *at = packed->at, *end = packed->end;
	uint32_t *to = list->items + list->count;
	uint32_t limit = table_count < 1u << 14 ? (uint32_t)table_count : 1u << 14;
	while (end - at >= 2) {
		uint32_t is_long = at[0] >> 7, index = (at[0] & 0x7fu) | (at[1] & -is_long) << 7;
		if (index >= limit)
			break;
		*to++ = index;
		at += 1 + is_long;
	}
	packed->at = at;
	list->count = (size_t)(to - list->items);
}

int otlp_read_indexes(const struct otlp_dictionary *dictionary, struct otlp_indexes *list, const struct pb_cursor *cursor,
		      const struct pb_field *field, enum otlp_table_number table, const char *name, struct error *err)
{
	if (field->wire == PB_VARINT)
		return add_index(dictionary, list, field->value, table, name, err);
	int r = pb_expect(cursor, field, PB_BYTES, name, err);
	if (r < 0)
		return r;
	struct pb_cursor packed = pb_open_nested(cursor, field->bytes);
	if (field->bytes.len == 0)
		return 0;
	if (array_reserve(&list->items, &list->capacity, list->count + field->bytes.len, SIZE_MAX) < 0)
		return error_nomem(err);
	add_easy_indexes(list, &packed, dictionary->tables[table].count);
	while (r == 0 && packed.at < packed.end) {
		uint64_t index = 0;
		r = pb_packed_varint(&packed, &index, err);
		if (r == 0)
			r = add_index(dictionary, list, index, table, name, err);
	}
	return r;
}

static bool is_filled(const struct otlp_dictionary *dictionary, enum otlp_table_number number)
{
	return dictionary->filled & 1u << number;
}

/* An index of a list that means no attribute. */
static bool is_no_attribute(const struct otlp_dictionary *dictionary, uint32_t index)
{
	return index == 0 && !is_filled(dictionary, OTLP_ATTRIBUTES);
}

int otlp_check_duplicate_keys(struct otlp_dictionary *dictionary, const struct otlp_indexes *list, struct error *err)
{
	if (list->count < 2)
		return 0;
	uint32_t stamp = ++dictionary->stamp;
	for (size_t i = 0; i < list->count; i++) {
		if (is_no_attribute(dictionary, list->items[i]))
			continue;
		uint32_t key = dictionary->attribute_keys[list->items[i]];
		if (dictionary->key_stamps[key] == stamp) {
			struct bytes text = otlp_string_bytes(dictionary, key);
			return error_set(err, -EBADMSG, "attribute_indices: duplicate key \"%.*s\"",
					 (int)(text.len < 64 ? text.len : 64), (const char *)text.data);
		}
		dictionary->key_stamps[key] = stamp;
	}
	return 0;
}

/* ---- parsing entries ---- */

struct raw_mapping {
	uint64_t start, limit, offset, file_name;
};
/* attributes go to dictionary->attributes */
static int parse_mapping(struct otlp_dictionary *dictionary, struct pb_cursor cursor, struct raw_mapping *ret,
			 struct error *err)
{
	uint64_t v[5] = {0};
	struct pb_field field;
	int r;
	dictionary->attributes.count = 0;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number == 5)
			r = otlp_read_indexes(dictionary, &dictionary->attributes, &cursor, &field, OTLP_ATTRIBUTES,
					      "Mapping.attribute_indices", err);
		else if (field.number < 5)
			r = pb_expect(&cursor, &field, PB_VARINT, "Mapping", err);
		else
			continue;
		if (r < 0)
			return r;
		if (field.number < 5)
			v[field.number] = field.value;
	}
	if (r == 0)
		r = otlp_check_reference(dictionary, OTLP_STRINGS, v[4], "Mapping.filename_strindex", err);
	if (r == 0)
		r = otlp_check_duplicate_keys(dictionary, &dictionary->attributes, err);
	*ret = (struct raw_mapping){v[1], v[2], v[3], v[4]};
	return r;
}

static int parse_link(struct pb_cursor cursor, struct profile_link *ret, struct error *err)
{
	struct pb_field field;
	int r;
	*ret = (struct profile_link){0};
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number > 2)
			continue;
		const char *name = field.number == 1 ? "Link.trace_id" : "Link.span_id";
		uint8_t *to = field.number == 1 ? ret->trace_id : ret->span_id;
		size_t len = field.number == 1 ? sizeof(ret->trace_id) : sizeof(ret->span_id);
		r = pb_expect(&cursor, &field, PB_BYTES, name, err);
		if (r < 0)
			return r;
		if (field.bytes.len != 0 && field.bytes.len != len)
			return error_set(err, -EBADMSG, "%s has %zu bytes instead of %zu", name, field.bytes.len, len);
		memcpy(to, field.bytes.data, field.bytes.len);
	}
	return r;
}

struct raw_attribute {
	uint64_t key, unit;
	struct pb_cursor value;
};

static int parse_attribute(const struct otlp_dictionary *dictionary, struct pb_cursor cursor, struct raw_attribute *ret,
			   struct error *err)
{
	static const enum pb_wire wires[] = {0, PB_VARINT, PB_BYTES, PB_VARINT};
	static const char *const names[] = {"", "KeyValueAndUnit.key_strindex", "KeyValueAndUnit.value",
					    "KeyValueAndUnit.unit_strindex"};
	uint64_t v[4] = {0};
	struct pb_field field;
	int r;
	*ret = (struct raw_attribute){.value = {cursor.end, cursor.end, cursor.start}};
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number > 3)
			continue;
		r = pb_expect(&cursor, &field, wires[field.number], names[field.number], err);
		if (r == 0 && field.number == 2)
			ret->value = pb_open_nested(&cursor, field.bytes);
		else if (r == 0)
			r = otlp_check_reference(dictionary, OTLP_STRINGS, field.value, names[field.number], err);
		if (r < 0)
			return r;
		v[field.number] = field.value;
	}
	ret->key = v[1];
	ret->unit = v[3];
	return r;
}

/* ---- checking ---- */

static bool is_zero_bytes(struct bytes bytes)
{
	for (size_t i = 0; i < bytes.len; i++)
		if (bytes.data[i] != 0)
			return false;
	return true;
}

/* Notes whether entry 0 of a table is more than the zero value: whether it has fields that are neither zero nor empty. */
static int note_entry_0(struct otlp_dictionary *dictionary, enum otlp_table_number number, struct pb_cursor cursor,
			struct error *err)
{
	struct pb_field field;
	bool odd = number == OTLP_STRINGS && cursor.at != cursor.end, filled = odd;
	int r = 0;
	while (number != OTLP_STRINGS && (r = pb_next(&cursor, &field, err)) > 0) {
		/* An element of a list may be 0. */
		bool is_set = field.wire == PB_BYTES ? field.bytes.len != 0 : field.value != 0 || number == OTLP_STACKS;
		odd |= is_set;
		filled |= is_set && !(number == OTLP_LINKS && field.wire == PB_BYTES && is_zero_bytes(field.bytes));
	}
	dictionary->odd |= (unsigned)odd << number;
	dictionary->filled |= (unsigned)filled << number;
	return r;
}

static bool is_frame_type(const struct otlp_dictionary *dictionary, uint64_t key)
{
	return bytes_equal_string(otlp_string_bytes(dictionary, key), "profile.frame.type");
}

static int read_mapping(struct otlp_dictionary *dictionary, size_t index, struct error *err)
{
	struct raw_mapping mapping;
	int r = parse_mapping(dictionary, otlp_entry_at(dictionary, OTLP_MAPPINGS, index), &mapping, err);
	if (r == 0 && index == 0) {
		dictionary->first_start = mapping.start;
		dictionary->first_limit = mapping.limit;
	}
	return r;
}

static int read_link(struct otlp_dictionary *dictionary, size_t index, struct error *err)
{
	struct profile_link link;
	return parse_link(otlp_entry_at(dictionary, OTLP_LINKS, index), &link, err);
}

static int read_attribute(struct otlp_dictionary *dictionary, size_t index, struct error *err)
{
	struct raw_attribute attribute;
	struct otlp_value value;
	int r = parse_attribute(dictionary, otlp_entry_at(dictionary, OTLP_ATTRIBUTES, index), &attribute, err);
	if (r == 0)
		r = otlp_read_value(dictionary, attribute.value, &value, err);
	dictionary->attribute_keys[index] = (uint32_t)attribute.key;
	if (r == 0 && value.kind == OTLP_STRING && is_frame_type(dictionary, attribute.key))
		dictionary->frame_types[index] = (uint8_t)(1 + format_frame_type(value.bytes));
	return r;
}

static int check_entry(struct otlp_dictionary *dictionary, enum otlp_table_number number, size_t index, struct error *err)
{
	static int (*const read[OTLP_TABLE_END])(struct otlp_dictionary * dictionary, size_t index, struct error * err) = {
		[OTLP_MAPPINGS] = read_mapping, [OTLP_LOCATIONS] = otlp_read_location, [OTLP_FUNCTIONS] = otlp_read_function,
		[OTLP_LINKS] = read_link,	[OTLP_ATTRIBUTES] = read_attribute,    [OTLP_STACKS] = otlp_read_stack,
	};
	if (index == 0) {
		int r = note_entry_0(dictionary, number, otlp_entry_at(dictionary, number, 0), err);
		if (r < 0 || !is_filled(dictionary, number))
			return r;
	}
	/* Nothing can be wrong with a string. */
	return read[number] ? read[number](dictionary, index, err) : 0;
}

static int check_table(struct otlp_dictionary *dictionary, enum otlp_table_number number, struct error *err)
{
	size_t count = dictionary->tables[number].count, checked = number == OTLP_STRINGS && count ? 1 : count;
	for (size_t i = 0; i < checked; i++) {
		int r = check_entry(dictionary, number, i, err);
		if (r < 0)
			return error_prefix(err, r, "dictionary: %s[%zu]", table_names[number], i);
	}
	return 0;
}

static int make_known(struct otlp_dictionary *dictionary, struct error *err)
{
	size_t total = 0;
	for (size_t i = 0; i < OTLP_TABLE_END; i++)
		total += dictionary->tables[i].count;
	uint64_t *known = dictionary->known = mem_zalloc_array(total, sizeof(*known));
	if (!known)
		return error_nomem(err);
	for (size_t i = 0; i < OTLP_TABLE_END; known += dictionary->tables[i++].count)
		dictionary->tables[i].known = known;
	return 0;
}

int otlp_dictionary_check(struct otlp_dictionary *dictionary, struct error *err)
{
	/* Attributes first: the check for duplicates needs their keys. */
	static const enum otlp_table_number order[] = {OTLP_STRINGS,   OTLP_ATTRIBUTES, OTLP_MAPPINGS, OTLP_FUNCTIONS,
						       OTLP_LOCATIONS, OTLP_LINKS,	OTLP_STACKS};
	dictionary->attribute_keys = mem_zalloc_array(dictionary->tables[OTLP_ATTRIBUTES].count, sizeof(uint32_t));
	dictionary->key_stamps = mem_zalloc_array(dictionary->tables[OTLP_STRINGS].count + 1, sizeof(uint32_t));
	dictionary->frame_types = mem_zalloc_array(dictionary->tables[OTLP_ATTRIBUTES].count + 1, sizeof(uint8_t));
	if (!dictionary->attribute_keys || !dictionary->key_stamps || !dictionary->frame_types)
		return error_nomem(err);
	int status = otlp_entries_begin(dictionary, err);
	if (status < 0)
		return status;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		int r = check_table(dictionary, order[i], err);
		if (r < 0)
			return r;
	}
	status = otlp_spend(dictionary,
			    dictionary->line_count * sizeof(*dictionary->lines) +
				    dictionary->frames.count * sizeof(*dictionary->frames.items),
			    err);
	return status < 0 ? status : make_known(dictionary, err);
}

/* ---- entries become parts of a profile ---- */

#define PROFILE_COST 4096

/* Room in the tables of a profile that has `share` of `all` bytes of all profiles. One that is alone in its request uses the
 * whole dictionary, as a rule. Frames are counted half: stacks share their callers. */
static int make_room(struct otlp_dictionary *dictionary, uint64_t share, uint64_t all, struct error *err)
{
	const struct otlp_table *tables = dictionary->tables;
	const struct profile_room room = {
		.strings = tables[OTLP_STRINGS].count * share / all,
		.functions = tables[OTLP_FUNCTIONS].count * share / all,
		.locations = tables[OTLP_LOCATIONS].count * share / all,
		.lines = dictionary->line_count * share / all,
		.stacks = dictionary->frames.count / 2 * share / all,
		.samples = tables[OTLP_STACKS].count * share / all,
	};
	return profile_make_room(dictionary->profile, &room, err);
}

int otlp_dictionary_begin(struct otlp_dictionary *dictionary, struct profile *profile, size_t message_bytes, struct error *err)
{
	uint64_t all = (uint64_t)(dictionary->end - dictionary->start) - dictionary->bytes;
	dictionary->profile = profile;
	dictionary->epoch++;
	dictionary->label_count = 0;
	int r = otlp_spend(dictionary, PROFILE_COST, err);
	return r < 0 || !message_bytes ? r : make_room(dictionary, message_bytes, all, err);
}

static int add_part(struct otlp_dictionary *dictionary, enum otlp_table_number number, uint64_t index, uint32_t *ret,
		    struct error *err);

/* What an entry, by an index that is in its table, is in the profile; entry 0 of a table that is not there is none. */
static inline int get_entry_at(struct otlp_dictionary *dictionary, enum otlp_table_number number, uint64_t index, uint32_t *ret,
			       struct error *err)
{
	const struct otlp_table *table = &dictionary->tables[number];
	*ret = 0;
	if (table->count == 0)
		return 0;
	if (table->known[index] >> 32 != dictionary->epoch)
		return add_part(dictionary, number, index, ret, err);
	*ret = (uint32_t)table->known[index];
	return 0;
}

/* The same; index 0 is none. */
static inline int get_entry(struct otlp_dictionary *dictionary, enum otlp_table_number number, uint64_t index, uint32_t *ret,
			    struct error *err)
{
	*ret = 0;
	return index ? get_entry_at(dictionary, number, index, ret, err) : 0;
}

static int add_string(struct otlp_dictionary *dictionary, uint64_t index, uint32_t *ret, struct error *err)
{
	struct bytes text = otlp_string_bytes(dictionary, index);
	int r = otlp_spend(dictionary, text.len + 48, err);
	return r < 0 ? r : profile_add_bytes(dictionary->profile, text, ret, err);
}

/* Of a text that cannot be absent: entry 0, too, is what it says. */
static int get_name(struct otlp_dictionary *dictionary, uint64_t index, uint32_t *ret, struct error *err)
{
	return get_entry_at(dictionary, OTLP_STRINGS, index, ret, err);
}

int otlp_get_name(struct otlp_dictionary *dictionary, uint64_t index, const char *name, uint32_t *ret, struct error *err)
{
	int r = otlp_check_reference(dictionary, OTLP_STRINGS, index, name, err);
	return r < 0 ? r : get_name(dictionary, index, ret, err);
}

/* The text of the string attribute with this key in dictionary->attributes. */
static bool find_attribute(const struct otlp_dictionary *dictionary, const char *key, struct bytes *ret)
{
	for (size_t i = 0; i < dictionary->attributes.count; i++) {
		uint32_t index = dictionary->attributes.items[i];
		struct raw_attribute attribute;
		struct otlp_value value;
		if (is_no_attribute(dictionary, index) ||
		    !bytes_equal_string(otlp_string_bytes(dictionary, dictionary->attribute_keys[index]), key))
			continue;
		if (parse_attribute(dictionary, otlp_entry_at(dictionary, OTLP_ATTRIBUTES, index), &attribute, NULL) < 0 ||
		    otlp_read_value(dictionary, attribute.value, &value, NULL) < 0 || value.kind != OTLP_STRING)
			continue;
		*ret = value.bytes;
		return true;
	}
	return false;
}

/* The build-id, else the hash, which clients that send a Go build-id send, too; that one in hex, as files are found by it. Its
 * text lives in `hex`, or in the message. *ret_go: the Go build-id beside a hash. Returns the flags of a mapping. */
static uint32_t find_id(const struct otlp_dictionary *dictionary, char hex[static BUILD_ID_HEX_MAX], struct bytes *ret,
			struct bytes *ret_go)
{
	struct bytes go = {0};
	if (find_attribute(dictionary, "process.executable.build_id.gnu", ret) && ret->len > 0)
		return 0;
	bool has_hash = find_attribute(dictionary, "process.executable.build_id.htlhash", ret) && ret->len > 0;
	if (!find_attribute(dictionary, "process.executable.build_id.go", &go) || !file_id_of_go(go, hex))
		hex[0] = 0;
	*(has_hash ? ret_go : ret) = bytes_of_string(hex);
	return has_hash ? PROFILE_MAPPING_ID_IS_HASH : hex[0] ? PROFILE_MAPPING_ID_IS_GO : 0;
}

static int add_mapping(struct otlp_dictionary *dictionary, uint64_t index, uint32_t *ret, struct error *err)
{
	char hex[BUILD_ID_HEX_MAX];
	struct raw_mapping raw;
	int r = parse_mapping(dictionary, otlp_entry_at(dictionary, OTLP_MAPPINGS, index), &raw, err);
	if (r < 0)
		return r;
	struct bytes build_id = {0}, go_id = {0};
	uint32_t flags = find_id(dictionary, hex, &build_id, &go_id);
	struct profile_mapping mapping = {.start = raw.start, .limit = raw.limit, .offset = raw.offset, .flags = flags};
	r = otlp_spend(dictionary, 128 + build_id.len + go_id.len + 16 * dictionary->attributes.count, err);
	if (r == 0)
		r = get_entry(dictionary, OTLP_STRINGS, raw.file_name, &mapping.file_name, err);
	if (r == 0)
		r = profile_add_bytes(dictionary->profile, build_id, &mapping.build_id, err);
	if (r == 0)
		r = profile_add_bytes(dictionary->profile, go_id, &mapping.go_id, err);
	return r < 0 ? r : profile_add_mapping(dictionary->profile, &mapping, ret, err);
}

static int add_function(struct otlp_dictionary *dictionary, uint64_t index, uint32_t *ret, struct error *err)
{
	const struct otlp_function *raw = &dictionary->functions[index];
	struct profile_function function = {.start_line = raw->start_line};
	int r = otlp_spend(dictionary, 64, err);
	/* One that has a system name only has no other. */
	if (r == 0)
		r = raw->system_name ? get_entry(dictionary, OTLP_STRINGS, raw->name, &function.name, err)
				     : get_name(dictionary, raw->name, &function.name, err);
	if (r == 0)
		r = get_entry(dictionary, OTLP_STRINGS, raw->system_name, &function.system_name, err);
	if (r == 0)
		r = get_entry(dictionary, OTLP_STRINGS, raw->file_name, &function.file_name, err);
	return r < 0 ? r : profile_add_function(dictionary->profile, &function, ret, err);
}

enum profile_frame_type format_frame_type(struct bytes name)
{
	static const struct {
		const char *name;
		enum profile_frame_type type;
	} types[] = {
		{"native", PROFILE_FRAME_NATIVE},
		{"kernel", PROFILE_FRAME_KERNEL},
		{"go", PROFILE_FRAME_NATIVE},
		{"rust", PROFILE_FRAME_NATIVE},
		{"jvm", PROFILE_FRAME_JIT},
		{"v8js", PROFILE_FRAME_JIT},
		{"dotnet", PROFILE_FRAME_JIT},
		{"beam", PROFILE_FRAME_JIT},
		{"luajit", PROFILE_FRAME_JIT},
		{"jit", PROFILE_FRAME_JIT},
		{"cpython", PROFILE_FRAME_INTERPRETED},
		{"ruby", PROFILE_FRAME_INTERPRETED},
		{"php", PROFILE_FRAME_INTERPRETED},
		{"perl", PROFILE_FRAME_INTERPRETED},
		{"lua", PROFILE_FRAME_INTERPRETED},
		{"interpreted", PROFILE_FRAME_INTERPRETED},
	};
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (bytes_equal_string(name, types[i].name))
			return types[i].type;
	return PROFILE_FRAME_UNKNOWN;
}

/* Entry 0, too, if there is more in it than the zero value. */
static int get_filled(struct otlp_dictionary *dictionary, enum otlp_table_number number, uint64_t index, uint32_t *ret,
		      struct error *err)
{
	bool is_entry = index || is_filled(dictionary, number);
	return is_entry ? get_entry_at(dictionary, number, index, ret, err) : get_entry(dictionary, number, 0, ret, err);
}

/* Known since it was checked: each location looks, and the entry may be large. */
static bool lies_in_mapping_0(const struct otlp_dictionary *dictionary, uint64_t address)
{
	return address >= dictionary->first_start && address < dictionary->first_limit;
}

static int add_location(struct otlp_dictionary *dictionary, uint64_t index, uint32_t *ret, struct error *err)
{
	const struct otlp_location *raw = &dictionary->locations[index];
	struct profile_location location = {.address = raw->address, .frame_type = raw->frame_type};
	int r = otlp_spend(dictionary, 80 + 32 * raw->line_count + 16 * raw->attribute_count, err);
	if (r == 0 && raw->line_count > dictionary->own_line_capacity &&
	    array_reserve(&dictionary->own_lines, &dictionary->own_line_capacity, raw->line_count, SIZE_MAX) < 0)
		r = error_nomem(err);
	if (r == 0 && (raw->mapping || lies_in_mapping_0(dictionary, raw->address)))
		r = get_entry_at(dictionary, OTLP_MAPPINGS, raw->mapping, &location.mapping, err);
	struct profile_line *lines = dictionary->own_lines;
	for (size_t i = 0; i < raw->line_count && r == 0; i++) {
		lines[i] = dictionary->lines[raw->line_first + i];
		r = get_filled(dictionary, OTLP_FUNCTIONS, lines[i].function, &lines[i].function, err);
	}
	return r < 0 ? r : profile_add_location(dictionary->profile, &location, lines, raw->line_count, ret, err);
}

static int add_stack(struct otlp_dictionary *dictionary, uint64_t index, uint32_t *ret, struct error *err)
{
	const struct otlp_stack *stack = &dictionary->stacks[index];
	const struct otlp_table *locations = &dictionary->tables[OTLP_LOCATIONS];
	const uint32_t *frames = stack->count ? dictionary->frames.items + stack->first : NULL;
	int r = otlp_spend(dictionary, 16 * (uint64_t)stack->count, err);
	if (r == 0 && stack->count > dictionary->path_capacity &&
	    array_reserve(&dictionary->path, &dictionary->path_capacity, stack->count, SIZE_MAX) < 0)
		r = error_nomem(err);
	for (size_t i = 0; i < stack->count && r == 0; i++) {
		if (frames[i] && locations->known[frames[i]] >> 32 == dictionary->epoch)
			dictionary->path[i] = (uint32_t)locations->known[frames[i]];
		else
			r = get_filled(dictionary, OTLP_LOCATIONS, frames[i], &dictionary->path[i], err);
	}
	return r < 0 ? r : profile_add_stack_leaf_first(dictionary->profile, dictionary->path, stack->count, ret, err);
}

static int add_link(struct otlp_dictionary *dictionary, uint64_t index, uint32_t *ret, struct error *err)
{
	struct profile_link link;
	int r = parse_link(otlp_entry_at(dictionary, OTLP_LINKS, index), &link, err);
	if (r == 0)
		r = otlp_spend(dictionary, 64, err);
	return r < 0 ? r : profile_add_link(dictionary->profile, &link, ret, err);
}

static int add_part(struct otlp_dictionary *dictionary, enum otlp_table_number number, uint64_t index, uint32_t *ret,
		    struct error *err)
{
	static int (*const add[OTLP_TABLE_END])(struct otlp_dictionary * dictionary, uint64_t index, uint32_t * ret,
						struct error * err) = {
		[OTLP_STRINGS] = add_string,	 [OTLP_MAPPINGS] = add_mapping, [OTLP_LOCATIONS] = add_location,
		[OTLP_FUNCTIONS] = add_function, [OTLP_LINKS] = add_link,	[OTLP_STACKS] = add_stack,
	};
	int r = add[number](dictionary, index, ret, err);
	if (r == 0)
		dictionary->tables[number].known[index] = (uint64_t)dictionary->epoch << 32 | *ret;
	return r;
}

int otlp_get(struct otlp_dictionary *dictionary, enum otlp_table_number number, uint64_t index, const char *name, uint32_t *ret,
	     struct error *err)
{
	int r = otlp_check_reference(dictionary, number, index, name, err);
	if (r < 0)
		return r;
	return number == OTLP_STACKS ? get_filled(dictionary, number, index, ret, err)
				     : get_entry(dictionary, number, index, ret, err);
}

/* ---- attributes become labels ---- */

static int add_label(struct otlp_dictionary *dictionary, struct profile_label label, struct error *err)
{
	int r = array_push(&dictionary->labels, &dictionary->label_count, &dictionary->label_capacity, SIZE_MAX, label);
	return r < 0 ? error_nomem(err) : 0;
}

static int add_scalar(struct otlp_dictionary *dictionary, uint32_t key, const struct otlp_value *value, uint32_t unit,
		      struct error *err)
{
	struct profile_label label = {.key = key};
	if (value->kind == OTLP_INT && (value->number || unit)) {
		label.number = (int64_t)value->number;
		label.unit = unit;
		return add_label(dictionary, label, err);
	}
	/* The number 0 without a unit would be no label at all: it becomes the text "0". */
	buffer_clear(&dictionary->text);
	int r = otlp_value_text(dictionary, value, &dictionary->text, err);
	if (r == 0)
		r = otlp_spend(dictionary, dictionary->text.len + 48, err);
	if (r < 0 || dictionary->text.len == 0)
		return r;
	r = profile_add_bytes(dictionary->profile, buffer_bytes(&dictionary->text), &label.value, err);
	return r < 0 ? r : add_label(dictionary, label, err);
}

static bool is_scalar(enum otlp_value_kind kind)
{
	return kind != OTLP_ARRAY && kind != OTLP_KVLIST && kind != OTLP_NONE;
}

/* A list of scalars: a label for each. *ret_done is false, and nothing was added, when it holds anything else. */
static int add_array(struct otlp_dictionary *dictionary, uint32_t key, const struct otlp_value *array, uint32_t unit,
		     bool *ret_done, struct error *err)
{
	struct pb_field field;
	struct otlp_value value;
	size_t before = dictionary->label_count;
	int r;
	*ret_done = true;
	struct pb_cursor cursor = pb_open(array->bytes);
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number != 1)
			continue;
		r = pb_expect(&cursor, &field, PB_BYTES, "ArrayValue.values", err);
		if (r < 0)
			return r;
		r = otlp_read_value(dictionary, pb_open_nested(&cursor, field.bytes), &value, err);
		if (r < 0)
			return r;
		if (!is_scalar(value.kind)) {
			dictionary->label_count = before;
			*ret_done = false;
			return 0;
		}
		r = add_scalar(dictionary, key, &value, unit, err);
		if (r < 0)
			return r;
	}
	return r;
}

int otlp_add_value(struct otlp_dictionary *dictionary, uint32_t key, struct pb_cursor cursor, uint32_t unit, struct error *err)
{
	struct otlp_value value;
	int r = otlp_read_value(dictionary, cursor, &value, err);
	if (r == 0)
		r = otlp_spend(dictionary, 48, err);
	if (r < 0 || value.kind == OTLP_NONE)
		return r;
	if (value.kind == OTLP_ARRAY) {
		bool done;
		r = add_array(dictionary, key, &value, unit, &done, err);
		if (r < 0 || done)
			return r;
	}
	return add_scalar(dictionary, key, &value, unit, err);
}

bool otlp_value_is_empty(struct pb_cursor cursor)
{
	struct pb_field field;
	bool empty = true;
	int r;
	while ((r = pb_next(&cursor, &field, NULL)) > 0) {
		if (field.number == 0 || field.number > 8)
			continue;
		empty = field.wire == PB_BYTES && field.bytes.len == 0;
	}
	return r == 0 && empty;
}

int otlp_get_attributes(struct otlp_dictionary *dictionary, const struct otlp_indexes *indexes, struct error *err)
{
	int r = otlp_check_duplicate_keys(dictionary, indexes, err);
	for (size_t i = 0; i < indexes->count && r == 0; i++) {
		struct raw_attribute attribute;
		uint32_t key = 0, unit = 0;
		if (is_no_attribute(dictionary, indexes->items[i]))
			continue;
		r = parse_attribute(dictionary, otlp_entry_at(dictionary, OTLP_ATTRIBUTES, indexes->items[i]), &attribute, err);
		if (r == 0)
			r = get_name(dictionary, attribute.key, &key, err);
		if (r == 0)
			r = get_entry(dictionary, OTLP_STRINGS, attribute.unit, &unit, err);
		if (r == 0)
			r = otlp_add_value(dictionary, key, attribute.value, unit, err);
	}
	return r;
}
