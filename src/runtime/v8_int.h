/* SPDX-License-Identifier: Apache-2.0 */
/* Private to v8_*.c: objects of another process. */
#ifndef WICK_RUNTIME_V8_INT_H
#define WICK_RUNTIME_V8_INT_H

#include "runtime/v8.h"

#define V8_NUMBER(word) ((int64_t)(word) >> 32)
#define V8_ARRAY_LENGTH 8 /* of arrays of all kinds: their length, and their first element */
#define V8_ARRAY_DATA	16

struct v8_reader {
	const struct v8_layout *layout;
	const struct runtime_memory *memory;
};

int v8_read(const struct v8_reader *reader, uint64_t address, void *to, size_t bytes);
/* A word of an object; -EBADMSG if it is none. */
int v8_read_word(const struct v8_reader *reader, uint64_t object, uint64_t offset, uint64_t *ret);
/* The type that an object's map says. */
int v8_read_type(const struct v8_reader *reader, uint64_t object, uint16_t *ret);
bool v8_is_type(const struct v8_reader *reader, uint64_t object, enum v8_type type);
/* An array's length; -EBADMSG above max. */
int v8_read_length(const struct v8_reader *reader, uint64_t array, uint64_t max, uint64_t *ret);
/* An element of an array of words, weak references as strong ones; -EBADMSG beyond its end. */
int v8_read_element(const struct v8_reader *reader, uint64_t array, uint64_t index, uint64_t *ret);
/* A whole array of bytes, mem_free() it. */
int v8_read_bytes(const struct v8_reader *reader, uint64_t array, uint64_t max, struct bytes *ret);

/* Where the characters of a string lie: one of those that are not made of others. */
struct v8_characters {
	uint64_t address;
	uint32_t length; /* in units of `width` bytes */
	uint32_t width;
};
/* Goes through strings that stand for others. -EBADMSG if it is no string, or one that is made of several. */
int v8_find_characters(const struct v8_reader *reader, uint64_t string, struct v8_characters *ret);
/* As UTF-8, cut. */
int v8_read_string(const struct v8_reader *reader, uint64_t string, char ret[V8_NAME_BYTES_MAX]);
/* Whether an object is a string, by its type. */
bool v8_is_string(const struct v8_reader *reader, uint64_t object);

/* ---- v8_names.c ---- */

struct v8_function {
	char name[V8_NAME_BYTES_MAX]; /* UTF-8; "" if it has none */
	char file[V8_NAME_BYTES_MAX];
	uint64_t script; /* 0 = none */
	int64_t start;	 /* its first position, -1 = not known */
};
int v8_read_function(const struct v8_reader *reader, uint64_t shared, struct v8_function *ret);

/* ---- v8_lines.c ---- */

/* Positions by offsets in code: SourcePositionTable. */
struct v8_positions {
	struct bytes table;
	size_t at;
	uint64_t offset, position; /* of the entry that was taken last; the first may be before the code: UINT64_MAX */
};
#define V8_POSITIONS(bytes)	       ((struct v8_positions){.table = (bytes), .offset = UINT64_MAX})
#define V8_POSITION_SCRIPT(position)   ((int64_t)((position) >> 1 & 0x3fffffff) - 1)
#define V8_POSITION_INLINING(position) ((int64_t)((position) >> 31 & 0xffff) - 1)
bool v8_positions_next(struct v8_positions *positions);

#define V8_PREFIXES 4u /* bytecodes that make the operands of the one behind them wider */
/* The bytecode at an offset, behind its prefix; UINT32_MAX beyond the end. */
uint32_t v8_bytecode_at(struct bytes bytecodes, uint64_t at);

/* Which bytecode baseline code at an offset was made of. */
struct v8_baseline {
	const struct v8_build *build;
	struct bytes table, bytecodes;
	size_t at;
	uint64_t start, end; /* of the code of the bytecode that was taken last */
	uint64_t bytecode;
};
/* Takes the first bytecode, then the next one; false at the end. */
bool v8_baseline_begin(struct v8_baseline *baseline);
bool v8_baseline_next(struct v8_baseline *baseline);

/* The script of an object: *ret is what v8_script_line() finds it by. */
int v8_read_script(const struct v8_reader *reader, uint64_t owner, uint64_t object, struct v8_script *ret);
/* The line of a position; *ret 0: not known. 0, -ENOMEM, or an error of reading its source. */
int v8_script_line(const struct v8_reader *reader, struct v8_scripts *scripts, const struct v8_script *script, int64_t position,
		   uint32_t *ret);

/* ---- v8_table.c ---- */

/* What v8_table.lines begins with: how many functions there are, then each; then entries follow. */
void v8_table_put_count(struct buffer *lines, uint64_t functions);
void v8_table_put_function(struct buffer *lines, uint64_t parent, uint32_t call_line, uint32_t first_line);
struct v8_table_writer {
	struct buffer *lines;
	size_t begin; /* of entries */
	uint64_t offset, function;
	uint32_t line;
};
/* From this offset on it is a line of the function, 0 being the outermost one. */
void v8_table_put(struct v8_table_writer *writer, uint64_t offset, uint64_t function, uint32_t line);

#endif
