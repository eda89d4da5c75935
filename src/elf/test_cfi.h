/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: ELF files with call frame information, put together byte by byte, and rows as text. Behind cmocka.h.
 *
 * Rows are written one word each: address from the start of the text, colon, rule. A rule is "-" (none), "?" (unsupported), "$"
 * (end), "!" (signal), or the CFA ("r7+8", "[r6-8]+0", "plt+8/11"), the return address and the frame pointer (places: "=" same,
 * "c-8" at the CFA, "r5" register, "f+0" at the frame pointer, "x" lost), separated by commas.
 */
#ifndef WICK_ELF_TEST_CFI_H
#define WICK_ELF_TEST_CFI_H

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "elf/cfi.h"

#define TEST_CFI_TEXT	  0x401000ull /* addresses of the executed segment */
#define TEST_CFI_TEXT_LEN 0x100000ull
#define TEST_CFI_DATA	  0x600000ull /* of the segment that holds the file */
#define TEST_CFI_SECTIONS 8

struct test_cfi_section {
	const char *name;
	struct bytes data;
	uint64_t address; /* 0: where its segment has it */
	uint64_t flags;
	uint64_t entry_size;
	uint32_t type; /* 0: SHT_PROGBITS */
};

struct test_cfi_file {
	uint16_t machine, type; /* 0: x86-64, ET_DYN */
	struct test_cfi_section sections[TEST_CFI_SECTIONS];
	size_t section_count;
	bool has_no_sections; /* headers left out */
	int header_section;   /* index + 1 of the one that PT_GNU_EH_FRAME names */
	struct bytes code;    /* at TEST_CFI_TEXT */
};

static inline void test_cfi_put(struct buffer *out, const void *data, size_t len)
{
	if (buffer_append(out, data, len) < 0)
		abort();
}
static inline void test_cfi_put_int(struct buffer *out, uint64_t value, size_t len)
{
	test_cfi_put(out, &value, len);
}
static inline void test_cfi_put_string(struct buffer *out, const char *text)
{
	test_cfi_put(out, text, strlen(text) + 1);
}
static inline void test_cfi_pad(struct buffer *out, size_t align)
{
	while (out->len % align != 0)
		test_cfi_put_int(out, 0, 1);
}

/* Where a section that is put first lies. */
#define TEST_CFI_FIRST_OFFSET  (sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr) + 8)
#define TEST_CFI_FIRST_ADDRESS (TEST_CFI_DATA + TEST_CFI_FIRST_OFFSET)

/* Header, three program headers, contents of the sections, names, section headers. The file as a whole is loaded at
 * TEST_CFI_DATA. */
static inline void test_cfi_build(const struct test_cfi_file *file, struct buffer *out)
{
	Elf64_Shdr headers[TEST_CFI_SECTIONS + 2] = {{0}};
	struct buffer names;
	buffer_init(&names, 1 << 16);
	test_cfi_put_string(&names, "");
	size_t count = file->section_count;
	while (out->len < TEST_CFI_FIRST_OFFSET)
		test_cfi_put_int(out, 0, 1);
	for (size_t i = 0; i < count; i++) {
		const struct test_cfi_section *s = &file->sections[i];
		test_cfi_pad(out, 8);
		headers[i + 1] = (Elf64_Shdr){.sh_name = (uint32_t)names.len,
					      .sh_type = s->type ? s->type : SHT_PROGBITS,
					      .sh_flags = s->flags,
					      .sh_addr = s->address ? s->address : TEST_CFI_DATA + out->len,
					      .sh_offset = out->len,
					      .sh_size = s->data.len,
					      .sh_entsize = s->entry_size};
		test_cfi_put_string(&names, s->name);
		test_cfi_put(out, s->data.data, s->data.len);
	}
	size_t loaded = out->len;
	test_cfi_put(out, file->code.data, file->code.len);
	headers[count + 1] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = out->len, .sh_size = names.len};
	test_cfi_put(out, names.data, names.len);
	buffer_release(&names);
	test_cfi_pad(out, 8);
	uint64_t headers_at = out->len;
	if (!file->has_no_sections)
		test_cfi_put(out, headers, (count + 2) * sizeof(headers[0]));
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = file->type ? file->type : ET_DYN,
			     .e_machine = file->machine ? file->machine : EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_phoff = sizeof(Elf64_Ehdr),
			     .e_ehsize = sizeof(Elf64_Ehdr),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = 3};
	if (!file->has_no_sections) {
		header.e_shoff = headers_at;
		header.e_shentsize = sizeof(Elf64_Shdr);
		header.e_shnum = (uint16_t)(count + 2);
		header.e_shstrndx = (uint16_t)(count + 1);
	}
	const Elf64_Shdr *frame = file->header_section ? &headers[file->header_section] : NULL;
	Elf64_Phdr segments[3] = {
		{.p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = TEST_CFI_DATA, .p_filesz = loaded, .p_memsz = loaded},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_X,
		 .p_offset = loaded,
		 .p_vaddr = TEST_CFI_TEXT,
		 .p_filesz = file->code.len,
		 .p_memsz = TEST_CFI_TEXT_LEN},
		{.p_type = PT_NULL},
	};
	if (frame)
		segments[2] = (Elf64_Phdr){.p_type = PT_GNU_EH_FRAME,
					   .p_offset = frame->sh_offset,
					   .p_vaddr = frame->sh_addr,
					   .p_filesz = frame->sh_size,
					   .p_memsz = frame->sh_size};
	memcpy(out->data, &header, sizeof(header));
	memcpy(out->data + sizeof(header), segments, sizeof(segments));
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
/* A string of bytes and its length, which may hold NULs. */
#define BYTES(text) ((struct bytes){(const uint8_t *)(text), sizeof(text) - 1})

