/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ruby (MRI), 2.7 to 3.3, in another process:
 *
 *   ruby_recognize()	   a file: which version, the loop, where the context of a thread is, the layout
 *   ruby_place()	   ... mapped into a process: what the walk is told
 *   ruby_read_function()  an instruction sequence, or a method that is written in C: its name, its file, its lines
 *   ruby_line()	   an instruction of it: the line
 *
 * Not thread-safe, without state of its own.
 */
#ifndef WICK_RUNTIME_RUBY_H
#define WICK_RUNTIME_RUBY_H

#include "bpf/ruby.h"
#include "elf/elf_file.h"
#include "runtime/function.h"
#include "runtime/memory.h"

/* Offsets in bytes in the structs of a version, as built for a 64-bit machine. */
struct ruby_layout {
	struct ruby_process walk; /* without addresses */
	uint32_t body_lines;	  /* in the body: entries, positions, count, index */
	uint32_t entry_bytes;	  /* of a line */
	bool has_long_texts;	  /* since 3.2: the length of a short text is in front of it, not in its flags */
	bool is_tested;		  /* processes of this version were compared with what Ruby says itself */
};

/* What a file that holds Ruby says. Addresses as linked. */
struct ruby_build {
	uint32_t version; /* 0x0301 for 3.1 */
	bool is_one_part; /* the loop is not known: RUBY_IS_ONE_PART */
	uint64_t loop_start, loop_end, cold_start, cold_end;
	uint64_t loop_offset; /* of loop_start in the file */
	uint64_t variable, storage_index;
	int64_t storage_offset;
	uint64_t symbols; /* the names of identifiers; 0 = not found: methods in C have none */
	uint32_t last_operator;
	struct ruby_layout layout;
};

/* Whether the file holds Ruby's interpreter. 1, *ret filled; 0 if it does not; -ENOTSUP when it does, of a version that is not
 * known, or without what is needed (err says what; ret->version may be set). Other errors: damaged files, -ENOMEM. */
int ruby_recognize(struct elf_file *file, struct ruby_build *ret, struct error *err);
/* The layout of a version; false if it is in no table. */
bool ruby_layout_of(uint32_t version, struct ruby_layout *ret);
/* What the walk of a process needs. bias: what is to be added to addresses as linked. */
void ruby_place(const struct ruby_build *build, uint64_t bias, struct ruby_process *ret);

#define RUBY_LINES_BYTES_MAX (256u * 1024)
struct ruby_function {
	struct runtime_function function; /* a method in C has no file */
	uint8_t *lines;			  /* owned: mem_free(); the table that ruby_line() reads; NULL = none */
	size_t lines_bytes;
};
/* The object of a frame (bpf/ruby.h) if it still has the check: the name is its label ("block in each_row"), or the name of the
 * method. bias: that of the place. 0; -ESTALE if it is another one by now, or none (any more); -EBADMSG if it holds nonsense;
 * -EFAULT and others if it cannot be read; -ENOMEM. */
int ruby_read_function(const struct ruby_build *build, uint64_t bias, const struct runtime_memory *memory, uint64_t object,
		       uint32_t check, struct ruby_function *ret);
/* The line of an instruction (RUNTIME_PLACE): of the one before it, which is executed. The first line for tables that are
 * damaged. */
uint32_t ruby_line(struct bytes lines, uint32_t first_line, uint32_t place);

#endif
