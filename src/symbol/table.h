/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols of one binary in the form that answers fastest: one block of memory that is also the cache file. Layout and rules
 * at the top of table.c. A table does not change once it is made; reading from several threads is fine.
 */
#ifndef WICK_SYMBOL_TABLE_H
#define WICK_SYMBOL_TABLE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/limits.h"
#include "elf/elf_file.h"

#define SYMBOL_TABLE_BYTES_MAX	  (1 * GIB)
#define SYMBOL_TABLE_SEGMENTS_MAX 64u

enum symbol_table_flags {
	SYMBOL_TABLE_HAS_SYMTAB = 1, /* made from a .symtab, not only from exported names */
	SYMBOL_TABLE_NO_OFFSETS = 2, /* made from a separate debug file alone, which does not know the binary's file offsets */
};
struct symbol_table_header;
struct symbol_table_segment;
struct symbol_table {
	uint8_t *image; /* owned; starts with the header */
	size_t len;
	const struct symbol_table_header *header;
	const struct symbol_table_segment *segments;
	const uint32_t *starts, *sizes, *names;
	const char *strings;
};

/*
 * Builds a table from a binary, its separate debug file, or both (either may be NULL, not both). build_id goes into the image,
 * so that a cache file that was renamed is noticed; "" is allowed. A file without symbols gives an empty table. Errors of
 * elf_symbols_add_file(); -E2BIG past SYMBOL_TABLE_BYTES_MAX.
 */
int symbol_table_build(const char *build_id, struct elf_file *file, struct elf_file *debug, struct symbol_table **ret,
		       struct error *err);
/* Takes over what buffer holds, checks all of it, and leaves buffer empty; -EBADMSG when anything is off (buffer untouched). */
int symbol_table_from_image(struct buffer *buffer, const char *build_id, struct symbol_table **ret, struct error *err);
struct symbol_table *symbol_table_free(struct symbol_table *table);

uint32_t symbol_table_flags(const struct symbol_table *table);
uint32_t symbol_table_range_count(const struct symbol_table *table);
/* The mangled name at a file offset, or NULL (always with SYMBOL_TABLE_NO_OFFSETS). *ret_range (NULL allowed) identifies the
 * range within the table. */
const char *symbol_table_find(const struct symbol_table *table, uint64_t file_offset, uint32_t *ret_range);
/* The same for an address in a mapping [start, limit), for tables without offsets: known only if the mapping has the size of
 * exactly one segment that is executed, and so is that segment. */
const char *symbol_table_find_mapped(const struct symbol_table *table, uint64_t start, uint64_t limit, uint64_t address,
				     uint32_t *ret_range);

#endif
