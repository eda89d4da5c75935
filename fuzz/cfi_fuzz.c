/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files to rows of call frame information, and what every reader of rows relies on: addresses ascend, neighbours differ,
 * all numbers are in range, unused fields are zero, statistics are true. The first byte of the input says how to treat the
 * rest: as a file, or as one section of a file made around it, so that the fuzzer need not find out what ELF is. Sections of a
 * file on disk are read in pieces (cfi_pages.c), which must give the same rows as the same section in memory.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "elf/cfi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct check {
	uint64_t rows, unsupported, address;
	uint64_t hash; /* of all rows */
	struct unwind_rule last;
	unsigned registers;
};

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void check_rule(const struct check *check, const struct unwind_rule *rule)
{
	/* Rules that were found by going through code are of one kind, as are those of Go's scheduler. */
	require(rule->cfa <= UNWIND_CFA_INDEXED || rule->cfa == (UNWIND_CFA_REGISTER | UNWIND_RULE_ANALYSED) ||
		rule->cfa == (UNWIND_CFA_REGISTER | UNWIND_RULE_LEAVES) || UNWIND_IS_GO(rule->cfa));
	require(rule->cfa_register < check->registers || rule->cfa == UNWIND_CFA_INDEXED);
	require(rule->ra <= UNWIND_WHERE_LOST && rule->fp <= UNWIND_WHERE_LOST);
	require(rule->ra != UNWIND_WHERE_FP && rule->fp != UNWIND_WHERE_REGISTER);
	if (rule->ra == UNWIND_WHERE_REGISTER)
		require(rule->ra_offset >= 0 && (unsigned)rule->ra_offset < check->registers);
	if (rule->ra == UNWIND_WHERE_SAME || rule->ra == UNWIND_WHERE_LOST)
		require(rule->ra_offset == 0);
	if (rule->fp == UNWIND_WHERE_SAME || rule->fp == UNWIND_WHERE_LOST)
		require(rule->fp_offset == 0);
	if (rule->cfa == UNWIND_CFA_REGISTER && check->registers == 32) /* of x86-64 it says where rbx is */
		require(rule->offset2 == 0);
	if (rule->cfa == UNWIND_CFA_PLT)
		require(rule->offset2 >= 0 && rule->offset2 <= 15 && rule->cfa_register == 7);
	bool is_bare = rule->cfa == UNWIND_CFA_NONE || rule->cfa == UNWIND_CFA_SIGNAL || rule->cfa == UNWIND_CFA_UNSUPPORTED ||
		       rule->cfa == UNWIND_CFA_END;
	if (is_bare) {
		struct unwind_rule bare = {.cfa = rule->cfa};
		require(memcmp(rule, &bare, sizeof(bare)) == 0);
	}
}

static int check_row(void *context, uint64_t address, const struct unwind_rule *rule)
{
	struct check *check = context;
	require(check->rows == 0 || address > check->address);
	require(memcmp(rule, &check->last, sizeof(*rule)) != 0); /* the first one is not NONE either */
	check_rule(check, rule);
	check->rows++;
	check->unsupported += rule->cfa == UNWIND_CFA_UNSUPPORTED;
	check->address = address;
	check->last = *rule;
	const uint64_t row[2] = {check->hash ^ address, hash64(rule, sizeof(*rule))};
	check->hash = hash64(row, sizeof(row));
	return 0;
}

/* The number of rows and their hash, zero if it cannot be read. */
static struct check read_rows(struct elf_file *file)
{
	struct cfi_stats stats;
	struct check check = {.registers = file->machine == EM_AARCH64 ? 32 : 16};
	int r = cfi_read(file, check_row, &check, &stats, NULL);
	elf_file_release(file);
	require(r <= 0);
	if (r < 0)
		return (struct check){0};
	/* Behind the last row there is nothing. */
	require(check.last.cfa == UNWIND_CFA_NONE);
	require(stats.rows == check.rows && stats.unsupported == check.unsupported);
	return check;
}

static void read_file(struct bytes bytes, bool also_from_disk)
{
	struct elf_file file;
	if (elf_file_open_memory(&file, bytes, "fuzz", NULL) < 0)
		return;
	struct check in_memory = read_rows(&file);
	if (!also_from_disk)
		return;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(fd >= 0 && write(fd, bytes.data, bytes.len) == (ssize_t)bytes.len);
	require(elf_file_open(&file, fd, "fuzz", NULL) == 0);
	struct check in_pieces = read_rows(&file);
	require(in_pieces.rows == in_memory.rows && in_pieces.hash == in_memory.hash);
	close(fd);
}

#define TEXT	   0x401000ull
#define DATA	   0x600000ull
#define SECTION_AT 512

/* A file with one section: .eh_frame, .debug_frame, the same for AArch64, .plt, and .eh_frame known by its header only. */
static void read_section(uint8_t kind, const uint8_t *data, size_t size)
{
	static const char names[] = "\0.eh_frame\0.debug_frame\0.plt";
	static const uint8_t name_at[] = {1, 11, 24};
	uint8_t *bytes = calloc(1, SECTION_AT + size);
	bool is_headless = kind >= 6;
	uint8_t section = is_headless ? 0 : kind % 3;
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_DYN,
			     .e_machine = kind % 6 < 3 ? EM_X86_64 : EM_AARCH64,
			     .e_phoff = 64,
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = 3,
			     .e_shoff = is_headless ? 0 : 240,
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = is_headless ? 0 : 3,
			     .e_shstrndx = 2};
	Elf64_Phdr segments[3] = {
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = TEXT, .p_memsz = 0x100000},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R,
		 .p_vaddr = DATA,
		 .p_filesz = SECTION_AT + size,
		 .p_memsz = SECTION_AT + size},
		{.p_type = PT_GNU_EH_FRAME, .p_offset = SECTION_AT, .p_vaddr = DATA + SECTION_AT, .p_filesz = size},
	};
	Elf64_Shdr sections[3] = {
		{0},
		{.sh_name = name_at[section],
		 .sh_type = SHT_PROGBITS,
		 .sh_flags = section == 2 ? SHF_EXECINSTR : 0,
		 .sh_addr = section == 2 ? TEXT : DATA + SECTION_AT,
		 .sh_offset = SECTION_AT,
		 .sh_size = size},
		{.sh_type = SHT_STRTAB, .sh_offset = 448, .sh_size = sizeof(names)},
	};
	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + 64, segments, sizeof(segments));
	memcpy(bytes + 240, sections, sizeof(sections));
	memcpy(bytes + 448, names, sizeof(names));
	if (size > 0)
		memcpy(bytes + SECTION_AT, data, size);
	read_file((struct bytes){bytes, SECTION_AT + size}, true);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0 && data[0] < 12)
		read_section(data[0], data + 1, size - 1);
	else
		read_file((struct bytes){data, size}, false);
	return 0;
}
