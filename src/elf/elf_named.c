// SPDX-License-Identifier: Apache-2.0
/*
 * A pass over each table, piece by piece: few files are looked at so, and only once. The hash tables of .dynsym would be faster
 * and are one more thing that may be wrong in a file.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/elf_symbols_int.h"

#define DYNSYM_BYTES_MAX (16 * MIB) /* of symbols, and of names */
#define SYMTAB_BYTES_MAX (4 * MIB)
#define LARGE_BYTES_MAX	 (256 * MIB)
#define CHUNK_SYMBOLS	 1024u

static size_t count_missing(const struct elf_named *wanted, size_t count)
{
	size_t missing = 0;

	for (size_t i = 0; i < count; i++)
		missing += !wanted[i].address;
	return missing;
}

static void take_symbol(const Elf64_Sym *symbol, struct bytes strings, struct elf_named *wanted, size_t count)
{
	if (symbol->st_shndx == SHN_UNDEF || !symbol->st_value || symbol->st_name >= strings.len)
		return;
	/* A NUL stands behind the table. */
	const char *name = (const char *)strings.data + symbol->st_name;
	for (size_t i = 0; i < count; i++) {
		if (wanted[i].address || strcmp(name, wanted[i].name) != 0)
			continue;
		wanted[i].address = symbol->st_value;
		wanted[i].size = symbol->st_size;
	}
}

static int search_table(struct elf_file *file, const struct elf_section *table, uint64_t max, struct elf_named *wanted,
			size_t count, struct error *err)
{
	size_t entry = file->is_64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
	uint64_t symbols = table->size / entry;
	struct bytes strings;

	if (table->link >= file->section_count || table->size > max)
		return 0;
	int r = elf_file_read_section(file, &file->sections[table->link], max, &strings, err);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	_cleanup_(mem_freep) uint8_t *owned = (uint8_t *)strings.data;
	_cleanup_(mem_freep) uint8_t *chunk = mem_alloc_array(CHUNK_SYMBOLS, entry);
	if (!chunk)
		return error_nomem(err);
	for (uint64_t at = 0; at < symbols && count_missing(wanted, count); at += CHUNK_SYMBOLS) {
		size_t some = symbols - at < CHUNK_SYMBOLS ? (size_t)(symbols - at) : CHUNK_SYMBOLS;
		if (elf_file_read(file, table->offset + at * entry, chunk, some * entry, NULL) < 0)
			break;
		for (size_t i = 0; i < some; i++) {
			Elf64_Sym symbol;
			elf_symbol_convert(file, chunk + i * entry, &symbol);
			take_symbol(&symbol, strings, wanted, count);
		}
	}
	return 0;
}

static int find(struct elf_file *file, uint64_t dynsym_max, uint64_t symtab_max, struct elf_named *wanted, size_t count,
		struct error *err)
{
	const struct {
		uint32_t type;
		uint64_t max;
	} tables[] = {{SHT_DYNSYM, dynsym_max}, {SHT_SYMTAB, symtab_max}};
	int r = elf_file_load_sections(file, err);

	for (size_t i = 0; i < count; i++)
		wanted[i].address = wanted[i].size = 0;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && r == 0 && count_missing(wanted, count); i++) {
		const struct elf_section *table = elf_file_find_section_type(file, tables[i].type);
		if (table)
			r = search_table(file, table, tables[i].max, wanted, count, err);
	}
	return r < 0 ? r : (int)(count - count_missing(wanted, count));
}

int elf_named_find(struct elf_file *file, struct elf_named *wanted, size_t count, struct error *err)
{
	return find(file, DYNSYM_BYTES_MAX, SYMTAB_BYTES_MAX, wanted, count, err);
}

int elf_named_find_large(struct elf_file *file, struct elf_named *wanted, size_t count, struct error *err)
{
	return find(file, LARGE_BYTES_MAX, LARGE_BYTES_MAX, wanted, count, err);
}
