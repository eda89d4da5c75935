/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests and benchmarks: ELF files in memory whose .eh_frame says what the caller wants, row by row.
 *
 * Each function becomes an FDE of absolute addresses; its rows are DW_CFA_def_cfa_offset with advances in between. The rule of
 * a row is test_cfi_rule(cfa_offset).
 */
#ifndef WICK_UNWIND_TEST_CFI_H
#define WICK_UNWIND_TEST_CFI_H

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "bpf/unwind.h"

#ifdef __aarch64__
#define TEST_CFI_MACHINE EM_AARCH64
#else
#define TEST_CFI_MACHINE EM_X86_64
#endif
#define TEST_CFI_BYTES_MAX (1u << 30)

struct test_cfi_row {
	uint64_t address;
	uint32_t cfa_offset; /* 0: the function that ran so far ends here */
};
struct test_cfi_segment {
	uint64_t address, offset, size;
	uint32_t flags;
	uint64_t memory_size; /* 0: the same as size */
};

struct test_cfi {
	const struct test_cfi_row *rows; /* by address; the last has cfa_offset 0 */
	size_t row_count;
	const struct test_cfi_segment *segments;
	size_t segment_count;
	uint16_t machine;     /* 0: this one's */
	const char *build_id; /* hex digits; NULL: none */
};

static inline struct unwind_rule test_cfi_rule(uint32_t cfa_offset)
{
	if (!cfa_offset)
		return (struct unwind_rule){0};
	return (struct unwind_rule){.cfa = UNWIND_CFA_REGISTER,
				    .cfa_register = UNWIND_REGISTER_SP,
				    .ra = UNWIND_WHERE_CFA,
				    .offset = (int32_t)cfa_offset,
				    .ra_offset = -8};
}

static inline void test_cfi_put(struct buffer *out, const void *data, size_t len)
{
	if (buffer_append(out, data, len) < 0)
		abort();
}

static inline void test_cfi_put_number(struct buffer *out, uint64_t number, size_t bytes)
{
	test_cfi_put(out, &number, bytes);
}

static inline void test_cfi_put_uleb(struct buffer *out, uint64_t number)
{
	do {
		test_cfi_put_number(out, (number & 0x7f) | (number > 0x7f) << 7, 1);
		number >>= 7;
	} while (number);
}

/* Pads with DW_CFA_nop to a multiple of 8 and sets the entry's length, whose place is at `entry`. */
static inline void test_cfi_end_entry(struct buffer *out, size_t entry)
{
	while ((out->len - entry) % 8)
		test_cfi_put_number(out, 0, 1);
	uint32_t length = (uint32_t)(out->len - entry - 4);
	memcpy(out->data + entry, &length, 4);
}

static inline void test_cfi_put_cie(struct buffer *out)
{
	static const uint8_t body[] = {1,
				       'z',
				       'R',
				       0, /* version, augmentation */
				       1,
				       0x78,
				       UNWIND_REGISTER_RA, /* code and data alignment (-8), return address */
				       1,
				       0, /* addresses are absolute */
				       0x0c,
				       UNWIND_REGISTER_SP,
				       8, /* DW_CFA_def_cfa */
				       0x80 | UNWIND_REGISTER_RA,
				       1}; /* DW_CFA_offset: at cfa - 8 */
	size_t entry = out->len;
	test_cfi_put_number(out, 0, 8);
	test_cfi_put(out, body, sizeof(body));
	test_cfi_end_entry(out, entry);
}

static inline void test_cfi_put_advance(struct buffer *out, uint64_t delta)
{
	if (delta < 64) {
		test_cfi_put_number(out, 0x40 | delta, 1);
	} else if (delta < 256) {
		test_cfi_put_number(out, 0x02 | delta << 8, 2);
	} else if (delta < 65536) {
		test_cfi_put_number(out, 0x03 | delta << 8, 3);
	} else {
		test_cfi_put_number(out, 0x04, 1);
		test_cfi_put_number(out, delta, 4);
	}
}

/* The function that begins at row `first`; returns the row of its end. */
static inline size_t test_cfi_put_fde(const struct test_cfi *cfi, size_t first, size_t cie, struct buffer *out)
{
	size_t end = first, entry = out->len;
	while (cfi->rows[end].cfa_offset)
		end++;
	test_cfi_put_number(out, 0, 4);
	test_cfi_put_number(out, out->len - cie, 4);
	test_cfi_put_number(out, cfi->rows[first].address, 8);
	test_cfi_put_number(out, cfi->rows[end].address - cfi->rows[first].address, 8);
	test_cfi_put_number(out, 0, 1);
	for (size_t i = first; i < end; i++) {
		if (i > first)
			test_cfi_put_advance(out, cfi->rows[i].address - cfi->rows[i - 1].address);
		test_cfi_put_number(out, 0x0e, 1);
		test_cfi_put_uleb(out, cfi->rows[i].cfa_offset);
	}
	test_cfi_end_entry(out, entry);
	return end;
}

