/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the readers of JFR recordings (jfr.c, jfr_upload.c): chunks, their classes and constants, stacks, names. */
#ifndef WICK_FORMAT_JFR_JFR_INT_H
#define WICK_FORMAT_JFR_JFR_INT_H

#include "base/limits.h"
#include "base/map.h"
#include "codec/protobuf.h"
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
/* The fields of an object one after the other: those wanted, in the order in which the class has them. */
struct jfr_fields {
	const struct jfr_class *class;
	struct jfr_cursor at;
	size_t next; /* number of the field at the cursor */
};
/* The field of that number, which is not below fields->next, as jfr_get_keyed(). Past the end, and once the object turned out
 * to be damaged, there is none. */
struct jfr_value jfr_take_field(struct jfr_chunk *chunk, struct jfr_fields *fields, size_t number, uint64_t *ret_key);
/* The number of a class's field of this name, the first if there are several; SIZE_MAX if it has none. */
size_t jfr_find_field(const struct jfr_chunk *chunk, const struct jfr_class *class, const char *name);
/* A constant; none of class NULL. */
struct jfr_value jfr_constant(const struct jfr_chunk *chunk, const struct jfr_class *class, uint64_t key);
int64_t jfr_number(struct jfr_value value); /* 0 if it is no integer */
/* A string's bytes, put into out as UTF-8 (replaced). False if it is null or no string. */
bool jfr_string(struct jfr_chunk *chunk, struct jfr_value value, struct buffer *out);
/* The elements of an array, one after the other: begins with the count. */
uint64_t jfr_array_begin(struct jfr_value *array);
struct jfr_value jfr_array_next(struct jfr_chunk *chunk, struct jfr_value *array);
/* A time span of the chunk's clock; 0 if it does not fit. */
int64_t jfr_nanoseconds(const struct jfr_chunk *chunk, int64_t ticks);

/* ---- recordings (jfr_walk.c) ---- */

/* Empties a guarded map for the next chunk. A recording may have a chunk every hundred bytes, so that takes no longer than
 * filling it did, however large it once was. */
void jfr_forget(struct map64 *map);

/* How frames are named: essay of jfr_walk.c. */
enum jfr_names { JFR_NAMES_DOTTED, JFR_NAMES_FOLDED };

/* A chunk, and what its constants became in the profile, by key. */
struct jfr_state {
	struct jfr_chunk chunk;
	const struct jfr_class *thread_class, *stack_class; /* NULL = it has none */
	struct map64 stacks, threads, functions;
};
struct jfr_walk {
	struct profile *profile; /* where stacks go */
	enum jfr_names names;
	struct buffer text, name; /* scratch */
	struct jfr_state states[2], *here, *before;
	uint64_t cut_stacks;
	int64_t first_ns, last_ns; /* of all chunks; 0 = unknown */
	uint32_t frames[LIMIT_STACK_DEPTH];
	struct profile_line lines[LIMIT_STACK_DEPTH];
};
/* walk: zeros, and large. To be released whatever happens. */
int jfr_walk_init(struct jfr_walk *walk, enum jfr_names names, struct error *err);
void jfr_walk_release(struct jfr_walk *walk);

/* context: of jfr_walk_chunks(). A negative result ends the walk. */
typedef int jfr_event_function(void *context, struct jfr_value event, struct error *err);
struct jfr_visitor {
	int (*begin)(void *context, struct error *err); /* walk->here is a new chunk; NULL = nothing to do */
	jfr_event_function *setting, *event; /* once each for all events of the chunk: first for what holds for all */
};
/* All chunks of a recording. -EBADMSG naming the chunk; else what the visitor returns. */
int jfr_walk_chunks(struct jfr_walk *walk, struct bytes input, const struct jfr_visitor *visitor, void *context,
		    struct error *err);
int64_t jfr_walk_duration(const struct jfr_walk *walk); /* from the first chunk's start to the last one's end; 0 = unknown */
/* The stack of an event's field, which is what jfr_get_keyed() has given. 1: it has none, *ret is 0. */
int jfr_walk_stack(struct jfr_walk *walk, struct jfr_value trace, uint64_t key, uint32_t *ret, struct error *err);
/* A constant that this chunk does not have may be in the one before: it is walk->here then, until jfr_walk_leave(). class: as
 * the chunk before has it, may be NULL. */
bool jfr_walk_enter(struct jfr_walk *walk, const struct jfr_class *class, uint64_t key, struct jfr_value *constant);
void jfr_walk_leave(struct jfr_walk *walk, bool entered);

/* ---- names (jfr_names.c) ---- */

/* A symbol's text as Pyroscope has it: what a JVM or a library numbers anew each time is folded into one name. In place; what
 * does not fit any more stays as it is. */
void jfr_fold_name(struct buffer *text);

/* ---- labels of an upload (jfr_labels.c) ---- */

struct jfr_labels {
	struct bytes input;		/* must stay */
	struct map64 contexts, strings; /* id -> where its message, its text is in the input: offset << 32 | length */
};
/* Reads a LabelsSnapshot. -EBADMSG, -E2BIG, -ENOMEM; to be released whatever happens. */
int jfr_labels_read(struct bytes input, struct jfr_labels *ret, struct error *err);
void jfr_labels_release(struct jfr_labels *labels);
/* The labels of a context one after the other, as ids of strings: open it (false: there is none), then 1 = a label, 0 = the
 * end, -EBADMSG. */
bool jfr_labels_open(const struct jfr_labels *labels, uint64_t context, struct pb_cursor *ret);
int jfr_labels_next(struct pb_cursor *cursor, uint64_t *ret_name, uint64_t *ret_value, struct error *err);
bool jfr_labels_string(const struct jfr_labels *labels, uint64_t id, struct bytes *ret); /* false: there is none */

#endif
