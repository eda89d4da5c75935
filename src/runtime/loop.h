/* SPDX-License-Identifier: Apache-2.0 */
/* The function of an interpreter that runs code, in its file. */
#ifndef WICK_RUNTIME_LOOP_H
#define WICK_RUNTIME_LOOP_H

#include "elf/elf_symbols.h"

struct loop_code { /* addresses as linked */
	uint64_t start, end;
	uint64_t offset;	       /* of start, in the file */
	uint64_t cold_start, cold_end; /* of a part that lies elsewhere; 0, 0 = none was found */
};

/* loop, cold: the symbols of its name; cold without an address: it is looked for; cold NULL: it has
 * none, and may be of any size. runtime: for messages. 0; -ENOTSUP if what the
 * symbol says cannot be; -ENOMEM. */
int loop_find(struct elf_file *file, const struct elf_named *loop, const struct elf_named *cold, const char *runtime,
	      struct loop_code *ret, struct error *err);
/* For files that do not name it: the largest function with a jump to a register in it, as a loop over instructions has, among
 * those that direct calls from the function at an address lead to, LOOP_CALLS_DEPTH deep at most. Sets address and size of
 * *ret; false if there is none of LOOP_BYTES_MIN. x86-64. */
#define LOOP_CALLS_DEPTH 3u
bool loop_search(struct elf_file *file, uint64_t from, struct elf_named *ret);
/* The range of call frame information that an address is in: a function, or several that were written in assembly. */
bool loop_find_range(struct elf_file *file, uint64_t address, uint64_t *ret_start, uint64_t *ret_end);
/* Bytes at an address as linked. -ENOENT if the file has none there. */
int loop_read(struct elf_file *file, uint64_t address, void *to, size_t len);
/* As many bytes of a function as there are, at most len, halved until they are in the file; 0 if less than 16 are. */
size_t loop_read_function(struct elf_file *file, uint64_t address, uint8_t *to, size_t len);
/* The first segment with code: ret->start, end and offset. -ENOTSUP if there is none. */
int loop_find_any(struct elf_file *file, const char *runtime, struct loop_code *ret, struct error *err);

#endif
