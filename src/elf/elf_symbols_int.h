/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/elf. */
#ifndef WICK_ELF_ELF_SYMBOLS_INT_H
#define WICK_ELF_ELF_SYMBOLS_INT_H

#include "base/intern.h"
#include "elf/elf_symbols.h"

#define ELF_PLT_SECTION	       ".wick.plt" /* in files that elf/extract.c wrote; elf_plt.c has its layout */
#define ELF_PLT_STUBS_MAX      (1u << 20)
#define ELF_PLT_NOTE_BYTES_MAX (8 + ELF_PLT_STUBS_MAX * 16ull) /* of that section */
#define EXECUTED_SEGMENTS_MAX  64 /* those beyond are ignored, so that time per symbol is bounded; real files have a few */

/* The versions that a file defines for its symbols. */
struct elf_versions {
	enum {
		VERSIONS_NONE, /* none: a '@' is part of a name */
		VERSIONS_KNOWN,
		VERSIONS_UNKNOWN /* some, whose names are not in this file (a separate debug file) or unreadable */
	} state;
	struct intern names; /* when known */
};

/* One file being read into a list. */
struct symbol_reader {
	struct elf_symbols *symbols;
	struct elf_file *file;
	struct elf_segment executed[EXECUTED_SEGMENTS_MAX]; /* elf_file_find_code() */
	size_t executed_count;
	struct elf_versions versions;
	const char *source_file; /* the STT_FILE that was read last; "" = none */
	bool is_symtab;
};

/* The executed segment that holds an address, or NULL. */
const struct elf_segment *symbol_reader_find_segment(const struct symbol_reader *reader, uint64_t address);
/* Copies one symbol out of a raw table, 32 or 64 bit. */
void elf_symbol_convert(const struct elf_file *file, const uint8_t *raw, Elf64_Sym *ret);
/* Adds a symbol as it is; its name must live as long as the list. */
int elf_symbols_append(struct elf_symbols *symbols, const struct elf_symbol *symbol, struct error *err);
/* Keeps a string table until the list is released. */
int elf_symbols_read_strings(struct elf_symbols *symbols, struct elf_file *file, const struct elf_section *table,
			     struct bytes *ret, struct error *err);
/* elf_versions.c. A damaged list is unknown, and no error. Needs elf_file_load_sections(). */
int elf_versions_read(struct elf_versions *versions, struct elf_file *file, struct error *err);
void elf_versions_release(struct elf_versions *versions);
/* Where the version of a name ("@V", "@@V") begins, NULL when it has none. */
char *elf_versions_find(const struct elf_versions *versions, char *name, size_t len);
/* elf_plt.c: adds "NAME@plt" for every linkage table entry that can be resolved. Damage costs these names only. */
int elf_symbols_add_plt(struct symbol_reader *reader, struct error *err);
/* Appends the contents of ELF_PLT_SECTION to *out; nothing when the file has no stubs. Needs elf_file_load_sections(). */
int elf_plt_note(struct elf_file *file, struct buffer *out, struct error *err);

#endif