static inline void test_cfi_put_frames(const struct test_cfi *cfi, struct buffer *out)
{
	size_t cie = out->len;
	if (cfi->row_count == 0)
		return;
	test_cfi_put_cie(out);
	for (size_t i = 0; i < cfi->row_count; i++)
		if (cfi->rows[i].cfa_offset)
			i = test_cfi_put_fde(cfi, i, cie, out);
	test_cfi_put_number(out, 0, 4);
}

/* The segment of the note is the last. */
static inline void test_cfi_put_headers(const struct test_cfi *cfi, size_t note_size, size_t sections_at, struct buffer *out)
{
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_DYN,
			     .e_machine = cfi->machine ? cfi->machine : TEST_CFI_MACHINE,
			     .e_version = EV_CURRENT,
			     .e_phoff = sizeof(Elf64_Ehdr),
			     .e_shoff = sections_at,
			     .e_ehsize = sizeof(Elf64_Ehdr),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = (uint16_t)(cfi->segment_count + 1),
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = 3,
			     .e_shstrndx = 2};
	memcpy(out->data, &header, sizeof(header));
	Elf64_Phdr *segments = (void *)(out->data + sizeof(header));
	for (size_t i = 0; i < cfi->segment_count; i++)
		segments[i] = (Elf64_Phdr){.p_type = PT_LOAD,
					   .p_flags = cfi->segments[i].flags,
					   .p_offset = cfi->segments[i].offset,
					   .p_vaddr = cfi->segments[i].address,
					   .p_filesz = cfi->segments[i].size,
					   .p_memsz = cfi->segments[i].memory_size ? cfi->segments[i].memory_size
										   : cfi->segments[i].size,
					   .p_align = 1};
	uint64_t notes_at = sizeof(header) + (cfi->segment_count + 1) * sizeof(Elf64_Phdr);
	segments[cfi->segment_count] = (Elf64_Phdr){
		.p_type = PT_NOTE, .p_offset = notes_at, .p_filesz = note_size, .p_memsz = note_size, .p_align = 4};
}

static inline void test_cfi_put_note(const char *build_id, struct buffer *out)
{
	size_t digits = strlen(build_id);
	test_cfi_put_number(out, 4, 4);
	test_cfi_put_number(out, digits / 2, 4);
	test_cfi_put_number(out, 3, 4); /* NT_GNU_BUILD_ID */
	test_cfi_put(out, "GNU", 4);
	for (size_t i = 0; i < digits; i += 2) {
		const char pair[3] = {build_id[i], build_id[i + 1], 0};
		test_cfi_put_number(out, strtoul(pair, NULL, 16), 1);
	}
}

/* out: not initialised; the code itself is not in the file. */
static inline void test_cfi_build(const struct test_cfi *cfi, struct buffer *out)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	buffer_init(out, TEST_CFI_BYTES_MAX);
	size_t notes_at = sizeof(Elf64_Ehdr) + (cfi->segment_count + 1) * sizeof(Elf64_Phdr);
	if (buffer_reserve(out, notes_at) < 0)
		abort();
	memset(out->data, 0, notes_at);
	out->len = notes_at;
	if (cfi->build_id)
		test_cfi_put_note(cfi->build_id, out);
	size_t note_size = out->len - notes_at;
	while (out->len % 8)
		test_cfi_put_number(out, 0, 1);
	size_t frames_at = out->len;
	test_cfi_put_frames(cfi, out);
	size_t names_at = out->len;
	test_cfi_put(out, names, sizeof(names));
	while (out->len % 8)
		test_cfi_put_number(out, 0, 1);
	size_t sections_at = out->len;
	Elf64_Shdr sections[3] = {
		{0},
		{.sh_name = 1,
		 .sh_type = SHT_PROGBITS,
		 .sh_flags = SHF_ALLOC,
		 .sh_addr = 0x7000000000ull, /* away from the code */
		 .sh_offset = frames_at,
		 .sh_size = names_at - frames_at},
		{.sh_name = 11, .sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = sizeof(names)},
	};
	test_cfi_put(out, sections, sizeof(sections));
	test_cfi_put_headers(cfi, note_size, sections_at, out);
}

#endif
