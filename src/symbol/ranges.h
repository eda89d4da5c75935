/* SPDX-License-Identifier: Apache-2.0 */
/* From a file's symbols, with all their aliases and overlaps, to one name per address. */
#ifndef WICK_SYMBOL_RANGES_H
#define WICK_SYMBOL_RANGES_H

#include "elf/elf_symbols.h"

struct symbol_range {
	uint32_t start, end; /* from the base */
	const char *name;    /* the symbols' */
	const char *file;    /* as struct elf_symbol has it */
	bool continued;	     /* the symbol of the range before, which ends here; false: another, whatever its name */
};
/* Ascending, none empty, not overlapping; what lies 4 GiB or more behind base, or before it, is left out. Sorts the symbols. An
 * array to be freed with mem_free(); -E2BIG, -ENOMEM. */
int symbol_ranges_make(struct elf_symbols *symbols, uint64_t base, struct symbol_range **ret, size_t *ret_count,
		       struct error *err);

#endif
