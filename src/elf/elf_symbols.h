/* SPDX-License-Identifier: Apache-2.0 */
/* The function symbols of ELF files: .symtab, .dynsym, and one symbol per entry of the procedure linkage table. */
#ifndef WICK_ELF_ELF_SYMBOLS_H
#define WICK_ELF_ELF_SYMBOLS_H

#include "base/arena.h"
#include "base/limits.h"
#include "elf/elf_file.h"

#define ELF_SYMTAB_BYTES_MAX	     (512 * MIB) /* of one symbol table in the file */
#define ELF_STRTAB_BYTES_MAX	     (512 * MIB)
#define ELF_SYMBOLS_MAX		     (8u * 1024 * 1024) /* function symbols kept */
#define ELF_SYMBOL_NAME_MAX	     (16 * KIB)		/* longer names are left out */
#define ELF_SYMBOL_NAME_BYTES_MAX    (1 * GIB)		/* names looked at, all together: tables may share one long string */
#define ELF_SYMBOL_SOURCES_MAX	     8			/* string tables of all files read into one list */
#define ELF_PLT_RELOCATION_BYTES_MAX (128 * MIB)

struct elf_symbol {
	uint64_t address, size; /* as linked; never empty: [address, address + size) lies where code is */
	const char *name;	/* mangled, never empty; without the "@VERSION" that .symtab adds; lives as long as the list */
	const char *file;	/* base name of the source file (STT_FILE), of local symbols only; "" = unknown */
	uint32_t name_len;
	uint32_t order;	       /* among all of .symtab; those of .dynsym are before them */
	uint8_t type, binding; /* STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE; STB_* */
	bool is_unsized;       /* the file gives no size; `size` reaches to the end of the section */
};

struct elf_symbols {
	struct elf_symbol *items; /* in file order, aliases and overlaps included */
	size_t count, capacity;
	bool has_symtab; /* a .symtab was found: more than the exported names */

	struct arena text; /* private, as all below */
	uint8_t *strings[ELF_SYMBOL_SOURCES_MAX];
	size_t string_count;
	uint64_t name_bytes;
};

void elf_symbols_init(struct elf_symbols *symbols);
void elf_symbols_release(struct elf_symbols *symbols);
/* Adds the symbols of one file; call it again for the file's separate debug file. Functions, indirect functions, and, for
 * hand-written assembly, untyped symbols in executable sections. A damaged table is left out when the file has another one that
 * is sound, else -EBADMSG; -ENOTSUP for relocatable files (kernel modules: their names come from kallsyms); -E2BIG past the
 * limits above; -ENOMEM; errors of reading. A file without symbols is success. */
int elf_symbols_add_file(struct elf_symbols *symbols, struct elf_file *file, struct error *err);

/* ---- elf_named.c: functions and data that are looked up by their names ---- */

struct elf_named {
	const char *name;	/* wanted */
	uint64_t address, size; /* as linked; 0, 0 = not found */
};

/*
 * Looks `count` names up in .dynsym and then, those that are missing, in .symtab; the first definition that has one counts.
 * Returns how many were found. Tables that are damaged, or larger than 16 MiB (.dynsym without a hash table) or 4 MiB
 * (.symtab), have no names, so that large programs cost little. Errors: -ENOMEM, and those of reading section headers.
 */
int elf_named_find(struct elf_file *file, struct elf_named *wanted, size_t count, struct error *err);
/* The same in tables of up to 256 MiB: of a file that is known to be worth it. */
int elf_named_find_large(struct elf_file *file, struct elf_named *wanted, size_t count, struct error *err);

#endif
