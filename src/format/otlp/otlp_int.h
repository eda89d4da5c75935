/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the OTLP decoder: the request's dictionary, and values of attributes. Essay at the top of otlp_dictionary.c. */
#ifndef WICK_FORMAT_OTLP_OTLP_INT_H
#define WICK_FORMAT_OTLP_OTLP_INT_H

#include "codec/protobuf.h"
#include "format/otlp/otlp.h"

/* otlp_join.c: profiles of process_stats that belong together become one. After a failure the request can only be released. */
int otlp_join_process_stats(struct otlp_request *request, struct error *err);

/* otlp_json.c: whether a file holds requests in JSON, and the next of them. */
bool otlp_json_detect(struct bytes input);
struct bytes otlp_json_next(struct bytes *rest);

/* ProfilesDictionary's field numbers. */
enum otlp_table_number {
	OTLP_MAPPINGS = 1,
	OTLP_LOCATIONS = 2,
	OTLP_FUNCTIONS = 3,
	OTLP_LINKS = 4,
	OTLP_STRINGS = 5,
	OTLP_ATTRIBUTES = 6,
	OTLP_STACKS = 7,
	OTLP_TABLE_END,
};

struct otlp_table {
	uint32_t *offsets; /* of each entry's length, in the input */
	size_t count, capacity;
	/* What an entry has become in the profile being built: its id, valid while the upper half is the dictionary's epoch. Of
	 * the block of all tables. */
	uint64_t *known;
};

/* A list of indexes, read from a packed field or not. */
struct otlp_indexes {
	uint32_t *items;
	size_t count, capacity;
};

/* Entries that have been read (otlp_entries.c): indexes in the dictionary's tables. */
struct otlp_function {
	uint32_t name, system_name, file_name;
	int64_t start_line;
};
struct otlp_location {
	uint64_t address;
	uint32_t mapping;
	uint32_t line_first, line_count; /* in dictionary->lines */
	uint32_t attribute_count;
	uint32_t frame_type; /* enum profile_frame_type */
};
struct otlp_stack {
	uint32_t first, count; /* in dictionary->frames; leaf first */
};

struct otlp_dictionary {
	const uint8_t *start, *end; /* of the input */
	struct otlp_table tables[OTLP_TABLE_END];
	uint64_t *known; /* of all tables, one after the other */
	struct otlp_function *functions;
	struct otlp_location *locations;
	struct otlp_stack *stacks;
	struct otlp_indexes frames; /* of all stacks */
	struct profile_line *lines; /* of all locations; their functions are indexes */
	size_t line_count, line_capacity;
	uint64_t bytes;		     /* of its messages */
	uint8_t *frame_types;	     /* by attribute: 0 = it is of something else, or 1 + enum profile_frame_type */
	uint32_t *attribute_keys;    /* by attribute: index of its key in the string table */
	uint32_t *key_stamps, stamp; /* by string: the list of attributes that has had it as a key */
	struct profile *profile;     /* being built */
	uint32_t epoch;
	uint64_t spent, budget; /* bytes */
	/* Bits by table number: entry 0 has fields set; and they are not all zero bytes. */
	unsigned odd, filled;
	uint64_t first_start, first_limit; /* of entry 0 of the mappings; both 0 = it is the zero value */

	/* Scratch */
	struct otlp_indexes attributes;
	uint32_t *path; /* a stack, as locations of the profile */
	size_t path_capacity;
	struct profile_line *own_lines; /* of a location, with functions of the profile */
	size_t own_line_capacity;
	struct profile_label *labels; /* being collected */
	size_t label_count, label_capacity;
	struct buffer text;
};

void otlp_dictionary_init(struct otlp_dictionary *dictionary, struct bytes input);
void otlp_dictionary_release(struct otlp_dictionary *dictionary);
/* Takes in a ProfilesDictionary message; several are concatenated, as protobuf merges them. */
int otlp_dictionary_add(struct otlp_dictionary *dictionary, const struct pb_cursor *outer, struct bytes message,
			struct error *err);
/* Checks every reference of every entry. After the last otlp_dictionary_add(). */
int otlp_dictionary_check(struct otlp_dictionary *dictionary, struct error *err);

/* From here on entries become parts of this profile. message_bytes: of its message, from which follows how many there may be.
 */
int otlp_dictionary_begin(struct otlp_dictionary *dictionary, struct profile *profile, size_t message_bytes, struct error *err);
/* What an entry of any table but that of attributes is in the profile; index 0 is none, but a stack that is there. name: of the
 * field that has the index; -EBADMSG if it is outside the table. */
