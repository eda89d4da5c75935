/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: small ELF files, made from a list of symbols. */
#ifndef WICK_ELF_TEST_ELF_H
#define WICK_ELF_TEST_ELF_H

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buffer.h"

#define TEST_ELF_TEXT_OFFSET  0x400u /* in the file */
#define TEST_ELF_TEXT_SIZE    0x400u
#define TEST_ELF_TEXT_ADDRESS 0x402400ull
#define TEST_ELF_TEXT_END     (TEST_ELF_TEXT_ADDRESS + TEST_ELF_TEXT_SIZE)
#define TEST_ELF_NOTE_OFFSET  0x200u
#define TEST_ELF_BUILD_ID     "0123456789abcdef0123456789abcdef01234567"

struct test_symbol {
	const char *name;
	uint32_t start, size; /* start counts from the beginning of the text */
	uint8_t type, binding;
	uint16_t section; /* 0 = the text section (1) */
};

struct test_elf {
	const struct test_symbol *symbols;
	size_t symbol_count;
	bool stripped;		/* .dynsym instead of .symtab */
	bool no_build_id;	/* no note at all */
	bool debug_only;	/* as objcopy --only-keep-debug leaves it: no contents, sizes of 0 in the file */
	bool notes_only;	/* as Parca Agent's OnlyKeepDebug leaves it: no segment but of notes, an empty text section */
	uint8_t build_id_first; /* replaces the first byte when not 0 */
	const char *version;	/* that the file defines for its symbols; NULL = none */
	bool version_is_absent; /* the section of versions has no contents */
	uint16_t machine;	/* 0 = EM_X86_64 */
};

static inline void test_elf_put(struct buffer *out, const void *data, size_t len)
{
	if (buffer_append(out, data, len) < 0)
		abort();
}

static inline void test_elf_pad(struct buffer *out, size_t to)
{
	while (out->len < to)
		test_elf_put(out, "", 1);
}

static inline void test_elf_put_note(const struct test_elf *elf, struct buffer *out)
{
	Elf64_Nhdr other = {4, 4, NT_GNU_ABI_TAG}, note = {4, 20, NT_GNU_BUILD_ID};
	test_elf_put(out, &other, sizeof(other));
	test_elf_put(out, "GNU\0abcd", 8);
	test_elf_put(out, &note, sizeof(note));
	test_elf_put(out, "GNU", 4);
	for (size_t i = 0; i < 20; i++) {
		unsigned byte;
		char digits[3] = {TEST_ELF_BUILD_ID[2 * i], TEST_ELF_BUILD_ID[2 * i + 1], 0};
		byte = (unsigned)strtoul(digits, NULL, 16);
		uint8_t b = i == 0 && elf->build_id_first ? elf->build_id_first : (uint8_t)byte;
		test_elf_put(out, &b, 1);
	}
}

/* The symbol table and its strings; returns where the strings are. */
static inline size_t test_elf_put_symbols(const struct test_elf *elf, struct buffer *out)
{
	Elf64_Sym null_symbol = {0};
	test_elf_put(out, &null_symbol, sizeof(null_symbol));
	uint32_t name_at = 1;
	for (size_t i = 0; i < elf->symbol_count; i++) {
		const struct test_symbol *s = &elf->symbols[i];
		Elf64_Sym symbol = {.st_name = name_at,
				    .st_info = ELF64_ST_INFO(s->binding, s->type),
				    .st_shndx = s->section ? s->section : 1,
				    .st_value = TEST_ELF_TEXT_ADDRESS + s->start,
				    .st_size = s->size};
		if (s->section == 0xfff0) /* stands for undefined */
			symbol.st_shndx = SHN_UNDEF;
		test_elf_put(out, &symbol, sizeof(symbol));
		name_at += (uint32_t)strlen(s->name) + 1;
	}
	size_t strings_at = out->len;
	test_elf_put(out, "", 1);
	for (size_t i = 0; i < elf->symbol_count; i++)
		test_elf_put(out, elf->symbols[i].name, strlen(elf->symbols[i].name) + 1);
	return strings_at;
}

/* Appends the version's name to the strings, and returns where its entry, behind them, is. */
static inline size_t test_elf_put_version(const struct test_elf *elf, size_t strings_at, struct buffer *out)
{
	Elf64_Verdaux name = {.vda_name = (Elf64_Word)(out->len - strings_at)};
	if (!elf->version)
		return out->len;
	test_elf_put(out, elf->version, strlen(elf->version) + 1);
	size_t at = out->len;
	Elf64_Verdef entry = {.vd_version = VER_DEF_CURRENT, .vd_ndx = 2, .vd_cnt = 1, .vd_aux = sizeof(Elf64_Verdef)};
	test_elf_put(out, &entry, sizeof(entry));
	test_elf_put(out, &name, sizeof(name));
	return at;
}

