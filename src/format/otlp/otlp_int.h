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
	/* What an entry has become in the profile being built; valid while epochs[i] is the dictionary's epoch. */
	uint32_t *ids, *epochs;
};

/* A list of indexes, read from a packed field or not. */
struct otlp_indexes {
	uint32_t *items;
	size_t count, capacity;
};

struct otlp_dictionary {
	const uint8_t *start, *end; /* of the input */
	struct otlp_table tables[OTLP_TABLE_END];
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
	struct otlp_indexes attributes, frames;
	struct profile_line *lines;
	size_t line_count, line_capacity;
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

/* From here on entries become parts of this profile. */
int otlp_dictionary_begin(struct otlp_dictionary *dictionary, struct profile *profile, struct error *err);
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
