/* SPDX-License-Identifier: Apache-2.0 */
/* Go's own table of functions, lines and inlined calls, which is in every Go program, stripped or not (runtime.pclntab). */
#ifndef WICK_ELF_PCLNTAB_H
#define WICK_ELF_PCLNTAB_H

#include "elf/code_unit.h"
#include "elf/elf_file.h"

#define PCLNTAB_BYTES_MAX     (1 * GIB)
#define PCLNTAB_FUNCTIONS_MAX (8u * 1024 * 1024)

struct pclntab_result {
	uint64_t functions, damaged; /* damaged: left out */
	char version[16];	     /* of the table's layout: "1.2", "1.16", "1.18", "1.20" */
};
/* Hands the functions to the sink, many in a unit. -ENOENT when there is no table, -EBADMSG when it is damaged as a whole,
 * -ENOTSUP for a layout that is not known, -E2BIG, -ENOMEM, and errors of the sink. Also finds a table whose section has no
 * name (by its magic number, in read-only data), and files with section headers stripped. */
int pclntab_read(struct elf_file *file, code_unit_sink sink, void *context, struct pclntab_result *ret, struct error *err);
/* The section that is named after the table, or NULL. Needs elf_file_load_sections(). */
const struct elf_section *pclntab_find_section(const struct elf_file *file);

#endif
