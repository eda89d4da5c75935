/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a small Go program's table of functions, in each layout, in an ELF file with a runtime's moduledata. */
#ifndef WICK_ELF_TEST_PCLNTAB_H
#define WICK_ELF_TEST_PCLNTAB_H

#include "elf/pclntab_int.h"
#include "elf/test_elf.h"

#define TEST_GO_TEXT   0x401000ull
#define TEST_GO_RODATA 0x402000ull
#define TEST_GO_DATA   0x404000ull

struct test_go {
	enum pclntab_layout layout;
	bool no_headers; /* no section headers */
	bool no_text;	 /* the header does not have the start of the text, as since 1.26 */
	bool other_name; /* the table lies in .data.rel.ro, after other data */
};

/*
 * main.outer     0x00 a.go:10, 0x10 main.middle b.go:21, 0x20 main.inner in main.middle b.go:31, 0x30 a.go:12, 0x38 padding
 * x%2ey.leaf     0x40 b.go:5, up to 0x60
 */
struct test_go_parts {
	struct buffer names, units, files, tables, records, functions, inlined, out;
	uint32_t name[4], file_table, line_table, index_table, leaf_file, leaf_line;
};

static inline void test_go_u32(struct buffer *out, uint64_t value)
{
	uint32_t v = (uint32_t)value;
	test_elf_put(out, &v, sizeof(v));
}

static inline void test_go_u64(struct buffer *out, uint64_t value)
{
	test_elf_put(out, &value, sizeof(value));
}

static inline uint32_t test_go_string(struct buffer *out, const char *text)
{
	uint32_t at = (uint32_t)out->len;
	test_elf_put(out, text, strlen(text) + 1);
	return at;
}

static inline void test_go_varint(struct buffer *out, uint32_t value)
{
	for (; value >= 0x80; value >>= 7)
		test_elf_put(out, &(uint8_t){(uint8_t)(value | 0x80)}, 1);
	test_elf_put(out, &(uint8_t){(uint8_t)value}, 1);
}

/* A pc table of pairs (value, bytes). */
static inline uint32_t test_go_table(struct buffer *out, const int32_t *pairs, size_t count)
{
	uint32_t at = (uint32_t)out->len;
	int32_t last = -1;
	for (size_t i = 0; i < count; i++) {
		int32_t change = pairs[2 * i] - last;
		test_go_varint(out, ((uint32_t)change << 1) ^ (uint32_t)(change >> 31));
		test_go_varint(out, (uint32_t)pairs[2 * i + 1]);
		last = pairs[2 * i];
	}
	test_elf_put(out, "", 1);
	return at;
}

static inline void test_go_make_parts(const struct test_go *go, struct test_go_parts *p, uint32_t base)
{
	bool old = go->layout == PCLNTAB_1_2;
	test_elf_put(&p->names, "", 1);
	static const char *const names[] = {"main.outer", "main.middle", "main.inner", "example.com/x%2ey.leaf"};
	for (size_t i = 0; i < 4; i++)
		p->name[i] = base + test_go_string(&p->names, names[i]);
	const int32_t lines[] = {10, 0x10, 21, 0x10, 31, 0x10, 12, 8}, index[] = {-1, 0x10, 0, 0x10, 1, 0x10, -1, 8};
	const int32_t files[] = {old, 0x10, old + 1, 0x20, old, 8}, leaf_lines[] = {5, 0x20}, leaf_files[] = {old + 1, 0x20};
	test_elf_put(&p->tables, "", 1);
	base += old ? (uint32_t)p->names.len : 0;
	p->file_table = base + test_go_table(&p->tables, files, 3);
	p->line_table = base + test_go_table(&p->tables, lines, 4);
	p->index_table = base + test_go_table(&p->tables, index, 4);
	p->leaf_file = base + test_go_table(&p->tables, leaf_files, 1);
	p->leaf_line = base + test_go_table(&p->tables, leaf_lines, 1);
}

