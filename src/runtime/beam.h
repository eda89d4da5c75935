/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BEAM, the virtual machine of Erlang and Elixir (Erlang/OTP 25 to 27, with its compiler): which one a file holds, which
 * modules a process has loaded, and the function at an address of their code. bpf/beam.h says how a frame is found and written
 * down.
 *
 *   beam_recognize()	   a file: which release, where its variables are
 *   beam_read_modules()   ... mapped into a process: the ranges of all modules
 *   beam_place()	   ... what the walk is told
 *   beam_read_function()  an address of code: name, file and line
 *
 * A module is a block of code that begins with its header:
 *
 *   header	 number of functions ... line table ... [ function | function | ... | end ]
 *   function	 [ breakpoint (16 bytes) | module | name | arity ] code
 *   line table  files | bytes of a location | locations | [ addresses of function 0 | of function 1 | ... | end ]
 *
 * A module's and a function's name are atoms: numbers of entries in a table of all atoms. The addresses of a function are those
 * where a line begins, in their order; a location has the file's number in its upper 8 bits. A file is a list of characters.
 */
#ifndef WICK_RUNTIME_BEAM_H
#define WICK_RUNTIME_BEAM_H

#include <stdbool.h>

#include "base/error.h"
#include "bpf/beam.h"
#include "elf/elf_file.h"
#include "runtime/function.h"
#include "runtime/memory.h"

#define BEAM_MODULES_MAX   16384u
#define BEAM_FUNCTIONS_MAX (1u << 20) /* of a module */

struct beam_layout {
	uint32_t header_lines, header_functions; /* of a module */
	uint32_t data_process;			 /* in a scheduler's data */
	bool is_tested;
};

struct beam_build {
	uint32_t release;      /* 25 */
	char version[24];      /* of the virtual machine: "13.1.5" */
	uint64_t code, offset; /* a place in its code: as linked, and in the file */
	uint64_t ranges;       /* the tables of modules, one for each index */
	uint64_t index;	       /* of the one that is in use */
	uint64_t atoms;	       /* the table of atoms */
	uint64_t normal_exit;  /* the pointer to its code */
	uint64_t key;
	struct beam_layout layout;
};

/* 1, *ret filled; 0 if the file does not hold BEAM; -ENOTSUP when it does, of a release that is not known, without its
 * compiler, or where something is not found (err says what). Other errors: damaged files, -ENOMEM. */
int beam_recognize(struct elf_file *file, struct beam_build *ret, struct error *err);
/* The layout of a release; false if it is not known. */
bool beam_layout_of(uint32_t release, struct beam_layout *ret);

struct beam_modules {
	struct beam_range {
		uint64_t start, end;
		uint64_t since; /* the first reading of the table that had it */
	} * items;		/* owned; by their start */
	size_t count;
	uint64_t readings;
};
void beam_modules_release(struct beam_modules *modules);
/* Reads all modules that are loaded, in place of those of the last reading, if there was one. 0; -EAGAIN if there are none yet;
 * -EBADMSG for what can be none; others if it cannot be read; -ENOMEM. *modules is untouched then. */
int beam_read_modules(const struct beam_build *build, uint64_t bias, const struct runtime_memory *memory,
		      struct beam_modules *modules);
/* The module that has the address; NULL if it is in none. */
const struct beam_range *beam_find_module(const struct beam_modules *modules, uint64_t pc);
/* What the walk of a process needs. 0; -EAGAIN if it has not begun yet, others if it cannot be read. */
int beam_place(const struct beam_build *build, uint64_t bias, const struct runtime_memory *memory,
	       const struct beam_modules *modules, struct beam_process *ret);

/* The function at an address in a module: its name as Erlang ("lists:map/2") or Elixir ("Enum.map/2") has it, and the line of
 * the address, 0 = none. 0; -ENOENT if the code there is that of no function; -EBADMSG for nonsense; others if it cannot be
 * read. */
int beam_read_function(const struct beam_build *build, uint64_t bias, const struct runtime_memory *memory,
		       const struct beam_range *module, uint64_t pc, struct runtime_function *ret, uint32_t *ret_line);

#endif
