// SPDX-License-Identifier: Apache-2.0
/*
 * Where functions begin, by the symbol tables: only addresses, read piece by piece, since what is asked is where code without
 * call frame information begins, which is little. Symbols without a type count if they are global: local ones of hand-written
 * code may be targets of jumps.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "elf/cfi_int.h"

#define TABLE_BYTES_MAX (512 * MIB)
#define CHUNK_SYMBOLS	2048u

static bool is_function(const Elf64_Sym *symbol)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
	return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
	       (type == STT_FUNC || type == STT_GNU_IFUNC || (type == STT_NOTYPE && binding != STB_LOCAL));
}

/* Whether no entry covers the address. */
static bool is_in_gap(const struct cfi_reader *reader, uint64_t address)
{
	size_t low = 0, high = reader->entries.count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (reader->entries.items[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	const struct cfi_entry *entry = low > 0 ? &reader->entries.items[low - 1] : NULL;
	return !entry || address - entry->start >= entry->len;
}

static int take_symbols(struct cfi_reader *reader, const Elf64_Sym *symbols, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t end;
		if (!is_function(&symbols[i]) || !is_in_gap(reader, symbols[i].st_value) ||
		    !cfi_is_code(reader, symbols[i].st_value, &end))
			continue;
		int r = array_reserve(&reader->starts, &reader->start_capacity, reader->start_count + 1, CFI_STARTS_MAX);
		if (r < 0) /* those beyond the limit are found otherwise, or not */
			return r == -ENOMEM ? r : 1;
		reader->starts[reader->start_count++] = symbols[i].st_value;
	}
	return 0;
}

static int take_table(struct cfi_reader *reader, const struct elf_section *section)
{
	uint64_t count = section->size / sizeof(Elf64_Sym);
	int r = 0;
	_cleanup_(mem_freep) Elf64_Sym *symbols = mem_alloc_array(CHUNK_SYMBOLS, sizeof(*symbols));
	if (!symbols)
		return -ENOMEM;
	for (uint64_t at = 0; at < count && r == 0; at += CHUNK_SYMBOLS) {
		size_t some = count - at < CHUNK_SYMBOLS ? (size_t)(count - at) : CHUNK_SYMBOLS;
		if (elf_file_read(reader->file, section->offset + at * sizeof(*symbols), symbols, some * sizeof(*symbols),
				  NULL) < 0)
			break; /* damaged: what was found is as good as none */
		r = take_symbols(reader, symbols, some);
	}
	return r < 0 ? r : 0;
}

static int compare(const void *a, const void *b)
{
	return ORDER(*(const uint64_t *)a, *(const uint64_t *)b);
}

int cfi_symbols_read(struct cfi_reader *reader)
{
	/* One of each, as linkers write them: any number of sections may name the same bytes. */
	static const uint32_t types[] = {SHT_SYMTAB, SHT_DYNSYM};
	const struct elf_file *file = reader->file;
	int r = 0;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && r == 0; i++) {
		const struct elf_section *section = elf_file_find_section_type(file, types[i]);
		if (section && !(section->flags & SHF_COMPRESSED) && section->size <= TABLE_BYTES_MAX &&
		    section->offset <= file->size && section->size <= file->size - section->offset)
			r = take_table(reader, section);
	}
	if (r < 0)
		return error_nomem(reader->err);
	if (reader->start_count)
		qsort(reader->starts, reader->start_count, sizeof(*reader->starts), compare);
	return 0;
}
