/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x86-64 code that no call frame information covers: each instruction as it is decoded, then the rules that are found by going
 * through the code. The first byte of the input says how the file around the code looks: whether the code is known by its
 * section or by its segment only, and how many symbols and FDEs it has; the next ones where those lie.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "elf/cfi.h"
#include "elf/code/x86_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT	  0x401000ull
#define DATA	  0x600000ull
#define MARKS_MAX 7u

enum { AT_SEGMENTS = 64, AT_SECTIONS = 256, AT_NAMES = 640, AT_SYMBOLS = 704, AT_FRAMES = 960, AT_TEXT = 1536 };
enum { SECTION_NONE, SECTION_TEXT, SECTION_SYMBOLS, SECTION_FRAMES, SECTION_NAMES, SECTIONS };

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void decode_all(const uint8_t *code, size_t len)
{
	for (size_t at = 0; at < len; at++) {
		struct x86_instruction in, cut;
		if (!x86_decode(code + at, len - at, &in))
			continue;
		require(in.len >= 1 && in.len <= X86_INSTRUCTION_MAX && in.len <= len - at);
		require(in.reg <= X86_NONE && in.base <= X86_NONE && in.writes < 1u << X86_REGISTERS);
		require(in.kind <= X86_END && (in.kind == X86_OTHER || in.writes == 0));
		/* Registers that are moved are there. */
		if (in.kind == X86_ADD || in.kind == X86_LEA || in.kind == X86_ADDRESS || in.kind == X86_MOVE ||
		    in.kind == X86_EXCHANGE || in.kind == X86_STORE || in.kind == X86_LOAD || in.kind == X86_CLEAR)
			require(in.reg < X86_REGISTERS);
		/* What is behind an instruction does not matter, and no part of it is one. */
		require(x86_decode(code + at, in.len, &cut) && cut.len == in.len && cut.kind == in.kind);
		require(!x86_decode(code + at, in.len - 1u, &cut));
	}
}

struct check {
	uint64_t address, end;
	struct unwind_rule last;
};

static int check_row(void *context, uint64_t address, const struct unwind_rule *rule)
{
	struct check *check = context;
	require(address > check->address && address >= TEXT && address <= check->end);
	require(memcmp(rule, &check->last, sizeof(*rule)) != 0);
	check->address = address;
	check->last = *rule;
	if (rule->cfa != (UNWIND_CFA_REGISTER | UNWIND_RULE_ANALYSED))
		return 0;
	require(rule->cfa_register < 16 && rule->ra == UNWIND_WHERE_CFA && rule->ra_offset == -8);
	require(rule->fp == UNWIND_WHERE_SAME || rule->fp == UNWIND_WHERE_CFA || rule->fp == UNWIND_WHERE_LOST);
	require(rule->fp == UNWIND_WHERE_CFA ? rule->fp_offset < -8 : rule->fp_offset == 0);
	require(rule->offset2 == 0 || rule->offset2 == UNWIND_RBX_LOST || rule->offset2 < -8);
	return 0;
}

/* A CIE, then an FDE for each mark: code with information in the middle of the code without. */
static size_t write_frames(uint8_t *out, const uint8_t *marks, size_t count)
{
	static const uint8_t cie[24] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1, 0, 0};
	size_t at = sizeof(cie);
	memcpy(out, cie, sizeof(cie));
	for (size_t i = 0; i < count; i++, at += 32) {
		uint32_t len = 28, back = (uint32_t)at + 4;
		uint64_t range[2] = {TEXT + marks[i] * 3u, 16};
		memcpy(out + at, &len, sizeof(len));
		memcpy(out + at + 4, &back, sizeof(back));
		memcpy(out + at + 8, range, sizeof(range));
	}
	return at;
}

/* form: 1 = no section of code, 2 = no FDEs, 4 = no symbols. */
static void go_through(uint8_t form, const uint8_t *marks, size_t mark_count, const uint8_t *code, size_t len)
{
	static const char names[] = "\0.text\0.symtab\0.eh_frame";
	uint8_t *bytes = calloc(1, AT_TEXT + len);
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_DYN,
			     .e_machine = EM_X86_64,
			     .e_entry = mark_count ? TEXT + marks[0] : 0,
			     .e_phoff = AT_SEGMENTS,
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = 2,
			     .e_shoff = AT_SECTIONS,
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = SECTIONS,
			     .e_shstrndx = SECTION_NAMES};
	Elf64_Phdr segments[2] = {
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_X,
		 .p_offset = AT_TEXT,
		 .p_vaddr = TEXT,
		 .p_filesz = len,
		 .p_memsz = len},
		{.p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = DATA, .p_filesz = AT_TEXT, .p_memsz = AT_TEXT},
	};
	Elf64_Sym symbols[MARKS_MAX] = {0};
	for (size_t i = 0; i < mark_count; i++)
		symbols[i] =
			(Elf64_Sym){.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1, .st_value = TEXT + marks[i]};
	size_t frames = write_frames(bytes + AT_FRAMES, marks, form & 2 ? 0 : mark_count);
	Elf64_Shdr sections[SECTIONS] = {
		[SECTION_TEXT] = {.sh_name = 1,
				  .sh_type = form & 1 ? SHT_NOBITS : SHT_PROGBITS,
				  .sh_flags = SHF_EXECINSTR,
				  .sh_addr = TEXT,
				  .sh_offset = AT_TEXT,
				  .sh_size = len},
		[SECTION_SYMBOLS] = {.sh_name = 7,
				     .sh_type = form & 4 ? SHT_NULL : SHT_SYMTAB,
				     .sh_offset = AT_SYMBOLS,
				     .sh_size = mark_count * sizeof(Elf64_Sym)},
		[SECTION_FRAMES] = {.sh_name = 15,
				    .sh_type = SHT_PROGBITS,
				    .sh_addr = DATA + AT_FRAMES,
				    .sh_offset = AT_FRAMES,
				    .sh_size = frames},
		[SECTION_NAMES] = {.sh_type = SHT_STRTAB, .sh_offset = AT_NAMES, .sh_size = sizeof(names)},
	};
	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + AT_SEGMENTS, segments, sizeof(segments));
	memcpy(bytes + AT_SECTIONS, sections, sizeof(sections));
	memcpy(bytes + AT_NAMES, names, sizeof(names));
	memcpy(bytes + AT_SYMBOLS, symbols, sizeof(symbols));
	memcpy(bytes + AT_TEXT, code, len);
	struct elf_file file;
	struct check check = {.end = TEXT + len};
	require(elf_file_open_memory(&file, (struct bytes){bytes, AT_TEXT + len}, "fuzz", NULL) == 0);
	require(cfi_read(&file, check_row, &check, NULL, NULL) == 0);
	require(check.last.cfa == UNWIND_CFA_NONE);
	elf_file_release(&file);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t marks = size > 0 ? data[0] >> 3 & MARKS_MAX : 0;
	if (size < 2 + marks)
		return 0;
	const uint8_t *code = data + 1 + marks;
	size_t len = size - 1 - marks;
	decode_all(code, len);
	go_through(data[0] & 7, data + 1, marks, code, len);
	return 0;
}