/*
 * Layout: header, two program headers (notes; text), notes at 0x200, text at 0x400 (address 0x402400), symbols, strings,
 * section names, section headers: 0 null, 1 .text, 2 .symtab or .dynsym, 3 .strtab, 4 .shstrtab, 5 .note, 6 .rodata behind the
 * text (empty), 7 .gnu.version_d if any.
 */
static inline void test_elf_build(const struct test_elf *elf, struct buffer *out)
{
	static const char section_names[] = "\0.text\0.symtab\0.strtab\0.shstrtab\0.note\0.gnu.version_d\0.rodata";
	static const uint8_t zeros[TEST_ELF_TEXT_SIZE];
	buffer_init(out, 1 << 20);
	test_elf_pad(out, TEST_ELF_NOTE_OFFSET);
	test_elf_put_note(elf, out);
	size_t note_len = elf->no_build_id ? 0 : out->len - TEST_ELF_NOTE_OFFSET;
	test_elf_pad(out, TEST_ELF_TEXT_OFFSET);
	bool has_text = !elf->debug_only && !elf->notes_only;
	if (has_text)
		test_elf_put(out, zeros, sizeof(zeros));
	size_t symbols_at = out->len;
	size_t strings_at = test_elf_put_symbols(elf, out);
	size_t version_at = test_elf_put_version(elf, strings_at, out), version_end = out->len;
	size_t names_at = out->len;
	test_elf_put(out, section_names, sizeof(section_names));
	test_elf_pad(out, (out->len + 7) & ~(size_t)7);
	Elf64_Shdr sections[8] = {
		{0},
		{.sh_name = 1,
		 .sh_type = has_text ? SHT_PROGBITS : SHT_NOBITS,
		 .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		 .sh_addr = TEST_ELF_TEXT_ADDRESS,
		 .sh_offset = TEST_ELF_TEXT_OFFSET,
		 .sh_size = elf->notes_only ? 0 : TEST_ELF_TEXT_SIZE},
		{.sh_name = 7,
		 .sh_type = elf->stripped ? SHT_DYNSYM : SHT_SYMTAB,
		 .sh_offset = symbols_at,
		 .sh_size = strings_at - symbols_at,
		 .sh_link = 3,
		 .sh_entsize = sizeof(Elf64_Sym)},
		{.sh_name = 15, .sh_type = SHT_STRTAB, .sh_offset = strings_at, .sh_size = version_at - strings_at},
		{.sh_name = 23, .sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = sizeof(section_names)},
		{.sh_name = 33, .sh_type = SHT_NOTE, .sh_offset = TEST_ELF_NOTE_OFFSET, .sh_size = note_len},
		{.sh_name = 54, .sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC, .sh_addr = TEST_ELF_TEXT_END},
		{.sh_name = 39,
		 .sh_type = elf->version_is_absent ? SHT_NOBITS : SHT_GNU_verdef,
		 .sh_offset = version_at,
		 .sh_size = version_end - version_at,
		 .sh_link = 3},
	};
	size_t sections_at = out->len;
	uint16_t section_count = elf->version ? 8 : 7;
	test_elf_put(out, sections, section_count * sizeof(sections[0]));
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_DYN,
			     .e_machine = elf->machine ? elf->machine : EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_phoff = sizeof(Elf64_Ehdr),
			     .e_shoff = sections_at,
			     .e_ehsize = sizeof(Elf64_Ehdr),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = elf->notes_only ? 1 : 2,
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = section_count,
			     .e_shstrndx = 4};
	Elf64_Phdr segments[2] = {
		{.p_type = PT_NOTE, .p_offset = TEST_ELF_NOTE_OFFSET, .p_filesz = note_len, .p_memsz = note_len, .p_align = 4},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_X,
		 .p_offset = TEST_ELF_TEXT_OFFSET,
		 .p_vaddr = TEST_ELF_TEXT_ADDRESS,
		 .p_filesz = has_text ? TEST_ELF_TEXT_SIZE : 0,
		 .p_memsz = TEST_ELF_TEXT_SIZE,
		 .p_align = 0x1000},
	};
	memcpy(out->data, &header, sizeof(header));
	memcpy(out->data + sizeof(header), segments, sizeof(segments));
}

/* A descriptor of a file in memory with these bytes. */
static inline int test_elf_file(struct bytes bytes)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	if (fd < 0 || (bytes.len > 0 && pwrite(fd, bytes.data, bytes.len, 0) != (ssize_t)bytes.len))
		abort();
	return fd;
}

#endif