/* ---- sections ----------------------------------------------------------------------------------------------------------- */

struct section {
	struct buffer data;
	uint64_t address; /* of .eh_frame */
	bool is_debug;
	uint64_t cie; /* offset of the last one */
};

static inline void section_init(struct section *s, bool is_debug)
{
	*s = (struct section){.address = TEST_CFI_FIRST_ADDRESS, .is_debug = is_debug};
	buffer_init(&s->data, 64 << 20);
}

static inline size_t begin_entry(struct section *s)
{
	test_cfi_put_int(&s->data, 0, 4);
	return s->data.len;
}

static inline void end_entry(struct section *s, size_t begun)
{
	uint32_t len = (uint32_t)(s->data.len - begun);
	memcpy(s->data.data + begun - 4, &len, 4);
}

/* Everything behind the id is given. */
static inline void put_raw_cie(struct section *s, struct bytes body)
{
	s->cie = s->data.len;
	size_t begun = begin_entry(s);
	test_cfi_put_int(&s->data, s->is_debug ? UINT32_MAX : 0, 4);
	test_cfi_put(&s->data, body.data, body.len);
	end_entry(s, begun);
}

/* CFA r7+8, return address at CFA-8; factors 1 and -8; "zR" with pcrel sdata4, or nothing in .debug_frame. */
static inline void put_cie(struct section *s)
{
	if (s->is_debug)
		put_raw_cie(s, BYTES("\1\0\1\x78\x10\x0c\7\x8\x90\1"));
	else
		put_raw_cie(s, BYTES("\1zR\0\1\x78\x10\1\x1b\x0c\7\x8\x90\1"));
}

/* start counts from the text; the address is absolute in .debug_frame, relative to itself in .eh_frame. */
static inline void put_fde(struct section *s, uint64_t start, uint64_t len, struct bytes program)
{
	size_t begun = begin_entry(s);
	test_cfi_put_int(&s->data, s->is_debug ? s->cie : s->data.len - s->cie, 4);
	if (s->is_debug) {
		test_cfi_put_int(&s->data, TEST_CFI_TEXT + start, 8);
		test_cfi_put_int(&s->data, len, 8);
	} else {
		test_cfi_put_int(&s->data, TEST_CFI_TEXT + start - (s->address + s->data.len), 4);
		test_cfi_put_int(&s->data, len, 4);
		test_cfi_put_int(&s->data, 0, 1);
	}
	test_cfi_put(&s->data, program.data, program.len);
	end_entry(s, begun);
}

/* ---- rows as text ------------------------------------------------------------------------------------------------------- */

struct result {
	struct buffer text;
	uint64_t last_address;
	struct unwind_rule last;
	unsigned registers;
	struct cfi_stats stats;
	int status; /* of cfi_read */
	struct error err;
};

static inline void put_place(struct buffer *out, uint8_t where, int offset)
{
	static const char *const letters[] = {"=", "c", "r", "f", "x"};
	assert_true(where < COUNT(letters));
	assert_int_equal(buffer_append_string(out, letters[where]), 0);
	if (where == UNWIND_WHERE_CFA || where == UNWIND_WHERE_FP)
		assert_int_equal(buffer_printf(out, "%+d", offset), 0);
	else if (where == UNWIND_WHERE_REGISTER)
		assert_int_equal(buffer_printf(out, "%d", offset), 0);
	else
		assert_int_equal(offset, 0);
}