static inline void test_go_record(const struct test_go *go, struct test_go_parts *p, uint64_t start, uint32_t name,
				  uint32_t file_table, uint32_t line_table, bool has_inlined)
{
	bool is_new = go->layout >= PCLNTAB_1_18;
	struct buffer *r = &p->records;
	if (is_new)
		test_go_u32(r, start);
	else
		test_go_u64(r, TEST_GO_TEXT + start);
	test_go_u32(r, name);
	test_go_u32(r, 0);
	test_go_u32(r, 0);
	test_go_u32(r, 0);
	test_go_u32(r, file_table);
	test_go_u32(r, line_table);
	test_go_u32(r, has_inlined ? 3 : 0); /* pc tables */
	if (go->layout >= PCLNTAB_1_16)
		test_go_u32(r, 0); /* unit */
	if (go->layout >= PCLNTAB_1_20)
		test_go_u32(r, start ? 4 : 9); /* line of the declaration */
	test_go_u32(r, has_inlined ? 4u << 24 : 0);
	if (!has_inlined)
		return;
	test_go_u32(r, 0);
	test_go_u32(r, 0);
	test_go_u32(r, p->index_table);
	for (size_t i = 0; !is_new && (r->len & 7); i++)
		test_elf_put(r, "", 1);
	for (size_t i = 0; i < 4; i++) {
		uint64_t tree = i < 3 ? UINT64_MAX : is_new ? 0x20 : TEST_GO_RODATA + 0x20;
		if (is_new)
			test_go_u32(r, tree);
		else
			test_go_u64(r, i < 3 ? 0 : tree);
	}
}

static inline void test_go_call(const struct test_go *go, struct test_go_parts *p, uint32_t name, uint32_t parent_pc,
				uint32_t line)
{
	test_go_u32(&p->inlined, 0);
	if (go->layout < PCLNTAB_1_20) {
		test_go_u32(&p->inlined, 0); /* file and line of the call */
		test_go_u32(&p->inlined, 0);
	}
	test_go_u32(&p->inlined, name);
	test_go_u32(&p->inlined, parent_pc);
	if (go->layout >= PCLNTAB_1_20)
		test_go_u32(&p->inlined, line);
}

/* The list of functions; `records` is where their records start, counted as the layout counts. */
static inline void test_go_list(const struct test_go *go, struct test_go_parts *p, uint64_t records, const size_t *at)
{
	static const uint64_t starts[] = {0, 0x40, 0x60};
	for (size_t i = 0; i < 3; i++) {
		if (go->layout >= PCLNTAB_1_18)
			test_go_u32(&p->functions, starts[i]);
		else
			test_go_u64(&p->functions, TEST_GO_TEXT + starts[i]);
		if (i == 2)
			break;
		if (go->layout >= PCLNTAB_1_18)
			test_go_u32(&p->functions, records + at[i]);
		else
			test_go_u64(&p->functions, records + at[i]);
	}
}

static inline void test_go_pad(struct buffer *out)
{
	test_elf_pad(out, (out->len + 7) & ~(size_t)7);
}

static inline void test_go_append(struct buffer *out, const struct buffer *part)
{
	test_elf_put(out, part->data, part->len);
	test_go_pad(out);
}

static inline void test_go_header(const struct test_go *go, struct buffer *out)
{
	static const uint32_t magics[] = {0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1};
	test_go_u32(out, magics[go->layout]);
	test_go_u32(out, 0x08010000); /* quantum 1, pointers of 8 bytes */
	test_go_u64(out, 2);	      /* functions */
}

