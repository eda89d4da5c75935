/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/runtime: interpreters in other processes: which they are, where their state lies, and the names of what they run. The
 * walk itself is in bpf/ (bpf/python.h says how a frame is found and written down).
 *
 * CPython, 3.6 to 3.14:
 *
 *   python_recognize()      a file: which version, the loop, the runtime's state, the layout
 *   python_place()	     ... mapped into a process: what the walk is told
 *   python_read_function()  a code object: its names, its file, its lines
 *   python_line()	     an instruction of it: the line
 *
 * Not thread-safe, without state of its own.
 */
#ifndef WICK_RUNTIME_PYTHON_H
#define WICK_RUNTIME_PYTHON_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "bpf/python.h"
#include "elf/elf_file.h"
#include "runtime/memory.h"

enum python_line_format {
	PYTHON_LINES_LNOTAB,	/* up to 3.9: Objects/lnotab_notes.txt */
	PYTHON_LINES_TABLE,	/* 3.10: PEP 626 */
	PYTHON_LINES_LOCATIONS, /* since 3.11: Objects/locations.md */
};

/* Offsets in bytes in the structs of a version, as built for a 64-bit machine. */
struct python_layout {
	struct python_process walk;						   /* without addresses */
	uint32_t runtime_interpreters, runtime_holder;				   /* in _PyRuntime; 0 = not there */
	uint32_t code_name, code_qualname, code_file, code_first_line, code_lines; /* code_qualname 0: before 3.11 */
	uint32_t object_type, type_name;
	uint32_t text_length, text_state, text_ascii, text_compact; /* where the characters of a str begin */
	uint32_t bytes_length, bytes_data;
	enum python_line_format lines;
};

/* What a file that holds CPython says. Addresses as linked. */
struct python_build {
	uint32_t version; /* 0x030b for 3.11 */
	bool is_free_threaded;
	bool is_published; /* the layout is from the file itself (_Py_DebugOffsets, since 3.13), not from a table */
	uint64_t loop_start, loop_end, cold_start, cold_end;
	uint64_t loop_offset; /* of loop_start in the file */
	uint64_t runtime;     /* _PyRuntime; 3.6: _PyThreadState_Current */
	struct python_layout layout;
};

/* Whether the file holds CPython's interpreter. 1, *ret filled; 0 if it does not; -ENOTSUP when it does, of a version that is
 * not known, or without what is needed (err says what; ret->version may be set). Other errors: damaged files, -ENOMEM. */
int python_recognize(struct elf_file *file, struct python_build *ret, struct error *err);
/* The layout of a version; false if it is in no table. */
bool python_layout_of(uint32_t version, struct python_layout *ret);
/* The layout that a runtime of 3.13 or later publishes at the start of _PyRuntime. -ENOTSUP, -EBADMSG. */
int python_layout_published(struct bytes runtime, uint32_t *ret_version, bool *ret_is_free_threaded, struct python_layout *ret,
			    struct error *err);
#define PYTHON_PUBLISHED_BYTES_MAX 1024u

/* What the walk of a process needs. bias: what is to be added to addresses as linked. */
void python_place(const struct python_build *build, uint64_t bias, struct python_process *ret);

#define PYTHON_NAME_BYTES_MAX  1024u /* longer ones are cut */
#define PYTHON_LINES_BYTES_MAX (256u * 1024)
struct python_function {
	char name[PYTHON_NAME_BYTES_MAX]; /* UTF-8: qualified since 3.11 */
	char file[PYTHON_NAME_BYTES_MAX];
	uint32_t first_line;
	uint8_t *lines; /* owned: mem_free(); the table that python_line() reads */
	size_t lines_bytes;
};
/* The code object at an address if it still has the check. 0; -ESTALE if it is another one by now, or none (any more);
 * -EBADMSG if it holds nonsense; -EFAULT and others if it cannot be read; -ENOMEM. */
int python_read_function(const struct python_layout *layout, const struct runtime_memory *memory, uint64_t address,
			 uint32_t check, struct python_function *ret);
/* The line of an instruction (RUNTIME_PLACE). 0 if it has none; the first line for tables that are damaged. */
uint32_t python_line(enum python_line_format format, struct bytes lines, uint32_t first_line, uint32_t place);

#endif