static inline int add_text(void *context, uint64_t address, const struct unwind_rule *rule)
{
	struct result *result = context;
	struct buffer *out = &result->text;
	static const struct unwind_rule none;
	static const char *const words[] = {"-", NULL, NULL, NULL, "!", "?", "$", NULL};
	assert_true(out->len == 0 || address > result->last_address);
	assert_memory_not_equal(rule, out->len == 0 ? &none : &result->last, sizeof(*rule));
	assert_true(rule->cfa < COUNT(words));
	assert_true(rule->cfa_register < result->registers || rule->cfa == UNWIND_CFA_INDEXED);
	result->last_address = address;
	result->last = *rule;
	buffer_printf(out, "%s%llx:", out->len == 0 ? "" : " ", (unsigned long long)(address - TEST_CFI_TEXT));
	if (words[rule->cfa]) {
		struct unwind_rule bare = {.cfa = rule->cfa};
		assert_memory_equal(rule, &bare, sizeof(bare));
		return buffer_append_string(out, words[rule->cfa]);
	}
	if (rule->cfa == UNWIND_CFA_REGISTER)
		buffer_printf(out, "r%u%+d,", rule->cfa_register, rule->offset);
	else if (rule->cfa == UNWIND_CFA_DEREFERENCE)
		buffer_printf(out, "[r%u%+d]%+d,", rule->cfa_register, rule->offset, rule->offset2);
	else if (rule->cfa == UNWIND_CFA_INDEXED)
		buffer_printf(out, "[r%u+8r%u%+d]%+d,", rule->cfa_register & 15, rule->cfa_register >> 4, rule->offset,
			      rule->offset2);
	else
		buffer_printf(out, "plt%+d/%d,", rule->offset, rule->offset2);
	put_place(out, rule->ra, rule->ra_offset);
	buffer_append_string(out, ",");
	put_place(out, rule->fp, rule->fp_offset);
	if (rule->cfa == UNWIND_CFA_REGISTER && rule->offset2 == UNWIND_RBX_LOST)
		buffer_append_string(out, ",rbx?");
	else if (rule->cfa == UNWIND_CFA_REGISTER && rule->offset2)
		buffer_printf(out, ",rbx%+d", rule->offset2);
	return 0;
}

static inline void read_bytes(struct bytes bytes, struct result *ret)
{
	struct elf_file file;
	*ret = (struct result){.stats = {7, 7, 7, 7}};
	buffer_init(&ret->text, 64 << 20);
	assert_int_equal(elf_file_open_memory(&file, bytes, "test", NULL), 0);
	ret->registers = file.machine == EM_AARCH64 ? 32 : 16;
	ret->status = cfi_read(&file, add_text, ret, &ret->stats, &ret->err);
	elf_file_release(&file);
}

static inline void read_file(const struct test_cfi_file *file, struct result *ret)
{
	struct buffer bytes;
	buffer_init(&bytes, 128 << 20);
	test_cfi_build(file, &bytes);
	read_bytes(buffer_bytes(&bytes), ret);
	buffer_release(&bytes);
}

static inline void check_result(struct result *result, const char *what, const char *want, uint64_t bad)
{
	assert_int_equal(result->status, 0);
	const char *got = buffer_string(&result->text);
	if (strcmp(got, want) != 0)
		fail_msg("%s\n  got  %s\n  want %s", what, got, want);
	if (result->stats.bad_entries != bad)
		fail_msg("%s: %llu bad entries", what, (unsigned long long)result->stats.bad_entries);
	buffer_release(&result->text);
}

static inline void check_file(const struct test_cfi_file *file, const char *what, const char *want, uint64_t bad)
{
	struct result result;
	read_file(file, &result);
	check_result(&result, what, want, bad);
}

/* Releases the section. */
static inline void check_section(struct section *s, uint16_t machine, const char *what, const char *want, uint64_t bad)
{
	struct test_cfi_file file = {
		.machine = machine,
		.sections = {{.name = s->is_debug ? ".debug_frame" : ".eh_frame", .data = buffer_bytes(&s->data)}},
		.section_count = 1};
	check_file(&file, what, want, bad);
	buffer_release(&s->data);
}

/* A CIE, and an FDE of 256 bytes from the text's beginning on. */
static inline void check_fde(uint16_t machine, struct bytes cie, struct bytes program, const char *what, const char *want)
{
	struct section s;
	section_init(&s, false);
	put_raw_cie(&s, cie);
	put_fde(&s, 0, 0x100, program);
	check_section(&s, machine, what, want, 0);
}

/* An FDE whose CFA is r7+cfa throughout. */
static inline void put_simple(struct section *s, uint64_t start, uint64_t len, uint8_t cfa)
{
	uint8_t program[] = {0x0e, cfa};
	put_fde(s, start, len, (struct bytes){program, sizeof(program)});
}

/* What most tests begin with: from address 0 of the text on the CFA is r7+8. */
#define START	      "0:r7+8,c-8,="
#define START_PROGRAM "\x0c\7\x8\x90\1"

#endif