/* 1.2: everything is counted from the beginning of the table. */
static inline void test_go_old_table(const struct test_go *go, struct test_go_parts *p)
{
	size_t at[2] = {0};
	const uint64_t records = 16 + 5 * 8 + 8, record_bytes = 8 + 7 * 4 + 4;
	test_go_make_parts(go, p, (uint32_t)(records + 2 * record_bytes));
	test_go_record(go, p, 0, p->name[0], p->file_table, p->line_table, false);
	at[1] = p->records.len;
	test_go_record(go, p, 0x40, p->name[3], p->leaf_file, p->leaf_line, false);
	test_go_list(go, p, records, at);
	test_go_header(go, &p->out);
	test_go_append(&p->out, &p->functions);
	size_t files = (size_t)(records + p->records.len + p->names.len + p->tables.len);
	files = (files + 7) & ~(size_t)7;
	test_go_u32(&p->out, files);
	test_go_u32(&p->out, 0);
	test_elf_put(&p->out, p->records.data, p->records.len);
	test_elf_put(&p->out, p->names.data, p->names.len);
	test_elf_put(&p->out, p->tables.data, p->tables.len);
	test_go_pad(&p->out);
	test_go_u32(&p->out, 3); /* the list of files with its length */
	test_go_u32(&p->out, files + 12);
	test_go_u32(&p->out, files + 17);
	test_elf_put(&p->out, "a.go\0b.go", 10);
}

static inline void test_go_new_table(const struct test_go *go, struct test_go_parts *p)
{
	bool is_new = go->layout >= PCLNTAB_1_18;
	size_t at[2] = {0}, header = 16 + (is_new ? 7 : 6) * 8;
	test_go_make_parts(go, p, 0);
	test_go_u32(&p->units, 0);
	test_go_u32(&p->units, 5);
	test_elf_put(&p->files, "a.go\0b.go", 10);
	test_go_record(go, p, 0, p->name[0], p->file_table, p->line_table, true);
	for (size_t i = 0; p->records.len & 7; i++)
		test_elf_put(&p->records, "", 1);
	at[1] = p->records.len;
	test_go_record(go, p, 0x40, p->name[3], p->leaf_file, p->leaf_line, false);
	test_go_list(go, p, is_new ? 24 : 40, at);
	test_go_call(go, p, p->name[1], 0, 20);
	test_go_call(go, p, p->name[2], 0x10, 30);
	test_go_header(go, &p->out);
	test_go_u64(&p->out, 2); /* files */
	if (is_new)
		test_go_u64(&p->out, go->no_text ? 0 : TEST_GO_TEXT);
	uint64_t offset = header;
	const struct buffer *parts[] = {&p->names, &p->units, &p->files, &p->tables};
	for (size_t i = 0; i < 5; i++) {
		test_go_u64(&p->out, offset);
		if (i < 4)
			offset += (parts[i]->len + 7) & ~(size_t)7;
	}
	for (size_t i = 0; i < 4; i++)
		test_go_append(&p->out, parts[i]);
	test_go_append(&p->out, &p->functions);
	test_go_append(&p->out, &p->records);
}

static inline void test_go_make_table(const struct test_go *go, struct test_go_parts *p)
{
	struct buffer *all[] = {&p->names, &p->units, &p->files, &p->tables, &p->records, &p->functions, &p->inlined, &p->out};
	for (size_t i = 0; i < 8; i++)
		buffer_init(all[i], 1 << 20);
	if (go->layout == PCLNTAB_1_2)
		test_go_old_table(go, p);
	else
		test_go_new_table(go, p);
}

static inline void test_go_free_parts(struct test_go_parts *p)
{
	struct buffer *all[] = {&p->names, &p->units, &p->files, &p->tables, &p->records, &p->functions, &p->inlined, &p->out};
	for (size_t i = 0; i < 8; i++)
		buffer_release(all[i]);
}

/* moduledata: the table, its names, the text, and where inlined calls count from. */
static inline void test_go_module(const struct test_go *go, uint64_t table, uint64_t names, struct buffer *out)
{
	size_t base = go->layout >= PCLNTAB_1_20 ? 40 : 38;
	for (size_t i = 0; i < 48; i++)
		test_go_u64(out, i == 0 ? table : i == 1 ? names : i == 22 ? TEST_GO_TEXT : i == base ? TEST_GO_RODATA : 0);
}