int otlp_get(struct otlp_dictionary *dictionary, enum otlp_table_number number, uint64_t index, const char *name, uint32_t *ret,
	     struct error *err);
/* The same of a text that cannot be absent: entry 0 is what it says. */
int otlp_get_name(struct otlp_dictionary *dictionary, uint64_t index, const char *name, uint32_t *ret, struct error *err);
/* Appends the label(s) of the attributes to dictionary->labels; a key that occurs twice is refused. */
int otlp_get_attributes(struct otlp_dictionary *dictionary, const struct otlp_indexes *indexes, struct error *err);
/* The same for an AnyValue under a key: strings, booleans, doubles, bytes (in hexadecimal) become text, integers numbers, a
 * list of those several labels, anything deeper JSON. An empty value makes no label. */
int otlp_add_value(struct otlp_dictionary *dictionary, uint32_t key, struct pb_cursor value, uint32_t unit, struct error *err);
/* Whether a value would make a label at all; malformed ones say yes. */
bool otlp_value_is_empty(struct pb_cursor value);

/* Appends the indexes of one field, packed or not; each must lie in the table. */
int otlp_read_indexes(const struct otlp_dictionary *dictionary, struct otlp_indexes *list, const struct pb_cursor *cursor,
		      const struct pb_field *field, enum otlp_table_number table, const char *name, struct error *err);
void otlp_indexes_release(struct otlp_indexes *list);
/* Counts bytes of memory (or work) against the request's budget; -E2BIG. */
int otlp_spend(struct otlp_dictionary *dictionary, uint64_t bytes, struct error *err);

/* The bytes of an entry; none of one that is not there. */
static inline struct pb_cursor otlp_entry_at(const struct otlp_dictionary *dictionary, enum otlp_table_number number,
					     uint64_t index)
{
	const struct otlp_table *table = &dictionary->tables[number];
	struct pb_cursor cursor = {dictionary->start, dictionary->start, dictionary->start};
	if (index >= table->count)
		return cursor; /* the zero value */
	uint64_t len = 0;
	cursor.at = dictionary->start + table->offsets[index];
	cursor.end = dictionary->end;
	/* Cannot fail: it was read before. */
	if (pb_packed_varint(&cursor, &len, NULL) < 0)
		len = 0;
	cursor.end = cursor.at + len;
	return cursor;
}
int otlp_refuse_reference(const struct otlp_dictionary *dictionary, enum otlp_table_number number, uint64_t index,
			  const char *name, struct error *err);
/* -EBADMSG if the index is outside the table. name: of the field that has it. */
static inline int otlp_check_reference(const struct otlp_dictionary *dictionary, enum otlp_table_number number, uint64_t index,
				       const char *name, struct error *err)
{
	if (__builtin_expect(index < dictionary->tables[number].count || index == 0, 1))
		return 0;
	return otlp_refuse_reference(dictionary, number, index, name, err);
}
/* Refuses a list with two attributes of one key. */
int otlp_check_duplicate_keys(struct otlp_dictionary *dictionary, const struct otlp_indexes *list, struct error *err);

/* otlp_entries.c: makes the arrays, and reads an entry into its place there. */
int otlp_entries_begin(struct otlp_dictionary *dictionary, struct error *err);
void otlp_entries_release(struct otlp_dictionary *dictionary);
int otlp_read_function(struct otlp_dictionary *dictionary, size_t index, struct error *err);
int otlp_read_location(struct otlp_dictionary *dictionary, size_t index, struct error *err);
int otlp_read_stack(struct otlp_dictionary *dictionary, size_t index, struct error *err);

/* otlp_value.c */
enum otlp_value_kind {
	OTLP_NONE,
	OTLP_STRING,
	OTLP_BOOL,
	OTLP_INT,
	OTLP_DOUBLE,
	OTLP_ARRAY,
	OTLP_KVLIST,
	OTLP_BYTES,
};
struct otlp_value {
	enum otlp_value_kind kind;
	struct bytes bytes; /* STRING, BYTES; ARRAY, KVLIST: the message */
	uint64_t number;    /* BOOL, INT, DOUBLE (its bits) */
};
/* strings: for string_value_strindex; NULL refuses it. */
int otlp_read_value(const struct otlp_dictionary *strings, struct pb_cursor cursor, struct otlp_value *ret, struct error *err);
struct bytes otlp_string_bytes(const struct otlp_dictionary *dictionary, uint64_t index);
/* The text form of a value that is not an integer. */
int otlp_value_text(const struct otlp_dictionary *strings, const struct otlp_value *value, struct buffer *out,
		    struct error *err);

#endif
