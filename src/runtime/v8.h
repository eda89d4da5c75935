/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8, as in Node.js 16, 18, 20, 22 and 24: which version a file holds, and the names of what it runs. bpf/v8.h says how a frame
 * is found and written down.
 *
 *   v8_recognize()	    a file: which version, its builtins, the layout of objects
 *   v8_place()		    ... mapped into a process: what the walk is told
 *   v8_read_table()	    a frame: its function and those that were inlined into it, with all lines of its code
 *   v8_table_find()	    ... at an offset in it
 *
 * Not thread-safe. Addresses of objects are tagged, as V8 itself has them.
 */
#ifndef WICK_RUNTIME_V8_H
#define WICK_RUNTIME_V8_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "bpf/v8.h"
#include "elf/elf_file.h"
#include "runtime/memory.h"

enum v8_type {
	V8_TYPE_SHARED,
	V8_TYPE_WRAPPER, /* SharedFunctionInfoWrapper; 0 = the version has none */
	V8_TYPE_SCOPE,
	V8_TYPE_SCRIPT,
	V8_TYPE_DEBUG_INFO,
	V8_TYPE_BYTECODES,
	V8_TYPE_INTERPRETER_DATA,
	V8_TYPE_BASELINE_DATA, /* 9.4 */
	V8_TYPE_CODE,
	V8_TYPE_STREAM, /* InstructionStream: what the instructions lie in; 0 = they lie in Code */
	V8_TYPES
};

enum v8_flags {
	V8_CODE_POINTS = 1,	    /* code_start is a pointer to the instructions, and not where they begin */
	V8_SCOPE_RECEIVER = 2,	    /* 9.4: scopes say where the receiver is */
	V8_SCOPE_POSITIONS = 4,	    /* since 13.6: positions come first, and flags are no tagged number */
	V8_SCOPE_HASHED = 8,	    /* since 10.2: many names of variables are in a table */
	V8_SCOPE_INITIALIZERS = 16, /* since 12.4: functions that initialize fields of classes have the name of their class */
};

/* Offsets in bytes in objects of a version, and what distinguishes them. */
struct v8_layout {
	struct v8_process walk; /* without addresses */
	uint16_t types[V8_TYPES];
	uint16_t map_type;
	uint16_t not_string_mask; /* types of strings have none of its bits */
	uint16_t shared_data;
	uint16_t script_source, script_name, script_line;
	uint16_t bytecodes_positions, bytecodes_data;
	uint16_t code_data, code_positions, code_kind, code_size, code_start;
	uint16_t deopt_literals, deopt_shared, deopt_inlining; /* indices */
	uint16_t kind_mask, kind_baseline;		       /* kinds above it are those of optimised code */
	uint16_t bytecode_jump_loop; /* its number; 0: Maglev's positions in loops need no correction */
	uint16_t flags;		     /* enum v8_flags */
};

#define V8_BYTECODES_MAX 256u
struct v8_build {
	uint32_t major, minor, build, patch;
	uint64_t builtins_start, builtins_end; /* as linked */
	uint64_t builtins_offset;	       /* in the file */
	uint32_t from_table;		       /* offsets that the file does not say */
	uint32_t bytecode_count;
	uint8_t bytecode_sizes[3][V8_BYTECODES_MAX]; /* of single, double and quadruple width */
	struct v8_layout layout;
};

/* 1, *ret filled; 0 if the file does not hold V8; -ENOTSUP when it does, of a version that is not known or without what is
 * needed (err says what). Other errors: damaged files, -ENOMEM. */
int v8_recognize(struct elf_file *file, struct v8_build *ret, struct error *err);
/* The layout of a version; false if it is in no table. */
bool v8_layout_of(uint32_t major, uint32_t minor, struct v8_layout *ret);
/* Replaces what symbols of the file say otherwise. *ret_missing: how many do not say. 0, -EBADMSG if that cannot be, -ENOMEM.
 */
int v8_layout_read(struct elf_file *file, struct v8_layout *layout, uint32_t *ret_missing, struct error *err);
/* What the walk of a process needs. slot: of the file. */
void v8_place(const struct v8_build *build, uint32_t slot, struct v8_process *ret);

/*
 * What is known of the code of a frame: the lines of its function, by offsets, and of those that were inlined into it. It needs
 * nothing of the process any more. names, files: texts that end with a NUL, the function first.
 */
struct v8_table {
	struct buffer names, files, lines;
	uint64_t start, size; /* of native code; 0 and UINT32_MAX: offsets are those of bytecodes */
	bool is_partial;      /* something could not be read, and perhaps can be soon: objects are being moved */
};
void v8_table_release(struct v8_table *table);

/* Scripts whose lines were counted last. */
#define V8_SCRIPTS_MAX	     64u
#define V8_SCRIPTS_BYTES_MAX (1u << 20) /* of all of them */
#define V8_SOURCE_BYTES_MAX  (16u << 20)
struct v8_scripts {
	struct v8_script {
		uint64_t owner; /* whose memory it is in */
		uint64_t object, source, id;
		uint32_t length, first_line;
		uint64_t used;
		uint32_t *ends; /* owned: where each line ends */
		size_t count;
	} items[V8_SCRIPTS_MAX];
	uint64_t uses;
	size_t bytes;
};
void v8_scripts_release(struct v8_scripts *scripts);

struct v8_source { /* what is read from */
	const struct v8_build *build;
	const struct runtime_memory *memory;
	struct v8_scripts *scripts;
	uint64_t owner;
};
/* The code of a frame by its two words and its native address (that of the call, but for a leaf). 0; -ESTALE if the function is
 * another one by now; -EBADMSG if it is none; -ENOENT if the code at the address is not (or no longer) of that function;
 * -EFAULT and others if something cannot be read; -ENOMEM. */
int v8_read_table(const struct v8_source *source, uint64_t object, uint64_t data, uint64_t pc, struct v8_table *ret);
/* The offset in the table of a frame's code. */
uint64_t v8_table_offset(const struct v8_layout *layout, uint64_t start, uint64_t data, uint64_t pc);

#define V8_INLINES_MAX	  32u
#define V8_NAME_BYTES_MAX 1024u /* longer ones are cut */
struct v8_line {
	const char *name;	   /* UTF-8; "" if it has none, or if that could not be read */
	const char *file;	   /* a path or a URL; "" if it has none: builtins, eval() */
	uint32_t line, first_line; /* 0 = not known */
};
/* The functions at an offset, innermost first. Returns their number, at least 1; 0 if the table is damaged. */
size_t v8_table_find(struct bytes names, struct bytes files, struct bytes lines, uint64_t offset,
		     struct v8_line ret[V8_INLINES_MAX]);

#endif
