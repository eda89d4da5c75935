/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PHP, 7.4 to 8.4, in another process:
 *
 *   php_recognize()	  a file: which version, the loop, the globals, the layout
 *   php_place()	  ... mapped into a process: what the walk is told
 *   php_read_function()  a function: its name and its file
 *
 * Not thread-safe, without state of its own.
 */
#ifndef WICK_RUNTIME_PHP_H
#define WICK_RUNTIME_PHP_H

#include "bpf/php.h"
#include "elf/elf_file.h"
#include "runtime/function.h"
#include "runtime/memory.h"

/* Offsets in bytes in the structs of a version, as built for a 64-bit machine. */
struct php_layout {
	struct php_process walk; /* without addresses */
	bool is_tested;		 /* processes of this version were compared with what PHP says itself */
};

/* What a file that holds PHP says. Addresses as linked. */
struct php_build {
	uint32_t version; /* 0x0802 for 8.2 */
	uint64_t loop_start, loop_end, cold_start, cold_end;
	uint64_t loop_offset;		       /* of loop_start in the file */
	uint64_t globals;		       /* executor_globals; 0 = a thread-safe build (ZTS), with what follows */
	uint64_t globals_offset, block_offset; /* bpf/php.h */
	int64_t block_at;
	uint64_t generator_class;
	struct php_layout layout;
};

/* Whether the file holds PHP's engine. 1, *ret filled; 0 if it does not; -ENOTSUP when it does, of a version that is not known,
 * or without what is needed (err says what; ret->version may be set). Other errors: damaged files, -ENOMEM. */
int php_recognize(struct elf_file *file, struct php_build *ret, struct error *err);
/* The layout of a version; false if it is in no table. */
bool php_layout_of(uint32_t version, struct php_layout *ret);
/* What the walk of a process needs. bias: what is to be added to addresses as linked. */
void php_place(const struct php_build *build, uint64_t bias, struct php_process *ret);

#define PHP_MAIN_NAME "{main}"
/* The function at an address if it still has the check: Class::method, "{main}" for the code of a file outside of functions; no
 * file for functions that are written in C. 0; -ESTALE if it is another one by now, or none (any more); -EBADMSG if it holds
 * nonsense; -EFAULT and others if it cannot be read. */
int php_read_function(const struct php_layout *layout, const struct runtime_memory *memory, uint64_t address, uint32_t check,
		      struct runtime_function *ret);

#endif