/*
 * Sections: 0 null, 1 .text, 2 .rodata (0x20 zeros, inlined calls), 3 .gopclntab, 4 .data, 5 .go.buildinfo (empty), 6
 * .shstrtab. With other_name, the table is in .data.rel.ro, after a false start.
 */
static inline void test_go_build(const struct test_go *go, struct buffer *out)
{
	static const char names[] = "\0.text\0.rodata\0.gopclntab\0.data.rel.ro\0.data\0.go.buildinfo\0.shstrtab";
	struct test_go_parts p = {0};
	test_go_make_table(go, &p);
	buffer_init(out, 1 << 20);
	test_elf_pad(out, 0x200);
	test_elf_pad(out, 0x220);
	test_go_append(out, &p.inlined);
	size_t rodata_end = out->len, section_at = out->len;
	if (go->other_name) {
		test_go_header(&(struct test_go){.layout = PCLNTAB_1_20}, out);
		test_go_u64(out, UINT64_MAX);
	}
	size_t table_at = out->len;
	test_go_append(out, &p.out);
	size_t data_at = out->len;
	uint64_t table_address = TEST_GO_RODATA + (table_at - 0x200), names_offset = 0;
	if (go->layout >= PCLNTAB_1_16)
		memcpy(&names_offset, p.out.data + (go->layout >= PCLNTAB_1_18 ? 32 : 24), 8);
	test_elf_pad(out, data_at + 0x18);
	test_go_module(go, table_address, table_address + names_offset, out);
	size_t names_at = out->len;
	test_elf_put(out, names, sizeof(names));
	test_go_pad(out);
	size_t sections_at = out->len;
	Elf64_Shdr sections[7] = {
		{0},
		{1, SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, TEST_GO_TEXT, 0x200, 0x60, 0, 0, 16, 0},
		{7, SHT_PROGBITS, SHF_ALLOC, TEST_GO_RODATA, 0x200, rodata_end - 0x200, 0, 0, 8, 0},
		{go->other_name ? 26 : 15, SHT_PROGBITS, SHF_ALLOC, TEST_GO_RODATA + (section_at - 0x200), section_at,
		 data_at - section_at, 0, 0, 8, 0},
		{39, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, TEST_GO_DATA, data_at, names_at - data_at, 0, 0, 8, 0},
		{45, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, TEST_GO_DATA, data_at, 0, 0, 0, 8, 0},
		{59, SHT_STRTAB, 0, 0, names_at, sizeof(names), 0, 0, 1, 0},
	};
	test_elf_put(out, sections, sizeof(sections));
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_EXEC,
			     .e_machine = EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_phoff = sizeof(Elf64_Ehdr),
			     .e_shoff = go->no_headers ? 0 : sections_at,
			     .e_ehsize = sizeof(Elf64_Ehdr),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = 3,
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = go->no_headers ? 0 : 7,
			     .e_shstrndx = go->no_headers ? 0 : 6};
	Elf64_Phdr segments[3] = {
		{PT_LOAD, PF_R | PF_X, 0x200, TEST_GO_TEXT, TEST_GO_TEXT, 0, 0x60, 0x1000},
		{PT_LOAD, PF_R, 0x200, TEST_GO_RODATA, TEST_GO_RODATA, data_at - 0x200, data_at - 0x200, 0x1000},
		{PT_LOAD, PF_R | PF_W, data_at, TEST_GO_DATA, TEST_GO_DATA, names_at - data_at, names_at - data_at, 0x1000},
	};
	memcpy(out->data, &header, sizeof(header));
	memcpy(out->data + sizeof(header), segments, sizeof(segments));
	test_go_free_parts(&p);
}

#endif
