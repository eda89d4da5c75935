/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the reader of JFR recordings (jfr.c): chunks, their classes and constants. */
#ifndef WICK_FORMAT_JFR_JFR_INT_H
#define WICK_FORMAT_JFR_JFR_INT_H

#include "base/map.h"
#include "format/format_int.h"

/* ---- numbers ---- */

/* Reads forward; past the end it gives 0 and sets `bad`. */
struct jfr_cursor {
	const uint8_t *at, *end;
	bool is_compressed, bad;
};
const uint8_t *jfr_take(struct jfr_cursor *cursor, uint64_t len);
uint64_t jfr_take_fixed(struct jfr_cursor *cursor, unsigned bytes); /* big-endian */
/* Of a short, int or long: LEB128 in compressed chunks, else big-endian of that many bytes. */
uint64_t jfr_take_number(struct jfr_cursor *cursor, unsigned bytes);

/* ---- classes ---- */

enum jfr_kind { JFR_OBJECT, JFR_BYTE, JFR_CHAR, JFR_SHORT, JFR_INT, JFR_LONG, JFR_FLOAT, JFR_DOUBLE, JFR_STRING };

struct jfr_field {
	struct bytes name;
	uint64_t class_id;
	uint32_t class; /* number; UINT32_MAX = unknown */
	bool is_constant, is_array;
};
struct jfr_class {
	struct bytes name;
	uint64_t id;
	enum jfr_kind kind;
	size_t first_field, field_count;
	struct map64 constants; /* key -> where its value is, from the start of the chunk */
};

/* A part of the file that can be read by itself. */
struct jfr_chunk {
	struct bytes bytes;
	bool is_compressed;
	uint64_t metadata_at;
	int64_t start_ns, duration_ns;
	uint64_t start_ticks, ticks_per_s;
	struct bytes *strings; /* of the metadata */
	size_t string_count;
	struct jfr_class *classes;
	size_t class_count, class_capacity;
	struct map64 class_of_id;
	struct jfr_field *fields;
	size_t field_count, field_capacity;
	uint64_t work; /* steps that reading values may still take */
};

/* The chunk that begins here, and its classes; *ret is to be released whatever happens. */
int jfr_chunk_open(struct bytes input, struct jfr_chunk *ret, struct error *err);
void jfr_chunk_release(struct jfr_chunk *chunk);
/* Notes where the constants of all checkpoints are. */
int jfr_chunk_read_constants(struct jfr_chunk *chunk, struct error *err);

/* The next event: its class (NULL = one that the metadata does not have) and its fields. *at is 0 for the first. Returns 1, 0
 * at the end, or -EBADMSG. */
int jfr_chunk_next_event(const struct jfr_chunk *chunk, size_t *at, uint64_t *ret_class, struct jfr_cursor *ret_fields,
			 struct error *err);
const struct jfr_class *jfr_class_by_id(const struct jfr_chunk *chunk, uint64_t id);
const struct jfr_class *jfr_class_by_name(const struct jfr_chunk *chunk, const char *name); /* looks at all of them */

/* ---- values ---- */

/* A value of a class that lies somewhere in the chunk; class NULL = there is none (null, or unknown). */
struct jfr_value {
	const struct jfr_class *class;
	struct jfr_cursor at;
	bool is_array;
};
/* A field of an object, behind its constant if it is one. */
struct jfr_value jfr_get(struct jfr_chunk *chunk, struct jfr_value object, const char *field);
/* The same, and the key of the constant; 0 if it is none. */
struct jfr_value jfr_get_keyed(struct jfr_chunk *chunk, struct jfr_value object, const char *field, uint64_t *ret_key);
/* A constant; none of class NULL. */
struct jfr_value jfr_constant(const struct jfr_chunk *chunk, const struct jfr_class *class, uint64_t key);
int64_t jfr_number(struct jfr_value value); /* 0 if it is no integer */
/* A string's bytes, put into out as UTF-8 (replaced). False if it is null or no string. */
bool jfr_string(struct jfr_chunk *chunk, struct jfr_value value, struct buffer *out);
/* The elements of an array, one after the other: begins with the count. */
uint64_t jfr_array_begin(struct jfr_value *array);
struct jfr_value jfr_array_next(struct jfr_chunk *chunk, struct jfr_value *array);

#endif
