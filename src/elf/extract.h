/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of an ELF file with what symbolization needs and nothing else: headers, symbol tables and their strings, debug
 * sections, notes, links to other debug files, Go's pclntab. All other sections stay as headers only (SHT_NOBITS): no byte of
 * code, data or read-only data leaves the machine.
 */
#ifndef WICK_ELF_EXTRACT_H
#define WICK_ELF_EXTRACT_H

#include "elf/elf_file.h"

/* In e_ident, at EXTRACT_MARK_OFFSET: program headers of type PT_LOAD have the file offsets and sizes of the original. */
#define EXTRACT_MARK	    "wickx"
#define EXTRACT_MARK_OFFSET 9

struct elf_extract_result {
	uint64_t bytes;		/* written */
	uint64_t kept, dropped; /* sections */
	bool has_debug, has_symtab, has_pclntab;
};
struct elf_extract_options {
	uint64_t bytes_max; /* of the copy, past it -E2BIG; 0 = no limit */
	/* Of Go's table of functions, which is held as a whole, and about half as much for what is made of it; 0 = as much as
	 * a server takes. Past it, there are no inlined calls in the copy. */
	uint64_t memory_max;
	/* PT_LOAD of a debug file have been given the offsets and sizes of the binary: EXTRACT_MARK is right. */
	bool has_offsets;
	bool without_notes; /* among which its build-id is: for a file that is not to be known by it */
};
/* Writes the copy to out_fd (a regular file or memfd, from its beginning), which stays the caller's. options may be NULL.
 * -ENOENT when the file has nothing to keep. */
int elf_extract(struct elf_file *file, int out_fd, const struct elf_extract_options *options, struct elf_extract_result *ret,
		struct error *err);

#endif
